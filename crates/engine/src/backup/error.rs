//! What can go wrong with backups and with restoring them. Each says what happened and what was left untouched.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gapless_consensus::ClusterId;
use gapless_types::{LogIndex, PartitionId};
use thiserror::Error;

use crate::retention::Domain;

/// Why there is no backup. Those made earlier are as they were.
#[derive(Clone, Debug, Error)]
pub enum BackupError {
    /// The disk failed.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// Somebody else makes a backup there now.
    #[error("another backup is being made in {0}")]
    Busy(PathBuf),
    /// The directory has something else in it.
    #[error("{0} holds something that is no backup")]
    NotOurs(PathBuf),
    /// The directory holds backups of another cluster.
    #[error("{dir} holds backups of cluster {found}; this one is {own}")]
    OtherCluster {
        /// The directory.
        dir: PathBuf,
        /// Whose they are.
        found: ClusterId,
        /// Which one this is.
        own: ClusterId,
    },
    /// A file of a backup is not what was written.
    #[error("{path} is damaged: {what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The directory lies inside that of the node.
    #[error("{0} lies inside the directory of the node: a backup belongs on another disk")]
    InsideData(PathBuf),
    /// The path depends on where somebody stands.
    #[error("{0} is not an absolute path without `..`")]
    NotAbsolute(PathBuf),
    /// Nothing was ever agreed on.
    #[error("there is nothing to back up yet")]
    NothingYet,
    /// The last backup has more than this node.
    #[error("the last backup is at entry {last}, and this node has got to {here}")]
    Behind {
        /// Where the last backup is.
        last: LogIndex,
        /// Where this node is.
        here: LogIndex,
    },
    /// A partition cannot be read to its end.
    #[error("partition {partition} cannot be backed up: {reason}")]
    Partition {
        /// Which one.
        partition: PartitionId,
        /// Why.
        reason: String,
    },
    /// The state of a projection cannot be read.
    #[error("{domain} cannot be backed up: {reason}")]
    Domain {
        /// Which one.
        domain: Domain,
        /// Why.
        reason: String,
    },
    /// A snapshot of another node is being installed here.
    #[error("a snapshot is being installed on this node")]
    Installing,
    /// The node is closing.
    #[error("the node is closing")]
    Closing,
}

impl BackupError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { action, path, source: Arc::new(source) }
    }

    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_path_buf(), what: what.into() }
    }
}

/// Why nothing was restored.
#[derive(Clone, Debug, Error)]
pub enum RestoreError {
    /// The backup cannot be used as it is, or the disk failed.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// There is no backup.
    #[error("{0} holds no backup")]
    NoBackup(PathBuf),
    /// The directory is in use.
    #[error("{0} is not empty: a backup is restored into an empty directory")]
    NotEmpty(PathBuf),
    /// Somebody restores into it now.
    #[error("something else is being restored into {0}")]
    Busy(PathBuf),
    /// Nothing is known of this moment.
    #[error("cannot restore {wanted}: {reason}. {nearest}")]
    NoSuchPoint {
        /// What was asked for.
        wanted: String,
        /// Why not.
        reason: String,
        /// What could be asked for instead.
        nearest: String,
    },
    /// What was restored could not be written.
    #[error("cannot write {what}: {reason}")]
    Writing {
        /// What.
        what: String,
        /// Why.
        reason: String,
    },
}
