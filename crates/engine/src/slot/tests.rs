//! A queue that fills, empties, falls behind and is caught up; marks between entries.

use gapless_types::{MachineVersion, NamespaceId, PartitionIndex};

use bytes::Bytes;
use tokio::sync::oneshot;

use super::*;
use crate::log_time::LogTime;

fn slot() -> Slot {
    let id = PartitionId { namespace: NamespaceId::new(16), index: PartitionIndex::new(0) };
    Slot::new(id, PathBuf::new(), QueueLimits::default())
}

fn work(index: u64, bytes: usize) -> Work {
    let command = (PartitionOffset::FIRST, Bytes::from(vec![0; bytes]));
    let (time, machine_version) = (LogTime::ZERO, MachineVersion::FIRST);
    Work { index: LogIndex::new(index), time, machine_version, commands: vec![command], digests: Vec::new() }
}

fn slot_with_turns() -> Slot {
    let slot = slot();
    slot.open_turns();
    slot
}

/// The next slice, applied in a turn of its own.
fn applied(slot: &Slot) -> Vec<u64> {
    assert!(matches!(slot.take_step(), Some(Step::Apply)));
    let slice = slot.next_slice().expect("that is what comes next");
    slot.end_step();
    slice.iter().map(|work| work.index.get()).collect()
}

#[test]
fn a_full_queue_detaches_and_attaches_when_nothing_is_missed() {
    let slot = slot();
    for index in 1..=40 {
        assert!(!slot.push(work(index, 1 << 20), Duration::ZERO), "it does not serve yet");
    }
    assert!(slot.backlog().detached);
    slot.open_turns();
    let mut seen = Vec::new();
    assert!(matches!(slot.take_step(), Some(Step::Apply)));
    while let Some(slice) = slot.next_slice() {
        seen.extend(slice.iter().map(|work| work.index.get()));
    }
    let Some(Step::CatchUp(from)) = slot.take_step() else { panic!("it has fallen behind") };
    assert_eq!(seen, (1..from.get()).collect::<Vec<_>>());
    assert!(!slot.caught_up(LogIndex::new(38), Some(LogIndex::new(40))), "two more were dispatched");
    slot.end_step();
    assert!(matches!(slot.take_step(), Some(Step::CatchUp(from)) if from.get() == 39));
    assert!(!slot.push(work(41, 1), Duration::ZERO), "it is read from the log");
    assert!(slot.caught_up(LogIndex::new(41), Some(LogIndex::new(41))));
    slot.end_step();
    assert!(slot.take_step().is_none());
    assert!(slot.push(work(42, 1), Duration::ZERO));
    slot.end_step();
    assert_eq!(applied(&slot), [42]);
}

#[test]
fn what_is_oldest_is_known_while_it_is_applied_and_under_load_it_moves_on() {
    let slot = slot_with_turns();
    let since = |slot: &Slot| slot.backlog().waiting_since.map(|since| since.as_secs());
    let indexes = |slice: Option<Vec<Work>>| -> Vec<u64> {
        slice.unwrap_or_default().iter().map(|work| work.index.get()).collect()
    };
    assert!(slot.push(work(1, 3 << 20), Duration::from_secs(1)), "a turn begins");
    for second in 2..=3 {
        assert!(!slot.push(work(second, 3 << 20), Duration::from_secs(second)), "there is one already");
    }
    assert_eq!(since(&slot), Some(1));
    assert_eq!(indexes(slot.next_slice()), [1, 2]);
    assert_eq!(since(&slot), Some(1), "it is being applied");
    slot.push(work(4, 1), Duration::from_secs(4));
    assert_eq!(indexes(slot.next_slice()), [3, 4]);
    assert_eq!(since(&slot), Some(3), "the queue was never empty, and yet what waits is younger");
    assert!(slot.next_slice().is_none(), "the turn is over");
    assert_eq!(since(&slot), None);
}

#[test]
fn a_mark_stands_between_two_entries() {
    let slot = slot();
    let (reply, _receiver) = oneshot::channel();
    slot.push(work(1, 1), Duration::ZERO);
    slot.push(work(3, 1), Duration::ZERO);
    slot.mark(Mark { at: LogIndex::new(4), reply });
    slot.push(work(5, 1), Duration::ZERO);
    slot.open_turns();
    assert_eq!(applied(&slot), [1, 3]);
    assert!(matches!(slot.take_step(), Some(Step::Mark(mark)) if mark.at.get() == 4));
    slot.end_step();
    assert_eq!(applied(&slot), [5]);
}

#[test]
fn one_entry_larger_than_the_queue_still_gets_in() {
    let slot = slot();
    slot.push(work(1, 64 << 20), Duration::ZERO);
    slot.open_turns();
    assert_eq!(applied(&slot), [1]);
}

#[test]
fn one_works_on_a_partition_at_a_time_and_what_comes_meanwhile_is_not_forgotten() {
    let slot = slot_with_turns();
    assert!(slot.push(work(1, 1), Duration::ZERO), "whoever pushes has it applied");
    assert!(slot.take_step().is_none(), "not the task");
    let (reply, _receiver) = oneshot::channel();
    slot.mark(Mark { at: LogIndex::new(1), reply });
    assert!(!slot.take_last_turn());
    assert!(slot.next_slice().is_some());
    slot.request_checkpoint();
    assert!(!slot.push(work(2, 1), Duration::ZERO));
    assert!(slot.next_slice().is_none(), "the mark comes first, and is for the task");
    assert!(matches!(slot.take_step(), Some(Step::Mark(_))));
    assert!(!slot.push(work(3, 1), Duration::ZERO), "the task has the turn");
    slot.end_step();
    assert!(matches!(slot.take_step(), Some(Step::Checkpoint)), "between two slices");
    slot.end_step();
    assert_eq!(applied(&slot), [2, 3]);
    assert!(slot.push(work(4, 1), Duration::ZERO));
    slot.close();
    assert!(slot.next_slice().is_none(), "what is queued is left");
    assert!(slot.take_last_turn());
    assert!(!slot.push(work(5, 1), Duration::ZERO) && slot.take_step().is_none());
}
