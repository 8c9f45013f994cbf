//! Turns for the sequencer's background work. A partition has no clock: for the sequencer, time is what passes from turn to turn.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gapless_sequencer::{Busy, Clock, Sequencer, StartError, Storage};

/// A turn is longer than any delay of the sequencer, so that nothing waits for the one after the next.
const TURN: Duration = Duration::from_secs(60);

/// Counts turns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns(Arc<AtomicU64>);

impl Clock for Turns {
    fn now(&self) -> Duration {
        TURN.saturating_mul(u32::try_from(self.0.load(Ordering::Relaxed)).unwrap_or(u32::MAX))
    }
}

impl Turns {
    /// Lets the sequencer do everything that is due; what it says then.
    pub(crate) fn take<S: Storage>(&self, sequencer: &mut Sequencer<S>) -> Result<(), StartError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        sequencer.run_background();
        sequencer.check_ready()
    }

    /// Lets the sequencer write all numbers it has; whether it could.
    pub(crate) fn flush<S: Storage>(&self, sequencer: &mut Sequencer<S>) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed);
        sequencer.run_background();
        let statistics = sequencer.statistics();
        statistics.unflushed_values == 0 && statistics.lag == 0
    }
}

/// Whether waiting helps.
pub(crate) fn is_busy(error: &StartError) -> Option<Busy> {
    match error {
        StartError::Busy(busy) => Some(*busy),
        _ => None,
    }
}

/// For errors that only say that the storage fails.
pub(crate) fn told(error: &impl fmt::Display, last: Option<String>) -> String {
    match last {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
