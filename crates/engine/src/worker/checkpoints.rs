//! Checkpoints of a partition, and its state at a mark, for a snapshot.
//!
//! Invariants
//! - LOG-2: what is told to be covered is in a checkpoint, and that is behind what is synced.
//!
//! Must not know: what a snapshot is made of.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use gapless_partition::{CheckpointFailed, Partition};

use super::End;
use crate::node::Node;
use crate::slot::{Mark, Marked, Slot};
use crate::watermarks::Reach;

/// Begins a checkpoint, for which the task has the turn. It is written out beside everything else, and the task ends it then.
pub(super) async fn begin_checkpoint(node: &Arc<Node>, slot: &Arc<Slot>) -> Result<(), End> {
    let begin = {
        let (node, slot) = (node.clone(), slot.clone());
        move || {
            let mut guard = slot.partition();
            let partition = guard.as_mut().expect("a partition that serves is open");
            let begun = partition.begin_checkpoint();
            begun.or_else(|failed| not_made(&node, &slot, &failed).map(|()| None))
        }
    };
    if let Some(checkpointing) = node.workers.run_long(begin).await? {
        let slot = slot.clone();
        node.workers.submit_long(&node.runtime, move || {
            match catch_unwind(AssertUnwindSafe(|| checkpointing.write_out())) {
                Ok(()) => slot.request_end_of_checkpoint(),
                Err(panic) => slot.break_off(Err(panic)),
            }
        });
    }
    Ok(())
}

/// Ends the checkpoint that was begun and is written out; the task has the turn.
pub(super) async fn end_checkpoint(node: &Arc<Node>, slot: &Arc<Slot>) -> Result<(), End> {
    let end = {
        let (node, slot) = (node.clone(), slot.clone());
        move || {
            let mut guard = slot.partition();
            let partition = guard.as_mut().expect("a partition that serves is open");
            let ended = partition.end_checkpoint();
            let retired = ended.or_else(|failed| not_made(&node, &slot, &failed).map(|()| None))?;
            report_durable(&node, &slot, partition);
            Ok(retired)
        }
    };
    let retired = node.workers.run_long(end).await?;
    // Letting go of what is not needed any more takes a while, and is nobody's turn.
    if retired.is_some() {
        node.workers.submit_long(&node.runtime, move || drop(retired));
    }
    node.keeper.notify_one();
    Ok(())
}

/// The checkpoint before is still valid, and the next one takes everything along; unless the partition has stopped.
fn not_made(node: &Node, slot: &Slot, failed: &CheckpointFailed) -> Result<(), End> {
    match failed {
        CheckpointFailed::Stopped(fault) => Err(End::Failed(fault.to_string())),
        CheckpointFailed::Store(_) | CheckpointFailed::Maintain(_) => {
            node.alarm(format!("partition {}: no checkpoint: {failed}", slot.id));
            Ok(())
        }
    }
}

/// A checkpoint from its beginning to its end, while nothing is applied.
fn make_checkpoint(node: &Node, slot: &Slot) -> Result<(), End> {
    let mut guard = slot.partition();
    let partition = guard.as_mut().expect("a partition that serves is open");
    let made = partition.checkpoint().and_then(|()| {
        // A step of what is due; more of it comes with the next checkpoint, so that merging never falls far behind.
        partition.maintain().map(|_| ())
    });
    if let Err(failed) = made {
        not_made(node, slot, &failed)?;
    }
    report_durable(node, slot, partition);
    Ok(())
}

pub(super) fn report_durable(node: &Node, slot: &Slot, partition: &Partition) {
    let mut core = node.core();
    if core.dispatch.is_unknown(slot.id) {
        return;
    }
    if let Some(synced) = partition.synced().min(partition.applied()) {
        let _ = core.watermarks.synced(slot.id, slot.incarnation, synced);
    }
    if let Some((offset, index)) = partition.covered() {
        let _ = core.watermarks.checkpointed(slot.id, slot.incarnation, Reach { offset, index });
    }
}

/// Everything that is applied is in a checkpoint, and that is held for a snapshot. One that was made in an earlier life is not told of,
/// and then neither is this.
fn report_snapshot(node: &Node, slot: &Slot, partition: &Partition) {
    let mut core = node.core();
    let Some((marks, offset)) = core.watermarks.marks(slot.id).zip(partition.applied()) else { return };
    if marks.checkpoint >= Some(offset) && marks.snapshot < Some(offset) {
        let _ = core.watermarks.snapshot(slot.id, slot.incarnation, offset);
    }
}

pub(super) async fn take_mark(node: &Arc<Node>, slot: &Arc<Slot>, mark: Mark) -> Result<(), End> {
    let job = {
        let (node, slot) = (node.clone(), slot.clone());
        move || {
            if let Err(end) = make_checkpoint(&node, &slot) {
                slot.put_back(mark);
                return Err(end);
            }
            let mut guard = slot.partition();
            let partition = guard.as_mut().expect("a partition that serves is open");
            let covered = partition.checkpointed() == partition.applied();
            let reason = match partition.view() {
                Ok(view) if covered => {
                    report_snapshot(&node, &slot, partition);
                    // Whoever asked may be gone.
                    let _ = mark.reply.send(Marked { view });
                    return Ok(());
                }
                Ok(_) => "its state could not be made durable".to_owned(),
                Err(error) => error.to_string(),
            };
            // A snapshot that fails ends the node. It waits instead, until this partition is well (ISO-1).
            slot.put_back(mark);
            Err(End::Failed(reason))
        }
    };
    node.workers.run_long(job).await
}
