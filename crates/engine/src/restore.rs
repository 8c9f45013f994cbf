//! Restoring a backup: a directory that one node opens as the only voter of a new cluster, with everything of the old one in it.
//!
//! ```text
//!  plan: which files ──▶ check all of them ──▶ mark the directory ──▶ logs, domains, consensus, catalog ──▶ remove the mark
//! ```
//!
//! Invariants
//! - Nothing is written before everything that is needed was read and found good.
//! - A directory with the mark is not opened by an engine. A restore into it begins anew.
//! - Numbers, ids, receipts, proofs and keys are those of the old cluster; its id is not, so that nodes of the old one and of the new
//!   one never take each other for peers.
//!
//! Must not know: sockets, terminals.

mod checking;
mod point;
mod writing;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gapless_consensus::{ClusterId, Identity, NodeId};
use gapless_log::io::{DirectoryLock, Io, OpenMode, write_all_at};
use gapless_types::LogIndex;
use sha2::{Digest, Sha256};

use crate::backup::{BackupError, Directory, RestoreError};
use crate::removal;
pub(crate) use checking::check_file;
pub(crate) use writing::{Appending, Reason};

/// Says that a directory is not finished.
const MARK: &str = "RESTORING";
const MARK_TEXT: &[u8] = b"A restore into this directory was not finished. Run it again.\n";

/// Which moment is restored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RestorePoint {
    /// That of the newest backup.
    #[default]
    Latest,
    /// Behind this entry of the replicated log.
    Index(LogIndex),
    /// Behind the last entry whose log time, in milliseconds, is not later.
    Time(u64),
}

/// How to restore.
#[derive(Clone, Debug)]
pub struct RestoreOptions {
    /// Which moment.
    pub point: RestorePoint,
    /// The node that is to open the directory.
    pub node: NodeId,
    /// Where other nodes will reach it.
    pub address: String,
    /// The id of the new cluster; one that follows from the old one and from `chance` if not given.
    pub cluster: Option<ClusterId>,
    /// Makes the id of the new cluster another one each time.
    pub chance: u128,
    /// The replicated log.
    pub log: gapless_log::Options,
    /// The partitions.
    pub partitions: gapless_partition::Options,
}

impl RestoreOptions {
    /// Everything of the newest backup, for this node.
    pub fn new(node: NodeId, address: impl Into<String>, chance: u128) -> Self {
        Self {
            point: RestorePoint::Latest,
            node,
            address: address.into(),
            cluster: None,
            chance,
            log: gapless_log::Options::replicated(),
            partitions: gapless_partition::Options::new(),
        }
    }
}

/// How far a restore is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreProgress {
    /// Files are checked: so many bytes of so many.
    Checking {
        /// Bytes that were read.
        done: u64,
        /// All of them.
        of: u64,
    },
    /// Files are written: so many bytes of the backup of so many.
    Writing {
        /// Bytes that were taken over.
        done: u64,
        /// All of them.
        of: u64,
    },
}

/// What was restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreReport {
    /// Where.
    pub dir: PathBuf,
    /// The backup that it begins with.
    pub backup: u64,
    /// The last entry whose outcomes are there.
    pub index: LogIndex,
    /// The cluster that was backed up.
    pub from_cluster: ClusterId,
    /// The new cluster.
    pub cluster: ClusterId,
    /// Partitions.
    pub partitions: usize,
    /// Outcomes of all of them.
    pub outcomes: u64,
    /// Entries of the replicated log that the node applies when it is opened.
    pub entries: u64,
    /// Domains of projections.
    pub domains: usize,
    /// Bytes of the backup that were read.
    pub bytes: u64,
}

