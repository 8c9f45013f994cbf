//! What TLS and tokens cost: the same binary with and without them, asked by `gapless bench` in the same round.
//!
//! Which of the two comes first changes with every round. Figures are divided by each other within a round only.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use crate::bars::{Bar, Limit, Unit};
use crate::cli::ReportArguments;
use crate::machine::Machine;
use crate::report::{right_aligned, show, table, write_bars, write_json};
use crate::samples::Spread;
use crate::server_process::{Figures, Programs, Server, Span};

#[derive(Debug, Args)]
pub(crate) struct SecurityArguments {
    /// Seconds of every run [default: 5; with --quick 1]
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
    /// Rounds [default: 5; with --quick 2]
    #[arg(long, value_name = "COUNT")]
    rounds: Option<usize>,
    #[command(flatten)]
    report: ReportArguments,
}

/// A load, and the share of its rate that is left at least.
#[derive(Debug, Serialize)]
struct Load {
    name: &'static str,
    #[serde(skip)]
    arguments: &'static str,
    at_least: f64,
}

const LOADS: [Load; 3] = [
    Load { name: "64 clients", arguments: "write --clients 64", at_least: 0.8 },
    Load { name: "stream, 1024 in flight", arguments: "stream --in-flight 1024", at_least: 0.9 },
    Load { name: "read, 16 clients", arguments: "read --clients 16 --events 100", at_least: 0.8 },
];

/// One load in one round.
#[derive(Clone, Copy, Debug, Serialize)]
struct Round {
    plain: Figures,
    secured: Figures,
}

#[derive(Debug, Serialize)]
struct Series {
    load: Load,
    rounds: Vec<Round>,
}

#[derive(Debug, Serialize)]
struct Report {
    machine: Machine,
    quick: bool,
    series: Vec<Series>,
    bars: Vec<Bar>,
}

pub(crate) fn run(arguments: &SecurityArguments) -> Result<()> {
    let directory = arguments.report.directory();
    fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let programs = Programs::found()?;
    let quick = arguments.report.is_quick();
    let seconds = arguments.seconds.unwrap_or(if quick { 1.0 } else { 5.0 });
    let measured = Duration::try_from_secs_f64(seconds).context("so many seconds there are not")?;
    let span = Span { warm_up: measured / 4, measured };
    let rounds = arguments.rounds.unwrap_or(if quick { 2 } else { 5 });
    let mut series: Vec<Series> = LOADS.into_iter().map(|load| Series { load, rounds: Vec::new() }).collect();
    for round in 1..=rounds {
        writeln!(io::stderr(), "security: round {round} of {rounds}")?;
        measure_round(&programs, &directory, &mut series, span, round % 2 == 0)?;
    }
    let bars = series.iter().map(bar).collect();
    let report = Report { machine: Machine::of(&directory)?, quick, series, bars };
    let json = arguments.report.json.clone().unwrap_or_else(|| arguments.report.json("security"));
    write_json(&report, &json)?;
    report.write_tables(&mut io::stdout().lock())
}

fn measure_round(
    programs: &Programs,
    directory: &Path,
    series: &mut [Series],
    span: Span,
    secured_first: bool,
) -> Result<()> {
    let home = tempfile::Builder::new().prefix("security-").tempdir_in(directory)?;
    let (plain, secured) =
        (programs.gapless(&home.path().join("data"))?, programs.secured(&home.path().join("secured"))?);
    for Series { load, rounds } in series {
        let arguments: Vec<String> = load.arguments.split(' ').map(str::to_owned).collect();
        let measure = |server: &Server| programs.load(server, &arguments, span);
        rounds.push(if secured_first {
            let secured = measure(&secured)?;
            Round { plain: measure(&plain)?, secured }
        } else {
            Round { plain: measure(&plain)?, secured: measure(&secured)? }
        });
    }
    drop((plain, secured, home));
    // Waits until the file system is done with what was removed: else whoever is next would pay for it.
    File::open(directory).and_then(|dir| dir.sync_all()).context("cannot sync the directory to measure in")
}

fn left(series: &Series) -> Spread {
    Spread::of(series.rounds.iter().map(|round| round.secured.per_second / round.plain.per_second))
}

fn bar(series: &Series) -> Bar {
    let subject = format!("{}: rate with TLS and a token / without", series.load.name);
    Bar::new(subject, Unit::Ratio, Limit::AtLeast(series.load.at_least), left(series))
}

impl Report {
    fn write_tables(&self, output: &mut impl Write) -> Result<()> {
        writeln!(output, "{}\n", self.machine.line())?;
        let mut figures =
            table(["load", "plain events/s", "secured events/s", "rate / plain", "p50 / plain", "errors"]);
        for series in &self.series {
            let median = |value: fn(&Round) -> f64| Spread::of(series.rounds.iter().map(value)).median;
            let slower =
                Spread::of(series.rounds.iter().map(|round| round.secured.p50_us / round.plain.p50_us));
            let errors: u64 =
                series.rounds.iter().map(|round| round.plain.errors + round.secured.errors).sum();
            figures.add_row([
                series.load.name.to_owned(),
                format!("{:.0}", median(|round| round.plain.per_second)),
                format!("{:.0}", median(|round| round.secured.per_second)),
                show(Unit::Ratio, left(series)),
                show(Unit::Ratio, slower),
                errors.to_string(),
            ]);
        }
        let figures = right_aligned(figures, [1, 2, 3, 4, 5]);
        writeln!(output, "Medians over rounds; ratios within a round\n\n{figures}\n")?;
        write_bars(&self.bars, output)
    }
}
