//! What a request must be like before anything is done for it. Every violation is found, not the first one alone.

use std::fmt::Display;

use gapless_engine::types::limits::MAX_PAGE_SIZE;
use gapless_engine::types::{Name, PartitionIndex};

use crate::problem::{Problem, Violation};

/// Items on a page whose size was not given.
const DEFAULT_PAGE_SIZE: usize = 100;

/// Collects what is wrong with a request.
#[derive(Debug, Default)]
pub struct Check(Vec<Violation>);

impl Check {
    /// Notes a violation.
    pub fn add(&mut self, field: impl Display, problem: impl Display) {
        self.0.push(Violation { field: field.to_string(), problem: problem.to_string() });
    }

    /// Notes several.
    pub fn extend(&mut self, violations: impl IntoIterator<Item = Violation>) {
        self.0.extend(violations);
    }

    /// A name of a namespace, or whatever else has one.
    pub fn name(&mut self, field: &str, name: &str) {
        if let Err(error) = Name::check(name) {
            self.add(field, error);
        }
    }

    /// The size of a page.
    pub fn page_size(&mut self, size: u32) -> usize {
        match usize::try_from(size).unwrap_or(usize::MAX) {
            0 => DEFAULT_PAGE_SIZE,
            size if size <= MAX_PAGE_SIZE => size,
            size => {
                self.add("page_size", format_args!("{size}; the most are {MAX_PAGE_SIZE}"));
                MAX_PAGE_SIZE
            }
        }
    }

    /// The index of a partition.
    pub fn partition(&mut self, field: &str, index: u32) -> PartitionIndex {
        match u16::try_from(index) {
            Ok(index) => PartitionIndex::new(index),
            Err(_) => {
                self.add(field, format_args!("{index}; partitions are 0 to 65535"));
                PartitionIndex::new(0)
            }
        }
    }

    /// Ends the check.
    ///
    /// # Errors
    /// If anything is wrong; all of it.
    pub fn end(self) -> Result<(), Problem> {
        if self.0.is_empty() { Ok(()) } else { Err(Problem::invalid(self.0)) }
    }
}
