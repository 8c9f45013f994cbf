//! Every rule of the sequencer, one at a time, with every step decided by the test.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::ops::ControlFlow;
use std::time::Duration;

use gapless_sequencer::memory::{Call, Disturbance, MemoryError, MemoryStorage};
use gapless_sequencer::{
    BackgroundStep, Busy, CacheBudget, Drive, Ending, Fault, NewError, NextError, Params, ParamsError,
    SequenceValue, Sequencer, StartError, Storage,
};
use gapless_types::{PartitionOffset, SequenceId, WorkspaceId, WorkspaceKind};
use support::{KIND, OTHER_KIND, Stepped, offset, params, sequence, value, workspace};

#[test]
fn offsets_advance_by_one_with_flush_and_stay_with_actualize() {
    let mut stepped = Stepped::ready(&MemoryStorage::new(), params());
    assert_eq!(stepped.event(1, &[1]).0, 1);
    assert_eq!(stepped.event(2, &[]).0, 2, "also when no number was taken");
    assert_eq!(stepped.start(1).unwrap().offset(), offset(3));
    stepped.settle();
    assert_eq!(stepped.event(1, &[1]), (3, vec![2]));
    stepped.settle();
    assert_eq!(
        stepped.storage.stored_offset(),
        4,
        "the offset is stored although no number changed in between"
    );
}

#[test]
fn numbers_of_abandoned_transactions_are_issued_again() {
    let mut stepped = Stepped::ready(&MemoryStorage::new(), params());
    stepped.event(1, &[1]);
    for _ in 0..3 {
        let mut transaction = stepped.start(1).unwrap();
        assert_eq!(transaction.next(sequence(1)).unwrap(), 2);
        assert_eq!(transaction.next(sequence(1)).unwrap(), 3);
        drop(transaction);
        stepped.settle();
    }
    assert_eq!(stepped.event(1, &[1]).1, [2]);
}

#[test]
fn nobody_starts_while_the_log_is_read() {
    let mut stepped = Stepped::new(&MemoryStorage::new(), params());
    assert_eq!(stepped.start(1).unwrap_err(), Busy::Actualizing.into());
    assert_eq!(stepped.sequencer.next_offset(), None);
    stepped.settle();
    stepped.start(1).unwrap().actualize();
    while stepped.sequencer.step_background() == BackgroundStep::Worked {
        if stepped.sequencer.statistics().work.actualizations < 2 {
            assert_eq!(stepped.start(1).unwrap_err(), Busy::Actualizing.into());
        }
    }
    assert_eq!(stepped.start(1).unwrap().offset(), offset(1));
    assert!(stepped.sequencer.statistics().refusals.actualizing >= 3);
}

#[test]
fn the_first_number_is_the_initial_one_whatever_the_log_and_the_store_contain() {
    let storage = MemoryStorage::new();
    storage.append(offset(1), [value(1, 9, 65_536), value(1, 9, 200_000), value(2, 9, 7)]);
    storage.set_stored_number(value(3, 9, 66_000));
    let mut stepped = Stepped::ready(&storage, params());
    for id in [1, 2, 3, 4] {
        assert_eq!(stepped.peek(id, 9).unwrap(), 200_001, "workspace {id}");
    }
    assert_eq!(stepped.storage.stored_number(workspace(1), sequence(9)), 0, "they do not reach the store");
}

#[test]
fn kinds_may_begin_the_same_sequence_elsewhere() {
    let storage = MemoryStorage::new();
    storage.append(offset(1), [value(1, 1, 70), value(2, 1, 70)]);
    let params = params().with_kind(OTHER_KIND, [(sequence(1), 100)]);
    let mut stepped = Stepped::ready(&storage, params);
    assert_eq!(stepped.peek(1, 1).unwrap(), 71);
    let number = stepped.sequencer.start(OTHER_KIND, workspace(2)).unwrap().next(sequence(1));
    assert_eq!(number.unwrap(), 100);
}

