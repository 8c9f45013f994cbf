//! TRUNC-1: no log entry that some partition, snapshot or follower still needs is ever dropped.
//!
//! A node that has cut its replicated log in front of an entry has a snapshot up to there, and every partition of it has everything in
//! front of it in a checkpoint; of what came with a snapshot of another node, on stable storage in its log. Which outcomes those are
//! nobody tells, so in a life that installed one the log has to do for all. A follower that needs what was cut gets a snapshot: that
//! it does is found by LIVE.
//!
//! Must not know: who decides where to cut.

use gapless_consensus::{NodeId, Progress};
use gapless_engine::PartitionReport;
use gapless_types::LogIndex;

/// Looks at a node.
pub(crate) fn check(
    node: NodeId,
    progress: Progress,
    has_installed: bool,
    partitions: &[PartitionReport],
) -> Result<(), String> {
    let Some(cut) = progress.first_kept.and_then(LogIndex::previous) else { return Ok(()) };
    if progress.snapshot < Some(cut) {
        return Err(format!(
            "node {node} has cut its log up to {cut}, and has a snapshot up to {:?}",
            progress.snapshot
        ));
    }
    for report in partitions {
        // What is applied behind the checkpoint is in front of the cut only if the last of it is. A life that has made no
        // checkpoint yet does not say which one it began with.
        let marks = report.marks;
        let came_with_a_snapshot = has_installed && marks.synced == marks.applied;
        if marks.checkpoint.is_some()
            && !came_with_a_snapshot
            && marks.checkpoint < marks.applied
            && marks.applied_index.is_some_and(|index| index <= cut)
        {
            return Err(format!(
                "node {node} has cut its log up to {cut}, but partition {} has no checkpoint of it: {marks:?}",
                report.partition
            ));
        }
    }
    Ok(())
}
