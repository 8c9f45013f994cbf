//! When a leader should not lead: its clock is astray, or it has a partition that it cannot serve and somebody else can.
//!
//! Invariants
//! - Leadership goes to a voter that is further with what is unwell here. Where nobody is, it stays: nothing would be better.
//!
//! Must not know: how leadership is handed over, what is wrong with a partition.

use std::collections::BTreeMap;
use std::time::Duration;

use gapless_consensus::NodeId;
use gapless_types::{PartitionId, PartitionOffset};

use super::Others;
use crate::limits::{HANDOVER_PAUSE, LASTING_LOOKS, MAX_CLOCK_SKEW};
use crate::node::Node;
use crate::slot::PartitionState;

/// A leader whose clock is far from the others' gives up: log time would go astray with it.
pub(super) async fn step_back_if_skewed(node: &Node) {
    let skewed = {
        let core = node.core();
        match (&core.leader_clock, &core.others) {
            (Some(clock), Some(others)) => {
                let skew = clock.check_skew(&others.clocks, MAX_CLOCK_SKEW).err();
                let successor = others.missing().into_iter().max_by_key(|(_, missing)| *missing);
                skew.zip(successor)
            }
            _ => None,
        }
    };
    if let Some((skew, (successor, _))) = skewed {
        node.alarm(format!("{skew}; giving up leadership"));
        hand_over(node, successor).await;
    }
}

async fn hand_over(node: &Node, successor: NodeId) {
    if let Err(error) = node.replicator().transfer_leadership(successor).await {
        node.alarm(format!("leadership could not be handed over: {error}"));
    }
}

/// Partitions that this node cannot serve, and for how many looks it could not.
#[derive(Debug, Default)]
pub(super) struct Unwell {
    looks: BTreeMap<PartitionId, u32>,
    /// When leadership was given up last: two nodes that are both unwell do not hand it to and fro.
    last: Option<Duration>,
}

impl Unwell {
    /// A leader with a partition that stays unwell takes no writes for it and has no snapshot for anybody: who is further leads.
    pub(super) async fn step_back_if_lasting(&mut self, node: &Node) {
        let lasting = self.look(node);
        let now = node.clock.monotonic();
        if lasting.is_empty() || self.last.is_some_and(|last| now.saturating_sub(last) < HANDOVER_PAUSE) {
            return;
        }
        let successor = node.core().others.as_ref().and_then(|others| others.further_than(&lasting));
        if let Some(successor) = successor {
            self.last = Some(now);
            let partitions: Vec<String> = lasting.keys().map(ToString::to_string).collect();
            node.alarm(format!("giving up leadership: partitions {} are unwell here", partitions.join(", ")));
            hand_over(node, successor).await;
        }
    }

    /// Partitions that have been unwell for long enough, with their last outcomes here.
    fn look(&mut self, node: &Node) -> BTreeMap<PartitionId, Option<PartitionOffset>> {
        let (mut looks, mut lasting) = (BTreeMap::new(), BTreeMap::new());
        for slot in node.all_slots() {
            let seen = match &*slot.state.borrow() {
                PartitionState::Quarantined(_) => LASTING_LOOKS,
                // One that is opened again and again looks well in between.
                PartitionState::Failed(_) | PartitionState::Actualizing => {
                    self.looks.get(&slot.id).map_or(1, |looks| looks.saturating_add(1))
                }
                PartitionState::Serving | PartitionState::CatchingUp | PartitionState::Closed => continue,
            };
            looks.insert(slot.id, seen);
            if seen >= LASTING_LOOKS {
                lasting.insert(slot.id, slot.applied.borrow().offset);
            }
        }
        self.looks = looks;
        lasting
    }
}

impl Others {
    /// The voter that has more of all these partitions, and of those the one whose log is longest.
    fn further_than(&self, unwell: &BTreeMap<PartitionId, Option<PartitionOffset>>) -> Option<NodeId> {
        let is_further = |node: &NodeId| {
            let applied = self.applied.get(node);
            let has = |partition| applied.and_then(|applied| applied.get(partition)).copied();
            unwell.iter().all(|(partition, offset)| has(partition) > *offset)
        };
        let further = self.missing().into_iter().filter(|(node, _)| is_further(node));
        further.max_by_key(|(_, missing)| *missing).map(|(node, _)| node)
    }
}

#[cfg(test)]
mod tests {
    use gapless_types::{LogIndex, NamespaceId, PartitionIndex};

    use super::*;
    use crate::reports::Report;
    use crate::watermarks::Reach;

    #[test]
    fn who_has_more_of_everything_that_is_unwell_is_the_successor() {
        let partition =
            |index| PartitionId { namespace: NamespaceId::new(16), index: PartitionIndex::new(index) };
        let offset = |offset| PartitionOffset::new(offset).unwrap();
        let nodes = [1, 2, 3].map(NodeId::new);
        let mut others = Others::new(nodes[0], nodes.to_vec());
        let mut report = |from: usize, durable, applied: [u64; 2]| {
            let reach = |(index, applied): (u16, u64)| {
                (partition(index), Reach { offset: offset(applied), index: LogIndex::new(9) })
            };
            let partitions = (0..).zip(applied).map(reach).collect();
            let durable = Some(LogIndex::new(durable));
            let report = Report { from: nodes[from], wall: Duration::ZERO, durable, partitions };
            others.take_in(&report, Duration::ZERO);
            others.further_than(&BTreeMap::from([
                (partition(0), PartitionOffset::new(4)),
                (partition(1), None),
            ]))
        };
        assert_eq!(report(0, 20, [9, 9]), None, "it is unwell itself");
        assert_eq!(report(1, 9, [4, 9]), None, "not further with both");
        assert_eq!(report(1, 9, [5, 9]), Some(nodes[1]));
        assert_eq!(report(2, 10, [5, 1]), Some(nodes[2]), "its log is longer");
    }
}
