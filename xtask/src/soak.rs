//! `cargo xtask soak`: many seeds of a simulation or of the property tests, more than a test run has time for.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::arguments::Arguments;
use crate::process::{cargo_at_root, exit_code, status, succeeds};
use crate::workspace::Workspace;

const SOAKS: &str = "`log`, `leases`, `properties` and `kill`";

const LOG_SEEDS: u64 = 1000;
/// More than ten times what `cargo xtask test` has time for.
const LEASE_SCHEDULES: u64 = 50_000;
const PROPERTIES_SEEDS: u64 = 20;
/// As many as `cargo xtask test` has time for, ten times.
const KILL_CYCLES: u64 = 500;

/// The seed of `cargo xtask test` is 1, so that a soak begins with other ones.
const PROPERTIES_FROM: u64 = 2;

/// Every test binary with property tests in it: the libraries, and what the crates call their models and properties.
const WITH_PROPERTIES: &str =
    "kind(lib) + binary(/^(model|encodings|proof|store|io_disks)$/) + binary(/properties/)";

struct Seeds {
    from: u64,
    count: u64,
}

pub(crate) fn run(workspace: &Workspace, mut arguments: Arguments) -> Result<ExitCode> {
    let (what, from, count): (fn(&Workspace, &Seeds) -> _, _, _) = match arguments.word().as_deref() {
        Some("log") => (log, 0, LOG_SEEDS),
        Some("properties") => (properties, PROPERTIES_FROM, PROPERTIES_SEEDS),
        Some("kill") => return kill(workspace, arguments),
        Some("leases") => return leases(workspace, arguments),
        Some(other) => bail!("nothing to soak is called `{other}`; there are {SOAKS}"),
        None => bail!("soak what? There are {SOAKS}"),
    };
    let count = arguments.value("--seeds")?.unwrap_or(count);
    let from = arguments.value("--from")?.unwrap_or(from);
    arguments.finish()?;
    what(workspace, &Seeds { from, count })
}

fn log(workspace: &Workspace, seeds: &Seeds) -> Result<ExitCode> {
    let mut command = cargo_at_root(workspace);
    command.args(["run", "--release", "--quiet", "--package", "gapless-log", "--example", "soak", "--"]);
    command.args(["--seeds", &seeds.count.to_string(), "--from", &seeds.from.to_string()]);
    status(&mut command).map(exit_code)
}

fn properties(workspace: &Workspace, seeds: &Seeds) -> Result<ExitCode> {
    for seed in seeds.from..seeds.from.saturating_add(seeds.count) {
        println!("seed {seed} of the property tests");
        let mut command = cargo_at_root(workspace);
        command.args(["nextest", "run", "--workspace", "--status-level", "fail", "-E", WITH_PROPERTIES]);
        if !succeeds(command.env("PROPTEST_RNG_SEED", seed.to_string()))? {
            println!("seed {seed} failed; alone: cargo xtask soak properties --seeds 1 --from {seed}");
            return Ok(ExitCode::FAILURE);
        }
    }
    println!("{} seeds passed", seeds.count);
    Ok(ExitCode::SUCCESS)
}

/// Random schedules of a projection's domain.
fn leases(workspace: &Workspace, mut arguments: Arguments) -> Result<ExitCode> {
    let schedules = arguments.value("--schedules")?.unwrap_or(LEASE_SCHEDULES);
    let from = arguments.value("--from")?.unwrap_or(0);
    arguments.finish()?;
    let mut command = cargo_at_root(workspace);
    command.args([
        "run",
        "--release",
        "--quiet",
        "--package",
        "gapless-projection",
        "--example",
        "schedules",
        "--",
    ]);
    command.args(["--schedules", &schedules.to_string(), "--from", &from.to_string()]);
    status(&mut command).map(exit_code)
}

/// A server that is killed in the middle of writes, more often than in a test run, and at other moments.
fn kill(workspace: &Workspace, mut arguments: Arguments) -> Result<ExitCode> {
    let cycles = arguments.value("--cycles")?.unwrap_or(KILL_CYCLES);
    let seed = arguments.value("--from")?.unwrap_or(1);
    arguments.finish()?;
    let mut command = cargo_at_root(workspace);
    command.args(["test", "--package", "gapless", "--test", "process", "kill", "--", "--nocapture"]);
    command.env("GAPLESS_KILL_CYCLES", cycles.to_string()).env("GAPLESS_KILL_SEED", seed.to_string());
    status(&mut command).map(exit_code)
}
