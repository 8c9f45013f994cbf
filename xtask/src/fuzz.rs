//! `cargo xtask fuzz`: random bytes for every decoder, for a while.

use std::process::{Command, ExitCode};

use anyhow::{Result, bail, ensure};

use crate::arguments::Arguments;
use crate::process::{output_of, succeeds};
use crate::workspace::Workspace;

const DEFAULT_SECONDS: u64 = 60;

pub(crate) fn run(workspace: &Workspace, mut arguments: Arguments) -> Result<ExitCode> {
    let target = arguments.word();
    let seconds: u64 = arguments.value("--seconds")?.unwrap_or(DEFAULT_SECONDS);
    arguments.finish()?;

    let all = targets(workspace)?;
    let chosen = match target {
        None => all,
        Some(target) if all.contains(&target) => vec![target],
        Some(target) => bail!("there is no fuzz target `{target}`; there are: {}", all.join(", ")),
    };
    let mut failed = Vec::new();
    for target in chosen {
        let mut command = nightly_cargo(workspace);
        command.args(["fuzz", "run", &target, "--", &format!("-max_total_time={seconds}")]);
        if !succeeds(&mut command)? {
            failed.push(target);
        }
    }
    if failed.is_empty() {
        println!("xtask fuzz: nothing found");
        Ok(ExitCode::SUCCESS)
    } else {
        println!("xtask fuzz: failed: {}; what provoked it is in fuzz/artifacts", failed.join(", "));
        Ok(ExitCode::FAILURE)
    }
}

/// All targets, after making sure that they can be run.
fn targets(workspace: &Workspace) -> Result<Vec<String>> {
    ensure!(workspace.fuzz_manifest().exists(), "there is no fuzz/Cargo.toml");
    ensure!(
        output_of(nightly_cargo(workspace).arg("--version")).is_some(),
        "fuzzing needs a nightly toolchain (its instrumentation is not stable): `rustup toolchain install nightly`"
    );
    ensure!(
        output_of(nightly_cargo(workspace).args(["fuzz", "--version"])).is_some(),
        "fuzzing needs cargo-fuzz: `cargo install --locked cargo-fuzz`"
    );
    let Some(list) = output_of(nightly_cargo(workspace).args(["fuzz", "list"])) else {
        bail!("`cargo fuzz list` failed in fuzz/");
    };
    Ok(list.lines().map(str::to_owned).collect())
}

/// Not the cargo that runs us: only rustup's understands `+nightly`.
fn nightly_cargo(workspace: &Workspace) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(workspace.root.join("fuzz")).arg("+nightly").env("RUSTUP_AUTO_INSTALL", "0");
    command
}
