//! Runs seeds and tells what was found: `cargo xtask sim`.
//!
//! Must not know: what a run does.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it talks to a terminal")]

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use gapless_sim::sometimes::{Occurrences, Situation};
use gapless_sim::{Plan, Report, run};
use gapless_types::mistakes::Mistake;

const HELP: &str = "\
Runs seeds of the simulator. Usage: cargo xtask sim [FLAGS]

  --seeds N    so many seeds (500)
  --from S     starting with this one (0)
  --seed S     this one alone
  --nodes K    clusters of so many nodes; otherwise each seed decides
  --jobs J     so many at once (2)
  --mistakes   each known mistake, until a seed finds it; N seeds at most
  --twice      every seed two times, and the traces have to be the same
  --trace      every event on the way
  --quiet      only what was found, and the end";

/// What was asked for.
struct Settings {
    from: u64,
    count: u64,
    nodes: Option<u64>,
    jobs: u64,
    mistakes: bool,
    twice: bool,
    trace: bool,
    quiet: bool,
    /// One seed alone need not get everywhere.
    alone: bool,
}

/// What all seeds together came to.
#[derive(Default)]
struct Total {
    failed: u64,
    events: u64,
    committed: usize,
    outcomes: usize,
    simulated: u64,
    occurrences: Occurrences,
}

fn main() -> ExitCode {
    let settings = match settings(std::env::args().skip(1)) {
        Ok(Some(settings)) => settings,
        Ok(None) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(reason) => {
            eprintln!("sim: {reason}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    if settings.mistakes {
        return find_mistakes(&settings);
    }
    let (began, next, total) = (Instant::now(), AtomicU64::new(0), Mutex::new(Total::default()));
    thread::scope(|scope| {
        for _ in 0..settings.jobs {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= settings.count {
                        return;
                    }
                    let reports = run_seed(&settings, settings.from + number);
                    tell(&settings, &reports, &mut total.lock().unwrap_or_else(PoisonError::into_inner));
                }
            });
        }
    });
    let total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    end(&settings, &total, began)
}

fn settings(arguments: impl Iterator<Item = String>) -> Result<Option<Settings>, String> {
    let mut settings = Settings {
        from: 0,
        count: 500,
        nodes: None,
        jobs: 2,
        mistakes: false,
        twice: false,
        trace: false,
        quiet: false,
        alone: false,
    };
    let mut arguments = arguments.peekable();
    while let Some(flag) = arguments.next() {
        let mut number = || {
            let value = arguments.next().ok_or(format!("{flag} needs a number"))?;
            value.parse::<u64>().map_err(|error| format!("{flag} {value}: {error}"))
        };
        match flag.as_str() {
            "--seeds" => settings.count = number()?,
            "--from" => settings.from = number()?,
            "--seed" => (settings.from, settings.count, settings.alone) = (number()?, 1, true),
            "--nodes" => settings.nodes = Some(number()?),
            "--jobs" => settings.jobs = number()?.max(1),
            "--mistakes" => settings.mistakes = true,
            "--twice" => settings.twice = true,
            "--trace" => settings.trace = true,
            "--quiet" => settings.quiet = true,
            "--help" | "-h" => return Ok(None),
            _ => return Err(format!("unexpected argument `{flag}`")),
        }
    }
    Ok(Some(settings))
}

/// Runs seeds with each of the known mistakes, until one finds it.
fn find_mistakes(settings: &Settings) -> ExitCode {
    let (next, missed) = (AtomicUsize::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..settings.jobs {
            scope.spawn(|| {
                while let Some(mistake) = Mistake::ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let seeds = settings.from..settings.from + settings.count;
                    let plan = |seed| Plan::new(seed, settings.nodes).making(*mistake);
                    let found =
                        seeds.map(|seed| run(plan(seed), false)).find(|report| !report.findings.is_empty());
                    match found.as_ref().and_then(|report| Some((report, report.findings.first()?))) {
                        Some((report, finding)) => {
                            let (seed, nodes) = (report.plan.seed, report.plan.nodes);
                            println!("{mistake:?}: seed {seed}, {nodes} nodes: {finding}");
                        }
                        None => {
                            println!("{mistake:?}: not found by {} seeds", settings.count);
                            missed.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    match missed.into_inner() {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn run_seed(settings: &Settings, seed: u64) -> Vec<Report> {
    let times = if settings.twice { 2 } else { 1 };
    (0..times).map(|_| run(Plan::new(seed, settings.nodes), settings.trace)).collect()
}

fn tell(settings: &Settings, reports: &[Report], total: &mut Total) {
    let Some(report) = reports.first() else { return };
    let plan = &report.plan;
    if settings.trace {
        report.lines.iter().for_each(|line| println!("{line}"));
    }
    let differs = reports.iter().any(|other| other.fingerprint != report.fingerprint);
    let failed = differs || !report.findings.is_empty();
    if failed || !settings.quiet {
        println!(
            "seed {} nodes {} {:?}: {} events, hash {:016x}, {} ms; {:?}",
            plan.seed,
            plan.nodes,
            plan.troubles,
            report.fingerprint.events,
            report.fingerprint.hash,
            report.simulated,
            report.counts,
        );
    }
    if differs {
        println!("  DETERMINISM: another run of it was different");
    }
    for finding in &report.findings {
        println!("  {finding}");
    }
    if failed {
        println!("  again: {}", plan.command());
        total.failed += 1;
    }
    total.events += report.fingerprint.events;
    total.committed += report.counts.committed;
    total.outcomes += report.counts.outcomes;
    total.simulated += report.simulated;
    for (situation, count) in &report.occurrences {
        *total.occurrences.entry(*situation).or_default() += count;
    }
}

fn end(settings: &Settings, total: &Total, began: Instant) -> ExitCode {
    let never: Vec<Situation> =
        Situation::ALL.into_iter().filter(|situation| !total.occurrences.contains_key(situation)).collect();
    println!(
        "{} seeds, {} events, {} writes acknowledged, {} outcomes checked, {} s simulated in {} s",
        settings.count,
        total.events,
        total.committed,
        total.outcomes,
        total.simulated / 1000,
        began.elapsed().as_secs()
    );
    // Fewer seeds than the default need not get everywhere.
    let must_occur = !settings.alone && settings.count >= 500;
    if !never.is_empty() && (must_occur || !settings.quiet) && !settings.alone {
        println!("never occurred: {never:?}");
    }
    println!("{} failed", total.failed);
    match total.failed == 0 && (never.is_empty() || !must_occur) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
