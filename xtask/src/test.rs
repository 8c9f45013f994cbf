//! `cargo xtask test`: everything that must hold before a change is merged, in one command.
//!
//! Each step is timed and judged on its own, and a failing one does not keep the others from being seen. Only
//! what would run code that does not build is left out.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::Result;

use crate::arguments::Arguments;
use crate::process::{cargo_at_root, status, succeeds};
use crate::summary::{Outcome, Row, Summary};
use crate::tools::{CARGO_NEXTEST, Missing};
use crate::workspace::Workspace;
use crate::{deny, dev, vectors};

/// What cargo-nextest exits with when it had nothing to run because the build failed.
const NEXTEST_BUILD_FAILED: i32 = 101;

struct Step {
    name: &'static str,
    /// Whether it makes sense when the tests did not build.
    runs_code: bool,
    run: fn(&Workspace) -> Result<Outcome>,
}

const STEPS: [Step; 9] = [
    Step { name: "format", runs_code: false, run: format },
    Step { name: "lint", runs_code: false, run: lint },
    Step { name: "deny", runs_code: false, run: deny::step },
    Step { name: "docs", runs_code: false, run: docs },
    Step { name: "tests", runs_code: false, run: tests },
    Step { name: "doc tests", runs_code: true, run: doc_tests },
    Step { name: "interleavings", runs_code: true, run: interleavings },
    Step { name: "vectors", runs_code: true, run: vectors::step },
    Step { name: "dev", runs_code: true, run: dev::step },
];

pub(crate) fn run(workspace: &Workspace, arguments: Arguments) -> Result<ExitCode> {
    arguments.finish()?;
    let mut summary = Summary::default();
    for (index, step) in STEPS.iter().enumerate() {
        println!("\n==> {}/{} {}", index + 1, STEPS.len(), step.name);
        let began = Instant::now();
        let outcome = if step.runs_code && summary.unbuilt() {
            Outcome::NotRun
        } else {
            Outcome::of_step((step.run)(workspace))
        };
        summary.0.push(Row { step: step.name, outcome, took: began.elapsed() });
    }
    summary.print();
    Ok(if summary.succeeded() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn format(workspace: &Workspace) -> Result<Outcome> {
    let mut formatted = succeeds(cargo_at_root(workspace).args(["fmt", "--all", "--check"]))?;
    for manifest in workspace.other_manifests() {
        let manifest = manifest.strip_prefix(&workspace.root).unwrap_or(&manifest);
        let mut command = cargo_at_root(workspace);
        command.args(["fmt", "--all", "--check", "--manifest-path"]).arg(manifest);
        formatted &= succeeds(&mut command)?;
    }
    Ok(Outcome::of(formatted))
}

fn lint(workspace: &Workspace) -> Result<Outcome> {
    let arguments = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    succeeds(cargo_at_root(workspace).args(arguments)).map(Outcome::of)
}

fn docs(workspace: &Workspace) -> Result<Outcome> {
    let arguments = ["doc", "--workspace", "--no-deps", "--document-private-items"];
    succeeds(cargo_at_root(workspace).args(arguments).env("RUSTDOCFLAGS", "-D warnings")).map(Outcome::of)
}

fn tests(workspace: &Workspace) -> Result<Outcome> {
    match CARGO_NEXTEST.find_or_install(workspace) {
        Ok(nextest) => tests_with_nextest(workspace, &nextest),
        Err(Missing::Unreachable(why) | Missing::Broken(why)) => tests_with_cargo(workspace, why),
    }
}

fn tests_with_nextest(workspace: &Workspace, nextest: &Path) -> Result<Outcome> {
    let arguments = ["nextest", "run", "--workspace"];
    let ended = status(Command::new(nextest).current_dir(&workspace.root).args(arguments))?;
    Ok(match ended.code() {
        Some(0) => Outcome::Passed,
        Some(NEXTEST_BUILD_FAILED) => Outcome::Unbuilt,
        _ => Outcome::Failed(Vec::new()),
    })
}

/// The same tests, without a process and a time limit for each of them.
fn tests_with_cargo(workspace: &Workspace, why: String) -> Result<Outcome> {
    let selection = ["test", "--workspace", "--tests", "--no-fail-fast"];
    if !succeeds(cargo_at_root(workspace).args(selection).arg("--no-run"))? {
        return Ok(Outcome::Unbuilt);
    }
    let passed = succeeds(cargo_at_root(workspace).args(selection))?;
    let remarks = vec![why, "ran `cargo test` instead of cargo-nextest".to_owned()];
    Ok(if passed { Outcome::Warned(remarks) } else { Outcome::Failed(remarks) })
}

fn doc_tests(workspace: &Workspace) -> Result<Outcome> {
    succeeds(cargo_at_root(workspace).args(["test", "--workspace", "--doc"])).map(Outcome::of)
}

/// The tests that run under a scheduler of their own. They are apart because it replaces every lock of the crate, which
/// must not happen to anybody else's build.
fn interleavings(workspace: &Workspace) -> Result<Outcome> {
    let mut passed = true;
    for package in ["gapless-sequencer", "gapless-projection"] {
        let arguments = ["test", "--package", package, "--features", "shuttle", "--test", "interleavings"];
        passed &= succeeds(cargo_at_root(workspace).args(arguments).args(["--", "--nocapture"]))?;
    }
    Ok(Outcome::of(passed))
}
