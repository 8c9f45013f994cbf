//! The two threads of a log that drives itself: the writer, and maintenance.
//!
//! They do nothing that a caller could not do with [`Log::flush`](crate::Log::flush),
//! [`Log::certify`](crate::Log::certify), [`Log::maintain`](crate::Log::maintain) and
//! [`Scrub::step`](crate::Scrub::step).

use std::io;
use std::sync::{Arc, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::error::Fault;
use crate::scrub::Scrub;
use crate::shared::Shared;

/// How long maintenance waits before it looks again although nobody called: a full disk may have room again.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(1);

/// Starts both.
pub(crate) fn spawn(shared: &Arc<Shared>) -> io::Result<Vec<JoinHandle<()>>> {
    let (writer, keeper) = (shared.clone(), shared.clone());
    let writer = Builder::new().name("log-writer".to_owned()).spawn(move || {
        let _guard = PanicGuard(&writer);
        write(&writer);
    })?;
    let keeper = Builder::new().name("log-maintenance".to_owned()).spawn(move || {
        let _guard = PanicGuard(&keeper);
        keep_up(&keeper);
    })?;
    Ok(vec![writer, keeper])
}

/// A thread that dies of a bug takes the log with it, so that nobody waits for ever.
struct PanicGuard<'a>(&'a Shared);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let source = Arc::new(io::Error::other("a thread of the log panicked"));
            let mut writer = self.0.writer.lock().unwrap_or_else(PoisonError::into_inner);
            self.0.poison(Fault { action: "go on", source }, &writer.take_unsynced());
        }
    }
}

/// Writes what is queued until the log is closed or fails. There is no timer in the way of a write: whatever came while
/// the last frame was synced is the next one.
fn write(shared: &Shared) {
    loop {
        let mut state = shared.state();
        while state.queue.is_empty() && !state.closed && state.fault.is_none() {
            if !state.uncertified {
                state = shared.work.wait(state).expect("no thread panics while it holds the state of a log");
                continue;
            }
            let waited = shared.work.wait_timeout(state, shared.options.certify_after);
            let (guard, timeout) = waited.expect("no thread panics while it holds the state of a log");
            state = guard;
            if timeout.timed_out() && state.queue.is_empty() {
                break;
            }
        }
        let (idle, closed, failed) = (state.queue.is_empty(), state.closed, state.fault.is_some());
        drop(state);
        if failed || (closed && idle) {
            return;
        }
        // An error has poisoned the log and told everybody who waits.
        let outcome = if idle { shared.certify() } else { shared.flush() };
        if outcome.is_err() {
            return;
        }
        if idle {
            // Without room for a certifying frame there is nothing to wait for until the next append.
            shared.state().uncertified = false;
        }
    }
}

/// Footers, removals, the next segment; and between them the scrub at its rate.
fn keep_up(shared: &Arc<Shared>) {
    let mut scrub = Scrub::new(shared.clone());
    let mut scrub_at = shared.options.clock.now() + MAINTENANCE_INTERVAL;
    loop {
        if shared.maintain().is_err() {
            return;
        }
        let now = shared.options.clock.now();
        if shared.options.scrub_bytes_per_second > 0 && now >= scrub_at {
            // A read error is met again by whoever reads there, and reported to him.
            let bytes = scrub.step().ok().flatten().map_or(0, |scrubbed| scrubbed.bytes);
            scrub_at = now + scrub_pause(bytes, shared.options.scrub_bytes_per_second);
        }
        let state = shared.state();
        if state.closed || state.fault.is_some() {
            return;
        }
        if state.chores.is_empty() && (state.prepared.is_some() || !state.queue.is_empty()) {
            let _ = shared.upkeep.wait_timeout(state, MAINTENANCE_INTERVAL);
        } else if state.chores.is_empty() {
            // Preparing failed: room may come.
            let _ = shared.upkeep.wait_timeout(state, MAINTENANCE_INTERVAL);
        }
    }
}

/// How long the scrub rests after it has read this many bytes, so that it stays below its rate.
fn scrub_pause(bytes: u64, bytes_per_second: u64) -> Duration {
    Duration::from_secs_f64(bytes as f64 / bytes_per_second as f64).max(MAINTENANCE_INTERVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scrub_rests_as_long_as_its_rate_demands() {
        assert_eq!(scrub_pause(64 << 20, 16 << 20), Duration::from_secs(4));
        assert_eq!(scrub_pause(0, 16 << 20), MAINTENANCE_INTERVAL);
    }
}
