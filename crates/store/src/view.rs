//! Reading: a state of the store at one moment, made of memtables over runs.
//!
//! A [`View`] is what a store shows of itself; a [`Snapshot`] is one that stays as it was.
//!
//! Invariants
//! - All reads of a view see the same batches, whole ones only.
//! - A snapshot never changes, whatever is applied, checkpointed, merged or dropped afterwards.
//!
//! Must not know: how the state came about, how it is made durable.

use std::collections::BTreeMap;
use std::ops::{Deref, RangeBounds};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;

use crate::bounds::Bounds;
use crate::cursor::{MemtableCursor, Merge, RunCursor, Source};
use crate::error::ReadError;
use crate::format::filter::KeyHash;
use crate::memtable::{Found, Memtable, Scan, Sequence};
use crate::position::{BucketId, Direction, Space};
use crate::run::Caching;
use crate::stats::Counters;
use crate::version::Version;

/// A state of the store that can be read.
#[derive(Clone, Debug)]
pub struct View {
    /// The newest first.
    pub(crate) memtables: Vec<Arc<Memtable>>,
    pub(crate) version: Arc<Version>,
    /// The last operation it sees.
    pub(crate) sequence: Sequence,
    /// Rows of every bucket.
    pub(crate) buckets: Arc<BTreeMap<BucketId, u64>>,
    pub(crate) counters: Arc<Counters>,
}

impl View {
    /// The value of a key of the main space. It may share memory with the rows beside it, some kilobytes: whoever
    /// keeps many values for long copies them.
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ReadError> {
        self.look_up(Space::Main, key, None)
    }

    /// The value of a key of a bucket.
    pub fn get_in(&self, bucket: BucketId, key: &[u8]) -> Result<Option<Bytes>, ReadError> {
        if !self.buckets.contains_key(&bucket) {
            return Ok(None);
        }
        self.look_up(Space::Bucket(bucket), key, None)
    }

    /// The bucket with the highest number that has a key, and its value there. Costs little for each bucket that
    /// does not have it.
    pub fn find_in_buckets(&self, key: &[u8]) -> Result<Option<(BucketId, Bytes)>, ReadError> {
        let hash = KeyHash::of(key);
        for bucket in self.buckets.keys().rev() {
            if let Some(value) = self.look_up(Space::Bucket(*bucket), key, Some(hash))? {
                return Ok(Some((*bucket, value)));
            }
        }
        Ok(None)
    }

    /// Every bucket with its number of rows, in order.
    ///
    /// The number is that of puts minus that of deletes since the bucket began: the same on every replica, whatever
    /// was checkpointed when, and the number of keys if every key is put once and deleted only while it is there.
    pub fn buckets(&self) -> impl DoubleEndedIterator<Item = (BucketId, u64)> + Clone {
        self.buckets.iter().map(|(bucket, rows)| (*bucket, *rows))
    }

    /// Rows of the main space in a range of keys.
    pub fn range<Key: AsRef<[u8]>>(&self, range: impl RangeBounds<Key>, direction: Direction) -> Rows {
        self.rows(Space::Main, &Bounds::new(&range), direction)
    }

    /// Rows of the main space whose keys begin with `prefix`.
    pub fn prefix(&self, prefix: &[u8], direction: Direction) -> Rows {
        self.rows(Space::Main, &Bounds::prefix(prefix), direction)
    }

    /// Rows of a bucket in a range of keys.
    pub fn range_in<Key: AsRef<[u8]>>(
        &self,
        bucket: BucketId,
        range: impl RangeBounds<Key>,
        direction: Direction,
    ) -> Rows {
        self.rows(Space::Bucket(bucket), &Bounds::new(&range), direction)
    }

    /// Rows of a bucket whose keys begin with `prefix`.
    pub fn prefix_in(&self, bucket: BucketId, prefix: &[u8], direction: Direction) -> Rows {
        self.rows(Space::Bucket(bucket), &Bounds::prefix(prefix), direction)
    }

    /// Every row there is: the main space, then the buckets in order, keys ascending in each. The same for the same
    /// batches, whatever was checkpointed or merged when.
    pub fn everything(&self) -> impl Iterator<Item = Result<(Space, Bytes, Bytes), ReadError>> {
        let buckets = self.buckets.keys().map(|bucket| Space::Bucket(*bucket));
        std::iter::once(Space::Main).chain(buckets).flat_map(|space| {
            let rows = self.rows(space, &Bounds::all(), Direction::Forward);
            rows.map(move |row| row.map(|(key, value)| (space, key, value)))
        })
    }

