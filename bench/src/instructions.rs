//! How many instructions a transaction takes, counted by callgrind: the same on a busy machine and on an idle one.
//!
//! This program runs itself under it twice, with more transactions the second time; the difference is what they took.

use std::process::Command;

use anyhow::{Context, Result};

use crate::cli::ProbeArguments;
use crate::transactions::{Runner, Setting};

/// The first run brings the cache into its stride, the second one adds what is counted.
const FIRST: u64 = 60_000;
const COUNTED: u64 = 60_000;

/// Instructions per transaction on so many workspaces; none where there is no valgrind.
pub(crate) fn per_transaction(workspaces: u64) -> Result<Option<f64>> {
    let (Some(first), Some(second)) = (counted(workspaces, FIRST)?, counted(workspaces, FIRST + COUNTED)?)
    else {
        return Ok(None);
    };
    Ok(Some((second as f64 - first as f64) / COUNTED as f64))
}

/// What callgrind watches: the caller does all the work, so that nothing depends on threads.
pub(crate) fn probe(arguments: &ProbeArguments) -> Result<()> {
    let setting = Setting { thread: false, max_unflushed: 500 };
    Runner::new(arguments.workspaces, setting)?.run(arguments.transactions)
}

fn counted(workspaces: u64, transactions: u64) -> Result<Option<u64>> {
    let program = std::env::current_exe().context("this program does not know itself")?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program).arg("sequencer-probe");
    command.args(["--workspaces", &workspaces.to_string(), "--transactions", &transactions.to_string()]);
    let Ok(output) = command.output() else { return Ok(None) };
    let text = String::from_utf8_lossy(&output.stderr);
    Ok(text.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok()))
}
