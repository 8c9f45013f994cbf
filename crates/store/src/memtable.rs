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
use std::fmt;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{RwLock, RwLockReadGuard};

use bytes::Bytes;

use crate::batch::{Batch, Operation};
use crate::bounds::Bounds;
use crate::budget::Budget;
use crate::chunks::Values;
use crate::format::block::Row;
use crate::ordered::OrderedMap;
use crate::position::{BucketId, Direction, Space};

/// What a version of a row takes besides its key and value: itself, and its place in nodes that are two thirds full.
const VERSION_BYTES: u64 = 128;
/// Values up to this size lie in the row itself, and change there: counters are like that.
const INLINE_BYTES: usize = 30;

/// A count of operations; the first has number 1.
pub(crate) type Sequence = u64;

/// Rows of one generation.
pub(crate) struct Memtable {
    tables: RwLock<Tables>,
    budget: Budget,
    /// Nothing is applied to it any more.
    is_frozen: AtomicBool,
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

/// Rows of one space.
#[derive(Debug, Default)]
struct Rows {
    map: OrderedMap<Versions>,
    values: Values,
    /// What is counted of them. Values that were overwritten still take their part of a piece.
    bytes: u64,
}

/// The newest version of a row, and those before it that a snapshot still sees, the newest first.
#[derive(Debug)]
struct Versions {
    newest: Version,
    /// None of them in nearly every row.
    #[expect(clippy::box_collection, reason = "a vector takes three times the room of nothing")]
    older: Option<Box<Vec<Version>>>,
}

#[derive(Debug)]
struct Version {
    sequence: Sequence,
    value: Value,
}

#[derive(Debug)]
enum Value {
    Deleted,
    Inline { length: u8, bytes: [u8; INLINE_BYTES] },
    Shared(Bytes),
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
        Self { tables: RwLock::default(), budget, is_frozen: AtomicBool::new(false) }
    }

    /// Nothing is applied to it from now on.
    ///
    /// # Panics
    ///
    /// If that was said before.
    pub(crate) fn freeze(&self) {
        let was_frozen = self.is_frozen.swap(true, Ordering::Relaxed);
        assert!(!was_frozen, "a memtable is frozen once");
        self.budget.freeze(self.bytes());
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
        let version =
            rows.map.get(key).and_then(|versions| versions.at(at)).filter(|found| found.sequence > dropped);
        match version {
            Some(version) => version.value.to_bytes().map_or(Found::Nothing, Found::Value),
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
        let mut range = rows.map.range(start, end);
        let (mut last, mut count, mut bytes) = (None, 0, 0);
        let mut visit = |key: &[u8], versions: &Versions| {
            let visible = versions.at(scan.at).filter(|version| version.sequence > scan.after);
            let key = Bytes::copy_from_slice(key);
            count += 1;
            if let Some(version) = visible {
                let value = version.value.to_bytes();
                bytes += key.len() + value.as_ref().map_or(0, Bytes::len);
                output.extend([Row { key: key.clone(), value }]);
            }
            last = Some(key);
            count < SCAN_ROWS && bytes < SCAN_BYTES
        };
        let ended = match scan.direction {
            Direction::Forward => range.all(|(key, versions)| visit(key, versions)),
            Direction::Backward => range.rev().all(|(key, versions)| visit(key, versions)),
        };
        if let Some(last) = last {
            scan.bounds.shrink_behind(last, scan.direction);
        }
        !ended
    }

    /// The newest version of every row of a space that came behind `after`, in order, deletions included. The writer waits until
    /// it has ended: for frozen ones.
    pub(crate) fn each_newest<E>(
        &self,
        space: Space,
        after: Sequence,
        mut visit: impl FnMut(&[u8], Option<&[u8]>) -> Result<(), E>,
    ) -> Result<(), E> {
        let tables = self.read();
        let Some(rows) = tables.rows(space) else { return Ok(()) };
        rows.map
            .range(Bound::Unbounded, Bound::Unbounded)
            .filter(|(_, versions)| versions.newest.sequence > after)
            .try_for_each(|(key, versions)| visit(key, versions.newest.value.as_slice()))
    }

    /// The buckets it says anything about.
    pub(crate) fn buckets(&self) -> Vec<BucketId> {
        self.read().buckets.keys().copied().collect()
    }

    /// How many keys of a space it has.
    pub(crate) fn keys(&self, space: Space) -> u64 {
        self.read().rows(space).map_or(0, |rows| rows.map.len() as u64)
    }

    /// Whether nothing was ever applied to it.
    pub(crate) fn is_empty(&self) -> bool {
        let tables = self.read();
        tables.main.map.is_empty() && tables.buckets.is_empty()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.read().bytes
    }

    fn read(&self) -> RwLockReadGuard<'_, Tables> {
        self.tables.read().expect("nothing panics while it holds a memtable")
    }
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
        match *self.is_frozen.get_mut() {
            true => self.budget.give_back_frozen(self.bytes()),
            false => self.budget.give_back(self.bytes()),
        }
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
        self.bytes -= rows.bytes;
        rows.add(key, value, sequence, snapshots);
        self.bytes += rows.bytes;
    }

    fn drop_bucket(&mut self, bucket: BucketId, sequence: Sequence, snapshots: &[Sequence]) {
        let bucket = self.buckets.entry(bucket).or_insert_with(|| {
            self.bytes += VERSION_BYTES;
            Bucket::default()
        });
        if snapshots.is_empty() {
            self.bytes -= std::mem::take(&mut bucket.rows).bytes;
            bucket.drops.clear();
        }
        bucket.drops.push(sequence);
    }
}

