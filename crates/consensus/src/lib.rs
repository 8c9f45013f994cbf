//! Agrees with other nodes on one order of opaque entries: openraft over the log.
//!
//! - [`Replicator`] is all the engine sees of it, [`Machine`] all it sees of the engine.
//! - A single voter walks the same path as a cluster, with one sync per group of proposals and none besides.
//! - An acknowledged entry is on stable storage of a quorum (ACK-1), and dispatched only when it is on stable storage here (WM-1).
//! - What lies on disk has an encoding of its own, drawn in `docs/format.md`.
//!
//! Must not know: partitions, projections, what entries mean; sockets.
//!
//! ```
//! # use std::sync::Arc;
//! # use bytes::Bytes;
//! # use futures_util::future::BoxFuture;
//! # use gapless_consensus::*;
//! # use gapless_types::{GroupId, LogIndex};
//! use gapless_consensus::network::Nobody;
//! use gapless_log::io::real::RealIo;
//!
//! /// A machine that keeps nothing: everything is dispatched again after a restart.
//! struct Forgetful;
//! impl Machine for Forgetful {
//!     fn dispatch(&self, _: Committed) -> Result<(), MachineFault> {
//!         Ok(())
//!     }
//!     fn resume_after(&self) -> Option<LogIndex> {
//!         None
//!     }
//! #     fn snapshot(&self, _: LogIndex) -> BoxFuture<'static, Result<Arc<dyn SnapshotSource>, MachineFault>> {
//! #         Box::pin(async { Err(MachineFault::new("it keeps nothing")) })
//! #     }
//! #     fn install(&self, _: LogIndex, _: Box<dyn SnapshotBody>) -> BoxFuture<'static, Result<(), MachineFault>> {
//! #         Box::pin(async { Err(MachineFault::new("it keeps nothing")) })
//! #     }
//!     // ... and snapshots.
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! # let directory = tempfile::tempdir()?;
//! let node = NodeId::new(1);
//! let identity = Identity { cluster: ClusterId::from_bytes([7; 16]), group: GroupId::FIRST, node };
//! let members = Members::alone(node, "127.0.0.1:7000")?;
//! let config = Config::new(identity, directory.path().join("consensus"), Start::Found(members));
//! let node = Node::open(Arc::new(RealIo), Arc::new(Nobody), Arc::new(Forgetful), config).await?;
//!
//! node.leadership().wait_for(|now| now.is_ready()).await?;
//! let index = node.propose(Bytes::from("an entry")).await?;
//! assert_eq!(node.read_point().await?, index);
//! node.close().await?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// The machine of the tests is written against the crate by its name.
#[cfg(test)]
extern crate self as gapless_consensus;

mod error;
mod format;
#[doc(hidden)]
pub mod fuzzing;
mod hearing;
mod identity;
mod inspecting;
pub mod limits;
mod machine;
mod members;
pub mod message;
pub mod network;
mod node;
mod open;
mod probation;
mod proposal;
mod raft;
mod refounding;
mod replicator;
mod settings;
mod storage;
mod watcher;
mod watermarks;

pub use error::{
    AskError, ChangeError, EntriesError, InstallError, OpenError, ReadPointError, SnapshotError, Stopped,
    TransferError,
};
pub use identity::{ClusterId, Identity, NodeId, Term};
pub use inspecting::{Inspected, inspect_directory};
pub use machine::{Committed, CommittedBody, Machine, MachineFault, SnapshotBody, SnapshotSource};
pub use members::{Members, MembersError};
pub use node::Node;
pub use open::{Config, Start};
pub use proposal::{Leader, ProposalTicket, Refusal};
pub use refounding::Refounding;
pub use replicator::{Leadership, Progress, Replicator, Statistics};
pub use settings::Settings;
