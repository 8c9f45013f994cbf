//! `cargo xtask docs`: writes the pages that the program makes of itself. A test of the server says whether they are current.

use std::process::{ExitCode, Stdio};

use anyhow::{Context, Result, ensure};

use crate::arguments::Arguments;
use crate::process::cargo_at_root;
use crate::workspace::Workspace;

/// Pages, named as `gapless reference` names them.
const PAGES: &[&str] = &["configuration", "metrics"];

pub(crate) fn run(workspace: &Workspace, arguments: Arguments) -> Result<ExitCode> {
    arguments.finish()?;
    let dir = workspace.root.join("docs/operations");
    std::fs::create_dir_all(&dir).context("docs/operations")?;
    for page in PAGES {
        let mut command = cargo_at_root(workspace);
        command.args(["run", "--quiet", "--package", "gapless", "--", "reference", page]);
        let made = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().context("cargo run")?;
        ensure!(made.status.success(), "gapless reference {page} failed");
        let name = format!("docs/operations/{page}.md");
        std::fs::write(workspace.root.join(&name), made.stdout).with_context(|| name.clone())?;
        println!("wrote {name}");
    }
    Ok(ExitCode::SUCCESS)
}
