//! Ceilings of memory, shared by all stores of a node.

use std::collections::VecDeque;
use std::sync::Arc;

use gapless_log::io::memory::MemoryIo;
use gapless_store::{ApplyError, Budget, Direction, FrozenCheckpoint, Options, Store, Synced};

use crate::model::{DIR, batch_of, put, put_in, synced};

const CEILING: u64 = 256 << 10;

fn open(budget: &Budget, memtable_bytes: u64) -> Store {
    let options = Options { memtable_bytes };
    Store::open(Arc::new(MemoryIo::new()), DIR, options, budget).unwrap().0
}

fn checkpoint(store: &mut Store, offset: u64) {
    let (offset, proof) = synced(offset);
    store.checkpoint(offset, proof).unwrap();
}

/// Applies rows until one is refused; how many were taken.
fn fill(store: &mut Store, budget: &Budget, from: u64) -> u64 {
    for number in from.. {
        match store.apply(&batch_of(&[put(&format!("{number:08}"), &"v".repeat(100))])) {
            Ok(()) => assert!(budget.memtable_bytes() <= CEILING),
            Err(ApplyError::MemoryFull { used, ceiling, .. }) => {
                assert!(used <= ceiling && ceiling == CEILING);
                return number - from;
            }
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("a ceiling is reached")
}

#[test]
fn the_ceiling_refuses_an_apply_and_a_checkpoint_heals_it() {
    let budget = Budget::new(CEILING, 1 << 20);
    let mut store = open(&budget, u64::MAX);
    let first = fill(&mut store, &budget, 0);
    assert!(store.wants_checkpoint());
    assert_eq!(store.range::<&[u8]>(.., Direction::Forward).count() as u64, first, "nothing is lost");
    checkpoint(&mut store, 1);
    assert_eq!(budget.memtable_bytes(), 0);
    assert!(!store.wants_checkpoint());
    let second = fill(&mut store, &budget, first);
    assert_eq!(first, second);
}

#[test]
fn what_a_snapshot_holds_is_counted_until_it_goes() {
    let budget = Budget::new(CEILING, 1 << 20);
    let mut store = open(&budget, u64::MAX);
    fill(&mut store, &budget, 0);
    let snapshot = store.snapshot();
    let reader = snapshot.clone();
    checkpoint(&mut store, 1);
    assert!(budget.memtable_bytes() > CEILING / 2);
    assert!(matches!(
        store.apply(&batch_of(&[put("k", &"v".repeat(2000))])),
        Err(ApplyError::MemoryFull { .. })
    ));
    drop((snapshot, reader));
    assert_eq!(budget.memtable_bytes(), 0);
    store.apply(&batch_of(&[put("k", "v")])).unwrap();
}

#[test]
fn overwriting_takes_no_more_memory_unless_snapshots_need_the_old_rows() {
    let budget = Budget::new(CEILING, 1 << 20);
    let mut store = open(&budget, u64::MAX);
    for number in 0..10_000 {
        store.apply(&batch_of(&[put("counter", &format!("{number}"))])).unwrap();
    }
    assert!(budget.memtable_bytes() < 1000);
    let snapshots: Vec<_> = (0..100)
        .map(|number| {
            store.apply(&batch_of(&[put("counter", &format!("{number}"))])).unwrap();
            store.snapshot()
        })
        .collect();
    let held = budget.memtable_bytes();
    assert!(held > 100 * 100);
    for _ in 0..1000 {
        store.apply(&batch_of(&[put("counter", "x")])).unwrap();
    }
    assert!(budget.memtable_bytes() < held + 1000);
    for (number, snapshot) in snapshots.iter().enumerate() {
        assert_eq!(snapshot.get(b"counter").unwrap().unwrap(), format!("{number}"));
    }
    drop(snapshots);
    store.apply(&batch_of(&[put("counter", "last")])).unwrap();
    assert!(budget.memtable_bytes() < 1000, "the old rows are forgotten with the next write");
}

#[test]
fn a_dropped_bucket_gives_its_memory_back() {
    let budget = Budget::new(CEILING, 1 << 20);
    let mut store = open(&budget, u64::MAX);
    let rows: Vec<_> = (0..500).map(|number| put_in(1, &format!("{number}"), "v")).collect();
    store.apply(&batch_of(&rows)).unwrap();
    assert!(budget.memtable_bytes() > 60_000);
    store.apply(&batch_of(&[crate::model::drop_bucket(1)])).unwrap();
    assert!(budget.memtable_bytes() < 1000);
}

#[test]
fn a_store_wants_a_checkpoint_when_it_has_its_share_or_the_node_is_near_its_ceiling() {
    let budget = Budget::new(CEILING, 1 << 20);
    let (mut small, mut large) = (open(&budget, u64::MAX), open(&budget, 64 << 10));
    let row = [put("k", &"v".repeat(1000))];
    small.apply(&batch_of(&row)).unwrap();
    assert!(!small.wants_checkpoint() && !large.wants_checkpoint());
    for number in 0..200 {
        large.apply(&batch_of(&[put(&format!("{number}"), &"v".repeat(1000))])).unwrap();
        let share = large.statistics().memtable_bytes >= 64 << 10;
        assert_eq!(large.wants_checkpoint(), share);
    }
    assert!(!small.wants_checkpoint(), "it has next to nothing to give");
    let third = open(&budget, u64::MAX);
    assert!(!third.wants_checkpoint(), "an empty store has nothing to give");
    fill(&mut small, &budget, 0);
    assert!(large.wants_checkpoint());
    drop(large);
    assert!(budget.memtable_bytes() < CEILING / 2, "what a store took goes with it");
}

#[test]
fn stores_that_grow_alike_take_turns() {
    const STORES: u64 = 8;
    /// Writes of all stores while one checkpoint is written out.
    const TAKES: u64 = 500;
    let budget = Budget::new(1 << 20, 1 << 20);
    let mut stores: Vec<_> = (0..STORES).map(|_| open(&budget, u64::MAX)).collect();
    let (mut most, mut made) = (0, 0);
    let mut underway: VecDeque<(usize, FrozenCheckpoint, Synced, u64)> = VecDeque::new();
    for number in 0..40_000_u64 {
        let at = usize::try_from(number % STORES).unwrap();
        let store = &mut stores[at];
        store.apply(&batch_of(&[put(&format!("{number:08}"), &"v".repeat(100))])).unwrap();
        if store.wants_checkpoint() && !underway.iter().any(|(other, ..)| *other == at) {
            let (offset, proof) = synced(number);
            underway.push_back((at, store.rotate(offset).unwrap(), proof, number));
            made += 1;
        }
        most = most.max(underway.len());
        if underway.front().is_some_and(|(.., began)| number - began >= TAKES) {
            let (at, frozen, proof, _) = underway.pop_front().unwrap();
            stores[at].publish(frozen.write_out().unwrap(), proof).unwrap();
        }
    }
    assert!(made > 40, "{made}");
    assert!(most <= 3, "{most} at once");
}

#[test]
fn the_cache_and_what_is_kept_of_runs_stay_below_their_ceiling() {
    let budget = Budget::new(64 << 20, CEILING);
    let mut store = open(&budget, u64::MAX);
    for round in 0..5_u64 {
        let rows: Vec<_> =
            (0..4000).map(|number| put(&format!("{:08}", number * 5 + round), &"v".repeat(100))).collect();
        store.apply(&batch_of(&rows)).unwrap();
        checkpoint(&mut store, round);
    }
    assert_eq!(store.range::<&[u8]>(.., Direction::Forward).count(), 20_000);
    for number in 0..20_000 {
        store.get(format!("{number:08}").as_bytes()).unwrap().unwrap();
        assert!(budget.cached_bytes() + budget.resident_bytes() <= CEILING);
    }
    assert!(budget.resident_bytes() > 0 && budget.cached_bytes() > 0);
    drop(store);
    assert_eq!(budget.resident_bytes(), 0);
}
