//! What happened in a run, as a running hash over every event: two runs of one seed have the same, or something is not simulated.
//!
//! Invariants
//! - Every event is in the hash together with its simulated time and its number.
//!
//! Must not know: what events mean.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;
use twox_hash::XxHash3_64;

use crate::world::life::Life;

/// Records events. Clones are the same trace.
#[derive(Clone)]
pub struct Trace(Arc<Inner>);

struct Inner {
    began: Instant,
    events: Mutex<Events>,
    /// Told of every event.
    happened: Notify,
}

#[derive(Default)]
struct Events {
    hash: u64,
    count: u64,
    line: String,
    /// Kept only if somebody wants to read them.
    lines: Option<Vec<String>>,
    wire: Option<Wire>,
}

/// Ends a life at an event: that is how a process ends between any two steps of anybody.
struct Wire {
    at: u64,
    life: Arc<Life>,
}

/// The end of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// Over all events.
    pub hash: u64,
    /// How many there were.
    pub events: u64,
}

impl Trace {
    /// An empty trace that begins now.
    #[must_use]
    pub fn new(keep_lines: bool) -> Self {
        let events = Events { lines: keep_lines.then(Vec::new), ..Events::default() };
        Self(Arc::new(Inner { began: Instant::now(), events: Mutex::new(events), happened: Notify::new() }))
    }

    /// Records an event.
    pub fn note(&self, what: fmt::Arguments<'_>) {
        let at = self.0.began.elapsed().as_micros();
        let tripped = {
            let mut events = self.events();
            let Events { hash, count, line, lines, wire } = &mut *events;
            *count += 1;
            line.clear();
            // Writing to a string does not fail.
            let _ = fmt::write(line, format_args!("{count} {at} {what}"));
            *hash = XxHash3_64::oneshot_with_seed(*hash, line.as_bytes());
            if let Some(lines) = lines {
                lines.push(line.clone());
            }
            wire.take_if(|wire| wire.at <= *count)
        };
        if let Some(wire) = tripped {
            wire.life.end();
        }
        self.0.happened.notify_one();
    }

    /// Ends a life so many events from now, unless it ends before.
    pub(crate) fn trip_after(&self, events: u64, life: Arc<Life>) {
        let mut state = self.events();
        let at = state.count + events;
        state.wire = Some(Wire { at, life });
    }

    /// Waits until something happens.
    pub(crate) async fn happened(&self) {
        self.0.happened.notified().await;
    }

    /// The hash so far.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let events = self.events();
        Fingerprint { hash: events.hash, events: events.count }
    }

    /// Simulated time since the beginning, in milliseconds.
    #[must_use]
    pub fn millis(&self) -> u64 {
        u64::try_from(self.0.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// What was kept of the events.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.events().lines.clone().unwrap_or_default()
    }

    fn events(&self) -> MutexGuard<'_, Events> {
        self.0.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Trace").field(&self.fingerprint()).finish()
    }
}

/// Records an event in a trace.
macro_rules! note {
    ($trace:expr, $($what:tt)*) => { $trace.note(format_args!($($what)*)) };
}
pub(crate) use note;
