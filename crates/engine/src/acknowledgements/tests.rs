//! The tracker against a model with one entry per offset, and the cases that the rule is made of.

use std::collections::BTreeMap;

use gapless_types::{NamespaceId, PartitionIndex};
use proptest::prelude::*;

use super::*;

const P: PartitionId = PartitionId { namespace: NamespaceId::new(1), index: PartitionIndex::new(0) };

fn offset(value: u64) -> PartitionOffset {
    PartitionOffset::new(value).unwrap()
}

fn index(value: u64) -> LogIndex {
    LogIndex::new(value)
}

fn node(id: u64) -> NodeId {
    NodeId::new(id)
}

fn quorum(members: impl IntoIterator<Item = u64>, rule: Rule) -> Quorum {
    Quorum { members: members.into_iter().map(NodeId::new).collect(), rule }
}

#[test]
fn an_acknowledgement_ahead_of_the_log_is_refused_and_a_stale_one_does_not_count() {
    let mut tracker = Acknowledgements::default();
    tracker.register(P, quorum(1..=3, Rule::Majority));
    tracker.append(P, offset(5), index(20)).unwrap();
    let ahead = AckError::AckAhead { partition: P, offset: offset(5), appended: index(20), given: index(21) };
    assert_eq!(tracker.acknowledge(P, offset(5), index(21), node(1)), Err(ahead));
    assert_eq!(tracker.acknowledge(P, offset(5), index(19), node(1)).unwrap().count, 0);
    assert_eq!(tracker.acknowledge(P, offset(5), index(20), node(1)).unwrap().count, 1);
    assert_eq!(tracker.acknowledge(P, offset(5), index(20), node(1)).unwrap().count, 1);
}

#[test]
fn appending_again_at_a_higher_index_starts_over() {
    let mut tracker = Acknowledgements::default();
    tracker.register(P, quorum(1..=3, Rule::Majority));
    tracker.append(P, offset(1), index(10)).unwrap();
    tracker.acknowledge(P, offset(1), index(10), node(1)).unwrap();
    tracker.acknowledge(P, offset(1), index(10), node(2)).unwrap();
    tracker.applied(P, offset(1)).unwrap();
    tracker.append(P, offset(1), index(11)).unwrap();
    let acknowledged = tracker.acknowledge(P, offset(1), index(11), node(3)).unwrap();
    assert_eq!(acknowledged, Acknowledged { count: 1, satisfied: false, newly: false, index: index(11) });
    assert_eq!(tracker.min_required(P), Ok(index(11)));
}

#[test]
fn registering_again_keeps_what_is_known_and_counts_members_only() {
    let mut tracker = Acknowledgements::default();
    tracker.register(P, quorum(1..=3, Rule::Majority));
    tracker.append(P, offset(1), index(1)).unwrap();
    tracker.append(P, offset(2), index(2)).unwrap();
    tracker.acknowledge(P, offset(1), index(1), node(1)).unwrap();
    tracker.acknowledge(P, offset(1), index(1), node(2)).unwrap();
    tracker.acknowledge(P, offset(2), index(2), node(2)).unwrap();
    assert_eq!(tracker.register(P, quorum(2..=6, Rule::Majority)), vec![]);
    let again = tracker.acknowledge(P, offset(1), index(1), node(3)).unwrap();
    assert_eq!(
        (again.count, again.satisfied, again.newly),
        (2, true, false),
        "what was decided stays decided"
    );
    let satisfied = tracker.register(P, quorum(2..=6, Rule::Threshold(1)));
    assert_eq!(satisfied, vec![offset(2)..=offset(2)]);
}

#[test]
fn an_unknown_partition_or_offset_is_named() {
    let mut tracker = Acknowledgements::default();
    let missing = AckError::PartitionMissing { partition: P };
    assert_eq!(tracker.min_required(P), Err(missing));
    assert_eq!(tracker.remove(P), Err(missing));
    assert_eq!(tracker.release(P, offset(1)), Err(missing));
    assert_eq!(tracker.applied_through(P, offset(1)), Err(missing));
    tracker.register(P, quorum([], Rule::Majority));
    let missing = AckError::EntryMissing { partition: P, offset: offset(1) };
    assert_eq!(tracker.release(P, offset(1)), Err(missing));
    assert_eq!(tracker.acknowledge_through(P, offset(1), index(1), node(1)), Err(missing));
    assert_eq!(tracker.remove(P), Ok(()));
    assert_eq!(tracker.marks(index(1)).min_required, index(1));
}

