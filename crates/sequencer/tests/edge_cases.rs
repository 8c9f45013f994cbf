//! The seven edge cases of the design that this sequencer comes from.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::time::Duration;

use gapless_sequencer::memory::{Call, Disturbance, MemoryStorage};
use gapless_sequencer::{Busy, Drive, Ending, Params, Sequencer, StartError};
use support::{KIND, Stepped, offset, params, sequence, until, value, workspace};

#[test]
fn new_must_start_actualization() {
    let storage = MemoryStorage::new();
    storage.append(offset(1), [value(1, 1, 100)]);
    storage.disturb(Call::Scan, Disturbance::Block);
    let mut sequencer = Sequencer::new(params(), storage.clone(), Drive::OS_THREAD).unwrap();
    until("a scan has begun", || storage.blocked(Call::Scan) == 1);
    assert_eq!(sequencer.start(KIND, workspace(1)).unwrap_err(), Busy::Actualizing.into());
    storage.heal(Call::Scan);
    sequencer.wait_ready(Duration::from_secs(60)).unwrap();
    let mut transaction = sequencer.start(KIND, workspace(1)).unwrap();
    assert_eq!((transaction.offset(), transaction.next(sequence(1)).unwrap()), (offset(2), 101));
}

/// The log holds from 0 to 10 times as many values as may be unflushed.
#[test]
fn long_recovery() {
    const MAX_UNFLUSHED: usize = 5;
    for records in 0..=MAX_UNFLUSHED as u64 * 10 {
        let storage = MemoryStorage::new();
        for number in 1..=records {
            storage.append(offset(number), [value(number, 1, 2 * number), value(number, 2, 3 * number)]);
        }
        let params = Params { max_unflushed: MAX_UNFLUSHED, ..params() };
        let mut stepped = Stepped::new(&storage, params);
        while stepped.sequencer.statistics().work.actualizations == 0 {
            let unflushed = stepped.sequencer.statistics().unflushed_values;
            assert!(
                unflushed <= MAX_UNFLUSHED + 2,
                "{unflushed} values: at most one record beyond the limit"
            );
            stepped.sequencer.step_background();
            stepped.clock.advance(Duration::from_millis(1));
        }
        stepped.settle();
        for number in 1..=records {
            assert_eq!(
                stepped.event(number, &[1, 2]),
                (records + number, vec![2 * number + 1, 3 * number + 1])
            );
            stepped.settle();
        }
    }
}

/// The same while the storage takes nothing: recovery waits, and goes on when it heals.
#[test]
fn long_recovery_is_throttled_while_the_set_is_full() {
    let storage = MemoryStorage::new();
    for number in 1..=50 {
        storage.append(offset(number), [value(number, 1, 1)]);
    }
    storage.disturb(Call::Write, Disturbance::Fail);
    let mut stepped = Stepped::new(&storage, Params { max_unflushed: 5, ..params() });
    stepped.settle();
    assert_eq!(stepped.busy(), Some(Busy::Actualizing));
    let statistics = stepped.sequencer.statistics();
    assert_eq!((statistics.unflushed_values, statistics.work.scanned_records), (6, 6));
    assert!(statistics.work.throttled > 1);
    storage.heal(Call::Write);
    stepped.settle();
    assert_eq!(stepped.event(50, &[1]), (51, vec![2]));
}

#[test]
fn a_hundred_random_flushes_and_actualizations() {
    for seed in 0..20_u64 {
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let storage = MemoryStorage::new();
        storage.append(offset(1), [value(1, 1, 100)]);
        let params = Params { max_unflushed: 10, ..params() }.with_cache_entries(100);
        let mut sequencer = Sequencer::new(params, storage.clone(), Drive::OS_THREAD).unwrap();
        let (mut last_offset, mut last_number) = (1, 100);
        for _ in 0..100 {
            sequencer.wait_ready(Duration::from_secs(60)).unwrap();
            let mut transaction = sequencer.start(KIND, workspace(1)).unwrap();
            assert_eq!(transaction.offset(), offset(last_offset + 1), "seed {seed}");
            assert_eq!(transaction.next(sequence(1)).unwrap(), last_number + 1, "seed {seed}");
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            if random.is_multiple_of(2) {
                (last_offset, last_number) = (last_offset + 1, last_number + 1);
                storage.append(offset(last_offset), [value(1, 1, last_number)]);
                transaction.flush();
            } else {
                transaction.actualize();
            }
        }
    }
}

