//! Every limit of the store. What exceeds one is refused with a typed error that names it.
//!
//! Must not know: who enforces them, or how.

/// Longest key, in bytes.
pub const MAX_KEY_BYTES: usize = 4 << 10;
/// Longest value, in bytes: as much as the longest record of a log.
pub const MAX_VALUE_BYTES: usize = 8 << 20;
/// Most operations in one batch.
pub const MAX_BATCH_ROWS: usize = 16_384;
/// Most bytes of keys and values in one batch.
pub const MAX_BATCH_BYTES: usize = 32 << 20;
/// Most buckets at a time.
pub const MAX_BUCKETS: usize = 4096;
/// Most runs that the main space or one bucket may consist of before a checkpoint asks for maintenance first.
pub const MAX_RUNS_PER_SPACE: usize = 64;
/// Longest checkpoint file, in bytes: all buckets with all their runs fit many times.
pub const MAX_CHECKPOINT_BYTES: u64 = 64 << 20;

/// Longest run that a merge makes, in bytes: what is longer stays apart, so that every merge ends.
pub const MAX_RUN_BYTES: u64 = 64 << 30;

/// Length at which a block of rows is full, in bytes. A longer row has a block to itself.
pub const BLOCK_BYTES: usize = 4 << 10;

const _: () = assert!(MAX_KEY_BYTES <= u16::MAX as usize, "a key's length fits its field");
const _: () = assert!(MAX_VALUE_BYTES < u32::MAX as usize / 2, "a value's length fits its field");
const _: () = assert!(MAX_KEY_BYTES + MAX_VALUE_BYTES <= MAX_BATCH_BYTES, "every row fits a batch");
const _: () = assert!(
    (MAX_BUCKETS + 1) as u64 * MAX_RUNS_PER_SPACE as u64 * 64 <= MAX_CHECKPOINT_BYTES / 2,
    "a checkpoint can name every run there may be"
);
