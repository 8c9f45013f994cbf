//! IDEM-1: within its window a key is decided at most once, and every retry gets the first outcome, complete, refusals included;
//! whatever crashes, restarts or comes twice.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "the first thing that does not hold ends the test"
)]

mod harness;

use std::collections::BTreeMap;
use std::sync::Arc;

use fastrand::Rng;
use gapless_log::io::Io;
use gapless_log::io::memory::MemoryIo;
use gapless_partition::{AtCap, Condition, Definition, NewId, Operation, Outcome, RefusalCode, Write};
use gapless_store::{Batch, BucketId, Offset, Space, Store, Synced};
use harness::{
    Bench, DIR, define_command, definition, event, idempotency_key, options, workspace, write_command,
};

const WINDOW: u64 = 1000;

fn short_window() -> Definition {
    let mut definition = definition();
    definition.idempotency.window_ms = WINDOW;
    definition
}

/// A partition whose window is short.
fn bench() -> Bench {
    let mut bench = Bench::undefined();
    assert_eq!(bench.apply(define_command(&short_window())), Outcome::Defined);
    bench
}

fn order() -> Write<'static> {
    let record =
        Operation::CreateRecord { id: NewId::Raw(1), record_type: "order", fields: Vec::new(), parent: None };
    Write { operations: vec![record, Operation::NextNumber { sequence: "invoice" }], ..event(1) }
}

fn first_of(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Duplicate { first, .. } => *first,
        other => panic!("not recognized as a duplicate: {other:?}"),
    }
}

#[test]
fn a_retry_gets_the_first_outcome_and_consumes_nothing() {
    let mut bench = bench();
    let first = bench.apply(write_command(1, &order()));
    let Outcome::Committed(committed) = first.clone() else { panic!("{first:?}") };
    bench.apply(write_command(2, &order()));
    // Not only the last key of a client is known, and the key comes from another leader at another place of the log.
    let again = bench.apply(write_command(1, &order()));
    let Outcome::Duplicate { first_offset, .. } = &again else { panic!("{again:?}") };
    assert_eq!(*first_offset, committed.partition_offset);
    assert_eq!(first_of(again), first);
    bench.restart();
    assert_eq!(first_of(bench.apply(write_command(1, &order()))), first);
    let Outcome::Committed(third) = bench.apply(write_command(3, &order())) else { panic!() };
    assert_eq!(third.workspace_offset.get(), 3);
    assert_eq!(
        (third.client_sequence.get(), third.numbers[0].1, third.record_ids[0].1.get()),
        (3, 3, 200_003)
    );
}

#[test]
fn a_refusal_is_remembered_like_a_success() {
    let mut bench = bench();
    let set = |condition| Write {
        operations: vec![Operation::SetEntity { key: b"a", value: b"1", condition, expires_at: None }],
        ..event(1)
    };
    let refused = bench.apply(write_command(1, &set(Condition::MustExist)));
    assert!(matches!(&refused, Outcome::Refused(refusal) if refusal.code == RefusalCode::KeyNotFound));
    bench.apply(write_command(2, &set(Condition::None)));
    assert_eq!(first_of(bench.apply(write_command(1, &set(Condition::MustExist)))), refused);
    let new_key = bench.apply(write_command(3, &set(Condition::MustExist)));
    assert!(matches!(new_key, Outcome::Committed(_)), "{new_key:?}");
}

#[test]
fn a_key_with_another_body_is_refused_and_does_not_replace_the_first() {
    let mut bench = bench();
    let first = bench.apply(write_command(1, &order()));
    let digest = bench.digest();
    for _ in 0..2 {
        let reused = bench.apply(write_command(1, &event(1)));
        assert!(
            matches!(&reused, Outcome::Refused(refusal) if refusal.code == RefusalCode::IdempotencyKeyReused),
            "{reused:?}"
        );
    }
    assert_ne!(bench.digest(), digest, "the outcomes themselves are part of the state");
    assert_eq!(first_of(bench.apply(write_command(1, &order()))), first);
    bench.restart();
    assert_eq!(first_of(bench.apply(write_command(1, &order()))), first);
}

