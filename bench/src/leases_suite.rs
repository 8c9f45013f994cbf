//! The benchmarks of one domain: what a slot costs, what correcting a where-clause costs, what a full window holds in memory; and of
//! workers of an engine: how they scale.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use comfy_table::Table;

use crate::bars::{Bar, Limit, Unit};
use crate::cli::SuiteArguments;
use crate::leases_engine::Workplace;
use crate::leases_work::Worker;
use crate::machine::Machine;
use crate::memory::resident_bytes;
use crate::report::{bars_table, right_aligned, show, table};
use crate::samples::Spread;

/// What the design asks of a slot in a batch of 64, in microseconds.
const SLOT_BAR_US: f64 = 2.0;
/// Rows of the table that where-clauses look at.
const TABLE_ROWS: usize = 20_000;
/// Domains whose memory is measured together: one alone is lost among the pages of the process.
const DOMAINS: u64 = 64;
const WINDOW: u64 = 1024;
/// How long workers of the engine work on a slot.
const WORK: Duration = Duration::from_millis(10);
/// Share of linear growth that the design asks for.
const SCALE_BAR: f64 = 0.9;
/// What the design asks of a slot in a batch of 64 with its ways through the log, in microseconds.
const SERVED_BAR_US: f64 = 20.0;

#[derive(Debug, Args)]
pub(crate) struct LeasesArguments {
    #[command(flatten)]
    suite: SuiteArguments,
}

pub(crate) fn run(arguments: &LeasesArguments) -> Result<()> {
    let directory = arguments.suite.directory();
    fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let (rounds, slots) = if arguments.suite.quick { (5, 50_000) } else { (11, 200_000) };
    // First, while this process has no memory of earlier rounds to use again.
    let memory = memory_per_slot()?;

    let mut commands = table(["batch", "us per slot: grant, commit, drain", "slots per second"]);
    let mut bars = Vec::new();
    for batch in [1, 64] {
        let rounds =
            (0..rounds).map(|_| microseconds_per_slot(batch, slots)).collect::<Result<Vec<f64>>>()?;
        let spread = Spread::of(rounds);
        commands.add_row([
            batch.to_string(),
            show(Unit::Microseconds, spread),
            format!("{:.0}", 1e6 / spread.median),
        ]);
        if batch == 64 {
            let subject = "a slot in a batch of 64: grant, commit and drain";
            bars.push(Bar::new(subject, Unit::Microseconds, Limit::AtMost(SLOT_BAR_US), spread));
        }
    }

    let workers = measure_workers(&directory, if arguments.suite.quick { 3 } else { 7 }, &mut bars)?;

    let mut corrections =
        table(["rows touched", "drained in us", "the where-clause over the table in us", "ratio"]);
    for touched in [0, 10, 100, 1000, 10_000] {
        let (mut drains, mut scans) = (Vec::new(), Vec::new());
        let mut worker = Worker::new(WINDOW)?;
        worker.fill_table(TABLE_ROWS)?;
        for _ in 0..rounds {
            let (scan, drain) = worker.correct(touched)?;
            scans.push(scan.as_secs_f64() * 1e6);
            drains.push(drain.as_secs_f64() * 1e6);
        }
        let ratio = Spread::of(drains.iter().zip(&scans).map(|(drain, scan)| drain / scan));
        let (drain, scan) = (Spread::of(drains).median, Spread::of(scans).median);
        corrections.add_row([
            touched.to_string(),
            format!("{drain:.1}"),
            format!("{scan:.0}"),
            format!("{:.4} ({:.4} to {:.4})", ratio.median, ratio.lowest, ratio.highest),
        ]);
    }

    let mut output = io::stdout().lock();
    writeln!(output, "{}", Machine::of(&directory)?.line())?;
    writeln!(output, "{}", right_aligned(commands, [0, 1, 2]))?;
    writeln!(
        output,
        "Workers of an engine with {} ms of work on each slot, and batches of 64 without:",
        WORK.as_millis()
    )?;
    writeln!(output, "{}", right_aligned(workers, [0, 1, 2]))?;
    writeln!(output, "A where-clause over {TABLE_ROWS} rows, corrected when it is drained:")?;
    writeln!(output, "{}", right_aligned(corrections, [0, 1, 2, 3]))?;
    writeln!(
        output,
        "A full window of {WINDOW} slots, all but one staged: {memory:.0} bytes per slot, events included."
    )?;
    writeln!(output, "{}", bars_table(&bars))?;
    Ok(())
}

/// How workers scale, and what a slot costs with its ways through the log.
fn measure_workers(directory: &Path, rounds: usize, bars: &mut Vec<Bar>) -> Result<Table> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut shown = table(["workers", "slots per second", "of linear"]);
    let mut rates: Vec<(u64, Vec<f64>)> = vec![(1, Vec::new()), (8, Vec::new()), (64, Vec::new())];
    let mut served = Vec::new();
    for _ in 0..rounds {
        let home = tempfile::tempdir_in(directory)?;
        runtime.block_on(async {
            let place = Workplace::open(home.path()).await?;
            for (workers, rates) in &mut rates {
                rates.push(place.per_second(*workers, 100, WORK).await?);
            }
            served.push(place.microseconds_per_slot(4, 64, 12_800).await?);
            place.close().await;
            anyhow::Ok(())
        })?;
    }
    let one = rates[0].1.clone();
    for (workers, rates) in rates {
        let share = rates.iter().zip(&one).map(|(rate, one)| rate / one / workers as f64);
        let share = Spread::of(share);
        shown.add_row([
            workers.to_string(),
            format!("{:.0}", Spread::of(rates).median),
            show(Unit::Ratio, share),
        ]);
        if workers > 1 {
            let subject = format!("{workers} workers with 10 ms of work, of {workers} times one");
            bars.push(Bar::new(subject, Unit::Ratio, Limit::AtLeast(SCALE_BAR), share));
        }
    }
    let subject = "a slot without work in a batch of 64, through the log, 4 workers";
    bars.push(Bar::new(subject, Unit::Microseconds, Limit::AtMost(SERVED_BAR_US), Spread::of(served)));
    Ok(shown)
}

fn microseconds_per_slot(batch: u32, slots: u64) -> Result<f64> {
    let mut worker = Worker::new(WINDOW)?;
    let rounds = slots / u64::from(batch);
    for _ in 0..rounds {
        worker.open(u64::from(batch), "Note")?;
        worker.work_off(batch)?;
    }
    Ok(worker.spent.as_secs_f64() * 1e6 / (rounds * u64::from(batch)) as f64)
}

/// What all domains together take, for each of their slots.
fn memory_per_slot() -> Result<f64> {
    let mut workers = (0..DOMAINS).map(|_| Worker::new(WINDOW)).collect::<Result<Vec<Worker>>>()?;
    let before = resident_bytes()?;
    for worker in &mut workers {
        worker.fill_window(WINDOW)?;
    }
    let grown = resident_bytes()?.saturating_sub(before);
    Ok(grown as f64 / (DOMAINS * WINDOW) as f64)
}
