//! The whole state of a memory disk: inodes, directories, handles, locks, counters.
//!
//! Invariants
//! - A handle of an earlier generation opens nothing: whoever held it died in a power cut.
//! - An inode stays as long as a name, a pending change of a name, or an open handle leads to it.
//! - Everything is kept in ordered collections: the faulty disk draws its dice along them.
//!
//! Must not know: what decides which pending changes survive; it only asks.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::directory::{Directory, NameChange};
use super::inode::{Change, Inode};
use super::{Counters, power_cut_error};
use crate::io::OpenMode;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::io) struct InodeNumber(u64);

/// Right of one opener to use one inode.
#[derive(Clone, Copy, Debug)]
pub(in crate::io) struct Handle {
    pub(in crate::io) inode: InodeNumber,
    generation: u64,
    writable: bool,
}

/// Right to let go of a lock; worth nothing after a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::io) struct LockToken(u64);

/// Decides what of the pending changes a power cut leaves.
pub(in crate::io) trait Fate {
    fn of_content(&mut self, inode: InodeNumber, pending: Vec<Change>) -> Vec<Change>;
    fn of_names(&mut self, dir: &Path, pending: Vec<NameChange>) -> Vec<NameChange>;
}

#[derive(Clone, Debug)]
pub(in crate::io) struct Disk {
    inodes: BTreeMap<InodeNumber, Inode>,
    directories: BTreeMap<PathBuf, Directory>,
    locks: BTreeMap<PathBuf, LockToken>,
    generation: u64,
    /// The last number given to an inode or a lock.
    last_number: u64,
    pub(super) counters: Counters,
}

impl Default for Disk {
    fn default() -> Self {
        // The root and the working directory are there on every disk.
        let directories = ["/", ""].map(|dir| (PathBuf::from(dir), Directory::default())).into();
        let (inodes, locks, counters) = Default::default();
        Self { inodes, directories, locks, generation: 0, last_number: 0, counters }
    }
}

impl Disk {
    pub(in crate::io) fn open(&mut self, path: &Path, mode: OpenMode) -> io::Result<Handle> {
        let (dir, name) = split(path)?;
        let found = self.directory(dir)?.current().get(name).copied();
        let inode = match (found, mode) {
            (Some(inode), OpenMode::Create) => {
                self.inode_mut(inode).empty();
                inode
            }
            (Some(inode), OpenMode::Read | OpenMode::Write) => inode,
            (None, OpenMode::Create) => {
                let inode = InodeNumber(self.next_number());
                self.inodes.insert(inode, Inode::new(path.to_owned()));
                self.directory_mut(dir)?.change(NameChange::Link { name: name.to_owned(), inode });
                inode
            }
            (None, OpenMode::Read | OpenMode::Write) => return Err(not_found(path)),
        };
        self.inode_mut(inode).handles += 1;
        Ok(Handle { inode, generation: self.generation, writable: mode != OpenMode::Read })
    }

    pub(super) fn close(&mut self, handle: Handle) {
        if handle.generation != self.generation {
            return;
        }
        let inode = self.inode_mut(handle.inode);
        inode.handles -= 1;
        if inode.handles == 0 {
            self.sweep();
        }
    }

    /// The file behind a handle, unless its holder is dead.
    pub(in crate::io) fn file(&self, handle: Handle) -> io::Result<&Inode> {
        if handle.generation != self.generation {
            return Err(power_cut_error());
        }
        Ok(&self.inodes[&handle.inode])
    }

    /// The same, for changing it.
    pub(in crate::io) fn file_mut(&mut self, handle: Handle) -> io::Result<&mut Inode> {
        self.file(handle)?;
        if !handle.writable {
            return Err(Errno::BADF.into());
        }
        Ok(self.inode_mut(handle.inode))
    }

