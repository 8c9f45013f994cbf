//! What a log counts about itself.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Buckets of the histogram: bucket n holds latencies below 2^n microseconds, the last one everything above.
pub const LATENCY_BUCKETS: usize = 25;

/// Counters that the log's threads add to.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) records: AtomicU64,
    pub(crate) payload_bytes: AtomicU64,
    pub(crate) frames: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) certifying_frames: AtomicU64,
    pub(crate) segments_prepared: AtomicU64,
    pub(crate) segments_recycled: AtomicU64,
    pub(crate) segments_removed: AtomicU64,
    pub(crate) footers: AtomicU64,
    pub(crate) checksum_errors: AtomicU64,
    pub(crate) scrubbed_bytes: AtomicU64,
    sync_latency: [AtomicU64; LATENCY_BUCKETS],
    sync_nanoseconds: AtomicU64,
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Relaxed);
}

impl Counters {
    pub(crate) fn record_sync(&self, latency: Duration) {
        add(&self.syncs, 1);
        let microseconds = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        let bucket = (u64::BITS - microseconds.leading_zeros()) as usize;
        add(&self.sync_latency[bucket.min(LATENCY_BUCKETS - 1)], 1);
        add(&self.sync_nanoseconds, u64::try_from(latency.as_nanos()).unwrap_or(0));
    }

    /// The counters as they are; what is not counted here is left at 0.
    pub(crate) fn snapshot(&self) -> Statistics {
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        Statistics {
            records: get(&self.records),
            payload_bytes: get(&self.payload_bytes),
            frames: get(&self.frames),
            bytes_written: get(&self.bytes_written),
            syncs: get(&self.syncs),
            certifying_frames: get(&self.certifying_frames),
            segments_prepared: get(&self.segments_prepared),
            segments_recycled: get(&self.segments_recycled),
            segments_removed: get(&self.segments_removed),
            footers: get(&self.footers),
            checksum_errors: get(&self.checksum_errors),
            scrubbed_bytes: get(&self.scrubbed_bytes),
            sync_latency: LatencyHistogram(std::array::from_fn(|bucket| get(&self.sync_latency[bucket]))),
            sync_time: Duration::from_nanos(get(&self.sync_nanoseconds)),
            queued_items: 0,
            queued_bytes: 0,
            segments: 0,
        }
    }
}

/// Counters since the log was opened, and a few values of this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Records written.
    pub records: u64,
    /// Bytes of their payloads as appended.
    pub payload_bytes: u64,
    /// Frames written, those without records included.
    pub frames: u64,
    /// Bytes written to segments on the commit path: headers, frames, padding.
    pub bytes_written: u64,
    /// Syncs on the commit path.
    pub syncs: u64,
    /// Frames without records that only certify the one before.
    pub certifying_frames: u64,
    /// Segments filled with zeros ahead of time.
    pub segments_prepared: u64,
    /// Of those, how many were made from released ones.
    pub segments_recycled: u64,
    /// Segments removed after they were released.
    pub segments_removed: u64,
    /// Footers written.
    pub footers: u64,
    /// Records or frames that did not match their checksum when they were read.
    pub checksum_errors: u64,
    /// Bytes that the scrub has read again.
    pub scrubbed_bytes: u64,
    /// How long syncs took.
    pub sync_latency: LatencyHistogram,
    /// How long all of them took together.
    pub sync_time: Duration,
    /// Appends that wait for the writer now.
    pub queued_items: u64,
    /// Bytes that wait for the writer now.
    pub queued_bytes: u64,
    /// Segments there are now.
    pub segments: u64,
}

/// How often a latency fell below 2^n microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyHistogram([u64; LATENCY_BUCKETS]);

impl LatencyHistogram {
    /// Upper bound (exclusive) and count of each bucket.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        self.0.iter().enumerate().map(|(bucket, &count)| (Duration::from_micros(1 << bucket), count))
    }

    /// How many latencies there are.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// An upper bound for the latency that this share (0 to 1) of all stays below; `None` without any.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let total = self.count();
        let mut seen = 0;
        self.buckets().find_map(|(bound, count)| {
            seen += count;
            (total > 0 && seen as f64 >= share * total as f64).then_some(bound)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_falls_into_the_bucket_above_it() {
        let counters = Counters::default();
        for microseconds in [0, 1, 3, 200, 250, u64::MAX] {
            counters.record_sync(Duration::from_micros(microseconds));
        }
        let histogram = counters.snapshot().sync_latency;
        assert_eq!(histogram.count(), 6);
        assert_eq!(histogram.quantile(0.5), Some(Duration::from_micros(4)));
        assert_eq!(histogram.quantile(0.8), Some(Duration::from_micros(256)));
        assert_eq!(histogram.quantile(1.0), Some(Duration::from_micros(1 << 24)));
    }
}
