//! A partition on a disk of memory, and short ways to say what is written to it.

#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod commands;

use std::num::NonZeroU16;
use std::sync::Arc;

use gapless_log::Drive;
use gapless_log::io::Io;
use gapless_log::io::memory::MemoryIo;
use gapless_partition::{
    ApplyError, Command, Committed, Definition, Opened, Options, Outcome, Partition, Record, Refusal, Write,
};
use gapless_types::{
    IdempotencyKey, LogIndex, MachineVersion, Name, NamespaceId, PartitionId, PartitionIndex,
    PartitionOffset, WorkspaceId,
};

pub(crate) const DIR: &str = "partition";
pub(crate) const ID: PartitionId =
    PartitionId { namespace: NamespaceId::new(7), index: PartitionIndex::new(0) };

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// Options for tests: small segments, nothing that runs by itself.
pub(crate) fn options() -> Options {
    let mut options = Options::new();
    options.log.drive = Drive::Caller;
    options.log.first_segment_bytes = 64 << 10;
    options.log.segment_bytes = 256 << 10;
    options.log.log_id = Some(gapless_log::LogId::from_bytes([5; 16]));
    options
}

/// A namespace of one partition with sequences, a second kind and singletons.
pub(crate) fn definition() -> Definition {
    let mut definition = Definition::new(name("shop"), NonZeroU16::new(1).unwrap());
    let sequences = |list: &[(&str, u64)]| list.iter().map(|(text, first)| (name(text), *first)).collect();
    definition.kinds.insert(name("default"), sequences(&[("invoice", 1), ("credit", 5000)]));
    definition.kinds.insert(name("till"), sequences(&[("receipt", 100)]));
    for record_type in ["settings", "profile"] {
        definition.records.insert(name(record_type), gapless_partition::RecordRule { singleton: true });
    }
    definition
}

/// A command for the next record.
pub(crate) fn write_command(key: u64, write: &Write<'_>) -> Vec<u8> {
    let mut command = Vec::new();
    Command::encode_write(idempotency_key(key), write, &mut command);
    command
}

pub(crate) fn define_command(definition: &Definition) -> Vec<u8> {
    let mut command = Vec::new();
    Command::encode_definition(definition, &mut command);
    command
}

pub(crate) fn idempotency_key(key: u64) -> IdempotencyKey {
    let mut bytes = [1; 16];
    bytes[8..].copy_from_slice(&key.to_be_bytes());
    IdempotencyKey::new(bytes).unwrap()
}

/// A partition, its disk, and the replicated log that feeds it.
pub(crate) struct Bench {
    pub(crate) io: Arc<dyn Io>,
    pub(crate) options: Options,
    partition: Option<Partition>,
    /// Commands so far with their times: what the replicated log holds.
    pub(crate) commands: Vec<(u64, Vec<u8>)>,
    pub(crate) time: u64,
}

impl Bench {
    /// On an empty disk, with [`definition`] as first record.
    pub(crate) fn new() -> Self {
        let mut bench = Self::undefined();
        assert_eq!(bench.apply(define_command(&definition())), Outcome::Defined);
        bench
    }

    pub(crate) fn undefined() -> Self {
        Self::on(Arc::new(MemoryIo::new()), options())
    }

    pub(crate) fn on(io: Arc<dyn Io>, options: Options) -> Self {
        let (partition, _) = Partition::open(&io, DIR, ID, &options).unwrap();
        Self { io, options, partition: Some(partition), commands: Vec::new(), time: 1000 }
    }

    pub(crate) fn partition(&mut self) -> &mut Partition {
        self.partition.as_mut().unwrap()
    }

    /// Applies the next command of the replicated log.
    pub(crate) fn apply(&mut self, command: Vec<u8>) -> Outcome {
        let record = record(self.commands.len() as u64, self.time, &command);
        let outcome = self.partition().apply(&record).unwrap();
        self.commands.push((self.time, command));
        outcome
    }

    pub(crate) fn write(&mut self, write: &Write<'_>) -> Outcome {
        let key = self.commands.len() as u64 + 1;
        self.apply(write_command(key, write))
    }

    pub(crate) fn commit(&mut self, write: &Write<'_>) -> Committed {
        match self.write(write) {
            Outcome::Committed(committed) => committed,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn refuse(&mut self, write: &Write<'_>) -> Refusal {
        match self.write(write) {
            Outcome::Refused(refusal) => refusal,
            other => panic!("{other:?}"),
        }
    }

    /// Stops without warning and opens again; what is missing comes from the replicated log.
    pub(crate) fn restart(&mut self) -> Opened {
        self.stop();
        self.open()
    }

    /// Stops without warning.
    pub(crate) fn stop(&mut self) {
        drop(self.partition.take());
    }

    /// Opens after a stop; what is missing comes from the replicated log.
    pub(crate) fn open(&mut self) -> Opened {
        let (partition, opened) = Partition::open(&self.io, DIR, ID, &self.options).unwrap();
        self.partition = Some(partition);
        self.catch_up();
        opened
    }

    /// Closes in order and opens again.
    pub(crate) fn close_and_open(&mut self) -> Opened {
        self.partition.take().unwrap().close().unwrap();
        self.open()
    }

    /// Applies a command that may fail; then it is not part of the replicated log.
    pub(crate) fn try_apply(&mut self, command: &[u8]) -> Result<Outcome, ApplyError> {
        let record = record(self.commands.len() as u64, self.time, command);
        let outcome = self.partition().apply(&record)?;
        self.commands.push((self.time, command.to_vec()));
        Ok(outcome)
    }

    /// Loses the store: what it held is folded from the log.
    pub(crate) fn lose_store(&mut self) {
        // A quarantined partition has nothing to flush.
        let _ = self.partition().flush();
        self.stop();
        Partition::rebuild(&self.io, DIR).unwrap();
        self.restart();
    }

    /// Applies what the partition has not got yet.
    pub(crate) fn catch_up(&mut self) {
        let commands = std::mem::take(&mut self.commands);
        let next = self.partition().next_offset().get() - 1;
        for (at, (time, command)) in commands.iter().enumerate().skip(usize::try_from(next).unwrap()) {
            self.partition().apply(&record(at as u64, *time, command)).unwrap();
        }
        self.commands = commands;
    }

    pub(crate) fn digest(&mut self) -> [u8; 32] {
        self.partition().state_digest().unwrap()
    }
}

/// The record at a place of the replicated log; the partition's offsets start at 1.
pub(crate) fn record(at: u64, time: u64, command: &[u8]) -> Record<'_> {
    let (offset, log_index) = (PartitionOffset::new(at + 1).unwrap(), LogIndex::new(10 + at));
    Record { offset, log_index, time, machine_version: MachineVersion::FIRST, command }
}

pub(crate) const fn workspace(id: u64) -> WorkspaceId {
    WorkspaceId::new(id)
}

/// A plain event.
pub(crate) fn event(id: u64) -> Write<'static> {
    Write { payload: b"{}", ..Write::new(workspace(id), "till", "ItemSold") }
}
