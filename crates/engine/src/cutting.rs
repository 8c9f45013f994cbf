//! Where the replicated log is cut next, and whether it has become too long for more writes.
//!
//! ```text
//!  |-------------------------|------------------|----------------| appended
//!  first                     end                covered
//!   may be cut now            kept for followers  in no checkpoint yet
//! ```
//!
//! Invariants
//! - TRUNC-1: nothing is cut that is not in every checkpoint, or that a domain, a pin or a replica needs, unless that one is named.
//! - Whether the log is too long is judged whenever somebody looks, also while nothing can be cut.
//!
//! Must not know: how a log is cut, who is told that writes are refused.

use std::sync::Arc;

use gapless_types::LogIndex;

use crate::admission::LogLength;
use crate::keeper::Housekeeping;
use crate::node::Node;
use crate::retention::{Needs, Peers, RetainedLog, Retention};

/// Decides where to cut.
#[derive(Clone, Debug)]
pub(crate) struct Cutting {
    pub(crate) retention: Arc<Retention>,
    pub(crate) housekeeping: Housekeeping,
    pub(crate) segment_bytes: u32,
}

impl Cutting {
    /// Whether the log is longer than it may be, cut or not.
    pub(crate) fn is_too_long(&self, node: &Node) -> bool {
        self.bytes(node) > self.housekeeping.max_retained_bytes
    }

    fn bytes(&self, node: &Node) -> u64 {
        node.replicator().statistics().log.segments.saturating_mul(u64::from(self.segment_bytes))
    }

    /// In front of which entry the log is to be cut now, if it is. Writes are refused, or admitted again. While an earlier cut is
    /// under way, what it will take off still counts.
    pub(crate) fn plan(&self, node: &Node, under_way: bool) -> Option<LogIndex> {
        let alone = node.replicator().members().addresses.len() <= 1;
        let log = self.retained(node, alone);
        let cut = {
            // What is on disk counts: after a crash a domain needs what it says.
            let domains = node.durable.borrow().domains.clone();
            let needs = {
                let core = node.core();
                Needs {
                    partitions: core.watermarks.all_needed_from().collect(),
                    domains: domains.into_iter().collect(),
                    replicas: core.others.as_ref().map(|others| others.missing()).unwrap_or_default(),
                    acknowledgements: core.others.as_ref().map(|others| others.min_required()),
                }
            };
            self.retention.cut(&needs, &log, if alone { Peers::None } else { Peers::Some })
        };
        for (holder, index) in &cut.dropped_out {
            node.alarm(format!("the replicated log is cut although {holder} needs entry {index}"));
        }
        let max_bytes = self.housekeeping.max_retained_bytes;
        let too_long = match (&cut.refuse_writes, alone) {
            (Some(too_long), true) => {
                node.alarm(format!(
                    "writes are refused: the replicated log is too long, held by {}",
                    too_long.holders()
                ));
                Some(LogLength { bytes: too_long.bytes, max_bytes })
            }
            (None, true) if under_way && log.bytes > max_bytes => {
                Some(LogLength { bytes: log.bytes, max_bytes })
            }
            // Where there are others, who holds the log drops out of it.
            _ => None,
        };
        node.admission.report_log(too_long);
        (cut.first_kept > log.first).then_some(cut.first_kept)
    }

    fn retained(&self, node: &Node, alone: bool) -> Replicated {
        let progress = *node.replicator().progress().borrow();
        let first = progress.first_kept.unwrap_or(LogIndex::FIRST);
        let bytes = self.bytes(node);
        // Who has no followers keeps nothing for them when room is short.
        let keep = match alone && bytes > self.housekeeping.max_retained_bytes {
            true => 0,
            false => self.housekeeping.keep_entries,
        };
        let (covered, domains) = {
            let durable = node.durable.borrow();
            (durable.covered, node.projections.first_of_the_sound(&durable.domains))
        };
        // A domain that does well never drops out: it needs a little more than the partitions for a moment.
        let covered = covered.min(domains.map_or(covered, LogIndex::previous));
        let end = covered.map_or(0, |covered| covered.get().saturating_add(1).saturating_sub(keep));
        // Cutting costs a snapshot, so it is done in large pieces.
        let is_due = end >= first.get().saturating_add(keep.max(1));
        let behind = |index: Option<LogIndex>| index.and_then(LogIndex::next).unwrap_or(LogIndex::FIRST);
        Replicated {
            first,
            end: if is_due { LogIndex::new(end) } else { first },
            tail: behind(progress.appended).max(first),
            bytes,
        }
    }
}

/// What is there of the replicated log.
struct Replicated {
    first: LogIndex,
    end: LogIndex,
    tail: LogIndex,
    bytes: u64,
}

impl RetainedLog for Replicated {
    fn end(&self) -> LogIndex {
        self.end
    }

    fn tail(&self) -> LogIndex {
        self.tail
    }

    fn bytes_from(&self, index: LogIndex) -> u64 {
        // Entries are taken to be of equal length: good enough to decide whether the log is far too long.
        let all = self.tail.get().saturating_sub(self.first.get()).max(1);
        let kept = self.tail.get().saturating_sub(index.get()).min(all);
        let bytes = u128::from(self.bytes) * u128::from(kept) / u128::from(all);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}