impl Rows {
    fn add(&mut self, key: &[u8], value: Option<&[u8]>, sequence: Sequence, snapshots: &[Sequence]) {
        let value = Value::new(value, &mut self.values);
        let bytes = value.bytes();
        let mut version = Some(Version { sequence, value });
        let new = || Versions { newest: version.take().expect("asked for once"), older: None };
        let (_, versions) = self.map.get_or_insert(key, new);
        self.bytes += bytes + VERSION_BYTES;
        match version {
            None => self.bytes += key.len() as u64,
            Some(version) => self.bytes -= versions.push(version, snapshots),
        }
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
        self.older().find(|version| version.sequence <= at)
    }

    /// Makes `version` the newest and keeps of the others one for each snapshot that sees one. What the others gave back.
    fn push(&mut self, version: Version, snapshots: &[Sequence]) -> u64 {
        let mut newer = version.sequence;
        let seen = |from: Sequence, until: Sequence| {
            snapshots
                .get(snapshots.partition_point(|snapshot| *snapshot < from))
                .is_some_and(|at| *at < until)
        };
        let before = std::mem::replace(&mut self.newest, version);
        if snapshots.is_empty() && self.older.is_none() {
            return before.gives_back();
        }
        let older = self.older.get_or_insert_default();
        older.insert(0, before);
        let mut given_back = 0;
        older.retain(|version| {
            let keep = seen(version.sequence, newer);
            newer = version.sequence;
            given_back += if keep { 0 } else { version.gives_back() };
            keep
        });
        if older.is_empty() {
            self.older = None;
        }
        given_back
    }

    fn older(&self) -> impl Iterator<Item = &Version> {
        self.older.iter().flat_map(|older| older.iter())
    }
}

impl Version {
    /// What is free again without it.
    fn gives_back(&self) -> u64 {
        VERSION_BYTES + if Values::is_alone(self.value.bytes()) { self.value.bytes() } else { 0 }
    }
}

impl Value {
    fn new(value: Option<&[u8]>, values: &mut Values) -> Self {
        let Some(value) = value else { return Value::Deleted };
        match u8::try_from(value.len()) {
            Ok(length) if value.len() <= INLINE_BYTES => {
                let mut bytes = [0; INLINE_BYTES];
                bytes[..value.len()].copy_from_slice(value);
                Value::Inline { length, bytes }
            }
            _ => Value::Shared(values.add(value)),
        }
    }

    fn to_bytes(&self) -> Option<Bytes> {
        match self {
            Value::Deleted => None,
            Value::Inline { length, bytes } => Some(Bytes::copy_from_slice(&bytes[..usize::from(*length)])),
            Value::Shared(bytes) => Some(bytes.clone()),
        }
    }

    fn as_slice(&self) -> Option<&[u8]> {
        match self {
            Value::Deleted => None,
            Value::Inline { length, bytes } => Some(&bytes[..usize::from(*length)]),
            Value::Shared(bytes) => Some(bytes),
        }
    }

    /// What it takes outside of its row.
    fn bytes(&self) -> u64 {
        match self {
            Value::Deleted | Value::Inline { .. } => 0,
            Value::Shared(bytes) => bytes.len() as u64,
        }
    }
}
