//! A sequencer with a storage in memory, and the one who appends events to its log.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::sync::Arc;
use std::time::Duration;

use gapless_sequencer::memory::{MemoryError, MemoryStorage};
use gapless_sequencer::{
    Busy, Drive, ManualClock, NextError, Params, SequenceValue, Sequencer, StartError, Transaction,
};
use gapless_types::{PartitionOffset, SequenceId, WorkspaceId, WorkspaceKind};

pub const KIND: WorkspaceKind = WorkspaceKind::new(1);
pub const OTHER_KIND: WorkspaceKind = WorkspaceKind::new(2);

pub fn workspace(id: u64) -> WorkspaceId {
    WorkspaceId::new(id)
}

pub fn sequence(id: u16) -> SequenceId {
    SequenceId::new(id)
}

pub fn offset(value: u64) -> PartitionOffset {
    PartitionOffset::new(value).unwrap()
}

pub fn value(workspace: u64, sequence: u16, number: u64) -> SequenceValue {
    SequenceValue { workspace: WorkspaceId::new(workspace), sequence: SequenceId::new(sequence), number }
}

/// Sequences 1 to 8 that begin with 1, and sequence 9, of record ids.
pub fn params() -> Params {
    let sequences = (1..=8).map(|id| (sequence(id), 1)).chain([(sequence(9), 200_001)]);
    Params::new().with_kind(KIND, sequences)
}

/// A sequencer that its caller drives, on a clock that is moved by hand.
pub struct Stepped {
    pub sequencer: Sequencer<MemoryStorage>,
    pub storage: MemoryStorage,
    pub clock: Arc<ManualClock>,
    pub params: Params,
}

impl Stepped {
    pub fn new(storage: &MemoryStorage, params: Params) -> Self {
        let clock = Arc::new(ManualClock::default());
        let params = Params { clock: clock.clone(), ..params };
        let storage = storage.successor();
        let sequencer = Sequencer::new(params.clone(), storage.clone(), Drive::Caller).unwrap();
        Self { sequencer, storage, clock, params }
    }

    /// Ready for a first transaction.
    pub fn ready(storage: &MemoryStorage, params: Params) -> Self {
        let mut stepped = Self::new(storage, params);
        stepped.settle();
        stepped
    }

    /// Lets time pass and the background work do all it can in it.
    pub fn settle(&mut self) {
        for _ in 0..20 {
            self.sequencer.run_background();
            self.clock.advance(Duration::from_millis(100));
        }
        self.sequencer.run_background();
    }

    pub fn start(&mut self, id: u64) -> Result<Transaction<'_, MemoryStorage>, StartError> {
        self.sequencer.start(KIND, workspace(id))
    }

    /// A whole event: its numbers are taken, it is appended, the transaction flushed. The offset and the numbers.
    pub fn event(&mut self, id: u64, sequences: &[u16]) -> (u64, Vec<u64>) {
        let storage = self.storage.clone();
        let mut transaction = self.start(id).unwrap();
        let numbers: Vec<u64> = sequences.iter().map(|id| transaction.next(sequence(*id)).unwrap()).collect();
        let values: Vec<_> =
            sequences.iter().zip(&numbers).map(|(seq, number)| value(id, *seq, *number)).collect();
        let offset = transaction.offset();
        storage.append(offset, values);
        transaction.flush();
        (offset.get(), numbers)
    }

    /// The number that a transaction would get, which is then given up.
    pub fn peek(&mut self, id: u64, seq: u16) -> Result<u64, NextError<MemoryError>> {
        let number = self.start(id).unwrap().next(sequence(seq));
        self.settle();
        number
    }

    pub fn busy(&mut self) -> Option<Busy> {
        let reason = match self.start(1) {
            Ok(transaction) => {
                transaction.actualize();
                None
            }
            Err(StartError::Busy(reason)) => Some(reason),
            Err(other) => panic!("{other}"),
        };
        if reason.is_none() {
            self.settle();
        }
        reason
    }
}

/// Waits until it is true; the bound only ends a test that hangs.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..20_000 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("not within 20 s: {what}");
}
