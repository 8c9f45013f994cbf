//! A partition log is synced a little at a time beside the partition, which goes on applying.
//!
//! Nothing is acknowledged by it. What it is for is the disk: a checkpoint that found all of the log unsynced would keep the disk
//! busy for as long as that takes, and everybody who waits for a sync of the replicated log would wait for it, too.
//!
//! Invariants
//! - One at a time for each partition.
//! - Nobody touches files of a partition that is gone.
//!
//! Must not know: threads, clocks, checkpoints.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use gapless_log::Log;

/// Bytes of the partition log that are written before it is synced.
const SYNCED_AT_ONCE: u64 = 1 << 20;

/// A log to be synced; nothing, once nobody wants that any more.
type Due = Mutex<Option<Log>>;

/// A sync of a partition log that is due, to be done on any thread. Dropping it loses nothing: the next one syncs more.
#[derive(Debug)]
pub struct Syncing(Arc<Due>);

impl Syncing {
    /// Syncs the log. It may take as long as a disk does.
    pub fn sync(self) {
        if let Some(log) = &*lock(&self.0) {
            // A log whose sync failed takes nothing any more: the partition stops at the next outcome, and says why.
            let _ = log.sync();
        }
    }
}

/// What a partition knows of the sync that is on its way, if one is.
#[derive(Debug, Default)]
pub(crate) struct Underway(Weak<Due>);

impl Underway {
    /// One that is due, unless another is on its way.
    pub(crate) fn begin(&mut self, log: &Log) -> Option<Syncing> {
        if self.0.strong_count() > 0 || log.unsynced_bytes() < SYNCED_AT_ONCE {
            return None;
        }
        let due = Arc::new(Mutex::new(Some(log.clone())));
        self.0 = Arc::downgrade(&due);
        Some(Syncing(due))
    }

    /// Nobody wants it any more. Afterwards nobody does it, either.
    pub(crate) fn give_up(&self) {
        if let Some(due) = self.0.upgrade() {
            drop(lock(&due).take());
        }
    }
}

fn lock(due: &Due) -> MutexGuard<'_, Option<Log>> {
    // Nothing is changed in between.
    due.lock().unwrap_or_else(PoisonError::into_inner)
}
