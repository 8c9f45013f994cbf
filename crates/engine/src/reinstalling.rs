//! Partitions that nothing on this node can bring back are installed anew from another one, without being asked to.
//!
//! ```text
//!  lacks outcomes that the replicated log does not have any more ──┐
//!  is not well, and keeps a replicated log that is too long ───────┴──▶ repaired from the node that has most, now and then
//! ```
//!
//! What is damaged otherwise waits for an operator: it may be the sign of something that he should see.
//!
//! Invariants
//! - TRUNC-1: the log is not cut below such a partition; it is cut once the partition is well again.
//! - Outcomes that differ from those of the other node are never exchanged here.
//!
//! Must not know: how a partition is repaired.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gapless_types::PartitionId;
use tokio::time::Instant;

use crate::cutting::Cutting;
use crate::node::Node;
use crate::repair::{RepairSource, repair_partition};
use crate::slot::{PartitionState, Slot};

/// How long a partition that could not be installed is left alone.
const PAUSE: Duration = Duration::from_secs(10);

/// Looks after them until the node closes.
pub(crate) async fn run(node: Arc<Node>, cutting: Cutting, interval: Duration) {
    let mut closing = node.closing.subscribe();
    let mut looks = tokio::time::interval(interval);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut tried: BTreeMap<PartitionId, Instant> = BTreeMap::new();
    loop {
        tokio::select! {
            biased;
            _ = closing.wait_for(|closing| *closing) => return,
            _ = looks.tick() => {}
        }
        if node.others().is_empty() {
            continue;
        }
        tried.retain(|_, at| at.elapsed() < PAUSE);
        let due = node
            .all_slots()
            .into_iter()
            .find(|slot| !tried.contains_key(&slot.id) && needs_another_node(&node, &cutting, slot));
        let Some(slot) = due else { continue };
        tried.insert(slot.id, Instant::now());
        match repair_partition(&node, slot.id, RepairSource::AnyNode).await {
            Ok(report) => {
                let what: Vec<_> = report.repaired.into_iter().map(|repaired| repaired.what).collect();
                node.alarm(format!("partition {} was installed anew: {}", slot.id, what.join("; ")));
            }
            Err(error) => node.alarm(format!("partition {} cannot be installed anew: {error}", slot.id)),
        }
    }
}

fn needs_another_node(node: &Node, cutting: &Cutting, slot: &Slot) -> bool {
    if !matches!(*slot.state.borrow(), PartitionState::Failed(_) | PartitionState::Quarantined(_)) {
        return false;
    }
    slot.is_lacking() || (cutting.is_too_long(node) && holds_the_log(node, slot.id))
}

/// Whether nobody needs more of the replicated log.
fn holds_the_log(node: &Node, partition: PartitionId) -> bool {
    let core = node.core();
    core.watermarks.needed_from(partition) == Some(core.watermarks.lowest_needed())
}
