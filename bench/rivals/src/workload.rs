//! The workload every rival gets: threads that each append one record and wait until it is durable, in a
//! loop.
//!
//! ```text
//! writers   | warm-up |        | measured |
//! main               snapshot ^          ^ snapshot
//! ```
//!
//! All writers finish the warm-up before the first measured append starts; clock and counters are read while
//! nobody appends.
//!
//! Must not know: what a rival is. It sees one append function per writer.

use std::num::{NonZeroU16, NonZeroUsize};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use clap::Args;

use crate::disk_counters::{DiskCounters, WrittenBytes};

/// One warm-up append per this many measured ones.
const MEASURED_PER_WARM_UP: usize = 10;

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Workload {
    /// Payload of one record in bytes
    #[arg(long)]
    pub(crate) size: NonZeroUsize,
    /// Threads that append at the same time
    #[arg(long)]
    pub(crate) writers: NonZeroU16,
    /// Measured appends of all writers together; a tenth more is appended before, as warm-up
    #[arg(long)]
    pub(crate) ops: NonZeroUsize,
}

/// What one run took. Latencies are in no particular order, one per measured append.
#[derive(Debug)]
pub(crate) struct Measurement {
    pub(crate) elapsed: Duration,
    pub(crate) latencies: Vec<Duration>,
    pub(crate) written: WrittenBytes,
}

impl Workload {
    /// Appends of the whole run, warm-up included.
    pub(crate) fn total_appends(&self) -> usize {
        self.shares().map(|share| share.warm_up + share.measured).sum()
    }

    /// Runs the workload. `appender_of` is called once per writer, with the number of the writer counted from
    /// 0, on the thread of that writer; the function that it returns must come back only when the record is
    /// durable.
    pub(crate) fn run<Append>(
        &self,
        counters: &DiskCounters,
        appender_of: impl Fn(u16) -> Append + Sync,
    ) -> Result<Measurement>
    where
        Append: FnMut(&[u8]) -> Result<()>,
    {
        let barrier = Barrier::new(usize::from(self.writers.get()) + 1);
        thread::scope(|scope| {
            let (barrier, appender_of) = (&barrier, &appender_of);
            let threads: Vec<_> = (0..)
                .zip(self.shares())
                .map(|(number, share)| {
                    let writer = Writer::new(number, self.size);
                    scope.spawn(move || writer.run(share, barrier, appender_of(number)))
                })
                .collect();

            barrier.wait();
            let written_before = counters.read();
            let start = Instant::now();
            barrier.wait();
            let mut latencies = Vec::with_capacity(self.ops.get());
            for thread in threads {
                latencies.extend(thread.join().map_err(|_| anyhow!("a writer panicked"))??);
            }
            let elapsed = start.elapsed();
            let written = counters.read()?.since(written_before?);
            Ok(Measurement { elapsed, latencies, written })
        })
    }

    fn shares(&self) -> impl Iterator<Item = Share> {
        let writers = usize::from(self.writers.get());
        let (each, rest) = (self.ops.get() / writers, self.ops.get() % writers);
        (0..writers).map(move |number| {
            let measured = each + usize::from(number < rest);
            Share { warm_up: measured.div_ceil(MEASURED_PER_WARM_UP), measured }
        })
    }
}

/// The appends of one writer.
#[derive(Clone, Copy, Debug)]
struct Share {
    warm_up: usize,
    measured: usize,
}

struct Writer {
    number: u16,
    record: Vec<u8>,
    /// Fresh random bytes for every record: nothing between us and the platter can compress or share them.
    random: fastrand::Rng,
}

impl Writer {
    fn new(number: u16, size: NonZeroUsize) -> Self {
        Self { number, record: vec![0; size.get()], random: fastrand::Rng::with_seed(u64::from(number)) }
    }

    /// A failed warm-up still passes both barriers, because the other threads count on it.
    fn run(
        mut self,
        share: Share,
        barrier: &Barrier,
        mut append: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<Vec<Duration>> {
        let warm_up = self.append_times(share.warm_up, &mut append);
        barrier.wait();
        barrier.wait();
        warm_up?;
        self.append_times(share.measured, &mut append)
    }

    fn append_times(
        &mut self,
        count: usize,
        append: &mut impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<Vec<Duration>> {
        let mut latencies = Vec::with_capacity(count);
        for _ in 0..count {
            self.random.fill(&mut self.record);
            let start = Instant::now();
            append(&self.record).with_context(|| format!("writer {}", self.number))?;
            latencies.push(start.elapsed());
        }
        Ok(latencies)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use anyhow::bail;

    use super::*;

    fn counters() -> DiskCounters {
        DiskCounters::of(Path::new("/")).unwrap()
    }

    fn workload(writers: u16, ops: usize) -> Workload {
        Workload {
            size: NonZeroUsize::new(64).unwrap(),
            writers: NonZeroU16::new(writers).unwrap(),
            ops: NonZeroUsize::new(ops).unwrap(),
        }
    }

    #[test]
    fn every_asked_append_is_measured_and_the_warm_up_is_not() {
        let workload = workload(3, 100);
        let appends = AtomicUsize::new(0);
        let measurement = workload
            .run(&counters(), |_| {
                |record: &[u8]| {
                    assert_eq!(record.len(), 64);
                    appends.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                }
            })
            .unwrap();
        assert_eq!(measurement.latencies.len(), 100);
        assert_eq!(appends.into_inner(), workload.total_appends());
        assert_eq!(workload.total_appends(), 100 + 3 * 4);
    }

    #[test]
    fn more_writers_than_appends_leave_some_writers_idle() {
        assert_eq!(workload(8, 3).run(&counters(), |_| |_: &[u8]| Ok(())).unwrap().latencies.len(), 3);
    }

    #[test]
    fn a_writer_that_fails_in_the_warm_up_fails_the_run() {
        let failure = workload(4, 100)
            .run(&counters(), |number| move |_: &[u8]| if number == 2 { bail!("no space") } else { Ok(()) })
            .unwrap_err();
        assert_eq!(format!("{failure:#}"), "writer 2: no space");
    }
}
