//! A disk of which a part can fail, be full or give no answer, while the rest works: everything below a directory with a given
//! name, such as that of one partition.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use gapless_log::io::memory::MemoryIo;
use gapless_log::io::{DirectoryLock, File, Io, OpenMode};

/// What is wrong with a part of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Everything fails.
    Fails,
    /// Syncs fail.
    FailsToSync,
    /// There is no room.
    IsFull,
    /// Nothing gives an answer until it is well again.
    Stalls,
}

/// What is asked of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    Read,
    Write,
    Sync,
}

/// The disk. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    pub(crate) memory: MemoryIo,
    state: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Debug, Default)]
struct State {
    /// By the name of a directory.
    troubles: HashMap<String, Trouble>,
    /// Only in directories of this name below them.
    part: Option<String>,
    /// Only once.
    once: bool,
    refused: usize,
    /// Who waits for an answer.
    stalled: usize,
}

impl State {
    fn trouble_at(&self, path: &Path) -> Option<(String, Trouble)> {
        let mut parts = path.iter().map(|part| part.to_str().unwrap());
        let found = parts.find_map(|part| Some((part.to_owned(), *self.troubles.get(part)?)))?;
        match &self.part {
            Some(part) => parts.any(|below| below == part).then_some(found),
            None => Some(found),
        }
    }
}

impl Disk {
    /// From now on something is wrong below directories of this name.
    pub(crate) fn hurt(&self, directory: &str, trouble: Trouble) {
        self.state().troubles.insert(directory.to_owned(), trouble);
    }

    /// The same for directories of the second name below those of the first.
    pub(crate) fn hurt_part(&self, directory: &str, part: &str, trouble: Trouble) {
        self.state().part = Some(part.to_owned());
        self.hurt(directory, trouble);
    }

    /// The first operation below directories of this name fails.
    pub(crate) fn hurt_once(&self, directory: &str) {
        self.state().once = true;
        self.hurt(directory, Trouble::Fails);
    }

    /// They are well again; whoever waited gets his answer.
    pub(crate) fn heal(&self, directory: &str) {
        {
            let mut state = self.state();
            state.troubles.remove(directory);
            (state.part, state.once) = (None, false);
        }
        self.state.1.notify_all();
    }

    /// How many operations wait for an answer.
    pub(crate) fn stalled(&self) -> usize {
        self.state().stalled
    }

    /// How many operations were refused for want of room.
    pub(crate) fn refused(&self) -> usize {
        self.state().refused
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.0.lock().unwrap()
    }

    fn ask(&self, path: &Path, ask: Ask) -> io::Result<()> {
        let mut state = self.state();
        loop {
            let (trouble, name) = match state.trouble_at(path) {
                Some((name, trouble)) => (Some(trouble), name),
                None => (None, String::new()),
            };
            match (trouble, ask) {
                (Some(Trouble::Fails), _) | (Some(Trouble::FailsToSync), Ask::Sync) => {
                    if state.once && name != "consensus" {
                        state.troubles.remove(&name);
                    }
                    return Err(io::Error::other("the disk of this test fails"));
                }
                (Some(Trouble::IsFull), Ask::Write) => {
                    state.refused += 1;
                    return Err(io::ErrorKind::StorageFull.into());
                }
                (Some(Trouble::Stalls), _) => {
                    state.stalled += 1;
                    state = self.state.1.wait(state).unwrap();
                    state.stalled -= 1;
                }
                _ => return Ok(()),
            }
        }
    }
}

impl Io for Disk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        self.ask(path, if mode == OpenMode::Create { Ask::Write } else { Ask::Read })?;
        let file = self.memory.open(path, mode)?;
        Ok(Arc::new(Watched { disk: self.clone(), path: path.to_owned(), file }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.ask(to, Ask::Write)?;
        self.memory.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.ask(path, Ask::Read)?;
        self.memory.remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.ask(dir, Ask::Read)?;
        self.memory.list(dir)
    }

    fn list_dirs(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.ask(dir, Ask::Read)?;
        self.memory.list_dirs(dir)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.ask(dir, Ask::Write)?;
        self.memory.create_dir(dir)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.ask(dir, Ask::Read)?;
        self.memory.remove_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.ask(dir, Ask::Sync)?;
        self.memory.sync_dir(dir)
    }

    fn lock(&self, dir: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        self.ask(dir, Ask::Read)?;
        self.memory.lock(dir)
    }
}

#[derive(Debug)]
struct Watched {
    disk: Disk,
    path: PathBuf,
    file: Arc<dyn File>,
}

impl File for Watched {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.ask(&self.path, Ask::Read)?;
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        // A file that has its room can be written to however full the disk is.
        let has_room = self.file.len()? >= offset + bytes.len() as u64;
        self.disk.ask(&self.path, if has_room { Ask::Read } else { Ask::Write })?;
        self.file.write_at(bytes, offset)
    }

    fn reserve(&self, length: u64) -> io::Result<()> {
        self.disk.ask(&self.path, Ask::Write)?;
        self.file.reserve(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.ask(&self.path, Ask::Sync)?;
        self.file.sync()
    }

    fn forget_cache(&self) -> io::Result<()> {
        self.disk.ask(&self.path, Ask::Read)?;
        self.file.forget_cache()
    }

    fn len(&self) -> io::Result<u64> {
        self.disk.ask(&self.path, Ask::Read)?;
        self.file.len()
    }
}