/// Restores a backup into a directory that is empty or does not exist.
///
/// # Errors
/// If nothing was restored. A directory that was begun is marked: nobody opens it, and a restore into it begins anew.
pub fn restore(
    io: &Arc<dyn Io>,
    from: &Path,
    to: &Path,
    options: &RestoreOptions,
    progress: &mut dyn FnMut(RestoreProgress),
) -> Result<RestoreReport, RestoreError> {
    let directory = Directory::new(io.clone(), from);
    let plan = point::plan(&directory, options.point)?;
    let checked = checking::check(&directory, &plan, progress)?;
    let _held = take(io, to)?;
    let old = plan.base.cluster;
    let cluster = options.cluster.unwrap_or_else(|| new_cluster(old, plan.index, options.chance));
    let identity = Identity { cluster, group: plan.base.group, node: options.node };
    let writing = writing::Writing { directory: &directory, plan: &plan, to, identity, options };
    let written = writing.run(&checked, progress)?;
    finish(io, to)?;
    Ok(RestoreReport {
        dir: to.to_path_buf(),
        backup: plan.base.number,
        index: plan.index,
        from_cluster: old,
        cluster,
        partitions: written.partitions,
        outcomes: written.outcomes,
        entries: written.entries,
        domains: written.domains,
        bytes: checked.bytes,
    })
}

fn new_cluster(old: ClusterId, index: LogIndex, chance: u128) -> ClusterId {
    let mut hash = Sha256::new();
    hash.update(b"gapless restored cluster 1\0");
    hash.update(old.to_bytes());
    hash.update(index.get().to_le_bytes());
    hash.update(chance.to_le_bytes());
    let hash: [u8; 32] = hash.finalize().into();
    ClusterId::from_bytes(*hash.first_chunk().expect("a hash is longer than an id"))
}

/// Whether a restore into a directory was begun and not finished.
pub(crate) fn is_unfinished(io: &dyn Io, dir: &Path) -> io::Result<bool> {
    match io.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        names => Ok(names?.iter().any(|name| name == MARK)),
    }
}

/// Takes the directory, empties it if an earlier restore was not finished, and marks it.
fn take(io: &Arc<dyn Io>, dir: &Path) -> Result<Box<dyn DirectoryLock>, RestoreError> {
    io.create_dir(dir).map_err(BackupError::io("create", dir))?;
    let held = io.lock(dir).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => RestoreError::Busy(dir.to_path_buf()),
        _ => BackupError::io("lock", dir)(error).into(),
    })?;
    let files = io.list(dir).map_err(BackupError::io("list", dir))?;
    let directories = io.list_dirs(dir).map_err(BackupError::io("list", dir))?;
    let is_unfinished = files.iter().any(|name| name == MARK);
    let is_empty = files.is_empty() && directories.is_empty();
    if !is_unfinished && !is_empty {
        return Err(RestoreError::NotEmpty(dir.to_path_buf()));
    }
    for name in directories {
        let below = dir.join(name);
        removal::remove(&**io, &below).map_err(BackupError::io("remove", &below))?;
    }
    // The mark goes last, and stays.
    for name in files.into_iter().filter(|name| name != MARK) {
        let path = dir.join(name);
        io.remove(&path).map_err(BackupError::io("remove", &path))?;
    }
    let mark = dir.join(MARK);
    let file = io.open(&mark, OpenMode::Create).map_err(BackupError::io("create", &mark))?;
    write_all_at(&*file, MARK_TEXT, 0).map_err(BackupError::io("write", &mark))?;
    file.sync().map_err(BackupError::io("sync", &mark))?;
    io.sync_dir(dir).map_err(BackupError::io("sync", dir))?;
    Ok(held)
}

/// Everything is on stable storage: the directory may be opened.
fn finish(io: &Arc<dyn Io>, dir: &Path) -> Result<(), RestoreError> {
    // Names first: the mark must not go while a name could.
    io.sync_dir(dir).map_err(BackupError::io("sync", dir))?;
    let mark = dir.join(MARK);
    io.remove(&mark).map_err(BackupError::io("remove", &mark))?;
    Ok(io.sync_dir(dir).map_err(BackupError::io("sync", dir))?)
}
