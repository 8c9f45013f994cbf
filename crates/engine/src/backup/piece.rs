//! A file of a backup: items one after the other, each with its checksum, written once and never changed.
//!
//! ```text
//!   0  8  magic "GAPLPIEC"      12  4  what: 1 outcomes, 2 entries, 3 rows (1), reserved (3)
//!   8  4  version, 1            16  8  number of the first item, as the manifest says it
//!  24 ..  items: length (4), CRC-32C (4), content
//!
//!  outcome: the record of the partition log     entry: term (8), 0 nothing, 1 proposed (1), what was proposed
//!  row: length of the key (4), key, value
//! ```
//!
//! Invariants
//! - What the manifest says of a file is known when it is closed, and holds for what is on stable storage.
//!
//! Must not know: what items mean.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use gapless_consensus::Term;
use gapless_log::io::{File, Io, OpenMode, read_up_to, write_all_at};
use sha2::{Digest, Sha256};

use super::error::BackupError;
use super::manifest::{FileEntry, What, path_of};

const MAGIC: &[u8; 8] = b"GAPLPIEC";
const VERSION: u32 = 1;
/// Bytes in front of the items.
const HEADER_BYTES: usize = 24;
const ITEM_HEADER_BYTES: usize = 8;
/// Bytes that are written or read at once.
const CHUNK_BYTES: usize = 1 << 20;
/// No item is longer: rows and entries are far below it.
const MAX_ITEM_BYTES: usize = 64 << 20;

fn header(what: &What, first: u64) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12] = what.code();
    bytes[16..24].copy_from_slice(&first.to_le_bytes());
    bytes
}

/// A file that is being written.
#[derive(Debug)]
pub(super) struct PieceWriter {
    io: Arc<dyn Io>,
    root: PathBuf,
    /// Its name until it is known what is in it.
    temporary: PathBuf,
    file: Arc<dyn File>,
    what: What,
    first: u64,
    buffer: Vec<u8>,
    written: u64,
    digest: Sha256,
}

impl PieceWriter {
    /// Begins a file in a directory of backups.
    pub(super) fn create(io: &Arc<dyn Io>, root: &Path, what: What, first: u64) -> Result<Self, BackupError> {
        let dir = root.join(what.directory());
        io.create_dir(&dir).map_err(BackupError::io("create", &dir))?;
        let temporary = dir.join(format!("{first:020}.new"));
        let file = io.open(&temporary, OpenMode::Create).map_err(BackupError::io("create", &temporary))?;
        let buffer = header(&what, first).to_vec();
        let (io, root) = (io.clone(), root.to_path_buf());
        Ok(Self { io, root, temporary, file, what, first, buffer, written: 0, digest: Sha256::new() })
    }

