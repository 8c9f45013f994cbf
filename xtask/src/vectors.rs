//! The step that runs test cases written as data against the components they describe.

use anyhow::Result;

use crate::process::{cargo_at_root, succeeds};
use crate::summary::Outcome;
use crate::workspace::Workspace;

/// Suites whose component exists. Each is a file of the same name among the vectors.
const SUITES: &[&str] = &["acks", "ids", "leases", "sequencer"];

pub(crate) fn step(workspace: &Workspace) -> Result<Outcome> {
    let mut failed = Vec::new();
    let mut absent = Vec::new();
    for suite in SUITES {
        let file = workspace.vectors().join(format!("{suite}.json"));
        if !file.exists() {
            absent.push(format!("{suite}: not checked, its file is not beside this clone"));
            continue;
        }
        let mut command = cargo_at_root(workspace);
        command.args(["run", "--release", "--quiet", "--package", "conformance", "--", suite]).arg(&file);
        if !succeeds(&mut command)? {
            failed.push(format!("{suite} failed"));
        }
    }
    Ok(match (failed.is_empty(), absent.is_empty()) {
        (true, true) => Outcome::Passed,
        (true, false) => Outcome::Warned(absent),
        (false, _) => Outcome::Failed([failed, absent].concat()),
    })
}
