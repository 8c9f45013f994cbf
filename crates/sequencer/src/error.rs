//! What a sequencer refuses, and what can be wrong with the world it lives in.

use std::error::Error;

use gapless_types::{PartitionOffset, SequenceId, WorkspaceKind};

use crate::kinds::MAX_SEQUENCES_PER_KIND;

/// Parameters that no sequencer can work with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParamsError {
    /// A first number of 0, which stands for "none".
    #[error("sequence {sequence} of kind {kind} begins with 0; the smallest number is 1")]
    InitialNumberIsZero {
        /// The kind.
        kind: WorkspaceKind,
        /// The sequence in it.
        sequence: SequenceId,
    },
    /// A sequence with two declarations.
    #[error("kind {kind} declares sequence {sequence} twice")]
    SequenceTwice {
        /// The kind.
        kind: WorkspaceKind,
        /// The sequence in it.
        sequence: SequenceId,
    },
    /// A kind with two declarations.
    #[error("kind {kind} is declared twice")]
    KindTwice {
        /// The kind.
        kind: WorkspaceKind,
    },
    /// More sequences than a kind can have.
    #[error("kind {kind} declares {declared} sequences; the most are {MAX_SEQUENCES_PER_KIND}")]
    TooManySequences {
        /// The kind.
        kind: WorkspaceKind,
        /// How many.
        declared: usize,
    },
    /// A cache that cannot hold anything, or more than can be counted.
    #[error("a cache of {entries} entries; at least 1 and at most {most}", most = crate::budget::MAX_CACHE_ENTRIES)]
    CacheSize {
        /// How many were asked for.
        entries: usize,
    },
    /// A limit of 0, which would refuse everything.
    #[error("`{limit}` is 0; at least 1 is needed")]
    LimitIsZero {
        /// Which one.
        limit: &'static str,
    },
}

/// Why no sequencer was made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NewError {
    /// The parameters are wrong.
    #[error(transparent)]
    Params(#[from] ParamsError),
    /// There is no thread for the background work.
    #[error("cannot start the thread of the sequencer")]
    Spawn(#[source] std::io::Error),
}

/// Why a transaction has to wait. It passes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Busy {
    /// The tail of the log is being read.
    #[error("the tail of the log is being read")]
    Actualizing,
    /// More values than `max_unflushed` wait for the storage.
    #[error("too many values wait for the storage")]
    TooManyUnflushed,
    /// The stored offset is more than `max_lag` behind.
    #[error("the storage is too far behind the log")]
    TooFarBehind,
}

/// What is wrong with the storage beyond trying again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A scan delivered another record than the next one: the log has a gap, or repeats itself.
    #[error("the log's scan delivered offset {delivered} where {expected} was due")]
    NotDense {
        /// The offset that should have come.
        expected: PartitionOffset,
        /// The one that came.
        delivered: PartitionOffset,
    },
    /// Stored numbers cover more than the log holds: they were stored by mistake, or the log has lost its end.
    #[error("numbers are stored up to before offset {stored}, but the log ends before {log_end}")]
    StoredAheadOfLog {
        /// The stored offset: the first that stored numbers do not cover.
        stored: PartitionOffset,
        /// The first offset that the log does not have.
        log_end: PartitionOffset,
    },
    /// A scan said that it was done and had not delivered everything.
    #[error("the log's scan stopped before offset {reached}, but the log ends before {log_end}")]
    ScanStoppedShort {
        /// The first offset that was not delivered.
        reached: PartitionOffset,
        /// The first offset that the log does not have.
        log_end: PartitionOffset,
    },
    /// The log is at the last offset there is.
    #[error("no offset is left in the log")]
    OffsetsExhausted,
    /// The background work is gone: the storage panicked in it.
    #[error("the background work of the sequencer panicked")]
    Panicked,
}

/// Why a transaction was not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Not now. Nothing is wrong; try again later.
    #[error("busy: {0}")]
    Busy(#[from] Busy),
    /// Misuse: nobody declared this kind.
    #[error("workspace kind {kind} is not known")]
    UnknownKind {
        /// The kind.
        kind: WorkspaceKind,
    },
    /// Misuse: the sequencer was closed.
    #[error("the sequencer is closed")]
    Closed,
    /// The sequencer cannot go on; a new one has to be opened once the cause is mended.
    #[error("the sequencer has stopped: {0}")]
    Failed(#[from] Fault),
}

/// Why a number was not given. The transaction stays open.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NextError<E: Error + 'static> {
    /// The workspace's kind has no such sequence.
    #[error("workspace kind {kind} has no sequence {sequence}")]
    UnknownSequence {
        /// The kind of the transaction's workspace.
        kind: WorkspaceKind,
        /// The sequence asked for.
        sequence: SequenceId,
    },
    /// The sequence has issued the largest number there is.
    #[error("sequence {sequence} has no number left")]
    NumbersExhausted {
        /// The sequence.
        sequence: SequenceId,
    },
    /// The last number could not be read.
    #[error("cannot read stored numbers")]
    Storage(#[source] E),
}
