//! The benchmarks of the partition: applies per second, restart, memory.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use crate::bars::{Bar, Limit, Unit};
use crate::cli::ReportArguments;
use crate::machine::Machine;
use crate::memory::{peak_bytes, reset_peak};
use crate::partition_evidence::{self, Evidence, Proofs};
use crate::partition_feed::{Feed, Order, Shape};
use crate::report::{bars_table, right_aligned, show, table};
use crate::samples::Spread;

const MIB: u64 = 1 << 20;
/// Memory for rows without a checkpoint, and for blocks, where speed is measured.
const MEMTABLES: u64 = 256 * MIB;
const CACHE: u64 = 256 * MIB;
/// Outcomes behind the checkpoint when a partition is opened again.
const TAIL: u64 = 1000;

#[derive(Debug, Args)]
pub(crate) struct PartitionArguments {
    /// Measure one part alone; nothing is written to the file of figures then
    #[arg(long, value_enum)]
    only: Option<Part>,
    #[command(flatten)]
    report: ReportArguments,
}

/// What can be measured alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Memory with many workspaces
    Memory,
    /// Applies of each shape
    Applies,
    /// Opening again
    Restart,
    /// Keys in the window, trust levels, hashes and proofs
    Evidence,
}

struct Effort {
    events: u64,
    rounds: usize,
    histories: [u64; 2],
    openings: usize,
    workspaces: u64,
    keys: u64,
    leaves: u64,
}

impl Effort {
    fn evidence(&self) -> partition_evidence::Effort {
        let Self { events, rounds, keys, leaves, .. } = *self;
        partition_evidence::Effort { events, rounds, keys, leaves }
    }

    fn of(quick: bool) -> Self {
        match quick {
            true => Self {
                events: 50_000,
                rounds: 3,
                histories: [20_000, 500_000],
                openings: 5,
                workspaces: 100_000,
                keys: 300_000,
                leaves: 100_000,
            },
            false => Self {
                events: 200_000,
                rounds: 7,
                histories: [100_000, 10_000_000],
                openings: 9,
                workspaces: 1_000_000,
                keys: 10_000_000,
                leaves: 1_000_000,
            },
        }
    }
}

/// Applies of one shape.
#[derive(Debug, Serialize)]
struct Applies {
    shape: String,
    workspaces: u64,
    /// Microseconds of the processor for each.
    cpu_microseconds: Spread,
    /// Microseconds on the clock for each.
    microseconds: Spread,
}

/// Opening again after a history.
#[derive(Debug, Serialize)]
struct Restart {
    events: u64,
    folded: u64,
    microseconds: Spread,
}

#[derive(Debug, Serialize)]
struct Memory {
    workspaces: u64,
    events: u64,
    ceiling_bytes: u64,
    growth_bytes: u64,
}

#[derive(Debug, Serialize)]
struct Report {
    machine: Machine,
    quick: bool,
    applies: Vec<Applies>,
    restarts: Vec<Restart>,
    memory: Option<Memory>,
    evidence: Option<Evidence>,
    bars: Vec<Bar>,
}

pub(crate) fn run(arguments: &PartitionArguments) -> Result<()> {
    let directory = arguments.report.directory();
    fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let machine = Machine::of(&directory)?;
    let effort = Effort::of(arguments.report.is_quick());

    let asked = |part: Part| arguments.only.is_none_or(|only| only == part);
    // First, while this process has no memory of earlier rounds to use again.
    let mut memory = None;
    if asked(Part::Memory) {
        say("memory")?;
        memory = Some(measure_memory(&directory, effort.workspaces)?);
    }
    let shapes = [
        ("plain event", Shape::Plain, 1),
        ("plain event", Shape::Plain, 10_000),
        ("three records", Shape::ThreeRecords, 10_000),
        ("conditional set", Shape::ConditionalSet, 10_000),
    ];
    let mut applies = Vec::new();
    for (name, shape, workspaces) in shapes.into_iter().filter(|_| asked(Part::Applies)) {
        say(&format!("{name}, {workspaces} workspaces"))?;
        applies.push(measure_applies(&directory, name, shape, workspaces, &effort)?);
    }
    let mut restarts = Vec::new();
    for events in effort.histories.into_iter().filter(|_| asked(Part::Restart)) {
        say(&format!("restart after {events} events"))?;
        restarts.push(measure_restart(&directory, events, effort.openings)?);
    }
    let mut evidence = None;
    if asked(Part::Evidence) {
        evidence = Some(Evidence::measure(&directory, effort.evidence(), &mut say)?);
    }
    let mut bars = bars(&applies, &restarts, memory.as_ref());
    bars.extend(evidence.iter().flat_map(Evidence::bars));
    let report =
        Report { machine, quick: arguments.report.is_quick(), applies, restarts, memory, evidence, bars };
    report.write_tables(&mut io::stdout().lock())?;
    if arguments.only.is_some() {
        return Ok(());
    }
    let json = arguments.report.json("partition");
    let mut text = serde_json::to_vec_pretty(&report)?;
    text.push(b'\n');
    fs::write(&json, text).with_context(|| format!("cannot write {}", json.display()))?;
    writeln!(io::stdout().lock(), "All figures: {}", json.display())?;
    Ok(())
}

