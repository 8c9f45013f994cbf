//! The benchmarks of the server: the real binary in its own process, asked by `gapless bench` in another one; beside it, in the same
//! round, a server that does nothing with the same messages.
//!
//! In every round, for every load: a sync loop, tonic alone, the echo, the server, one after another. Figures are divided by each other
//! within a round only.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use crate::cli::ReportArguments;
use crate::machine::Machine;
use crate::raw_loop;
use crate::server_process::{Figures, Programs, Span};
use crate::server_report::Report;
use crate::workload::Run;

/// Syncs that say what one costs.
const SYNCS: usize = 200;

#[derive(Debug, Args)]
pub(crate) struct ServerArguments {
    /// Only loads whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Seconds of every run [default: 5; with --quick 1]
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
    /// Rounds [default: 5; with --quick 2]
    #[arg(long, value_name = "COUNT")]
    rounds: Option<usize>,
    #[command(flatten)]
    report: ReportArguments,
}

/// What is asked of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Load {
    /// One write, one answer, so many clients.
    Unary(u32),
    /// One stream with so many in flight.
    Stream(u32),
    /// Reads of 100 events, so many clients.
    Read(u32),
}

const LOADS: [Load; 8] = [
    Load::Unary(1),
    Load::Unary(16),
    Load::Unary(64),
    Load::Unary(256),
    Load::Stream(256),
    Load::Stream(1024),
    Load::Read(1),
    Load::Read(16),
];

impl Load {
    pub(crate) fn name(self) -> String {
        match self {
            Load::Unary(1) => "1 client".to_owned(),
            Load::Unary(clients) => format!("{clients} clients"),
            Load::Stream(in_flight) => format!("stream, {in_flight} in flight"),
            Load::Read(1) => "read, 1 client".to_owned(),
            Load::Read(clients) => format!("read, {clients} clients"),
        }
    }

    /// As the load generator wants it.
    fn arguments(self) -> Vec<String> {
        let words = match self {
            Load::Unary(clients) => format!("write --clients {clients}"),
            Load::Stream(in_flight) => format!("stream --in-flight {in_flight}"),
            Load::Read(clients) => format!("read --clients {clients} --events 100"),
        };
        words.split(' ').map(str::to_owned).collect()
    }
}

/// One load in one round.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Round {
    /// A block written and synced, one after another: what a sync costs.
    pub(crate) sync: Run,
    /// Nothing but tonic at both ends; of unary writes.
    pub(crate) bare: Option<Figures>,
    /// The same load generator as for the ledger.
    pub(crate) echo: Figures,
    pub(crate) gapless: Figures,
}

/// One load in all rounds.
#[derive(Debug, Serialize)]
pub(crate) struct Series {
    pub(crate) load: Load,
    pub(crate) rounds: Vec<Round>,
}

pub(crate) fn run(arguments: &ServerArguments) -> Result<()> {
    let directory = arguments.report.directory();
    fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let machine = Machine::of(&directory)?;
    let programs = Programs::found()?;
    let quick = arguments.report.is_quick();
    let seconds = arguments.seconds.unwrap_or(if quick { 1.0 } else { 5.0 });
    let measured = Duration::try_from_secs_f64(seconds).context("so many seconds there are not")?;
    let span = Span { warm_up: measured / 4, measured };
    let rounds = arguments.rounds.unwrap_or(if quick { 2 } else { 5 });
    let asked = |load: &Load| arguments.only.as_ref().is_none_or(|only| load.name().contains(only.as_str()));
    let mut series: Vec<Series> =
        LOADS.into_iter().filter(asked).map(|load| Series { load, rounds: Vec::new() }).collect();
    for round in 1..=rounds {
        writeln!(io::stderr(), "server: round {round} of {rounds}")?;
        measure_round(&programs, &directory, &mut series, span)?;
    }
    let report = Report::new(machine, quick, series);
    let json = arguments.report.json.clone();
    let json = json.or_else(|| arguments.only.is_none().then(|| arguments.report.json("server")));
    if let Some(json) = json {
        report.write_json(&json)?;
    }
    report.write_tables(&mut io::stdout().lock())
}

/// All loads once, on servers that are started for this round.
fn measure_round(programs: &Programs, directory: &Path, series: &mut [Series], span: Span) -> Result<()> {
    let home = tempfile::Builder::new().prefix("server-").tempdir_in(directory)?;
    let (echo, gapless) = (programs.echo()?, programs.gapless(&home.path().join("data"))?);
    for series in series {
        let arguments = series.load.arguments();
        let bare = match series.load {
            Load::Unary(clients) => Some(programs.bare_load(&echo, clients, span)?),
            Load::Stream(_) | Load::Read(_) => None,
        };
        series.rounds.push(Round {
            sync: raw_loop::measure(directory, SYNCS)?,
            bare,
            echo: programs.load(&echo, &arguments, span)?,
            gapless: programs.load(&gapless, &arguments, span)?,
        });
    }
    drop((echo, gapless, home));
    // Waits until the file system is done with what was removed: else whoever is next would pay for it.
    File::open(directory).and_then(|dir| dir.sync_all()).context("cannot sync the directory to measure in")
}
