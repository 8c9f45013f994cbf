//! Writes a run: rows in key order, then index, filter and trailer.
//!
//! Memory is bounded by one buffer, the filter and the index; rows are not collected.
//!
//! Must not know: where rows come from, whether a checkpoint will name the run.

use std::path::PathBuf;
use std::sync::Arc;

use gapless_log::io::{File, write_all_at};

use crate::budget::Budget;
use crate::disk::{Disk, failed};
use crate::error::DiskError;
use crate::format::block::BlockBuilder;
use crate::format::filter::{Filter, FilterBuilder, KeyHash};
use crate::format::index::{Index, IndexBuilder};
use crate::format::run::{HEADER_BYTES, TRAILER_BYTES, Trailer, encode_header};
use crate::format::{CHECKSUM_BYTES, Input, checksum};
use crate::limits::BLOCK_BYTES;
use crate::run::{Directory, Run, RunFile};

/// How much is written at once.
const BUFFER_BYTES: usize = 256 << 10;
/// How much is written before it is synced: whoever syncs another file of the disk meanwhile waits for no more than that.
const SYNCED_AT_ONCE: u64 = 1 << 20;

/// A run that is being written. Dropped before it is finished, it removes its file.
#[derive(Debug)]
pub(crate) struct RunWriter {
    disk: Disk,
    number: u64,
    path: PathBuf,
    file: Arc<dyn File>,
    /// What is in front of the buffer in the file.
    written: u64,
    /// What of that is synced.
    synced: u64,
    buffer: Vec<u8>,
    block: BlockBuilder,
    last_key: Vec<u8>,
    index: IndexBuilder,
    filter: FilterBuilder,
    rows: u64,
    deletions: u64,
    /// Over the checksums so far.
    contents: u32,
    finished: bool,
}

impl RunWriter {
    /// A run of at most `rows` rows.
    pub(crate) fn create(disk: &Disk, number: u64, rows: u64) -> Result<Self, DiskError> {
        let path = disk.run_path(number);
        let file = disk.create(&path)?;
        Ok(Self {
            disk: disk.clone(),
            number,
            path,
            file,
            written: 0,
            synced: 0,
            buffer: encode_header(number).to_vec(),
            block: BlockBuilder::default(),
            last_key: Vec::new(),
            index: IndexBuilder::default(),
            filter: FilterBuilder::for_rows(rows),
            rows: 0,
            deletions: 0,
            contents: 0,
            finished: false,
        })
    }

    /// Adds a row behind all others.
    pub(crate) fn push(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), DiskError> {
        assert!(self.rows == 0 || key > &self.last_key[..], "rows of a run are in key order");
        self.block.push(key, value);
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.filter.insert(KeyHash::of(key));
        self.rows += 1;
        self.deletions += u64::from(value.is_none());
        if self.block.len() >= BLOCK_BYTES {
            self.end_block()?;
        }
        Ok(())
    }

    /// Makes what is written so far durable.
    pub(crate) fn sync(&mut self) -> Result<(), DiskError> {
        self.flush()?;
        self.sync_written()
    }

    /// Writes what is left and makes the content durable; the name is not yet. There must be rows.
    pub(crate) fn finish(mut self, born: u64, budget: &Budget) -> Result<Run, DiskError> {
        assert!(self.rows > 0, "a run without rows is not written");
        if !self.block.is_empty() {
            self.end_block()?;
        }
        let index_bytes = std::mem::take(&mut self.index).finish();
        let index_offset = self.written + self.buffer.len() as u64;
        self.end_piece(index_offset, &index_bytes)?;
        let filter_offset = self.written + self.buffer.len() as u64;
        let filter_bytes = std::mem::take(&mut self.filter).into_bytes();
        self.end_piece(filter_offset, &filter_bytes)?;
        let trailer = Trailer {
            index_offset,
            index_length: index_bytes.len() as u64,
            filter_length: filter_bytes.len() as u64,
            rows: self.rows,
            deletions: self.deletions,
            contents: self.contents,
        };
        let encoded = trailer.encode(self.number);
        self.buffer.extend_from_slice(&encoded);
        self.sync()?;
        self.finished = true;

        let trailer_checksum =
            Input::new(&encoded[TRAILER_BYTES - CHECKSUM_BYTES..]).u32().expect("a trailer ends with it");
        let known = RunFile { number: self.number, length: self.written, trailer_checksum, born };
        let run = Run::new(&self.path, Arc::clone(&self.file), known, trailer, budget.clone());
        let index = Index::decode(index_bytes.into(), HEADER_BYTES as u64).expect("it was just encoded");
        let filter = Filter::decode(filter_bytes.into()).expect("it was just built");
        run.keep_directory(Directory { index, filter });
        Ok(run)
    }

    fn end_block(&mut self) -> Result<(), DiskError> {
        let start = self.buffer.len();
        self.block.finish_into(&mut self.buffer);
        let sum = checksum(self.number, self.written + start as u64, &self.buffer[start..]);
        self.index.push(self.buffer.len() - start, &self.last_key);
        self.add_checksum(sum);
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Written from where they are: of a large run, index and filter are too large to be copied.
    fn end_piece(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let sum = checksum(self.number, offset, bytes);
        self.flush()?;
        write_all_at(&*self.file, bytes, self.written).map_err(failed("write", &self.path))?;
        self.written += bytes.len() as u64;
        self.add_checksum(sum);
        Ok(())
    }

    fn add_checksum(&mut self, sum: u32) {
        self.buffer.extend_from_slice(&sum.to_le_bytes());
        self.contents = crc32c::crc32c_append(self.contents, &sum.to_le_bytes());
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        write_all_at(&*self.file, &self.buffer, self.written).map_err(failed("write", &self.path))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        if self.written - self.synced >= SYNCED_AT_ONCE { self.sync_written() } else { Ok(()) }
    }

    fn sync_written(&mut self) -> Result<(), DiskError> {
        self.file.sync().map_err(failed("sync", &self.path))?;
        self.synced = self.written;
        Ok(())
    }
}

impl Drop for RunWriter {
    fn drop(&mut self) {
        if !self.finished {
            // It gives room back at once where that works; the next opening removes it otherwise.
            let _ = self.disk.remove(&self.path);
        }
    }
}
