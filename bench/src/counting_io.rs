//! The disk of the operating system with a count of what the log asks of it.
//!
//! What a log counts about itself leaves out what it does off the commit path; here nothing is left out. The kernel's
//! own counters do not help: they count pieces of the page cache, which span up to 2 MiB.
//!
//! Must not know: segments, frames, records; what is measured.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gapless_log::io::real::RealIo;
use gapless_log::io::{DirectoryLock, File, Io, OpenMode};

/// A disk reads and writes nothing smaller.
const BLOCK_BYTES: u64 = 4096;

/// Real files, and a count.
#[derive(Debug, Default)]
pub(crate) struct CountingIo {
    disk: RealIo,
    tally: Arc<Tally>,
}

/// What was asked of the disk so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Bytes that reads returned.
    pub(crate) read_bytes: u64,
    /// Bytes of all blocks that a read touched, each counted once: what a disk with a cold cache has to deliver.
    pub(crate) touched_bytes: u64,
    pub(crate) written_bytes: u64,
    /// Of files, not of directories.
    pub(crate) syncs: u64,
}

#[derive(Debug, Default)]
struct Tally {
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    syncs: AtomicU64,
    touched: Mutex<BTreeMap<PathBuf, BTreeSet<u64>>>,
}

impl CountingIo {
    pub(crate) fn asked(&self) -> Asked {
        let tally = &self.tally;
        let blocks: usize = tally.touched().values().map(BTreeSet::len).sum();
        Asked {
            read_bytes: tally.read_bytes.load(Relaxed),
            touched_bytes: blocks as u64 * BLOCK_BYTES,
            written_bytes: tally.written_bytes.load(Relaxed),
            syncs: tally.syncs.load(Relaxed),
        }
    }
}

impl Tally {
    fn touched(&self) -> MutexGuard<'_, BTreeMap<PathBuf, BTreeSet<u64>>> {
        // A count that a panic left is still a count.
        self.touched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_read(&self, path: &Path, offset: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        self.read_bytes.fetch_add(bytes, Relaxed);
        let blocks = offset / BLOCK_BYTES..=(offset + bytes - 1) / BLOCK_BYTES;
        self.touched().entry(path.to_path_buf()).or_default().extend(blocks);
    }
}

impl Io for CountingIo {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let file = self.disk.open(path, mode)?;
        Ok(Arc::new(CountingFile { file, path: path.to_path_buf(), tally: self.tally.clone() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn list_dirs(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list_dirs(dir)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir(dir)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.remove_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }

    fn lock(&self, dir: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        self.disk.lock(dir)
    }
}

#[derive(Debug)]
struct CountingFile {
    file: Arc<dyn File>,
    /// As it was opened: one file under two names counts twice.
    path: PathBuf,
    tally: Arc<Tally>,
}

impl File for CountingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.file.read_at(buffer, offset)?;
        self.tally.note_read(&self.path, offset, read as u64);
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let written = self.file.write_at(bytes, offset)?;
        self.tally.written_bytes.fetch_add(written as u64, Relaxed);
        Ok(written)
    }

    fn fill(&self, range: Range<u64>) -> io::Result<()> {
        self.tally.written_bytes.fetch_add(range.end - range.start, Relaxed);
        self.file.fill(range)
    }

    fn reserve(&self, length: u64) -> io::Result<()> {
        self.file.reserve(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.tally.syncs.fetch_add(1, Relaxed);
        self.file.sync()
    }

    fn forget_cache(&self) -> io::Result<()> {
        self.file.forget_cache()
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

#[cfg(test)]
mod tests {
    use gapless_log::io::{read_exact_at, write_all_at};

    use super::*;

    #[test]
    fn a_block_that_is_glanced_at_twice_is_touched_once() {
        let home = tempfile::tempdir().unwrap();
        let disk = CountingIo::default();
        let file = disk.open(&home.path().join("file"), OpenMode::Create).unwrap();
        write_all_at(&*file, &[7; 3 * 4096], 0).unwrap();
        file.sync().unwrap();
        let mut glance = [0; 64];
        for offset in [0, 128, 4096 - 32] {
            read_exact_at(&*file, &mut glance, offset).unwrap();
        }
        let expected =
            Asked { read_bytes: 3 * 64, touched_bytes: 2 * 4096, written_bytes: 3 * 4096, syncs: 1 };
        assert_eq!(disk.asked(), expected);
    }
}
