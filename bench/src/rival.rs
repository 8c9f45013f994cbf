//! A rival's side of the append benchmarks: another program does it and prints what it took.
//!
//! Must not know: how the rival is set up; that is written where it is measured, in `bench/rivals`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::workload::{PAYLOAD_BYTES, Run, Shape};

/// The rival whose figures are held against ours.
pub(crate) const NAME: &str = "raft-engine";

/// The program that measures rivals.
#[derive(Debug)]
pub(crate) struct Rivals(PathBuf);

/// What it prints, as far as it concerns us.
#[derive(Debug, Deserialize)]
struct Printed {
    ops: usize,
    seconds: f64,
    p50_us: f64,
    p99_us: f64,
}

impl Rivals {
    pub(crate) fn new(program: &Path) -> Result<Self> {
        ensure!(program.is_file(), "there is no program for rivals at {}", program.display());
        Ok(Self(program.to_path_buf()))
    }

    pub(crate) fn measure(&self, parent: &Path, shape: Shape) -> Result<Run> {
        let mut command = Command::new(&self.0);
        command.arg(NAME).arg("--dir").arg(parent);
        command.args(["--size", &PAYLOAD_BYTES.to_string()]);
        command.args(["--writers", &shape.writers.to_string(), "--ops", &shape.appends.to_string()]);
        let output =
            command.stderr(Stdio::inherit()).output().context("cannot start the program for rivals")?;
        ensure!(output.status.success(), "{NAME} ended with {}", output.status);
        parse(&output.stdout)
    }
}

fn parse(output: &[u8]) -> Result<Run> {
    let printed: Printed =
        serde_json::from_slice(output).context("the program for rivals printed no result")?;
    let per_second = printed.ops as f64 / printed.seconds;
    Ok(Run { per_second, p50_us: printed.p50_us, p99_us: printed.p99_us })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_a_rival_follows_from_what_it_printed() {
        let printed =
            br#"{"name":"x","writers":4,"ops":500,"seconds":0.25,"p50_us":1.5,"p99_us":9.0,"more":null}"#;
        let run = parse(printed).unwrap();
        assert_eq!((run.per_second, run.p50_us, run.p99_us), (2000.0, 1.5, 9.0));
        assert!(parse(b"").is_err());
    }
}
