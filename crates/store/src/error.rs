//! One error type per family of operations.
//!
//! Refusals (a limit, a full memory, a full disk) change nothing and can be tried again. Damage is for the owner to
//! answer: discard the store and fold the log again.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

use crate::position::BucketId;

/// Bytes on the disk that are not what was written there.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{path} is damaged in the {length} bytes from {offset} on: {what}")]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Where in it.
    pub offset: u64,
    /// How many bytes were looked at.
    pub length: u64,
    /// What is wrong with them.
    pub what: &'static str,
}

/// The disk failed.
#[derive(Clone, Debug, Error)]
#[error("cannot {action} {path}: {source}")]
pub struct DiskError {
    /// What was tried.
    pub action: &'static str,
    /// On what.
    pub path: PathBuf,
    /// What the system said.
    pub source: Arc<io::Error>,
}

impl DiskError {
    /// Whether only room is missing.
    pub fn is_full(&self) -> bool {
        self.source.kind() == io::ErrorKind::StorageFull
    }
}

/// Why a store could not be opened. Nothing was changed.
#[derive(Clone, Debug, Error)]
pub enum OpenError {
    /// Another process, or another handle of this one, has the directory.
    #[error("{0} is in use by another process")]
    InUse(PathBuf),
    /// A file of a newer format.
    #[error("{path} has format version {version}; this program knows version {}", crate::FORMAT_VERSION)]
    UnknownVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// Something that the last checkpoint needs is not what it was. Discard the store and rebuild it.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// Why a row could not be read.
#[derive(Clone, Debug, Error)]
pub enum ReadError {
    /// The bytes that hold it are not what was written. Discard the store and rebuild it.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// Why an operation was not added to a batch. The batch is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BatchError {
    /// A key that is too long.
    #[error("a key of {bytes} bytes exceeds the limit of {limit}")]
    KeyTooLong {
        /// Its length.
        bytes: usize,
        /// The longest there may be.
        limit: usize,
    },
    /// A value that is too long.
    #[error("a value of {bytes} bytes exceeds the limit of {limit}")]
    ValueTooLong {
        /// Its length.
        bytes: usize,
        /// The longest there may be.
        limit: usize,
    },
    /// Too many operations.
    #[error("a batch holds at most {limit} operations")]
    TooManyRows {
        /// How many there may be.
        limit: usize,
    },
    /// Too many bytes.
    #[error("a batch of {bytes} bytes exceeds the limit of {limit}")]
    TooManyBytes {
        /// How many there would be.
        bytes: usize,
        /// How many there may be.
        limit: usize,
    },
}

/// Why a batch was not applied. Nothing of it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ApplyError {
    /// The memtables of the node have reached their ceiling. Heals with a checkpoint, of this store or of another.
    #[error(
        "the batch needs {needed} bytes of memory, {used} of {ceiling} are used; try again after a checkpoint"
    )]
    MemoryFull {
        /// What the batch may take.
        needed: u64,
        /// What all memtables take.
        used: u64,
        /// What they may.
        ceiling: u64,
    },
    /// One bucket too many.
    #[error("bucket {bucket} would be one more than the {limit} there may be; drop some first")]
    TooManyBuckets {
        /// The first that has no room.
        bucket: BucketId,
        /// How many there may be.
        limit: usize,
    },
}

/// Why a checkpoint was not made. No row is lost, and the one before it is still there, unless the error says that
/// the directory could not be synced: then either of the two is found after a crash.
#[derive(Clone, Debug, Error)]
pub enum CheckpointError {
    /// The one before it is neither published nor dropped.
    #[error("a checkpoint is under way; publish or drop it first")]
    Underway,
    /// There are so many runs that reading would become slow. Heals with maintenance.
    #[error("{runs} runs wait to be merged, the limit is {limit}; call maintain first")]
    MaintenanceDue {
        /// Runs of the space that has the most.
        runs: usize,
        /// How many there may be.
        limit: usize,
    },
    /// The disk failed or is full.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// Why a step of maintenance failed. Nothing is lost; the merge starts over with the next step.
#[derive(Clone, Debug, Error)]
pub enum MaintainError {
    /// A run could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The merged run could not be written or published.
    #[error(transparent)]
    Disk(#[from] DiskError),
}
