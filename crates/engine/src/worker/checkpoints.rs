//! Checkpoints of a partition, and its state at a mark, for a snapshot.
//!
//! Invariants
//! - LOG-2: what is told to be covered is in a checkpoint, and that is behind what is synced.
//!
//! Must not know: what a snapshot is made of.

use std::sync::Arc;

use gapless_partition::{CheckpointFailed, Partition};

use super::{End, reach_of};
use crate::node::Node;
use crate::slot::{Mark, Marked, Slot};

pub(super) async fn checkpoint(node: &Arc<Node>, slot: &Arc<Slot>) -> Result<(), End> {
    let job = {
        let (node, slot) = (node.clone(), slot.clone());
        move || make_checkpoint(&node, &slot)
    };
    node.workers.run(job).await?;
    node.keeper.notify_one();
    Ok(())
}

fn make_checkpoint(node: &Node, slot: &Slot) -> Result<(), End> {
    let mut guard = slot.partition();
    let partition = guard.as_mut().expect("a partition that serves is open");
    let made = partition.checkpoint().and_then(|()| {
        // A step of what is due; more of it comes with the next checkpoint, so that merging never falls far behind.
        partition.maintain().map(|_| ())
    });
    match made {
        Ok(()) => {}
        Err(CheckpointFailed::Stopped(fault)) => return Err(End::Failed(fault.to_string())),
        // The one before is still valid, and the next one takes everything along.
        Err(error) => node.alarm(format!("partition {}: no checkpoint: {error}", slot.id)),
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
    // A checkpoint is made of everything that is applied, so both are where the partition is.
    if let Some(reach) = reach_of(partition)
        && partition.checkpointed() == Some(reach.offset)
    {
        let _ = core.watermarks.checkpointed(slot.id, slot.incarnation, reach);
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
    node.workers.run(job).await
}
