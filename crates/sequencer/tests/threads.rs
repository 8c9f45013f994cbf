//! The sequencer with a thread of its own: what blocks, what dies, and how it ends.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::io;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gapless_sequencer::memory::{Call, Disturbance, MemoryError, MemoryStorage};
use gapless_sequencer::{
    Busy, Drive, Ending, Fault, NewError, Params, SequenceValue, Sequencer, Spawn, StartError, Storage,
};
use gapless_types::{PartitionOffset, SequenceId, WorkspaceId};
use support::{KIND, offset, params, sequence, until, value, workspace};

const LONG: Duration = Duration::from_secs(60);

fn ready(storage: &MemoryStorage, params: Params) -> Sequencer<MemoryStorage> {
    let mut sequencer = Sequencer::new(params, storage.clone(), Drive::OS_THREAD).unwrap();
    sequencer.wait_ready(LONG).unwrap();
    sequencer
}

#[test]
fn what_is_flushed_is_written_without_anybody_asking() {
    let storage = MemoryStorage::new();
    let mut sequencer = ready(&storage, params());
    for number in 1..=3 {
        let mut transaction = sequencer.start(KIND, workspace(1)).unwrap();
        assert_eq!(transaction.next(sequence(1)).unwrap(), number);
        storage.append(transaction.offset(), [value(1, 1, number)]);
        transaction.flush();
        until("stored", || storage.stored_offset() == number + 1);
        assert_eq!(storage.stored_number(workspace(1), sequence(1)), number);
    }
}

#[test]
fn a_write_that_blocks_does_not_block_transactions() {
    let storage = MemoryStorage::new();
    let mut sequencer = ready(&storage, params());
    storage.disturb(Call::Write, Disturbance::Block);
    for number in 1..=100 {
        let mut transaction = sequencer.start(KIND, workspace(1)).unwrap();
        assert_eq!(transaction.next(sequence(1)).unwrap(), number);
        storage.append(transaction.offset(), [value(1, 1, number)]);
        transaction.flush();
    }
    until("a write has begun", || storage.blocked(Call::Write) == 1);
    sequencer.drop_cache();
    assert_eq!(sequencer.start(KIND, workspace(1)).unwrap().next(sequence(1)).unwrap(), 101);
    storage.heal(Call::Write);
    sequencer.wait_ready(LONG).unwrap();
    assert_eq!(sequencer.start(KIND, workspace(1)).unwrap().offset(), offset(101));
}

#[test]
fn closing_leaves_a_call_behind_that_does_not_return_and_the_successor_keeps_it_out() {
    for blocked in [Call::Write, Call::Scan, Call::ReadNextOffset] {
        let storage = MemoryStorage::new();
        storage.append(offset(1), [value(1, 1, 1)]);
        storage.disturb(blocked, Disturbance::Block);
        let params = Params { close_timeout: Duration::from_millis(20), ..params() };
        let mut sequencer = Sequencer::new(params.clone(), storage.clone(), Drive::OS_THREAD).unwrap();
        until("blocked", || storage.blocked(blocked) == 1);
        assert_eq!(sequencer.close(), Ending::Detached);
        assert_eq!(sequencer.close(), Ending::Detached);
        assert_eq!(sequencer.start(KIND, workspace(1)).unwrap_err(), StartError::Closed);

        let next = storage.successor();
        storage.append(offset(2), [value(1, 1, 2)]);
        storage.heal(blocked);
        until("nothing is blocked", || storage.blocked(blocked) == 0);
        let mut sequencer = Sequencer::new(params, next, Drive::OS_THREAD).unwrap();
        sequencer.wait_ready(LONG).unwrap();
        let mut transaction = sequencer.start(KIND, workspace(1)).unwrap();
        assert_eq!((transaction.offset(), transaction.next(sequence(1)).unwrap()), (offset(3), 3));
    }
}

#[test]
fn waiting_ends_with_the_reason_when_time_is_up() {
    let storage = MemoryStorage::new();
    storage.disturb(Call::Scan, Disturbance::Block);
    let mut sequencer = Sequencer::new(params(), storage.clone(), Drive::OS_THREAD).unwrap();
    assert_eq!(sequencer.wait_ready(Duration::ZERO).unwrap_err(), Busy::Actualizing.into());
    assert_eq!(sequencer.wait_ready(Duration::from_millis(5)).unwrap_err(), Busy::Actualizing.into());
    storage.heal(Call::Scan);
}

#[test]
fn slow_calls_only_take_longer() {
    let pauses = Arc::new(Mutex::new(0));
    let counted = pauses.clone();
    let storage = MemoryStorage::with_pause(move |_| *counted.lock().unwrap() += 1);
    for call in Call::ALL {
        storage.disturb(call, Disturbance::Slow(Duration::from_secs(3600)));
    }
    let mut sequencer = ready(&storage, params());
    let mut transaction = sequencer.start(KIND, workspace(1)).unwrap();
    assert_eq!(transaction.next(sequence(1)).unwrap(), 1);
    transaction.flush();
    assert_eq!(sequencer.close(), Ending::Stopped);
    assert_eq!(storage.stored_offset(), 2);
    assert!(*pauses.lock().unwrap() >= 4);
}

/// A storage with a bug.
struct Panicking;

impl Storage for Panicking {
    type Error = MemoryError;

    fn read_numbers(&self, _: WorkspaceId, _: &[SequenceId], _: &mut [u64]) -> Result<(), MemoryError> {
        Ok(())
    }

    fn read_next_offset(&self) -> Result<Option<PartitionOffset>, MemoryError> {
        Ok(None)
    }

    fn write(&self, _: &[SequenceValue], _: PartitionOffset) -> Result<(), MemoryError> {
        panic!("a bug in the storage, as this test wants it");
    }

    fn scan(
        &self,
        from: PartitionOffset,
        _: &mut dyn FnMut(PartitionOffset, &[SequenceValue]) -> ControlFlow<()>,
    ) -> Result<PartitionOffset, MemoryError> {
        Ok(from)
    }
}

#[test]
fn a_panic_in_the_storage_is_told_and_nobody_waits_for_ever() {
    let mut sequencer = Sequencer::new(params(), Panicking, Drive::OS_THREAD).unwrap();
    sequencer.wait_ready(LONG).unwrap();
    sequencer.start(KIND, workspace(1)).unwrap().flush();
    let failed = StartError::Failed(Fault::Panicked);
    until("the panic is known", || sequencer.statistics().last_error.is_some());
    assert_eq!(sequencer.start(KIND, workspace(1)).unwrap_err(), failed);
    assert_eq!(sequencer.wait_ready(LONG).unwrap_err(), failed);
    assert_eq!(sequencer.close(), Ending::Stopped);
}

/// A machine without threads to spare.
struct NoThreads;

impl Spawn for NoThreads {
    fn spawn(&self, _: &str, _: Box<dyn FnOnce() + Send>) -> io::Result<()> {
        Err(io::Error::other("no threads"))
    }
}

#[test]
fn without_a_thread_there_is_no_sequencer() {
    let refused = Sequencer::new(params(), MemoryStorage::new(), Drive::Thread(&NoThreads));
    assert!(matches!(refused, Err(NewError::Spawn(_))));
}
