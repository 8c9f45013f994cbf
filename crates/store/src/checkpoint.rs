//! A checkpoint on its way: rows of frozen memtables become runs. It runs on any thread while applies go on.
//!
//! ```text
//! rotate            write_out                              publish
//! memtable frozen   a run for each space that changed,     CHECKPOINT.tmp written, synced, renamed,
//!                   each synced; names synced              names synced; older files removed
//! ```
//!
//! Invariants
//! - When a checkpoint names a run, its content and its name are durable.
//!
//! Must not know: the checkpoint file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gapless_log::io::DirectoryLock;

use crate::bounds::Bounds;
use crate::budget::Budget;
use crate::cursor::Merge;
use crate::disk::Disk;
use crate::error::{DiskError, ReadError};
use crate::memtable::{Memtable, Sequence};
use crate::position::{BucketId, Direction, Offset, Space};
use crate::run::Run;
use crate::run_writer::RunWriter;
use crate::stats::Counters;
use crate::version::Version;
use crate::view::{last_drop, memtable_sources};

/// What jobs need of their store.
#[derive(Clone, Debug)]
pub(crate) struct Workshop {
    pub(crate) disk: Disk,
    pub(crate) budget: Budget,
    pub(crate) next_file: Arc<AtomicU64>,
    pub(crate) counters: Arc<Counters>,
    /// As long as a job may write files, nobody else does.
    pub(crate) _lock: Arc<dyn DirectoryLock>,
}

impl Workshop {
    pub(crate) fn new_file(&self) -> u64 {
        self.next_file.fetch_add(1, Ordering::Relaxed)
    }
}

/// A checkpoint whose rows are frozen and not yet written. Dropping it loses nothing: the next one takes them along.
#[derive(Debug)]
pub struct FrozenCheckpoint {
    pub(crate) workshop: Workshop,
    /// The newest first.
    pub(crate) memtables: Vec<Arc<Memtable>>,
    pub(crate) below: Arc<Version>,
    pub(crate) offset: Offset,
    pub(crate) buckets: Arc<BTreeMap<BucketId, u64>>,
    pub(crate) underway: Arc<()>,
}

/// A checkpoint whose runs are on the disk, waiting to be published.
#[derive(Debug)]
pub struct WrittenCheckpoint {
    pub(crate) memtables: Vec<Arc<Memtable>>,
    pub(crate) offset: Offset,
    pub(crate) buckets: Arc<BTreeMap<BucketId, u64>>,
    pub(crate) changes: Vec<SpaceChange>,
    pub(crate) underway: Arc<()>,
}

/// Rows in memory that a published checkpoint has made needless. Freeing them takes a while: an owner in a hurry drops
/// this on another thread. Until then they count as memory of memtables.
#[derive(Debug)]
pub struct Retired {
    pub(crate) _memtables: Vec<Arc<Memtable>>,
}

/// What becomes of the runs of a space.
#[derive(Debug)]
pub(crate) struct SpaceChange {
    pub(crate) space: Space,
    /// Whether the runs that were there are void.
    pub(crate) dropped: bool,
    pub(crate) run: Option<Arc<Run>>,
}

/// Every operation there is.
const EVERYTHING: Sequence = Sequence::MAX;

impl FrozenCheckpoint {
    /// The offset it will be valid at.
    pub fn offset(&self) -> Offset {
        self.offset
    }

    /// Writes the runs and makes them durable. On an error nothing is lost: their files are removed, the rows stay in
    /// memory, and the next checkpoint takes them along.
    pub fn write_out(self) -> Result<WrittenCheckpoint, DiskError> {
        let mut changes = Vec::new();
        let written = self.write_runs(&mut changes);
        if let Err(error) = written {
            for run in changes.iter().filter_map(|change: &SpaceChange| change.run.as_ref()) {
                // What cannot be removed now is removed by the next opening.
                let _ = self.workshop.disk.remove(run.path());
            }
            return Err(error);
        }
        let Self { memtables, offset, buckets, underway, .. } = self;
        Ok(WrittenCheckpoint { memtables, offset, buckets, changes, underway })
    }

