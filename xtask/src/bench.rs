//! `cargo xtask bench`: a benchmark of ours; some beside rivals built in a workspace of their own.

use std::process::{Command, ExitCode};

use anyhow::{Result, bail};

use crate::arguments::Arguments;
use crate::process::{cargo, exit_code, status};
use crate::workspace::Workspace;

const SUITES: &str =
    "`consensus`, `engine`, `leases`, `log`, `partition`, `security`, `sequencer`, `server` and `store`";

pub(crate) fn run(workspace: &Workspace, mut arguments: Arguments) -> Result<ExitCode> {
    match arguments.word().as_deref() {
        Some(suite @ ("log" | "store")) => beside_rivals(workspace, suite, arguments),
        Some(suite @ ("consensus" | "engine" | "leases" | "partition" | "sequencer")) => {
            status(ours(suite).args(arguments.rest())).map(exit_code)
        }
        Some(suite @ ("security" | "server")) => server(suite, arguments),
        Some(other) => bail!("there is no benchmark `{other}`; there are {SUITES}"),
        None => bail!("which benchmark? There are {SUITES}"),
    }
}

/// In the caller's folder: a relative FILE of `--json` means what the caller sees.
fn ours(suite: &str) -> Command {
    let mut command = cargo();
    command.args(["run", "--release", "--quiet", "--package", "gapless-bench", "--", suite]);
    command
}

/// The real binary first, which the benchmark finds beside itself.
fn server(suite: &str, arguments: Arguments) -> Result<ExitCode> {
    let built = status(cargo().args(["build", "--release", "--quiet", "--package", "gapless"]))?;
    if !built.success() {
        return Ok(exit_code(built));
    }
    status(ours(suite).args(arguments.rest())).map(exit_code)
}

fn beside_rivals(workspace: &Workspace, suite: &str, arguments: Arguments) -> Result<ExitCode> {
    // Named, so that the path of the binary is known whatever folder builds are sent to.
    let target = workspace.root.join("bench/rivals/target");
    let mut build = cargo();
    build.args(["build", "--release", "--manifest-path"]).arg(workspace.rivals_manifest());
    build.arg("--target-dir").arg(&target);
    let built = status(&mut build)?;
    if !built.success() {
        return Ok(exit_code(built));
    }
    let mut command = ours(suite);
    command.arg("--rivals").arg(target.join("release/rivals")).args(arguments.rest());
    status(&mut command).map(exit_code)
}
