//! `cargo xtask soak`: many seeds of a simulation, more than a test run has time for.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::arguments::Arguments;
use crate::process::{cargo_at_root, exit_code, status};
use crate::workspace::Workspace;

const DEFAULT_SEEDS: u64 = 1000;

pub(crate) fn run(workspace: &Workspace, mut arguments: Arguments) -> Result<ExitCode> {
    let package = match arguments.word().as_deref() {
        Some("log") => "gapless-log",
        Some(other) => bail!("nothing to soak is called `{other}`; there is `log`"),
        None => bail!("soak what? There is `log`"),
    };
    let seeds: u64 = arguments.value("--seeds")?.unwrap_or(DEFAULT_SEEDS);
    let from: u64 = arguments.value("--from")?.unwrap_or(0);
    arguments.finish()?;

    let mut command = cargo_at_root(workspace);
    command.args(["run", "--release", "--quiet", "--package", package, "--example", "soak", "--"]);
    command.args(["--seeds", &seeds.to_string(), "--from", &from.to_string()]);
    status(&mut command).map(exit_code)
}
