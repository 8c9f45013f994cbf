//! What a store has done and what it takes.
//!
//! Must not know: where figures are shown.

use std::sync::atomic::{AtomicU64, Ordering};

/// Figures of one store, at the moment they were asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Counted bytes of the memtable that takes applies.
    pub memtable_bytes: u64,
    /// Counted bytes of memtables that wait for a checkpoint.
    pub frozen_bytes: u64,
    /// Files of sorted rows that the last checkpoint names.
    pub runs: u64,
    /// Their length.
    pub disk_bytes: u64,
    /// Rows in them, overwritten ones and deletions included.
    pub disk_rows: u64,
    /// Checkpoints published since the store was opened.
    pub checkpoints: u64,
    /// Merges published since.
    pub compactions: u64,
    /// Bytes of runs written since, for checkpoints and for merges.
    pub bytes_written: u64,
    /// Runs that a get did not have to look into, thanks to their filter.
    pub filter_denied: u64,
    /// Runs that a get looked into and found its key in.
    pub filter_right: u64,
    /// Runs that a get looked into in vain.
    pub filter_wrong: u64,
    /// Bytes of cached blocks, of all stores of the node.
    pub cached_bytes: u64,
    /// Blocks found in the cache, by all stores of the node.
    pub cache_hits: u64,
    /// Blocks that had to be read, by all stores of the node.
    pub cache_misses: u64,
    /// Bytes of filters and indexes in memory, of all stores of the node.
    pub resident_bytes: u64,
}

/// What is counted on the way.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) checkpoints: AtomicU64,
    pub(crate) compactions: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
    denied: AtomicU64,
    right: AtomicU64,
    wrong: AtomicU64,
}

impl Counters {
    pub(crate) fn filter_denied(&self, runs: u64) {
        if runs > 0 {
            self.denied.fetch_add(runs, Ordering::Relaxed);
        }
    }

    pub(crate) fn filter_passed(&self, found: bool) {
        let counter = if found { &self.right } else { &self.wrong };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_to(&self, statistics: &mut Statistics) {
        statistics.checkpoints = self.checkpoints.load(Ordering::Relaxed);
        statistics.compactions = self.compactions.load(Ordering::Relaxed);
        statistics.bytes_written = self.bytes_written.load(Ordering::Relaxed);
        statistics.filter_denied = self.denied.load(Ordering::Relaxed);
        statistics.filter_right = self.right.load(Ordering::Relaxed);
        statistics.filter_wrong = self.wrong.load(Ordering::Relaxed);
    }
}