#[test]
fn explicit_ids_in_the_log_move_the_sequence_in_whatever_order() {
    for numbers in [[200_005, 300_000, 200_001], [300_000, 200_001, 200_005]] {
        let storage = MemoryStorage::new();
        storage.append(offset(1), numbers.map(|number| value(1, 9, number)));
        storage.append(offset(2), [value(1, 9, 200_900)]);
        let mut stepped = Stepped::ready(&storage, params());
        assert_eq!(stepped.event(1, &[9, 9]).1, [300_001, 300_002]);
    }
}

/// The record after the stored offset holds an id below the stored number.
#[test]
fn a_smaller_imported_id_in_the_tail_takes_nothing_back() {
    for cache_entries in [1, 100] {
        let storage = MemoryStorage::new();
        storage.append(offset(1), [value(1, 9, 300_000)]);
        storage.append(offset(2), [value(1, 9, 250_000)]);
        storage.set_stored_number(value(1, 9, 300_000));
        storage.set_stored_offset(2);
        let mut stepped = Stepped::new(&storage, params().with_cache_entries(cache_entries));
        while stepped.sequencer.statistics().work.actualizations == 0 {
            stepped.sequencer.step_background();
        }
        let mut transaction = stepped.start(1).unwrap();
        assert_eq!(transaction.next(sequence(9)).unwrap(), 300_001, "before it was flushed");
        drop(transaction);
        stepped.settle();
        assert_eq!(stepped.storage.stored_number(workspace(1), sequence(9)), 300_000);
        assert_eq!(stepped.storage.stored_offset(), 3);
        assert_eq!(stepped.peek(1, 9).unwrap(), 300_001, "after");
    }
}

#[test]
fn imported_ids_are_observed_by_their_transaction() {
    let mut stepped = Stepped::ready(&MemoryStorage::new(), params());
    let mut transaction = stepped.start(1).unwrap();
    for below in [1, 65_536, 200_000] {
        transaction.observe(sequence(9), below).unwrap();
    }
    assert_eq!(transaction.next(sequence(9)).unwrap(), 200_001);
    transaction.observe(sequence(9), 200_001).unwrap();
    assert_eq!(transaction.next(sequence(9)).unwrap(), 200_002);
    transaction.observe(sequence(9), 500_000).unwrap();
    transaction.observe(sequence(9), 400_000).unwrap();
    assert_eq!(transaction.next(sequence(9)).unwrap(), 500_001);
    assert!(matches!(transaction.observe(sequence(77), 1), Err(NextError::UnknownSequence { .. })));
    transaction.actualize();
    stepped.settle();

    let mut transaction = stepped.start(1).unwrap();
    transaction.observe(sequence(9), 300_000).unwrap();
    transaction.flush();
    stepped.storage.append(offset(1), [value(1, 9, 300_000)]);
    assert_eq!(stepped.event(1, &[9]).1, [300_001], "kept by flush, and those before forgotten by actualize");
    stepped.settle();
    assert_eq!(stepped.storage.stored_number(workspace(1), sequence(9)), 300_001);
}

#[test]
fn observed_ids_below_the_initial_number_are_not_kept() {
    let mut stepped = Stepped::ready(&MemoryStorage::new(), params());
    let mut transaction = stepped.start(1).unwrap();
    transaction.observe(sequence(9), 65_536).unwrap();
    transaction.flush();
    stepped.storage.append(offset(1), [value(1, 9, 65_536)]);
    stepped.settle();
    assert_eq!(stepped.storage.stored(), (2, Vec::new()));
}

#[test]
fn an_unknown_sequence_leaves_the_transaction_open() {
    let mut stepped = Stepped::ready(&MemoryStorage::new(), params());
    let mut transaction = stepped.start(1).unwrap();
    let error = transaction.next(sequence(10)).unwrap_err();
    assert_eq!(error.to_string(), "workspace kind 1 has no sequence 10");
    assert_eq!(transaction.next(sequence(1)).unwrap(), 1);
    transaction.flush();
    assert_eq!(stepped.sequencer.next_offset(), Some(offset(2)));
}

