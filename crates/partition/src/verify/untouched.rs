//! A disk that can be read and on which nothing changes: what is written lies in memory above it. So the code that opens a log
//! or a store, and tidies up what a crash left, can be used by whoever only looks.
//!
//! Must not know: what is in the files.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gapless_log::io::{DirectoryLock, File, Io, OpenMode};

/// Bytes that are kept in memory around each byte that is written.
const BLOCK: u64 = 4096;

/// A disk with a layer of memory above it.
#[derive(Debug)]
pub struct Untouched {
    below: Arc<dyn Io>,
    /// Names that are not as they are below: another file, or none.
    names: Mutex<BTreeMap<PathBuf, Option<Arc<Layer>>>>,
    /// Directories that are below and were removed above.
    removed: Mutex<BTreeSet<PathBuf>>,
}

impl Untouched {
    /// What is below is read, and stays as it is.
    pub fn over(below: Arc<dyn Io>) -> Self {
        Self { below, names: Mutex::default(), removed: Mutex::default() }
    }

    fn removed(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.removed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn names(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Option<Arc<Layer>>>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file with this name, under a layer of memory.
    fn layer(&self, path: &Path) -> io::Result<Arc<Layer>> {
        let mut names = self.names();
        match names.get(path) {
            Some(Some(layer)) => Ok(layer.clone()),
            Some(None) => Err(io::ErrorKind::NotFound.into()),
            None => {
                let layer = Arc::new(Layer::over(self.below.open(path, OpenMode::Read)?)?);
                names.insert(path.to_owned(), Some(layer.clone()));
                Ok(layer)
            }
        }
    }
}

impl Io for Untouched {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        match mode {
            OpenMode::Read | OpenMode::Write => Ok(self.layer(path)?),
            OpenMode::Create => {
                let layer = Arc::new(Layer::default());
                self.names().insert(path.to_owned(), Some(layer.clone()));
                Ok(layer)
            }
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let layer = self.layer(from)?;
        let mut names = self.names();
        names.insert(from.to_owned(), None);
        names.insert(to.to_owned(), Some(layer));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.layer(path)?;
        self.names().insert(path.to_owned(), None);
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        if self.removed().contains(dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut listed = self.below.list(dir)?;
        for (path, layer) in self.names().iter().filter(|(path, _)| path.parent() == Some(dir)) {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            listed.retain(|below| below != name);
            listed.extend(layer.as_ref().map(|_| name.to_owned()));
        }
        Ok(listed)
    }

    fn list_dirs(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut listed = self.below.list_dirs(dir)?;
        let removed = self.removed();
        listed.retain(|name| !removed.contains(&dir.join(name)));
        Ok(listed)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        // One that is not there has nothing to look at, and is not made either.
        self.below.list(dir)?;
        self.removed().remove(dir);
        Ok(())
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        match self.list(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
            Ok(files) if files.is_empty() && self.list_dirs(dir)?.is_empty() => {}
            Ok(_) => return Err(io::ErrorKind::DirectoryNotEmpty.into()),
        }
        self.removed().insert(dir.to_owned());
        Ok(())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, dir: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        self.below.lock(dir)
    }
}

/// A file with blocks of memory above it.
#[derive(Debug, Default)]
struct Layer {
    below: Option<Arc<dyn File>>,
    above: Mutex<Above>,
}

#[derive(Debug, Default)]
struct Above {
    length: u64,
    /// By number. A block has all its bytes, those from below included.
    blocks: BTreeMap<u64, Vec<u8>>,
}

impl Layer {
    fn over(below: Arc<dyn File>) -> io::Result<Self> {
        let above = Above { length: below.len()?, blocks: BTreeMap::new() };
        Ok(Self { below: Some(below), above: Mutex::new(above) })
    }

    fn above(&self) -> MutexGuard<'_, Above> {
        self.above.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block as it is below, with zeros behind the end.
    fn block_below(&self, number: u64) -> io::Result<Vec<u8>> {
        let mut block = vec![0; length(BLOCK)];
        if let Some(below) = &self.below {
            gapless_log::io::read_up_to(&**below, &mut block, number * BLOCK)?;
        }
        Ok(block)
    }
}

impl File for Layer {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let above = self.above();
        // A file that nobody wrote to is read as it is; any other one block by block.
        let most = if above.blocks.is_empty() { u64::MAX } else { BLOCK - offset % BLOCK };
        let left = above.length.saturating_sub(offset).min(most);
        let count = buffer.len().min(length(left));
        let buffer = &mut buffer[..count];
        if count == 0 {
            return Ok(0);
        }
        match above.blocks.get(&(offset / BLOCK)) {
            Some(block) => {
                let start = length(offset % BLOCK);
                buffer.copy_from_slice(&block[start..start + count]);
            }
            None => {
                buffer.fill(0);
                if let Some(below) = &self.below {
                    gapless_log::io::read_up_to(&**below, buffer, offset)?;
                }
            }
        }
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut above = self.above();
        let number = offset / BLOCK;
        let start = length(offset % BLOCK);
        let count = bytes.len().min(length(BLOCK) - start);
        let block = match above.blocks.entry(number) {
            std::collections::btree_map::Entry::Occupied(block) => block.into_mut(),
            std::collections::btree_map::Entry::Vacant(place) => place.insert(self.block_below(number)?),
        };
        block[start..start + count].copy_from_slice(&bytes[..count]);
        above.length = above.length.max(offset + count as u64);
        Ok(count)
    }

    fn reserve(&self, length: u64) -> io::Result<()> {
        let mut above = self.above();
        above.length = above.length.max(length);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn forget_cache(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.above().length)
    }
}

/// Lengths here are at most those of a buffer or a block.
fn length(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use gapless_log::io::memory::MemoryIo;
    use gapless_log::io::{read_exact_at, write_all_at};

    use super::*;

    fn bytes_of(file: &dyn File) -> Vec<u8> {
        let mut bytes = vec![0; length(file.len().unwrap())];
        read_exact_at(file, &mut bytes, 0).unwrap();
        bytes
    }

    #[test]
    fn what_is_written_is_read_above_and_never_gets_below() {
        let below = MemoryIo::new();
        below.create_dir(Path::new("dir")).unwrap();
        let content: Vec<u8> = (0..20_000).map(|at: u32| at.to_le_bytes()[0]).collect();
        for name in ["dir/changed", "dir/removed", "dir/renamed"] {
            let file = below.open(Path::new(name), OpenMode::Create).unwrap();
            write_all_at(&*file, &content, 0).unwrap();
        }
        let disk = Untouched::over(Arc::new(below.clone()));
        let mut expected = content.clone();
        let file = disk.open(Path::new("dir/changed"), OpenMode::Write).unwrap();
        for (at, bytes) in [(4090, vec![1; 20]), (0, vec![2; 3]), (19_990, vec![3; 6000])] {
            write_all_at(&*file, &bytes, at).unwrap();
            let at = usize::try_from(at).unwrap();
            expected.resize(expected.len().max(at + bytes.len()), 0);
            expected[at..at + bytes.len()].copy_from_slice(&bytes);
            assert_eq!(bytes_of(&*file), expected);
        }
        file.reserve(40_000).unwrap();
        expected.resize(40_000, 0);
        assert_eq!(bytes_of(&*file), expected);
        disk.remove(Path::new("dir/removed")).unwrap();
        disk.rename(Path::new("dir/renamed"), Path::new("dir/new name")).unwrap();
        disk.open(Path::new("dir/created"), OpenMode::Create).unwrap();
        let mut names = disk.list(Path::new("dir")).unwrap();
        names.sort();
        assert_eq!(names, ["changed", "created", "new name"]);
        let renamed = disk.open(Path::new("dir/new name"), OpenMode::Read).unwrap();
        assert_eq!(bytes_of(&*renamed), content);
        for gone in ["dir/removed", "dir/renamed"] {
            assert!(disk.open(Path::new(gone), OpenMode::Read).is_err());
        }
        let mut names = below.list(Path::new("dir")).unwrap();
        names.sort();
        assert_eq!(names, ["changed", "removed", "renamed"]);
        assert_eq!(below.bytes_of(Path::new("dir/changed")).unwrap(), content);
    }

    #[test]
    fn a_directory_is_removed_above_when_it_is_empty_there_and_stays_below() {
        let below = MemoryIo::new();
        let dir = Path::new("node/dir");
        below.create_dir(dir).unwrap();
        below.open(&dir.join("file"), OpenMode::Create).unwrap();
        let disk = Untouched::over(Arc::new(below.clone()));
        assert_eq!(disk.remove_dir(dir).unwrap_err().kind(), io::ErrorKind::DirectoryNotEmpty);
        disk.remove(&dir.join("file")).unwrap();
        disk.remove_dir(dir).unwrap();
        disk.remove_dir(dir).unwrap();
        assert_eq!(disk.list(dir).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(disk.list_dirs(Path::new("node")).unwrap(), [""; 0]);
        assert_eq!(below.list(dir).unwrap(), ["file"]);
        disk.create_dir(dir).unwrap();
        assert_eq!(disk.list(dir).unwrap(), [""; 0]);
    }
}
