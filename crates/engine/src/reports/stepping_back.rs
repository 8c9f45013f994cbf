//! When a leader should not lead: its clock is astray, or it has a partition that it cannot serve and somebody else can.
//!
//! Invariants
//! - Leadership goes to a voter that is further with what is unwell here, or whose clock is where most are. Where nobody is, it stays:
//!   nothing would be better.
//!
//! Must not know: how leadership is handed over, what is wrong with a partition.

use std::collections::BTreeMap;
use std::time::Duration;

use gapless_consensus::NodeId;
use gapless_types::{PartitionId, PartitionOffset};

use super::Others;
use crate::limits::{HANDOVER_PAUSE, LASTING_LOOKS};
use crate::log_time::ClockSkew;
use crate::node::Node;
use crate::slot::PartitionState;

/// What speaks against leading, and when leadership was given up for it.
#[derive(Debug, Default)]
pub(super) struct SteppingBack {
    /// Partitions that this node cannot serve, and for how many looks it could not.
    looks: BTreeMap<PartitionId, u32>,
    /// When leadership was given up last: two nodes that should both not lead do not hand it to and fro.
    last: Option<Duration>,
}

impl SteppingBack {
    /// Looks whether this node, which leads, should go on doing so.
    pub(super) async fn look(&mut self, node: &Node) {
        let lasting = self.lasting(node);
        let now = node.clock.monotonic();
        if self.last.is_some_and(|last| now.saturating_sub(last) < HANDOVER_PAUSE) {
            return;
        }
        if let Some((why, successor)) = skewed(node).or_else(|| unwell(node, &lasting)) {
            self.last = Some(now);
            node.alarm(format!("giving up leadership: {why}"));
            if let Err(error) = node.replicator().transfer_leadership(successor).await {
                node.alarm(format!("leadership could not be handed over: {error}"));
            }
        }
    }

    /// Partitions that have been unwell for long enough, with their last outcomes here.
    fn lasting(&mut self, node: &Node) -> BTreeMap<PartitionId, Option<PartitionOffset>> {
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

/// A leader whose clock is far from the others' gives up, in favour of somebody whose clock is not: log time would go astray with it.
fn skewed(node: &Node) -> Option<(String, NodeId)> {
    let core = node.core();
    let (clock, others) = (core.leader_clock.as_ref()?, core.others.as_ref()?);
    let skew = clock.check_skew(&others.clocks, node.max_clock_skew).err()?;
    let successor = others.on_time(&skew, node.clock.monotonic())?;
    Some((skew.to_string(), successor))
}

/// A leader with a partition that stays unwell takes no writes for it and has no snapshot for anybody: who is further leads.
fn unwell(node: &Node, lasting: &BTreeMap<PartitionId, Option<PartitionOffset>>) -> Option<(String, NodeId)> {
    if lasting.is_empty() {
        return None;
    }
    let successor = node.core().others.as_ref()?.further_than(lasting)?;
    let partitions: Vec<String> = lasting.keys().map(ToString::to_string).collect();
    Some((format!("partitions {} are unwell here", partitions.join(", ")), successor))
}

impl Others {
    /// The voter whose clock is where most are, and of those the one whose log is longest.
    fn on_time(&self, skew: &ClockSkew, now: Duration) -> Option<NodeId> {
        self.successor(|voter| self.clocks.is_near(voter, skew.median, now, skew.max_skew))
    }

    /// The voter that has more of all these partitions, and of those the one whose log is longest.
    fn further_than(&self, unwell: &BTreeMap<PartitionId, Option<PartitionOffset>>) -> Option<NodeId> {
        self.successor(|node| {
            let applied = self.applied.get(&node);
            let has = |partition| applied.and_then(|applied| applied.get(partition)).copied();
            unwell.iter().all(|(partition, offset)| has(partition) > *offset)
        })
    }
}

#[cfg(test)]
mod tests {
    use gapless_consensus::Members;
    use gapless_types::{LogIndex, MachineVersion, NamespaceId, PartitionIndex};

    use super::*;
    use crate::log_time::LogTime;
    use crate::reports::Report;
    use crate::watermarks::Reach;

    fn members(nodes: &[NodeId]) -> Members {
        Members::voting(nodes.iter().map(|node| (*node, format!("node-{node}")))).unwrap()
    }

    #[test]
    fn who_takes_over_from_a_skewed_leader_is_not_skewed_itself() {
        let nodes = [1, 2, 3, 4, 5].map(NodeId::new);
        let mut others = Others::new(nodes[3], &members(&nodes));
        let second = Duration::from_secs(1);
        // Of 4 and 5 the clocks are wrong; and 5 has the longest log of all, 3 that of those who are on time.
        for (node, wall, durable) in [(1, 100, 5), (2, 101, 6), (3, 99, 7), (4, 900, 8), (5, 901, 9)] {
            let (from, durable) = (NodeId::new(node), Some(LogIndex::new(durable)));
            let (wall, known_version) = (wall * second, MachineVersion::FIRST);
            others.take_in(&Report { from, wall, known_version, durable, partitions: Vec::new() }, second);
        }
        let time = |seconds: u64| LogTime::from_millis(seconds * 1000).unwrap();
        let max_skew = 10 * second;
        let skew = ClockSkew { own: time(900), median: time(101), skew: 799 * second, max_skew };
        assert_eq!(others.on_time(&skew, second), Some(nodes[2]));
        assert_eq!(others.on_time(&skew, 1000 * second), None, "nobody has told for long");
    }

    #[test]
    fn who_has_more_of_everything_that_is_unwell_is_the_successor() {
        let partition =
            |index| PartitionId { namespace: NamespaceId::new(16), index: PartitionIndex::new(index) };
        let offset = |offset| PartitionOffset::new(offset).unwrap();
        let nodes = [1, 2, 3].map(NodeId::new);
        let mut others = Others::new(nodes[0], &members(&nodes));
        let mut report = |from: usize, durable, applied: [u64; 2]| {
            let reach = |(index, applied): (u16, u64)| {
                (partition(index), Reach { offset: offset(applied), index: LogIndex::new(9) })
            };
            let partitions = (0..).zip(applied).map(reach).collect();
            let durable = Some(LogIndex::new(durable));
            let (wall, known_version) = (Duration::ZERO, MachineVersion::FIRST);
            let report = Report { from: nodes[from], wall, known_version, durable, partitions };
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
