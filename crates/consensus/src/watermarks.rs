//! How far a node is, for whoever waits for it.
//!
//! Invariants
//! - WM-1: snapshot <= dispatched <= committed, and dispatched <= durable, at every moment that anybody can see. None of them falls, but
//!   what was durable and not committed may become void, and then is no longer.
//!
//! Must not know: what moves them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use gapless_types::LogIndex;
use tokio::sync::watch;

use crate::message::EntryId;
use crate::replicator::Progress;

/// The watermarks of a node, and what it counts.
#[derive(Debug)]
pub(crate) struct Watermarks {
    pub(crate) progress: watch::Sender<Progress>,
    /// The first entry of the newest term that was dispatched here, or the entry that was resumed behind.
    pub(crate) term_start: watch::Sender<Option<EntryId>>,
    pub(crate) counters: Counters,
}

/// Events since the node was opened.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) proposed: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) dispatched: AtomicU64,
    pub(crate) snapshots_built: AtomicU64,
    pub(crate) snapshots_installed: AtomicU64,
    pub(crate) elections: AtomicU64,
}

/// Counts one more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

impl Watermarks {
    /// `resumed` is the entry behind which dispatching goes on.
    pub(crate) fn new(resumed: Option<EntryId>) -> Self {
        let dispatched = resumed.map(|id| id.index);
        Self {
            progress: watch::Sender::new(Progress { dispatched, ..Progress::default() }),
            term_start: watch::Sender::new(resumed),
            counters: Counters::default(),
        }
    }

    pub(crate) fn dispatched(&self, id: EntryId) {
        count(&self.counters.dispatched);
        self.term_start.send_if_modified(|start| {
            let newer = start.is_none_or(|start| start.term < id.term);
            if newer {
                *start = Some(id);
            }
            newer
        });
        self.progress.send_modify(|progress| progress.reach(id.index));
    }

    pub(crate) fn published(&self, last: EntryId) {
        count(&self.counters.snapshots_built);
        self.progress.send_modify(|progress| raise(&mut progress.snapshot, Some(last.index)));
    }

    pub(crate) fn installed(&self, last: EntryId) {
        count(&self.counters.snapshots_installed);
        self.term_start.send_if_modified(|start| {
            let newer = start.is_none_or(|start| start.term < last.term);
            if newer {
                *start = Some(last);
            }
            newer
        });
        self.progress.send_modify(|progress| {
            progress.reach(last.index);
            raise(&mut progress.snapshot, Some(last.index));
        });
    }
}

impl Progress {
    /// Everything up to `index` was dispatched, so it is committed, and durable here.
    fn reach(&mut self, index: LogIndex) {
        for watermark in [&mut self.dispatched, &mut self.committed, &mut self.durable] {
            raise(watermark, Some(index));
        }
    }
}

/// Watermarks do not fall.
pub(crate) fn raise(watermark: &mut Option<LogIndex>, to: Option<LogIndex>) {
    *watermark = (*watermark).max(to);
}
