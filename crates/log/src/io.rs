//! The door between the log and a disk: everything the log ever asks of an operating system.
//!
//! Three implementations stand behind it: [`real`] files, [`memory`], and the [`faulty`] disk of the tests, which tears,
//! drops, reorders, misdirects, flips, fails and fills up.
//!
//! Must not know: segments, frames, records.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

pub mod faulty;
pub mod memory;
pub mod real;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// For reading; it must exist.
    Read,
    /// For reading and writing; it must exist.
    Write,
    /// For reading and writing; created, or emptied if it exists.
    Create,
}

/// A disk: names and files. What is not followed by its sync may be gone after a crash.
pub trait Io: Send + Sync + fmt::Debug {
    /// Opens a file.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>>;

    /// Gives a file another name, replacing what had it. Durable after [`Io::sync_dir`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a name. Readers that hold the file go on reading it. Durable after [`Io::sync_dir`].
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Names of the files in a directory, in no particular order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Names of the directories in a directory, in no particular order.
    fn list_dirs(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Creates a directory and those above it, and makes them durable.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;

    /// Removes a directory that has no files and no directories in it; one that does not exist is removed already.
    /// Durable after [`Io::sync_dir`] of the one above it; until then a crash may bring it back, with what was removed
    /// from it. [`io::ErrorKind::WouldBlock`] while somebody holds it, [`io::ErrorKind::DirectoryNotEmpty`] otherwise.
    fn remove_dir(&self, dir: &Path) -> io::Result<()>;

    /// Makes the names of a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Takes the directory for this process alone until the guard is dropped;
    /// [`io::ErrorKind::WouldBlock`] when somebody has it.
    fn lock(&self, dir: &Path) -> io::Result<Box<dyn DirectoryLock>>;
}

#[expect(clippy::len_without_is_empty, reason = "nobody asks a file whether it is empty")]
/// An open file. Offsets are explicit, so that readers and the writer share one handle without a cursor.
pub trait File: Send + Sync + fmt::Debug {
    /// Reads at most `buffer.len()` bytes; 0 at the end of the file. May return less than asked.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes at most `bytes.len()` bytes. May write less than asked.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Writes zeros over a range that nobody is about to read: they need not stay in memory.
    fn fill(&self, range: Range<u64>) -> io::Result<()> {
        write_zeros(self, range)
    }

    /// Claims room for `length` bytes at once, or fails with [`io::ErrorKind::StorageFull`] and claims nothing.
    /// Afterwards the file is `length` bytes long and reads as zeros where nothing was written.
    fn reserve(&self, length: u64) -> io::Result<()>;

    /// Makes the content durable (`fdatasync`). After an error nobody knows what is on the disk.
    fn sync(&self) -> io::Result<()>;

    /// Forgets what memory holds of the file beyond what waits to be written, so that the next reads show what is on
    /// the disk. After a sync that failed, memory may show bytes that the disk never got.
    fn forget_cache(&self) -> io::Result<()>;

    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
}

/// Holds a directory for one process; dropping it lets go.
pub trait DirectoryLock: Send + Sync + fmt::Debug {}

/// Reads until `buffer` is full; an early end of the file is [`io::ErrorKind::UnexpectedEof`].
pub fn read_exact_at(file: &dyn File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    let read = read_up_to(file, buffer, offset)?;
    if read < buffer.len() {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("file ends at {}", offset + read as u64),
        ));
    }
    Ok(())
}

/// Reads until `buffer` is full or the file ends; returns how much was read.
pub fn read_up_to(file: &dyn File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Writes all of `bytes`, however short the single writes are.
pub fn write_all_at(file: &(impl File + ?Sized), bytes: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match file.write_at(&bytes[done..], offset + done as u64) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::WriteZero, "the file takes no more bytes")),
            Ok(written) => done += written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Where pages of memory begin, so that a disk can take them as they are.
#[repr(align(4096))]
struct Zeros([u8; 256 * 1024]);

static ZEROS: Zeros = Zeros([0; 256 * 1024]);

/// As many zeros as there are, but no more than this.
fn zeros(most: u64) -> &'static [u8] {
    let Zeros(zeros) = &ZEROS;
    usize::try_from(most).ok().and_then(|most| zeros.get(..most)).unwrap_or(zeros)
}

/// Writes zeros over a range.
pub fn write_zeros(file: &(impl File + ?Sized), range: Range<u64>) -> io::Result<()> {
    let mut offset = range.start;
    while offset < range.end {
        let piece = zeros(range.end - offset);
        write_all_at(file, piece, offset)?;
        offset += piece.len() as u64;
    }
    Ok(())
}
