//! NUM-1: every number of a kind is dense and increasing in its scope. A fold over the outcomes of a partition, in their order:
//! because numbers are dense, the next one is known, and a history is checked in the time it takes to read it.
//!
//! Must not know: which node an outcome was read from.

use std::collections::BTreeMap;

use gapless_partition::{Header, OutcomeKind};
use gapless_types::{NamespaceId, PartitionId, SequenceId, WorkspaceId};

/// First id of a record that a client creates.
const FIRST_RECORD: u64 = 200_001;

type Scope = (NamespaceId, WorkspaceId);

/// The last numbers so far.
#[derive(Debug, Default)]
pub(crate) struct Num1 {
    workspaces: BTreeMap<Scope, u64>,
    clients: BTreeMap<(Scope, String), u64>,
    records: BTreeMap<Scope, u64>,
    numbers: BTreeMap<(Scope, SequenceId), u64>,
    /// Log index and time of the last outcome of a partition.
    last: BTreeMap<PartitionId, (u64, u64)>,
}

impl Num1 {
    /// Takes in the next outcome of a partition; what is wrong with it.
    pub(crate) fn fold(&mut self, partition: PartitionId, header: &Header<'_>) -> Result<(), String> {
        let at = format!("partition {partition}, outcome {}", header.partition_offset.get());
        let place = (header.log_index.get(), header.time);
        let last = self.last.insert(partition, place).unwrap_or_default();
        if place.0 < last.0 || place.1 < last.1 {
            return Err(format!("{at}: entry and time {place:?} behind {last:?}"));
        }
        if header.kind != OutcomeKind::Event {
            return Ok(());
        }
        let scope = (partition.namespace, header.workspace);
        let workspace = header.workspace_offset.map_or(0, |offset| offset.get());
        next(self.workspaces.entry(scope).or_default(), workspace, &format!("{at}: workspace offset"))?;
        let client = header.client_sequence.map_or(0, |sequence| sequence.get());
        let counter = self.clients.entry((scope, header.client.to_owned())).or_default();
        next(counter, client, &format!("{at}: sequence of {}", header.client))?;
        for (_, record) in &header.record_ids {
            let counter = self.records.entry(scope).or_insert(FIRST_RECORD - 1);
            next(counter, record.get(), &format!("{at}: record id"))?;
        }
        for (sequence, number) in &header.numbers {
            let counter = self.numbers.entry((scope, *sequence)).or_default();
            next(counter, *number, &format!("{at}: sequence {}", sequence.get()))?;
        }
        Ok(())
    }
}

fn next(last: &mut u64, number: u64, what: &str) -> Result<(), String> {
    let expected = *last + 1;
    *last = number;
    if number == expected { Ok(()) } else { Err(format!("{what} is {number}, not {expected}")) }
}