#[test]
fn the_last_number_and_the_last_offset_are_the_end_and_said_so() {
    let storage = MemoryStorage::new();
    storage.set_stored_number(value(1, 1, u64::MAX - 1));
    let mut stepped = Stepped::ready(&storage, params());
    let mut transaction = stepped.start(1).unwrap();
    assert_eq!(transaction.next(sequence(1)).unwrap(), u64::MAX);
    assert!(matches!(transaction.next(sequence(1)), Err(NextError::NumbersExhausted { .. })));
    assert_eq!(transaction.next(sequence(2)).unwrap(), 1);
    transaction.actualize();

    storage.set_stored_offset(u64::MAX);
    storage.let_log_trail();
    let mut stepped = Stepped::ready(&storage, params());
    assert_eq!(stepped.start(1).unwrap_err(), StartError::Failed(Fault::OffsetsExhausted));
    storage.append(PartitionOffset::MAX, []);
    let mut stepped = Stepped::ready(&storage, params());
    assert_eq!(stepped.start(1).unwrap_err(), StartError::Failed(Fault::OffsetsExhausted));
}

#[test]
fn an_empty_store_means_the_first_offset() {
    let storage = MemoryStorage::new();
    storage.append(offset(1), [value(1, 1, 5)]);
    assert_eq!(storage.stored_offset(), 0);
    let mut stepped = Stepped::ready(&storage, params());
    assert_eq!(stepped.event(1, &[1]), (2, vec![6]));
}

#[test]
fn only_the_tail_of_the_log_is_read() {
    let storage = MemoryStorage::new();
    for number in 1..=1000 {
        storage.append(offset(number), [value(1, 1, number)]);
    }
    storage.set_stored_offset(991);
    storage.set_stored_number(value(1, 1, 990));
    let mut stepped = Stepped::ready(&storage, params());
    assert_eq!(stepped.event(1, &[1]), (1001, vec![1001]));
    assert_eq!(stepped.sequencer.statistics().work.scanned_records, 10);
}

#[test]
fn replay_from_any_earlier_offset_gives_the_same() {
    for stored in 0..=4 {
        let storage = MemoryStorage::new();
        storage.append(offset(1), [value(1, 1, 1), value(2, 1, 1)]);
        storage.append(offset(2), [value(1, 1, 2), value(1, 2, 1)]);
        storage.append(offset(3), [value(2, 1, 2), value(1, 1, 3)]);
        for (id, seq, number) in [(1, 1, 3), (1, 2, 1), (2, 1, 2)] {
            storage.set_stored_number(value(id, seq, number));
        }
        storage.set_stored_offset(stored);
        let mut stepped = Stepped::ready(&storage, params().with_cache_entries(1));
        assert_eq!(stepped.event(1, &[1, 2]), (4, vec![4, 2]));
        assert_eq!(stepped.event(2, &[1]), (5, vec![3]));
    }
}

#[test]
fn one_read_brings_all_sequences_of_a_workspace() {
    let mut stepped = Stepped::ready(&MemoryStorage::new(), params());
    stepped.event(1, &[1, 2, 3]);
    stepped.event(1, &[4, 5]);
    assert_eq!(stepped.storage.calls(Call::ReadNumbers), 1);
    let hits = stepped.sequencer.statistics().hits;
    assert_eq!((hits.initial, hits.cache), (1, 4));
}

#[test]
fn numbers_come_from_the_nearest_layer() {
    let storage = MemoryStorage::new();
    storage.set_stored_number(value(1, 1, 10));
    let mut stepped = Stepped::ready(&storage, params());
    assert_eq!(stepped.event(1, &[1, 1]).1, [11, 12]);
    stepped.sequencer.drop_cache();
    assert_eq!(stepped.event(1, &[1]).1, [13], "the unflushed set knows better than the store");
    assert_eq!(stepped.event(1, &[1]).1, [14]);
    let hits = stepped.sequencer.statistics().hits;
    assert_eq!((hits.storage, hits.transaction, hits.unflushed, hits.cache, hits.initial), (1, 1, 1, 1, 0));
}

