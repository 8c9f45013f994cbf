//! The wire contract of Gapless, and what each of its calls means to an engine.
//!
//! ```text
//!  proto/gapless/v1/*.proto ──▶ v1: messages, clients, servers
//!  request ──▶ check (every violation at once) ──▶ LedgerCalls, AdminCalls, ProjectionCalls ──▶ engine
//!  answer  ◀── conversions ◀──────────────────────────────────────┘
//!  Problem ◀──▶ a status with ErrorInfo, RetryInfo and BadRequest
//! ```
//!
//! A server puts these calls behind a socket; a program that embeds the engine can make them directly, and gets the same answers.
//!
//! Must not know: sockets, users, how the engine keeps its promises.

pub mod admin;
mod backup;
mod barrier;
pub mod check;
pub mod definition;
pub mod event;
#[doc(hidden)]
pub mod fuzzing;
pub mod json;
pub mod key;
pub mod ledger;
mod namespaces;
mod nodes;
mod page;
mod paging;
pub mod problem;
pub mod projections;
mod read_all;
mod reading;
mod repair;
pub mod settings;
mod status;
pub mod trace;
mod unknown;
pub mod unsent;
pub mod write;
mod write_stream;

pub use admin::AdminCalls;
pub use backup::{BackupAnswers, BackupPlaces, backup_made};
pub use ledger::LedgerCalls;
pub use nodes::OtherNodes;
pub use problem::{Problem, ProblemKind, Violation};
pub use projections::ProjectionCalls;
pub use unsent::{Unsent, UnsentLimit};
pub use write_stream::InFlight;

/// Everything that the protocol says, as messages and services.
#[allow(
    missing_docs,
    clippy::all,
    unreachable_pub,
    reason = "it is generated; its documentation is in the .proto files"
)]
pub mod v1 {
    tonic::include_proto!("gapless.v1");
}

/// The protocol as a set of file descriptors, for reflection.
pub const FILE_DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/gapless.v1.bin"));
