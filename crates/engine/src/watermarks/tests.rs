//! The marks against a model that remembers every record, over random reports, snapshots and partitions that come and go.

use gapless_types::{NamespaceId, PartitionIndex};
use proptest::prelude::*;

use super::*;
use crate::limits::MAX_REMEMBERED_ENTRIES;

const LIFE: Incarnation = Incarnation(1);

fn partition(index: u16) -> PartitionId {
    PartitionId { namespace: NamespaceId::new(1), index: PartitionIndex::new(index) }
}

fn reach(offset: u64, index: u64) -> Reach {
    Reach { offset: PartitionOffset::new(offset).unwrap(), index: LogIndex::new(index) }
}

fn offset(value: u64) -> PartitionOffset {
    PartitionOffset::new(value).unwrap()
}

fn opened(count: u16) -> Watermarks {
    let mut marks = Watermarks::default();
    for index in 0..count {
        marks.open(partition(index), LIFE, Opened::default()).unwrap();
    }
    marks
}

#[test]
fn an_idle_partition_counts_as_applied_through_everything() {
    let mut marks = opened(2);
    marks.durable(LogIndex::new(9));
    assert_eq!(marks.applied_through(partition(0)), None);
    marks.dispatched(LogIndex::new(0), []);
    marks.dispatched(LogIndex::new(7), [(partition(0), offset(2))]);
    assert_eq!(marks.applied_through(partition(1)), Some(LogIndex::new(7)));
    assert_eq!(marks.applied_through(partition(0)), Some(LogIndex::new(6)));
    assert_eq!(marks.needed_from(partition(1)), Some(LogIndex::new(8)));
    marks.applied(partition(0), LIFE, reach(1, 7)).unwrap();
    assert_eq!(
        marks.applied_through(partition(0)),
        Some(LogIndex::new(6)),
        "half of the entry is not all of it"
    );
    marks.applied(partition(0), LIFE, reach(2, 7)).unwrap();
    assert_eq!(marks.applied_everywhere(), Some(LogIndex::new(7)));
    assert_eq!(marks.lowest_needed(), LogIndex::new(7), "no checkpoint covers it");
    marks.synced(partition(0), LIFE, offset(2)).unwrap();
    marks.checkpointed(partition(0), LIFE, reach(2, 7)).unwrap();
    assert_eq!(marks.lowest_needed(), LogIndex::new(8));
}

#[test]
fn a_partition_that_was_idle_for_long_needs_only_what_came_since() {
    let mut marks = opened(1);
    marks.durable(LogIndex::new(1_000_000));
    marks.dispatched(LogIndex::new(5), [(partition(0), offset(1))]);
    marks.applied(partition(0), LIFE, reach(1, 5)).unwrap();
    marks.synced(partition(0), LIFE, offset(1)).unwrap();
    marks.checkpointed(partition(0), LIFE, reach(1, 5)).unwrap();
    marks.dispatched(LogIndex::new(1_000_000), [(partition(0), offset(2))]);
    assert_eq!(marks.lowest_needed(), LogIndex::new(1_000_000));
}

#[test]
fn reports_of_an_earlier_incarnation_change_nothing() {
    let mut marks = opened(1);
    marks.dispatched(LogIndex::new(1), [(partition(0), offset(1))]);
    marks.close(partition(0), LIFE).unwrap();
    assert_eq!(
        marks.applied(partition(0), LIFE, reach(1, 1)),
        Err(Stale::NotOpen { partition: partition(0) })
    );
    marks.open(partition(0), Incarnation(2), Opened::default()).unwrap();
    let stale = Stale::Incarnation { partition: partition(0), current: Incarnation(2), given: LIFE };
    assert_eq!(marks.applied(partition(0), LIFE, reach(1, 1)), Err(stale));
    assert_eq!(marks.open(partition(0), LIFE, Opened::default()), Err(stale));
    assert_eq!(marks.close(partition(0), LIFE), Err(stale));
    marks.durable(LogIndex::new(1));
    assert_eq!(
        marks.marks(partition(0)),
        Some(Marks::default()),
        "also what became durable was of the earlier one"
    );
}

#[test]
fn a_tail_that_was_cut_off_is_not_durable() {
    let mut marks = opened(1);
    marks.durable(LogIndex::new(10));
    marks.truncated_from(LogIndex::new(8));
    marks.dispatched(LogIndex::new(8), [(partition(0), offset(1))]);
    assert_eq!(marks.marks(partition(0)).unwrap().durable, None);
    marks.durable(LogIndex::new(8));
    assert_eq!(marks.marks(partition(0)).unwrap().durable, Some(offset(1)));
}

