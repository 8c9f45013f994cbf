//! A model of plain maps predicts every outcome of random writes and definitions, and everything that can be read afterwards,
//! whatever is checkpointed, crashed, rebuilt or evicted in between.
//!
//! The model is written from the design, not from the code. Only the words of refusals are left to the code.

#![allow(clippy::unwrap_used, reason = "the first thing that does not hold ends the test")]

mod harness;
#[path = "model/ledger.rs"]
mod ledger;
#[path = "model/plan.rs"]
mod plan;

use std::collections::BTreeMap;
use std::sync::Arc;

use gapless_log::io::Io;
use gapless_log::io::memory::MemoryIo;
use gapless_partition::proof::Frontier;
use gapless_partition::{Outcome, RefusalCode, Scratch, View, Write, verify};
use gapless_sequencer::CacheBudget;
use gapless_store::{Direction, Store};
use gapless_types::{PartitionOffset, RecordId, WorkspaceId, WorkspaceOffset};
use harness::{Bench, DIR, define_command, options, write_command};
use ledger::{Expected, Held, Ledger, No, Row, Space};
use plan::{CLIENTS, KEYS, Step, steps};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 768, ..ProptestConfig::default() })]

    #[test]
    fn the_model_predicts_every_outcome_and_everything_that_can_be_read(
        steps in steps(),
        cache in prop_oneof![Just(1_usize), Just(3), Just(1000)],
    ) {
        let mut life = Life::new(cache);
        for step in &steps {
            life.step(step);
        }
        life.look();
        life.verify();
        life.step(&Step::Crash(false));
        life.look();
        life.step(&Step::Discard);
        life.look();
    }
}

/// A partition and its model.
struct Life {
    disk: Arc<MemoryIo>,
    bench: Bench,
    ledger: Ledger,
    /// Every outcome so far, words included: what a replay must give.
    outcomes: Vec<Outcome>,
    /// Every write so far with its key.
    writes: Vec<(u64, Write<'static>)>,
}

impl Life {
    fn new(cache: usize) -> Self {
        let disk = Arc::new(MemoryIo::new());
        let mut options = options();
        options.numbers = Arc::new(CacheBudget::new(cache));
        let bench = Bench::on(disk.clone() as Arc<dyn Io>, options);
        Self { disk, bench, ledger: Ledger::default(), outcomes: Vec::new(), writes: Vec::new() }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Write(plan) => {
                self.ledger.tick(self.bench.time);
                let space = self.ledger.workspaces.get(&plan.workspace);
                let last = space.map_or(0, |space| space.events.len() as u64);
                let write = plan.write(last, self.ledger.time);
                self.ask(self.ledger.offset, write);
            }
            Step::Retry(ago) => {
                let Some((key, write)) = self.earlier(*ago) else { return };
                self.ledger.tick(self.bench.time);
                self.ask(key, write);
            }
            Step::Reuse(ago, plan) => {
                let Some((key, earlier)) = self.earlier(*ago) else { return };
                self.ledger.tick(self.bench.time);
                let write = plan.write(0, self.ledger.time);
                self.ask(key, Write { workspace: earlier.workspace, client: earlier.client, ..write });
            }
            Step::Define(edits) => {
                self.ledger.tick(self.bench.time);
                let definition = self.ledger.edited(edits);
                let taken = self.ledger.define(&definition);
                let outcome = self.apply(define_command(&definition));
                match outcome {
                    Outcome::Defined => assert!(taken, "{definition:?}"),
                    Outcome::DefinitionRefused(reasons) => {
                        assert!(!taken && !reasons.is_empty(), "{reasons:?}");
                    }
                    other => panic!("{other:?}"),
                }
            }
            Step::Garbage(bytes) => {
                self.ledger.tick(self.bench.time);
                match self.apply(bytes.clone()) {
                    Outcome::Refused(refusal) => assert_eq!(refusal.code, RefusalCode::Malformed),
                    Outcome::DefinitionRefused(_) => {}
                    other => panic!("{other:?}"),
                }
            }
            Step::Time(by) => self.bench.time = self.bench.time.saturating_add_signed(*by),
            Step::Checkpoint => self.bench.partition().checkpoint().unwrap(),
            Step::Crash(synced) => {
                if *synced {
                    self.bench.partition().log().sync().unwrap();
                }
                self.disk.power_cut();
                self.bench.restart();
            }
            Step::Close => drop(self.bench.close_and_open()),
            Step::Discard => {
                self.bench.stop();
                Store::discard(self.disk.clone(), format!("{DIR}/store")).unwrap();
                self.bench.open();
            }
            Step::Look => self.look(),
        }
    }

    /// A write so many writes ago, with its key.
    fn earlier(&self, ago: usize) -> Option<(u64, Write<'static>)> {
        let at = self.writes.len().checked_sub(ago + 1)?;
        Some(self.writes[at].clone())
    }

    /// Applies a write under a key and compares what it gets.
    fn ask(&mut self, key: u64, write: Write<'static>) {
        let expected = self.ledger.ask(key, &write);
        let outcome = self.apply(write_command(key, &write));
        if let Outcome::Duplicate { first_offset, first } = &outcome {
            assert_eq!(expected, Expected::Again(first_offset.get()), "{write:?}");
            let place = usize::try_from(first_offset.get()).unwrap() - 1;
            assert_eq!(**first, self.outcomes[place], "the first outcome, complete");
        } else {
            assert_eq!(told(&outcome), expected, "{write:?}");
        }
        self.writes.push((key, write));
    }

