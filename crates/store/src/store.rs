//! The store: what its owner holds in hand.
//!
//! Invariants
//! - A batch is seen as a whole or not at all.
//! - LOG-2: no checkpoint is ahead of what the owner has synced.
//! - WM-1: the offset of the checkpoint never falls.
//! - After a crash the state is that of the last checkpoint that was published, or of the one that was being
//!   published, never a mixture.
//!
//! Must not know: logs, what rows mean, clocks, threads.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use crate::batch::{Batch, Operation};
use crate::checkpoint::{FrozenCheckpoint, Retired, Workshop, WrittenCheckpoint};
use crate::compaction::{Compaction, Maintained, plan};
use crate::error::{ApplyError, CheckpointError, DiskError, MaintainError};
use crate::limits::{MAX_BUCKETS, MAX_RUNS_PER_SPACE};
use crate::memtable::{Memtable, Sequence, most_bytes};
use crate::options::Options;
use crate::position::{BucketId, Offset, Space, Synced};
use crate::run::Run;
use crate::stats::Statistics;
use crate::version::Version;
use crate::view::{LiveSnapshots, Snapshot, View};

/// An ordered key-value store without a journal. Reading: see [`View`].
#[derive(Debug)]
pub struct Store {
    view: View,
    workshop: Workshop,
    options: Options,
    live: Arc<LiveSnapshots>,
    /// What they see; kept so that an apply allocates nothing.
    live_sequences: Vec<Sequence>,
    rotated: Offset,
    checkpoint_underway: Weak<()>,
    compaction_underway: Weak<()>,
    compaction: Option<Compaction>,
    /// Files that a checkpoint may name of which nobody knows whether it is the durable one, and files that could
    /// not be removed. They go after the next one that is published.
    leftovers: Vec<PathBuf>,
}

impl Deref for Store {
    type Target = View;

    fn deref(&self) -> &View {
        &self.view
    }
}

/// Applying.
impl Store {
    /// Applies a batch to the memtable. Nothing is written to the disk.
    pub fn apply(&mut self, batch: &Batch) -> Result<(), ApplyError> {
        self.check_buckets(batch)?;
        let (needed, budget) = (most_bytes(batch), &self.workshop.budget);
        budget.take(needed).map_err(|used| ApplyError::MemoryFull {
            needed,
            used,
            ceiling: budget.memtable_ceiling(),
        })?;
        self.live.collect_into(&mut self.live_sequences);
        self.view.sequence = self.active().apply(batch, self.view.sequence, &self.live_sequences);
        count_rows(&mut self.view.buckets, batch);
        Ok(())
    }

    /// Whether there is memory for a batch, as far as can be said now.
    pub fn has_room(&self, batch: &Batch) -> bool {
        self.workshop.budget.has_room(most_bytes(batch))
    }

    /// Whether it is time for a checkpoint: the memtable has its share, or those of the node are near their ceiling.
    pub fn wants_checkpoint(&self) -> bool {
        let bytes = self.active().bytes();
        bytes >= self.options.memtable_bytes || (bytes > 0 && self.workshop.budget.wants_back(bytes))
    }

    /// The state as it is now, to be read at leisure, on any thread.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.view.clone(), &self.live)
    }

    fn active(&self) -> &Arc<Memtable> {
        &self.view.memtables[0]
    }

    fn check_buckets(&self, batch: &Batch) -> Result<(), ApplyError> {
        let buckets = &self.view.buckets;
        let is_new = |operation: Operation<'_>| match operation {
            Operation::Put { space: Space::Bucket(bucket), .. } => {
                (!buckets.contains_key(&bucket)).then_some(bucket)
            }
            _ => None,
        };
        let Some(first) = batch.operations().find_map(is_new) else { return Ok(()) };
        if buckets.len() + batch.len() <= MAX_BUCKETS {
            return Ok(());
        }
        let mut after = Arc::clone(buckets);
        count_rows(&mut after, batch);
        if after.len() > MAX_BUCKETS {
            return Err(ApplyError::TooManyBuckets { bucket: first, limit: MAX_BUCKETS });
        }
        Ok(())
    }
}

fn count_rows(buckets: &mut Arc<BTreeMap<BucketId, u64>>, batch: &Batch) {
    for operation in batch.operations() {
        match operation {
            Operation::Put { space: Space::Bucket(bucket), .. } => {
                *Arc::make_mut(buckets).entry(bucket).or_default() += 1;
            }
            Operation::Delete { space: Space::Bucket(bucket), .. } => {
                if let Some(rows) = Arc::make_mut(buckets).get_mut(&bucket) {
                    *rows = rows.saturating_sub(1);
                }
            }
            Operation::DropBucket(bucket) => {
                Arc::make_mut(buckets).remove(&bucket);
            }
            Operation::Put { space: Space::Main, .. } | Operation::Delete { space: Space::Main, .. } => {}
        }
    }
}