#[test]
#[should_panic(expected = "ACK-1")]
fn a_committed_entry_that_is_cut_off_is_a_bug() {
    let mut marks = opened(0);
    marks.dispatched(LogIndex::new(8), []);
    marks.truncated_from(LogIndex::new(8));
}

#[test]
#[should_panic(expected = "WM-1: watermarks out of order")]
fn applying_what_is_not_durable_is_a_bug() {
    let mut marks = opened(1);
    marks.dispatched(LogIndex::new(1), [(partition(0), offset(1))]);
    let _ = marks.applied(partition(0), LIFE, reach(1, 1));
}

#[test]
#[should_panic(expected = "WM-1: watermarks out of order")]
fn a_checkpoint_ahead_of_what_is_synced_is_a_bug() {
    let mut marks = opened(1);
    marks.durable(LogIndex::new(1));
    marks.dispatched(LogIndex::new(1), [(partition(0), offset(1))]);
    marks.applied(partition(0), LIFE, reach(1, 1)).unwrap();
    let _ = marks.checkpointed(partition(0), LIFE, reach(1, 1));
}

#[test]
#[should_panic(expected = "WM-1: a watermark falls")]
fn a_mark_that_falls_is_a_bug() {
    let mut marks = opened(1);
    marks.durable(LogIndex::new(1));
    marks.dispatched(LogIndex::new(1), [(partition(0), offset(2))]);
    marks.applied(partition(0), LIFE, reach(2, 1)).unwrap();
    let _ = marks.applied(partition(0), LIFE, reach(1, 1));
}

#[test]
fn a_backlog_without_end_is_remembered_in_a_bounded_way() {
    let mut marks = opened(1);
    let count = MAX_REMEMBERED_ENTRIES as u64 * 3;
    marks.durable(LogIndex::new(count));
    for at in 1..=count {
        marks.dispatched(LogIndex::new(at), [(partition(0), offset(at))]);
    }
    for at in 1..=count {
        marks.applied(partition(0), LIFE, reach(at, at)).unwrap();
        let through = marks.applied_through(partition(0)).unwrap().get();
        assert!(through == at || through == at - 1, "{through} at {at}");
    }
    assert_eq!(marks.applied_through(partition(0)), Some(LogIndex::new(count)));
}

/// Every record that a partition was given, and how far it is with them.
#[derive(Clone, Debug, Default)]
struct Model {
    open: bool,
    incarnation: u32,
    indexes: Vec<u64>,
    applied: usize,
    synced: usize,
    checkpoint: usize,
    snapshot: usize,
}

#[derive(Clone, Debug)]
enum Step {
    Dispatch(Vec<(u16, u8)>),
    Durable,
    Apply(u16, u8),
    Sync(u16, u8),
    Checkpoint(u16, u8),
    Snapshot(u16, u8),
    Reopen(u16),
    Close(u16),
    ComeBack(u16),
}

const PARTITIONS: u16 = 3;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let p = || 0..PARTITIONS;
    let step = prop_oneof![
        6 => proptest::collection::vec((p(), 1..4_u8), 0..4).prop_map(Step::Dispatch),
        4 => Just(Step::Durable),
        6 => (p(), 1..5_u8).prop_map(|(p, count)| Step::Apply(p, count)),
        3 => (p(), 1..5_u8).prop_map(|(p, count)| Step::Sync(p, count)),
        3 => (p(), 1..5_u8).prop_map(|(p, count)| Step::Checkpoint(p, count)),
        1 => (p(), 1..5_u8).prop_map(|(p, count)| Step::Snapshot(p, count)),
        1 => p().prop_map(Step::Reopen),
        1 => p().prop_map(Step::Close),
        1 => p().prop_map(Step::ComeBack),
    ];
    proptest::collection::vec(step, 1..100)
}

/// A node and the model of it.
struct World {
    marks: Watermarks,
    models: Vec<Model>,
    index: u64,
    durable: u64,
}

impl World {
    fn new() -> Self {
        let model = Model { open: true, incarnation: 1, ..Model::default() };
        let models = vec![model; usize::from(PARTITIONS)];
        Self { marks: opened(PARTITIONS), models, index: 0, durable: 0 }
    }

