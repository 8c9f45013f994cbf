//! A partition on a disk in memory, with the replicated log that feeds it.

use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use gapless_log::Drive;
use gapless_log::io::Io;
use gapless_log::io::memory::MemoryIo;
use gapless_partition::{
    ApplyError, Command, Committed, Definition, Entry, NewId, Operation, Options, Outcome, Partition, Record,
    RecordRule, TrustLevel, Value, Write,
};
use gapless_store::{Batch, Offset, Store, Synced};
use gapless_types::{
    IdempotencyKey, LogIndex, MachineVersion, Name, NamespaceId, PartitionId, PartitionIndex,
    PartitionOffset, WorkspaceId,
};

const DIRECTORY: &str = "partition";
const ID: PartitionId = PartitionId { namespace: NamespaceId::new(1), index: PartitionIndex::new(0) };

pub(crate) struct World {
    io: Arc<dyn Io>,
    options: Options,
    partition: Option<Partition>,
    /// What the replicated log holds.
    commands: Vec<Vec<u8>>,
}

impl World {
    /// One namespace, one partition.
    pub(crate) fn new() -> Result<Self> {
        Self::with_trust_level(TrustLevel::CheckAll)
    }

    /// The same at a trust level.
    pub(crate) fn with_trust_level(trust_level: TrustLevel) -> Result<Self> {
        let mut definition = Definition::new(Name::new("vectors")?, NonZeroU16::MIN);
        definition.trust_level = trust_level;
        definition.records.insert(Name::new("settings")?, RecordRule { singleton: true });
        let mut command = Vec::new();
        Command::encode_definition(&definition, &mut command);
        let mut options = Options::new();
        options.log.drive = Drive::Caller;
        let mut world =
            Self { io: Arc::new(MemoryIo::new()), options, partition: None, commands: Vec::new() };
        world.restart()?;
        world.apply(command)?;
        Ok(world)
    }

    /// Workspaces 1 and 2 have each one event, which created a singleton record.
    pub(crate) fn with_setup() -> Result<Self> {
        let mut world = Self::new()?;
        for workspace in [1, 2] {
            world.commit(workspace, vec![create(NewId::Raw(1), "settings", None)])?;
        }
        Ok(world)
    }

    /// Stops without warning and opens again; what is missing comes from the replicated log.
    pub(crate) fn restart(&mut self) -> Result<()> {
        if let Some(mut partition) = self.partition.take() {
            // What a killed process had written stays; nothing of it is synced.
            partition.flush()?;
        }
        let (partition, _) = Partition::open(&self.io, DIRECTORY, ID, &self.options)?;
        self.partition = Some(partition);
        let commands = std::mem::take(&mut self.commands);
        for command in commands {
            self.apply(command)?;
        }
        Ok(())
    }

    fn apply(&mut self, command: Vec<u8>) -> Result<Outcome> {
        let at = self.commands.len() as u64;
        let offset = PartitionOffset::new(at + 1).context("offsets start at 1")?;
        let machine_version = MachineVersion::FIRST;
        let record =
            Record { offset, log_index: LogIndex::new(at), time: at, machine_version, command: &command };
        let outcome = self.partition.as_mut().context("it is open")?.apply(&record)?;
        self.commands.push(command);
        Ok(outcome)
    }

    fn write(&mut self, workspace: u64, operations: Vec<Operation<'_>>) -> Result<Outcome> {
        let write = Write { operations, ..Write::new(WorkspaceId::new(workspace), "vectors", "Written") };
        let mut key = [1; 16];
        key[8..].copy_from_slice(&(self.commands.len() as u64).to_be_bytes());
        let mut command = Vec::new();
        Command::encode_write(IdempotencyKey::new(key)?, &write, &mut command);
        self.apply(command)
    }

    fn commit(&mut self, workspace: u64, operations: Vec<Operation<'_>>) -> Result<Committed> {
        match self.write(workspace, operations)? {
            Outcome::Committed(committed) => Ok(committed),
            other => bail!("it should have been committed: {other:?}"),
        }
    }

    /// The id of a new record.
    pub(crate) fn next_id(&mut self, workspace: u64) -> Result<u64> {
        let committed = self.commit(workspace, vec![create(NewId::Raw(1), "order", None)])?;
        Ok(committed.record_ids.first().context("it created a record")?.1.get())
    }

    /// Outcomes so far.
    pub(crate) fn outcomes(&self) -> u64 {
        self.commands.len() as u64
    }

    /// Puts a value into the store behind the partition's back.
    pub(crate) fn plant(&mut self, entry: Entry, value: &[u8]) -> Result<()> {
        let mut partition = self.partition.take().context("it is open")?;
        partition.checkpoint()?;
        let offset = Offset::new(self.outcomes());
        partition.close()?;
        let dir = Path::new(DIRECTORY).join("store");
        let (mut store, _) = Store::open(self.io.clone(), dir, self.options.store, &self.options.budget)?;
        let mut batch = Batch::new();
        batch.put(&entry.key(ID), value)?;
        store.apply(&batch)?;
        store.checkpoint(offset, Synced::by_a_sync_up_to(offset))?;
        drop(store);
        self.restart()
    }

    /// Creates a record; whether that was written or stopped by a violation.
    pub(crate) fn create_once(&mut self, workspace: u64) -> Result<bool> {
        self.written(workspace, vec![create(NewId::Raw(1), "order", None)])
    }

    /// Updates a record; whether that was written or stopped by a violation.
    pub(crate) fn update_once(&mut self, workspace: u64, record: u64) -> Result<bool> {
        let fields = vec![("changed", Value::Boolean(true))];
        self.written(workspace, vec![Operation::UpdateRecord { record, fields, active: None }])
    }

    fn written(&mut self, workspace: u64, operations: Vec<Operation<'_>>) -> Result<bool> {
        match self.write(workspace, operations) {
            Ok(Outcome::Committed(_)) => Ok(true),
            Ok(other) => bail!("it should have been committed: {other:?}"),
            Err(error) => match error.downcast_ref::<ApplyError>() {
                Some(ApplyError::Stopped(fault)) if fault.is_quarantine() => Ok(false),
                _ => Err(error),
            },
        }
    }

    /// Imports a record with its id. One that exists, or that no user may have, is refused and moves nothing.
    pub(crate) fn import(&mut self, workspace: u64, id: u64) -> Result<()> {
        self.write(workspace, vec![create(NewId::Explicit(id), "order", None)]).map(drop)
    }

    /// The write of the setup: three records, the third below the first. Its workspace offset and the ids.
    pub(crate) fn write_three(&mut self, workspace: u64) -> Result<(u64, Vec<u64>)> {
        let operations = vec![
            create(NewId::Raw(1), "order", None),
            create(NewId::Raw(2), "order", None),
            create(NewId::Raw(3), "line", Some(1)),
        ];
        let committed = self.commit(workspace, operations)?;
        let ids = committed.record_ids.iter().map(|(_, id)| id.get()).collect();
        Ok((committed.workspace_offset.get(), ids))
    }
}

fn create(id: NewId, record_type: &str, parent: Option<u64>) -> Operation<'_> {
    Operation::CreateRecord { id, record_type, fields: Vec::new(), parent }
}