#[test]
fn a_released_entry_is_not_needed() {
    let mut tracker = Acknowledgements::default();
    tracker.register(P, quorum(1..=3, Rule::Majority));
    for at in 1..=3 {
        tracker.append(P, offset(at), index(at)).unwrap();
    }
    tracker.durable(index(3));
    tracker.release(P, offset(1)).unwrap();
    assert_eq!(tracker.min_required(P), Ok(index(2)));
    tracker.release(P, offset(2)).unwrap();
    tracker.release(P, offset(3)).unwrap();
    assert_eq!(tracker.min_required(P), Ok(index(4)));
}

#[test]
fn a_million_offsets_cost_a_handful_of_ranges() {
    let mut tracker = Acknowledgements::default();
    tracker.register(P, quorum(1..=3, Rule::Majority));
    for at in 1..=1_000_000 {
        tracker.append(P, offset(at), index(at + 5)).unwrap();
    }
    for replica in 1..=2 {
        tracker.acknowledge_through(P, offset(900_000), index(900_005), node(replica)).unwrap();
    }
    tracker.applied_through(P, offset(800_000)).unwrap();
    assert_eq!(tracker.min_required(P), Ok(index(800_006)));
    assert!(tracker.partitions[&P].pieces() <= 6, "{} pieces", tracker.partitions[&P].pieces());
    tracker.release_finished();
    assert_eq!(tracker.min_required(P), Ok(index(800_006)));
    assert!(tracker.acknowledge(P, offset(800_000), index(800_005), node(3)).is_err());
    assert!(tracker.acknowledge_through(P, offset(1_000_000), index(1_000_005), node(3)).is_ok());
}

/// One entry per offset: what the rule says, word by word.
#[derive(Default)]
struct Model {
    members: BTreeSet<u64>,
    needed: usize,
    durable: u64,
    entries: BTreeMap<u64, ModelEntry>,
}

#[derive(Default, Clone)]
struct ModelEntry {
    index: u64,
    acks: BTreeSet<u64>,
    satisfied: bool,
    applied: bool,
}

impl Model {
    fn settle(&mut self) {
        for entry in self.entries.values_mut() {
            entry.acks.retain(|replica| self.members.contains(replica));
            entry.satisfied |= entry.acks.len() >= self.needed;
        }
    }