#[test]
fn evictions_change_no_number() {
    for entries in [1, 2, 3, 7, 1000] {
        let mut stepped = Stepped::ready(&MemoryStorage::new(), params().with_cache_entries(entries));
        for round in 1..=20 {
            for id in 0..10 {
                assert_eq!(stepped.event(id, &[1, 3]).1, [round, round], "{entries} entries");
            }
            if round % 5 == 0 {
                stepped.settle();
            }
        }
        assert!(stepped.sequencer.statistics().cache_entries <= entries);
    }
}

#[test]
fn sequencers_share_a_budget() {
    let budget = std::sync::Arc::new(CacheBudget::new(100));
    let shared = || Params { cache: budget.clone(), ..params() };
    let mut first = Stepped::ready(&MemoryStorage::new(), shared());
    let mut second = Stepped::ready(&MemoryStorage::new(), shared());
    for round in 1..=5 {
        for id in 0..100 {
            assert_eq!(first.event(id, &[1]).1, [round]);
            assert_eq!(second.event(id, &[1]).1, [round]);
            first.settle();
            second.settle();
        }
        let held = [&first, &second].map(|stepped| stepped.sequencer.statistics().cache_entries);
        assert!(held.iter().sum::<usize>() <= 100, "{held:?}");
        assert!(held.iter().all(|entries| *entries >= 45), "{held:?}");
    }
    drop(first);
    drop(second);
    assert_eq!(budget.free(), 100);
}

#[test]
fn a_kind_with_65_535_sequences_works() {
    let all = (1..=u16::MAX).map(|id| (sequence(id), u64::from(id)));
    let params = Params::new().with_kind(KIND, all).with_cache_entries(100);
    let mut stepped = Stepped::ready(&MemoryStorage::new(), params);
    let mut transaction = stepped.start(1).unwrap();
    for id in 1..=u16::MAX {
        assert_eq!(transaction.next(sequence(id)).unwrap(), u64::from(id));
    }
    transaction.flush();
    assert_eq!(stepped.storage.calls(Call::ReadNumbers), 1, "one read for all of them");
    assert_eq!(stepped.busy(), Some(Busy::TooManyUnflushed));
    stepped.settle();
    let mut transaction = stepped.start(1).unwrap();
    for id in [1, 2, 40_000, u16::MAX] {
        assert_eq!(transaction.next(sequence(id)).unwrap(), u64::from(id) + 1);
    }
}

#[test]
fn values_and_offset_are_written_together_and_never_ahead_of_each_other() {
    let mut stepped = Stepped::ready(&MemoryStorage::new(), params());
    for number in 1..=50 {
        stepped.event(1, &[1]);
        if number % 7 == 0 {
            stepped.clock.advance(Duration::from_millis(2));
            stepped.sequencer.run_background();
        }
        // Each event takes one number of the one sequence: the last number stored is that of the last offset stored.
        let stored = stepped.storage.stored_offset().max(1);
        assert_eq!(stepped.storage.stored_number(workspace(1), sequence(1)), stored - 1);
        assert!(stepped.storage.stored_offset() <= stepped.storage.log_end().get());
    }
}

#[test]
fn a_value_that_changed_while_it_was_written_is_not_forgotten() {
    let mut stepped = Stepped::ready(&MemoryStorage::new(), params().with_cache_entries(1));
    stepped.event(1, &[1]);
    stepped.storage.disturb(Call::Write, Disturbance::Fail);
    stepped.settle();
    stepped.event(1, &[1]);
    stepped.storage.heal(Call::Write);
    while stepped.sequencer.statistics().work.flushes == 0 {
        stepped.clock.advance(Duration::from_millis(10));
        stepped.sequencer.step_background();
    }
    assert_eq!(stepped.storage.stored_number(workspace(1), sequence(1)), 1);
    let statistics = stepped.sequencer.statistics();
    assert_eq!(
        (statistics.unflushed_values, statistics.lag),
        (1, 1),
        "one event came after that write began"
    );
    stepped.sequencer.drop_cache();
    assert_eq!(stepped.event(1, &[1]).1, [3]);
    stepped.settle();
    assert_eq!(stepped.storage.stored_number(workspace(1), sequence(1)), 3);
    assert_eq!(stepped.sequencer.statistics().unflushed_values, 0);
}

