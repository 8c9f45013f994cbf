//! Weaknesses that were published of other systems that number events and answer retries. Each has a test of its own here, named
//! for what must not happen.

#![allow(clippy::unwrap_used, reason = "the first thing that does not hold ends the test")]

mod harness;

use std::path::Path;
use std::sync::Arc;

use gapless_log::io::Io;
use gapless_log::io::memory::MemoryIo;
use gapless_partition::proof::{Hash, Height, verify_inclusion};
use gapless_partition::{
    Committed, Condition, Entry, Fault, Header, NewId, Operation, Outcome, OutcomeKind, Partition,
    RefusalCode, View, Write,
};
use gapless_sequencer::CacheBudget;
use gapless_store::{Batch, Store, Synced};
use gapless_types::{IdempotencyKey, PartitionOffset, RecordId, WorkspaceOffset};
use harness::{Bench, DIR, ID, define_command, definition, event, options, record, workspace, write_command};

fn create(raw: u16, record_type: &'static str) -> Operation<'static> {
    Operation::CreateRecord { id: NewId::Raw(raw), record_type, fields: Vec::new(), parent: None }
}

/// An event that takes a number of every kind there is.
fn order() -> Write<'static> {
    let operations = vec![create(1, "order"), Operation::NextNumber { sequence: "invoice" }];
    Write { operations, ..event(1) }
}

fn committed(outcome: Outcome) -> Committed {
    match outcome {
        Outcome::Committed(committed) => committed,
        other => panic!("{other:?}"),
    }
}

fn first_of(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Duplicate { first, .. } => *first,
        other => panic!("not recognized as a duplicate: {other:?}"),
    }
}

/// The block of an event and a proof that it is in the tree as it is now, checked.
fn proved(view: &View, committed: &Committed) -> ([u8; 89], Vec<Hash>) {
    let header = view.block_header(workspace(1), committed.workspace_offset).unwrap();
    let head = view.head(workspace(1)).unwrap();
    let proof = view.inclusion_proof(workspace(1), committed.workspace_offset, head.size).unwrap();
    verify_inclusion(header.leaf, header.height.index(), &head, &proof).unwrap();
    (header.encode(), proof)
}

/// The old leader proposed the write and died; its client asked the new one, which proposed it again. Both are in the log, on
/// every replica, also on one that opens with the first in its checkpoint and the second still to come.
#[test]
fn a_retry_is_not_executed_twice_after_a_failover() {
    let mut old = Bench::new();
    let first = old.apply(write_command(1, &order()));
    old.partition().checkpoint().unwrap();
    for _ in 0..3 {
        let again = old.apply(write_command(1, &order()));
        assert_eq!(first_of(again), first);
        old.restart();
    }
    let mut new = Bench::undefined();
    for (at, (time, command)) in old.commands.iter().enumerate() {
        let outcome = new.partition().apply(&record(at as u64, *time, command)).unwrap();
        match at {
            0 => assert_eq!(outcome, Outcome::Defined),
            1 => assert_eq!(outcome, first),
            _ => assert_eq!(first_of(outcome), first),
        }
    }
    assert_eq!(new.digest(), old.digest());
    let view = new.partition().view().unwrap();
    assert_eq!(view.workspace(workspace(1)).unwrap().unwrap().last_offset, WorkspaceOffset::FIRST);
    assert_eq!(view.sequences(workspace(1)).unwrap().iter().map(|one| one.last).max(), Some(Some(1)));
}

/// A retry that was overtaken by a hundred later writes of the same client still finds its first outcome.
#[test]
fn not_only_the_last_key_of_a_client_is_remembered() {
    let mut bench = Bench::new();
    let firsts: Vec<Outcome> = (1..=100).map(|key| bench.apply(write_command(key, &order()))).collect();
    bench.restart();
    for key in [1, 2, 50, 99, 100] {
        let again = bench.apply(write_command(key, &order()));
        assert_eq!(first_of(again), firsts[usize::try_from(key).unwrap() - 1], "key {key}");
    }
}

