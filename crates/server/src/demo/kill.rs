//! Starts the writing process, listens to what it reports, and kills it in the middle of its work.
//!
//! Must not know: what is written.

use std::env;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::receipt::Receipt;
use super::writer::UNREPORTED;
use crate::refusal::Refusal;

/// What a child did before it was killed.
#[derive(Debug)]
pub(super) struct Killed {
    /// Everything it reported, in the order of its reports.
    pub(super) acknowledged: Vec<Receipt>,
    /// The signal that ended it.
    pub(super) signal: i32,
    /// From its start to the kill.
    pub(super) took: Duration,
}

/// Lets a child write until it has reported this many writes, then kills it while more are on their way.
pub(super) fn write_and_kill(dir: &Path, writes: u64) -> Result<Killed> {
    let program = env::current_exe().context("cannot find the program to start")?;
    let began = Instant::now();
    let mut child = Command::new(program)
        .arg("demo-writer")
        .arg(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the writing process")?;
    let mut reports = BufReader::new(child.stdout.take().context("the writing process has no output")?);

    let mut took = None;
    let mut acknowledged = Vec::new();
    // What is still in the pipe after the kill was acknowledged as well.
    while let Some(line) = next_report(&mut reports)? {
        if line != UNREPORTED {
            acknowledged.push(line.parse()?);
        } else if took.is_none() && acknowledged.len() as u64 >= writes {
            child.kill().context("cannot kill the writing process")?;
            took = Some(began.elapsed());
        }
    }
    let status = child.wait().context("cannot wait for the writing process")?;
    match (took, status.signal()) {
        (Some(took), Some(signal)) => Ok(Killed { acknowledged, signal, took }),
        _ => Err(Refusal::new(
            format!("the writing process ended by itself ({status})"),
            "see what it said above; then run it again",
        )
        .into()),
    }
}

/// The next whole line; what the kill cut off was not reported.
fn next_report(reports: &mut impl BufRead) -> Result<Option<String>> {
    let mut line = String::new();
    reports.read_line(&mut line).context("cannot read the reports of the writing process")?;
    Ok(line.strip_suffix('\n').map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_the_kill_cut_off_reports_nothing() {
        let mut reports: &[u8] = b"12 3 4\n13 3";
        assert_eq!(next_report(&mut reports).unwrap().as_deref(), Some("12 3 4"));
        assert_eq!(next_report(&mut reports).unwrap(), None);
    }
}