    pub(in crate::io) fn read(
        &mut self,
        handle: Handle,
        buffer: &mut [u8],
        offset: u64,
    ) -> io::Result<usize> {
        let count = self.file(handle)?.current().read(buffer, offset);
        self.counters.reads += 1;
        self.counters.bytes_read += count as u64;
        Ok(count)
    }

    pub(in crate::io) fn write(&mut self, handle: Handle, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let file = self.file_mut(handle)?;
        check_end(offset.saturating_add(bytes.len() as u64))?;
        file.write(bytes, offset);
        self.counters.writes += 1;
        self.counters.bytes_written += bytes.len() as u64;
        Ok(bytes.len())
    }

    pub(in crate::io) fn reserve(&mut self, handle: Handle, length: u64) -> io::Result<()> {
        let file = self.file_mut(handle)?;
        check_end(length)?;
        file.grow(length);
        Ok(())
    }

    pub(in crate::io) fn sync(&mut self, handle: Handle) -> io::Result<()> {
        self.file(handle)?;
        self.inode_mut(handle.inode).sync();
        self.counters.syncs += 1;
        Ok(())
    }

    pub(in crate::io) fn forget_cache(&mut self, handle: Handle) -> io::Result<()> {
        self.file(handle)?;
        self.inode_mut(handle.inode).forget_cache();
        Ok(())
    }

    /// A sync that fails: `survivors` decides what got to the disk, and nothing of the rest is pending any more.
    pub(in crate::io) fn fail_sync(
        &mut self,
        handle: Handle,
        survivors: impl FnOnce(Vec<Change>) -> Vec<Change>,
    ) {
        self.inode_mut(handle.inode).settle(survivors);
    }

    pub(in crate::io) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let (dir, from_name) = split(from)?;
        let (to_dir, to_name) = split(to)?;
        if dir != to_dir {
            // Pending names are kept per directory. The log never moves a file out of its own.
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        let inode = *self.directory(dir)?.current().get(from_name).ok_or_else(|| not_found(from))?;
        self.directory_mut(dir)?.change(NameChange::Rename { to: to_name.to_owned(), inode });
        self.inode_mut(inode).set_path(to.to_owned());
        self.counters.renames += 1;
        Ok(())
    }

    pub(in crate::io) fn remove(&mut self, path: &Path) -> io::Result<()> {
        let (dir, name) = split(path)?;
        let inode = *self.directory(dir)?.current().get(name).ok_or_else(|| not_found(path))?;
        self.directory_mut(dir)?.change(NameChange::Unlink { name: name.to_owned(), inode });
        self.counters.removes += 1;
        Ok(())
    }

    pub(super) fn list_dirs(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.directory(dir)?;
        let below = self.directories.iter().filter(|(path, found)| is_in(path, dir) && !found.is_removed());
        Ok(below.filter_map(|(path, _)| Some(path.file_name()?.to_str()?.to_owned())).collect())
    }

    pub(in crate::io) fn create_dir(&mut self, dir: &Path) {
        let from_above: Vec<&Path> = dir.ancestors().collect();
        for dir in from_above.into_iter().rev() {
            if self.directories.get(dir).is_some_and(Directory::is_removed) {
                self.create_anew(dir);
            }
            self.directories.entry(dir.to_owned()).or_default();
        }
    }

    /// A directory that was removed comes back empty, and durably so.
    fn create_anew(&mut self, dir: &Path) {
        self.forget_directory(dir);
        let (above, name) = split(dir).expect("it was removed by its name");
        if let Some(above) = self.directories.get_mut(above) {
            above.keep_directory(name);
        }
    }

    pub(in crate::io) fn remove_dir(&mut self, dir: &Path) -> io::Result<()> {
        let (above, name) = split(dir)?;
        match self.directory(dir) {
            Err(_) if self.seen(dir).is_ok() => return Err(io::ErrorKind::NotADirectory.into()),
            Err(_) => return Ok(()),
            Ok(_) if self.locks.contains_key(dir) => return Err(held(dir)),
            Ok(found) if found.current().is_empty() && self.list_dirs(dir)?.is_empty() => {}
            Ok(_) => return Err(io::ErrorKind::DirectoryNotEmpty.into()),
        }
        self.directory_mut(dir)?.set_removed();
        self.directory_mut(above)?.change(NameChange::RemoveDirectory { name: name.to_owned() });
        self.counters.removes += 1;
        Ok(())
    }

