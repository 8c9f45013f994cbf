//! The benchmarks of the sequencer: transactions in rounds, their instructions, memory, and the first number.

use std::fs;
use std::io::{self, Write};

use anyhow::{Context, Result};

use crate::cli::SequencerArguments;
use crate::first_number;
use crate::instructions;
use crate::machine::Machine;
use crate::memory::resident_bytes;
use crate::samples::Spread;
use crate::sequencer_report::{Memory, Report, Row};
use crate::transactions::{self, Run, Runner, Setting, Shape};

/// The default limit on unflushed values, and one for who has many busy workspaces.
const SETTINGS: [Setting; 3] = [
    Setting { thread: true, max_unflushed: 500 },
    Setting { thread: true, max_unflushed: 20_000 },
    Setting { thread: false, max_unflushed: 500 },
];

/// How much is measured.
struct Effort {
    transactions: u64,
    rounds: usize,
    many_workspaces: u64,
    log_records: [u64; 3],
    openings: usize,
}

impl Effort {
    fn of(quick: bool) -> Self {
        if quick {
            return Self {
                transactions: 300_000,
                rounds: 3,
                many_workspaces: 2_000_000,
                log_records: [1_000, 100_000, 1_000_000],
                openings: 5,
            };
        }
        Self {
            transactions: 2_000_000,
            rounds: 9,
            many_workspaces: 10_000_000,
            log_records: [1_000, 100_000, 10_000_000],
            openings: 15,
        }
    }
}

pub(crate) fn run(arguments: &SequencerArguments) -> Result<()> {
    let directory = arguments.report.directory();
    fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let machine = Machine::of(&directory)?;
    let effort = Effort::of(arguments.report.is_quick());

    // First, while this process has no memory of earlier rounds to use again.
    say("memory")?;
    let memory = measure_memory(effort.many_workspaces)?;
    let mut rows = Vec::new();
    for workspaces in [1, 10_000, 1_000_000, effort.many_workspaces] {
        say(&format!("transactions on {workspaces} workspaces"))?;
        rows.extend(measure_rows(workspaces, &effort)?);
    }
    say("instructions")?;
    let mut counted = Vec::new();
    for workspaces in [1, 10_000, 1_000_000] {
        counted.push((workspaces, instructions::per_transaction(workspaces)?));
    }
    let mut first_numbers = Vec::new();
    for records in effort.log_records {
        say(&format!("first number over a log of {records} records"))?;
        first_numbers.push(first_number::measure(&directory, records, effort.openings)?);
    }

    let report = Report::new(machine, arguments.report.is_quick(), rows, counted, memory, first_numbers);
    let json = arguments.report.json("sequencer");
    report.write_json(&json)?;
    let mut output = io::stdout().lock();
    report.write_tables(&mut output)?;
    writeln!(output, "All figures: {}", json.display())?;
    Ok(())
}

/// All settings and the plain map in turns, so that a busy minute meets all of them.
fn measure_rows(workspaces: u64, effort: &Effort) -> Result<Vec<Row>> {
    let shape = Shape { workspaces, transactions: effort.transactions };
    let mut runs: Vec<Vec<Run>> = vec![Vec::new(); SETTINGS.len()];
    let mut plain = Vec::new();
    for _ in 0..effort.rounds {
        for (setting, runs) in SETTINGS.iter().zip(&mut runs) {
            runs.push(transactions::measure(shape, *setting)?);
        }
        plain.push(transactions::measure_plain_map(shape));
    }
    let row = |setting: Setting, runs: &[Run]| Row {
        workspaces,
        setting,
        microseconds: Spread::of(runs.iter().map(|run| run.microseconds)),
        refusals: Spread::of(runs.iter().map(|run| run.refusals)),
        over_plain_map: Spread::of(runs.iter().zip(&plain).map(|(run, plain)| run.microseconds / plain)),
    };
    Ok(SETTINGS.iter().zip(&runs).map(|(setting, runs)| row(*setting, runs)).collect())
}

/// What is held after every workspace was used once.
fn measure_memory(workspaces: u64) -> Result<Memory> {
    let mut runner = Runner::new(workspaces, Setting { thread: false, max_unflushed: 500 })?;
    let before = resident_bytes()?;
    runner.touch_all()?;
    let after = resident_bytes()?;
    let statistics = runner.statistics();
    Ok(Memory {
        workspaces,
        cache_entries: statistics.cache_entries,
        cache_bytes: statistics.cache_bytes,
        resident_growth: after.saturating_sub(before),
    })
}

/// Progress goes where it does not get between the results.
fn say(what: &str) -> Result<()> {
    writeln!(io::stderr().lock(), "{what} ...")?;
    Ok(())
}
