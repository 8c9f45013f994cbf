//! What agreement costs a group of one: the same entries through consensus and into the bare log, with as many in flight.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use clap::Args;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use gapless_consensus::network::Nobody;
use gapless_consensus::{
    ClusterId, Committed, Config, Identity, Machine, MachineFault, Members, Node, NodeId, Replicator,
    SnapshotBody, SnapshotSource, Start,
};
use gapless_log::io::real::RealIo;
use gapless_log::{Log, Options};
use gapless_types::{GroupId, LogIndex};

use crate::cli::SuiteArguments;
use crate::machine::Machine as Computer;
use crate::report::{right_aligned, table};
use crate::samples::Spread;

const ENTRY_BYTES: usize = 256;
/// Entries one after the other before anything is measured: the first syncs of a new file are slower.
const WARM_UP: usize = 200;

#[derive(Debug, Args)]
pub(crate) struct ConsensusArguments {
    #[command(flatten)]
    suite: SuiteArguments,
}

/// One run: entries per second, and syncs per entry.
struct Run {
    rate: f64,
    syncs: f64,
}

pub(crate) fn run(arguments: &ConsensusArguments) -> Result<()> {
    let directory = arguments.suite.directory();
    std::fs::create_dir_all(&directory).context("make the directory of the benchmark")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    let rounds = if arguments.suite.quick { 3 } else { 7 };
    let mut figures = table([
        "in flight",
        "log, entries/s",
        "consensus, entries/s",
        "ratio",
        "log, syncs/entry",
        "consensus, syncs/entry",
    ]);
    for in_flight in [1, 16, 64, 256, 1024] {
        let entries = if arguments.suite.quick { 300 } else { 1000 } * in_flight.min(64);
        let (mut bare, mut agreed) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            // One after the other in each round, so that both see the same minute of the machine.
            bare.push(runtime.block_on(append(&directory, entries, in_flight))?);
            agreed.push(runtime.block_on(propose(&directory, entries, in_flight))?);
        }
        let ratio = Spread::of(agreed.iter().zip(&bare).map(|(agreed, bare)| agreed.rate / bare.rate));
        let median = |runs: &[Run], figure: fn(&Run) -> f64| Spread::of(runs.iter().map(figure)).median;
        figures.add_row([
            in_flight.to_string(),
            format!("{:.0}", median(&bare, |run| run.rate)),
            format!("{:.0}", median(&agreed, |run| run.rate)),
            format!("{:.2} ({:.2} to {:.2})", ratio.median, ratio.lowest, ratio.highest),
            format!("{:.3}", median(&bare, |run| run.syncs)),
            format!("{:.3}", median(&agreed, |run| run.syncs)),
        ]);
    }
    let mut output = io::stdout().lock();
    writeln!(output, "{}", Computer::of(&directory)?.line())?;
    writeln!(output, "{}", right_aligned(figures, [0, 1, 2, 3, 4, 5]))?;
    Ok(())
}

/// Keeps so many of `start`'s results in flight until there were `count`.
async fn keep_in_flight<F, E>(
    count: usize,
    in_flight: usize,
    mut start: impl FnMut() -> Result<F>,
) -> Result<()>
where
    F: Future<Output = Result<(), E>>,
    anyhow::Error: From<E>,
{
    let mut waiting = FuturesUnordered::new();
    for started in 0..count {
        if started >= in_flight {
            waiting.next().await.context("something is in flight")??;
        }
        waiting.push(start()?);
    }
    while let Some(done) = waiting.next().await {
        done?;
    }
    Ok(())
}

async fn append(directory: &Path, count: usize, in_flight: usize) -> Result<Run> {
    let directory = tempfile::tempdir_in(directory)?;
    let (log, _) = Log::open(Arc::new(RealIo), directory.path(), Options::replicated())?;
    let entry = [Bytes::from(vec![7; ENTRY_BYTES])];
    keep_in_flight(WARM_UP, 1, || Ok(log.append_next(&entry)?)).await?;
    next_segment(|| log.statistics().segments_prepared).await;
    let (before, start) = (log.statistics().syncs, Instant::now());
    keep_in_flight(count, in_flight, || Ok(log.append_next(&entry)?)).await?;
    let run = measured(count, start, log.statistics().syncs - before);
    log.close()?;
    Ok(run)
}

async fn propose(directory: &Path, count: usize, in_flight: usize) -> Result<Run> {
    let directory = tempfile::tempdir_in(directory)?;
    let node = NodeId::new(1);
    let identity = Identity { cluster: ClusterId::from_bytes([1; 16]), group: GroupId::FIRST, node };
    let start = Start::Found(Members::alone(node, "here")?);
    let config = Config::new(identity, directory.path(), start);
    let node = Node::open(Arc::new(RealIo), Arc::new(Nobody), Arc::new(Idle), config).await?;
    node.leadership().wait_for(|now| now.is_ready()).await?;
    let entry = Bytes::from(vec![7; ENTRY_BYTES]);
    let propose = || {
        let ticket = node.propose(entry.clone());
        Ok(async move { ticket.await.map(|_| ()) })
    };
    keep_in_flight(WARM_UP, 1, propose).await?;
    next_segment(|| node.statistics().log.segments_prepared).await;
    let (before, start) = (node.statistics().log.syncs, Instant::now());
    keep_in_flight(count, in_flight, propose).await?;
    let run = measured(count, start, node.statistics().log.syncs - before);
    node.close().await?;
    Ok(run)
}

/// Waits until the next segment is filled with zeros: that happens once after opening, and would be measured otherwise.
async fn next_segment(prepared: impl Fn() -> u64) {
    while prepared() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn measured(count: usize, start: Instant, syncs: u64) -> Run {
    let count = count as f64;
    Run { rate: count / start.elapsed().as_secs_f64(), syncs: syncs as f64 / count }
}

/// A machine that does nothing.
struct Idle;

impl Machine for Idle {
    fn dispatch(&self, _: Committed) -> Result<(), MachineFault> {
        Ok(())
    }

    fn resume_after(&self) -> Option<LogIndex> {
        None
    }

    fn snapshot(&self, _: LogIndex) -> BoxFuture<'static, Result<Arc<dyn SnapshotSource>, MachineFault>> {
        Box::pin(async { Err(MachineFault::new("it has nothing")) })
    }

    fn install(&self, _: LogIndex, _: Box<dyn SnapshotBody>) -> BoxFuture<'static, Result<(), MachineFault>> {
        Box::pin(async { Err(MachineFault::new("it has nothing")) })
    }
}