/// Idle for longer than anything is cached or remembered: keys go, caches forget, counters stay.
#[test]
fn no_sequence_goes_back_after_idle_eviction() {
    let mut options = options();
    options.numbers = Arc::new(CacheBudget::new(1));
    let mut bench = Bench::on(Arc::new(MemoryIo::new()), options);
    bench.apply(define_command(&definition()));
    let before = (1..=5).map(|key| committed(bench.apply(write_command(key, &order())))).last().unwrap();
    // Many days, other workspaces that push this one out of every cache, a restart.
    for other in 2..200 {
        bench.time += 24 * 60 * 60 * 1000;
        bench.commit(&event(other));
    }
    assert!(bench.partition().known_keys() < 20, "the window has moved on");
    bench.partition().checkpoint().unwrap();
    bench.restart();
    let after = committed(bench.apply(write_command(5, &order())));
    assert_eq!(after.workspace_offset.get(), before.workspace_offset.get() + 1);
    assert_eq!(after.client_sequence.get(), before.client_sequence.get() + 1);
    assert_eq!(after.record_ids[0].1.get(), before.record_ids[0].1.get() + 1);
    assert_eq!(after.numbers[0].1, before.numbers[0].1 + 1);
}

/// The id names what stands in the log, so the first answer, every retry, every replica and every reader say the same.
#[test]
fn the_transaction_id_is_that_of_what_was_committed() {
    let mut bench = Bench::new();
    let first = committed(bench.apply(write_command(1, &order())));
    let other = committed(bench.apply(write_command(2, &order())));
    assert_ne!(first.transaction, other.transaction);
    let view = bench.partition().view().unwrap();
    let stored = view.outcomes(first.partition_offset, 1, gapless_partition::Direction::Forward).unwrap();
    assert_eq!(view.outcome(&stored[0]).unwrap(), Outcome::Committed(first.clone()));
    drop(view);
    bench.lose_store();
    assert_eq!(first_of(bench.apply(write_command(1, &order()))), Outcome::Committed(first.clone()));
    // The same write at the same offset of the partition, but from another place of the replicated log, is another transaction.
    let mut elsewhere = Bench::undefined();
    elsewhere.apply(define_command(&definition()));
    let command = write_command(1, &order());
    let moved = gapless_partition::Record {
        log_index: gapless_types::LogIndex::new(999),
        ..record(1, 1000, &command)
    };
    let moved = committed(elsewhere.partition().apply(&moved).unwrap());
    assert_eq!(moved.partition_offset, first.partition_offset);
    assert_ne!(moved.transaction, first.transaction);
}

/// What was refused stays refused under its key, also when it would be accepted by now.
#[test]
fn negative_results_are_remembered() {
    let mut bench = Bench::new();
    let set = |condition| Write {
        operations: vec![Operation::SetEntity { key: b"stock", value: b"1", condition, expires_at: None }],
        ..event(1)
    };
    let refusals = [
        (RefusalCode::KeyNotFound, set(Condition::MustExist)),
        (RefusalCode::OffsetMismatch, Write { expected_offset: Some(1), ..event(1) }),
        (RefusalCode::UnknownSequence, {
            Write { operations: vec![Operation::NextNumber { sequence: "late" }], ..event(1) }
        }),
    ];
    let mut firsts = Vec::new();
    for (key, (code, write)) in (1..).zip(&refusals) {
        let outcome = bench.apply(write_command(key, write));
        assert!(matches!(&outcome, Outcome::Refused(refusal) if refusal.code == *code), "{outcome:?}");
        firsts.push(outcome);
    }
    bench.apply(write_command(100, &set(Condition::None)));
    let mut late = definition();
    late.kinds.get_mut("default").unwrap().insert(harness::name("late"), 1);
    assert_eq!(bench.apply(define_command(&late)), Outcome::Defined);
    for _ in 0..2 {
        for (key, ((_, write), first)) in (1..).zip(refusals.iter().zip(&firsts)) {
            assert_eq!(first_of(bench.apply(write_command(key, write))), *first);
        }
        bench.lose_store();
    }
    // Under a new key each of them is a new write, and is accepted.
    for (key, (_, write)) in (201..).zip(&refusals) {
        let expected_offset = write.expected_offset.map(|_| 2);
        committed(bench.apply(write_command(key, &Write { expected_offset, ..write.clone() })));
    }
}