    pub(in crate::io) fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        self.settle_names(dir, |pending| pending)?;
        self.counters.directory_syncs += 1;
        Ok(())
    }

    /// As [`Disk::fail_sync`], for the names of a directory.
    pub(in crate::io) fn fail_sync_dir(
        &mut self,
        dir: &Path,
        survivors: impl FnOnce(Vec<NameChange>) -> Vec<NameChange>,
    ) -> io::Result<()> {
        self.settle_names(dir, survivors)
    }

    fn settle_names(
        &mut self,
        dir: &Path,
        survivors: impl FnOnce(Vec<NameChange>) -> Vec<NameChange>,
    ) -> io::Result<()> {
        for gone in self.directory_mut(dir)?.settle(survivors) {
            self.forget_directory(&dir.join(gone));
        }
        self.sweep();
        Ok(())
    }

    /// It is gone for good, with all that a power cut would have brought back with it.
    fn forget_directory(&mut self, dir: &Path) {
        self.directories.retain(|path, _| !path.starts_with(dir));
    }

    pub(in crate::io) fn lock(&mut self, dir: &Path) -> io::Result<LockToken> {
        self.directory(dir)?;
        if self.locks.contains_key(dir) {
            return Err(held(dir));
        }
        let token = LockToken(self.next_number());
        self.locks.insert(dir.to_owned(), token);
        Ok(token)
    }

    pub(super) fn unlock(&mut self, dir: &Path, token: LockToken) {
        if self.locks.get(dir) == Some(&token) {
            self.locks.remove(dir);
        }
    }

    /// Everything volatile goes: handles, locks, and of the pending changes those that `fate` does not keep.
    pub(in crate::io) fn power_cut(&mut self, fate: &mut dyn Fate) {
        self.generation += 1;
        self.locks.clear();
        for (number, inode) in &mut self.inodes {
            inode.settle(|pending| fate.of_content(*number, pending));
            inode.reload();
        }
        let mut gone = Vec::new();
        for (path, directory) in &mut self.directories {
            let removed = directory.settle(|pending| fate.of_names(path, pending));
            gone.extend(removed.into_iter().map(|name| path.join(name)));
            directory.reload();
            for (name, number) in directory.current() {
                let inode = self.inodes.get_mut(number).expect("a name leads to an inode");
                inode.set_path(path.join(name));
            }
        }
        for dir in gone {
            self.forget_directory(&dir);
        }
        self.sweep();
    }

    /// The same disk for somebody else: nobody has opened or locked anything on it yet.
    pub(super) fn fork(&self) -> Self {
        let mut fork = self.clone();
        fork.locks.clear();
        fork.counters = Counters::default();
        for inode in fork.inodes.values_mut() {
            inode.handles = 0;
        }
        fork.sweep();
        fork
    }

    pub(in crate::io) fn directory(&self, dir: &Path) -> io::Result<&Directory> {
        self.directories.get(dir).filter(|found| !found.is_removed()).ok_or_else(|| not_found(dir))
    }

    /// The file of a name that can be seen.
    pub(super) fn seen(&self, path: &Path) -> io::Result<&Inode> {
        let (dir, name) = split(path)?;
        let inode = self.directory(dir)?.current().get(name).ok_or_else(|| not_found(path))?;
        Ok(&self.inodes[inode])
    }

    /// The file of a name, for damaging it; of one that is not seen any more but not durably gone either, too.
    pub(in crate::io) fn named(&mut self, path: &Path) -> io::Result<&mut Inode> {
        let inode = self.number_of(path)?;
        Ok(self.inode_mut(inode))
    }

    /// Takes a file and its name away for good, as rot does.
    pub(in crate::io) fn destroy(&mut self, path: &Path) -> io::Result<()> {
        let inode = self.number_of(path)?;
        let (dir, name) = split(path)?;
        self.directory_mut(dir)?.forget(name, inode);
        self.sweep();
        Ok(())
    }

    /// Files that can be seen, ordered by directory and name.
    pub(in crate::io) fn files(&self) -> impl Iterator<Item = (InodeNumber, &Inode)> {
        let named = self.directories.values().flat_map(|directory| directory.current().values());
        named.map(|number| (*number, &self.inodes[number]))
    }

    /// Sum of the lengths of all files that can be seen or are still open.
    pub(in crate::io) fn used_bytes(&self) -> u64 {
        let seen: BTreeSet<_> = self.files().map(|(number, _)| number).collect();
        let alive = |(number, inode): &(&InodeNumber, &Inode)| inode.handles > 0 || seen.contains(number);
        self.inodes.iter().filter(alive).map(|(_, inode)| inode.current().length()).sum()
    }

    fn number_of(&self, path: &Path) -> io::Result<InodeNumber> {
        let (dir, name) = split(path)?;
        self.directory(dir)?.inode_of_any(name).ok_or_else(|| not_found(path))
    }

    fn directory_mut(&mut self, dir: &Path) -> io::Result<&mut Directory> {
        self.directories.get_mut(dir).filter(|found| !found.is_removed()).ok_or_else(|| not_found(dir))
    }

    pub(in crate::io) fn inode_mut(&mut self, inode: InodeNumber) -> &mut Inode {
        self.inodes.get_mut(&inode).expect("an inode stays while something leads to it")
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn sweep(&mut self) {
        let named: BTreeSet<_> = self.directories.values().flat_map(Directory::inodes).collect();
        self.inodes.retain(|number, inode| inode.handles > 0 || named.contains(number));
    }
}

