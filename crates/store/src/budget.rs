//! How much memory all stores of a node may take together: memtables, and what is kept of their files.
//!
//! Invariants
//! - Counted bytes of memtables never exceed their ceiling; what would exceed it is refused.
//! - Filters and indexes of runs are counted against the ceiling of the cache, which shrinks to make room for them,
//!   down to an eighth.
//!
//! Must not know: stores, rows, files.

use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};

use crate::format::block::Block;

/// A fixed number, so that what is evicted depends on the reads alone and not on the machine.
const CACHE_SHARDS: usize = 16;
/// Smallest part of the cache's ceiling that is left to blocks, however much filters and indexes take.
const BLOCKS_SHARE: u64 = 8;
const TYPICAL_BLOCK_BYTES: u64 = 4 << 10;

/// Memory of all stores of a node. Clones are the same budget.
#[derive(Clone)]
pub struct Budget(Arc<Inner>);

struct Inner {
    memtable_ceiling: u64,
    memtables: AtomicU64,
    /// What of them is frozen: it is given back once a checkpoint has it.
    frozen: AtomicU64,
    stores: AtomicU64,
    cache_ceiling: u64,
    resident: AtomicU64,
    next_run: AtomicU64,
    cache: BlockCache,
}

type BlockCache =
    Cache<BlockKey, Block, ByWeight, BuildHasherDefault<Mixed>, DefaultLifecycle<BlockKey, Block>>;

/// A block of an open run, unique in the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BlockKey {
    pub(crate) run: u64,
    pub(crate) offset: u64,
}

/// Hashes what blocks are named by: numbers that nobody outside chooses. Every bit of it depends on every bit of them.
#[derive(Clone, Copy, Debug, Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    #[allow(clippy::cast_possible_truncation, reason = "both halves are taken")]
    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number ^ 0x9E37_79B9_7F4A_7C15) * 0xD6E8_FEB8_6659_FD93;
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[derive(Clone, Debug)]
struct ByWeight;

impl Weighter<BlockKey, Block> for ByWeight {
    fn weight(&self, _: &BlockKey, block: &Block) -> u64 {
        block.weight() as u64
    }
}

impl Budget {
    /// Ceilings in bytes: for all memtables, and for everything kept of files.
    pub fn new(memtable_bytes: u64, cache_bytes: u64) -> Self {
        let items = usize::try_from(cache_bytes / TYPICAL_BLOCK_BYTES).unwrap_or(usize::MAX);
        let options = OptionsBuilder::new()
            .shards(CACHE_SHARDS)
            .estimated_items_capacity(items.max(CACHE_SHARDS))
            .weight_capacity(cache_bytes.max(1))
            .build()
            .expect("all required options are given");
        let cache = Cache::with_options(
            options,
            ByWeight,
            BuildHasherDefault::default(),
            DefaultLifecycle::default(),
        );
        Self(Arc::new(Inner {
            memtable_ceiling: memtable_bytes,
            memtables: AtomicU64::new(0),
            frozen: AtomicU64::new(0),
            stores: AtomicU64::new(0),
            cache_ceiling: cache_bytes,
            resident: AtomicU64::new(0),
            next_run: AtomicU64::new(0),
            cache,
        }))
    }

    /// Bytes that all memtables take.
    pub fn memtable_bytes(&self) -> u64 {
        self.0.memtables.load(Ordering::Relaxed)
    }

    /// Bytes that they may take.
    pub fn memtable_ceiling(&self) -> u64 {
        self.0.memtable_ceiling
    }

    /// Bytes of cached blocks.
    pub fn cached_bytes(&self) -> u64 {
        self.0.cache.weight()
    }

    /// Blocks found in the cache, and blocks that were not.
    pub fn cache_hits_and_misses(&self) -> (u64, u64) {
        (self.0.cache.hits(), self.0.cache.misses())
    }

    /// Bytes of filters and indexes that are kept as long as their runs.
    pub fn resident_bytes(&self) -> u64 {
        self.0.resident.load(Ordering::Relaxed)
    }

    /// Bytes that blocks, filters and indexes may take.
    pub fn cache_ceiling(&self) -> u64 {
        self.0.cache_ceiling
    }

    /// Takes memory for a memtable; the bytes in use if there is not enough.
    pub(crate) fn take(&self, bytes: u64) -> Result<(), u64> {
        let ceiling = self.0.memtable_ceiling;
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= ceiling);
        self.0.memtables.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).map(|_| ())
    }

    /// Whether so many bytes could be taken now.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.memtable_bytes().saturating_add(bytes) <= self.0.memtable_ceiling
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        let before = self.0.memtables.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "a memtable gives back what it took");
    }

    /// Whether the memtables come near their ceiling, and a store with so many bytes is one to begin with: it takes
    /// at least half of an equal share. What is on its way to the disk does not count any more, so that stores that grow alike take
    /// turns, and do not all keep processors and disk busy at once. The rest of the ceiling is for them, and for what is written
    /// meanwhile.
    pub(crate) fn wants_back(&self, bytes: u64) -> bool {
        let stays = self.memtable_bytes().saturating_sub(self.0.frozen.load(Ordering::Relaxed));
        let near = stays >= self.0.memtable_ceiling / 8 * 5;
        near && bytes.saturating_mul(self.0.stores.load(Ordering::Relaxed)) >= stays / 2
    }

    /// So many bytes will be given back.
    pub(crate) fn freeze(&self, bytes: u64) {
        self.0.frozen.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The same bytes are.
    pub(crate) fn give_back_frozen(&self, bytes: u64) {
        let before = self.0.frozen.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "a memtable gives back what it took");
        self.give_back(bytes);
    }

    pub(crate) fn join(&self) {
        self.0.stores.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn leave(&self) {
        self.0.stores.fetch_sub(1, Ordering::Relaxed);
    }

    /// A number that no other open run of the node has.
    pub(crate) fn next_run(&self) -> u64 {
        self.0.next_run.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn cached(&self, key: BlockKey) -> Option<Block> {
        self.0.cache.get(&key)
    }

    pub(crate) fn cache(&self, key: BlockKey, block: Block) {
        self.0.cache.insert(key, block);
    }

    pub(crate) fn keep_resident(&self, bytes: u64) {
        self.0.resident.fetch_add(bytes, Ordering::Relaxed);
        self.fit_cache();
    }

    pub(crate) fn release_resident(&self, bytes: u64) {
        self.0.resident.fetch_sub(bytes, Ordering::Relaxed);
        self.fit_cache();
    }

    fn fit_cache(&self) {
        let left = self.0.cache_ceiling.saturating_sub(self.resident_bytes());
        self.0.cache.set_capacity(left.max(self.0.cache_ceiling / BLOCKS_SHARE).max(1));
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Budget")
            .field("memtable_bytes", &self.memtable_bytes())
            .field("memtable_ceiling", &self.memtable_ceiling())
            .field("resident_bytes", &self.resident_bytes())
            .field("cache_ceiling", &self.cache_ceiling())
            .finish_non_exhaustive()
    }
}
