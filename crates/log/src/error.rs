//! One error type per family of operations.
//!
//! Refusals are the caller's turn; faults of the disk poison the log, and it must be reopened.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use gapless_types::{Position, SegmentNumber};
use thiserror::Error;

use crate::damage::Damage;
use crate::format::LogId;
use crate::format::control::StateKey;

/// Why a log could not be opened. Nothing was changed.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Another process, or another handle of this one, has the directory.
    #[error("{0} is in use by another process")]
    InUse(PathBuf),
    /// A file that is none of the log's.
    #[error("{0} is not a file of this log; move it away if it does not belong there")]
    ForeignFile(PathBuf),
    /// A segment of another log.
    #[error("segment {segment} belongs to log {found}, the others to {expected}")]
    ForeignSegment {
        /// The segment.
        segment: SegmentNumber,
        /// Whose it is.
        found: LogId,
        /// Whose the others are.
        expected: LogId,
    },
    /// A file of a newer format.
    #[error("segment {segment} has format version {version}; this program knows version 1")]
    UnknownVersion {
        /// The segment.
        segment: SegmentNumber,
        /// Its version.
        version: u32,
    },
    /// A record that this program does not understand, intact.
    #[error(
        "segment {segment} has a record of unknown type or form at byte {offset}; a newer program wrote it"
    )]
    UnknownRecord {
        /// The segment.
        segment: SegmentNumber,
        /// Where the record's frame starts.
        offset: u32,
    },
    /// The only segment has no readable header, and there is something behind it.
    #[error("segment {0} has lost both copies of its header, and no other segment can stand in")]
    HeaderLost(SegmentNumber),
    /// Segments are missing or short.
    #[error("segments are missing or have the wrong length: {}", list(.0))]
    MissingSegments(Vec<Damage>),
    /// A log that should start behind the last position that a log can have.
    #[error("a log cannot start at position {0}")]
    FirstPosition(Position),
    /// The disk failed.
    #[error("cannot {action} {path}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

fn list(damage: &[Damage]) -> String {
    damage.iter().map(Damage::to_string).collect::<Vec<_>>().join("; ")
}

/// What a log is poisoned with: the first write or sync that failed.
#[derive(Clone, Debug, Error)]
#[error("the log failed to {action} and must be reopened: {source}")]
pub struct Fault {
    /// What was tried.
    pub action: &'static str,
    /// What the system said.
    pub source: Arc<io::Error>,
}

/// Why something was not appended. Nothing of it was, unless it says otherwise.
#[derive(Clone, Debug, Error)]
pub enum AppendError {
    /// A batch without records.
    #[error("a batch needs at least one record")]
    EmptyBatch,
    /// Too many records in one batch.
    #[error("a batch of {count} records exceeds the limit of {limit}")]
    TooManyRecords {
        /// How many there are.
        count: usize,
        /// How many may be.
        limit: usize,
    },
    /// A record that is too long.
    #[error("a record of {bytes} bytes exceeds the limit of {limit}")]
    RecordTooLarge {
        /// Its length.
        bytes: usize,
        /// The longest there may be.
        limit: usize,
    },
    /// A batch that does not fit into one frame.
    #[error("a batch of {bytes} bytes with its headers exceeds the frame limit of {limit}")]
    BatchTooLarge {
        /// Its length as stored.
        bytes: usize,
        /// The longest there may be.
        limit: usize,
    },
    /// Appended somewhere else than at the end.
    #[error("the next position is {next}, not {given}")]
    NotNext {
        /// Where the log ends.
        next: Position,
        /// Where the caller wanted to append.
        given: Position,
    },
    /// A position or a segment behind the last one that a log can have.
    #[error("a log ends at {what} {last}")]
    NumbersExhausted {
        /// Which number.
        what: &'static str,
        /// The last one there is.
        last: u64,
    },
    /// Truncation of what has been released.
    #[error("positions below {first} are released and cannot be truncated at {given}")]
    Released {
        /// First position there is.
        first: Position,
        /// Where the caller wanted to cut.
        given: Position,
    },
    /// A repair of something that is not damaged.
    #[error("position {0} is not damaged")]
    NotDamaged(Position),
    /// A state value that is too long, or one key too many.
    #[error("state {key:?} of {bytes} bytes exceeds the limits of a log's small state")]
    StateTooLarge {
        /// The key.
        key: StateKey,
        /// Length of the value.
        bytes: usize,
    },
    /// The writer is behind.
    #[error("{queued} bytes wait to be written, the limit is {limit}; try again when some are")]
    QueueFull {
        /// Bytes waiting.
        queued: u64,
        /// Bytes that may.
        limit: u64,
    },
    /// There is no room for a segment on the disk. Heals when there is.
    #[error("no room for the next segment of {needed} bytes; free some space and try again")]
    DiskFull {
        /// Length of the segment that could not be made.
        needed: u64,
    },
    /// The next segment could not be made for another reason. The log itself is whole; trying again may succeed.
    #[error("the next segment could not be prepared: {0}")]
    NoSegment(Arc<io::Error>),
    /// The log has damage that nobody repaired.
    #[error("the log is read-only: {0}")]
    ReadOnly(Box<Damage>),
    /// A write or a sync failed; whether this batch survives shows when the log is reopened.
    #[error(transparent)]
    Poisoned(#[from] Fault),
    /// The log was closed.
    #[error("the log is closed")]
    Closed,
}

/// Why a position could not be read.
#[derive(Clone, Debug, Error)]
pub enum ReadError {
    /// Below the first position.
    #[error("position {position} is released; the first one is {first}")]
    Released {
        /// What was asked for.
        position: Position,
        /// The first there is.
        first: Position,
    },
    /// At or behind the end.
    #[error("position {position} is not appended yet; the next one is {next}")]
    NotAppended {
        /// What was asked for.
        position: Position,
        /// Where the log ends.
        next: Position,
    },
    /// It was appended, and the log has failed before it was on stable storage: nobody knows whether it is there until the log was
    /// opened again.
    #[error("position {position} is in doubt until the log was opened again: {fault}")]
    InDoubt {
        /// What was asked for.
        position: Position,
        /// What the log has failed with.
        fault: Fault,
    },
    /// Damaged on disk. It is never skipped.
    #[error("position {position} is damaged in segment {segment}")]
    Corrupt {
        /// What was asked for.
        position: Position,
        /// Where it was.
        segment: SegmentNumber,
    },
    /// Gone, and an operator accepted that.
    #[error("position {position} was lost, and the loss was accepted")]
    Lost {
        /// What was asked for.
        position: Position,
    },
    /// The disk failed.
    #[error("segment {segment} could not be read: {source}")]
    Io {
        /// Where.
        segment: SegmentNumber,
        /// What the system said.
        source: Arc<io::Error>,
    },
}
