//! What was measured: latencies, counts, errors by reason. Clients share a few of them, so that they do not wait for each other.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;

/// How many parts it has.
const PARTS: usize = 16;
/// The longest latency that is told apart, in microseconds; what is longer counts as this.
const LONGEST_US: u64 = 3_600_000_000;
/// Digits of a latency that are kept.
const DIGITS: u8 = 3;

/// Everything that was measured.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    /// Latencies of what succeeded, in microseconds.
    pub(super) latencies: Histogram<u64>,
    /// Events that were written or read.
    pub(super) events: u64,
    /// How often each reason was given.
    pub(super) errors: BTreeMap<String, u64>,
}

impl Measured {
    fn new() -> Self {
        let latencies = Histogram::new_with_bounds(1, LONGEST_US, DIGITS)
            .expect("the bounds of a histogram are in order");
        Self { latencies, events: 0, errors: BTreeMap::new() }
    }
}

/// Where clients note what they measure.
#[derive(Debug)]
pub(super) struct Recorder {
    parts: Vec<Mutex<Measured>>,
    /// Events so far, warm-up included.
    seen: AtomicU64,
}

impl Recorder {
    pub(super) fn new() -> Self {
        Self { parts: (0..PARTS).map(|_| Mutex::new(Measured::new())).collect(), seen: AtomicU64::new(0) }
    }

    /// Notes that something went by, measured or not.
    pub(super) fn see(&self, events: u64) {
        self.seen.fetch_add(events, Ordering::Relaxed);
    }

    pub(super) fn seen(&self) -> u64 {
        self.seen.load(Ordering::Relaxed)
    }

    pub(super) fn succeeded(&self, client: usize, latency: Duration, events: u64) {
        self.part(client, |part| {
            let microseconds = u64::try_from(latency.as_micros()).unwrap_or(LONGEST_US);
            part.latencies.saturating_record(microseconds.max(1));
            part.events += events;
        });
    }

    pub(super) fn failed(&self, client: usize, reason: &str) {
        self.part(client, |part| match part.errors.get_mut(reason) {
            Some(count) => *count += 1,
            None => {
                part.errors.insert(reason.to_owned(), 1);
            }
        });
    }

    fn part(&self, client: usize, change: impl FnOnce(&mut Measured)) {
        change(&mut self.parts[client % PARTS].lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// All of it together.
    pub(super) fn measured(&self) -> Measured {
        let mut all = Measured::new();
        for part in &self.parts {
            let part = part.lock().unwrap_or_else(PoisonError::into_inner);
            all.latencies.add(&part.latencies).expect("all parts have the same bounds");
            all.events += part.events;
            for (reason, count) in &part.errors {
                *all.errors.entry(reason.clone()).or_default() += count;
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up() {
        let recorder = Recorder::new();
        for client in 0..40 {
            recorder.succeeded(client, Duration::from_micros(100 + client as u64), 2);
        }
        recorder.failed(3, "OVERLOADED");
        recorder.failed(19, "OVERLOADED");
        let measured = recorder.measured();
        assert_eq!((measured.events, measured.latencies.len(), measured.errors["OVERLOADED"]), (80, 40, 2));
        assert_eq!((measured.latencies.min(), measured.latencies.max()), (100, 139));
    }
}
