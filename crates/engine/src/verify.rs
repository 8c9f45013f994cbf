//! Verification of everything that a node or a backup has on disk, at rest: every checksum, every number, every row against what
//! follows from the logs. Whatever is wrong is named with its file, what it means and what helps.
//!
//! ```text
//!  catalog ─┐
//!  control ─┼─▶ findings ◀── partition: frames of the log ──▶ outcomes, numbers, hashes computed anew ──▶ rows of the store
//!  entries ─┘                └── domains: every row against its effects, every effect of a rule against its event
//! ```
//!
//! Invariants
//! - Nothing on the disk changes.
//! - A byte that differs from what was written is found, or it is one that nobody reads: behind the end of a log, in a segment that was
//!   only prepared, in a file that the next opening removes.
//!
//! Must not know: terminals; how a remedy is written as a command.

mod backups;
mod domains;
mod partitions;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gapless_consensus::inspect_directory;
use gapless_log::io::Io;
use gapless_log::{Damage, Finding as LogFinding};
use gapless_partition::Scratch;
use gapless_types::{LogIndex, PartitionId};
use thiserror::Error;

pub use backups::verify_backup;

use crate::catalog::{CatalogFile, CatalogFileError, StoredCatalog};
use crate::entry::Entry;
use crate::restore;

/// A partition whose log is longer is computed anew only if everything is asked for.
const SAMPLED_BYTES: u64 = 256 << 20;

/// How much is computed anew. Every checksum is checked in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// Partitions that are not very long.
    #[default]
    Sample,
    /// All of them.
    Full,
}

/// What helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Nothing needs to be done: the next opening puts it right.
    NextOpening,
    /// Repair of what follows from the logs.
    Repair,
    /// Repair of a partition out of a backup, or out of another node.
    PartitionFromBackup(PartitionId),
    /// The whole node out of another node or a backup.
    WholeNode,
    /// The restore that made the directory, once more.
    RestoreAgain,
    /// Another copy of the backup.
    OtherCopy,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file or the directory.
    pub path: PathBuf,
    /// What was found, and where in it.
    pub what: String,
    /// What that means.
    pub means: &'static str,
    /// What helps.
    pub remedy: Remedy,
    /// Whether it is damage; what a crash leaves behind is none.
    pub is_damage: bool,
}

/// What is being done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is looked at.
    pub what: String,
    /// So much of it is done.
    pub done: u64,
    /// Of so much.
    pub of: u64,
}

/// Is told what is being done.
pub type OnStep<'a> = &'a mut dyn FnMut(&Step);

/// What was looked at, and what was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Everything that is not as it should be.
    pub findings: Vec<Finding>,
    /// Entries of the replicated log, or backups.
    pub entries: u64,
    /// Partitions.
    pub partitions: usize,
    /// Those of them of which everything was computed anew.
    pub computed: usize,
    /// Outcomes of all partitions.
    pub outcomes: u64,
    /// Events among them, where they were computed anew.
    pub events: u64,
    /// Rows that were read.
    pub rows: u64,
    /// Domains of projections.
    pub domains: usize,
    /// Those of them of which everything was computed anew.
    pub computed_domains: usize,
}

impl Verified {
    /// Whether nothing is damaged.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        !self.findings.iter().any(|finding| finding.is_damage)
    }

    fn damaged(
        &mut self,
        path: impl Into<PathBuf>,
        what: impl Into<String>,
        means: &'static str,
        remedy: Remedy,
    ) {
        let (path, what) = (path.into(), what.into());
        self.findings.push(Finding { path, what, means, remedy, is_damage: true });
    }

    fn left_behind(&mut self, path: impl Into<PathBuf>, what: impl Into<String>) {
        let (path, what) = (path.into(), what.into());
        let means = "a crash left it behind, or somebody put it there; nobody reads it";
        let remedy = Remedy::NextOpening;
        self.findings.push(Finding { path, what, means, remedy, is_damage: false });
    }

    /// Damage of the files of a log, of which positions from `first` on are wanted.
    fn log_damage(&mut self, dir: &Path, damage: &[Damage], first: u64, remedy: Remedy) {
        for found in damage {
            let unwanted = !found.positions.is_empty()
                && found.positions.iter().all(|positions| positions.end.get() <= first);
            let (means, remedy, is_damage) = match found.finding {
                LogFinding::TornTail => (
                    "the last write is incomplete, and nothing says that it was acknowledged",
                    Remedy::NextOpening,
                    false,
                ),
                LogFinding::BadFooter => {
                    ("the index of a segment is bad; its frames say the same", Remedy::NextOpening, true)
                }
                LogFinding::BadHeader => (
                    "a copy of a segment's header is bad; what it said is known from elsewhere",
                    Remedy::NextOpening,
                    true,
                ),
                _ if unwanted => ("bytes have changed that nobody needs any more", Remedy::NextOpening, true),
                _ => ("bytes that were on stable storage have changed or are gone", remedy, true),
            };
            let (path, what) = (dir.to_path_buf(), found.to_string());
            self.findings.push(Finding { path, what, means, remedy, is_damage });
        }
    }
}

