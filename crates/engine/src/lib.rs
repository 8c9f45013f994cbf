//! The engine: the corridor that every write walks, and everything that is read. To be embedded, or served.
//!
//! ```text
//!  write ──▶ recall ──▶ admission ──▶ proposing (offsets, log_time, entry) ──▶ consensus, the replicated log
//!                                                                                   │ committed
//!  ack ◀── acks, recall ◀── partition::apply ◀── worker ◀── slot ◀── dispatcher ◀───┘
//!                                    │
//!                                    ├──▶ reads, subscriptions, barriers, projections
//!                                    └──▶ watermarks ──▶ acknowledgements, retention ──▶ keeper: what may be cut
//! ```
//!
//! Half of the modules are values with rules, driven by whoever owns them, and are tested without a thread; the other half are
//! the tasks that drive them.
//!
//! Must not know: sockets, encodings of an interface, users. Time comes through [`log_time::Clock`].

pub mod acknowledgements;
mod acks;
pub mod admission;
mod backup;
mod barriers;
mod catalog;
mod counters;
mod cutting;
mod dispatcher;
mod embedding;
mod engine;
pub mod entry;
mod error;
mod founding;
#[doc(hidden)]
pub mod fuzzing;
mod keeper;
mod keyed;
pub mod limits;
pub mod log_time;
mod machine_version;
pub mod masters;
mod namespaces;
mod node;
mod numbered;
pub mod offsets;
mod pipeline;
pub mod projections;
mod proposing;
mod questions;
mod ranges;
mod reads;
pub mod recall;
mod reinstalling;
mod removal;
mod repair;
mod reports;
mod restore;
pub mod retention;
mod scrubbing;
mod slot;
mod snapshot;
mod statistics;
mod subscription;
mod telling;
pub mod verify;
pub mod watermarks;
mod worker;
mod workers;
mod write;

pub use backup::{BackupError, BackupOptions, BackupProgress, BackupReport, OnBackupProgress, RestoreError};
pub use barriers::{BarrierPlace, Target};
pub use catalog::{Catalog, CatalogCommand, CatalogFileError, Namespace, Projection};
pub use counters::{Rejected, WriteStatistics};
pub use embedding::{EventProof, named_key, runtime_threads};
pub use engine::{Attach, Config, Engine, PartitionReport};
pub use error::{BarrierError, Blocked, CatalogError, NotLeader, OpenError, ReadError, WriteError};
pub use gapless_consensus::{ChangeError, ClusterId, Leader, NodeId, TransferError};
pub use gapless_partition as partition;
pub use gapless_projection as projection;
pub use gapless_types as types;
pub use gapless_types::MachineVersion;
pub use keeper::Housekeeping;
pub use machine_version::UnknownMachineVersion;
pub use numbered::Numbered;
pub use pipeline::{Ended, Pipeline};
pub use projections::{
    DomainReport, DomainState, Freshness, LeaseRequest, Leased, ProjectionError, ProjectionReport,
};
pub use reads::{Consistency, ReadOptions};
pub use repair::{
    PartitionName, RepairError, RepairOptions, RepairReport, RepairSource, Repaired, repair_node,
};
pub use reports::{NoPeers, Peers, Report};
pub use restore::{RestoreOptions, RestorePoint, RestoreProgress, RestoreReport, restore};
pub use slot::{Applied, PartitionState, QueueLimits};
pub use statistics::Statistics;
pub use subscription::{Follow, Followed, Subscription};
pub use workers::JobsTake;
pub use write::{Acknowledgement, WriteOptions};
