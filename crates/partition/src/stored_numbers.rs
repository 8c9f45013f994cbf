//! The sequencer's storage: numbers are rows of the partition's store, its log is the partition log.
//!
//! `write` only reaches the memtable and becomes durable with the checkpoint, so stored numbers are never ahead of the durable
//! partition log (LOG-2).

use std::ops::ControlFlow;

use gapless_log::Log;
use gapless_sequencer::{SequenceValue, Storage};
use gapless_store::Batch;
use gapless_types::{PartitionId, PartitionOffset, Position, SequenceId, WorkspaceId};

use crate::error::Fault;
use crate::outcome::Header;
use crate::rows;
use crate::schema::{RECORD_ID, WORKSPACE_OFFSET};
use crate::shared_store::SharedStore;
use crate::state::Reads;
use crate::tail::read_tail;

/// Numbers in the store of a partition.
#[derive(Debug)]
pub(crate) struct StoredNumbers {
    pub(crate) partition: PartitionId,
    pub(crate) store: SharedStore,
    pub(crate) log: Log,
}

impl Storage for StoredNumbers {
    type Error = Fault;

    fn read_numbers(
        &self,
        workspace: WorkspaceId,
        sequences: &[SequenceId],
        numbers: &mut [u64],
    ) -> Result<(), Fault> {
        for (sequence, number) in sequences.iter().zip(numbers) {
            let key = rows::number::key(self.partition.namespace, workspace, *sequence);
            *number = match self.store.get(&key)? {
                Some(value) => rows::number::decode(&value).ok_or(Fault::row("a number that is none"))?,
                None => 0,
            };
        }
        Ok(())
    }

    fn read_next_offset(&self) -> Result<Option<PartitionOffset>, Fault> {
        let value = self.store.get(&rows::offset::key(self.partition))?;
        let decode =
            |value: bytes::Bytes| rows::offset::decode(&value).ok_or(Fault::row("an offset that is none"));
        value.map(decode).transpose()
    }

    fn write(&self, values: &[SequenceValue], next_offset: PartitionOffset) -> Result<(), Fault> {
        let mut batch = Batch::new();
        for value in values {
            let key = rows::number::key(self.partition.namespace, value.workspace, value.sequence);
            batch.put(&key, &value.number.to_le_bytes())?;
        }
        batch.put(&rows::offset::key(self.partition), &rows::offset::value(next_offset))?;
        self.store.apply(&batch)
    }

    fn scan(
        &self,
        from: PartitionOffset,
        batch: &mut dyn FnMut(PartitionOffset, &[SequenceValue]) -> ControlFlow<()>,
    ) -> Result<PartitionOffset, Fault> {
        let mut values = Vec::new();
        let end = read_tail(&self.log, Position::new(from.get()), |header, _| {
            values.clear();
            values_of(header, &mut values);
            Ok(batch(header.partition_offset, &values))
        })?;
        PartitionOffset::new(end.get()).ok_or(Fault::Log("nothing in front of its first position"))
    }
}

/// Every number that an outcome holds.
pub(crate) fn values_of(header: &Header<'_>, values: &mut Vec<SequenceValue>) {
    let workspace = header.workspace;
    let mut add = |sequence, number| values.push(SequenceValue { workspace, sequence, number });
    if let Some(offset) = header.workspace_offset {
        add(WORKSPACE_OFFSET, offset.get());
    }
    if let Some(record) = header.highest_record {
        add(RECORD_ID, record.get());
    }
    for (sequence, number) in &header.numbers {
        add(*sequence, *number);
    }
}
