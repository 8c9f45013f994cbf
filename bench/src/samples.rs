//! From many samples to the few figures that are reported.
//!
//! Within a run every latency is kept, so that percentiles are exact. Over rounds the median stands for all of them,
//! with the lowest and the highest beside it: on a shared machine single rounds are off by a lot, and always in the
//! same direction, so that a mean would be, too.

use std::time::Duration;

use serde::Serialize;

/// One latency per append of a run, sorted.
#[derive(Debug)]
pub(crate) struct Latencies(Vec<Duration>);

impl Latencies {
    pub(crate) fn new(mut samples: Vec<Duration>) -> Self {
        samples.sort_unstable();
        Self(samples)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The smallest sample that at least `percent` of all do not exceed, in microseconds; 0 without samples.
    pub(crate) fn percentile_us(&self, percent: usize) -> f64 {
        self.per_mille_us(percent * 10)
    }

    /// The same in thousandths.
    pub(crate) fn per_mille_us(&self, per_mille: usize) -> f64 {
        let rank = (self.0.len() * per_mille).div_ceil(1000);
        let sample = self.0.get(rank.saturating_sub(1)).copied().unwrap_or_default();
        sample.as_secs_f64() * 1e6
    }
}

/// One figure over all rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) lowest: f64,
    pub(crate) highest: f64,
}

impl Spread {
    /// Of at least one value; a figure without any is not a number.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_unstable_by(f64::total_cmp);
        let (Some(&lowest), Some(&highest)) = (values.first(), values.last()) else {
            return Self::exact(f64::NAN);
        };
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => f64::midpoint(values[middle - 1], values[middle]),
            _ => values[middle],
        };
        Self { median, lowest, highest }
    }

    /// A figure that is counted, not timed: every round would give the same.
    pub(crate) fn exact(value: f64) -> Self {
        Self { median: value, lowest: value, highest: value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn microseconds(samples: impl IntoIterator<Item = u64>) -> Latencies {
        Latencies::new(samples.into_iter().map(Duration::from_micros).collect())
    }

    #[test]
    fn percentiles_are_samples_at_the_nearest_rank() {
        let latencies = microseconds((1..=200).rev());
        assert_eq!(latencies.percentile_us(50).round(), 100.0);
        assert_eq!(latencies.percentile_us(99).round(), 198.0);
        assert_eq!(microseconds([7]).percentile_us(50).round(), 7.0);
        assert_eq!(microseconds([1, 2, 3]).percentile_us(99).round(), 3.0);
        assert_eq!(microseconds([]).percentile_us(50), 0.0);
    }

    #[test]
    fn the_median_of_an_even_count_lies_between_the_two_in_the_middle() {
        assert_eq!(Spread::of([4.0, 1.0, 9.0]), Spread { median: 4.0, lowest: 1.0, highest: 9.0 });
        assert_eq!(Spread::of([4.0, 1.0, 9.0, 6.0]).median, 5.0);
        assert!(Spread::of([]).median.is_nan());
    }
}