#[test]
fn keys_belong_to_a_workspace_and_a_client() {
    let mut bench = bench();
    for write in [event(1), event(2), Write { client: "other", ..event(1) }] {
        assert!(matches!(bench.apply(write_command(1, &write)), Outcome::Committed(_)));
    }
    let other_place = Write { workspace: workspace(3), ..event(1) };
    assert!(matches!(bench.apply(write_command(1, &other_place)), Outcome::Committed(_)));
}

#[test]
fn a_key_is_known_for_exactly_its_window_of_log_time() {
    let mut bench = bench();
    let start = bench.time;
    bench.apply(write_command(1, &event(1)));
    bench.time = start + WINDOW - 1;
    assert!(matches!(bench.apply(write_command(1, &event(1))), Outcome::Duplicate { .. }));
    bench.time = start + WINDOW;
    let Outcome::Committed(again) = bench.apply(write_command(1, &event(1))) else { panic!("a new write") };
    assert_eq!((again.workspace_offset.get(), again.client_sequence.get()), (2, 2), "counters never go back");
    // From here on the second one counts, also against the first body.
    bench.time += WINDOW - 1;
    assert!(matches!(bench.apply(write_command(1, &event(1))), Outcome::Duplicate { .. }));
}

#[test]
fn buckets_go_whole_and_leave_what_still_counts() {
    let mut bench = bench();
    for key in 1..=400 {
        bench.time += 10;
        bench.apply(write_command(key, &event(key % 3)));
    }
    let known = bench.partition().known_keys();
    // A window holds 100 of them; the oldest bucket goes only once all of it is over.
    assert!((100..=130).contains(&known), "{known} keys are known");
    for key in 302..=400 {
        let again = bench.apply(write_command(key, &event(key % 3)));
        assert!(matches!(again, Outcome::Duplicate { .. }), "key {key}: {again:?}");
    }
    assert!(matches!(bench.apply(write_command(1, &event(1))), Outcome::Committed(_)));
}

#[test]
fn at_the_cap_the_oldest_go_first_if_the_namespace_says_so() {
    let mut bench = Bench::undefined();
    let mut definition = definition();
    definition.idempotency.max_keys = 80;
    definition.idempotency.at_cap = AtCap::ForgetOldest;
    bench.apply(define_command(&definition));
    for key in 1..=300 {
        bench.apply(write_command(key, &event(1)));
        assert!(bench.partition().known_keys() <= 80, "{} keys are known", bench.partition().known_keys());
    }
    assert!(matches!(bench.apply(write_command(300, &event(1))), Outcome::Duplicate { .. }));
    assert!(matches!(bench.apply(write_command(1, &event(1))), Outcome::Committed(_)), "forgotten");
    let digest = bench.digest();
    bench.lose_store();
    assert_eq!(bench.digest(), digest, "folding forgets the same");
}

#[test]
fn a_window_that_changes_counts_at_once() {
    let mut bench = bench();
    bench.apply(write_command(1, &event(1)));
    bench.time += WINDOW / 2;
    let mut shorter = short_window();
    shorter.idempotency.window_ms = WINDOW / 4;
    bench.apply(define_command(&shorter));
    assert!(matches!(bench.apply(write_command(1, &event(1))), Outcome::Committed(_)));
    bench.apply(define_command(&short_window()));
    bench.time += WINDOW - 1;
    assert!(matches!(bench.apply(write_command(1, &event(1))), Outcome::Duplicate { .. }));
}

