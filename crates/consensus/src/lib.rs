//! Agrees with other nodes on one order of opaque entries: openraft over the log.
//!
//! - [`Replicator`] is all the engine sees of it, [`Machine`] all it sees of the engine.
//! - A single voter walks the same path as a cluster, with one sync per group of proposals and none besides.
//! - An acknowledged entry is on stable storage of a quorum (ACK-1), and dispatched only when it is on stable storage here (WM-1).
//! - What lies on disk has an encoding of its own, drawn in `docs/format.md`.
//!
//! Must not know: partitions, projections, what entries mean; sockets.

// The machine of the tests is written against the crate by its name.
#[cfg(test)]
extern crate self as gapless_consensus;

mod error;
mod format;
mod identity;
pub mod limits;
mod machine;
mod members;
pub mod message;
pub mod network;
mod node;
mod open;
mod proposal;
mod raft;
mod replicator;
mod settings;
mod storage;
mod watcher;
mod watermarks;

pub use error::{
    ChangeError, EntriesError, InstallError, OpenError, ReadPointError, SnapshotError, Stopped, TransferError,
};
pub use identity::{ClusterId, Identity, NodeId, Term};
pub use machine::{Committed, CommittedBody, Machine, MachineFault, SnapshotBody, SnapshotSource};
pub use members::{Members, MembersError};
pub use node::Node;
pub use open::{Config, Start};
pub use proposal::{Leader, ProposalTicket, Refusal};
pub use replicator::{Leadership, Progress, Replicator, Statistics};
pub use settings::Settings;
