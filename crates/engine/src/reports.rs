//! What nodes tell the leader: how far they are, and what their clocks say.
//!
//! A report is cumulative and may be lost, repeated or late: the next one says it all again. The leader keeps from it who has what
//! (the acknowledgement tracker), which holds the cut of the replicated log, and whether its own clock is where the others' are.
//!
//! Must not know: how a report travels, what was applied.

mod stepping_back;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use gapless_consensus::{Leader, Members, NodeId};
use gapless_types::{LogIndex, MachineVersion, PartitionId, PartitionOffset};

use crate::acknowledgements::{Acknowledgements, Quorum, Rule};
use crate::admission::Backlog;
use crate::limits::MAX_PACE_SAMPLES;
use crate::log_time::VoterClocks;
use crate::node::{Core, Node};
use crate::proposing::Request;
use crate::watermarks::Reach;
use stepping_back::SteppingBack;

/// What a node tells the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Who tells.
    pub from: NodeId,
    /// Its clock: time since 1970.
    pub wall: Duration,
    /// The newest machine version that its program knows; [`MachineVersion::FIRST`] for one that does not tell.
    pub known_version: MachineVersion,
    /// The replicated log is on stable storage there up to here.
    pub durable: Option<LogIndex>,
    /// The last outcome of every partition there.
    pub partitions: Vec<(PartitionId, Reach)>,
}

/// How reports travel.
pub trait Peers: Send + Sync + 'static {
    /// Gives a report to the node that leads. Nobody minds if it is lost.
    fn report(&self, to: Leader, report: Report) -> BoxFuture<'static, ()>;
}

/// For a node without others.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPeers;

impl Peers for NoPeers {
    fn report(&self, _to: Leader, _report: Report) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }
}

/// What a leader knows of the others.
#[derive(Debug)]
pub(crate) struct Others {
    me: NodeId,
    /// Everybody, those who learn included: nothing that one of them still needs is cut off the log.
    members: Vec<NodeId>,
    voters: Vec<NodeId>,
    tracker: Acknowledgements,
    clocks: VoterClocks,
    durable: BTreeMap<NodeId, LogIndex>,
    /// The newest machine version that each of them knows, as it has told last.
    known_versions: BTreeMap<NodeId, MachineVersion>,
    /// The last outcomes that each of them has told of.
    applied: BTreeMap<NodeId, BTreeMap<PartitionId, PartitionOffset>>,
}

impl Others {
    /// This node begins to lead these members.
    pub(crate) fn new(me: NodeId, members: &Members) -> Self {
        let voters: Vec<NodeId> = members.all_voters().into_iter().collect();
        Self {
            me,
            members: members.addresses.keys().copied().collect(),
            clocks: VoterClocks::new(voters.iter().copied()),
            voters,
            tracker: Acknowledgements::default(),
            durable: BTreeMap::new(),
            known_versions: BTreeMap::new(),
            applied: BTreeMap::new(),
        }
    }

    /// The membership is another one. What is known of those who stay is kept.
    fn set_members(&mut self, members: &Members) {
        self.members = members.addresses.keys().copied().collect();
        self.voters = members.all_voters().into_iter().collect();
        self.clocks.set_voters(self.voters.iter().copied());
        self.durable.retain(|node, _| members.addresses.contains_key(node));
        self.known_versions.retain(|node, _| members.addresses.contains_key(node));
        self.applied.retain(|node, _| self.voters.contains(node));
    }

    fn register(&mut self, partition: PartitionId) {
        let quorum = Quorum { members: self.voters.iter().copied().collect(), rule: Rule::Majority };
        self.tracker.register(partition, quorum);
    }

    /// Something was dispatched to a partition.
    pub(crate) fn dispatched(&mut self, partition: PartitionId, reach: Reach) {
        self.tracker.durable(reach.index);
        if self.tracker.min_required(partition).is_err() {
            self.register(partition);
        }
        self.tracker.append(partition, reach.offset, reach.index).expect("it is registered");
    }

    /// A partition is gone.
    pub(crate) fn dropped(&mut self, partition: PartitionId) {
        let _ = self.tracker.remove(partition);
    }

    /// This node has applied so far.
    pub(crate) fn applied(&mut self, partition: PartitionId, reach: Reach) {
        let _ = self.tracker.applied_through(partition, reach.offset);
        let _ = self.tracker.acknowledge_through(partition, reach.offset, reach.index, self.me);
    }

    fn take_in(&mut self, report: &Report, now: Duration) {
        self.clocks.read(report.from, report.wall, now);
        if let Some(durable) = report.durable.filter(|_| self.members.contains(&report.from)) {
            let known = self.durable.entry(report.from).or_insert(durable);
            *known = durable.max(*known);
        }
        // As it is told: whoever was restarted with an older program knows less.
        if self.members.contains(&report.from) {
            self.known_versions.insert(report.from, report.known_version);
        }
        for (partition, reach) in &report.partitions {
            // One that is ahead, or of a partition that is gone, says nothing that counts.
            let _ = self.tracker.acknowledge_through(*partition, reach.offset, reach.index, report.from);
        }
        self.tracker.release_finished();
        if report.from != self.me && self.voters.contains(&report.from) {
            let applied = report.partitions.iter().map(|(partition, reach)| (*partition, reach.offset));
            self.applied.insert(report.from, applied.collect());
        }
    }

