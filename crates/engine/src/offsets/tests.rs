//! Proposers and dispatchers against each other, with failures, unknown fates and changes of leader between them.

use std::collections::{HashMap, VecDeque};

use gapless_types::{LogIndex, NamespaceId, PartitionId, PartitionIndex, PartitionOffset};
use proptest::prelude::*;

use super::*;

fn partition(index: u16) -> PartitionId {
    PartitionId { namespace: NamespaceId::new(1), index: PartitionIndex::new(index) }
}

fn offset(value: u64) -> PartitionOffset {
    PartitionOffset::new(value).unwrap()
}

#[test]
fn a_record_that_is_not_next_is_dropped_and_consumes_nothing() {
    let mut dispatch = Dispatch::default();
    let p = partition(0);
    assert_eq!(dispatch.judge(LogIndex::new(1), p, offset(2)), Verdict::Drop { next: offset(1) });
    assert_eq!(dispatch.judge(LogIndex::new(2), p, offset(1)), Verdict::Deliver);
    assert_eq!(dispatch.judge(LogIndex::new(3), p, offset(1)), Verdict::Drop { next: offset(2) });
    assert_eq!(dispatch.judge(LogIndex::new(4), p, offset(2)), Verdict::Deliver);
    dispatch.close(p);
    assert_eq!(dispatch.judge(LogIndex::new(5), p, offset(3)), Verdict::Gone);
    assert_eq!(dispatch.next(p), None);
    dispatch.open(p, None);
    assert_eq!(dispatch.judge(LogIndex::new(6), p, offset(1)), Verdict::Deliver);
}

#[test]
fn nothing_is_reserved_before_the_first_entry_and_after_a_failure() {
    let (mut proposer, dispatch) = (Proposer::default(), Dispatch::default());
    let p = partition(0);
    assert_eq!(proposer.reserve(&dispatch, [p]), Err(NotNow::Following));
    assert_eq!(proposer.lead(), vec![]);
    let first = proposer.reserve(&dispatch, [p, partition(1), p]).unwrap();
    assert_eq!(first.offsets, [offset(1), offset(1), offset(2)]);
    let second = proposer.reserve(&dispatch, [p]).unwrap();
    assert_eq!(second.offsets, [offset(3)]);
    proposer.resolve(first.id, Fate::Failed);
    assert_eq!(proposer.reserve(&dispatch, [partition(1)]), Err(NotNow::Draining { in_flight: 1 }));
    proposer.resolve(second.id, Fate::Dropped);
    assert_eq!(proposer.reserve(&dispatch, [p]).unwrap().offsets, [offset(1)]);
}

#[test]
fn batches_in_flight_are_limited_and_a_partition_that_is_gone_is_named() {
    let (mut proposer, mut dispatch) = (Proposer::default(), Dispatch::default());
    proposer.lead();
    for _ in 0..crate::limits::MAX_BATCHES_IN_FLIGHT {
        assert!(proposer.reserve(&dispatch, [partition(0)]).is_ok());
    }
    assert_eq!(proposer.reserve(&dispatch, [partition(0)]), Err(NotNow::Full));
    assert_eq!(proposer.lead().len(), crate::limits::MAX_BATCHES_IN_FLIGHT);
    dispatch.close(partition(1));
    let gone = NotNow::Gone { partition: partition(1) };
    assert_eq!(proposer.reserve(&dispatch, [partition(0), partition(1)]), Err(gone));
    assert_eq!(
        proposer.reserve(&dispatch, [partition(0)]).unwrap().offsets,
        [offset(1)],
        "nothing was taken"
    );
}

/// A record as it travels: who proposed it, as what, expecting which offset.
#[derive(Clone, Debug)]
struct Proposed {
    node: usize,
    batch: BatchId,
    records: Vec<(PartitionId, PartitionOffset)>,
    /// How often something had gone wrong when it was proposed.
    troubles: usize,
}

/// Two nodes with one log. Proposals of a leader wait in its pipeline until they are committed in order, or lost.
#[derive(Default)]
struct World {
    leader: usize,
    proposers: [Proposer; 2],
    dispatch: [Dispatch; 2],
    pipeline: VecDeque<Proposed>,
    log: Vec<Proposed>,
    /// Batches and what their proposer was told.
    told: HashMap<(usize, BatchId), Fate>,
    proposed: Vec<(usize, BatchId)>,
    /// Failures and changes of leader so far.
    troubles: usize,
}

impl World {
    fn propose(&mut self, records: &[u16]) {
        let node = self.leader;
        let records: Vec<_> = records.iter().map(|index| partition(*index)).collect();
        let Ok(batch) = self.proposers[node].reserve(&self.dispatch[node], records.iter().copied()) else {
            return;
        };
        self.proposed.push((node, batch.id));
        let records = records.into_iter().zip(batch.offsets).collect();
        self.pipeline.push_back(Proposed { node, batch: batch.id, records, troubles: self.troubles });
    }

    /// The next proposal is committed: both nodes dispatch it, and its proposer is told.
    fn commit(&mut self) {
        let Some(proposed) = self.pipeline.pop_front() else { return };
        let index = LogIndex::new(self.log.len() as u64);
        self.log.push(proposed.clone());
        let verdicts = [0, 1].map(|node| judge(&mut self.dispatch[node], index, &proposed));
        assert_eq!(verdicts[0], verdicts[1], "NUM-3: every replica drops the same");
        let all = verdicts[0].iter().all(|verdict| *verdict == Verdict::Deliver);
        assert!(
            all || self.troubles > proposed.troubles,
            "nothing is dropped unless something went wrong since"
        );
        self.tell(proposed.node, proposed.batch, if all { Fate::Delivered } else { Fate::Dropped });
    }

