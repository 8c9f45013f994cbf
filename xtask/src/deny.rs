//! The step that checks dependencies: licences, sources, bans, known vulnerabilities (`deny.toml`).
//!
//! It must be honest without a network. cargo-deny exits with 1 both when it found a vulnerable crate and when it
//! could not fetch the database of vulnerabilities, so the two are asked for apart: first the fetch, whose
//! failure is a warning, then the check against what was fetched, whose failure is a failure.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::process::{Ending, cargo_at_root, succeeds, succeeds_within};
use crate::summary::Outcome;
use crate::tools::{CARGO_DENY, Missing};
use crate::workspace::Workspace;

/// How long the database may take to arrive: a network that swallows packets must not stop the run.
const FETCH_LIMIT: Duration = Duration::from_secs(120);

/// What became of the check for known vulnerabilities.
enum Advisories {
    None,
    Found,
    NotChecked,
}

impl Advisories {
    fn remark(&self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Found => Some("advisories: a dependency is vulnerable, unmaintained or yanked"),
            Self::NotChecked => Some("advisories: not checked, the advisory database could not be reached"),
        }
    }
}

pub(crate) fn step(workspace: &Workspace) -> Result<Outcome> {
    let deny = match CARGO_DENY.find_or_install(workspace) {
        Ok(deny) => deny,
        Err(Missing::Unreachable(why)) => {
            return Ok(Outcome::Warned(vec![format!("nothing checked, {why}")]));
        }
        Err(Missing::Broken(why)) => return Ok(Outcome::Failed(vec![why])),
    };
    // Crates for other platforms belong to the graph too, and no build here downloads them.
    if !succeeds(cargo_at_root(workspace).args(["fetch", "--quiet"]))? {
        let remark = "nothing checked, `cargo fetch` could not bring all crates of the graph";
        return Ok(Outcome::Warned(vec![remark.to_owned()]));
    }
    let policy_holds =
        succeeds(cargo_deny(workspace, &deny).args(["--offline", "check", "bans", "licenses", "sources"]))?;
    let advisories = advisories(workspace, &deny)?;

    let mut remarks = Vec::new();
    if !policy_holds {
        remarks.push("a ban, licence or source is not as deny.toml wants it".to_owned());
    }
    remarks.extend(advisories.remark().map(str::to_owned));
    Ok(match (policy_holds, advisories) {
        (true, Advisories::None) => Outcome::Passed,
        (true, Advisories::NotChecked) => Outcome::Warned(remarks),
        _ => Outcome::Failed(remarks),
    })
}

fn advisories(workspace: &Workspace, deny: &Path) -> Result<Advisories> {
    let mut fetch = cargo_deny(workspace, deny);
    // The database is public; a question for a password would wait for ever.
    fetch.args(["fetch", "db"]).env("GIT_TERMINAL_PROMPT", "0");
    if succeeds_within(FETCH_LIMIT, &mut fetch)? != Ending::Succeeded {
        return Ok(Advisories::NotChecked);
    }
    let none = succeeds(cargo_deny(workspace, deny).args(["--offline", "check", "advisories"]))?;
    Ok(if none { Advisories::None } else { Advisories::Found })
}

fn cargo_deny(workspace: &Workspace, deny: &Path) -> Command {
    let mut command = Command::new(deny);
    command.current_dir(&workspace.root);
    command
}
