//! The JSON object that a run prints. Its field names are the contract with whoever reads the output.

use std::time::Duration;

use serde::Serialize;

use crate::workload::{Measurement, Workload};

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    name: &'static str,
    writers: u16,
    size: usize,
    ops: usize,
    seconds: f64,
    p50_us: f64,
    p99_us: f64,
    /// As this process is charged for it.
    bytes_written: u64,
    /// As the device saw it.
    device_bytes_written: Option<u64>,
}

impl Report {
    pub(crate) fn new(name: &'static str, workload: Workload, measurement: Measurement) -> Self {
        let Measurement { elapsed, mut latencies, written } = measurement;
        latencies.sort_unstable();
        Self {
            name,
            writers: workload.writers.get(),
            size: workload.size.get(),
            ops: workload.ops.get(),
            seconds: elapsed.as_secs_f64(),
            p50_us: microseconds(percentile(&latencies, 50)),
            p99_us: microseconds(percentile(&latencies, 99)),
            bytes_written: written.process,
            device_bytes_written: written.device,
        }
    }
}

/// The smallest sample that at least `percent` of all samples do not exceed (nearest rank: exact, no
/// interpolation).
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted[rank.saturating_sub(1)]
}

fn microseconds(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples_at_the_nearest_rank() {
        let samples: Vec<_> = (1..=200).map(Duration::from_micros).collect();
        assert_eq!(percentile(&samples, 50), Duration::from_micros(100));
        assert_eq!(percentile(&samples, 99), Duration::from_micros(198));
        assert_eq!(percentile(&samples[..1], 50), Duration::from_micros(1));
        assert_eq!(percentile(&samples[..3], 99), Duration::from_micros(3));
    }
}
