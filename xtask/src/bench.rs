//! `cargo xtask bench`: a benchmark of ours; the log's beside rivals built in a workspace of their own.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::arguments::Arguments;
use crate::process::{cargo, exit_code, status};
use crate::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace, mut arguments: Arguments) -> Result<ExitCode> {
    match arguments.word().as_deref() {
        Some("log") => log(workspace, arguments),
        Some("sequencer") => ours("sequencer", arguments),
        Some(other) => bail!("there is no benchmark `{other}`; there are `log` and `sequencer`"),
        None => bail!("which benchmark? There are `log` and `sequencer`"),
    }
}

/// In the caller's folder: a relative FILE of `--json` means what the caller sees.
fn ours(suite: &str, arguments: Arguments) -> Result<ExitCode> {
    let mut command = cargo();
    command.args(["run", "--release", "--quiet", "--package", "gapless-bench", "--", suite]);
    status(command.args(arguments.rest())).map(exit_code)
}

/// The log, beside its rivals.
fn log(workspace: &Workspace, arguments: Arguments) -> Result<ExitCode> {
    // Named, so that the path of the binary is known whatever folder builds are sent to.
    let target = workspace.root.join("bench/rivals/target");
    let mut build = cargo();
    build.args(["build", "--release", "--manifest-path"]).arg(workspace.rivals_manifest());
    build.arg("--target-dir").arg(&target);
    let built = status(&mut build)?;
    if !built.success() {
        return Ok(exit_code(built));
    }

    // In the caller's folder: a relative FILE of `--json` means what the caller sees.
    let mut command = cargo();
    command.args(["run", "--release", "--quiet", "--package", "gapless-bench", "--", "log"]);
    command.arg("--rivals").arg(target.join("release/rivals")).args(arguments.rest());
    status(&mut command).map(exit_code)
}
