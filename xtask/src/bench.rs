//! `cargo xtask bench`: a benchmark of ours, beside rivals built in a workspace of their own.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::arguments::Arguments;
use crate::process::{cargo, exit_code, status};
use crate::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace, mut arguments: Arguments) -> Result<ExitCode> {
    let suite = match arguments.word().as_deref() {
        Some("log") => "log",
        Some("store") => "store",
        Some(other) => bail!("there is no benchmark `{other}`; there are `log` and `store`"),
        None => bail!("which benchmark? There are `log` and `store`"),
    };

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
    command.args(["run", "--release", "--quiet", "--package", "gapless-bench", "--", suite]);
    command.arg("--rivals").arg(target.join("release/rivals")).args(arguments.rest());
    status(&mut command).map(exit_code)
}
