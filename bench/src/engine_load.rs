//! Writers that each wait for an answer before they ask again, as tasks on a clock.
//!
//! ```text
//! writers  | warm-up |  measured  | an answer that comes later is not counted
//! counters           ^            ^
//! ```
//!
//! Must not know: what a write does. It sees one function.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use tokio::task::JoinSet;

use crate::samples::Latencies;
use crate::thread_time::Busy;

/// Something that can be written to by many at once.
pub(crate) trait Target: Send + Sync + 'static {
    /// Writes one event of a writer, and comes back when it is acknowledged.
    fn write(&self, writer: u64, number: u64) -> impl Future<Output = Result<()>> + Send;

    /// What it has cost so far.
    fn cost(&self) -> Cost;
}

/// What writing has cost, all nodes together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    /// Syncs of replicated logs on their commit path.
    pub(crate) log_syncs: u64,
    /// Bytes that replicated logs wrote on their commit path.
    pub(crate) log_bytes: u64,
    /// Syncs of all files.
    pub(crate) syncs: u64,
    /// Bytes written to all files.
    pub(crate) bytes: u64,
}

/// How many write how, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Load {
    pub(crate) writers: usize,
    /// Events that a writer asks for together; it waits for all of them.
    pub(crate) batch: usize,
    #[serde(skip)]
    pub(crate) measured: Duration,
}

/// What one run took.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Figures {
    pub(crate) per_second: f64,
    /// Of a whole batch.
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) log_syncs_per_event: f64,
    pub(crate) log_bytes_per_event: f64,
    pub(crate) syncs_per_event: f64,
    pub(crate) bytes_per_event: f64,
    /// Processor time of this process, user and system.
    pub(crate) cpu_us_per_event: f64,
    /// Processors that it kept busy.
    pub(crate) busy_cpus: f64,
    /// Those of them that did this.
    pub(crate) busy: Busy<f64>,
}

/// When answers count.
#[derive(Clone, Copy)]
struct Span {
    from: Instant,
    to: Instant,
}

impl Load {
    pub(crate) fn of(writers: usize, batch: usize, measured: Duration) -> Self {
        Self { writers, batch, measured }
    }

    pub(crate) fn name(&self) -> String {
        match (self.writers, self.batch) {
            (1, 1) => "1 writer".to_owned(),
            (writers, 1) => format!("{writers} writers"),
            (1, batch) => format!("batches of {batch}"),
            (writers, batch) => format!("{writers} writers, batches of {batch}"),
        }
    }

    /// Runs the writers. `first` is the number of the first event: none may be used twice.
    pub(crate) async fn run<T: Target>(self, target: &Arc<T>, first: u64) -> Result<Figures> {
        let from = Instant::now() + self.measured / 4;
        let span = Span { from, to: from + self.measured };
        let mut writers = JoinSet::new();
        for writer in 0..self.writers as u64 {
            let target = target.clone();
            writers.spawn(async move { keep_writing(&*target, writer, self.batch, first, span).await });
        }
        tokio::time::sleep_until(span.from.into()).await;
        let (before, cpu_before, start) = (target.cost(), process_time(), Instant::now());
        let busy_before = Busy::now();
        tokio::time::sleep_until(span.to.into()).await;
        let (after, cpu, elapsed) = (target.cost(), process_time() - cpu_before, start.elapsed());
        let busy = Busy::now().since(busy_before, elapsed);
        let mut latencies = Vec::new();
        while let Some(written) = writers.join_next().await {
            latencies.extend(written??);
        }
        let events = (latencies.len() * self.batch) as f64;
        let latencies = Latencies::new(latencies);
        let each = |after: u64, before: u64| (after - before) as f64 / events;
        Ok(Figures {
            per_second: events / self.measured.as_secs_f64(),
            p50_us: latencies.percentile_us(50),
            p99_us: latencies.percentile_us(99),
            log_syncs_per_event: each(after.log_syncs, before.log_syncs),
            log_bytes_per_event: each(after.log_bytes, before.log_bytes),
            syncs_per_event: each(after.syncs, before.syncs),
            bytes_per_event: each(after.bytes, before.bytes),
            cpu_us_per_event: cpu.as_secs_f64() * 1e6 / events,
            busy_cpus: cpu.as_secs_f64() / elapsed.as_secs_f64(),
            busy,
        })
    }
}

/// The latencies of what was answered in the span.
async fn keep_writing(
    target: &impl Target,
    writer: u64,
    batch: usize,
    first: u64,
    span: Span,
) -> Result<Vec<Duration>> {
    let mut latencies = Vec::new();
    let mut number = first;
    loop {
        let start = Instant::now();
        if start >= span.to {
            return Ok(latencies);
        }
        let numbers = number..number + batch as u64;
        number = numbers.end;
        match batch {
            1 => target.write(writer, numbers.start).await?,
            _ => {
                // As many workspaces as events, so that they spread over partitions as those of many writers do.
                let writes = numbers.zip(0..).map(|(number, place)| target.write(writer + place, number));
                futures_util::future::try_join_all(writes).await?;
            }
        }
        let end = Instant::now();
        if end >= span.from && end < span.to {
            latencies.push(end - start);
        }
    }
}

fn process_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Notebook(Mutex<Vec<(u64, u64)>>);

    impl Target for Notebook {
        async fn write(&self, writer: u64, number: u64) -> Result<()> {
            self.0.lock().unwrap().push((writer, number));
            tokio::task::yield_now().await;
            Ok(())
        }

        fn cost(&self) -> Cost {
            Cost { bytes: self.0.lock().unwrap().len() as u64, ..Cost::default() }
        }
    }

    #[test]
    fn nothing_is_written_twice_and_every_event_of_a_batch_counts() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        for (writers, batch) in [(3, 1), (1, 5)] {
            let notebook = Arc::new(Notebook::default());
            let load = Load::of(writers, batch, Duration::from_millis(20));
            let figures = runtime.block_on(load.run(&notebook, 7)).unwrap();
            let written = notebook.0.lock().unwrap();
            let different: BTreeSet<_> = written.iter().collect();
            assert_eq!(different.len(), written.len());
            assert!(written.iter().all(|(_, number)| *number >= 7));
            assert!(figures.per_second > 0.0);
        }
    }
}
