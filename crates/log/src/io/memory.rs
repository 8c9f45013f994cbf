//! A disk in memory that knows what is durable.
//!
//! Whatever is written is seen at once, and is lost in a power cut unless its sync came first: contents with the sync
//! of their file, names with the sync of their directory. Directories themselves are durable from the start; one that
//! is removed comes back unless the one above it was synced. The cost of a sync follows what is pending, that of a fork
//! how many pages hold anything.
//!
//! Must not know: faults. What survives a power cut other than nothing is decided by the [`super::faulty`] disk.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use self::directory::NameChange;
use self::disk::{Disk, Fate, Handle, InodeNumber, LockToken};
use self::inode::Change;
use super::{DirectoryLock, File, Io, OpenMode};

pub(super) mod content;
pub(super) mod directory;
pub(super) mod disk;
pub(super) mod inode;

/// A disk in memory. Clones are the same disk; [`MemoryIo::fork`] makes another one.
#[derive(Clone, Default)]
pub struct MemoryIo {
    disk: Arc<Mutex<Disk>>,
}

/// What a disk was asked to do since it was made. Only what succeeded is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Calls of [`File::read_at`].
    pub reads: u64,
    /// Bytes they returned.
    pub bytes_read: u64,
    /// Calls of [`File::write_at`].
    pub writes: u64,
    /// Bytes they took.
    pub bytes_written: u64,
    /// Calls of [`File::sync`].
    pub syncs: u64,
    /// Calls of [`Io::sync_dir`].
    pub directory_syncs: u64,
    /// Calls of [`Io::rename`].
    pub renames: u64,
    /// Calls of [`Io::remove`] and [`Io::remove_dir`].
    pub removes: u64,
}

/// The disk has no power, or the handle is one from before the power went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the power was cut")]
pub struct PowerCut;

/// Whether an error says that the power was cut, and nothing about the request.
pub fn is_power_cut(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|source| source.is::<PowerCut>())
}

pub(super) fn power_cut_error() -> io::Error {
    io::Error::other(PowerCut)
}

impl MemoryIo {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// Another disk with the same content, durable and pending alike. Nobody has opened or locked anything on it,
    /// and its counters start at 0.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self { disk: Arc::new(Mutex::new(self.disk().fork())) }
    }

    /// Loses whatever was not synced, and all locks. Handles from before fail from now on.
    pub fn power_cut(&self) {
        self.disk().power_cut(&mut NothingSurvives);
    }

    /// What the disk was asked to do so far.
    pub fn counters(&self) -> Counters {
        self.disk().counters
    }

    /// The sum of all files' lengths, those included that have no name any more and are still open.
    pub fn used_bytes(&self) -> u64 {
        self.disk().used_bytes()
    }

    /// The content of a file as a reader sees it.
    pub fn bytes_of(&self, path: &Path) -> io::Result<Vec<u8>> {
        Ok(self.disk().seen(path)?.current().to_vec())
    }

    /// Damages a file: puts `bytes` into its current and its durable content, behind the back of whoever uses it.
    /// The file grows where they reach behind its end.
    pub fn overwrite(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk().named(path)?.overwrite(bytes, offset);
        Ok(())
    }

    /// Damages a file: gives its current and its durable content this length.
    pub fn set_len(&self, path: &Path, len: u64) -> io::Result<()> {
        self.disk().named(path)?.damage_length(len);
        Ok(())
    }

    pub(super) fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().expect("nothing panics while it holds a disk")
    }

    pub(super) fn file_of(&self, handle: Handle) -> MemoryFile {
        MemoryFile { io: self.clone(), handle }
    }

    pub(super) fn lock_of(&self, dir: &Path, token: LockToken) -> MemoryLock {
        MemoryLock { io: self.clone(), dir: dir.to_owned(), token }
    }
}

impl fmt::Debug for MemoryIo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("MemoryIo").finish_non_exhaustive()
    }
}

impl Io for MemoryIo {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let handle = self.disk().open(path, mode)?;
        Ok(Arc::new(self.file_of(handle)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk().rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk().remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        Ok(self.disk().directory(dir)?.current().keys().cloned().collect())
    }

    fn list_dirs(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk().list_dirs(dir)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk().create_dir(dir);
        Ok(())
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk().remove_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk().sync_dir(dir)
    }

    fn lock(&self, dir: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        let token = self.disk().lock(dir)?;
        Ok(Box::new(self.lock_of(dir, token)))
    }
}

/// An open file of a memory disk.
#[derive(Debug)]
pub(super) struct MemoryFile {
    io: MemoryIo,
    pub(super) handle: Handle,
}

impl MemoryFile {
    pub(super) fn disk(&self) -> MutexGuard<'_, Disk> {
        self.io.disk()
    }
}

impl File for MemoryFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk().read(self.handle, buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.disk().write(self.handle, bytes, offset)
    }

    fn reserve(&self, length: u64) -> io::Result<()> {
        self.disk().reserve(self.handle, length)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk().sync(self.handle)
    }

    fn forget_cache(&self) -> io::Result<()> {
        self.disk().forget_cache(self.handle)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk().file(self.handle)?.current().length())
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        self.disk().close(self.handle);
    }
}

/// Holds a directory of a memory disk.
#[derive(Debug)]
pub(super) struct MemoryLock {
    io: MemoryIo,
    dir: PathBuf,
    token: LockToken,
}

impl DirectoryLock for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.io.disk().unlock(&self.dir, self.token);
    }
}

struct NothingSurvives;

impl Fate for NothingSurvives {
    fn of_content(&mut self, _: InodeNumber, _: Vec<Change>) -> Vec<Change> {
        Vec::new()
    }

    fn of_names(&mut self, _: &Path, _: Vec<NameChange>) -> Vec<NameChange> {
        Vec::new()
    }
}