    fn min_required(&self) -> u64 {
        let unfinished = self.entries.values().filter(|entry| !(entry.satisfied && entry.applied));
        unfinished.map(|entry| entry.index).min().unwrap_or(self.durable + 1)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Register(u64, Option<usize>),
    Append(u64, u64),
    Acknowledge(u64, u64, u64),
    AcknowledgeThrough(u64, u64, u64),
    Applied(u64),
    AppliedThrough(u64),
    Durable(u64),
    TruncateFrom(u64),
    Release(u64),
    ReleaseFinished,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (offsets, indexes, replicas) = (1..12_u64, 0..24_u64, 1..5_u64);
    let step = prop_oneof![
        1 => (0..4_u64, proptest::option::of(0..4_usize)).prop_map(|(members, threshold)| Step::Register(members, threshold)),
        8 => (offsets.clone(), indexes.clone()).prop_map(|(offset, index)| Step::Append(offset, index)),
        6 => (offsets.clone(), 0..3_u64, replicas.clone()).prop_map(|(offset, behind, replica)| Step::Acknowledge(offset, behind, replica)),
        4 => (offsets.clone(), indexes.clone(), replicas).prop_map(|(offset, index, replica)| Step::AcknowledgeThrough(offset, index, replica)),
        3 => offsets.clone().prop_map(Step::Applied),
        2 => offsets.clone().prop_map(Step::AppliedThrough),
        1 => indexes.clone().prop_map(Step::Durable),
        1 => indexes.prop_map(Step::TruncateFrom),
        1 => offsets.prop_map(Step::Release),
        1 => Just(Step::ReleaseFinished),
    ];
    proptest::collection::vec(step, 1..60)
}

fn do_both(tracker: &mut Acknowledgements, model: &mut Model, step: &Step) {
    match *step {
        Step::Register(members, threshold) => {
            let rule = threshold.map_or(Rule::Majority, Rule::Threshold);
            tracker.register(P, quorum(1..=members, rule));
            model.members = (1..=members).collect();
            let majority = model.members.len() / 2 + 1;
            model.needed = if members == 0 { 0 } else { threshold.unwrap_or(majority) };
        }
        Step::Append(at, to) => {
            tracker.append(P, offset(at), index(to)).unwrap();
            if model.entries.get(&at).is_none_or(|entry| entry.index < to) {
                model.entries.insert(at, ModelEntry { index: to, ..ModelEntry::default() });
            }
        }
        Step::Acknowledge(at, behind, replica) => {
            let given = model.entries.get(&at).map_or(0, |entry| entry.index.saturating_sub(behind));
            let result = tracker.acknowledge(P, offset(at), index(given), node(replica));
            assert_eq!(result.is_ok(), model.entries.contains_key(&at));
            if let Some(entry) = model.entries.get_mut(&at)
                && entry.index == given
            {
                entry.acks.insert(replica);
            }
        }
        Step::AcknowledgeThrough(at, given, replica) => {
            let accepted = model.entries.get(&at).is_some_and(|entry| entry.index >= given);
            let result = tracker.acknowledge_through(P, offset(at), index(given), node(replica));
            assert_eq!(result.is_ok(), accepted);
            for entry in model.entries.range_mut(..=at).map(|(_, entry)| entry) {
                if accepted && entry.index <= given {
                    entry.acks.insert(replica);
                }
            }
        }
        Step::Applied(at) => {
            let result = tracker.applied(P, offset(at));
            assert_eq!(result.is_ok(), model.entries.contains_key(&at));
            model.entries.entry(at).and_modify(|entry| entry.applied = true);
        }
        Step::AppliedThrough(at) => {
            tracker.applied_through(P, offset(at)).unwrap();
            model.entries.range_mut(..=at).for_each(|(_, entry)| entry.applied = true);
        }
        Step::Durable(to) => {
            model.durable = model.durable.max(to);
            assert_eq!(tracker.durable(index(to)), index(model.durable));
        }
        Step::TruncateFrom(from) => {
            tracker.truncate_from(index(from));
            model.durable = model.durable.min(from.saturating_sub(1));
            model.entries.retain(|_, entry| entry.index < from);
        }
        Step::Release(at) => {
            assert_eq!(tracker.release(P, offset(at)).is_ok(), model.entries.remove(&at).is_some());
        }
        Step::ReleaseFinished => {
            tracker.release_finished();
            model.entries.retain(|_, entry| !(entry.satisfied && entry.applied));
        }
    }
    model.settle();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn ranges_say_what_one_entry_per_offset_would(steps in steps()) {
        let mut tracker = Acknowledgements::default();
        let mut model = Model { members: (1..=3).collect(), needed: 2, ..Model::default() };
        tracker.register(P, quorum(1..=3, Rule::Majority));
        for step in steps {
            do_both(&mut tracker, &mut model, &step);
            for (&at, entry) in &model.entries {
                let tracked = &tracker.partitions[&P];
                prop_assert_eq!(tracked.index_of(offset(at)), Some(index(entry.index)));
                prop_assert_eq!(tracked.status(offset(at)), (entry.acks.len(), entry.satisfied));
            }
            let min_required = model.min_required();
            prop_assert_eq!(tracker.min_required(P), Ok(index(min_required)), "{:?}", step);
            let marks = tracker.marks(index(1));
            prop_assert_eq!(marks.truncate_upto, index(model.durable.min(min_required.saturating_sub(1))));
            prop_assert!(marks.truncate_upto < marks.min_required || min_required == 0);
        }
    }
}