    fn reach_of(&self, p: u16, count: usize) -> Option<Reach> {
        let at = count.checked_sub(1)?;
        Some(reach(count as u64, self.models[usize::from(p)].indexes[at]))
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Dispatch(records) => self.dispatch(records),
            Step::Durable => {
                self.durable = self.index;
                self.marks.durable(LogIndex::new(self.index));
            }
            Step::Apply(p, count) => {
                let durable = self.durable;
                let model = &mut self.models[usize::from(*p)];
                let most = model.indexes.iter().filter(|index| **index <= durable).count();
                model.applied = most.min(model.applied + usize::from(*count)).max(model.applied);
                let (applied, life) = (model.applied, Incarnation(model.incarnation));
                if let Some(reach) = self.reach_of(*p, applied) {
                    let _ = self.marks.applied(partition(*p), life, reach);
                }
            }
            Step::Sync(p, count) => {
                let model = &mut self.models[usize::from(*p)];
                model.synced = model.applied.min(model.synced + usize::from(*count));
                if let Some(synced) = PartitionOffset::new(model.synced as u64) {
                    let _ = self.marks.synced(partition(*p), Incarnation(model.incarnation), synced);
                }
            }
            Step::Checkpoint(p, count) => {
                let model = &mut self.models[usize::from(*p)];
                model.checkpoint = model.synced.min(model.checkpoint + usize::from(*count));
                let (checkpoint, life) = (model.checkpoint, Incarnation(model.incarnation));
                if let Some(reach) = self.reach_of(*p, checkpoint) {
                    let _ = self.marks.checkpointed(partition(*p), life, reach);
                }
            }
            Step::Snapshot(p, count) => {
                let model = &mut self.models[usize::from(*p)];
                model.snapshot = model.checkpoint.min(model.snapshot + usize::from(*count));
                if let Some(snapshot) = PartitionOffset::new(model.snapshot as u64) {
                    let _ = self.marks.snapshot(partition(*p), Incarnation(model.incarnation), snapshot);
                }
            }
            Step::Reopen(p) => {
                let model = &self.models[usize::from(*p)];
                let opened = Opened {
                    applied: self.reach_of(*p, model.applied),
                    synced: PartitionOffset::new(model.synced as u64),
                    checkpoint: self.reach_of(*p, model.checkpoint),
                };
                if model.open {
                    self.marks.open(partition(*p), Incarnation(model.incarnation), opened).unwrap();
                }
            }
            Step::Close(p) => {
                let model = &mut self.models[usize::from(*p)];
                let closed = self.marks.close(partition(*p), Incarnation(model.incarnation));
                assert_eq!(closed.is_ok(), model.open);
                model.open = false;
            }
            Step::ComeBack(p) => {
                let model = &mut self.models[usize::from(*p)];
                *model = Model { open: true, incarnation: model.incarnation + 1, ..Model::default() };
                self.marks.open(partition(*p), Incarnation(model.incarnation), Opened::default()).unwrap();
            }
        }
    }

    fn dispatch(&mut self, records: &[(u16, u8)]) {
        self.index += 1;
        let mut last = BTreeMap::new();
        for (p, count) in records {
            let model = &mut self.models[usize::from(*p)];
            if model.open {
                model.indexes.extend(std::iter::repeat_n(self.index, usize::from(*count)));
                last.insert(partition(*p), offset(model.indexes.len() as u64));
            }
        }
        self.marks.dispatched(LogIndex::new(self.index), last);
    }

    fn check(&self) {
        for (p, model) in self.models.iter().enumerate() {
            let id = partition(u16::try_from(p).unwrap());
            let Some(marks) = self.marks.marks(id) else {
                assert!(!model.open);
                continue;
            };
            assert!(model.open && marks.are_ordered());
            let count =
                |mark: Option<PartitionOffset>| mark.map_or(0, |mark| usize::try_from(mark.get()).unwrap());
            let found =
                [marks.highest, marks.applied, marks.synced, marks.checkpoint, marks.snapshot].map(count);
            let expected =
                [model.indexes.len(), model.applied, model.synced, model.checkpoint, model.snapshot];
            assert_eq!(found, expected);
            let durable = model.indexes.iter().filter(|index| **index <= self.durable).count();
            assert_eq!(count(marks.durable), durable);
            let through =
                model.indexes.get(model.applied).map_or(Some(self.index), |next| next.checked_sub(1));
            let dispatched = (self.index > 0).then_some(()).and(through).map(LogIndex::new);
            assert_eq!(self.marks.applied_through(id), dispatched);
            // TRUNC-1: never above the first record that the checkpoint does not cover, and above all if there is none.
            let needed = self.marks.needed_from(id).unwrap().get();
            match model.indexes.get(model.checkpoint) {
                Some(next) => assert!(needed <= *next, "{needed} is needed from {next} on"),
                None => assert_eq!(needed, if self.index == 0 { 0 } else { self.index + 1 }),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn marks_are_what_a_model_with_every_record_says(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
            world.check();
        }
    }
}
