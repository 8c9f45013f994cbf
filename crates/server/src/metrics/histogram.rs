//! Histograms with fixed bounds that any thread adds to without a lock.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Upper bounds of the buckets; one more holds everything above.
const BOUNDS: [Duration; 17] = [
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_millis(2500),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
];

/// How often a duration fell below each bound.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    nanoseconds: AtomicU64,
}

impl Histogram {
    pub(super) fn record(&self, took: Duration) {
        let bucket = BOUNDS.partition_point(|bound| *bound < took);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.nanoseconds.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    pub(super) fn read(&self) -> Distribution {
        let counts = self.buckets.iter().map(|bucket| bucket.load(Relaxed));
        let bounds = BOUNDS.iter().copied().map(Some).chain([None]);
        let sum = Duration::from_nanos(self.nanoseconds.load(Relaxed));
        Distribution { buckets: bounds.zip(counts).collect(), sum }
    }
}

/// What a histogram holds at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Distribution {
    /// Upper bound of each bucket, none for the last one, and how many fell between it and the one before.
    pub(super) buckets: Vec<(Option<Duration>, u64)>,
    pub(super) sum: Duration,
}

impl Distribution {
    pub(super) fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }

    /// What the log has counted. Its last bucket holds everything above.
    pub(super) fn of_syncs(log: &gapless_log::Statistics) -> Self {
        let mut buckets: Vec<_> =
            log.sync_latency.buckets().map(|(bound, count)| (Some(bound), count)).collect();
        if let Some(last) = buckets.last_mut() {
            last.0 = None;
        }
        Self { buckets, sum: log.sync_time }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_falls_into_the_bucket_whose_bound_it_does_not_exceed() {
        let histogram = Histogram::default();
        for micros in [0, 100, 101, 30_000_000, 30_000_001] {
            histogram.record(Duration::from_micros(micros));
        }
        let read = histogram.read();
        assert_eq!(read.count(), 5);
        assert_eq!(read.buckets[0], (Some(Duration::from_micros(100)), 2));
        assert_eq!(read.buckets[1].1, 1);
        assert_eq!(read.buckets[16], (Some(Duration::from_secs(30)), 1));
        assert_eq!(read.buckets[17], (None, 1));
        assert_eq!(read.sum, Duration::from_micros(60_000_202));
    }
}
