//! What can go wrong that is no outcome: the caller's mistakes, and failures of the world.

use gapless_log::{AppendError, ReadError as LogReadError};
use gapless_store::{
    ApplyError as StoreApplyError, BatchError, CheckpointError, MaintainError, ReadError as StoreReadError,
};
use gapless_types::PartitionOffset;
use thiserror::Error;

use crate::codec::Malformed;
use crate::trust::SequenceViolation;

/// What the world did. The partition stops with it and changes nothing any more; reopened, it reads its tail and continues.
#[derive(Clone, Debug, Error)]
pub enum Fault {
    /// The store could not be read. If it is damaged, it is rebuilt when the partition is reopened.
    #[error("the store cannot be read: {0}")]
    StoreRead(#[from] StoreReadError),
    /// The store did not take a batch.
    #[error("the store does not take a batch: {0}")]
    StoreApply(#[from] StoreApplyError),
    /// A batch larger than the store takes.
    #[error("an outcome is too large for the store: {0}")]
    Batch(#[from] BatchError),
    /// The partition log did not take an outcome, or it is not known whether it did.
    #[error("the partition log does not take an outcome: {0}")]
    Append(#[from] AppendError),
    /// The partition log could not be read.
    #[error("the partition log cannot be read: {0}")]
    LogRead(#[from] LogReadError),
    /// A row of the store that this program did not write.
    #[error("a row of the store has another form: {0}")]
    Row(Malformed),
    /// A record of the partition log that this program did not write.
    #[error("record {offset} of the partition log has another form: {malformed}")]
    Record {
        /// Which one.
        offset: PartitionOffset,
        /// What is wrong.
        malformed: Malformed,
    },
    /// The store has something where nothing should be yet: the partition is quarantined on this node.
    #[error(transparent)]
    Violation(Box<SequenceViolation>),
    /// A record of the partition log that contradicts itself.
    #[error("the partition log holds {0}")]
    Log(&'static str),
    /// The memory of the node is full, and a checkpoint that would give some back could not be made.
    #[error("the memory is full, and no checkpoint could be made: {0}")]
    Checkpoint(String),
    /// The sequencer cannot go on.
    #[error("the sequencer has stopped: {0}")]
    Sequencer(String),
}

impl Fault {
    /// Whether nothing is wrong with what is on disk: the log could not be written any more, and the partition is opened again.
    pub fn passes(&self) -> bool {
        matches!(self, Fault::LogRead(LogReadError::InDoubt { .. }))
    }

    /// A row of the store that is not what it should be.
    pub(crate) const fn row(what: &'static str) -> Self {
        Fault::Row(Malformed { what, at: 0 })
    }

    /// Whether the partition is quarantined: it can be read as it is, and nothing is applied until somebody repaired it.
    pub fn is_quarantine(&self) -> bool {
        matches!(self, Fault::Violation(_))
    }

    /// Whether the store itself is damaged, so that it has to be discarded and rebuilt from the partition log.
    pub fn is_store_damage(&self) -> bool {
        matches!(self, Fault::StoreRead(StoreReadError::Damaged(_)) | Fault::Row(_))
    }
}

/// Why a record got no outcome.
#[derive(Clone, Debug, Error)]
pub enum ApplyError {
    /// Not the record that comes next.
    #[error("the next record has offset {expected}, not {given}")]
    NotNext {
        /// The one that does.
        expected: PartitionOffset,
        /// The one that was given.
        given: PartitionOffset,
    },
    /// There is another outcome at this offset than one of this record: replicas have diverged, or the logs do not belong
    /// together.
    #[error("offset {offset} holds the outcome of another record")]
    Diverged {
        /// Which offset.
        offset: PartitionOffset,
    },
    /// The world failed, now or earlier.
    #[error("the partition has stopped: {0}")]
    Stopped(#[from] Fault),
}

/// Why a checkpoint was not made. The one before it is still valid.
#[derive(Clone, Debug, Error)]
pub enum CheckpointFailed {
    /// The partition log could not be synced: the partition has stopped.
    #[error("the partition has stopped: {0}")]
    Stopped(#[from] Fault),
    /// The store could not write it.
    #[error(transparent)]
    Store(#[from] CheckpointError),
    /// The store could not be merged first.
    #[error(transparent)]
    Maintain(#[from] MaintainError),
}
