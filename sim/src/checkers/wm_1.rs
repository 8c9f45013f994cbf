//! WM-1: snapshot <= checkpoint <= synced <= applied <= durable <= highest, per partition and node; none ever falls while a node lives.
//! With it LOG-2, checkpoint <= synced.
//!
//! Must not know: how a mark moves.

use std::collections::BTreeMap;

use gapless_consensus::{NodeId, Progress};
use gapless_engine::PartitionReport;
use gapless_engine::watermarks::Marks;
use gapless_types::PartitionId;

/// One life of a node, and how many snapshots it has installed. What a snapshot brings stands in other files: how much of it is synced
/// and in a checkpoint is told anew.
pub(crate) type Era = (u64, u64);

/// The marks of the lives that run.
#[derive(Debug, Default)]
pub(crate) struct Wm1 {
    marks: BTreeMap<(NodeId, PartitionId), (Era, Marks)>,
    progress: BTreeMap<NodeId, (u64, Progress)>,
}

impl Wm1 {
    /// Looks at a partition of one life of a node.
    pub(crate) fn look(&mut self, node: NodeId, era: Era, report: &PartitionReport) -> Result<(), String> {
        let (partition, now) = (report.partition, report.marks);
        if now.checkpoint > now.synced {
            return Err(format!("LOG-2: node {node}, partition {partition}: {now:?}"));
        }
        if !now.are_ordered() {
            return Err(format!("node {node}, partition {partition}: {now:?}"));
        }
        let before = self.marks.insert((node, partition), (era, now));
        let Some(((life, installed), before)) = before.filter(|((life, _), _)| *life == era.0) else {
            return Ok(());
        };
        let falls = now.highest < before.highest
            || now.durable < before.durable
            || now.applied < before.applied
            || (life, installed) == era
                && (now.synced < before.synced
                    || now.checkpoint < before.checkpoint
                    || now.snapshot < before.snapshot);
        if falls {
            return Err(format!("node {node}, partition {partition}: {before:?} falls to {now:?}"));
        }
        Ok(())
    }

    /// Looks at the replicated log of one life of a node.
    pub(crate) fn look_at_log(&mut self, node: NodeId, life: u64, now: Progress) -> Result<(), String> {
        let ordered = now.snapshot <= now.dispatched
            && now.dispatched <= now.committed
            && now.dispatched <= now.durable.max(now.snapshot)
            && now.durable <= now.appended.max(now.snapshot);
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