    /// The next item, in parts.
    pub(super) fn put(&mut self, parts: &[&[u8]]) -> Result<(), BackupError> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let length = u32::try_from(length).expect("items are shorter than 4 GiB");
        let sum = parts.iter().fold(0, |sum, part| crc32c::crc32c_append(sum, part));
        self.buffer.extend_from_slice(&length.to_le_bytes());
        self.buffer.extend_from_slice(&sum.to_le_bytes());
        for part in parts {
            self.buffer.extend_from_slice(part);
        }
        if self.buffer.len() >= CHUNK_BYTES { self.write() } else { Ok(()) }
    }

    /// Bytes so far.
    pub(super) fn length(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    fn write(&mut self) -> Result<(), BackupError> {
        write_all_at(&*self.file, &self.buffer, self.written)
            .map_err(BackupError::io("write", &self.temporary))?;
        self.digest.update(&self.buffer);
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Makes it durable, under the name that says what is in it.
    pub(super) fn finish(mut self, last: u64) -> Result<FileEntry, BackupError> {
        self.write()?;
        self.file.sync().map_err(BackupError::io("sync", &self.temporary))?;
        let path = self.root.join(path_of(&self.what, self.first, last));
        self.io.rename(&self.temporary, &path).map_err(BackupError::io("rename", &self.temporary))?;
        let dir = self.root.join(self.what.directory());
        self.io.sync_dir(&dir).map_err(BackupError::io("sync", &dir))?;
        let (length, digest) = (self.written, self.digest.finalize().into());
        Ok(FileEntry { what: self.what, first: self.first, last, length, digest })
    }
}

/// An entry of the replicated log, as an item: its term, and what was proposed.
pub(crate) fn entry_of(item: &Bytes) -> Option<(Term, Option<Bytes>)> {
    let (term, rest) = item.split_first_chunk()?;
    let term = Term::new(u64::from_le_bytes(*term));
    match rest {
        [0] => Some((term, None)),
        [1, ..] => Some((term, Some(item.slice(9..)))),
        _ => None,
    }
}

/// A row, as an item: its key and its value.
pub(crate) fn row_of(item: &Bytes) -> Option<(Bytes, Bytes)> {
    let (length, rest) = item.split_first_chunk()?;
    let length = u32::from_le_bytes(*length) as usize;
    (length <= rest.len()).then(|| (item.slice(4..4 + length), item.slice(4 + length..)))
}

/// Reads a file from its beginning, and checks it against what its manifest says.
pub(crate) struct PieceReader {
    path: PathBuf,
    file: Arc<dyn File>,
    entry: FileEntry,
    /// Read, and not taken.
    buffer: BytesMut,
    read: u64,
    digest: Sha256,
}

impl PieceReader {
    pub(crate) fn open(io: &dyn Io, root: &Path, entry: &FileEntry) -> Result<Self, BackupError> {
        let path = root.join(entry.path());
        let file = match io.open(&path, OpenMode::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(BackupError::damaged(&path, "it is missing"));
            }
            Err(error) => return Err(BackupError::io("open", &path)(error)),
        };
        let length = file.len().map_err(BackupError::io("read", &path))?;
        if length != entry.length {
            let what = format!("it has {length} bytes instead of {}", entry.length);
            return Err(BackupError::damaged(&path, what));
        }
        let (buffer, digest) = (BytesMut::new(), Sha256::new());
        let mut reader = Self { path, file, entry: entry.clone(), buffer, read: 0, digest };
        let expected = header(&entry.what, entry.first);
        match reader.take(HEADER_BYTES)? {
            Some(found) if found[..] == expected => Ok(reader),
            _ => Err(reader.damaged(0, "its header is another one")),
        }
    }

    /// Where the next item begins.
    pub(crate) fn position(&self) -> u64 {
        self.read - self.buffer.len() as u64
    }

    /// The next item; none at the end, once the whole file is what the manifest says.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, BackupError> {
        let at = self.position();
        let Some(header) = self.take(ITEM_HEADER_BYTES)? else {
            let found: [u8; 32] = self.digest.clone().finalize().into();
            return match found == self.entry.digest {
                true => Ok(None),
                false => {
                    Err(BackupError::damaged(&self.path, "it does not match the checksum of its manifest"))
                }
            };
        };
        let (length, sum) = header.split_at(4);
        let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("it has four bytes"));
        let length = number(length) as usize;
        if length > MAX_ITEM_BYTES {
            return Err(self.damaged(at, "the length of an item is none"));
        }
        let sum = number(sum);
        match self.take(length)? {
            Some(item) if crc32c::crc32c(&item) == sum => Ok(Some(item)),
            Some(_) => Err(self.damaged(at, "an item does not match its checksum")),
            None => Err(self.damaged(at, "it ends in the middle of an item")),
        }
    }

    pub(crate) fn damaged(&self, at: u64, what: &str) -> BackupError {
        BackupError::damaged(&self.path, format!("{what}, at byte {at}"))
    }

    /// So many bytes; none if there is none at all.
    fn take(&mut self, count: usize) -> Result<Option<Bytes>, BackupError> {
        while self.buffer.len() < count {
            let before = self.buffer.len();
            self.buffer.resize(before + CHUNK_BYTES.max(count - before), 0);
            let read = read_up_to(&*self.file, &mut self.buffer[before..], self.read)
                .map_err(BackupError::io("read", &self.path))?;
            self.buffer.truncate(before + read);
            self.digest.update(&self.buffer[before..]);
            self.read += read as u64;
            if read == 0 {
                break;
            }
        }
        match self.buffer.len() {
            0 if count > 0 => Ok(None),
            left if left < count => Err(self.damaged(self.position(), "it ends too early")),
            _ => Ok(Some(self.buffer.split_to(count).freeze())),
        }
    }
}

impl std::fmt::Debug for PieceReader {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("PieceReader").field("path", &self.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use gapless_log::io::memory::MemoryIo;
    use gapless_log::io::read_exact_at;
    use gapless_types::{NamespaceId, PartitionId, PartitionIndex};

    use super::*;

    #[test]
    fn a_piece_has_the_bytes_that_it_always_had() {
        let io: Arc<dyn Io> = Arc::new(MemoryIo::new());
        let root = Path::new("backups");
        let partition = PartitionId { namespace: NamespaceId::new(16), index: PartitionIndex::new(3) };
        let mut writer = PieceWriter::create(&io, root, What::Outcomes(partition), 5).unwrap();
        writer.put(&[b"on", b"e"]).unwrap();
        writer.put(&[]).unwrap();
        let entry = writer.finish(6).unwrap();
        let path = root.join("partitions/16-3/00000000000000000005-00000000000000000006.outcomes");
        assert_eq!(root.join(entry.path()), path);
        let file = io.open(&path, OpenMode::Read).unwrap();
        let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
        read_exact_at(&*file, &mut bytes, 0).unwrap();
        let golden =
            b"GAPLPIEC\x01\0\0\0\x01\0\0\0\x05\0\0\0\0\0\0\0\x03\0\0\0\xe9\xb2\x94\x2aone\0\0\0\0\0\0\0\0";
        assert_eq!(bytes, golden);
        let mut reader = PieceReader::open(&*io, root, &entry).unwrap();
        assert_eq!(reader.next().unwrap().as_deref(), Some(&b"one"[..]));
        assert_eq!(reader.next().unwrap().as_deref(), Some(&b""[..]));
        assert_eq!(reader.next().unwrap(), None);
    }
}
