//! What a connection does: how many calls it has, when it had one last, and how many it broke off.
//!
//! Must not know: what calls do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Calls that a connection may break off, besides as many as it lets be answered.
const MAX_BROKEN_OFF: u64 = 200;

/// What a connection does.
#[derive(Debug)]
pub(crate) struct Activity {
    began: Instant,
    running: AtomicUsize,
    /// When the last call ended, in milliseconds from the beginning.
    last: AtomicU64,
    answered: AtomicU64,
    broken_off: AtomicU64,
    fickle: Notify,
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            running: AtomicUsize::new(0),
            last: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            broken_off: AtomicU64::new(0),
            fickle: Notify::new(),
        }
    }

    /// A call begins.
    pub(crate) fn begin(self: &Arc<Self>) -> Busy {
        self.running.fetch_add(1, Relaxed);
        Busy { activity: self.clone(), answered: false }
    }

    /// Ready when there was no call for so long.
    pub(crate) async fn idle(&self, patience: Duration) {
        loop {
            let last = self.began + Duration::from_millis(self.last.load(Relaxed));
            if self.running.load(Relaxed) == 0 && last.elapsed() >= patience {
                return;
            }
            let next =
                if self.running.load(Relaxed) == 0 { last + patience } else { Instant::now() + patience };
            tokio::time::sleep_until(next).await;
        }
    }

    /// Ready when more calls were broken off than anybody needs to.
    pub(crate) async fn fickle(&self) {
        self.fickle.notified().await;
    }

    fn end(&self, answered: bool) {
        self.running.fetch_sub(1, Relaxed);
        self.last.store(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX), Relaxed);
        let count = if answered { &self.answered } else { &self.broken_off };
        count.fetch_add(1, Relaxed);
        if self.broken_off.load(Relaxed) > MAX_BROKEN_OFF.saturating_add(self.answered.load(Relaxed)) {
            self.fickle.notify_one();
        }
    }
}

/// A call until the end of its answer. Dropped before that begins, it was broken off.
#[derive(Debug)]
pub(crate) struct Busy {
    activity: Arc<Activity>,
    answered: bool,
}

impl Busy {
    /// Its answer begins.
    pub(crate) fn answers(&mut self) {
        self.answered = true;
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.activity.end(self.answered);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_when_nothing_runs_for_long() {
        let activity = Arc::new(Activity::new());
        let patience = Duration::from_secs(10);
        let mut busy = activity.begin();
        busy.answers();
        tokio::time::advance(patience * 3).await;
        assert!(activity.idle(patience).now_or_never().is_none());
        drop(busy);
        assert!(activity.idle(patience).now_or_never().is_none());
        tokio::time::advance(patience).await;
        activity.idle(patience).await;
    }

    #[tokio::test]
    async fn who_breaks_off_more_than_he_lets_be_answered_is_fickle() {
        let activity = Arc::new(Activity::new());
        for _ in 0..MAX_BROKEN_OFF {
            drop(activity.begin());
        }
        assert!(activity.fickle().now_or_never().is_none());
        activity.begin().answers();
        drop(activity.begin());
        assert!(activity.fickle().now_or_never().is_none());
        drop(activity.begin());
        assert!(activity.fickle().now_or_never().is_some());
    }
}
