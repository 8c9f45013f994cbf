//! What happened, as the wire says it.

use bytes::Bytes;
use gapless_engine::partition::proof::{BlockHeader, Hash};
use gapless_engine::partition::{Definition, Fault, Header, OutcomeKind, Refusal, StoredOutcome};
use gapless_engine::types::{IdempotencyKey, PartitionId};

use crate::problem::{Problem, ProblemKind};
use crate::write::{error, milliseconds, numbers, operation_message, record_ids};
use crate::{definition, v1};

/// An event with all its numbers.
///
/// # Errors
/// If the record is not that of an event.
pub fn event(namespace: &str, partition: PartitionId, stored: &StoredOutcome) -> Result<v1::Event, Problem> {
    let header = stored.header();
    let (Some(write), Some(committed)) = (stored.write()?, stored.event(partition)?) else {
        return Err(Fault::Log("something else where an event should be").into());
    };
    Ok(v1::Event {
        namespace: namespace.to_owned(),
        workspace: header.workspace.get(),
        workspace_offset: committed.workspace_offset.get(),
        event_type: write.event_type.to_owned(),
        content_type: write.content_type.to_owned(),
        payload: stored.bytes().slice_ref(write.payload),
        metadata: write
            .metadata
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        client_id: header.client.to_owned(),
        assigned_sequence: committed.client_sequence.get(),
        idempotency_key: key(header.key),
        tx_id: committed.transaction.to_string(),
        log_index: header.log_index.get(),
        partition: u32::from(partition.index.get()),
        partition_offset: header.partition_offset.get(),
        committed_at_ms: milliseconds(header.time),
        record_ids: record_ids(&committed.record_ids),
        numbers: numbers(&committed.numbers),
        operations: write.operations.iter().map(operation_message).collect(),
        kind: write.kind.to_owned(),
    })
}

/// An outcome of a partition.
///
/// # Errors
/// If the record is not of a known form.
pub fn outcome(
    namespace: &str,
    partition: PartitionId,
    stored: &StoredOutcome,
) -> Result<v1::Outcome, Problem> {
    use v1::outcome::Outcome;
    let malformed = |error: gapless_engine::partition::Malformed| {
        Problem::new(ProblemKind::Internal, "STORAGE_FAULT", error.to_string())
    };
    let (header, body) = Header::decode(stored.bytes()).map_err(malformed)?;
    let outcome = match header.kind {
        OutcomeKind::Event => Outcome::Event(event(namespace, partition, stored)?),
        OutcomeKind::Refusal | OutcomeKind::KeyReuse => Outcome::Refused(v1::RefusedWrite {
            workspace: header.workspace.get(),
            client_id: header.client.to_owned(),
            idempotency_key: key(header.key),
            error: Some(error(&Refusal::decode(body).map_err(malformed)?)),
        }),
        OutcomeKind::Duplicate => Outcome::Duplicate(v1::DuplicateWrite {
            workspace: header.workspace.get(),
            client_id: header.client.to_owned(),
            idempotency_key: key(header.key),
            first_partition_offset: body
                .try_into()
                .map(u64::from_le_bytes)
                .map_err(|_| Fault::Log("a duplicate of nothing"))?,
        }),
        OutcomeKind::Definition => {
            Outcome::Defined(definition::to_toml(&Definition::decode(body).map_err(malformed)?))
        }
        OutcomeKind::DefinitionRefusal => {
            Outcome::DefinitionRefused(String::from_utf8_lossy(body).into_owned())
        }
    };
    Ok(v1::Outcome {
        partition: u32::from(partition.index.get()),
        partition_offset: header.partition_offset.get(),
        log_index: header.log_index.get(),
        committed_at_ms: milliseconds(header.time),
        outcome: Some(outcome),
    })
}

/// The block of an event.
pub fn block_header(header: &BlockHeader) -> v1::BlockHeader {
    v1::BlockHeader {
        height: header.height.get(),
        leaf_hash: hash(header.leaf),
        root: hash(header.root),
        committed_at_ms: milliseconds(header.time),
        log_index: header.log_index,
        encoded: Bytes::copy_from_slice(&header.encode()),
    }
}

/// A hash.
pub fn hash(hash: Hash) -> Bytes {
    Bytes::copy_from_slice(hash.as_bytes())
}

fn key(key: Option<IdempotencyKey>) -> Bytes {
    key.map_or(Bytes::new(), |key| Bytes::copy_from_slice(key.as_bytes()))
}
