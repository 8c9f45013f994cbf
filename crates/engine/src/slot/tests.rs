//! A queue that fills, empties, falls behind and is caught up; marks between entries.

use gapless_types::{NamespaceId, PartitionIndex};

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
    Work { index: LogIndex::new(index), time: LogTime::ZERO, commands: vec![command] }
}

fn applied(step: Step) -> Vec<u64> {
    match step {
        Step::Apply(slice) => slice.iter().map(|work| work.index.get()).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_full_queue_detaches_and_attaches_when_nothing_is_missed() {
    let slot = slot();
    for index in 1..=40 {
        slot.push(work(index, 1 << 20), Duration::ZERO);
    }
    assert!(slot.backlog().detached);
    let mut seen = Vec::new();
    let from = loop {
        match slot.next_step() {
            Step::CatchUp(from) => break from,
            step => seen.extend(applied(step)),
        }
    };
    assert_eq!(seen, (1..from.get()).collect::<Vec<_>>());
    assert!(!slot.caught_up(LogIndex::new(38), Some(LogIndex::new(40))), "two more were dispatched");
    assert!(matches!(slot.next_step(), Step::CatchUp(from) if from.get() == 39));
    slot.push(work(41, 1), Duration::ZERO);
    assert!(slot.caught_up(LogIndex::new(41), Some(LogIndex::new(41))));
    assert!(matches!(slot.next_step(), Step::Idle));
    slot.push(work(42, 1), Duration::ZERO);
    assert_eq!(applied(slot.next_step()), [42]);
}

#[test]
fn what_is_oldest_is_known_while_it_is_applied_and_under_load_it_moves_on() {
    let slot = slot();
    let since = |slot: &Slot| slot.backlog().waiting_since.map(|since| since.as_secs());
    for second in 1..=3 {
        slot.push(work(second, 3 << 20), Duration::from_secs(second));
    }
    assert_eq!(since(&slot), Some(1));
    assert_eq!(applied(slot.next_step()), [1, 2]);
    assert_eq!(since(&slot), Some(1), "it is being applied");
    slot.push(work(4, 1), Duration::from_secs(4));
    assert_eq!(applied(slot.next_step()), [3, 4]);
    assert_eq!(since(&slot), Some(3), "the queue was never empty, and yet what waits is younger");
    assert!(matches!(slot.next_step(), Step::Idle));
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
    assert_eq!(applied(slot.next_step()), [1, 3]);
    assert!(matches!(slot.next_step(), Step::Mark(mark) if mark.at.get() == 4));
    assert_eq!(applied(slot.next_step()), [5]);
}

#[test]
fn one_entry_larger_than_the_queue_still_gets_in() {
    let slot = slot();
    slot.push(work(1, 64 << 20), Duration::ZERO);
    assert_eq!(applied(slot.next_step()), [1]);
}
