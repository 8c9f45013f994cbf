//! Lives of a store that touch everything a disk is asked for, played on any disk with a model beside it.

use gapless_log::io::faulty::FaultyIo;
use gapless_store::{BucketId, Maintained, Offset, Space, Store};

use crate::model::{Change, Model, batch_of, synced};

/// One thing the owner does.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Apply(Vec<Change>),
    Checkpoint,
    /// Merges until nothing is due.
    Maintain,
}

/// What a store may be found at after a crash: the last checkpoint that was published, or a later one that failed.
#[derive(Clone, Debug)]
pub(crate) struct Played {
    pub(crate) model: Model,
    pub(crate) applied: u64,
    pub(crate) allowed: Vec<(Offset, Model)>,
}

impl Played {
    pub(crate) fn new() -> Self {
        Self { model: Model::default(), applied: 0, allowed: vec![(Offset::ZERO, Model::default())] }
    }

    /// Does one step. An error of the disk is returned; the store is still right.
    pub(crate) fn step(&mut self, store: &mut Store, step: &Step) -> Result<(), String> {
        match step {
            Step::Apply(changes) => {
                store.apply(&batch_of(changes)).unwrap();
                self.model.apply(changes);
                self.applied += 1;
                Ok(())
            }
            Step::Checkpoint => {
                let (offset, proof) = synced(self.applied);
                let result = store.checkpoint(offset, proof);
                if result.is_ok() {
                    assert_eq!(store.checkpoint_offset(), offset);
                    self.allowed.clear();
                }
                self.allowed.push((offset, self.model.clone()));
                result.map_err(|error| error.to_string())
            }
            Step::Maintain => loop {
                match store.maintain(2000) {
                    Ok(Maintained::Idle) => return Ok(()),
                    Ok(Maintained::Partly | Maintained::Finished) => {}
                    Err(error) => return Err(error.to_string()),
                }
            },
        }
    }

    /// The state that is found must be one of those allowed; everything goes on from there.
    pub(crate) fn resume(&mut self, store: &Store, offset: Offset, context: &str) {
        assert_eq!(store.checkpoint_offset(), offset);
        let allowed = self.allowed.iter().rev().find(|(allowed, _)| *allowed == offset);
        let Some((_, model)) = allowed else {
            let offsets: Vec<_> = self.allowed.iter().map(|(offset, _)| *offset).collect();
            panic!("{context}: found at {offset}, allowed are {offsets:?}");
        };
        model.check(store).unwrap_or_else(|error| panic!("{context}: {error}"));
        self.model = model.clone();
        self.applied = offset.get();
        self.allowed = vec![(offset, self.model.clone())];
    }
}

fn row(space: Space, number: u64, generation: u64) -> Change {
    let value = format!("value {number} of generation {generation}").repeat(1 + (number % 5) as usize);
    Change::Put(space, format!("key/{:04}", number * 7 % 500).into_bytes(), value.into_bytes())
}

/// Three lives: plain checkpoints; buckets that come and go; many checkpoints with merges.
pub(crate) fn scenarios() -> Vec<(&'static str, Vec<Step>)> {
    let bucket = |number| Space::Bucket(BucketId(number));
    let rows = |space, count: u64, generation: u64| {
        Step::Apply((0..count).map(|number| row(space, number, generation)).collect())
    };
    let delete = |space, key: &str| Change::Delete(space, key.as_bytes().to_vec());
    let plain = vec![
        rows(Space::Main, 30, 1),
        Step::Checkpoint,
        Step::Apply(vec![delete(Space::Main, "key/0007"), delete(Space::Main, "nothing")]),
        Step::Checkpoint,
        rows(Space::Main, 3, 2),
        Step::Checkpoint,
        Step::Checkpoint,
    ];
    let buckets = vec![
        rows(bucket(1), 20, 1),
        rows(bucket(2), 20, 1),
        Step::Checkpoint,
        Step::Apply(vec![Change::Drop(BucketId(1)), row(Space::Main, 1, 1)]),
        rows(bucket(3), 5, 1),
        Step::Checkpoint,
        Step::Apply(vec![Change::Drop(BucketId(2)), row(bucket(2), 3, 9), delete(bucket(3), "key/0007")]),
        Step::Checkpoint,
        Step::Apply(vec![Change::Drop(BucketId(2)), Change::Drop(BucketId(3))]),
        Step::Checkpoint,
    ];
    let mut merging = Vec::new();
    for generation in 0..6 {
        merging.push(rows(Space::Main, 12, generation));
        merging.push(rows(bucket(generation / 3), 4, generation));
        merging.push(Step::Apply(vec![delete(Space::Main, "key/0014")]));
        merging.push(Step::Checkpoint);
        if generation % 2 == 1 {
            merging.push(Step::Maintain);
        }
    }
    merging.extend([rows(Space::Main, 40, 9), Step::Checkpoint, Step::Maintain]);
    vec![("plain", plain), ("buckets", buckets), ("merging", merging)]
}

/// Plays a scenario until the first error; what was reached.
pub(crate) fn play_until_error(store: &mut Store, steps: &[Step]) -> (Played, Option<String>) {
    let mut played = Played::new();
    for step in steps {
        if let Err(error) = played.step(store, step) {
            return (played, Some(error));
        }
    }
    (played, None)
}

/// How many operations a scenario asks of a disk on which nothing fails.
pub(crate) fn operations_of(steps: &[Step]) -> u64 {
    let io = FaultyIo::new(0);
    let (mut store, _) = crate::model::open_on(&io).unwrap();
    let (played, error) = play_until_error(&mut store, steps);
    assert_eq!(error, None);
    played.model.check(&store).unwrap();
    io.operations()
}
