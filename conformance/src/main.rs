//! Test vectors against the components they describe: `conformance SUITE FILE`.
//!
//! Prints a line for each failure and at the end how many cases passed and failed. Exits with 1 if any failed, and with 2
//! if the file cannot be read or asks for something unknown.
//!
//! A suite is a module with a function that takes the text of a file and gives a [`Report`].

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this program talks to a terminal")]

mod acks;
mod ids;
mod leases;
mod report;
mod sequencer;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::report::Report;

/// A suite by name.
type Suite = (&'static str, fn(&str) -> Result<Report>);

const SUITES: &[Suite] =
    &[("acks", acks::run), ("ids", ids::run), ("leases", leases::run), ("sequencer", sequencer::run)];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(report) => {
            print!("{report}");
            if report.passed_all() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("conformance: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[String]) -> Result<Report> {
    let [suite, file] = arguments else { bail!("usage: conformance SUITE FILE") };
    let Some((_, run)) = SUITES.iter().find(|(name, _)| name == suite) else {
        let names: Vec<&str> = SUITES.iter().map(|(name, _)| *name).collect();
        bail!("there is no suite `{suite}`; there is {}", names.join(", "));
    };
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
    run(&text).with_context(|| format!("cannot use {file}"))
}
