//! How a command that did not get its way says so: on stderr, with what to do next, and exit code 1.
//!
//! Must not know: any command.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

/// Something that was refused or failed, or an answer that is bad news: the problem, and what to do next.
#[derive(Debug)]
pub(crate) struct Refusal {
    problem: String,
    next: String,
}

impl Refusal {
    /// Both are sentences without a full stop.
    pub(crate) fn new(problem: impl Into<String>, next: impl Into<String>) -> Self {
        Self { problem: problem.into(), next: next.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n next: {}", self.problem, self.next)
    }
}

impl std::error::Error for Refusal {}

/// Says on stderr what is to be said, and what the process exits with.
pub(crate) fn exit_code(ended: anyhow::Result<()>) -> ExitCode {
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !is_broken_pipe(&error) {
                note(format_args!("error: {error:#}"));
            }
            ExitCode::FAILURE
        }
    }
}

/// A line on stderr.
pub(crate) fn note(line: fmt::Arguments<'_>) {
    // If nobody can be told, nobody can be told that either.
    let _ = writeln!(io::stderr(), "{line}");
}

/// Whoever read our output has seen enough, as `head` does; that is no error to report.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
