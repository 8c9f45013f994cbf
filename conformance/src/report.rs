//! How many cases passed, and what was wrong with the others.

use std::fmt;

/// What was expected and did not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Counted from 1; 0 is what comes before the first step.
    pub(crate) step: usize,
    pub(crate) expected: String,
    pub(crate) got: String,
}

/// The result of a file.
#[derive(Debug, Default)]
pub(crate) struct Report {
    passed: usize,
    failures: Vec<(String, Failure)>,
}

impl Report {
    /// Counts a case.
    pub(crate) fn add(&mut self, id: &str, outcome: Result<(), Failure>) {
        match outcome {
            Ok(()) => self.passed += 1,
            Err(failure) => self.failures.push((id.to_owned(), failure)),
        }
    }

    pub(crate) fn passed_all(&self) -> bool {
        self.failures.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (id, Failure { step, expected, got }) in &self.failures {
            writeln!(formatter, "{id} step {step}: expected {expected}, got {got}")?;
        }
        writeln!(formatter, "{} passed, {} failed", self.passed, self.failures.len())
    }
}
