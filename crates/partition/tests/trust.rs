//! Trust levels: a foreign entry in the store is found before it is written over, at the levels that look; and a partition that
//! found one stops, changes nothing, and can still be read.

#![allow(clippy::unwrap_used, reason = "the first thing that does not hold ends the test")]

mod harness;

use std::path::Path;

use gapless_partition::proof::Subtree;
use gapless_partition::{
    ApplyError, Entry, Fault, NewId, Operation, Outcome, Partition, SequenceViolation, TrustLevel, Value,
    Write,
};
use gapless_store::{Batch, Budget, Offset, Store, Synced};
use gapless_types::{PartitionOffset, WorkspaceOffset};
use harness::{Bench, DIR, ID, define_command, definition, event, workspace, write_command};

const LEVELS: [TrustLevel; 3] = [TrustLevel::CheckAll, TrustLevel::CheckEvents, TrustLevel::TrustAll];

fn order() -> Write<'static> {
    let record =
        Operation::CreateRecord { id: NewId::Raw(1), record_type: "order", fields: Vec::new(), parent: None };
    Write { operations: vec![record], ..event(1) }
}

/// A partition with one order: its outcome is at 2, its event at 1, its record is 200 001.
fn bench(level: TrustLevel) -> Bench {
    let mut bench = Bench::undefined();
    let mut definition = definition();
    definition.trust_level = level;
    bench.apply(define_command(&definition));
    bench.apply(write_command(1, &order()));
    bench
}

/// Puts a value under a key of the store, behind the partition's back.
fn plant(bench: &mut Bench, entry: Entry, value: &[u8]) {
    bench.partition().checkpoint().unwrap();
    let offset = Offset::new(bench.partition().checkpointed().unwrap().get());
    bench.stop();
    let budget = Budget::new(1 << 20, 1 << 20);
    let dir = Path::new(DIR).join("store");
    let (mut store, _) =
        Store::open(bench.io.clone(), dir, gapless_store::Options::default(), &budget).unwrap();
    let mut batch = Batch::new();
    batch.put(&entry.key(ID), value).unwrap();
    store.apply(&batch).unwrap();
    store.checkpoint(offset, Synced::by_a_sync_up_to(offset)).unwrap();
    drop(store);
    bench.restart();
}

fn next_entries() -> [Entry; 3] {
    [
        Entry::Outcome(PartitionOffset::new(3).unwrap()),
        Entry::Event(workspace(1), 2),
        Entry::Record(workspace(1), 200_002),
    ]
}

/// With 255 events in its workspace and everything in the checkpoint, so that the next event fills a subtree.
fn nearly_full(level: TrustLevel) -> Bench {
    let mut bench = bench(level);
    for key in 2..256 {
        bench.apply(write_command(1000 + key, &event(1)));
    }
    bench
}

const FIRST_SUBTREE: Entry = Entry::Subtree(workspace(1), Subtree { level: 1, number: 0 });

#[test]
fn a_foreign_root_of_a_subtree_is_found_like_a_foreign_event() {
    for level in LEVELS {
        let mut bench = nearly_full(level);
        plant(&mut bench, FIRST_SUBTREE, &[7; 32]);
        let outcome = bench.try_apply(&write_command(2, &event(1)));
        if level == TrustLevel::TrustAll {
            assert!(matches!(outcome, Ok(Outcome::Committed(_))), "{outcome:?}");
            continue;
        }
        let found = violation(outcome.unwrap_err());
        assert_eq!((found.entry, &found.found[..]), (FIRST_SUBTREE, &[7; 32][..]));
        assert_eq!(bench.partition().log().next().get(), 257, "nothing was appended");
    }
}

#[test]
fn a_foreign_entry_far_ahead_is_found_when_the_partition_gets_there() {
    const AHEAD: u64 = 5;
    for level in LEVELS {
        for entry in
            [Entry::Outcome(PartitionOffset::new(2 + AHEAD).unwrap()), Entry::Event(workspace(1), 1 + AHEAD)]
        {
            let mut bench = bench(level);
            plant(&mut bench, entry, b"a foreign value");
            for number in 1..AHEAD {
                let outcome = bench.try_apply(&write_command(10 + number, &event(1)));
                assert!(matches!(outcome, Ok(Outcome::Committed(_))), "{level:?}, {entry}: {outcome:?}");
            }
            let outcome = bench.try_apply(&write_command(10 + AHEAD, &event(1)));
            if level == TrustLevel::TrustAll {
                assert!(matches!(outcome, Ok(Outcome::Committed(_))), "{entry}: {outcome:?}");
            } else {
                assert_eq!(violation(outcome.unwrap_err()).entry, entry, "{level:?}");
            }
        }
    }
}

#[test]
fn what_is_known_of_one_workspace_is_not_believed_of_another() {
    let mut bench = bench(TrustLevel::CheckAll);
    plant(&mut bench, Entry::Event(workspace(2), 4), b"a foreign value");
    let mut key = 10;
    let mut write = |bench: &mut Bench, of: u64| {
        key += 1;
        bench.try_apply(&write_command(key, &event(of)))
    };
    for _ in 0..3 {
        for of in [1, 2] {
            write(&mut bench, of).unwrap();
        }
    }
    write(&mut bench, 1).unwrap();
    let found = violation(write(&mut bench, 2).unwrap_err());
    assert_eq!(found.entry, Entry::Event(workspace(2), 4));
}