/// In a partition that has as many events already as are measured.
fn measure_applies(
    directory: &Path,
    name: &str,
    shape: Shape,
    workspaces: u64,
    effort: &Effort,
) -> Result<Applies> {
    let folder = tempfile::tempdir_in(directory)?;
    let (mut feed, _) = Feed::open(folder.path(), MEMTABLES, CACHE)?;
    let order = Order::Random(workspaces);
    feed.feed(shape, order, effort.events)?;
    let mut rounds = Vec::new();
    for _ in 0..effort.rounds {
        rounds.push(feed.feed(shape, order, effort.events)?);
    }
    feed.close()?;
    let each = |total: std::time::Duration| total.as_secs_f64() * 1e6 / effort.events as f64;
    Ok(Applies {
        shape: name.to_owned(),
        workspaces,
        cpu_microseconds: Spread::of(rounds.iter().map(|took| each(took.cpu))),
        microseconds: Spread::of(rounds.iter().map(|took| each(took.elapsed))),
    })
}

/// From opening to the first outcome, with a checkpoint some outcomes before the end of the log.
fn measure_restart(directory: &Path, events: u64, openings: usize) -> Result<Restart> {
    let folder = tempfile::tempdir_in(directory)?;
    let (mut feed, _) = Feed::open(folder.path(), MEMTABLES, CACHE)?;
    feed.feed(Shape::Plain, Order::Random(10_000), events)?;
    feed.checkpoint()?;
    feed.feed(Shape::Plain, Order::Random(10_000), TAIL)?;
    feed.close()?;
    let mut times = Vec::new();
    let mut folded = 0;
    for opening in 0..openings {
        let start = Instant::now();
        let (mut feed, opened) = Feed::open(folder.path(), MEMTABLES, CACHE)?;
        feed.feed(Shape::Plain, Order::Random(10_000), 1)?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
        folded = opened.folded - opening as u64;
        feed.close()?;
    }
    Ok(Restart { events, folded, microseconds: Spread::of(times) })
}

fn measure_memory(directory: &Path, workspaces: u64) -> Result<Memory> {
    const MEMTABLES: u64 = 64 * MIB;
    const CACHE: u64 = 64 * MIB;
    let folder = tempfile::tempdir_in(directory)?;
    let events = workspaces * 10;
    reset_peak()?;
    let before = peak_bytes()?;
    let (mut feed, _) = Feed::open(folder.path(), MEMTABLES, CACHE)?;
    feed.feed(Shape::Plain, Order::InTurn(workspaces), events)?;
    feed.checkpoint()?;
    let growth_bytes = peak_bytes()?.saturating_sub(before);
    feed.close()?;
    Ok(Memory { workspaces, events, ceiling_bytes: MEMTABLES + CACHE, growth_bytes })
}

fn bars(applies: &[Applies], restarts: &[Restart], memory: Option<&Memory>) -> Vec<Bar> {
    let mut bars = Vec::new();
    for row in applies.iter().filter(|row| row.shape == "plain event") {
        let subject = format!("a plain apply takes of one core, {} workspaces", row.workspaces);
        bars.push(Bar::new(subject, Unit::Microseconds, Limit::AtMost(5.0), row.cpu_microseconds));
    }
    if let [short, long] = restarts {
        let ratio = long.microseconds.median / short.microseconds.median;
        let subject = format!("restart after {} events / after {}", long.events, short.events);
        bars.push(Bar::new(subject, Unit::Ratio, Limit::AtMost(1.5), Spread::exact(ratio)));
    }
    if let Some(memory) = memory {
        let limit = Limit::AtMost((memory.ceiling_bytes + 64 * MIB) as f64);
        let subject = format!("memory with {} workspaces of ten events", memory.workspaces);
        bars.push(Bar::new(subject, Unit::Bytes, limit, Spread::exact(memory.growth_bytes as f64)));
    }
    bars
}

