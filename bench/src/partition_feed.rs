//! A partition that is fed records as fast as it takes them, and how long that takes.

use std::collections::HashSet;
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fastrand::Rng;
use gapless_log::io::Io;
use gapless_log::io::real::RealIo;
use gapless_partition::{
    Command, Condition, Definition, NewId, Opened, Operation, Options, Outcome, Partition, Record,
    TrustLevel, Value, View, Write,
};
use gapless_store::Budget;
use gapless_types::{
    IdempotencyKey, LogIndex, MachineVersion, Name, NamespaceId, PartitionId, PartitionIndex, WorkspaceId,
};
use rustix::time::{ClockId, clock_gettime};

const ID: PartitionId = PartitionId { namespace: NamespaceId::new(1), index: PartitionIndex::new(0) };
const PAYLOAD: [u8; 256] = [b'x'; 256];
/// Keys that conditional sets go to, in each workspace.
const KEYS: usize = 16;

/// What an event does besides being one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Plain,
    ThreeRecords,
    ConditionalSet,
}

/// Which workspace an event goes to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    Random(u64),
    /// Each in turn.
    InTurn(u64),
}

/// How long something took: on the clock, and on the processor for this thread alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    pub(crate) elapsed: Duration,
    pub(crate) cpu: Duration,
}

pub(crate) struct Feed {
    partition: Partition,
    rng: Rng,
    count: u64,
    command: Vec<u8>,
    /// Workspaces that conditional sets went to.
    seen: HashSet<u64>,
}

impl Feed {
    /// Opens the partition in a directory, with this much memory for rows that no checkpoint has yet and for blocks.
    pub(crate) fn open(dir: &Path, memtable_bytes: u64, cache_bytes: u64) -> Result<(Self, Opened)> {
        Self::open_at(dir, memtable_bytes, cache_bytes, TrustLevel::default())
    }

    /// The same; a new partition gets this trust level.
    pub(crate) fn open_at(
        dir: &Path,
        memtable_bytes: u64,
        cache_bytes: u64,
        level: TrustLevel,
    ) -> Result<(Self, Opened)> {
        let io: Arc<dyn Io> = Arc::new(RealIo);
        let mut options = Options::new();
        options.budget = Budget::new(memtable_bytes, cache_bytes);
        options.store.memtable_bytes = memtable_bytes / 2;
        let (partition, opened) = Partition::open(&io, dir, ID, &options)?;
        let count = partition.next_offset().get() - 1;
        let mut feed = Self {
            partition, // Another seed at each opening: a key that comes again is a retry.
            rng: Rng::with_seed(count + 1),
            count,
            command: Vec::new(),
            seen: HashSet::new(),
        };
        if count == 0 {
            feed.define(level)?;
        }
        Ok((feed, opened))
    }

    fn define(&mut self, trust_level: TrustLevel) -> Result<()> {
        let definition = Definition { trust_level, ..Definition::new(Name::new("bench")?, NonZeroU16::MIN) };
        self.command.clear();
        Command::encode_definition(&definition, &mut self.command);
        match self.apply()? {
            Outcome::Defined => Ok(()),
            other => bail!("the namespace cannot be defined: {other:?}"),
        }
    }

    /// Applies `count` events. Making them is not counted, checkpoints that are due are.
    pub(crate) fn feed(&mut self, shape: Shape, order: Order, count: u64) -> Result<Took> {
        let mut took = Took { elapsed: Duration::ZERO, cpu: Duration::ZERO };
        // In pieces, so that asking for the time costs nothing next to what is timed.
        let mut left = count;
        while left > 0 {
            let piece = left.min(512);
            let commands: Vec<Vec<u8>> =
                (0..piece).map(|_| self.command_of(shape, order)).collect::<Result<_>>()?;
            let (start, cpu) = (Instant::now(), thread_time());
            for command in commands {
                self.command = command;
                if !matches!(self.apply()?, Outcome::Committed(_)) {
                    bail!("an event was not committed");
                }
            }
            if self.partition.wants_checkpoint() {
                self.checkpoint()?;
            }
            took.elapsed += start.elapsed();
            took.cpu += thread_time().saturating_sub(cpu);
            left -= piece;
        }
        Ok(took)
    }

    /// Everything that can be read.
    pub(crate) fn view(&mut self) -> Result<View> {
        Ok(self.partition.view()?)
    }

    /// Idempotency keys that are known.
    pub(crate) fn known_keys(&self) -> u64 {
        self.partition.known_keys()
    }

    /// A checkpoint, and all the merging that is due after it.
    pub(crate) fn checkpoint(&mut self) -> Result<()> {
        self.partition.checkpoint()?;
        while self.partition.maintain()? {}
        Ok(())
    }

    pub(crate) fn close(self) -> Result<()> {
        Ok(self.partition.close()?)
    }

    /// Whether nothing was written to a workspace yet.
    fn is_new(&mut self, workspace: u64) -> bool {
        self.seen.insert(workspace)
    }

    fn apply(&mut self) -> Result<Outcome> {
        let offset = self.partition.next_offset();
        self.count = offset.get();
        let (log_index, machine_version) = (LogIndex::new(self.count), MachineVersion::NEWEST);
        let record = Record { offset, log_index, time: self.count, machine_version, command: &self.command };
        Ok(self.partition.apply(&record)?)
    }

    fn command_of(&mut self, shape: Shape, order: Order) -> Result<Vec<u8>> {
        let number = self.rng.u64(..);
        let workspace = match order {
            Order::Random(workspaces) => number % workspaces,
            Order::InTurn(workspaces) => {
                self.count += 1;
                self.count % workspaces
            }
        };
        let entity = format!("entity {}", self.rng.usize(..KEYS));
        let operations = match shape {
            Shape::Plain => Vec::new(),
            Shape::ThreeRecords => (1..=3).map(record).collect(),
            Shape::ConditionalSet => vec![
                Operation::SetEntity {
                    key: entity.as_bytes(),
                    value: &PAYLOAD[..32],
                    condition: Condition::None,
                    expires_at: None,
                },
                // It holds whatever came before, and is looked up all the same.
                Operation::SetEntity {
                    key: b"the same",
                    value: b"for ever",
                    condition: if self.is_new(workspace) {
                        Condition::None
                    } else {
                        Condition::ValueEquals(b"for ever")
                    },
                    expires_at: None,
                },
            ],
        };
        let write = Write {
            payload: &PAYLOAD,
            operations,
            ..Write::new(WorkspaceId::new(workspace), "bench", "ItemSold")
        };
        let mut key = [1; 16];
        key[..8].copy_from_slice(&self.rng.u64(..).to_le_bytes());
        let mut command = Vec::with_capacity(512);
        Command::encode_write(IdempotencyKey::new(key).context("a key of ones")?, &write, &mut command);
        Ok(command)
    }
}

fn record(raw: u16) -> Operation<'static> {
    Operation::CreateRecord {
        id: NewId::Raw(raw),
        record_type: "line",
        fields: vec![("amount", Value::Integer(3)), ("article", Value::Text("bread"))],
        parent: (raw > 1).then_some(1),
    }
}

pub(crate) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}
