//! The vocabulary of Gapless: what its numbers, ids and names are, and how large anything may become.
//!
//! Every number has a type of its own, with a first value and a unit, so that an offset of a workspace cannot
//! be handed to something that expects an offset of a partition. Constructors refuse what is wrong.
//!
//! Must not know: files, sockets, clocks, the environment, how a value is stored or sent.

mod client;
mod ids;
pub mod limits;
mod log;
mod machine_version;
#[doc(hidden)]
pub mod mistakes;
mod name;
mod number;
mod positions;
mod record_id;

pub use client::{ClientId, ClientIdError, IdempotencyKey, IdempotencyKeyError};
pub use ids::{
    GroupId, NamespaceId, NodeId, PartitionId, PartitionIndex, SequenceId, Term, WorkspaceId, WorkspaceKind,
};
pub use log::{FrameNumber, Position, SegmentNumber};
pub use machine_version::MachineVersion;
pub use name::{Name, NameError};
pub use number::OutOfRange;
pub use positions::{ClientSequence, LogIndex, PartitionOffset, WorkspaceOffset};
pub use record_id::{RecordId, RecordIdKind};