    /// The lowest entry that is not on enough nodes, or not applied here.
    pub(crate) fn min_required(&self) -> LogIndex {
        self.tracker.marks(LogIndex::FIRST).min_required
    }

    /// The newest machine version that this node knows, which is `own`, and then each of the other members; none for one that has told
    /// nothing.
    pub(crate) fn known_versions(
        &self,
        own: MachineVersion,
    ) -> impl Iterator<Item = Option<MachineVersion>> + use<'_> {
        let others = self.members.iter().filter(|node| **node != self.me);
        std::iter::once(Some(own)).chain(others.map(|node| self.known_versions.get(node).copied()))
    }

    /// The first entry that each of the other members has not got, as far as it has told.
    pub(crate) fn missing(&self) -> Vec<(NodeId, LogIndex)> {
        let others = self.members.iter().filter(|node| **node != self.me);
        let missing = |node: &NodeId| {
            let has = self.durable.get(node).copied();
            (*node, has.map_or(LogIndex::FIRST, |has| has.next().unwrap_or(has)))
        };
        others.map(missing).collect()
    }

    /// The voter whose log is longest among those that are fit to lead.
    fn successor(&self, is_fit: impl Fn(NodeId) -> bool) -> Option<NodeId> {
        let fit = |(node, _): &(NodeId, LogIndex)| self.voters.contains(node) && is_fit(*node);
        self.missing().into_iter().filter(fit).max_by_key(|(_, missing)| *missing).map(|(node, _)| node)
    }
}

impl Core {
    /// What a leader among several members keeps of the others; nothing for one that is alone.
    pub(crate) fn begin_to_lead(&mut self, me: NodeId, members: &Members) {
        self.others = (members.addresses.len() > 1).then(|| Others::new(me, members));
    }

    /// The members are others from now on. A leader that was alone begins to keep something of those who came.
    pub(crate) fn change_members(
        &mut self,
        me: NodeId,
        members: &Members,
        partitions: impl IntoIterator<Item = PartitionId>,
    ) {
        match &mut self.others {
            Some(others) => others.set_members(members),
            None if self.leader_clock.is_some() => self.begin_to_lead(me, members),
            None => {}
        }
        if let Some(others) = &mut self.others {
            for partition in partitions {
                others.register(partition);
            }
        }
    }
}

/// Tells the leader, until the node closes.
pub(crate) async fn run(node: Arc<Node>, peers: Arc<dyn Peers>, interval: Duration) {
    let mut closing = node.closing.subscribe();
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut pace, mut stuck, mut stepping_back) =
        (Pace::default(), BTreeSet::new(), SteppingBack::default());
    loop {
        tokio::select! {
            biased;
            _ = closing.wait_for(|closing| *closing) => return,
            _ = ticks.tick() => {}
        }
        report_backlogs(&node, &mut pace, &mut stuck);
        let leadership = node.replicator().leadership().borrow().clone();
        let report = report_of(&node);
        match leadership.leader {
            Some(_) if leadership.is_self => {
                receive(&node, &report);
                raise_if_all_know(&node);
                stepping_back.look(&node).await;
            }
            Some(leader) => peers.report(leader, report).await,
            None => {}
        }
    }
}

/// Has the machine version raised once every member has told that it knows a newer one.
fn raise_if_all_know(node: &Node) {
    if node.may_raise_to().is_some() {
        // If there is no room now, there is at another look.
        let _ = node.requests().try_send(Request::Raise);
    }
}

/// Tells admission how far partitions and the node are behind.
fn report_backlogs(node: &Node, pace: &mut Pace, stuck: &mut BTreeSet<PartitionId>) {
    let progress = *node.replicator().progress().borrow();
    node.admission.report_node(pace.backlog(progress.appended, progress.dispatched, node.clock.monotonic()));
    let dispatched = node.dispatched.borrow().map_or(0, LogIndex::get);
    for slot in node.all_slots() {
        let oldest = slot.backlog().waiting_since;
        let through = node.core().watermarks.applied_through(slot.id).map_or(0, LogIndex::get);
        node.admission.report(slot.id, Backlog { oldest, lag: dispatched.saturating_sub(through) });
        tell_if_stuck(node, slot.id, oldest, stuck);
    }
}

/// Says when a partition gets stuck, and when it moves again.
fn tell_if_stuck(
    node: &Node,
    partition: PartitionId,
    oldest: Option<Duration>,
    stuck: &mut BTreeSet<PartitionId>,
) {
    let limit = node.admission.limits().frozen_age;
    let is_stuck = oldest.is_some_and(|oldest| node.clock.monotonic().saturating_sub(oldest) > limit);
    match (is_stuck, stuck.contains(&partition)) {
        (true, false) => {
            stuck.insert(partition);
            node.alarm(format!(
                "partition {partition} is stuck: what it should apply waits for over {limit:?}"
            ));
        }
        (false, true) => {
            stuck.remove(&partition);
            tracing::info!("partition {partition} moves again");
        }
        _ => {}
    }
}

