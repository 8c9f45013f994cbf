//! Backups: everything a node has at one entry of the replicated log, in a directory, while it goes on serving.
//!
//! ```text
//!  mark through every queue ──▶ views and images at one entry ──▶ pieces: what the directory has not got ──▶ manifest, last
//! ```
//!
//! A backup is the snapshot of a node in another form: of partitions the outcomes (LOG-1), of domains all rows, the catalog, and the
//! entries since the backup before, so that whoever restores can also stop between the two.
//!
//! Must not know: sockets, how a backup gets to another place.

mod directory;
mod error;
mod manifest;
mod piece;
mod taking;

use std::path::PathBuf;
use std::sync::Arc;

use gapless_types::LogIndex;

pub(crate) use directory::Directory;
pub use error::{BackupError, RestoreError};
pub(crate) use manifest::{FileEntry, Manifest, What};
pub(crate) use piece::{PieceReader, entry_of, row_of};

/// How a backup is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupOptions {
    /// A file of a backup is ended when it has this many bytes.
    pub file_bytes: u64,
}

impl Default for BackupOptions {
    fn default() -> Self {
        Self { file_bytes: 256 << 20 }
    }
}

/// How far a backup is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupProgress {
    /// Outcomes that are copied.
    pub outcomes: u64,
    /// Outcomes that are to be copied in all.
    pub of: u64,
    /// Bytes that are written.
    pub bytes: u64,
}

/// Is told how far a backup is, often.
pub type OnBackupProgress = Arc<dyn Fn(BackupProgress) + Send + Sync>;

/// A backup that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupReport {
    /// Where.
    pub dir: PathBuf,
    /// Its place among the backups of the directory, from 1.
    pub number: u64,
    /// Everything up to this entry is in it.
    pub index: LogIndex,
    /// Log time there, in milliseconds.
    pub time: u64,
    /// Partitions.
    pub partitions: usize,
    /// Outcomes of all of them.
    pub outcomes: u64,
    /// Files that it consists of.
    pub files: usize,
    /// Files that were not there yet.
    pub added_files: usize,
    /// Their bytes.
    pub added_bytes: u64,
    /// Whether every entry since the backup before is there, so that a restore can stop at any of them.
    pub continuous: bool,
}