    fn write_runs(&self, changes: &mut Vec<SpaceChange>) -> Result<(), DiskError> {
        for space in self.spaces() {
            let change = self.write_space(space)?;
            changes.push(change);
        }
        if changes.iter().any(|change| change.run.is_some()) {
            self.workshop.disk.sync_names()?;
        }
        Ok(())
    }

    /// Spaces that changed, in order. Buckets that are gone need no run.
    fn spaces(&self) -> BTreeSet<Space> {
        let buckets = self.memtables.iter().flat_map(|memtable| memtable.buckets());
        let there = buckets.filter(|bucket| self.buckets.contains_key(bucket)).map(Space::Bucket);
        std::iter::once(Space::Main).chain(there).collect()
    }

    fn write_space(&self, space: Space) -> Result<SpaceChange, DiskError> {
        let dropped = last_drop(&self.memtables, space, EVERYTHING) > 0;
        let rows_below = !dropped && !self.below.runs(space).is_empty();
        let most_rows = self.memtables.iter().map(|memtable| memtable.keys(space)).sum();
        let mut writer = None;
        self.each_row(space, |key, value| {
            if value.is_none() && !rows_below {
                return Ok(());
            }
            let writer = match &mut writer {
                Some(writer) => writer,
                None => writer.insert(RunWriter::create(
                    &self.workshop.disk,
                    self.workshop.new_file(),
                    most_rows,
                )?),
            };
            writer.push(key, value)
        })?;
        let born = self.below.number + 1;
        let run = writer.map(|writer| writer.finish(born, &self.workshop.budget)).transpose()?;
        let bytes = run.as_ref().map_or(0, |run| run.length);
        self.workshop.counters.bytes_written.fetch_add(bytes, Ordering::Relaxed);
        Ok(SpaceChange { space, dropped, run: run.map(Arc::new) })
    }

    /// The newest rows of a space in order, deletions included.
    fn each_row(
        &self,
        space: Space,
        mut visit: impl FnMut(&[u8], Option<&[u8]>) -> Result<(), DiskError>,
    ) -> Result<(), DiskError> {
        let after = last_drop(&self.memtables, space, EVERYTHING);
        if let [only] = &self.memtables[..] {
            // Nearly always. It is frozen: nobody waits for it, and nothing needs to be copied out of it.
            return only.each_newest(space, after, visit);
        }
        let sources =
            memtable_sources(&self.memtables, space, &Bounds::all(), Direction::Forward, EVERYTHING);
        let mut merge = Merge::new(sources, Direction::Forward);
        while let Some(row) = merge.next().map_err(from_memory)? {
            visit(&row.key, row.value.as_deref())?;
        }
        Ok(())
    }
}

impl WrittenCheckpoint {
    /// The offset it will be valid at.
    pub fn offset(&self) -> Offset {
        self.offset
    }

    /// The runs that follow from the changes.
    pub(crate) fn version_over(&self, below: &Version) -> Version {
        let mut version = below.clone();
        for SpaceChange { space, dropped, run } in &self.changes {
            let mut runs: Vec<_> = run.iter().cloned().collect();
            if !dropped {
                runs.extend_from_slice(below.runs(*space));
            }
            version.set_runs(*space, runs);
        }
        version.keep_buckets(Arc::clone(&self.buckets));
        version.offset = self.offset;
        version.number += 1;
        version
    }

    pub(crate) fn runs(&self) -> impl Iterator<Item = &Arc<Run>> {
        self.changes.iter().filter_map(|change| change.run.as_ref())
    }
}

/// Memtables are read without a disk.
fn from_memory(error: ReadError) -> DiskError {
    match error {
        ReadError::Disk(error) => error,
        ReadError::Damaged(damage) => unreachable!("a memtable has no bytes on a disk: {damage}"),
    }
}
