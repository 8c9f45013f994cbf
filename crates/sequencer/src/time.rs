//! Time as the sequencer sees it. It is handed in, so that tests and simulations decide when it passes.

use std::fmt;
use std::time::{Duration, Instant};

use crate::hash::Random;
use crate::sync::{Mutex, NO_PANIC};

/// A source of time: for delays, and for how long an actualization took. Never asked while numbers are taken.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Time since some fixed moment; never falls.
    fn now(&self) -> Duration;
}

/// The clock of the machine.
#[derive(Debug)]
pub struct MonotonicClock(Instant);

impl Default for MonotonicClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for MonotonicClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// A clock that stands still until it is told to go on.
#[derive(Debug, Default)]
pub struct ManualClock(Mutex<Duration>);

impl ManualClock {
    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        *self.0.lock().expect(NO_PANIC) += by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        *self.0.lock().expect(NO_PANIC)
    }
}

/// How long to wait before something that failed is tried again: longer each time up to a limit, and never exactly as
/// long as anybody else, so that many sequencers do not hit a sick storage in step.
#[derive(Debug)]
pub(crate) struct Backoff {
    longest: Duration,
    failures: u32,
    random: Random,
}

impl Backoff {
    /// The first delay is a 64th of the longest.
    const DOUBLINGS: u32 = 6;

    pub(crate) fn new(longest: Duration, seed: u64) -> Self {
        Self { longest, failures: 0, random: Random::new(seed) }
    }

    pub(crate) fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// Between half and all of a delay that doubles with every failure.
    pub(crate) fn failed(&mut self) -> Duration {
        let halvings = Self::DOUBLINGS.saturating_sub(self.failures);
        self.failures = self.failures.saturating_add(1);
        let delay = self.longest / (1 << halvings);
        let half = delay / 2;
        let thousandths = u32::try_from(self.random.next() % 1001).expect("a remainder is small");
        half + half * thousandths / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_and_are_jittered() {
        let mut backoff = Backoff::new(Duration::from_millis(640), 1);
        let delays: Vec<_> = (0..20).map(|_| backoff.failed()).collect();
        for (failures, delay) in delays.iter().enumerate() {
            let full = Duration::from_millis(10 << failures.min(6));
            assert!(*delay >= full / 2 && *delay <= full, "{delay:?} after {failures} failures");
        }
        let last: std::collections::HashSet<_> = delays[7..].iter().collect();
        assert!(last.len() > 5, "no jitter in {last:?}");
        backoff.succeeded();
        assert!(backoff.failed() <= Duration::from_millis(10));
    }

    #[test]
    fn the_same_seed_gives_the_same_delays() {
        let delays = |seed| {
            let mut backoff = Backoff::new(Duration::from_secs(1), seed);
            (0..10).map(|_| backoff.failed()).collect::<Vec<_>>()
        };
        assert_eq!(delays(3), delays(3));
        assert_ne!(delays(3), delays(4));
    }
}
