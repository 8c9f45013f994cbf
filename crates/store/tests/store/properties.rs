//! Any sequence of operations against plain maps: applies, snapshots, checkpoints in one or in steps, merges, crashes.

use gapless_log::io::faulty::{Crash, FaultyIo};
use gapless_store::{
    BucketId, Direction, FrozenCheckpoint, Maintained, Offset, Snapshot, Space, Store, Synced,
};
use proptest::prelude::*;

use crate::model::{Change, Model, batch_of, open_on};

#[derive(Clone, Debug)]
enum Action {
    Apply(Vec<Change>),
    TakeSnapshot,
    DropSnapshot(usize),
    Checkpoint,
    Rotate,
    Publish,
    DropRotated,
    Maintain(u64),
    Reopen,
    Crash(Crash),
    Range(Space, Vec<u8>, Vec<u8>),
}

fn any_space() -> impl Strategy<Value = Space> {
    prop_oneof![2 => Just(Space::Main), 1 => (0..3_u64).prop_map(|bucket| Space::Bucket(BucketId(bucket)))]
}

fn any_key() -> impl Strategy<Value = Vec<u8>> {
    // Few different ones, so that they meet.
    prop::collection::vec(prop_oneof![Just(0), Just(b'a'), Just(255)], 0..4)
}

fn any_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => (any_space(), any_key(), prop::collection::vec(any::<u8>(), 0..300))
            .prop_map(|(space, key, value)| Change::Put(space, key, value)),
        2 => (any_space(), any_key()).prop_map(|(space, key)| Change::Delete(space, key)),
        1 => (0..3_u64).prop_map(|bucket| Change::Drop(BucketId(bucket))),
    ]
}

fn any_action() -> impl Strategy<Value = Action> {
    prop_oneof![
        8 => prop::collection::vec(any_change(), 0..8).prop_map(Action::Apply),
        2 => Just(Action::TakeSnapshot),
        1 => any::<usize>().prop_map(Action::DropSnapshot),
        4 => Just(Action::Checkpoint),
        2 => Just(Action::Rotate),
        2 => Just(Action::Publish),
        1 => Just(Action::DropRotated),
        3 => (1..4000_u64).prop_map(Action::Maintain),
        1 => Just(Action::Reopen),
        1 => prop::sample::select(Crash::ALL.to_vec()).prop_map(Action::Crash),
        3 => (any_space(), any_key(), any_key()).prop_map(|(space, start, end)| Action::Range(space, start, end)),
    ]
}

/// A store, and everything that is known about it.
struct World {
    io: FaultyIo,
    store: Option<Store>,
    model: Model,
    applied: u64,
    durable: (Offset, Model),
    rotated: Option<(FrozenCheckpoint, Model)>,
    snapshots: Vec<(Snapshot, Model)>,
}

impl World {
    fn new() -> Self {
        let io = FaultyIo::new(7);
        let (store, _) = open_on(&io).unwrap();
        Self {
            io,
            store: Some(store),
            model: Model::default(),
            applied: 0,
            durable: (Offset::ZERO, Model::default()),
            rotated: None,
            snapshots: Vec::new(),
        }
    }

    fn store(&mut self) -> &mut Store {
        self.store.as_mut().unwrap()
    }

    fn act(&mut self, action: Action) {
        let offset = Offset::new(self.applied);
        let proof = Synced::by_a_sync_up_to(offset);
        match action {
            Action::Apply(changes) => {
                self.store().apply(&batch_of(&changes)).unwrap();
                self.model.apply(&changes);
                self.applied += 1;
            }
            Action::TakeSnapshot => {
                let snapshot = self.store().snapshot();
                self.snapshots.push((snapshot, self.model.clone()));
            }
            Action::DropSnapshot(index) => {
                if !self.snapshots.is_empty() {
                    let index = index % self.snapshots.len();
                    self.snapshots.swap_remove(index);
                }
            }
            Action::Checkpoint => {
                self.rotated = None;
                self.store().checkpoint(offset, proof).unwrap();
                self.durable = (offset, self.model.clone());
            }
            Action::Rotate => {
                if self.rotated.is_none() {
                    let frozen = self.store().rotate(offset).unwrap();
                    self.rotated = Some((frozen, self.model.clone()));
                }
            }
            Action::Publish => {
                if let Some((frozen, model)) = self.rotated.take() {
                    let offset = frozen.offset();
                    let written = frozen.write_out().unwrap();
                    self.store().publish(written, Synced::by_a_sync_up_to(offset)).unwrap();
                    self.durable = (offset, model);
                }
            }
            Action::DropRotated => self.rotated = None,
            Action::Maintain(bytes) => {
                let _: Maintained = self.store().maintain(bytes).unwrap();
            }
            Action::Reopen => self.reopen(None),
            Action::Crash(style) => self.reopen(Some(style)),
            Action::Range(space, start, end) => self.check_range(space, &start, &end),
        }
    }

    fn reopen(&mut self, crash: Option<Crash>) {
        self.rotated = None;
        self.store = None;
        if let Some(style) = crash {
            self.snapshots.clear();
            self.io.restart(style);
        }
        let (store, opened) = open_on(&self.io).unwrap();
        assert_eq!(opened.offset, self.durable.0);
        self.store = Some(store);
        (self.applied, self.model) = (self.durable.0.get(), self.durable.1.clone());
    }

    fn check_range(&mut self, space: Space, start: &[u8], end: &[u8]) {
        let expected: Vec<_> = self
            .model
            .everything()
            .into_iter()
            .filter(|(other, key, _)| *other == space && &key[..] >= start && &key[..] < end)
            .map(|(_, key, value)| (key, value))
            .collect();
        for direction in [Direction::Forward, Direction::Backward] {
            let rows = match space {
                Space::Main => self.store().range(start..end, direction),
                Space::Bucket(bucket) => self.store().range_in(bucket, start..end, direction),
            };
            let mut found: Vec<_> =
                rows.map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect();
            if direction == Direction::Backward {
                found.reverse();
            }
            assert_eq!(found, expected);
        }
    }

    fn check(&mut self) {
        let model = self.model.clone();
        model.check(self.store()).unwrap();
        for (snapshot, model) in &self.snapshots {
            model.check(snapshot).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 768, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_operations_agrees_with_plain_maps(
        actions in prop::collection::vec(any_action(), 1..60),
    ) {
        let mut world = World::new();
        for action in actions {
            world.act(action);
            world.check();
        }
    }
}