#[test]
fn one_busy_workspace_cannot_leave_the_storage_behind_without_bound() {
    let storage = MemoryStorage::new();
    let mut stepped = Stepped::ready(&storage, Params { max_lag: 10, ..params() });
    storage.disturb(Call::Write, Disturbance::Fail);
    for _ in 0..11 {
        stepped.event(1, &[1]);
        stepped.settle();
    }
    assert_eq!(stepped.sequencer.statistics().lag, 11);
    assert_eq!(stepped.busy(), Some(Busy::TooFarBehind));
    storage.heal(Call::Write);
    stepped.settle();
    assert_eq!(stepped.busy(), None, "it heals by itself");
    assert_eq!(stepped.event(1, &[1]), (12, vec![12]));
}

#[test]
fn failing_reads_are_the_transaction_s_to_handle() {
    let mut stepped = Stepped::ready(&MemoryStorage::new(), params());
    let storage = stepped.storage.clone();
    storage.disturb(Call::ReadNumbers, Disturbance::Fail);
    let mut transaction = stepped.start(1).unwrap();
    assert!(matches!(transaction.next(sequence(1)), Err(NextError::Storage(_))));
    assert!(matches!(transaction.observe(sequence(1), 7), Err(NextError::Storage(_))));
    storage.heal(Call::ReadNumbers);
    assert_eq!(transaction.next(sequence(1)).unwrap(), 1);
}

#[test]
fn a_failing_actualization_is_tried_again_from_where_it_was() {
    let storage = MemoryStorage::new();
    for number in 1..=10 {
        storage.append(offset(number), [value(number, 1, number)]);
    }
    let handle = storage.successor();
    handle.disturb_nth(Call::ReadNextOffset, 1, Disturbance::Fail);
    handle.disturb_nth(Call::Scan, 1, Disturbance::Fail);
    handle.disturb_nth(Call::ScanRecord, 4, Disturbance::Fail);
    let mut stepped = Stepped::ready(&storage, params());
    assert_eq!(stepped.event(10, &[1]), (11, vec![11]));
    let statistics = stepped.sequencer.statistics();
    assert_eq!((statistics.work.actualization_retries, statistics.work.actualizations), (3, 1));
    assert_eq!(statistics.last_error.as_deref(), Some("ScanRecord was told to fail"));
}

#[test]
fn a_cancelled_scan_is_never_an_end_of_the_log() {
    let storage = MemoryStorage::new();
    for number in 1..=5 {
        storage.append(offset(number), [value(1, 1, number)]);
    }
    storage.disturb_nth(Call::ScanRecord, 3, Disturbance::Fail);
    let mut stepped = Stepped::new(&storage, params());
    stepped.sequencer.run_background();
    assert_eq!(stepped.busy(), Some(Busy::Actualizing));
    stepped.settle();
    assert_eq!(stepped.event(1, &[1]), (6, vec![6]));
}

/// A storage whose scan takes the first record for all of them.
struct Hasty(MemoryStorage);

impl Storage for Hasty {
    type Error = MemoryError;

    fn read_numbers(
        &self,
        id: WorkspaceId,
        sequences: &[SequenceId],
        numbers: &mut [u64],
    ) -> Result<(), MemoryError> {
        self.0.read_numbers(id, sequences, numbers)
    }

    fn read_next_offset(&self) -> Result<Option<PartitionOffset>, MemoryError> {
        self.0.read_next_offset()
    }

    fn write(&self, values: &[SequenceValue], next_offset: PartitionOffset) -> Result<(), MemoryError> {
        self.0.write(values, next_offset)
    }

    fn scan(
        &self,
        from: PartitionOffset,
        batch: &mut dyn FnMut(PartitionOffset, &[SequenceValue]) -> ControlFlow<()>,
    ) -> Result<PartitionOffset, MemoryError> {
        let _ = batch(from, &[]);
        Ok(self.0.log_end())
    }
}

