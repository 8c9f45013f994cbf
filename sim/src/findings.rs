//! What was found wrong in a run, each under the name of the invariant that it breaks.
//!
//! Must not know: how it was found.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::trace::{Trace, note};

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The invariant.
    pub invariant: &'static str,
    /// What is wrong.
    pub what: String,
    /// When, in milliseconds of simulated time.
    pub at: u64,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {} (at {} ms)", self.invariant, self.what, self.at)
    }
}

/// Findings of a run. Clones are the same.
#[derive(Clone, Debug)]
pub struct Findings {
    trace: Trace,
    found: Arc<Mutex<Vec<Finding>>>,
}

/// So many are kept: what follows from the first says little.
const KEPT: usize = 8;

impl Findings {
    pub(crate) fn new(trace: Trace) -> Self {
        Self { trace, found: Arc::default() }
    }

    /// Something is wrong.
    pub fn add(&self, invariant: &'static str, what: impl Into<String>) {
        let finding = Finding { invariant, what: what.into(), at: self.trace.millis() };
        note!(self.trace, "FOUND {finding}");
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if found.len() < KEPT {
            found.push(finding);
        }
    }

    /// Whether something was found.
    #[must_use]
    pub fn any(&self) -> bool {
        !self.found.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// All of them, the first ones.
    #[must_use]
    pub fn all(&self) -> Vec<Finding> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
