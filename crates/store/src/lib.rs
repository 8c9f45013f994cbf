//! An ordered key-value store for derived state: what its owner can rebuild from a log, kept so that it need not.
//!
//! - It has no journal: the owner's log is it. Between checkpoints nothing is written.
//! - A checkpoint makes the state durable as a whole, with the offset of the log it is valid at. After a crash the
//!   state is that of a checkpoint, and the owner folds its log from there.
//! - Its cost follows what changed. The heavy part runs on another thread while applies go on.
//! - Rows that expire together lie in a bucket, which is dropped without being read.
//! - Snapshots are consistent, cheap, and can be read on any thread.
//! - Every byte from the disk is checked before it is believed. Damage is named, and answered by [`Store::discard`].
//! - It has no threads, reads no clock and draws no random numbers.
//!
//! The bytes are drawn in `docs/format.md`; why it is our own is told in `docs/adr/0007-the-store.md`.
//!
//! Must not know: logs, partitions, what rows mean.
//!
//! ```
//! use std::sync::Arc;
//! use gapless_log::io::memory::MemoryIo;
//! use gapless_store::{Batch, BucketId, Budget, Direction, Offset, Options, Store, Synced};
//!
//! let budget = Budget::new(64 << 20, 64 << 20); // for all stores of the node
//! let (mut store, opened) = Store::open(Arc::new(MemoryIo::new()), "state", Options::default(), &budget)?;
//! assert_eq!(opened.offset, Offset::ZERO);
//!
//! let mut batch = Batch::new();
//! batch.put(b"account/7", b"balance 12")?;
//! batch.put_in(BucketId(2026), b"some idempotency key", b"outcome")?;
//! store.apply(&batch)?;
//! let before = store.snapshot();
//!
//! batch.clear();
//! batch.delete(b"account/7")?;
//! batch.drop_bucket(BucketId(2026))?;
//! store.apply(&batch)?;
//! assert_eq!(store.get(b"account/7")?, None);
//! assert_eq!(before.prefix(b"account/", Direction::Forward).count(), 1);
//!
//! // The owner has synced its log up to 2: the state may be made durable at 2 and not behind it.
//! store.checkpoint(Offset::new(2), Synced::by_a_sync_up_to(Offset::new(2)))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod bounds;
mod budget;
mod checkpoint;
mod chunks;
mod compaction;
mod cursor;
mod disk;
mod error;
mod format;
pub mod limits;
mod memtable;
mod open;
mod options;
mod ordered;
mod position;
mod run;
mod run_writer;
mod stats;
mod store;
mod version;
mod view;

pub use batch::Batch;
pub use budget::Budget;
pub use checkpoint::{FrozenCheckpoint, Retired, WrittenCheckpoint};
pub use compaction::{Compaction, Maintained};
pub use error::{
    ApplyError, BatchError, CheckpointError, Damage, DiskError, MaintainError, OpenError, ReadError,
};
pub use format::FORMAT_VERSION;
pub use open::Opened;
pub use options::Options;
pub use position::{BucketId, Direction, Offset, Space, Synced};
pub use stats::Statistics;
pub use store::Store;
pub use view::{Rows, Snapshot, View};