#[test]
fn a_scan_that_stops_short_is_never_an_end_of_the_log() {
    let storage = MemoryStorage::new();
    storage.append(offset(1), []);
    storage.append(offset(2), []);
    let mut sequencer = Sequencer::new(params(), Hasty(storage), Drive::Caller).unwrap();
    sequencer.run_background();
    let fault = Fault::ScanStoppedShort { reached: offset(2), log_end: offset(3) };
    assert_eq!(sequencer.start(KIND, workspace(1)).unwrap_err(), StartError::Failed(fault));
}

#[test]
fn a_log_with_a_gap_stops_the_sequencer() {
    let storage = MemoryStorage::new();
    storage.append(offset(1), []);
    storage.append(offset(3), []);
    let mut stepped = Stepped::ready(&storage, params());
    let fault = Fault::NotDense { expected: offset(2), delivered: offset(3) };
    assert_eq!(stepped.start(1).unwrap_err(), StartError::Failed(fault));
    assert_eq!(stepped.sequencer.close(), Ending::Stopped);
    assert_eq!(storage.stored_offset(), 0, "what a broken log gave is not stored");
}

#[test]
fn stored_numbers_ahead_of_the_log_stop_the_sequencer() {
    let storage = MemoryStorage::new();
    storage.append(offset(1), []);
    storage.set_stored_offset(3);
    let mut stepped = Stepped::ready(&storage, params());
    let fault = Fault::StoredAheadOfLog { stored: offset(3), log_end: offset(2) };
    assert_eq!(stepped.start(1).unwrap_err(), StartError::Failed(fault));
    storage.append(offset(2), []);
    let mut stepped = Stepped::ready(&storage, params());
    assert_eq!(stepped.start(1).unwrap().offset(), offset(3), "once mended, a new one goes on");
}

#[test]
fn a_long_scan_of_one_busy_workspace_is_written_on_the_way() {
    let storage = MemoryStorage::new();
    for number in 1..=40_000 {
        storage.append(offset(number), [value(1, 1, number)]);
    }
    let mut stepped = Stepped::new(&storage, params());
    let mut stored_during_scan = 0;
    while stepped.sequencer.statistics().work.actualizations == 0 {
        stepped.clock.advance(Duration::from_millis(1));
        stepped.sequencer.step_background();
        stored_during_scan = stepped.storage.stored_offset();
    }
    assert!(stored_during_scan > 10_000, "{stored_during_scan}");
    assert_eq!(stepped.event(1, &[1]), (40_001, vec![40_001]));
}

#[test]
fn actualization_forgets_what_the_log_does_not_have() {
    let mut stepped = Stepped::ready(&MemoryStorage::new(), params());
    stepped.event(1, &[1]);
    stepped.storage.disturb(Call::Write, Disturbance::Fail);
    stepped.event(1, &[1]);
    stepped.settle();
    // A write is waiting to be tried again while the order comes.
    stepped.start(1).unwrap().actualize();
    stepped.storage.heal(Call::Write);
    stepped.settle();
    assert_eq!(stepped.event(1, &[1]), (3, vec![3]));
    stepped.settle();
    assert_eq!(
        (stepped.storage.stored_number(workspace(1), sequence(1)), stepped.storage.stored_offset()),
        (3, 4)
    );
}

#[test]
fn retries_are_apart_and_endless() {
    let mut stepped = Stepped::ready(&MemoryStorage::new(), params());
    stepped.storage.disturb(Call::Write, Disturbance::Fail);
    stepped.event(1, &[1]);
    let mut waits = Vec::new();
    for _ in 0..60_000 {
        stepped.clock.advance(Duration::from_millis(1));
        if stepped.sequencer.run_background().is_some() {
            waits.push(stepped.sequencer.statistics().work.write_retries);
        }
    }
    let retries = stepped.sequencer.statistics().work.write_retries;
    assert!(
        (120..=260).contains(&retries),
        "{retries} in a minute, each at most 500 ms and at least 250 ms apart"
    );
    stepped.storage.heal(Call::Write);
    stepped.settle();
    assert_eq!(stepped.sequencer.statistics().unflushed_values, 0);
    assert!(!waits.is_empty());
}

