//! Rows in memory, with as many versions as live snapshots need.
//!
//! Every operation has a sequence number. A reader at sequence S sees of each key the newest version up to S, and of a
//! bucket only what came after its last drop up to S.
//!
//! Invariants
//! - Once frozen it never changes.
//! - Its counted bytes are taken from the budget before it grows and given back when the last reader lets go.
//!
//! Must not know: files, checkpoints, who holds it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::ops::Bound;
use std::sync::{RwLock, RwLockReadGuard};

use bytes::Bytes;

use crate::batch::{Batch, Operation};
use crate::bounds::Bounds;
use crate::budget::Budget;
use crate::format::block::Row;
use crate::key::{AsKey, Key, KeyRef};
use crate::position::{BucketId, Direction, Space};

/// What a version of a row takes besides its key and value: its place in the map, headers of allocations.
const VERSION_BYTES: u64 = 160;

/// A count of operations; the first has number 1.
pub(crate) type Sequence = u64;

/// Rows of one generation.
pub(crate) struct Memtable {
    tables: RwLock<Tables>,
    budget: Budget,
}

#[derive(Debug, Default)]
struct Tables {
    main: Rows,
    buckets: BTreeMap<BucketId, Bucket>,
    bytes: u64,
}

#[derive(Debug, Default)]
struct Bucket {
    /// When it was dropped, oldest first.
    drops: Vec<Sequence>,
    rows: Rows,
}

type Rows = BTreeMap<Key, Versions>;

/// The newest version of a row, and those before it that a snapshot still sees, the newest first.
#[derive(Debug)]
struct Versions {
    newest: Version,
    older: Vec<Version>,
}

#[derive(Debug)]
struct Version {
    sequence: Sequence,
    /// None if the row was deleted.
    value: Option<Bytes>,
}

/// What a memtable knows of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Its value.
    Value(Bytes),
    /// That it is not there, whatever older generations say.
    Nothing,
    /// Nothing; ask an older generation.
    Unknown,
}

/// Most that a batch can take: known before it is applied.
pub(crate) fn most_bytes(batch: &Batch) -> u64 {
    batch.bytes() as u64 + batch.len() as u64 * VERSION_BYTES
}

impl Memtable {
    pub(crate) fn new(budget: Budget) -> Self {
        Self { tables: RwLock::default(), budget }
    }

    /// Applies a batch whose [`most_bytes`] were taken from the budget. Operations are numbered behind `sequence`;
    /// versions that none of the live `snapshots`, in order, sees are forgotten. Returns the last number.
    pub(crate) fn apply(&self, batch: &Batch, sequence: Sequence, snapshots: &[Sequence]) -> Sequence {
        let mut tables = self.tables.write().expect("nothing panics while it holds a memtable");
        let before = tables.bytes;
        let mut sequence = sequence;
        for operation in batch.operations() {
            sequence += 1;
            match operation {
                Operation::Put { space, key, value } => {
                    tables.add(space, key, Some(value), sequence, snapshots);
                }
                Operation::Delete { space, key } => {
                    tables.add(space, key, None, sequence, snapshots);
                }
                Operation::DropBucket(bucket) => tables.drop_bucket(bucket, sequence, snapshots),
            }
        }
        // Taken was the most it could be; a batch that dropped or overwrote gives more back than it took.
        self.budget.give_back(before + most_bytes(batch) - tables.bytes);
        sequence
    }

    pub(crate) fn get(&self, space: Space, key: &[u8], at: Sequence) -> Found {
        let tables = self.read();
        let (rows, dropped) = match space {
            Space::Main => (&tables.main, 0),
            Space::Bucket(bucket) => match tables.buckets.get(&bucket) {
                None => return Found::Unknown,
                Some(bucket) => (&bucket.rows, bucket.last_drop(at)),
            },
        };
        let version = rows
            .get(&KeyRef::new(key) as &dyn AsKey)
            .and_then(|versions| versions.at(at))
            .filter(|found| found.sequence > dropped);
        match version {
            Some(version) => version.value.clone().map_or(Found::Nothing, Found::Value),
            None if dropped > 0 => Found::Nothing,
            None => Found::Unknown,
        }
    }

    /// The last drop of a bucket that a reader sees; 0 without one.
    pub(crate) fn last_drop(&self, bucket: BucketId, at: Sequence) -> Sequence {
        self.read().buckets.get(&bucket).map_or(0, |bucket| bucket.last_drop(at))
    }

    /// The next rows of a range in walking order, deletions included, until there are `rows` of them or `bytes` are
    /// exceeded; the range shrinks to what comes behind them. Whether that may hold any.
    pub(crate) fn scan(&self, scan: &mut Scan, output: &mut impl Extend<Row>) -> bool {
        if scan.bounds.is_empty() {
            return false;
        }
        let tables = self.read();
        let Some(rows) = tables.rows(scan.space) else { return false };
        let (start, end) = scan.bounds.as_slices();
        let (start, end) = (start.map(KeyRef::new), end.map(KeyRef::new));
        let range = rows.range::<dyn AsKey, _>((as_key(&start), as_key(&end)));
        let (mut last, mut count, mut bytes) = (None, 0, 0);
        let mut visit = |key: &[u8], versions: &Versions| {
            let visible = versions.at(scan.at).filter(|version| version.sequence > scan.after);
            let key = Bytes::copy_from_slice(key);
            count += 1;
            if let Some(version) = visible {
                bytes += key.len() + version.value.as_ref().map_or(0, Bytes::len);
                output.extend([Row { key: key.clone(), value: version.value.clone() }]);
            }
            last = Some(key);
            count < SCAN_ROWS && bytes < SCAN_BYTES
        };
        let ended = match scan.direction {
            Direction::Forward => range.into_iter().all(|(key, versions)| visit(key.bytes(), versions)),
            Direction::Backward => {
                range.into_iter().rev().all(|(key, versions)| visit(key.bytes(), versions))
            }
        };
        if let Some(last) = last {
            scan.bounds.shrink_behind(last, scan.direction);
        }
        !ended
    }