#[test]
fn what_has_expired_is_not_brought_back_by_a_longer_window_whether_or_not_its_bucket_is_gone() {
    for dropped in [false, true] {
        let mut bench = bench();
        bench.apply(write_command(1, &event(1)));
        bench.time += WINDOW;
        if dropped {
            // Each begins another bucket; the last one drops the first.
            for key in 2..12 {
                bench.time += WINDOW / 8;
                bench.apply(write_command(key, &event(2)));
            }
            assert!(bench.partition().known_keys() < 10);
        }
        let mut longer = short_window();
        longer.idempotency.window_ms = 100 * WINDOW;
        bench.apply(define_command(&longer));
        if dropped {
            bench.lose_store();
        }
        let again = bench.apply(write_command(1, &event(1)));
        assert!(matches!(again, Outcome::Committed(_)), "dropped: {dropped}, {again:?}");
        // What had not expired has the longer window from now on.
        bench.time += 50 * WINDOW;
        let again = bench.apply(write_command(1, &event(1)));
        assert!(matches!(again, Outcome::Duplicate { .. }), "dropped: {dropped}, {again:?}");
    }
}

#[test]
fn a_bucket_that_came_back_changes_no_outcome() {
    let disk = Arc::new(MemoryIo::new());
    let mut bench = Bench::on(disk.clone(), options());
    let mut other = Bench::undefined();
    for key in 0..40 {
        let command = if key == 0 { define_command(&short_window()) } else { write_command(key, &order()) };
        (bench.time, other.time) = (1000 + key * 100, 1000 + key * 100);
        assert_eq!(bench.apply(command.clone()), other.apply(command));
    }
    // One replica has a bucket again that the other one dropped long ago, with a row for a key that expired.
    bench.partition().checkpoint().unwrap();
    bench.stop();
    let dir = format!("{DIR}/store");
    let (mut store, opened) = Store::open(disk, dir, options().store, &options().budget).unwrap();
    let row = store.find_in_buckets(&remembered_key(39)).unwrap().unwrap().1;
    let mut old = row.to_vec();
    old[16..24].copy_from_slice(&2_u64.to_le_bytes());
    old[24..].copy_from_slice(&1100_u64.to_le_bytes());
    let mut batch = Batch::new();
    batch.put_in(BucketId(1100), &remembered_key(1), &old).unwrap();
    store.apply(&batch).unwrap();
    store.checkpoint(opened.offset, Synced::by_a_sync_up_to(opened.offset)).unwrap();
    drop(store);
    bench.open();
    assert_ne!(bench.digest(), other.digest());
    for key in [39, 1, 38, 1] {
        let command = write_command(key, &order());
        assert_eq!(bench.apply(command.clone()), other.apply(command), "key {key}");
    }
    assert_eq!(bench.digest(), other.digest(), "the bucket is dropped again");
}

/// A snapshot is the rows of a view; a replica that starts from one, and from the log behind it, knows every key.
#[test]
fn the_window_is_part_of_a_snapshot() {
    let disk = Arc::new(MemoryIo::new());
    let mut bench = Bench::on(disk.clone(), options());
    bench.apply(define_command(&short_window()));
    let first = bench.apply(write_command(1, &order()));
    let refused = bench.apply(write_command(2, &Write { expected_offset: Some(9), ..event(1) }));
    for key in 3..60 {
        bench.time += 15;
        bench.apply(write_command(key, &event(2)));
    }
    let view = bench.partition().view().unwrap();
    let mut batch = Batch::new();
    for row in view.rows() {
        match row.unwrap() {
            (Space::Main, key, value) => batch.put(&key, &value).unwrap(),
            (Space::Bucket(bucket), key, value) => batch.put_in(bucket, &key, &value).unwrap(),
        }
    }
    let offset = Offset::new(view.applied().unwrap().get());
    drop(view);
    bench.partition().sync().unwrap();
    bench.stop();
    // The same log, and another store, made of nothing but these rows.
    Store::discard(disk.clone(), format!("{DIR}/store")).unwrap();
    let (mut store, _) =
        Store::open(disk, format!("{DIR}/store"), options().store, &options().budget).unwrap();
    store.apply(&batch).unwrap();
    store.checkpoint(offset, Synced::by_a_sync_up_to(offset)).unwrap();
    drop(store);
    assert_eq!(bench.open().folded, 0);
    assert_eq!(first_of(bench.apply(write_command(1, &order()))), first);
    let again = bench.apply(write_command(2, &Write { expected_offset: Some(9), ..event(1) }));
    assert_eq!(first_of(again), refused);
    bench.time += WINDOW;
    assert!(matches!(bench.apply(write_command(1, &order())), Outcome::Committed(_)));
}

