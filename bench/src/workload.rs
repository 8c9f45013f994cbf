//! Threads that each append one record and wait until it is durable, in a loop: the same workload that the program for
//! rivals runs.
//!
//! ```text
//! writers   | warm-up |       | measured |
//! main              barrier ^ ^ barrier
//! ```
//!
//! All writers finish the warm-up before the first measured append starts.
//!
//! Must not know: what an append does. It sees one function per writer.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use serde::{Deserialize, Serialize};

use crate::samples::Latencies;

/// Payload of one record, in bytes.
pub(crate) const PAYLOAD_BYTES: usize = 1024;

/// One warm-up append per this many measured ones.
const MEASURED_PER_WARM_UP: usize = 10;

/// How many threads append how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Shape {
    pub(crate) writers: usize,
    /// Measured appends of all writers together.
    pub(crate) appends: usize,
}

/// What one run took.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
}

impl Shape {
    /// Runs the workload. `appender_of` is called once per writer on its thread; what it returns must come back only when
    /// the record is durable.
    pub(crate) fn run<Append>(self, appender_of: impl Fn() -> Append + Sync) -> Result<Run>
    where
        Append: FnMut(&[u8]) -> Result<()>,
    {
        let barrier = Barrier::new(self.writers + 1);
        thread::scope(|scope| {
            let (barrier, appender_of) = (&barrier, &appender_of);
            let writers: Vec<_> = (0..self.writers)
                .map(|number| {
                    scope.spawn(move || Writer::new(number).run(self.share(number), barrier, appender_of()))
                })
                .collect();
            barrier.wait();
            let start = Instant::now();
            barrier.wait();
            let mut latencies = Vec::with_capacity(self.appends);
            for writer in writers {
                latencies.extend(writer.join().map_err(|_| anyhow!("a writer panicked"))??);
            }
            let elapsed = start.elapsed();
            let per_second = latencies.len() as f64 / elapsed.as_secs_f64();
            let latencies = Latencies::new(latencies);
            Ok(Run { per_second, p50_us: latencies.percentile_us(50), p99_us: latencies.percentile_us(99) })
        })
    }

    /// Measured appends of one writer.
    fn share(self, writer: usize) -> usize {
        self.appends / self.writers + usize::from(writer < self.appends % self.writers)
    }
}

struct Writer {
    payload: [u8; PAYLOAD_BYTES],
    /// Fresh random bytes for every record: nothing below us can compress or share them.
    random: fastrand::Rng,
}

impl Writer {
    fn new(number: usize) -> Self {
        Self { payload: [0; PAYLOAD_BYTES], random: fastrand::Rng::with_seed(number as u64) }
    }

    /// A writer whose warm-up failed still passes both barriers, because the others count on it.
    fn run(
        mut self,
        measured: usize,
        barrier: &Barrier,
        mut append: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<Vec<Duration>> {
        let warm_up = self.append_times(measured.div_ceil(MEASURED_PER_WARM_UP), &mut append);
        barrier.wait();
        barrier.wait();
        warm_up?;
        self.append_times(measured, &mut append)
    }

    fn append_times(
        &mut self,
        count: usize,
        append: &mut impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<Vec<Duration>> {
        let mut latencies = Vec::with_capacity(count);
        for _ in 0..count {
            self.random.fill(&mut self.payload);
            let start = Instant::now();
            append(&self.payload)?;
            latencies.push(start.elapsed());
        }
        Ok(latencies)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use anyhow::bail;

    use super::*;

    #[test]
    fn every_writer_gets_its_share_and_a_tenth_more_as_warm_up() {
        let shape = Shape { writers: 3, appends: 100 };
        let appends = AtomicUsize::new(0);
        shape
            .run(|| {
                |payload: &[u8]| {
                    assert_eq!(payload.len(), PAYLOAD_BYTES);
                    appends.fetch_add(1, Relaxed);
                    Ok(())
                }
            })
            .unwrap();
        assert_eq!((0..3).map(|writer| shape.share(writer)).collect::<Vec<_>>(), [34, 33, 33]);
        assert_eq!(appends.into_inner(), 100 + 3 * 4);
    }

    #[test]
    fn a_writer_that_fails_in_the_warm_up_fails_the_run() {
        let failing = || |_: &[u8]| bail!("no space");
        let failure = Shape { writers: 4, appends: 100 }.run(failing).unwrap_err();
        assert_eq!(failure.to_string(), "no space");
    }
}
