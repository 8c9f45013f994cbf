//! `cargo xtask fuzz`: random bytes for every decoder, for a while.
//!
//! The instrumentation is not stable. A nightly compiler has it; so has this one, when it is told that it may.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Result, bail, ensure};

use crate::arguments::Arguments;
use crate::process::{output_of, succeeds};
use crate::tools::{CARGO_FUZZ, Missing};
use crate::workspace::Workspace;

const DEFAULT_SECONDS: u64 = 60;
/// No input may take longer, in seconds.
const SLOWEST_SECONDS: u64 = 20;

pub(crate) fn run(workspace: &Workspace, mut arguments: Arguments) -> Result<ExitCode> {
    let target = arguments.word();
    let seconds: u64 = arguments.value("--seconds")?.unwrap_or(DEFAULT_SECONDS);
    arguments.finish()?;

    ensure!(workspace.fuzz_manifest().exists(), "there is no fuzz/Cargo.toml");
    let program = match CARGO_FUZZ.find_or_install(workspace) {
        Ok(program) => program,
        Err(Missing::Unreachable(why) | Missing::Broken(why)) => bail!(why),
    };
    let fuzzer = Fuzzer { program, dir: workspace.root.join("fuzz"), compiler: Compiler::found() };
    let all = fuzzer.targets()?;
    let chosen = match target {
        None => all,
        Some(target) if all.contains(&target) => vec![target],
        Some(target) => bail!("there is no fuzz target `{target}`; there are: {}", all.join(", ")),
    };
    let mut failed = Vec::new();
    for target in chosen {
        if !succeeds(&mut fuzzer.run(&target, seconds))? {
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

/// What the targets are built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compiler {
    Nightly,
    /// The one that builds everything else.
    Ours,
}

impl Compiler {
    fn found() -> Self {
        let mut nightly = Command::new("cargo");
        nightly.arg("+nightly").arg("--version").env("RUSTUP_AUTO_INSTALL", "0");
        if output_of(&mut nightly).is_some() { Self::Nightly } else { Self::Ours }
    }
}

/// cargo-fuzz, where the targets are.
#[derive(Debug)]
struct Fuzzer {
    program: PathBuf,
    dir: PathBuf,
    compiler: Compiler,
}

impl Fuzzer {
    fn command(&self) -> Command {
        let mut command = Command::new(absolute(&self.program));
        command.current_dir(&self.dir).arg("fuzz");
        match self.compiler {
            // Not the cargo that runs us: it calls the compiler that it belongs to.
            Compiler::Nightly => command.env("RUSTUP_TOOLCHAIN", "nightly").env_remove("CARGO"),
            Compiler::Ours => command.env("RUSTC_BOOTSTRAP", "1"),
        };
        command
    }

    fn targets(&self) -> Result<Vec<String>> {
        let Some(list) = output_of(self.command().arg("list")) else {
            bail!("`cargo fuzz list` failed in fuzz/");
        };
        Ok(list.lines().map(str::to_owned).collect())
    }

    fn run(&self, target: &str, seconds: u64) -> Command {
        let mut command = self.command();
        command.args(["run", target, "--"]);
        command.arg(format!("-max_total_time={seconds}")).arg(format!("-timeout={SLOWEST_SECONDS}"));
        command
    }
}

/// A program of this clone is called from another folder.
fn absolute(program: &Path) -> PathBuf {
    match program.components().count() {
        1 => program.to_owned(),
        _ => std::path::absolute(program).unwrap_or_else(|_| program.to_owned()),
    }
}
