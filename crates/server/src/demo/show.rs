//! How the demonstration looks: a few lines of introduction, numbered acts, commands to try.
//!
//! Each line appears when it is written, so that people see what is going on.
//!
//! Must not know: what is shown.

use std::env;
use std::fmt::{Arguments, Display};
use std::io::Write;
use std::path::Path;

use anyhow::Result;
use comfy_table::Table;

use crate::log_command::trouble::shell_word;
use crate::output::{counted, heading, write_table};

/// What a newcomer should know at the end.
const LAST_WORDS: [&str; 2] = [
    "This was one partition without a server. `gapless dev` starts one, with everything around it.",
    "It can be run again: it goes on in the same directory with the next numbers.",
];

/// The demonstration as it is written.
pub(super) struct Acts<'a> {
    out: &'a mut dyn Write,
    number: u32,
}

impl<'a> Acts<'a> {
    /// Says what this is, and whether it goes on from an earlier run.
    pub(super) fn begin(dir: &Path, outcomes: u64, out: &'a mut dyn Write) -> Result<Self> {
        writeln!(out, "This is a demonstration of what Gapless promises, without a server:")?;
        writeln!(out, "the ledger of one partition, embedded, with real files in {}.", dir.display())?;
        if outcomes > 0 {
            let there = counted(outcomes, "outcome");
            writeln!(out, "It holds {there} of earlier runs; the numbers go on from there.")?;
        }
        out.flush()?;
        Ok(Self { out, number: 0 })
    }

    /// Begins an act.
    pub(super) fn title(&mut self, title: &str) -> Result<()> {
        self.number += 1;
        writeln!(self.out, "\n{}", heading(&format!("{}. {title}", self.number)))?;
        self.out.flush()?;
        Ok(())
    }

    /// A sentence.
    pub(super) fn line(&mut self, line: Arguments<'_>) -> Result<()> {
        writeln!(self.out, "  {line}")?;
        self.out.flush()?;
        Ok(())
    }

    /// A fact with its name.
    pub(super) fn fact(&mut self, name: &str, value: impl Display) -> Result<()> {
        self.line(format_args!("{name:<14}  {value}"))
    }

    /// A table.
    pub(super) fn table(&mut self, table: &Table) -> Result<()> {
        write_table(self.out, table)?;
        self.out.flush()?;
        Ok(())
    }

    /// Ends with commands that can be pasted, and with what this was.
    pub(super) fn end(&mut self, program: &str, log: &str) -> Result<()> {
        writeln!(self.out, "\n{}", heading("What this was"))?;
        for line in LAST_WORDS {
            self.line(format_args!("{line}"))?;
        }
        writeln!(self.out, "\n{}", heading("Three commands to try"))?;
        writeln!(self.out, "  {program} log inspect {log}")?;
        writeln!(self.out, "  {program} log verify {log}")?;
        writeln!(self.out, "  {program} log dump {log} --limit 5")?;
        Ok(())
    }
}

/// A name in the form of a code: `VersionMismatch` is `VERSION_MISMATCH`.
pub(super) fn constant_case(name: &str) -> String {
    let mut code = String::new();
    for character in name.chars() {
        if character.is_uppercase() && !code.is_empty() {
            code.push('_');
        }
        code.extend(character.to_uppercase());
    }
    code
}

/// Bytes as people can read them.
pub(super) fn quoted(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes.escape_ascii())
}

/// How whoever started this program can start it again from where they are.
pub(crate) fn invocation() -> String {
    if is_run_by_cargo() {
        let profile = if cfg!(debug_assertions) { "" } else { "--release " };
        return format!("cargo run {profile}--");
    }
    match env::args_os().next() {
        Some(program) => shell_word(Path::new(&program)),
        None => "gapless".to_owned(),
    }
}

/// Whether `cargo run` started us, in a directory where it finds us again.
fn is_run_by_cargo() -> bool {
    let (Some(manifest), Ok(here)) = (env::var_os("CARGO_MANIFEST_DIR"), env::current_dir()) else {
        return false;
    };
    Path::new(&manifest).starts_with(&here) && here.join("Cargo.toml").is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_shown_as_clients_will_see_it() {
        assert_eq!(constant_case("VersionMismatch"), "VERSION_MISMATCH");
        assert_eq!(constant_case("Malformed"), "MALFORMED");
    }
}
