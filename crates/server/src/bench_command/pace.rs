//! When things are sent. In a closed loop, when there is somebody to send them. In an open one each has its time, and a client that
//! comes late to it does not make it later: the latency of what was due counts from when it was due.
//!
//! Must not know: what is sent.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

/// The longest nap of the thread that says what is due, so that it notices the end.
const NAP: Duration = Duration::from_millis(20);

/// One thing to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// Counted from 0.
    pub(super) number: u64,
    /// When it was to be sent.
    pub(super) at: Instant,
}

/// The order and the times in which things are sent, for all clients together.
#[derive(Debug)]
pub(super) struct Pace {
    began: Instant,
    /// Things a second, in an open loop.
    rate: Option<f64>,
    next: AtomicU64,
    /// As many as are due and not taken, in an open loop.
    due: Semaphore,
    /// As many as were due.
    given: AtomicU64,
    over: AtomicBool,
}

impl Pace {
    pub(super) fn new(rate: Option<u32>) -> Self {
        Self {
            began: Instant::now(),
            rate: rate.map(f64::from),
            next: AtomicU64::new(0),
            due: Semaphore::new(0),
            given: AtomicU64::new(0),
            over: AtomicBool::new(false),
        }
    }

    /// The next thing to send; none once it is over.
    pub(super) async fn next(&self) -> Option<Due> {
        let Some(rate) = self.rate else {
            let is_over = self.over.load(Ordering::Relaxed);
            return (!is_over)
                .then(|| Due { number: self.next.fetch_add(1, Ordering::Relaxed), at: Instant::now() });
        };
        self.due.acquire().await.ok()?.forget();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        Some(Due { number, at: self.began + Duration::from_secs_f64(number as f64 / rate) })
    }

    /// Says what is due, until it is over. On a thread of its own: a timer of the runtime is late by up to a millisecond.
    pub(super) fn drive(&self) {
        let Some(rate) = self.rate else { return };
        while !self.over.load(Ordering::Relaxed) {
            let due = due(rate, self.began.elapsed());
            let given = self.given.swap(due, Ordering::Relaxed);
            self.due.add_permits(usize::try_from(due - given).unwrap_or(0));
            let until_next = (due as f64 / rate - self.began.elapsed().as_secs_f64()).max(0.0);
            thread::sleep(Duration::from_secs_f64(until_next).min(NAP));
        }
    }

    /// Nothing is sent any more.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.due.close();
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// What was due until then and was never sent, because every client was still waiting for an answer.
    pub(super) fn not_sent(&self, until: Instant) -> u64 {
        let Some(rate) = self.rate else { return 0 };
        let due =
            due(rate, until.saturating_duration_since(self.began)).min(self.given.load(Ordering::Relaxed));
        due.saturating_sub(self.next.load(Ordering::Relaxed))
    }
}

/// How many are due after so long.
fn due(rate: f64, elapsed: Duration) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a time that has passed is neither"
    )]
    let whole = (elapsed.as_secs_f64() * rate) as u64;
    whole + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_due_counts_from_when_it_was_due_however_late_it_is_taken() {
        let pace = Pace::new(Some(1000));
        pace.due.add_permits(3);
        pace.given.store(3, Ordering::Relaxed);
        let mut taken = Vec::new();
        for _ in 0..2 {
            taken.push(pace.next().await.unwrap());
        }
        assert_eq!(taken[0], Due { number: 0, at: pace.began });
        assert_eq!(taken[1], Due { number: 1, at: pace.began + Duration::from_millis(1) });
        pace.end();
        let late = pace.began + Duration::from_secs(1);
        assert_eq!((pace.next().await, pace.not_sent(late)), (None, 1));
        assert_eq!(
            pace.not_sent(pace.began + Duration::from_micros(1500)),
            0,
            "the third one was not due yet"
        );
    }

    #[tokio::test]
    async fn a_closed_loop_is_always_due_until_it_is_over() {
        let pace = Pace::new(None);
        assert_eq!(pace.next().await.unwrap().number, 0);
        assert_eq!(pace.next().await.unwrap().number, 1);
        pace.end();
        assert_eq!((pace.next().await, pace.not_sent(Instant::now())), (None, 0));
    }
}
