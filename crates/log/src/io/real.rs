//! The disk of the operating system: plain files, positioned reads and writes, `fdatasync`. Unix only.
//!
//! A directory is held by an advisory lock on a file named `LOCK` in it. That file is ours and belongs to nobody's
//! data, so it is never listed.
//!
//! Must not know: segments, frames, records; when something needs a sync.

use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::{DirectoryLock, File, Io, OpenMode, write_zeros};

/// Name of the file whose lock stands for its directory.
const LOCK_FILE: &str = "LOCK";

/// Files of the operating system. Unix only.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealIo;

impl Io for RealIo {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let create = mode == OpenMode::Create;
        let file = fs::OpenOptions::new()
            .read(true)
            .write(mode != OpenMode::Read)
            .create(create)
            .truncate(create)
            .open(path)
            .map_err(quota_as_full)?;
        Ok(Arc::new(RealFile { file }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to).map_err(quota_as_full)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut files = names(dir, fs::FileType::is_file)?;
        files.retain(|name| name != LOCK_FILE);
        Ok(files)
    }

    fn list_dirs(&self, dir: &Path) -> io::Result<Vec<String>> {
        names(dir, fs::FileType::is_dir)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let missing = missing_directories(dir)?;
        // A process may have died between creating the deepest directory that stands and syncing its parent, so
        // that one is synced again. Where its parent is closed to us, the directory was made by somebody else.
        let standing = missing.last().map_or(Some(dir), |topmost| topmost.parent());
        match standing.map_or(Ok(()), sync_parent) {
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return Err(error),
            _ => {}
        }
        for new in missing.into_iter().rev() {
            match fs::create_dir(new) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                other => other.map_err(quota_as_full)?,
            }
            sync_parent(new)?;
        }
        Ok(())
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        match fs::remove_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            other => return other,
        }
        if names(dir, |_| true)? != [LOCK_FILE] {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        // Only what stands for its lock is in it, and is ours to remove if nobody holds that.
        let _held = self.lock(dir)?;
        fs::remove_file(dir.join(LOCK_FILE))?;
        fs::remove_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        fs::File::open(dir)?.sync_all().map_err(quota_as_full)
    }

    fn lock(&self, dir: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        let path = dir.join(LOCK_FILE);
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(quota_as_full)?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(RealLock { file })),
            Err(fs::TryLockError::WouldBlock) => Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                format!("{} is held by a process that is still running", path.display()),
            )),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }
}

#[derive(Debug)]
struct RealFile {
    file: fs::File,
}

impl RealFile {
    /// The same file, opened as it is, for writes that go to the disk without being copied and without staying in memory. What a sync
    /// makes durable is that of the file, whichever way it came.
    #[cfg(target_os = "linux")]
    fn past_memory(&self) -> io::Result<fs::File> {
        use rustix::fs::{Mode, OFlags};
        use std::os::fd::AsRawFd;
        let flags = rustix::fs::fcntl_getfl(&self.file)? & OFlags::RWMODE;
        let itself = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        Ok(rustix::fs::open(itself, flags | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty())?.into())
    }

    /// Room as the file system could claim it, or could not.
    fn claimed_or_taken(&self, claimed: Result<(), Errno>, before: u64, length: u64) -> io::Result<()> {
        let claimed = match claimed {
            Ok(()) => Ok(()),
            // Room that cannot be claimed is taken.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(self, before..length.max(before)),
            Err(errno) => Err(quota_as_full(errno.into())),
        };
        claimed.inspect_err(|_| {
            // Some file systems claim block by block and keep what they got before the disk was full. The
            // caller is told the first error, whether or not the room could be given back.
            let _ = self.file.set_len(before);
        })
    }
}

impl File for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(bytes, offset).map_err(quota_as_full)
    }

    #[cfg(target_os = "linux")]
    fn fill(&self, range: Range<u64>) -> io::Result<()> {
        let filled = self.past_memory().map_or(range.start, |file| fill_past_memory(&file, range.clone()));
        // The rest, wherever a file system or a disk wants it otherwise. Whatever is wrong is told here.
        write_zeros(self, filled..range.end)
    }

    fn reserve(&self, length: u64) -> io::Result<()> {
        let before = self.len()?;
        if length == 0 {
            return Ok(());
        }
        let claimed = rustix::io::retry_on_intr(|| {
            rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, length)
        });
        self.claimed_or_taken(claimed, before, length)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data().map_err(quota_as_full)
    }

    fn forget_cache(&self) -> io::Result<()> {
        rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed)?;
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}

/// Up to where a range could be filled with zeros.
#[cfg(target_os = "linux")]
fn fill_past_memory(file: &fs::File, range: Range<u64>) -> u64 {
    let mut offset = range.start;
    while offset < range.end {
        match file.write_at(super::zeros(range.end - offset), offset) {
            Ok(written) if written > 0 => offset += written as u64,
            _ => break,
        }
    }
    offset
}

#[derive(Debug)]
struct RealLock {
    file: fs::File,
}

