//! What must be true: one file for each invariant, by its name. Some look at every step, some fold the outcomes of partitions as they
//! are read from nodes.
//!
//! | name | looks at |
//! |---|---|
//! | NUM-1, NUM-2, IDEM-1 | every outcome of every partition, once, in order |
//! | NUM-3 | every outcome and all rows that any node shows |
//! | ACK-1 | what clients were told, against what stands there |
//! | WM-1 with LOG-2, TRUNC-1, ISO-1, one leader per term | every node, after every step |
//! | LOG-1 | every partition at rest, at the end: computed anew from its log |
//! | ORD-1 | every effect that any node shows of a projection |
//! | FENCE-1 | what workers were granted, and what they committed |
//! | LIVE | whether everything goes on once there is no trouble any more |
//!
//! Must not know: how trouble is made, what clients intend.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gapless_consensus::{NodeId, Term};
use gapless_engine::retention::Domain;
use gapless_engine::{PartitionState, projection};
use gapless_partition::{Direction, Outcome, OutcomeKind, StoredOutcome, View};
use gapless_types::{IdempotencyKey, PartitionId, PartitionOffset};

use self::ack_1::{Ack1, IntentId};
use self::election::Election;
use self::fence_1::Fence1;
use self::idem_1::{Idem1, Used};
use self::num_1::Num1;
use self::num_3::{Num3, Seen};
use self::ord_1::{Ord1, Wrong};
use self::wm_1::Wm1;
use crate::findings::Findings;
use crate::sometimes::{Situation, Sometimes};
use crate::world::life::Life;
use crate::world::{Running, World};

pub(crate) mod ack_1;
mod election;
mod fence_1;
mod idem_1;
pub(crate) mod iso_1;
pub(crate) mod log_1;
mod num_1;
mod num_2;
mod num_3;
mod ord_1;
mod trunc_1;
mod wm_1;

/// All checkers of a run.
pub struct Checkers {
    state: Mutex<State>,
    findings: Findings,
    sometimes: Sometimes,
}

#[derive(Default)]
struct State {
    num_1: Num1,
    num_3: Num3,
    idem_1: Idem1,
    ack_1: Ack1,
    wm_1: Wm1,
    election: Election,
    ord_1: Ord1,
    fence_1: Fence1,
    /// Up to where each life was read.
    read: BTreeMap<(NodeId, PartitionId), (u64, PartitionOffset)>,
}

