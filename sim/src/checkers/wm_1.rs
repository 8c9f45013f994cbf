//! WM-1: snapshot <= checkpoint <= synced <= applied <= durable <= highest, per partition and node; none ever falls while a node lives.
//! With it LOG-2, checkpoint <= synced.
//!
//! Must not know: how a mark moves.

use std::collections::BTreeMap;

use gapless_consensus::{NodeId, Progress};
use gapless_engine::PartitionReport;
use gapless_engine::watermarks::Marks;
use gapless_types::PartitionId;

/// A moment in one life of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) life: u64,
    /// Times that the partition was made anew.
    pub(crate) repairs: u64,
}

/// The marks of the lives that run.
#[derive(Debug, Default)]
pub(crate) struct Wm1 {
    marks: BTreeMap<(NodeId, PartitionId), (Moment, Marks)>,
    progress: BTreeMap<NodeId, (u64, Progress)>,
}

impl Wm1 {
    /// Looks at a partition of one life of a node.
    pub(crate) fn look(&mut self, node: NodeId, life: u64, report: &PartitionReport) -> Result<(), String> {
        let (partition, now) = (report.partition, report.marks);
        if now.checkpoint > now.synced {
            return Err(format!("LOG-2: node {node}, partition {partition}: {now:?}"));
        }
        if !now.are_ordered() {
            return Err(format!("node {node}, partition {partition}: {now:?}"));
        }
        // A partition that is made anew begins anew: its store is thrown away.
        let moment = Moment { life, repairs: report.repairs };
        let before = self.marks.insert((node, partition), (moment, now));
        match before.filter(|(before, _)| *before == moment) {
            Some((_, before)) if falls(&before, &now) => {
                Err(format!("node {node}, partition {partition}: {before:?} falls to {now:?}"))
            }
            _ => Ok(()),
        }
    }

    /// Looks at the replicated log of one life of a node.
    pub(crate) fn look_at_log(&mut self, node: NodeId, life: u64, now: Progress) -> Result<(), String> {
        let ordered = now.snapshot <= now.dispatched
            && now.dispatched <= now.committed
            && now.dispatched <= now.durable.max(now.snapshot);
        if !ordered {
            return Err(format!("the log of node {node}: {now:?}"));
        }
        let before = self.progress.insert(node, (life, now));
        let Some((_, before)) = before.filter(|(before, _)| *before == life) else { return Ok(()) };
        if now.committed < before.committed
            || now.dispatched < before.dispatched
            || now.snapshot < before.snapshot
            || now.first_kept < before.first_kept
        {
            return Err(format!("the log of node {node}: {before:?} falls to {now:?}"));
        }
        Ok(())
    }
}

fn falls(before: &Marks, now: &Marks) -> bool {
    now.highest < before.highest
        || now.durable < before.durable
        || now.applied < before.applied
        || now.synced < before.synced
        || now.checkpoint < before.checkpoint
        || now.snapshot < before.snapshot
}