#[test]
fn what_is_small_waits_for_more_and_what_is_much_does_not() {
    let mut stepped = Stepped::ready(&MemoryStorage::new(), Params { max_unflushed: 8, ..params() });
    stepped.event(1, &[1]);
    let until = stepped.sequencer.run_background();
    assert!(until.is_some(), "a delay passes first");
    assert_eq!(stepped.storage.stored_offset(), 0);
    stepped.event(1, &[2, 3]);
    stepped.sequencer.run_background();
    assert_eq!(stepped.storage.stored_offset(), 3, "more than a quarter of the limit");
    stepped.event(1, &[1]);
    stepped.sequencer.run_background();
    stepped.clock.advance(Duration::from_millis(1));
    stepped.sequencer.run_background();
    assert_eq!(stepped.storage.stored_offset(), 4, "the delay has passed");
}

#[test]
fn closing_writes_what_it_can_and_ends_everything() {
    let mut stepped = Stepped::ready(&MemoryStorage::new(), params());
    stepped.event(1, &[1]);
    assert_eq!(stepped.sequencer.close(), Ending::Stopped);
    assert_eq!(stepped.sequencer.close(), Ending::Stopped);
    assert_eq!(stepped.storage.stored_offset(), 2);
    assert_eq!(stepped.start(1).unwrap_err(), StartError::Closed);
    assert_eq!(stepped.sequencer.wait_ready(Duration::ZERO).unwrap_err(), StartError::Closed);
}

#[test]
fn closing_during_a_scan_stops_it() {
    let storage = MemoryStorage::new();
    for number in 1..=20_000 {
        storage.append(offset(number), []);
    }
    let mut stepped = Stepped::new(&storage, params());
    for _ in 0..3 {
        stepped.sequencer.step_background();
    }
    assert_eq!(stepped.sequencer.close(), Ending::Stopped);
    assert_eq!(stepped.sequencer.statistics().work.actualizations, 0);
    assert_eq!(storage.stored_offset(), 16_385, "as far as it came");
}

#[test]
fn a_write_that_landed_and_said_it_failed_does_no_harm() {
    let mut stepped = Stepped::ready(&MemoryStorage::new(), params());
    stepped.storage.disturb_nth(Call::Write, 1, Disturbance::FailAfter);
    stepped.event(1, &[1]);
    stepped.settle();
    assert_eq!(stepped.sequencer.statistics().work.write_retries, 1);
    assert_eq!(stepped.event(1, &[1]), (2, vec![2]));
    stepped.settle();
    assert_eq!(stepped.storage.stored_number(workspace(1), sequence(1)), 2);
}

#[test]
fn wrong_parameters_are_refused() {
    let new = |params| Sequencer::new(params, MemoryStorage::new(), Drive::Caller).map(drop);
    let refusal = |params| match new(params) {
        Err(NewError::Params(refusal)) => refusal,
        other => panic!("{other:?}"),
    };
    assert_eq!(refusal(params().with_cache_entries(0)), ParamsError::CacheSize { entries: 0 });
    let limit = ParamsError::LimitIsZero { limit: "max_unflushed" };
    assert_eq!(refusal(Params { max_unflushed: 0, ..params() }), limit);
    assert_eq!(refusal(Params { max_lag: 0, ..params() }), ParamsError::LimitIsZero { limit: "max_lag" });
    let zero = ParamsError::InitialNumberIsZero { kind: OTHER_KIND, sequence: sequence(5) };
    assert_eq!(refusal(params().with_kind(OTHER_KIND, [(sequence(5), 0)])), zero);
    assert_eq!(refusal(params().with_kind(KIND, [])), ParamsError::KindTwice { kind: KIND });
    new(Params::new()).unwrap();
}

#[test]
fn an_unknown_kind_is_misuse() {
    let mut stepped = Stepped::ready(&MemoryStorage::new(), params());
    let kind = WorkspaceKind::new(77);
    assert_eq!(stepped.sequencer.start(kind, workspace(1)).unwrap_err(), StartError::UnknownKind { kind });
}
