//! How long a lease should last: advice for whoever asks for one, from how long work took before.
//!
//! Nothing replicated depends on it: a lease has the length that was asked for.
//!
//! Must not know: slots, clocks.

use std::collections::VecDeque;

/// Samples that are kept.
const SAMPLES: usize = 1024;
/// Nothing is known: how long a first lease lasts, in milliseconds.
const COLD_MS: u64 = 30_000;
/// Shortest lease, in milliseconds.
const FLOOR_MS: u64 = 1000;
/// Longest lease, in milliseconds.
const CAP_MS: u64 = 600_000;

/// What a duration is computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseRule {
    /// Size of the event over the mean size, in thousandths.
    pub size_milli: u64,
    /// How many times the mean, in thousandths.
    pub buffer_milli: u64,
    /// Longest, in milliseconds.
    pub cap_ms: u64,
    /// Shortest, in milliseconds.
    pub floor_ms: u64,
    /// Without samples, in milliseconds.
    pub cold_ms: u64,
}

impl Default for LeaseRule {
    fn default() -> Self {
        Self { size_milli: 1000, buffer_milli: 2000, cap_ms: CAP_MS, floor_ms: 0, cold_ms: 0 }
    }
}

/// The compatible mode: the mean in whole microseconds, times size and buffer, truncated to milliseconds.
pub fn lease_ms(samples_ms: impl IntoIterator<Item = u64>, rule: LeaseRule) -> u64 {
    let (mut count, mut sum_us) = (0_u128, 0_u128);
    for sample in samples_ms {
        count += 1;
        sum_us = sum_us.saturating_add(u128::from(sample) * 1000);
    }
    if count == 0 {
        return rule.cold_ms;
    }
    let mean_us = sum_us / count;
    let product =
        mean_us.saturating_mul(u128::from(rule.size_milli)).saturating_mul(u128::from(rule.buffer_milli));
    let lease_ms = product / 1_000_000 / 1000;
    u64::try_from(lease_ms).unwrap_or(u64::MAX).min(rule.cap_ms).max(rule.floor_ms)
}

/// Size of an event over the mean size of events, in thousandths, from 100 to 10 000.
pub fn size_milli(event_bytes: u64, mean_event_bytes: u64) -> u64 {
    if mean_event_bytes == 0 {
        return 1000;
    }
    let ratio = u128::from(event_bytes) * 1000 / u128::from(mean_event_bytes);
    u64::try_from(ratio).unwrap_or(u64::MAX).clamp(100, 10_000)
}

/// How long work on events of one type took lately. The default mode.
#[derive(Clone, Debug, Default)]
pub struct Durations {
    /// Milliseconds, the oldest first.
    samples: VecDeque<u64>,
    sum_ms: u128,
}

impl Durations {
    /// Work took so long; work that expired, as long as its lease.
    pub fn record(&mut self, milliseconds: u64) {
        if self.samples.len() == SAMPLES {
            let oldest = self.samples.pop_front().unwrap_or_default();
            self.sum_ms -= u128::from(oldest);
        }
        self.samples.push_back(milliseconds);
        self.sum_ms += u128::from(milliseconds);
    }

    /// How long the next lease should last, in milliseconds: twice the mean or a quarter more than the 99th percentile, whichever is
    /// longer.
    pub fn lease_ms(&self) -> u64 {
        if self.samples.is_empty() {
            return COLD_MS;
        }
        let twice_mean = self.sum_ms * 2 / self.samples.len() as u128;
        let quarter_more = u128::from(self.percentile_99()) * 5 / 4;
        let lease_ms = u64::try_from(twice_mean.max(quarter_more)).unwrap_or(u64::MAX);
        lease_ms.clamp(FLOOR_MS, CAP_MS)
    }

    /// When a lease of this length should be renewed, in milliseconds from its grant: at half time.
    pub fn renew_after_ms(lease_ms: u64) -> u64 {
        lease_ms / 2
    }

    /// The smallest sample that at least 99 of 100 do not exceed.
    fn percentile_99(&self) -> u64 {
        let mut sorted: Vec<u64> = self.samples.iter().copied().collect();
        let rank = (sorted.len() * 99).div_ceil(100).saturating_sub(1);
        *sorted.select_nth_unstable(rank).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_mode_follows_the_slow_ones_within_its_bounds() {
        let mut durations = Durations::default();
        assert_eq!(durations.lease_ms(), COLD_MS);
        durations.record(10);
        assert_eq!(durations.lease_ms(), FLOOR_MS);
        for _ in 0..98 {
            durations.record(2000);
        }
        durations.record(10_000);
        assert_eq!(durations.lease_ms(), 4120, "twice the mean of 2060");
        durations.record(10_000);
        assert_eq!(durations.lease_ms(), 12_500, "the 99th percentile and a quarter");
        for _ in 0..SAMPLES {
            durations.record(5000);
        }
        assert_eq!(durations.lease_ms(), 10_000, "only the last samples count");
        durations.record(u64::MAX);
        assert_eq!(durations.lease_ms(), CAP_MS);
        assert_eq!(Durations::renew_after_ms(10_001), 5000);
    }

    #[test]
    fn the_size_of_an_event_counts_within_bounds() {
        assert_eq!(size_milli(150, 100), 1500);
        assert_eq!(size_milli(1, 1_000_000), 100);
        assert_eq!(size_milli(u64::MAX, 1), 10_000);
        assert_eq!(size_milli(5, 0), 1000);
    }
}