#[test]
fn writes_fail_permanently() {
    let storage = MemoryStorage::new();
    storage.append(offset(1), [value(1, 1, 100)]);
    storage.disturb(Call::Write, Disturbance::Fail);
    let mut stepped = Stepped::ready(&storage, Params { max_unflushed: 5, ..params() });
    for seq in 1..=6 {
        assert_eq!(stepped.event(1, &[seq]).0, u64::from(seq) + 1);
        stepped.settle();
    }
    for _ in 0..100 {
        assert_eq!(stepped.busy(), Some(Busy::TooManyUnflushed));
        stepped.settle();
    }
    assert!(stepped.sequencer.statistics().work.write_retries > 100);
    storage.heal(Call::Write);
    stepped.settle();
    assert_eq!(
        stepped.event(1, &[1, 2, 3, 4, 5, 6]),
        (8, vec![102, 2, 2, 2, 2, 2]),
        "nothing accepted is lost"
    );

    storage.disturb(Call::Write, Disturbance::Fail);
    assert_eq!(stepped.sequencer.close(), Ending::Stopped, "although writes fail for ever");
    let mut sequencer = Sequencer::new(params(), storage.successor(), Drive::OS_THREAD).unwrap();
    sequencer.wait_ready(Duration::from_secs(60)).unwrap();
    let number = sequencer.start(KIND, workspace(1)).unwrap().next(sequence(1));
    assert_eq!(number.unwrap(), 103, "the log had it");
    assert_eq!(sequencer.close(), Ending::Stopped, "a thread, too");
}

#[test]
fn overflow_is_refused_and_heals() {
    let storage = MemoryStorage::new();
    let params = Params { max_unflushed: 5, ..params() };
    let mut sequencer = Sequencer::new(params, storage.clone(), Drive::OS_THREAD).unwrap();
    sequencer.wait_ready(Duration::from_secs(60)).unwrap();
    storage.disturb(Call::Write, Disturbance::Block);
    let mut transaction = sequencer.start(KIND, workspace(1)).unwrap();
    for seq in 1..=6 {
        transaction.next(sequence(seq)).unwrap();
    }
    storage.append(offset(1), (1..=6).map(|seq| value(1, seq, 1)).collect::<Vec<_>>());
    transaction.flush();
    until("the write has begun", || storage.blocked(Call::Write) == 1);
    let refusal = sequencer.start(KIND, workspace(1)).unwrap_err();
    assert_eq!(refusal, Busy::TooManyUnflushed.into(), "what is being written counts");
    storage.heal(Call::Write);
    sequencer.wait_ready(Duration::from_secs(60)).unwrap();
    assert_eq!(sequencer.start(KIND, workspace(1)).unwrap().offset(), offset(2));
}

/// Transactions, writes and actualizations at full speed, on few values, so that every value changes while it is written.
#[test]
fn race() {
    let storage = MemoryStorage::new();
    let params = Params { max_unflushed: 4, flush_delay: Duration::ZERO, ..params() }.with_cache_entries(2);
    let mut last = [0_u64; 4];
    for life in 0..5 {
        let mut sequencer = Sequencer::new(params.clone(), storage.successor(), Drive::OS_THREAD).unwrap();
        for round in 0..2000_u64 {
            sequencer.wait_ready(Duration::from_secs(60)).unwrap();
            let id = (round * 7 + life) % 4;
            let mut transaction = sequencer.start(KIND, workspace(id)).unwrap();
            let number = transaction.next(sequence(1)).unwrap();
            let slot = &mut last[usize::try_from(id).unwrap()];
            assert_eq!(number, *slot + 1, "life {life}, round {round}");
            if round % 97 == 0 {
                continue;
            }
            *slot = number;
            storage.append(transaction.offset(), [value(id, 1, number)]);
            transaction.flush();
        }
        assert_eq!(sequencer.close(), Ending::Stopped);
        assert_eq!(storage.stored_offset(), storage.log_end().get());
        for (id, number) in (0..).zip(last) {
            assert_eq!(storage.stored_number(workspace(id), sequence(1)), number);
        }
    }
}

/// Most misuse does not compile: a second transaction beside an open one, `next` after `flush`, `flush` twice. See the
/// documentation of the crate. What is left is an error.
#[test]
fn misuse() {
    let mut stepped = Stepped::ready(&MemoryStorage::new(), params());
    let kind = gapless_types::WorkspaceKind::new(9);
    assert_eq!(stepped.sequencer.start(kind, workspace(1)).unwrap_err(), StartError::UnknownKind { kind });
    let mut transaction = stepped.start(1).unwrap();
    assert!(transaction.next(sequence(99)).is_err());
    transaction.flush();
    stepped.sequencer.close();
    stepped.sequencer.close();
    assert_eq!(stepped.start(1).unwrap_err(), StartError::Closed);
}
