//! A run: an immutable file of sorted rows.
//!
//! Its filter and index are read at the first use and stay in memory; blocks come and go with the cache.
//!
//! Invariants
//! - No byte is believed before its checksum was.
//!
//! Must not know: which space it belongs to, whether a checkpoint names it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use gapless_log::io::{File, read_exact_at};

use crate::budget::{BlockKey, Budget};
use crate::disk::failed;
use crate::error::{Damage, OpenError, ReadError};
use crate::format::block::Block;
use crate::format::filter::{Filter, KeyHash};
use crate::format::index::Index;
use crate::format::run::{HEADER_BYTES, Header, TRAILER_BYTES, Trailer, decode_header};
use crate::format::{CHECKSUM_BYTES, Input, Malformed, checksum};
use crate::memtable::Found;

/// An open run.
#[derive(Debug)]
pub(crate) struct Run {
    /// Number of its file.
    pub(crate) number: u64,
    pub(crate) length: u64,
    pub(crate) trailer_checksum: u32,
    /// Number of the checkpoint that first named it.
    pub(crate) born: u64,
    pub(crate) trailer: Trailer,
    path: PathBuf,
    file: Arc<dyn File>,
    budget: Budget,
    cache_id: u64,
    directory: OnceLock<Directory>,
}

/// What says where a key would be.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) index: Index,
    pub(crate) filter: Filter,
}

/// Whether blocks that are read are worth keeping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caching {
    /// Somebody may ask again.
    Keep,
    /// They are read once, in passing.
    Bypass,
}

/// What identifies a run's file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunFile {
    pub(crate) number: u64,
    pub(crate) length: u64,
    pub(crate) trailer_checksum: u32,
    pub(crate) born: u64,
}

impl Run {
    /// Looks at both ends of a file.
    pub(crate) fn open(
        path: &Path,
        file: Arc<dyn File>,
        expected: RunFile,
        budget: Budget,
    ) -> Result<Self, OpenError> {
        let damaged = |offset, length, what| Damage { path: path.to_owned(), offset, length, what };
        let length = file.len().map_err(failed("read the length of", path))?;
        if length != expected.length || length < (HEADER_BYTES + TRAILER_BYTES) as u64 {
            return Err(damaged(0, length, "it does not have the length that the checkpoint says").into());
        }
        let mut header = [0; HEADER_BYTES];
        read(&*file, path, &mut header, 0)?;
        match decode_header(expected.number, &header) {
            Ok(Header::Known) => {}
            Ok(Header::Unknown(version)) => {
                return Err(OpenError::UnknownVersion { path: path.to_owned(), version });
            }
            Err(Malformed(what)) => return Err(damaged(0, HEADER_BYTES as u64, what).into()),
        }
        let mut bytes = [0; TRAILER_BYTES];
        let trailer_at = length - TRAILER_BYTES as u64;
        read(&*file, path, &mut bytes, trailer_at)?;
        let trailer = Trailer::decode(expected.number, trailer_at, &bytes)
            .map_err(|Malformed(what)| damaged(trailer_at, TRAILER_BYTES as u64, what))?;
        if !bytes.ends_with(&expected.trailer_checksum.to_le_bytes()) {
            let what = "it is not the run that the checkpoint means";
            return Err(damaged(trailer_at, TRAILER_BYTES as u64, what).into());
        }
        Ok(Self::new(path, file, expected, trailer, budget))
    }