/// Why nothing could be verified.
#[derive(Debug, Error)]
pub enum VerifyNodeError {
    /// Somebody has it open.
    #[error("{0} is in use by a process that is running")]
    InUse(PathBuf),
    /// It is none.
    #[error("{0} is not the directory of a node")]
    NoNode(PathBuf),
    /// The disk failed.
    #[error("cannot read {path}: {source}")]
    Io {
        /// What was read.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Verifies the directory of a node that nobody has open. Nothing in it changes.
///
/// # Errors
/// If it cannot be verified. What is found wrong is no error.
pub fn verify_node(
    io: &Arc<dyn Io>,
    dir: &Path,
    scratch: &Scratch,
    depth: Depth,
    step: OnStep<'_>,
) -> Result<Verified, VerifyNodeError> {
    let failed = |source| VerifyNodeError::Io { path: dir.to_path_buf(), source };
    let names = io.list(dir).map_err(failed)?;
    let directories = io.list_dirs(dir).map_err(failed)?;
    let is_node =
        names.iter().any(|name| name == "catalog") || directories.iter().any(|name| name == "consensus");
    if !is_node {
        return Err(VerifyNodeError::NoNode(dir.to_path_buf()));
    }
    let _held = hold(io, &dir.join("consensus").join("log"))?;
    let mut verified = Verified::default();
    if restore::is_unfinished(&**io, dir).map_err(failed)? {
        let means = "a restore was not finished: no node opens the directory";
        verified.damaged(dir, "it is marked as unfinished", means, Remedy::RestoreAgain);
        return Ok(verified);
    }
    let stored = verify_catalog(io, dir, &names, &mut verified);
    let last = verify_consensus(io, dir, stored.as_ref(), &mut verified, step);
    let looked = partitions::Looking { io, dir, scratch, depth, last };
    looked.all(stored.as_ref(), &mut verified, step);
    verify_names(dir, &names, &directories, &mut verified);
    Ok(verified)
}

/// Nobody else may have it open.
pub(crate) fn hold(
    io: &Arc<dyn Io>,
    dir: &Path,
) -> Result<Option<Box<dyn gapless_log::io::DirectoryLock>>, VerifyNodeError> {
    if io.list(dir).is_err() {
        return Ok(None);
    }
    match io.lock(dir) {
        Ok(held) => Ok(Some(held)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(VerifyNodeError::InUse(dir.to_path_buf()))
        }
        Err(source) => Err(VerifyNodeError::Io { path: dir.to_path_buf(), source }),
    }
}

fn verify_catalog(
    io: &Arc<dyn Io>,
    dir: &Path,
    names: &[String],
    verified: &mut Verified,
) -> Option<StoredCatalog> {
    let path = dir.join("catalog");
    let means = "which namespaces there are is not known: the node does not open";
    if !names.iter().any(|name| name == "catalog") {
        verified.damaged(path, "it is missing", means, Remedy::Repair);
        return None;
    }
    match CatalogFile::new(io.clone(), dir).read() {
        Ok(stored) => Some(stored),
        Err(CatalogFileError::Damaged { path, what }) => {
            verified.damaged(path, what, means, Remedy::Repair);
            None
        }
        Err(error) => {
            verified.damaged(path, error.to_string(), means, Remedy::WholeNode);
            None
        }
    }
}

/// Control file and replicated log; the entry behind the last.
fn verify_consensus(
    io: &Arc<dyn Io>,
    dir: &Path,
    stored: Option<&StoredCatalog>,
    verified: &mut Verified,
    step: OnStep<'_>,
) -> Option<LogIndex> {
    let consensus = dir.join("consensus");
    let mut done = 0;
    let inspected = inspect_directory(io, &consensus, &mut |entry| {
        done += 1;
        if done % 1024 == 0 {
            step(&Step { what: "replicated log".to_owned(), done, of: done });
        }
        let gapless_consensus::CommittedBody::Entry(bytes) = &entry.body else { return None };
        Entry::decode(bytes).err().map(|error| error.to_string())
    });
    verified.entries = inspected.entries;
    for (path, what) in inspected.wrong {
        let means = "what the node agreed on with others is not known: it does not open, or must not vote";
        verified.damaged(path, what, means, Remedy::WholeNode);
    }
    let log = consensus.join("log");
    verified.log_damage(&log, &inspected.log_damage, inspected.first.get(), Remedy::WholeNode);
    let (cluster, own) = (stored.and_then(|stored| stored.cluster), inspected.identity);
    if let (Some(cluster), Some(own)) = (cluster, own)
        && cluster != own.cluster
    {
        let what = format!("the catalog is of cluster {cluster}, the control file of {}", own.cluster);
        verified.damaged(dir, what, "files of two nodes are mixed", Remedy::WholeNode);
    }
    let covered = stored.and_then(|stored| stored.covered);
    let behind = covered.and_then(LogIndex::next).unwrap_or(LogIndex::FIRST);
    if stored.is_some() && (behind < inspected.first || behind > inspected.next) {
        let what = format!(
            "partitions have everything in front of entry {behind}, and the log has entries {} to {}",
            inspected.first, inspected.next
        );
        verified.damaged(log, what, "entries between partitions and log are gone", Remedy::WholeNode);
    }
    Some(inspected.next)
}

/// Files and directories that belong to nobody.
fn verify_names(dir: &Path, names: &[String], directories: &[String], verified: &mut Verified) {
    for name in names.iter().filter(|name| *name != "catalog") {
        verified.left_behind(dir.join(name), "a file that belongs to nobody");
    }
    let others = directories.iter().filter(|name| !["partitions", "consensus"].contains(&name.as_str()));
    for name in others {
        verified.left_behind(dir.join(name), "a directory that belongs to nobody");
    }
}