    /// The buckets it says anything about.
    pub(crate) fn buckets(&self) -> Vec<BucketId> {
        self.read().buckets.keys().copied().collect()
    }

    /// How many keys of a space it has.
    pub(crate) fn keys(&self, space: Space) -> u64 {
        self.read().rows(space).map_or(0, |rows| rows.len() as u64)
    }

    /// Whether nothing was ever applied to it.
    pub(crate) fn is_empty(&self) -> bool {
        let tables = self.read();
        tables.main.is_empty() && tables.buckets.is_empty()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.read().bytes
    }

    fn read(&self) -> RwLockReadGuard<'_, Tables> {
        self.tables.read().expect("nothing panics while it holds a memtable")
    }
}

fn as_key<'a>(bound: &'a Bound<KeyRef<'a>>) -> Bound<&'a dyn AsKey> {
    bound.as_ref().map(|key| key as &dyn AsKey)
}

/// Most rows that are looked at while the writer waits.
const SCAN_ROWS: usize = 256;
/// Most bytes that are handed out at once.
const SCAN_BYTES: usize = 64 << 10;

/// A walk through a memtable: where it is, and what it sees.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) space: Space,
    pub(crate) bounds: Bounds,
    pub(crate) direction: Direction,
    /// Newest number it sees.
    pub(crate) at: Sequence,
    /// Newest number it does not see because of a drop.
    pub(crate) after: Sequence,
}

impl fmt::Debug for Memtable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Memtable").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

impl Drop for Memtable {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes());
    }
}

impl Tables {
    fn rows(&self, space: Space) -> Option<&Rows> {
        match space {
            Space::Main => Some(&self.main),
            Space::Bucket(bucket) => self.buckets.get(&bucket).map(|bucket| &bucket.rows),
        }
    }

    fn add(
        &mut self,
        space: Space,
        key: &[u8],
        value: Option<&[u8]>,
        sequence: Sequence,
        snapshots: &[Sequence],
    ) {
        let rows = match space {
            Space::Main => &mut self.main,
            Space::Bucket(bucket) => &mut self.buckets.entry(bucket).or_default().rows,
        };
        let value_bytes = value.map_or(0, |value| value.len() as u64);
        let value = value.map(Bytes::copy_from_slice);
        match rows.entry(Key::new(key)) {
            Entry::Vacant(place) => {
                self.bytes += key.len() as u64 + value_bytes + VERSION_BYTES;
                place.insert(Versions { newest: Version { sequence, value }, older: Vec::new() });
            }
            Entry::Occupied(mut place) => {
                let versions = place.get_mut();
                let before = versions.bytes();
                versions.push(Version { sequence, value }, snapshots);
                self.bytes += versions.bytes();
                self.bytes -= before;
            }
        }
    }

    fn drop_bucket(&mut self, bucket: BucketId, sequence: Sequence, snapshots: &[Sequence]) {
        let bucket = self.buckets.entry(bucket).or_insert_with(|| {
            self.bytes += VERSION_BYTES;
            Bucket::default()
        });
        if snapshots.is_empty() {
            let rows = std::mem::take(&mut bucket.rows);
            self.bytes -=
                rows.iter().map(|(key, versions)| key.bytes().len() as u64 + versions.bytes()).sum::<u64>();
            bucket.drops.clear();
        }
        bucket.drops.push(sequence);
    }
}

impl Bucket {
    fn last_drop(&self, at: Sequence) -> Sequence {
        self.drops.iter().rev().find(|drop| **drop <= at).copied().unwrap_or(0)
    }
}

impl Versions {
    fn at(&self, at: Sequence) -> Option<&Version> {
        if self.newest.sequence <= at {
            return Some(&self.newest);
        }
        self.older.iter().find(|version| version.sequence <= at)
    }

    /// Makes `version` the newest and keeps of the others one for each snapshot that sees one.
    fn push(&mut self, version: Version, snapshots: &[Sequence]) {
        let mut newer = version.sequence;
        let seen = |from: Sequence, until: Sequence| {
            snapshots
                .get(snapshots.partition_point(|snapshot| *snapshot < from))
                .is_some_and(|at| *at < until)
        };
        let before = std::mem::replace(&mut self.newest, version);
        if !snapshots.is_empty() {
            self.older.insert(0, before);
        }
        self.older.retain(|version| {
            let keep = seen(version.sequence, newer);
            newer = version.sequence;
            keep
        });
    }

    fn bytes(&self) -> u64 {
        let versions = std::iter::once(&self.newest).chain(&self.older);
        versions.map(|version| version.value_bytes() + VERSION_BYTES).sum()
    }
}

impl Version {
    fn value_bytes(&self) -> u64 {
        self.value.as_ref().map_or(0, |value| value.len() as u64)
    }
}
