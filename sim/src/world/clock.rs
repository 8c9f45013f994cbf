//! The clocks of a node: the runtime's simulated time, seen through a clock that is off, runs fast or slow, and jumps.
//!
//! Must not know: who asks.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gapless_engine::log_time;
use tokio::time::Instant;

/// When simulated time begins, since 1970.
const BEGINNING: Duration = Duration::from_secs(1_700_000_000);

/// The clocks of one machine.
#[derive(Debug)]
pub struct SimulatedClock {
    began: Instant,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// How far the wall clock is off, in milliseconds.
    off: i64,
    /// How much faster the machine's clocks run, in millionths.
    drift: i32,
    /// How long a write to the disk takes.
    write_takes: Duration,
}

impl SimulatedClock {
    pub(crate) fn new(began: Instant) -> Self {
        Self { began, state: Mutex::default() }
    }

    /// Sets the wall clock this many milliseconds off.
    pub(crate) fn set_off(&self, millis: i64) {
        self.state().off = millis;
    }

    /// Lets the machine's clocks run faster by so many millionths.
    pub(crate) fn set_drift(&self, millionths: i32) {
        self.state().drift = millionths;
    }

    /// Lets every write of the replicated log take this long.
    pub(crate) fn set_write_takes(&self, takes: Duration) {
        self.state().write_takes = takes;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn elapsed(&self) -> Duration {
        let elapsed = self.began.elapsed();
        let drift = self.state().drift;
        let change = elapsed / 1_000_000 * drift.unsigned_abs();
        if drift < 0 { elapsed.saturating_sub(change) } else { elapsed + change }
    }
}

impl log_time::Clock for SimulatedClock {
    fn wall(&self) -> Duration {
        let off = self.state().off;
        let change = Duration::from_millis(off.unsigned_abs());
        let now = BEGINNING + self.elapsed();
        if off < 0 { now.saturating_sub(change) } else { now + change }
    }

    fn monotonic(&self) -> Duration {
        self.elapsed()
    }
}

impl gapless_log::Clock for SimulatedClock {
    fn now(&self) -> Duration {
        self.elapsed()
    }

    fn write_takes(&self) -> Duration {
        self.state().write_takes
    }
}
