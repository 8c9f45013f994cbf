//! Programs the steps need: the ones on the path if they are new enough, else installed into this clone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{cargo, cargo_at_root, output_of, succeeds};
use crate::workspace::Workspace;

/// A cargo subcommand at the version these steps were written for. A newer one on the path will do.
#[derive(Debug)]
pub(crate) struct Tool {
    name: &'static str,
    version: Version,
}

pub(crate) const CARGO_DENY: Tool = Tool { name: "cargo-deny", version: Version([0, 20, 2]) };
pub(crate) const CARGO_FUZZ: Tool = Tool { name: "cargo-fuzz", version: Version([0, 13, 2]) };
pub(crate) const CARGO_NEXTEST: Tool = Tool { name: "cargo-nextest", version: Version([0, 9, 143]) };

/// Why a tool is not there. Both say so in words for the summary.
#[derive(Debug)]
pub(crate) enum Missing {
    /// The registry it would come from does not answer: nobody's mistake.
    Unreachable(String),
    /// It was found and could not be built.
    Broken(String),
}

impl Tool {
    /// The program, from the path or from this clone, installed there first if need be.
    pub(crate) fn find_or_install(&self, workspace: &Workspace) -> Result<PathBuf, Missing> {
        let owned = workspace.tools().join("bin").join(self.name);
        if let Some(found) = [PathBuf::from(self.name), owned.clone()].into_iter().find(|path| self.is(path))
        {
            return Ok(found);
        }
        println!("{} {} or newer is not on the path: installing it for this clone", self.name, self.version);
        if self.install(workspace) {
            return Ok(owned);
        }
        Err(if self.is_in_reach() {
            Missing::Broken(format!("{} {} could not be installed", self.name, self.version))
        } else {
            Missing::Unreachable(format!(
                "{} is not installed and the registry could not be reached",
                self.name
            ))
        })
    }

    fn is(&self, program: &Path) -> bool {
        output_of(Command::new(program).arg("--version"))
            .and_then(|output| Version::second_word_of(&output))
            .is_some_and(|version| version >= self.version)
    }

    fn install(&self, workspace: &Workspace) -> bool {
        let tools = workspace.tools();
        // Kept when the build fails or is interrupted, so that the next attempt goes on from there.
        let build = tools.join("build");
        let mut command = cargo_at_root(workspace);
        // Neither optimized nor debuggable: it is built once and runs for a second or two.
        command
            .args(["install", "--locked", "--debug", "--root"])
            .arg(&tools)
            .arg("--target-dir")
            .arg(&build);
        command.arg(format!("{}@{}", self.name, self.version)).env("CARGO_PROFILE_DEV_DEBUG", "false");
        let installed = succeeds(&mut command).unwrap_or(false);
        if installed {
            // Only space is lost if this fails.
            let _ = fs::remove_dir_all(&build);
        }
        installed
    }

    /// Tells "no network" from every other reason, which the exit code of an installation does not.
    fn is_in_reach(&self) -> bool {
        output_of(cargo().args(["info", &format!("{}@{}", self.name, self.version)])).is_some()
    }
}

/// Major, minor, patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version([u32; 3]);

impl Version {
    /// The version in a line such as `cargo-deny 0.20.2`; what follows a `-`, `+` or space is ignored.
    fn second_word_of(line: &str) -> Option<Self> {
        let word = line.split_whitespace().nth(1)?;
        let numbers = word.split(['-', '+']).next()?;
        let mut parts = numbers.split('.').map(|part| part.parse().ok());
        Some(Self([parts.next()??, parts.next()??, parts.next()??]))
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [major, minor, patch] = self.0;
        write!(formatter, "{major}.{minor}.{patch}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_tools_print() {
        assert_eq!(Version::second_word_of("cargo-deny 0.20.2\n"), Some(Version([0, 20, 2])));
        let long = "cargo-nextest 0.9.143 (60fa45f63 2026-08-04)\nrelease: 0.9.143\n";
        assert_eq!(Version::second_word_of(long), Some(Version([0, 9, 143])));
        assert_eq!(Version::second_word_of("tool 1.2.3-rc.1+x"), Some(Version([1, 2, 3])));
    }

    #[test]
    fn what_is_no_version_is_not_read_as_one() {
        for line in ["", "tool", "tool 1", "tool 1.2", "tool one.two.three"] {
            assert_eq!(Version::second_word_of(line), None, "{line}");
        }
    }

    #[test]
    fn versions_are_ordered_as_numbers() {
        assert!(Version([0, 20, 10]) > Version([0, 20, 9]));
        assert!(Version([0, 21, 0]) > Version([0, 20, 2]));
        assert!(Version([1, 0, 0]) > Version([0, 99, 99]));
    }
}