/// How far the log had grown when, as far as that is not dispatched: tells how old the oldest entry is that is not, up to the time
/// between two looks.
#[derive(Debug, Default)]
struct Pace(VecDeque<(LogIndex, Duration)>);

impl Pace {
    fn backlog(
        &mut self,
        appended: Option<LogIndex>,
        dispatched: Option<LogIndex>,
        now: Duration,
    ) -> Backlog {
        // A suffix that was never committed may have become void.
        self.0.retain(|(index, _)| Some(*index) > dispatched && Some(*index) <= appended);
        let grown = appended.filter(|appended| self.0.back().is_none_or(|(last, _)| appended > last));
        if let Some(appended) = grown.filter(|appended| Some(*appended) > dispatched) {
            // Beyond so many the newest stand for each other, and are taken to be older than they are.
            let is_full = self.0.len() >= MAX_PACE_SAMPLES;
            match self.0.back_mut().filter(|_| is_full) {
                Some(last) => last.0 = appended,
                None => self.0.push_back((appended, now)),
            }
        }
        let count = |index: Option<LogIndex>| index.map_or(0, |index| index.get() + 1);
        Backlog {
            oldest: self.0.front().map(|(_, since)| *since),
            lag: count(appended).saturating_sub(count(dispatched)),
        }
    }
}

fn report_of(node: &Node) -> Report {
    let core = node.core();
    let reach = |marks: &crate::watermarks::Marks| {
        Some(Reach { offset: marks.applied?, index: marks.applied_index? })
    };
    let partitions = core.watermarks.all().filter_map(|(id, _, marks)| Some((id, reach(&marks)?))).collect();
    drop(core);
    let durable = node.replicator().progress().borrow().durable;
    let (wall, known_version) = (node.clock.wall(), node.known_version);
    Report { from: node.id, wall, known_version, durable, partitions }
}

/// Takes in what a node tells. Nobody but a leader keeps it.
pub(crate) fn receive(node: &Node, report: &Report) {
    let now = node.clock.monotonic();
    if let Some(others) = &mut node.core().others {
        others.take_in(report, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_knows_what_it_told_last_and_strangers_do_not_count() {
        let [me, voter, learner, stranger] = [1, 2, 3, 9].map(NodeId::new);
        let mut members = Members::voting([me, voter].map(|node| (node, format!("node-{node}")))).unwrap();
        members.addresses.insert(learner, "node-3".to_owned());
        let mut others = Others::new(me, &members);
        let own = MachineVersion(7);
        let known = |others: &Others| {
            others.known_versions(own).map(|known| known.map_or(0, |known| known.0)).collect::<Vec<_>>()
        };
        let tell = |others: &mut Others, from, version| {
            let (wall, known_version) = (Duration::ZERO, MachineVersion(version));
            let report = Report { from, wall, known_version, durable: None, partitions: Vec::new() };
            others.take_in(&report, Duration::ZERO);
        };
        assert_eq!(known(&others), [7, 0, 0], "nobody else has told");
        for (from, version) in [(voter, 3), (learner, 2), (stranger, 1), (voter, 2)] {
            tell(&mut others, from, version);
        }
        assert_eq!(known(&others), [7, 2, 2], "one went back to an older program");
        members.addresses.remove(&learner);
        others.set_members(&members);
        assert_eq!(known(&others), [7, 2]);
        members.addresses.insert(learner, "node-3".to_owned());
        others.set_members(&members);
        assert_eq!(known(&others), [7, 2, 0], "who comes again has told nothing");
    }

    #[test]
    fn the_oldest_entry_that_is_not_dispatched_is_as_old_as_the_look_that_found_it() {
        let mut pace = Pace::default();
        let index = |value| Some(LogIndex::new(value));
        let seconds = Duration::from_secs;
        assert_eq!(pace.backlog(None, None, seconds(1)), Backlog::default());
        assert_eq!(pace.backlog(index(4), index(4), seconds(2)), Backlog::default());
        let behind = |oldest, lag| Backlog { oldest: Some(seconds(oldest)), lag };
        assert_eq!(pace.backlog(index(9), index(4), seconds(3)), behind(3, 5));
        assert_eq!(pace.backlog(index(12), index(4), seconds(5)), behind(3, 8));
        assert_eq!(
            pace.backlog(index(12), index(9), seconds(6)),
            behind(5, 3),
            "those of the first look are done"
        );
        assert_eq!(pace.backlog(index(10), index(9), seconds(7)), behind(7, 1), "a suffix became void");
        assert_eq!(pace.backlog(index(10), index(10), seconds(8)), Backlog::default());
        for second in 10..1000 {
            assert_eq!(pace.backlog(index(second + 1), index(10), seconds(second)).oldest, Some(seconds(10)));
        }
        assert!(pace.0.len() <= MAX_PACE_SAMPLES);
    }
}