    /// A proposal is lost; those behind it go on. Consensus does not do this to entries it took, but may refuse one.
    fn fail(&mut self, which: usize) {
        if let Some(proposed) = self.pipeline.remove(which) {
            self.troubles += 1;
            self.tell(proposed.node, proposed.batch, Fate::Failed);
        }
    }

    /// The other node leads. Some of what the old leader proposed survives, in order; the rest is lost and nobody is told.
    fn change_leader(&mut self, survive: usize) {
        self.troubles += 1;
        self.proposers[self.leader].step_down();
        for _ in 0..survive {
            self.commit();
        }
        self.pipeline.clear();
        self.leader = 1 - self.leader;
        for batch in self.proposers[self.leader].lead() {
            self.told.insert((self.leader, batch), Fate::Failed);
        }
    }

    fn tell(&mut self, node: usize, batch: BatchId, fate: Fate) {
        assert_eq!(self.told.insert((node, batch), fate), None, "a fate is told once");
        self.proposers[node].resolve(batch, fate);
    }

    /// Everything is over: what was delivered is dense, and every proposer knows what became of its batches.
    fn check(&mut self) {
        while !self.pipeline.is_empty() {
            self.commit();
        }
        self.change_leader(0);
        self.change_leader(0);
        let mut replay = Dispatch::default();
        let mut next: HashMap<PartitionId, u64> = HashMap::new();
        for (at, proposed) in self.log.iter().enumerate() {
            let verdicts = judge(&mut replay, LogIndex::new(at as u64), proposed);
            let delivered = verdicts.iter().all(|verdict| *verdict == Verdict::Deliver);
            let fate = if delivered { Fate::Delivered } else { Fate::Dropped };
            assert_eq!(self.told.get(&(proposed.node, proposed.batch)), Some(&fate), "the proposer knows");
            for ((partition, offset), verdict) in proposed.records.iter().zip(verdicts) {
                if verdict == Verdict::Deliver {
                    let last = next.entry(*partition).or_insert(0);
                    *last += 1;
                    assert_eq!(offset.get(), *last, "NUM-1: no offset twice, none left out");
                }
            }
        }
        for batch in &self.proposed {
            assert!(self.told.contains_key(batch), "{batch:?} has no fate");
        }
        // Liveness: with nothing in the way, what is proposed is delivered.
        self.propose(&[0, 1, 0]);
        self.propose(&[1]);
        let (node, last) = *self.proposed.last().unwrap();
        self.commit();
        self.commit();
        assert_eq!(self.told[&(node, last)], Fate::Delivered);
    }
}

fn judge(dispatch: &mut Dispatch, index: LogIndex, proposed: &Proposed) -> Vec<Verdict> {
    proposed
        .records
        .iter()
        .map(|(partition, expected)| dispatch.judge(index, *partition, *expected))
        .collect()
}

#[derive(Clone, Debug)]
enum Step {
    Propose(Vec<u16>),
    Commit,
    Fail(usize),
    ChangeLeader(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => proptest::collection::vec(0..3_u16, 1..5).prop_map(Step::Propose),
        5 => Just(Step::Commit),
        1 => (0..4_usize).prop_map(Step::Fail),
        1 => (0..4_usize).prop_map(Step::ChangeLeader),
    ];
    proptest::collection::vec(step, 1..80)
}

fn run(steps: &[Step]) -> World {
    let mut world = World::default();
    world.proposers[0].lead();
    for step in steps {
        match step {
            Step::Propose(records) => world.propose(records),
            Step::Commit => world.commit(),
            Step::Fail(which) => world.fail(*which),
            Step::ChangeLeader(survive) => world.change_leader(*survive),
        }
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_offset_is_used_twice_and_every_proposer_knows_what_became_of_its_records(steps in steps()) {
        run(&steps).check();
    }

    /// A node that starts again reads the log from before where its partitions stand, and delivers exactly the rest.
    #[test]
    fn a_node_that_starts_again_delivers_what_its_partitions_lack(steps in steps(), applied in proptest::collection::vec(0..30_usize, 3)) {
        let world = run(&steps);
        let mut whole = Dispatch::default();
        let mut delivered: HashMap<PartitionId, Vec<Resume>> = HashMap::new();
        for (at, proposed) in world.log.iter().enumerate() {
            let index = LogIndex::new(at as u64);
            for (record, verdict) in proposed.records.iter().zip(judge(&mut whole, index, proposed)) {
                if verdict == Verdict::Deliver {
                    delivered.entry(record.0).or_default().push(Resume { offset: record.1, index });
                }
            }
        }
        let mut again = Dispatch::default();
        for (number, applied) in applied.iter().enumerate() {
            let partition = partition(u16::try_from(number)?);
            let outcomes = delivered.entry(partition).or_default();
            let applied = (*applied).min(outcomes.len());
            again.open(partition, applied.checked_sub(1).map(|last| outcomes[last]));
            outcomes.drain(..applied);
        }
        for (at, proposed) in world.log.iter().enumerate() {
            let index = LogIndex::new(at as u64);
            for (record, verdict) in proposed.records.iter().zip(judge(&mut again, index, proposed)) {
                if verdict == Verdict::Deliver {
                    let rest = delivered.get_mut(&record.0).unwrap();
                    prop_assert_eq!(rest.remove(0), Resume { offset: record.1, index });
                }
            }
        }
        prop_assert!(delivered.values().all(Vec::is_empty));
    }
}
