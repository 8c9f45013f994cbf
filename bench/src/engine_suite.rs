//! The benchmarks of the engine: writers through the whole corridor, on one node and on three, beside the bare log; and how much
//! one busy partition disturbs the others.
//!
//! In every round, for every load: the bare log, one partition, 64 partitions, one after another. Figures are divided by each other
//! within a round only.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use tokio::runtime::Runtime;

use crate::cli::ReportArguments;
use crate::engine_isolation;
use crate::engine_load::{Figures, Load};
use crate::engine_report::Report;
use crate::engine_targets::{BareLog, EVENT_BYTES, Nodes};
use crate::machine::Machine;
use crate::raw_loop;
use crate::workload::Run;

/// Partitions of the namespace with one and of the namespace with many.
pub(crate) const PARTITIONS: [u16; 2] = [1, 64];
const NODES: [u64; 2] = [1, 3];
/// Writers, and events that each of them asks for together.
const LOADS: [(usize, usize); 6] = [(1, 1), (16, 1), (64, 1), (256, 1), (1024, 1), (1, 100)];

#[derive(Debug, Args)]
pub(crate) struct EngineArguments {
    /// Measure one part alone
    #[arg(long, value_enum)]
    only: Option<Part>,
    /// Only loads with so many writers
    #[arg(long, value_name = "COUNT", value_delimiter = ',')]
    writers: Vec<usize>,
    /// Seconds of every run [default: 3; with --quick 0.4]
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
    /// Rounds [default: 5; with --quick 2]
    #[arg(long, value_name = "COUNT")]
    rounds: Option<usize>,
    #[command(flatten)]
    report: ReportArguments,
}

/// What can be measured alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// One node
    One,
    /// Three nodes
    Three,
    /// One partition with large writes beside 63 with small ones
    Isolation,
}

/// One load in one round.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Round {
    /// A block written and synced, one after another: what a sync costs.
    pub(crate) sync: Run,
    pub(crate) bare_log: Figures,
    /// With as many partitions as [`PARTITIONS`] says.
    pub(crate) engine: [Figures; 2],
}

/// One load on so many nodes in all rounds.
#[derive(Debug, Serialize)]
pub(crate) struct Series {
    pub(crate) nodes: u64,
    pub(crate) load: Load,
    pub(crate) rounds: Vec<Round>,
}

pub(crate) fn run(arguments: &EngineArguments) -> Result<()> {
    let directory = arguments.report.directory();
    fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let machine = Machine::of(&directory)?;
    let threads = gapless_engine::runtime_threads().get();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_time().build()?;
    let seconds = arguments.seconds.unwrap_or(if arguments.report.is_quick() { 0.4 } else { 3.0 });
    let measured = Duration::try_from_secs_f64(seconds).context("so many seconds there are not")?;
    let rounds = arguments.rounds.unwrap_or(if arguments.report.is_quick() { 2 } else { 5 });
    let asked = |part: Part| arguments.only.is_none_or(|only| only == part);
    let loads: Vec<Load> = LOADS
        .into_iter()
        .filter(|(writers, _)| arguments.writers.is_empty() || arguments.writers.contains(writers))
        .map(|(writers, batch)| Load::of(writers, batch, measured))
        .collect();

    let mut series = Vec::new();
    for nodes in NODES.into_iter().filter(|&nodes| asked(if nodes == 1 { Part::One } else { Part::Three })) {
        let mut these: Vec<Series> =
            loads.iter().map(|&load| Series { nodes, load, rounds: Vec::new() }).collect();
        for round in 1..=rounds {
            say(&format!("{nodes} node(s), round {round} of {rounds}"))?;
            measure_round(&runtime, &directory, &mut these)?;
        }
        series.extend(these);
    }
    let mut isolation = Vec::new();
    for round in (1..=rounds).filter(|_| asked(Part::Isolation)) {
        say(&format!("isolation, round {round} of {rounds}"))?;
        isolation.push(runtime.block_on(engine_isolation::measure(&directory, measured))?);
        settle(&directory)?;
    }
    let report = Report::new(machine, arguments.report.is_quick(), series, isolation);
    let everything = arguments.only.is_none() && arguments.writers.is_empty();
    let json = arguments.report.json.clone().or_else(|| everything.then(|| directory.join("engine.json")));
    if let Some(json) = json {
        report.write_json(&json)?;
    }
    report.write_tables(&mut io::stdout().lock())
}

/// All loads once, on nodes that are opened for this round.
fn measure_round(runtime: &Runtime, directory: &Path, series: &mut [Series]) -> Result<()> {
    let Some(nodes) = series.first().map(|series| series.nodes) else { return Ok(()) };
    let found = |partitions| runtime.block_on(Nodes::found(directory, nodes, partitions)).map(Arc::new);
    let [one, many] = PARTITIONS;
    let engines = [found(one)?, found(many)?];
    let bare_log = Arc::new(BareLog::open(directory, EVENT_BYTES)?);
    for (place, series) in (0_u64..).zip(series) {
        let (load, first) = (series.load, place << 40);
        let sync = raw_loop::measure(directory, SYNCS)?;
        let [one, many] = &engines;
        series.rounds.push(Round {
            sync,
            bare_log: runtime.block_on(load.run(&bare_log, first))?,
            engine: [runtime.block_on(load.run(one, first))?, runtime.block_on(load.run(many, first))?],
        });
    }
    for engine in &engines {
        runtime.block_on(engine.close())?;
    }
    drop((engines, bare_log));
    settle(directory)
}

/// Syncs that say what one costs.
const SYNCS: usize = 200;

/// Waits until the file system is done with the files that were removed: else whoever is next would pay for it.
fn settle(directory: &Path) -> Result<()> {
    File::open(directory).and_then(|dir| dir.sync_all()).context("cannot sync the directory to measure in")
}

fn say(what: &str) -> Result<()> {
    Ok(writeln!(io::stderr(), "engine: {what}")?)
}
