//! Partitions that nothing on this node can bring back are installed anew from another one, without being asked to.
//!
//! ```text
//!  lacks outcomes that the replicated log does not have any more ──┐
//!  is not well for a while, and keeps a log that is too long ──────┴──▶ repaired from the node that has most, now and then
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

/// How long a partition that could not be installed is left alone, and how long one that failed may take to be well by itself.
const PAUSE: Duration = Duration::from_secs(10);

/// Looks after them until the node closes.
pub(crate) async fn run(node: Arc<Node>, cutting: Cutting, interval: Duration) {
    let mut closing = node.closing.subscribe();
    let mut looks = tokio::time::interval(interval);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut tried: BTreeMap<PartitionId, Instant> = BTreeMap::new();
    let mut not_well: BTreeMap<PartitionId, Instant> = BTreeMap::new();
    loop {
        tokio::select! {
            biased;
            _ = closing.wait_for(|closing| *closing) => return,
            _ = looks.tick() => {}
        }
        if node.others().is_empty() {
            continue;
        }
        let now = Instant::now();
        tried.retain(|_, at| at.elapsed() < PAUSE);
        let hurt: Vec<Arc<Slot>> = node.all_slots().into_iter().filter(|slot| is_not_well(slot)).collect();
        let since = |slot: &Arc<Slot>| (slot.id, not_well.get(&slot.id).copied().unwrap_or(now));
        not_well = hurt.iter().map(since).collect();
        let is_due = |slot: &&Arc<Slot>| {
            let is_stuck = not_well[&slot.id].elapsed() >= PAUSE;
            !tried.contains_key(&slot.id)
                && (slot.is_lacking()
                    || (is_stuck && cutting.is_too_long(&node) && holds_the_log(&node, slot.id)))
        };
        let due = hurt.iter().find(is_due);
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

fn is_not_well(slot: &Slot) -> bool {
    matches!(*slot.state.borrow(), PartitionState::Failed(_) | PartitionState::Quarantined(_))
}

/// Whether nobody needs more of the replicated log.
fn holds_the_log(node: &Node, partition: PartitionId) -> bool {
    let core = node.core();
    core.watermarks.needed_from(partition) == Some(core.watermarks.lowest_needed())
}
