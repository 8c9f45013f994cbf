//! The deterministic state machine of Gapless: it turns a record of the log into an outcome.
//!
//! A partition is given records in log order, one at a time, with the time that the leader wrote into the entry. For each it
//! appends exactly one outcome to its own log, and folds it into its state. The log is the truth (LOG-1): the store holds what
//! follows from it, as of a checkpoint, and can be rebuilt at any time.
//!
//! - NUM-1: every number of a kind is dense and increasing in its scope.
//! - NUM-2: what was refused consumed nothing.
//! - NUM-3: the same records give the same numbers, bytes and state, on every replica and on every replay.
//!
//! Must not know: clocks, sockets, random numbers, Raft, other partitions. Time comes inside the records; disk and memory come
//! through [`gapless_log::io::Io`] and [`Options`].

mod apply;
mod checkpointing;
mod codec;
mod command;
mod conditions;
mod definition;
mod error;
mod hashes;
mod idempotency;
mod numbers;
mod open;
mod outcome;
mod partition;
mod pending;
mod proofs;
mod read_ahead;
mod recent;
mod rows;
mod schema;
mod shared_store;
mod state;
mod stop;
mod stored;
mod stored_numbers;
mod syncing;
mod tail;
mod tiles;
mod trust;
mod turns;
mod verify;
mod view;
mod write;

pub use checkpointing::Checkpointing;
pub use codec::Malformed;
pub use command::{Command, Record};
pub use definition::{AtCap, DEFAULT_KIND, Definition, IdempotencyRule, RecordRule, TrustLevel};
pub use error::{ApplyError, CheckpointFailed, Fault};
pub use gapless_proof as proof;
pub use gapless_store::{Direction, Retired};
pub use open::{OpenError, Opened, Opening, Options};
pub use outcome::{
    Committed, Header, Outcome, OutcomeKind, Refusal, RefusalCode, RequestDigest, TransactionId,
};
pub use partition::Partition;
pub use proofs::ProofError;
pub use rows::record::RecordRow;
pub use schema::{Kind, RECORD_ID, Schema, Sequence, WORKSPACE_OFFSET};
pub use stored::StoredOutcome;
pub use syncing::Syncing;
pub use trust::{Entry, SequenceViolation};
pub use verify::{
    Difference, Phase, Place, Scratch, StoreCheck, Untouched, Verified, VerifyError, read_store, verify,
};
pub use view::{Entity, Precedent, SequenceState, StoredRecord, View, Workspace};
pub use write::{Condition, NewId, Operation, Value, Violation, Write};