    /// Everything follows from the log, says whoever computes it anew; and nothing changes by that.
    fn verify(&mut self) {
        self.bench.partition().flush().unwrap();
        self.bench.stop();
        let scratch = Scratch { io: Arc::new(MemoryIo::new()), dir: "scratch".into() };
        let io: Arc<dyn Io> = self.disk.clone();
        let verified = verify(&io, DIR, &scratch, &mut |_| {}).unwrap();
        assert!(verified.is_sound(), "{verified:?}");
        assert_eq!(verified.outcomes, self.ledger.offset);
        self.bench.open();
    }

    fn apply(&mut self, command: Vec<u8>) -> Outcome {
        let outcome = self.bench.apply(command);
        self.outcomes.push(outcome.clone());
        outcome
    }

    /// Compares everything that can be read.
    fn look(&mut self) {
        let view = self.bench.partition().view().unwrap();
        assert_eq!(view.applied().map_or(0, PartitionOffset::get), self.ledger.offset);
        assert_eq!(view.time(), self.ledger.time);
        let stored = view.outcomes(PartitionOffset::FIRST, usize::MAX, Direction::Forward).unwrap();
        let stored: Vec<_> = stored.iter().map(|stored| view.outcome(stored).unwrap()).collect();
        assert_eq!(stored, self.outcomes);
        let ids = view.workspaces(None, 100).unwrap().into_iter().map(|found| found.id.get());
        assert_eq!(ids.collect::<Vec<_>>(), self.ledger.workspaces.keys().copied().collect::<Vec<_>>());
        for (id, space) in &self.ledger.workspaces {
            let mut expected = space.clone();
            expected.entities.retain(|_, held| held.exists(self.ledger.time));
            assert_eq!(read(&view, WorkspaceId::new(*id)), expected, "workspace {id}");
            let sequences = view.sequences(WorkspaceId::new(*id)).unwrap();
            let declared = sequences.iter().map(|state| (state.name.to_string(), state.initial_number));
            assert_eq!(declared.collect::<BTreeMap<_, _>>(), self.ledger.kinds[&space.kind]);
        }
    }
}

/// An outcome as the model tells it.
fn told(outcome: &Outcome) -> Expected {
    match outcome {
        Outcome::Committed(event) => Expected::Event {
            offset: event.workspace_offset.get(),
            sequence: event.client_sequence.get(),
            time: event.committed_at,
            ids: event.record_ids.iter().map(|(raw, id)| (*raw, id.get())).collect(),
            numbers: event.numbers.iter().map(|(name, number)| (name.to_string(), *number)).collect(),
        },
        Outcome::Refused(refusal) => Expected::Refused(No {
            code: refusal.code,
            operation: refusal.operation,
            key: refusal.key.to_vec(),
            version: refusal.current_version,
            value: refusal.current_value.as_ref().map(|value| value.to_vec()),
        }),
        other => panic!("{other:?}"),
    }
}

/// A workspace as it is read; single rows must say the same as ranges.
fn read(view: &View, id: WorkspaceId) -> Space {
    let found = view.workspace(id).unwrap().unwrap();
    let events = view.events(id, WorkspaceOffset::FIRST, usize::MAX, Direction::Forward).unwrap();
    let mut backwards = view.events(id, found.last_offset, usize::MAX, Direction::Backward).unwrap();
    backwards.reverse();
    assert_eq!(events, backwards);
    assert_eq!(events.len() as u64, found.last_offset.get());
    let mut tree = Frontier::default();
    for event in &events {
        tree.append(event.leaf_hash().unwrap()).unwrap();
        assert_eq!(view.head_of(id, tree.head().size).unwrap(), tree.head());
    }
    assert_eq!(view.head(id).unwrap(), tree.head());
    let sequences = view.sequences(id).unwrap().into_iter();
    let mut space = Space {
        kind: found.kind.to_string(),
        events: events.iter().map(|event| event.header().partition_offset.get()).collect(),
        last_record: found.last_record.map(RecordId::get),
        numbers: sequences.filter_map(|state| Some((state.name.to_string(), state.last?))).collect(),
        ..Space::default()
    };
    for client in CLIENTS {
        if let Some(last) = view.client_sequence(id, client).unwrap() {
            space.clients.insert(client.to_owned(), last.get());
        }
    }
    for record in view.records(id, None, usize::MAX).unwrap() {
        assert_eq!(view.record(id, record.id).unwrap().as_ref(), Some(&record));
        let row = record.row().unwrap();
        let fields = row.fields.iter().map(|(name, value)| ((*name).to_owned(), owned(value)));
        let row = Row {
            active: row.active,
            created: row.created,
            changed: row.changed,
            parent: row.parent.map(RecordId::get),
            record_type: row.record_type.to_owned(),
            fields: fields.collect(),
        };
        space.records.insert(record.id.get(), row);
    }
    let entities = view.entities(id, b"", None, usize::MAX).unwrap();
    for key in KEYS {
        assert_eq!(view.entity(id, key).unwrap().as_ref(), entities.iter().find(|entity| entity.key == key));
    }
    for entity in entities {
        let held = Held { value: entity.value.to_vec(), version: entity.version, expires: entity.expires_at };
        space.entities.insert(entity.key.to_vec(), held);
    }
    space
}

fn owned(value: &gapless_partition::Value<'_>) -> gapless_partition::Value<'static> {
    use gapless_partition::Value;
    match *value {
        Value::Null => Value::Null,
        Value::Integer(number) => Value::Integer(number),
        Value::Record(id) => Value::Record(id),
        ref other => panic!("nobody wrote {other:?}"),
    }
}
