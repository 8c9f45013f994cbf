//! `cargo xtask sim`: whole clusters from seeds.

use std::process::ExitCode;

use anyhow::Result;

use crate::arguments::Arguments;
use crate::process::{cargo_at_root, exit_code, status};
use crate::workspace::Workspace;

/// Built as tests are: with optimization, and with every assertion of ours and of consensus.
pub(crate) fn run(workspace: &Workspace, arguments: Arguments) -> Result<ExitCode> {
    let mut command = cargo_at_root(workspace);
    command.args(["run", "--profile", "test", "--quiet", "--package", "gapless-sim", "--"]);
    command.args(arguments.rest());
    status(&mut command).map(exit_code)
}