/// Checkpoints.
impl Store {
    /// The offset that the state on disk is valid at.
    pub fn checkpoint_offset(&self) -> Offset {
        self.view.version.offset
    }

    /// Makes the state durable, valid at `offset`: everything applied so far, and nothing else.
    ///
    /// # Panics
    ///
    /// LOG-2 if `offset` is ahead of what was synced, WM-1 if it is behind the last checkpoint.
    pub fn checkpoint(&mut self, offset: Offset, synced: Synced) -> Result<(), CheckpointError> {
        let written = self.rotate(offset)?.write_out()?;
        self.publish(written, synced)?;
        Ok(())
    }

    /// The first step of a checkpoint: freezes everything applied so far. What is returned can be written out on
    /// another thread while applies go on, and while the log is synced.
    ///
    /// # Panics
    ///
    /// WM-1 if `offset` is behind an earlier one.
    pub fn rotate(&mut self, offset: Offset) -> Result<FrozenCheckpoint, CheckpointError> {
        assert!(offset >= self.rotated, "WM-1: a checkpoint at {offset} falls behind {}", self.rotated);
        if self.checkpoint_underway.strong_count() > 0 {
            return Err(CheckpointError::Underway);
        }
        let runs = self.view.version.spaces().map(|(_, runs)| runs.len()).max().unwrap_or(0);
        if runs >= MAX_RUNS_PER_SPACE {
            return Err(CheckpointError::MaintenanceDue { runs, limit: MAX_RUNS_PER_SPACE });
        }
        if !self.active().is_empty() {
            self.active().freeze();
            self.view.memtables.insert(0, Arc::new(Memtable::new(self.workshop.budget.clone())));
        }
        self.rotated = offset;
        let underway = Arc::new(());
        self.checkpoint_underway = Arc::downgrade(&underway);
        Ok(FrozenCheckpoint {
            workshop: self.workshop.clone(),
            memtables: self.view.memtables[1..].to_vec(),
            below: Arc::clone(&self.view.version),
            offset,
            buckets: Arc::clone(&self.view.buckets),
            underway,
        })
    }

    /// The last step of a checkpoint: what was written out is the state on disk from now on. On an error nothing is
    /// lost: the next checkpoint takes its rows along.
    ///
    /// # Panics
    ///
    /// LOG-2 if the checkpoint is ahead of what was synced.
    #[expect(clippy::needless_pass_by_value, reason = "a proof of a sync is used once")]
    pub fn publish(&mut self, written: WrittenCheckpoint, synced: Synced) -> Result<Retired, DiskError> {
        assert!(
            written.offset <= synced.offset(),
            "LOG-2: a checkpoint at {} is ahead of the log, synced up to {}",
            written.offset,
            synced.offset()
        );
        let ours = std::ptr::eq(self.checkpoint_underway.as_ptr(), Arc::as_ptr(&written.underway));
        assert!(ours, "a checkpoint is published by the store that began it");
        let version = written.version_over(&self.view.version);
        let runs: Vec<_> = written.runs().cloned().collect();
        self.install(version, &runs)?;
        let is_written =
            |memtable: &Arc<_>| written.memtables.iter().any(|other| Arc::ptr_eq(memtable, other));
        self.view.memtables.retain(|memtable| !is_written(memtable));
        self.workshop.counters.checkpoints.fetch_add(1, Ordering::Relaxed);
        Ok(Retired { _memtables: written.memtables })
    }

    /// Publishes a version that names `new_runs` for the first time, and removes what it no longer names.
    pub(crate) fn install(&mut self, version: Version, new_runs: &[Arc<Run>]) -> Result<(), DiskError> {
        assert!(version.offset >= self.view.version.offset, "WM-1: the offset of the checkpoint never falls");
        let disk = &self.workshop.disk;
        let temporary = disk.temporary_path(self.workshop.new_file());
        let next_file = self.workshop.next_file.load(Ordering::Relaxed);
        let new_paths = new_runs.iter().map(|run| run.path().to_owned());
        if let Err(error) = disk.write_file(&temporary, &version.checkpoint(next_file).encode()) {
            for path in new_paths.chain([temporary]) {
                // It gives room back at once where that works; the next opening removes it otherwise.
                let _ = disk.remove(&path);
            }
            return Err(error);
        }
        // From here on until the names are synced, either checkpoint may be the durable one.
        let before = self.leftovers.len();
        self.leftovers.extend(new_paths.chain([temporary.clone()]));
        disk.rename(&temporary, &disk.checkpoint_path())?;
        disk.sync_names()?;
        self.leftovers.truncate(before);

        let old = std::mem::replace(&mut self.view.version, Arc::new(version));
        let named = |run: &Arc<Run>| self.view.version.all_runs().any(|other| other.number == run.number);
        let void = old.all_runs().filter(|run| !named(run)).map(|run| run.path().to_owned());
        self.leftovers.extend(void);
        let disk = &self.workshop.disk;
        self.leftovers.retain(|path| disk.remove(path).is_err());
        Ok(())
    }
}