/// Refuses what no operating system has an offset for.
fn check_end(end: u64) -> io::Result<()> {
    match i64::try_from(end) {
        Ok(_) => Ok(()),
        Err(_) => Err(io::ErrorKind::InvalidInput.into()),
    }
}

fn split(path: &Path) -> io::Result<(&Path, &str)> {
    let name = path.file_name().and_then(|name| name.to_str());
    match (path.parent(), name) {
        (Some(dir), Some(name)) => Ok((dir, name)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{} names no file", path.display()))),
    }
}

/// Whether a path is that of something right below a directory.
fn is_in(path: &Path, dir: &Path) -> bool {
    path.parent() == Some(dir) && path.file_name().is_some()
}

fn held(dir: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::WouldBlock, format!("{} is held", dir.display()))
}

fn not_found(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{} does not exist", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> &'static Path {
        Path::new("/")
    }

    fn file() -> &'static Path {
        Path::new("/file")
    }

    #[test]
    fn a_removed_file_takes_room_until_its_name_is_durably_gone_and_nobody_has_it_open() {
        let mut disk = Disk::default();
        let handle = disk.open(file(), OpenMode::Create).expect("there is room");
        disk.sync_dir(root()).expect("the root exists");
        disk.remove(file()).expect("the file exists");
        disk.close(handle);
        assert_eq!(disk.inodes.len(), 1, "a power cut would bring it back");
        disk.sync_dir(root()).expect("the root exists");
        assert_eq!(disk.inodes.len(), 0);
    }

    #[test]
    fn nobody_has_a_file_of_a_fork_open() {
        let mut disk = Disk::default();
        disk.open(file(), OpenMode::Create).expect("there is room");
        disk.remove(file()).expect("the file exists");
        disk.sync_dir(root()).expect("the root exists");
        assert_eq!(disk.inodes.len(), 1);
        assert_eq!(disk.fork().inodes.len(), 0);
    }
}
