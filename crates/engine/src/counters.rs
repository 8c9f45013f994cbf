//! What became of writes, counted where it is decided: a relaxed addition each.
//!
//! Must not know: who reads it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use gapless_partition::Outcome;

use crate::admission::{AdmissionError, Limit, Overloaded, Scope};
use crate::error::WriteError;
use crate::write::Acknowledgement;

/// Where a write can be turned away, and by which limit.
const REJECTIONS: [(&str, &str); 17] = [
    ("partition", "operations"),
    ("partition", "bytes"),
    ("partition", "share"),
    ("partition", "client"),
    ("partition", "age"),
    ("partition", "lag"),
    ("partition", "signal"),
    ("partition", "frozen"),
    ("partition", "known_keys"),
    ("node", "operations"),
    ("node", "bytes"),
    ("node", "age"),
    ("node", "lag"),
    ("node", "signal"),
    ("node", "log_bytes"),
    ("node", "keys_in_flight"),
    ("node", "write_bytes"),
];

/// Writes that were turned away at one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// `partition` or `node`.
    pub scope: &'static str,
    /// Which limit.
    pub limit: &'static str,
    /// How many.
    pub count: u64,
}

/// What became of writes since the node was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteStatistics {
    /// Answered with an event, retries among them.
    pub committed: u64,
    /// Answered with a refusal, retries among them.
    pub refused: u64,
    /// Retries that were answered from memory.
    pub recalled: u64,
    /// Retries that waited for the outcome of the first one.
    pub joined: u64,
    /// Retries that the partition found out.
    pub duplicates: u64,
    /// Writes that came to nothing on the way and entered again.
    pub proposed_again: u64,
    /// Writes that were turned away, by the limit that was reached; every limit is there.
    pub rejected: Vec<Rejected>,
}

/// The counters behind it.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    committed: AtomicU64,
    refused: AtomicU64,
    pub(crate) recalled: AtomicU64,
    pub(crate) joined: AtomicU64,
    duplicates: AtomicU64,
    pub(crate) proposed_again: AtomicU64,
    rejected: [AtomicU64; REJECTIONS.len()],
}

/// Counts one more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

impl Counters {
    /// A write is answered.
    pub(crate) fn answered(&self, acknowledgement: &Acknowledgement) {
        match &*acknowledgement.outcome {
            Outcome::Committed(_) => count(&self.committed),
            _ => count(&self.refused),
        }
    }

    /// A partition has said what became of a record.
    pub(crate) fn decided(&self, outcome: &Outcome) {
        if matches!(outcome, Outcome::Duplicate { .. }) {
            count(&self.duplicates);
        }
    }

    /// A write was not let in. Other errors are no limits.
    pub(crate) fn rejected(&self, error: &WriteError) {
        let Some(reached) = limit_of(error) else { return };
        let at = REJECTIONS.iter().position(|known| *known == reached).expect("every limit is in the table");
        count(&self.rejected[at]);
    }

    pub(crate) fn read(&self) -> WriteStatistics {
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        let rejected = REJECTIONS.iter().zip(&self.rejected);
        let rejected = rejected.map(|((scope, limit), count)| Rejected { scope, limit, count: get(count) });
        WriteStatistics {
            committed: get(&self.committed),
            refused: get(&self.refused),
            recalled: get(&self.recalled),
            joined: get(&self.joined),
            duplicates: get(&self.duplicates),
            proposed_again: get(&self.proposed_again),
            rejected: rejected.collect(),
        }
    }
}

fn limit_of(error: &WriteError) -> Option<(&'static str, &'static str)> {
    Some(match error {
        WriteError::Admission(AdmissionError::Overloaded(Overloaded { scope, limit, .. })) => {
            // Some limits are of one scope by nature; what is told must be in the table.
            match (scope, limit) {
                (_, Limit::LogBytes) => ("node", "log_bytes"),
                (_, Limit::Share) => ("partition", "share"),
                (_, Limit::Client) => ("partition", "client"),
                (scope, limit) => (scope_name(*scope), limit_name(*limit)),
            }
        }
        WriteError::Admission(AdmissionError::Frozen { .. }) | WriteError::Frozen { .. } => {
            ("partition", "frozen")
        }
        WriteError::Admission(AdmissionError::TooLarge { .. }) => ("node", "write_bytes"),
        WriteError::TooManyInFlight { .. } => ("node", "keys_in_flight"),
        WriteError::WindowFull { .. } => ("partition", "known_keys"),
        _ => return None,
    })
}

fn scope_name(scope: Scope) -> &'static str {
    match scope {
        Scope::Node => "node",
        Scope::Partition(_) => "partition",
    }
}

fn limit_name(limit: Limit) -> &'static str {
    match limit {
        Limit::Operations => "operations",
        Limit::Bytes => "bytes",
        Limit::Share => "share",
        Limit::Client => "client",
        Limit::Age => "age",
        Limit::Lag => "lag",
        Limit::LogBytes => "log_bytes",
        Limit::Signal(_) => "signal",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gapless_types::{NamespaceId, PartitionId, PartitionIndex};

    use super::*;

    #[test]
    fn every_limit_has_a_line_of_the_table() {
        let partition = PartitionId { namespace: NamespaceId::new(1), index: PartitionIndex::new(0) };
        let limits = [
            Limit::Operations,
            Limit::Bytes,
            Limit::Share,
            Limit::Client,
            Limit::Age,
            Limit::Lag,
            Limit::LogBytes,
            Limit::Signal("disk"),
        ];
        let counters = Counters::default();
        for scope in [Scope::Node, Scope::Partition(partition)] {
            for limit in limits {
                let retry_after = Duration::ZERO;
                let overloaded = Overloaded { scope, limit, current: 2, maximum: 1, retry_after };
                counters.rejected(&WriteError::Admission(overloaded.into()));
            }
        }
        counters.rejected(&WriteError::Frozen { partition });
        counters.rejected(&WriteError::Admission(AdmissionError::TooLarge { bytes: 9 }));
        counters.rejected(&WriteError::TooManyInFlight { limit: 1 });
        counters.rejected(&WriteError::WindowFull { partition, known: 1, limit: 1 });
        counters.rejected(&WriteError::Closing);
        let counted = counters.read().rejected;
        assert_eq!(counted.iter().map(|rejected| rejected.count).sum::<u64>(), 20);
        assert!(counted.iter().all(|rejected| rejected.count > 0), "{counted:?}");
    }
}