/// Maintenance.
impl Store {
    /// Does about `bytes` bytes of the merging that is due. To be called now and then; it blocks for that long.
    pub fn maintain(&mut self, bytes: u64) -> Result<Maintained, MaintainError> {
        let Some(mut compaction) = self.begin_compaction() else { return Ok(Maintained::Idle) };
        match compaction.step(bytes)? {
            Maintained::Finished => self.install_compaction(compaction).map(|()| Maintained::Finished),
            unfinished => {
                self.put_back_compaction(compaction);
                Ok(unfinished)
            }
        }
    }

    /// The merge that was begun and put back, or the one that is most due, to be stepped on another thread. None if nothing is due
    /// or one is under way.
    pub fn begin_compaction(&mut self) -> Option<Compaction> {
        if let Some(begun) = self.compaction.take() {
            return Some(begun);
        }
        if self.compaction_underway.strong_count() > 0 {
            return None;
        }
        let plan = plan(&self.view.version)?;
        let underway = Arc::new(());
        self.compaction_underway = Arc::downgrade(&underway);
        Some(Compaction::new(&self.workshop, &self.view.version, plan, underway))
    }

    /// Keeps a merge that is not finished, for the next time.
    ///
    /// # Panics
    ///
    /// If it is one of another store.
    pub fn put_back_compaction(&mut self, compaction: Compaction) {
        self.check_ours(&compaction);
        self.compaction = Some(compaction);
    }

    fn check_ours(&self, compaction: &Compaction) {
        let ours = std::ptr::eq(self.compaction_underway.as_ptr(), Arc::as_ptr(&compaction.underway));
        assert!(ours, "a merge goes back to the store that began it");
    }

    /// Makes a finished merge part of the state on disk.
    ///
    /// # Panics
    ///
    /// If it is not finished, or is one of another store.
    #[expect(clippy::needless_pass_by_value, reason = "a merge is installed once")]
    pub fn install_compaction(&mut self, compaction: Compaction) -> Result<(), MaintainError> {
        self.check_ours(&compaction);
        let output = compaction.output().cloned();
        let current = self.view.version.runs(compaction.space);
        let first = current.iter().position(|run| Arc::ptr_eq(run, &compaction.inputs[0]));
        let Some(first) = first else {
            // The bucket was dropped in the meantime.
            if let Some(run) = output {
                self.leftovers.push(run.path().to_owned());
            }
            return Ok(());
        };
        let last = first + compaction.inputs.len();
        let mut runs = current[..first].to_vec();
        runs.extend(output.clone());
        runs.extend_from_slice(&current[last..]);
        let mut version = (*self.view.version).clone();
        version.set_runs(compaction.space, runs);
        version.number += 1;
        self.install(version, output.as_slice())?;
        self.workshop.counters.compactions.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// What it has done and what it takes.
    pub fn statistics(&self) -> Statistics {
        let budget = &self.workshop.budget;
        let version = &self.view.version;
        let (cache_hits, cache_misses) = budget.cache_hits_and_misses();
        let mut statistics = Statistics {
            memtable_bytes: self.active().bytes(),
            frozen_bytes: self.view.memtables[1..].iter().map(|memtable| memtable.bytes()).sum(),
            runs: version.all_runs().count() as u64,
            disk_bytes: version.all_runs().map(|run| run.length).sum(),
            disk_rows: version.all_runs().map(|run| run.trailer.rows).sum(),
            cached_bytes: budget.cached_bytes(),
            cache_hits,
            cache_misses,
            resident_bytes: budget.resident_bytes(),
            ..Statistics::default()
        };
        self.workshop.counters.add_to(&mut statistics);
        statistics
    }

    /// A store in the state of `version`.
    pub(crate) fn new(workshop: Workshop, options: Options, version: Version) -> Self {
        workshop.budget.join();
        let view = View {
            memtables: vec![Arc::new(Memtable::new(workshop.budget.clone()))],
            sequence: 0,
            buckets: Arc::clone(&version.buckets),
            counters: Arc::clone(&workshop.counters),
            version: Arc::new(version),
        };
        Self {
            rotated: view.version.offset,
            view,
            workshop,
            options,
            live: Arc::default(),
            live_sequences: Vec::new(),
            checkpoint_underway: Weak::new(),
            compaction_underway: Weak::new(),
            compaction: None,
            leftovers: Vec::new(),
        }
    }

    /// Publishes the state that is on disk anew, so that it is certain which one is durable, and then removes files.
    /// On a full disk that happens later, with the next checkpoint.
    pub(crate) fn republish_and_remove(&mut self, files: Vec<PathBuf>) -> Result<(), DiskError> {
        let mut version = (*self.view.version).clone();
        version.number += 1;
        self.leftovers = files;
        match self.install(version, &[]) {
            Err(error) if error.is_full() => Ok(()),
            other => other,
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.workshop.budget.leave();
    }
}