/// A client that forgot to fill in its key must not share one with all others that did.
#[test]
fn the_all_zero_key_is_no_key() {
    assert!(IdempotencyKey::new([0; 16]).is_err());
    let mut bench = Bench::new();
    let mut command = write_command(1, &order());
    command[2..18].fill(0);
    for _ in 0..2 {
        // In the log all the same, by somebody's mistake: refused, nothing is remembered, nothing consumed.
        let outcome = bench.apply(command.clone());
        assert!(matches!(&outcome, Outcome::Refused(refusal) if refusal.code == RefusalCode::Malformed));
    }
    assert_eq!(bench.partition().known_keys(), 0);
    assert_eq!(committed(bench.apply(write_command(1, &order()))).workspace_offset, WorkspaceOffset::FIRST);
}

/// Whether somebody wants a proof is no part of a request: the first call got none, the retry gets the same answer and the
/// proof of that event, as everybody does who asks later.
#[test]
fn a_retry_gets_the_proof_that_the_first_call_did_not_ask_for() {
    let mut bench = Bench::new();
    let first = committed(bench.apply(write_command(1, &order())));
    let at_once = proved(&bench.partition().view().unwrap(), &first).0;
    for key in 2..300 {
        bench.apply(write_command(key, &event(1)));
    }
    bench.restart();
    let again = committed(first_of(bench.apply(write_command(1, &order()))));
    assert_eq!(again, first);
    let (header, proof) = proved(&bench.partition().view().unwrap(), &again);
    assert_eq!(header, at_once, "the block is the same whenever it is asked for");
    assert!(!proof.is_empty());
}

/// Singletons have ids of their own, below those of users: the sequence of a workspace knows nothing of them, neither when they
/// are created nor when counters come back from the log.
#[test]
fn singleton_ids_do_not_leak_into_the_record_sequence() {
    let mut bench = Bench::new();
    let single = |operations| Write { operations, ..event(1) };
    let settings = bench.commit(&single(vec![create(1, "settings")]));
    assert!(settings.record_ids[0].1 < RecordId::FIRST_USER);
    let mixed = bench.commit(&single(vec![create(1, "order"), create(2, "profile"), create(3, "order")]));
    let ids: Vec<u64> = mixed.record_ids.iter().map(|(_, id)| id.get()).collect();
    assert_eq!((ids[0], ids[2]), (200_001, 200_002));
    bench.lose_store();
    let view = bench.partition().view().unwrap();
    let outcomes =
        view.outcomes(settings.partition_offset, 2, gapless_partition::Direction::Forward).unwrap();
    assert_eq!(outcomes[0].header().highest_record, None);
    assert_eq!(outcomes[1].header().highest_record, RecordId::new(200_002));
    drop(view);
    assert_eq!(bench.commit(&single(vec![create(1, "order")])).record_ids[0].1.get(), 200_003);
}