impl Checkers {
    pub(crate) fn new(world: &World) -> Self {
        Self { state: Mutex::default(), findings: world.findings.clone(), sometimes: world.sometimes.clone() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, invariant: &'static str, result: Result<(), String>) {
        if let Err(what) = result {
            self.findings.add(invariant, what);
        }
    }

    /// Looks at all nodes, after a step.
    pub(crate) fn look(&self, world: &World) {
        for Running { life, engine } in world.running() {
            let node = life.node;
            let leadership = engine.replicator().leadership().borrow().clone();
            let progress = *engine.replicator().progress().borrow();
            let partitions = engine.partitions();
            let has_installed = engine.replicator().statistics().snapshots_installed > 0;
            let mut state = self.state();
            self.tell("ELECTION", state.election.look(node, &leadership));
            self.tell("WM-1", state.wm_1.look_at_log(node, life.number, progress));
            for report in &partitions {
                self.tell("WM-1", state.wm_1.look(node, life.number, report));
                self.saw_partition(world, node, report);
            }
            drop(state);
            self.tell("TRUNC-1", trunc_1::check(node, progress, has_installed, &partitions));
            if progress.first_kept.is_some_and(|first| first.get() > 1) {
                self.sometimes.saw(Situation::LogCut);
            }
            self.saw_alarms(&engine);
            if leadership.stopped.is_some() {
                self.sometimes.saw(Situation::NodeStopped);
            }
            let broken = world.broken_alone(node);
            if let Some(broken) = broken {
                self.tell("ISO-1", iso_1::check(node, &broken, &partitions));
            }
        }
    }

    fn saw_alarms(&self, engine: &gapless_engine::Engine) {
        if engine.alarms().iter().any(|alarm| alarm.contains("was installed anew")) {
            self.sometimes.saw(Situation::Reinstalled);
        }
    }

    fn saw_partition(&self, world: &World, node: NodeId, report: &gapless_engine::PartitionReport) {
        if report.reopenings > 0 {
            self.sometimes.saw(Situation::PartitionReopened);
        }
        if report.detachments > 0 {
            self.sometimes.saw(Situation::PartitionDetached);
        }
        if let PartitionState::Quarantined(reason) = &report.state {
            match world.is_damaged(node) {
                true => self.sometimes.saw(Situation::DamageFound),
                false => {
                    let partition = report.partition;
                    self.findings
                        .add("LOG-1", format!("node {node}: partition {partition} is quarantined: {reason}"));
                }
            }
        }
    }

    /// The newest term in which somebody led.
    pub(crate) fn newest_term(&self) -> Option<Term> {
        self.state().election.newest()
    }

    /// Takes in everything that is new in a view of one life of a node.
    pub(crate) fn read(&self, life: &Life, view: &View, how: Reading) {
        let (node, number) = (life.node, life.number);
        let partition = view.partition();
        let window = view.schema().map_or(u64::MAX, |schema| schema.definition().idempotency.window_ms);
        let mut state = self.state();
        let from = match state.read.get(&(node, partition)) {
            Some((read, next)) if *read == number => *next,
            _ => PartitionOffset::FIRST,
        };
        match view.outcomes(from, usize::MAX, Direction::Forward) {
            Ok(outcomes) => {
                for outcome in &outcomes {
                    self.take_in(&mut state, node, partition, window, outcome);
                }
                if let Some(next) = outcomes.last().and_then(|last| last.header().partition_offset.next()) {
                    state.read.insert((node, partition), (number, next));
                }
            }
            // Damage may show when it is read. It is named, and nothing wrong is said.
            Err(_) if !life.is_on() => return,
            Err(_) if how.damaged => return self.sometimes.saw(Situation::DamageFound),
            // Its log could not be written a moment ago, and the partition is about to be opened again: nothing wrong is said.
            Err(fault) if fault.passes() && !how.settled => return,
            Err(error) => self.tell("LOG-1", Err(format!("node {node}, partition {partition}: {error}"))),
        }
        if how.all_rows {
            let compared = state.num_3.rows(node, view);
            // What cannot be read any more says nothing.
            if life.is_on() {
                self.tell("NUM-3", compared);
            }
        }
    }

    /// Takes in one outcome that a node showed.
    pub(crate) fn followed(&self, node: NodeId, partition: PartitionId, outcome: &StoredOutcome) {
        let mut state = self.state();
        // Whoever follows may be ahead of those who read.
        if outcome.header().partition_offset.get() <= state.num_3.known(partition) {
            let compared = state.num_3.outcome(node, partition, outcome).map(|_| ());
            self.tell("NUM-3", compared);
        }
    }

    fn take_in(
        &self,
        state: &mut State,
        node: NodeId,
        partition: PartitionId,
        window: u64,
        outcome: &StoredOutcome,
    ) {
        match state.num_3.outcome(node, partition, outcome) {
            Ok(Seen::Before) => return,
            Ok(Seen::New) => {}
            Err(what) => return self.tell("NUM-3", Err(what)),
        }
        let header = outcome.header();
        self.tell("NUM-1", state.num_1.fold(partition, &header));
        self.tell("NUM-2", num_2::check(&header));
        match state.idem_1.fold(partition, window, &header) {
            Ok(Used::Anew) => self.sometimes.saw(Situation::KeyExpired),
            Ok(Used::First | Used::Duplicate) => {}
            Err(what) => self.tell("IDEM-1", Err(what)),
        }
        self.tell("ACK-1", state.ack_1.fold(partition, &header));
    }

    /// Somebody is about to ask for a write the first time.
    pub(crate) fn ask(&self, intent: IntentId, key: IdempotencyKey) {
        self.state().ack_1.ask(intent, key);
    }

    /// Somebody was told an outcome.
    pub(crate) fn answer(&self, intent: IntentId, outcome: &Arc<Outcome>) {
        let mut state = self.state();
        match state.ack_1.answer(intent, outcome) {
            Ok(false) => self.sometimes.saw(Situation::DuplicateRecognized),
            Ok(true) => {
                let Outcome::Committed(committed) = &**outcome else { return };
                let stored = state.num_3.at(committed.partition, committed.partition_offset);
                if let Some(stored) = stored {
                    self.tell("ACK-1", state.ack_1.compare(intent, &stored.header()));
                }
            }
            Err(what) => self.tell("IDEM-1", Err(what)),
        }
    }

    /// The last place of a partition that anybody was told of so far.
    pub(crate) fn acknowledged(&self, partition: PartitionId) -> Option<PartitionOffset> {
        self.state().ack_1.acknowledged(partition)
    }

    /// Some place that somebody was told of.
    pub(crate) fn some_place(&self, number: u64) -> Option<(PartitionId, PartitionOffset)> {
        self.state().ack_1.some_place(number)
    }

    /// Somebody was granted a slot.
    pub(crate) fn granted(&self, domain: &Domain, slot: u64, token: u64) {
        self.state().fence_1.granted(domain, slot, token);
    }

    /// Whether somebody was told of a newer token of a slot.
    pub(crate) fn is_outdated(&self, domain: &Domain, slot: u64, token: u64) -> bool {
        self.state().fence_1.is_outdated(domain, slot, token)
    }

    /// Somebody was told that his commit counts.
    pub(crate) fn committed(&self, domain: &Domain, slot: u64, token: u64, was_outdated: bool) {
        self.tell("FENCE-1", Fence1::committed(domain, slot, token, was_outdated));
    }

    /// Takes in everything that a node shows of a domain.
    pub(crate) fn projected(&self, life: &Life, domain: &Domain, view: &projection::View, damaged: bool) {
        let looked = self.state().ord_1.look(life, domain, view);
        match looked {
            Ok(()) => {}
            Err(Wrong::Order(what)) => self.tell("ORD-1", Err(what)),
            // Damage may show when it is read. It is named, and nothing wrong is said.
            Err(Wrong::Unreadable(_)) if !life.is_on() => {}
            Err(Wrong::Unreadable(_)) if damaged => self.sometimes.saw(Situation::DamageFound),
            Err(Wrong::Unreadable(what)) => {
                self.tell("LOG-1", Err(format!("node {}, {domain:?}: {what}", life.node)));
            }
        }
    }

    /// At the end, when a domain shows everything up to an outcome: every event up to there has its slot.
    pub(crate) fn finish_projection(&self, domain: &Domain, last: PartitionOffset) {
        let state = self.state();
        let events = (1..=last.get()).filter_map(PartitionOffset::new).filter(|offset| {
            let stored = state.num_3.at(domain.partition, *offset);
            stored.is_some_and(|stored| stored.header().kind == OutcomeKind::Event)
        });
        self.tell("ORD-1", state.ord_1.finish(domain, events));
    }

    /// At the end, when everything that still exists was read: everything acknowledged was found, and stands in the right order.
    pub(crate) fn finish(&self, exists: impl Fn(PartitionId) -> bool) {
        let state = self.state();
        for (partition, offset, intent) in state.ack_1.not_found() {
            if exists(partition) {
                let what = format!(
                    "write {intent} was acknowledged at {offset} of partition {partition} and is nowhere"
                );
                self.findings.add("ACK-1", what);
            }
        }
        self.tell("ACK-1", state.ack_1.check_order());
    }

    /// Writes asked for, acknowledged as committed, and open; and outcomes that were read.
    pub(crate) fn counts(&self) -> Counts {
        let state = self.state();
        let (asked, committed) = state.ack_1.counts();
        Counts { asked, committed, open: state.ack_1.open(), outcomes: state.num_3.count() }
    }
}

/// How a view is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// Whether all rows are compared, too.
    pub(crate) all_rows: bool,
    /// Whether the disk below lied or rotted.
    pub(crate) damaged: bool,
    /// Whether all trouble is over, so that what cannot be read now never can.
    pub(crate) settled: bool,
}

/// How much happened in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Writes that somebody asked for.
    pub asked: usize,
    /// Of those, how many were acknowledged as committed.
    pub committed: usize,
    /// Of those, how many nobody knows the outcome of.
    pub open: usize,
    /// Outcomes that were read and checked.
    pub outcomes: usize,
}

impl std::fmt::Debug for Checkers {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Checkers").field("counts", &self.counts()).finish_non_exhaustive()
    }
}
