//! A real disk whose syncs can be held up, so that what is in flight stays in flight, or fail.

use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use gapless_log::io::real::RealIo;
use gapless_log::io::{DirectoryLock, File, Io, OpenMode};

/// What becomes of syncs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Syncs {
    #[default]
    Work,
    /// They wait until they work again.
    Wait,
    Fail,
}

/// The disk. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(Arc<(Mutex<Syncs>, Condvar)>);

impl Disk {
    /// From now on syncs wait.
    pub(crate) fn hold_up(&self) {
        self.set(Syncs::Wait);
    }

    /// From now on syncs fail.
    pub(crate) fn fail(&self) {
        self.set(Syncs::Fail);
    }

    /// They work again; whoever waited goes on.
    pub(crate) fn heal(&self) {
        self.set(Syncs::Work);
    }

    fn set(&self, syncs: Syncs) {
        *self.0.0.lock().unwrap() = syncs;
        self.0.1.notify_all();
    }

    fn sync(&self) -> io::Result<()> {
        let (syncs, changed) = &*self.0;
        let syncs = changed.wait_while(syncs.lock().unwrap(), |syncs| *syncs == Syncs::Wait).unwrap();
        match *syncs {
            Syncs::Fail => Err(io::Error::other("the disk of this test fails")),
            _ => Ok(()),
        }
    }
}

impl Io for Disk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(Opened { file: RealIo.open(path, mode)?, disk: self.clone() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealIo.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealIo.remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        RealIo.list(dir)
    }

    fn list_dirs(&self, dir: &Path) -> io::Result<Vec<String>> {
        RealIo.list_dirs(dir)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        RealIo.create_dir(dir)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        RealIo.remove_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        RealIo.sync_dir(dir)
    }

    fn lock(&self, dir: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        RealIo.lock(dir)
    }
}

#[derive(Debug)]
struct Opened {
    file: Arc<dyn File>,
    disk: Disk,
}

impl File for Opened {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    fn reserve(&self, length: u64) -> io::Result<()> {
        self.file.reserve(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.sync()?;
        self.file.sync()
    }

    fn forget_cache(&self) -> io::Result<()> {
        self.file.forget_cache()
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}