    /// A run whose file is known to be whole.
    pub(crate) fn new(
        path: &Path,
        file: Arc<dyn File>,
        known: RunFile,
        trailer: Trailer,
        budget: Budget,
    ) -> Self {
        let RunFile { number, length, trailer_checksum, born } = known;
        let cache_id = budget.next_run();
        Self {
            number,
            length,
            trailer_checksum,
            born,
            trailer,
            path: path.to_owned(),
            file,
            budget,
            cache_id,
            directory: OnceLock::new(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What the filter says of a key.
    pub(crate) fn may_contain(&self, hash: KeyHash) -> Result<bool, ReadError> {
        Ok(self.directory()?.filter.may_contain(hash))
    }

    /// Looks a key up that the filter did not deny.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Found, ReadError> {
        let index = &self.directory()?.index;
        let at = index.partition_point(|last| last < key);
        if at == index.count() {
            return Ok(Found::Unknown);
        }
        let block = self.block(at, Caching::Keep)?;
        let row = block.partition_point(|other| other < key);
        if row == block.count() || block.key(row) != key {
            return Ok(Found::Unknown);
        }
        Ok(block.value(row).map_or(Found::Nothing, Found::Value))
    }

    pub(crate) fn index(&self) -> Result<&Index, ReadError> {
        Ok(&self.directory()?.index)
    }

    /// A block by its number.
    pub(crate) fn block(&self, number: usize, caching: Caching) -> Result<Block, ReadError> {
        let place = self.directory()?.index.place(number).expect("callers stay below the number of blocks");
        let key = BlockKey { run: self.cache_id, offset: place.offset };
        if let Some(block) = self.budget.cached(key) {
            return Ok(block);
        }
        let bytes = self.piece(place.offset, u64::from(place.length))?;
        let block = Block::decode(bytes)
            .map_err(|Malformed(what)| self.damage(place.offset, u64::from(place.length), what))?;
        if caching == Caching::Keep {
            self.budget.cache(key, block.clone());
        }
        Ok(block)
    }

    fn directory(&self) -> Result<&Directory, ReadError> {
        if let Some(directory) = self.directory.get() {
            return Ok(directory);
        }
        let directory = self.load_directory()?;
        Ok(self.keep_directory(directory))
    }

    fn load_directory(&self) -> Result<Directory, ReadError> {
        let Trailer { index_offset, index_length, filter_length, .. } = self.trailer;
        let index = Index::decode(self.piece(index_offset, index_length)?, HEADER_BYTES as u64)
            .and_then(|index| match index.end() == Some(index_offset) {
                true => Ok(index),
                false => Err(Malformed("the blocks do not end where the index begins")),
            })
            .map_err(|Malformed(what)| self.damage(index_offset, index_length, what))?;
        let filter_offset = self.trailer.filter_offset();
        let filter = Filter::decode(self.piece(filter_offset, filter_length)?)
            .map_err(|Malformed(what)| self.damage(filter_offset, filter_length, what))?;
        Ok(Directory { index, filter })
    }

    /// Keeps a directory in memory from now on, unless somebody was faster.
    pub(crate) fn keep_directory(&self, directory: Directory) -> &Directory {
        let weight = directory.weight();
        if self.directory.set(directory).is_ok() {
            self.budget.keep_resident(weight);
        }
        self.directory.get().expect("it was set by us or by another thread")
    }

    /// Bytes that stand in front of their checksum.
    fn piece(&self, offset: u64, length: u64) -> Result<Bytes, ReadError> {
        let length =
            usize::try_from(length).expect("the trailer's parts fit the file, and the file a 64-bit machine");
        let mut bytes = vec![0; length + CHECKSUM_BYTES];
        read(&*self.file, &self.path, &mut bytes, offset)?;
        let expected = Input::new(&bytes[length..]).u32().expect("there is room for a checksum");
        bytes.truncate(length);
        if checksum(self.number, offset, &bytes) != expected {
            return Err(self.damage(offset, length as u64, "it does not match its checksum").into());
        }
        Ok(bytes.into())
    }

    fn damage(&self, offset: u64, length: u64, what: &'static str) -> Damage {
        Damage { path: self.path.clone(), offset, length, what }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(directory) = self.directory.get() {
            self.budget.release_resident(directory.weight());
        }
    }
}

impl Directory {
    fn weight(&self) -> u64 {
        (self.index.weight() + self.filter.len()) as u64
    }
}

/// Reads exactly; a file that ends too early is damaged.
fn read(file: &dyn File, path: &Path, buffer: &mut [u8], offset: u64) -> Result<(), ReadError> {
    match read_exact_at(file, buffer, offset) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            let length = buffer.len() as u64;
            Err(Damage { path: path.to_owned(), offset, length, what: "the file ends too early" }.into())
        }
        Err(error) => Err(failed("read", path)(error).into()),
    }
}

impl From<ReadError> for OpenError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Damaged(damage) => Self::Damaged(damage),
            ReadError::Disk(error) => Self::Disk(error),
        }
    }
}