#[test]
fn a_foreign_leaf_with_the_right_place_is_found() {
    let mut bench = bench(TrustLevel::CheckAll);
    // The partition offset that the next event gets, and another hash.
    let place = [3_u64.to_le_bytes().as_slice(), &[9; 32]].concat();
    plant(&mut bench, Entry::Event(workspace(1), 2), &place);
    let found = violation(bench.try_apply(&write_command(2, &order())).unwrap_err());
    assert_eq!(found.first_difference(), 8, "{found}");
    assert_ne!(found.found, found.expected);
}

#[test]
fn a_subtree_is_made_of_the_event_at_hand_where_a_level_trusts() {
    let sound = {
        let mut bench = nearly_full(TrustLevel::TrustAll);
        bench.apply(write_command(2, &event(1)));
        bench.digest()
    };
    let mut bench = nearly_full(TrustLevel::TrustAll);
    plant(&mut bench, Entry::Event(workspace(1), 256), b"a foreign value");
    bench.apply(write_command(2, &event(1)));
    assert_eq!(bench.digest(), sound);
}

fn violation(error: ApplyError) -> SequenceViolation {
    match error {
        ApplyError::Stopped(Fault::Violation(violation)) => *violation,
        other => panic!("{other}"),
    }
}

#[test]
fn each_level_finds_what_it_looks_for_and_writes_over_the_rest() {
    for level in LEVELS {
        for entry in next_entries() {
            let mut bench = bench(level);
            plant(&mut bench, entry, b"a foreign value");
            let checked = match entry {
                Entry::Record(..) => level == TrustLevel::CheckAll,
                _ => level != TrustLevel::TrustAll,
            };
            let outcome = bench.try_apply(&write_command(2, &order()));
            if !checked {
                assert!(matches!(outcome, Ok(Outcome::Committed(_))), "{level:?}, {entry}: {outcome:?}");
                continue;
            }
            let found = violation(outcome.unwrap_err());
            assert_eq!((found.entry, &found.found[..]), (entry, &b"a foreign value"[..]));
            assert!(found.to_string().contains("Rebuild the store"), "{found}");
            assert!(found.to_string().contains("(15 bytes instead of"), "{found}");
        }
    }
}

#[test]
fn a_violation_changes_nothing_and_everything_before_it_can_be_read() {
    let mut bench = bench(TrustLevel::CheckAll);
    plant(&mut bench, Entry::Event(workspace(1), 2), b"a foreign value");
    bench.apply(write_command(3, &event(2)));
    violation(bench.try_apply(&write_command(2, &order())).unwrap_err());
    violation(bench.try_apply(&write_command(4, &event(2))).unwrap_err());
    let partition = bench.partition();
    assert!(partition.fault().unwrap().is_quarantine());
    assert_eq!(partition.applied(), PartitionOffset::new(3));
    assert_eq!(partition.log().next().get(), 4, "nothing was appended");
    let view = partition.view().unwrap();
    assert_eq!(view.workspace(workspace(2)).unwrap().unwrap().last_offset, WorkspaceOffset::FIRST);
    assert_eq!(view.records(workspace(1), None, 10).unwrap().len(), 1);
    drop(view);
    // Repaired as the report says: rebuilt from the partition log, it goes on with the same numbers.
    bench.lose_store();
    let Ok(Outcome::Committed(committed)) = bench.try_apply(&write_command(2, &order())) else { panic!() };
    assert_eq!((committed.workspace_offset.get(), committed.record_ids[0].1.get()), (2, 200_002));
}

#[test]
fn recovery_compares_and_does_not_undo_the_check() {
    for entry in next_entries() {
        let mut bench = bench(TrustLevel::CheckAll);
        bench.partition().checkpoint().unwrap();
        bench.apply(write_command(2, &order()));
        bench.partition().flush().unwrap();
        // Equal content is no violation: the same rows, as a replay would find them.
        let digest = bench.digest();
        bench.restart();
        assert_eq!(bench.digest(), digest);
        // Another content in front of the fold is one: the partition opens, quarantined, with the state before it.
        let offset = Offset::new(2);
        bench.partition().flush().unwrap();
        bench.stop();
        let budget = Budget::new(1 << 20, 1 << 20);
        let dir = Path::new(DIR).join("store");
        let (mut store, opened) =
            Store::open(bench.io.clone(), dir, gapless_store::Options::default(), &budget).unwrap();
        assert_eq!(opened.offset, offset);
        let mut batch = Batch::new();
        batch.put(&entry.key(ID), b"a foreign value").unwrap();
        store.apply(&batch).unwrap();
        store.checkpoint(offset, Synced::by_a_sync_up_to(offset)).unwrap();
        drop(store);
        let (mut partition, _) = Partition::open(&bench.io, DIR, ID, &bench.options).unwrap();
        assert!(partition.fault().is_some_and(Fault::is_quarantine), "{entry}");
        assert_eq!(partition.applied(), PartitionOffset::new(2));
        assert_eq!(
            partition.view().unwrap().records(workspace(1), None, 10).unwrap().len(),
            match entry {
                Entry::Record(..) => 2,
                _ => 1,
            }
        );
    }
}

#[test]
fn updates_are_never_checked() {
    let mut bench = bench(TrustLevel::CheckAll);
    let update =
        Operation::UpdateRecord { record: 200_001, fields: vec![("total", Value::Integer(7))], active: None };
    let outcome = bench.apply(write_command(2, &Write { operations: vec![update], ..event(1) }));
    assert!(matches!(outcome, Outcome::Committed(_)), "{outcome:?}");
}
