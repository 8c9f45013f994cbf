//! What a sequencer has done so far, for whoever watches it.

use std::time::Duration;

/// Where numbers came from, in the order in which the layers are asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// The transaction had taken from the sequence before.
    pub transaction: u64,
    /// The cache.
    pub cache: u64,
    /// Values on their way to the storage.
    pub unflushed: u64,
    /// The storage had a number.
    pub storage: u64,
    /// Nobody had a number: the initial one.
    pub initial: u64,
}

/// Transactions that were refused, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// The tail of the log was being read.
    pub actualizing: u64,
    /// Too many values waited for the storage.
    pub too_many_unflushed: u64,
    /// The storage was too far behind.
    pub too_far_behind: u64,
}

/// What the background work has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkCounters {
    /// Writes that succeeded.
    pub flushes: u64,
    /// Values in them.
    pub written_values: u64,
    /// Writes that failed and were, or will be, tried again.
    pub write_retries: u64,
    /// Actualizations that came to the end of the log.
    pub actualizations: u64,
    /// How long the last one took.
    pub last_actualization: Duration,
    /// How long all of them took together.
    pub total_actualization: Duration,
    /// Log records that they read.
    pub scanned_records: u64,
    /// Times that one of them had to wait for room in the unflushed set.
    pub throttled: u64,
    /// Reads of the stored offset and of the log that failed and were, or will be, tried again.
    pub actualization_retries: u64,
}

/// Counters and levels of a sequencer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Where numbers came from.
    pub hits: Hits,
    /// Transactions that were refused.
    pub refusals: Refusals,
    /// What the background work has done.
    pub work: WorkCounters,
    /// Values that the storage does not have for certain, now.
    pub unflushed_values: usize,
    /// Offsets that the stored one is behind, now.
    pub lag: u64,
    /// Entries in the cache, now.
    pub cache_entries: usize,
    /// Bytes of the cache, now.
    pub cache_bytes: usize,
    /// What the storage, or the background work, complained about last.
    pub last_error: Option<String>,
}