/// Folding after a crash compares where the level compares: a foreign value under the next key is found, not written over.
#[test]
fn trust_checks_are_not_undone_by_recovery() {
    let disk = Arc::new(MemoryIo::new());
    let mut bench = Bench::on(disk.clone() as Arc<dyn Io>, options());
    bench.apply(define_command(&definition()));
    bench.apply(write_command(1, &order()));
    bench.partition().checkpoint().unwrap();
    bench.apply(write_command(2, &order()));
    bench.partition().sync().unwrap();
    bench.stop();
    let dir = Path::new(DIR).join("store");
    let (mut store, opened) = Store::open(disk.clone(), &dir, options().store, &options().budget).unwrap();
    let key = Entry::Record(workspace(1), 200_002).key(ID);
    let mut batch = Batch::new();
    batch.put(&key, b"foreign").unwrap();
    store.apply(&batch).unwrap();
    store.checkpoint(opened.offset, Synced::by_a_sync_up_to(opened.offset)).unwrap();
    drop(store);
    for _ in 0..3 {
        let (partition, _) = Partition::open(&bench.io, DIR, ID, &bench.options).unwrap();
        assert!(partition.fault().is_some_and(Fault::is_quarantine));
        assert_eq!(partition.applied(), PartitionOffset::new(2));
        drop(partition);
    }
    let (store, _) = Store::open(disk, &dir, options().store, &options().budget).unwrap();
    assert_eq!(&store.get(&key).unwrap().unwrap()[..], b"foreign");
}

/// One event is one block. However outcomes are handed over, synced, checkpointed, or interrupted: the same blocks.
#[test]
fn blocks_do_not_depend_on_batching() {
    let blocks = |every: u64, restart: bool| {
        let mut bench = Bench::new();
        for key in 1..=300 {
            bench.apply(write_command(key, &order()));
            if key % every == 0 {
                match key % 3 {
                    0 => bench.partition().flush().unwrap(),
                    1 => bench.partition().sync().unwrap(),
                    _ => bench.partition().checkpoint().unwrap(),
                }
                if restart {
                    bench.restart();
                }
            }
        }
        let view = bench.partition().view().unwrap();
        let block = |offset| view.block_header(workspace(1), WorkspaceOffset::new(offset).unwrap()).unwrap();
        (1..=300).map(|offset| block(offset).encode()).collect::<Vec<_>>()
    };
    let expected = blocks(1000, false);
    for (every, restart) in [(1, false), (7, true), (64, false), (101, true)] {
        assert_eq!(blocks(every, restart), expected, "every {every}");
    }
}

/// What a leaf covers is the record as it stands in the log, with all its numbers: none of them can be exchanged under a proof.
#[test]
fn proofs_cover_the_numbers_that_were_assigned() {
    let mut bench = Bench::new();
    bench.commit(&event(1));
    let given = bench.commit(&order());
    bench.commit(&event(1));
    let view = bench.partition().view().unwrap();
    let stored = view.outcomes(given.partition_offset, 1, gapless_partition::Direction::Forward).unwrap();
    let (header, body) = Header::decode(stored[0].bytes()).unwrap();
    assert_eq!(header.workspace_offset, Some(given.workspace_offset));
    assert_eq!(header.client_sequence, Some(given.client_sequence));
    assert_eq!(header.record_ids, given.record_ids);
    assert_eq!(header.numbers[0].1, given.numbers[0].1);
    let head = view.head(workspace(1)).unwrap();
    let index = Height::new(given.workspace_offset.get()).unwrap().index();
    let proof = view.inclusion_proof(workspace(1), given.workspace_offset, head.size).unwrap();
    verify_inclusion(Hash::of_leaf(stored[0].bytes()), index, &head, &proof).unwrap();
    let forgeries: [fn(&mut Header<'_>); 8] = [
        |header| header.partition_offset = PartitionOffset::FIRST,
        |header| header.workspace_offset = WorkspaceOffset::new(9),
        |header| header.client_sequence = None,
        |header| header.record_ids[0].1 = RecordId::new(200_009).unwrap(),
        |header| header.numbers[0].1 += 1,
        |header| header.time += 1,
        |header| header.client = "mallory",
        |header| header.kind = OutcomeKind::Refusal,
    ];
    for forge in forgeries {
        let mut forged = header.clone();
        forge(&mut forged);
        let mut bytes = Vec::new();
        forged.encode(body, &mut bytes);
        assert!(verify_inclusion(Hash::of_leaf(&bytes), index, &head, &proof).is_err(), "{forged:?}");
    }
}
