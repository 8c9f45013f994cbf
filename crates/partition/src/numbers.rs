//! Step c: every number of an event, from the sequencer and the client's row.
//!
//! Invariants
//! - NUM-1: workspace offset, client sequence and declared numbers go up by exactly 1; record ids too, except above imported ones.
//! - NUM-2: whether the numbers suffice is known before the first one is taken.

use gapless_sequencer::{NextError, Storage, Transaction};
use gapless_types::limits::LAST_RECORD_ID;
use gapless_types::{ClientSequence, Name, RecordId, SequenceId, WorkspaceOffset};

use crate::conditions::{Demand, NewNumber, NewRecord};
use crate::error::Fault;
use crate::outcome::{Refusal, RefusalCode};
use crate::schema::{RECORD_ID, WORKSPACE_OFFSET};
use crate::stop::Stop;

/// All numbers of an event.
#[derive(Debug)]
pub(crate) struct Numbers {
    pub(crate) workspace_offset: WorkspaceOffset,
    pub(crate) client_sequence: ClientSequence,
    /// Record ids of raw ids, in the order of the operations.
    pub(crate) record_ids: Vec<(u16, RecordId)>,
    /// Declared numbers, in the order of the operations.
    pub(crate) declared: Vec<(SequenceId, u64)>,
    /// Their names.
    pub(crate) names: Vec<Name>,
    pub(crate) highest_record: Option<RecordId>,
}

/// Takes what a write needs.
pub(crate) fn take<S>(
    transaction: &mut Transaction<'_, S>,
    demand: Demand,
    last_sequence: Option<ClientSequence>,
) -> Result<Numbers, Stop>
where
    S: Storage<Error = Fault>,
{
    check_room(transaction, &demand)?;
    let exhausted = Fault::Log("a workspace with 2^64 events");
    let workspace_offset = transaction.next(WORKSPACE_OFFSET).map_err(fault)?;
    let workspace_offset = WorkspaceOffset::new(workspace_offset).ok_or(exhausted.clone())?;
    let client_sequence = match last_sequence {
        None => ClientSequence::FIRST,
        Some(last) => last.next().ok_or(exhausted)?,
    };
    // Imported ids come first, so that no record of this write gets one of them.
    if let Some(explicit) = demand.highest_explicit {
        transaction.observe(RECORD_ID, explicit).map_err(fault)?;
    }
    let mut highest = demand.highest_explicit.and_then(RecordId::new);
    let mut record_ids = Vec::with_capacity(demand.records.len());
    for NewRecord { raw, fixed, .. } in demand.records {
        let id = match fixed {
            Some(singleton) => singleton,
            None => {
                let id = transaction.next(RECORD_ID).map_err(fault)?;
                let id = RecordId::new(id).ok_or(Fault::Log("a record with id 0"))?;
                highest = highest.max(Some(id));
                id
            }
        };
        record_ids.push((raw, id));
    }
    let mut declared = Vec::with_capacity(demand.numbers.len());
    let mut names = Vec::with_capacity(demand.numbers.len());
    for NewNumber { sequence, name, .. } in demand.numbers {
        declared.push((sequence.id, transaction.next(sequence.id).map_err(fault)?));
        names.push(name);
    }
    Ok(Numbers { workspace_offset, client_sequence, record_ids, declared, names, highest_record: highest })
}

/// Refuses a write for which the numbers do not suffice, while nothing is taken yet.
fn check_room<S>(transaction: &mut Transaction<'_, S>, demand: &Demand) -> Result<(), Stop>
where
    S: Storage<Error = Fault>,
{
    let mut records = demand.records.iter().filter(|record| record.fixed.is_none()).peekable();
    if records.peek().is_some() {
        let last = transaction.last(RECORD_ID).map_err(fault)?.max(demand.highest_explicit.unwrap_or(0));
        if let Some(record) = beyond(records, LAST_RECORD_ID.saturating_sub(last)) {
            let message = format!("the workspace has no record ids left behind {last}");
            let refusal = Refusal::new(RefusalCode::InvalidRecord, message);
            return Err(Stop::from(refusal).in_operation(record.operation));
        }
    }
    for (at, NewNumber { sequence, name, .. }) in demand.numbers.iter().enumerate() {
        // Each of them is asked for once, with all that the write takes of it.
        if demand.numbers[..at].iter().any(|earlier| earlier.sequence.id == sequence.id) {
            continue;
        }
        let wanted = demand.numbers.iter().filter(|other| other.sequence.id == sequence.id);
        let last = transaction.last(sequence.id).map_err(fault)?.max(sequence.initial_number - 1);
        if let Some(number) = beyond(wanted, u64::MAX - last) {
            let message = format!("sequence {name} has no numbers left behind {last}");
            let refusal = Refusal::new(RefusalCode::UnknownSequence, message);
            return Err(Stop::from(refusal).in_operation(number.operation));
        }
    }
    Ok(())
}

/// The first one for which so many do not suffice.
fn beyond<T>(mut wanted: impl Iterator<Item = T>, left: u64) -> Option<T> {
    wanted.nth(usize::try_from(left).unwrap_or(usize::MAX))
}

/// What the sequencer cannot do here is a fault: unknown sequences and ends of numbers were ruled out before.
pub(crate) fn fault(error: NextError<Fault>) -> Fault {
    match error {
        NextError::Storage(fault) => fault,
        other => Fault::Sequencer(other.to_string()),
    }
}
