//! The disk of a node: the faulty disk of the log's tests, seen by one life of a process.
//!
//! Invariants
//! - A life that ended changes nothing any more, and reads nothing.
//! - A power cut in the middle of an operation ends the life at once.
//! - Every operation that changes something is in the trace, with its bytes.
//!
//! Must not know: what files mean, except which partition one belongs to.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use gapless_log::io::faulty::{FaultyIo, PowerCut, is_power_cut};
use gapless_log::io::{DirectoryLock, File, Io, OpenMode};
use twox_hash::XxHash3_64;

use super::life::Life;
use crate::sometimes::{Situation, Sometimes};
use crate::trace::{Trace, note};

/// The directory of the partition whose files cannot be written, if one is broken.
pub(crate) type Broken = Arc<Mutex<Option<String>>>;

/// Writes that are to lie: whether each is lost, or lands elsewhere. Never in the replicated log: what a quorum has is only as true as
/// its disks, and no log can tell a last write that was never made from one that was never asked for.
pub(crate) type Lies = Arc<Mutex<Vec<bool>>>;

/// File and offset of the last write to the replicated log.
pub(crate) type LastWrite = Arc<Mutex<Option<(PathBuf, u64)>>>;

/// A disk as one life sees it.
#[derive(Clone)]
pub(crate) struct LifeDisk {
    pub(crate) disk: FaultyIo,
    pub(crate) life: Arc<Life>,
    pub(crate) broken: Broken,
    pub(crate) lies: Lies,
    pub(crate) last_log_write: LastWrite,
    pub(crate) trace: Trace,
    pub(crate) sometimes: Sometimes,
}

impl LifeDisk {
    /// Does something, if the life goes on; a power cut meanwhile ends it.
    fn run<T>(&self, operation: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if !self.life.is_on() {
            return Err(io::Error::other(PowerCut));
        }
        let result = operation();
        if result.as_ref().is_err_and(is_power_cut) {
            self.sometimes.saw(Situation::CrashDuringDiskOperation);
            self.life.end();
        }
        result
    }

    /// The same for what changes something.
    fn change<T>(
        &self,
        what: &'static str,
        path: &Path,
        details: (u64, u64),
        operation: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_broken = broken.is_some_and(|broken| path.iter().any(|part| part.to_str() == Some(&broken)));
        let result = if is_broken {
            self.run(|| Err(io::Error::other("the files of this partition cannot be written")))
        } else {
            self.run(operation)
        };
        let verdict = match &result {
            Ok(_) => "done".to_owned(),
            Err(error) => {
                if what == "sync" && !is_power_cut(error) {
                    self.sometimes.saw(Situation::SyncFailed);
                }
                if error.kind() == io::ErrorKind::StorageFull {
                    self.sometimes.saw(Situation::DiskFull);
                }
                error.to_string()
            }
        };
        let (life, path) = (&self.life, path.display());
        note!(self.trace, "disk {} {what} {path} {details:?} {verdict}", life.node);
        result
    }
}

impl LifeDisk {
    /// Plans a lie for the write that comes now, if one is due.
    fn lie(&self, path: &Path, offset: u64) {
        if path.iter().any(|part| part.to_str() == Some("consensus")) {
            // It was opened under the name that segments have while they are prepared.
            let name = path.to_string_lossy().replace(".new.tmp", ".segment");
            let last = Some((PathBuf::from(name), offset));
            *self.last_log_write.lock().unwrap_or_else(PoisonError::into_inner) = last;
            return;
        }
        match self.lies.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            Some(true) => self.disk.lose_write_at(self.disk.operations() + 1),
            Some(false) => self.disk.misdirect_write_at(self.disk.operations() + 1),
            None => {}
        }
    }
}

impl fmt::Debug for LifeDisk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("LifeDisk").field(&self.life).finish()
    }
}

impl Io for LifeDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let open = || self.disk.open(path, mode);
        let file = match mode {
            OpenMode::Create => self.change("create", path, (0, 0), open)?,
            OpenMode::Read | OpenMode::Write => self.run(open)?,
        };
        Ok(Arc::new(LifeFile { file, path: path.to_owned(), disk: self.clone() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change("rename", to, (0, 0), || self.disk.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change("remove", path, (0, 0), || self.disk.remove(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.run(|| self.disk.list(dir))
    }

    fn list_dirs(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.run(|| self.disk.list_dirs(dir))
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.run(|| self.disk.create_dir(dir))
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.change("remove directory", dir, (0, 0), || self.disk.remove_dir(dir))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.change("sync directory", dir, (0, 0), || self.disk.sync_dir(dir))
    }

    fn lock(&self, dir: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        self.run(|| self.disk.lock(dir))
    }
}

/// An open file as one life sees it.
struct LifeFile {
    file: Arc<dyn File>,
    path: PathBuf,
    disk: LifeDisk,
}

impl fmt::Debug for LifeFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("LifeFile").field(&self.path).finish()
    }
}

impl File for LifeFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.run(|| self.file.read_at(buffer, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let details = (offset, XxHash3_64::oneshot(bytes));
        self.disk.lie(&self.path, offset);
        self.disk.change("write", &self.path, details, || self.file.write_at(bytes, offset))
    }

    fn reserve(&self, length: u64) -> io::Result<()> {
        self.disk.change("reserve", &self.path, (length, 0), || self.file.reserve(length))
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.change("sync", &self.path, (0, 0), || self.file.sync())
    }

    fn forget_cache(&self) -> io::Result<()> {
        self.disk.run(|| self.file.forget_cache())
    }

    fn len(&self) -> io::Result<u64> {
        self.disk.run(|| self.file.len())
    }
}