impl Report {
    fn write_tables(&self, output: &mut impl Write) -> Result<()> {
        writeln!(output, "{}\n", self.machine.line())?;
        writeln!(output, "Applies, 256 bytes of payload: median over rounds (lowest to highest)\n")?;
        let mut applies =
            table(["event", "workspaces", "us of a core", "us on the clock", "per second of a core"]);
        for row in &self.applies {
            applies.add_row([
                row.shape.clone(),
                row.workspaces.to_string(),
                show(Unit::Microseconds, row.cpu_microseconds),
                show(Unit::Microseconds, row.microseconds),
                format!("{:.0}", 1e6 / row.cpu_microseconds.median),
            ]);
        }
        writeln!(output, "{}\n", right_aligned(applies, [1, 2, 3, 4]))?;
        writeln!(output, "From opening to the first outcome\n")?;
        let mut restarts = table(["events", "folded", "us"]);
        for row in &self.restarts {
            let time = show(Unit::Microseconds, row.microseconds);
            restarts.add_row([row.events.to_string(), row.folded.to_string(), time]);
        }
        writeln!(output, "{}\n", right_aligned(restarts, [0, 1, 2]))?;
        if let Some(Memory { workspaces, events, ceiling_bytes, growth_bytes }) = &self.memory {
            writeln!(
                output,
                "{events} events in {workspaces} workspaces with a ceiling of {ceiling_bytes} bytes: at most \
                 {growth_bytes} more resident\n"
            )?;
        }
        self.write_evidence(output)?;
        writeln!(output, "{}", bars_table(&self.bars))?;
        Ok(())
    }
}

impl Report {
    fn write_evidence(&self, output: &mut impl Write) -> Result<()> {
        let Some(evidence) = &self.evidence else { return Ok(()) };
        writeln!(output, "A plain event with so many idempotency keys in the window\n")?;
        let mut windows = table(["keys", "us of a core", "resident MiB at most", "ceiling MiB"]);
        for row in &evidence.windows {
            windows.add_row([
                row.keys.to_string(),
                show(Unit::Microseconds, row.cpu_microseconds),
                (row.resident_bytes / MIB).to_string(),
                (row.ceiling_bytes / MIB).to_string(),
            ]);
        }
        writeln!(output, "{}\n", right_aligned(windows, [0, 1, 2, 3]))?;
        writeln!(output, "Trust levels, in turn within a round: us of a core\n")?;
        let mut levels = table(["event", "level 0", "level 2", "throughput of 0 / of 2"]);
        for row in &evidence.trust {
            levels.add_row([
                row.shape.clone(),
                show(Unit::Microseconds, row.level_0),
                show(Unit::Microseconds, row.level_2),
                show(Unit::Ratio, row.throughput),
            ]);
        }
        writeln!(output, "{}\n", right_aligned(levels, [1, 2, 3]))?;
        let Proofs { leaves, bytes_of_a_leaf, .. } = evidence.proofs;
        writeln!(output, "Proofs in a workspace of {leaves} events: us of a core\n")?;
        let mut proofs = table(["work", "us"]);
        let rows = &evidence.proofs;
        for (work, figure) in [
            (format!("hash of a leaf of {bytes_of_a_leaf} bytes"), rows.hash_of_a_leaf),
            ("root of any size".to_owned(), rows.root),
            ("inclusion proof".to_owned(), rows.inclusion),
            ("consistency proof".to_owned(), rows.consistency),
            ("verify an inclusion".to_owned(), rows.verify_inclusion),
            ("verify a consistency".to_owned(), rows.verify_consistency),
        ] {
            proofs.add_row([work, show(Unit::Microseconds, figure)]);
        }
        writeln!(output, "{}\n", right_aligned(proofs, [1]))?;
        Ok(())
    }
}

/// Progress goes where it does not get between the results.
fn say(what: &str) -> Result<()> {
    writeln!(io::stderr().lock(), "{what} ...")?;
    Ok(())
}