impl DirectoryLock for RealLock {}

impl Drop for RealLock {
    fn drop(&mut self) {
        // Closing lets go as well, but not while a child that is just being started still has a copy of the handle.
        let _ = self.file.unlock();
    }
}

/// Names of what is in a directory and of such a type.
fn names(dir: &Path, is_asked_for: fn(&fs::FileType) -> bool) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if is_asked_for(&entry.file_type()?) {
            // A name that is no UTF-8 is none of ours; shown with replacement characters it is at least seen.
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(names)
}

/// Directories on the way to `dir` that do not exist, the deepest first.
fn missing_directories(dir: &Path) -> io::Result<Vec<&Path>> {
    let mut missing = Vec::new();
    for ancestor in dir.ancestors().filter(|ancestor| !ancestor.as_os_str().is_empty()) {
        match fs::metadata(ancestor) {
            Ok(found) if found.is_dir() => break,
            Ok(_) => return Err(io::Error::from(io::ErrorKind::NotADirectory)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => missing.push(ancestor),
            Err(error) => return Err(error),
        }
    }
    Ok(missing)
}

fn sync_parent(dir: &Path) -> io::Result<()> {
    match dir.parent() {
        None => Ok(()),
        Some(parent) if parent.as_os_str().is_empty() => RealIo.sync_dir(Path::new(".")),
        Some(parent) => RealIo.sync_dir(parent),
    }
}

/// A used-up quota is a full disk to us: the same refusal, healed by the same remedy.
fn quota_as_full(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::QuotaExceeded => io::Error::new(io::ErrorKind::StorageFull, error),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_and_a_used_up_quota_are_the_same_kind_of_error() {
        for errno in [Errno::NOSPC, Errno::DQUOT] {
            assert_eq!(quota_as_full(errno.into()).kind(), io::ErrorKind::StorageFull);
        }
        assert_ne!(quota_as_full(Errno::IO.into()).kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn missing_directories_are_created_down_to_the_deepest() {
        let root = tempfile::tempdir().unwrap();
        let deepest = root.path().join("a/b/c");
        assert_eq!(missing_directories(&deepest).unwrap().len(), 3);
        RealIo.create_dir(&deepest).unwrap();
        RealIo.create_dir(&deepest).unwrap();
        assert!(deepest.is_dir());
    }

    #[test]
    fn a_file_in_the_way_of_a_directory_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        RealIo.open(&file, OpenMode::Create).unwrap();
        assert_eq!(RealIo.create_dir(&file).unwrap_err().kind(), io::ErrorKind::NotADirectory);
        assert_eq!(RealIo.create_dir(&file.join("below")).unwrap_err().kind(), io::ErrorKind::NotADirectory);
    }

    #[test]
    fn the_lock_file_and_directories_are_not_listed() {
        let root = tempfile::tempdir().unwrap();
        let _lock = RealIo.lock(root.path()).unwrap();
        RealIo.create_dir(&root.path().join("directory")).unwrap();
        RealIo.open(&root.path().join("file"), OpenMode::Create).unwrap();
        assert_eq!(RealIo.list(root.path()).unwrap(), ["file"]);
    }

    #[test]
    fn a_reservation_never_shortens_a_file() {
        let root = tempfile::tempdir().unwrap();
        let file = RealIo.open(&root.path().join("file"), OpenMode::Create).unwrap();
        file.reserve(8192).unwrap();
        file.reserve(4096).unwrap();
        file.reserve(0).unwrap();
        assert_eq!(file.len().unwrap(), 8192);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_write_to_a_full_device_says_that_storage_is_full() {
        let device = RealIo.open(Path::new("/dev/full"), OpenMode::Write).unwrap();
        assert_eq!(device.write_at(b"x", 0).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn room_that_a_file_system_cannot_claim_is_taken_and_what_is_there_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, b"here").unwrap();
        let open = || fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let file = RealFile { file: open() };
        for errno in [Errno::OPNOTSUPP, Errno::NOSYS] {
            file.claimed_or_taken(Err(errno), 4, 100_000).unwrap();
            let read = fs::read(&path).unwrap();
            assert_eq!((&read[..4], read.len()), (&b"here"[..], 100_000), "{errno}");
            assert!(read[4..].iter().all(|byte| *byte == 0), "{errno}");
            // Less than there is changes nothing.
            file.claimed_or_taken(Err(errno), 100_000, 10).unwrap();
            assert_eq!(file.len().unwrap(), 100_000);
            file.file.set_len(4).unwrap();
        }
        // Whatever else is wrong is told, and what was claimed on the way is given back.
        for (errno, kind) in
            [(Errno::NOSPC, io::ErrorKind::StorageFull), (Errno::DQUOT, io::ErrorKind::StorageFull)]
        {
            file.file.set_len(50_000).unwrap();
            assert_eq!(file.claimed_or_taken(Err(errno), 4, 100_000).unwrap_err().kind(), kind, "{errno}");
            assert_eq!(fs::read(&path).unwrap(), b"here", "{errno}");
        }
    }
}