/// The key of a row in a bucket, as `docs/format.md` has it.
fn remembered_key(key: u64) -> Vec<u8> {
    [&1_u64.to_be_bytes()[..], idempotency_key(key).as_bytes(), b"till"].concat()
}

/// A model of the rule alone: what is known, since when, and what the outcome was.
#[derive(Default)]
struct Known(BTreeMap<(u64, u64), (u64, u64, Outcome)>);

impl Known {
    fn check(&mut self, time: u64, id: u64, key: u64, body: u64, outcome: &Outcome) {
        match self.0.get(&(id, key)) {
            Some((since, known, first)) if time - since < WINDOW => match outcome {
                Outcome::Duplicate { first: again, .. } => {
                    assert_eq!((*known, &**again), (body, first), "key {key} of workspace {id}");
                }
                Outcome::Refused(refusal) if refusal.code == RefusalCode::IdempotencyKeyReused => {
                    assert_ne!(*known, body, "key {key} of workspace {id}");
                }
                other => panic!("key {key} of workspace {id} was decided twice: {first:?}, {other:?}"),
            },
            _ => {
                let decided = matches!(outcome, Outcome::Committed(_))
                    || matches!(outcome, Outcome::Refused(refusal) if refusal.code == RefusalCode::OffsetMismatch);
                assert!(decided, "key {key} of workspace {id} is new: {outcome:?}");
                self.0.insert((id, key), (time, body, outcome.clone()));
            }
        }
    }
}

#[test]
fn random_retries_reuses_expiries_and_restarts_never_decide_a_key_twice() {
    for seed in 0..40 {
        let mut rng = Rng::with_seed(seed);
        let mut bench = bench();
        let mut known = Known::default();
        let mut repeated = 0;
        for _ in 0..300 {
            bench.time += if rng.u8(..4) == 0 { rng.u64(..WINDOW / 2) } else { rng.u64(..20) };
            let (id, key, body) = (rng.u64(..3), rng.u64(1..12), rng.u64(..3));
            let payload = vec![b'x'; usize::try_from(body).unwrap()];
            let expected_offset = (body == 2).then_some(3);
            let write = Write { payload: &payload, expected_offset, ..event(id) };
            let outcome = bench.apply(write_command(key, &write));
            known.check(bench.time, id, key, body, &outcome);
            repeated += u32::from(matches!(outcome, Outcome::Duplicate { .. }));
            match rng.u8(..40) {
                0 => drop(bench.restart()),
                1 => bench.partition().checkpoint().unwrap(),
                2 => bench.lose_store(),
                _ => {}
            }
        }
        assert!(repeated > 5, "seed {seed}: {repeated} duplicates");
    }
}

#[test]
fn the_window_comes_back_from_headers_alone() {
    let io: Arc<dyn Io> = Arc::new(MemoryIo::new());
    let mut bench = Bench::on(io, options());
    bench.apply(define_command(&short_window()));
    for key in 1..50 {
        bench.apply(write_command(key, &order()));
    }
    let digest = bench.digest();
    bench.partition().flush().unwrap();
    bench.lose_store();
    assert_eq!(bench.digest(), digest);
    assert!(matches!(bench.apply(write_command(7, &order())), Outcome::Duplicate { .. }));
}