    fn look_up(&self, space: Space, key: &[u8], hash: Option<KeyHash>) -> Result<Option<Bytes>, ReadError> {
        for memtable in &self.memtables {
            match memtable.get(space, key, self.sequence) {
                Found::Value(value) => return Ok(Some(value)),
                Found::Nothing => return Ok(None),
                Found::Unknown => {}
            }
        }
        if self.version.runs(space).is_empty() {
            return Ok(None);
        }
        let hash = hash.unwrap_or_else(|| KeyHash::of(key));
        match self.version.get(space, key, hash, &self.counters)? {
            Found::Value(value) => Ok(Some(value)),
            Found::Nothing | Found::Unknown => Ok(None),
        }
    }

    fn rows(&self, space: Space, bounds: &Bounds, direction: Direction) -> Rows {
        let mut sources = memtable_sources(&self.memtables, space, bounds, direction, self.sequence);
        if last_drop(&self.memtables, space, self.sequence) == 0 {
            let cursor = |run: &Arc<_>| {
                Source::Run(RunCursor::new(Arc::clone(run), bounds.clone(), direction, Caching::Keep))
            };
            sources.extend(self.version.runs(space).iter().map(cursor));
        }
        Rows { merge: Merge::new(sources, direction), ended: false }
    }
}

/// The last drop of a space that a reader sees in any of these memtables: what is older is gone. 0 without one.
pub(crate) fn last_drop(memtables: &[Arc<Memtable>], space: Space, at: Sequence) -> Sequence {
    match space {
        Space::Main => 0,
        Space::Bucket(bucket) => {
            memtables.iter().map(|memtable| memtable.last_drop(bucket, at)).max().unwrap_or(0)
        }
    }
}

/// Cursors over a range of these memtables, which are the newest first.
pub(crate) fn memtable_sources(
    memtables: &[Arc<Memtable>],
    space: Space,
    bounds: &Bounds,
    direction: Direction,
    at: Sequence,
) -> Vec<Source> {
    let after = last_drop(memtables, space, at);
    let scan = || Scan { space, bounds: bounds.clone(), direction, at, after };
    memtables
        .iter()
        .map(|memtable| Source::Memtable(MemtableCursor::new(Arc::clone(memtable), scan())))
        .collect()
}

/// Rows in order. After an error nothing more comes.
#[derive(Debug)]
pub struct Rows {
    merge: Merge,
    ended: bool,
}

impl Iterator for Rows {
    type Item = Result<(Bytes, Bytes), ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            match self.merge.next() {
                Ok(Some(row)) => {
                    let Some(value) = row.value else { continue };
                    return Some(Ok((row.key, value)));
                }
                Ok(None) => self.ended = true,
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

/// A view that stays as it was when it was taken. Clones are the same snapshot; the last one lets go of the memory
/// and the files that only it needs.
#[derive(Clone, Debug)]
pub struct Snapshot(Arc<Held>);

#[derive(Debug)]
struct Held {
    view: View,
    live: Arc<LiveSnapshots>,
}

impl Snapshot {
    pub(crate) fn new(view: View, live: &Arc<LiveSnapshots>) -> Self {
        live.add(view.sequence);
        Self(Arc::new(Held { view, live: Arc::clone(live) }))
    }
}

impl Deref for Snapshot {
    type Target = View;

    fn deref(&self) -> &View {
        &self.0.view
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.live.remove(self.view.sequence);
    }
}

/// The snapshots that somebody holds, by what they see.
#[derive(Debug, Default)]
pub(crate) struct LiveSnapshots {
    counts: Mutex<BTreeMap<Sequence, usize>>,
    /// How many there are, so that a writer without readers takes no lock.
    total: AtomicUsize,
}

impl LiveSnapshots {
    /// What they see, in order, each once.
    pub(crate) fn collect_into(&self, sequences: &mut Vec<Sequence>) {
        sequences.clear();
        // Only the writer's own thread adds snapshots, so it cannot miss one; one that is just going is no harm.
        if self.total.load(Ordering::Acquire) > 0 {
            sequences.extend(self.lock().keys());
        }
    }

    fn add(&self, sequence: Sequence) {
        *self.lock().entry(sequence).or_default() += 1;
        self.total.fetch_add(1, Ordering::Release);
    }

    fn remove(&self, sequence: Sequence) {
        let mut counts = self.lock();
        let count = counts.get_mut(&sequence).expect("a snapshot goes once");
        *count -= 1;
        if *count == 0 {
            counts.remove(&sequence);
        }
        self.total.fetch_sub(1, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Sequence, usize>> {
        self.counts.lock().expect("nothing panics while it holds the snapshots")
    }
}
