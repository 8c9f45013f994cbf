//! Writes and their outcomes, between the wire and the engine.
//!
//! A write borrows from its request; nothing of it is copied until it is encoded for the log.

use std::collections::BTreeMap;

use bytes::Bytes;
use gapless_engine::Acknowledgement;
use gapless_engine::partition::{
    Committed, Condition, DEFAULT_KIND, NewId, Operation, Outcome, Refusal, RefusalCode, Value, Write,
};
use gapless_engine::types::{IdempotencyKey, Name, RecordId, WorkspaceId};

use crate::check::Check;
use crate::problem::{Problem, Violation};
use crate::v1;

const DEFAULT_CONTENT_TYPE: &str = "application/json";

/// A request whose every field is within its limits.
#[derive(Debug)]
pub struct Checked<'a> {
    /// Where it goes.
    pub namespace: &'a str,
    /// Which intended write it is.
    pub key: IdempotencyKey,
    /// What is asked for.
    pub write: Write<'a>,
}

/// Checks a request.
///
/// # Errors
/// Everything that is wrong with it.
pub fn checked(request: &v1::WriteRequest) -> Result<Checked<'_>, Problem> {
    let mut check = Check::default();
    check.name("namespace", &request.namespace);
    let key = IdempotencyKey::try_from(&request.idempotency_key[..]);
    if let Err(error) = &key {
        check.add("idempotency_key", error);
    }
    let operation = |(index, operation)| operation_of(index, operation, &mut check);
    let operations: Vec<_> = request.operations.iter().enumerate().filter_map(operation).collect();
    let write = Write {
        workspace: WorkspaceId::new(request.workspace),
        kind: or(&request.kind, DEFAULT_KIND),
        client: &request.client_id,
        event_type: &request.event_type,
        content_type: or(&request.content_type, DEFAULT_CONTENT_TYPE),
        payload: &request.payload,
        metadata: request.metadata.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
        expected_offset: request.expected_workspace_offset,
        operations,
    };
    let violation = |violation: gapless_engine::partition::Violation| Violation {
        field: violation.field,
        problem: violation.problem,
    };
    check.extend(write.violations().into_iter().map(violation));
    match (check.end(), key) {
        (Ok(()), Ok(key)) => Ok(Checked { namespace: &request.namespace, key, write }),
        (Err(problem), _) => Err(problem),
        (Ok(()), Err(error)) => Err(Problem::violation("idempotency_key", error.to_string())),
    }
}

fn or<'a>(given: &'a str, default: &'static str) -> &'a str {
    if given.is_empty() { default } else { given }
}

fn operation_of<'a>(index: usize, operation: &'a v1::Operation, check: &mut Check) -> Option<Operation<'a>> {
    use v1::operation::Op;
    let field = |name: &str| format!("operations[{index}].{name}");
    Some(match operation.op.as_ref() {
        None => {
            check.add(format_args!("operations[{index}]"), "says nothing: set one of its fields");
            return None;
        }
        Some(Op::SetEntity(set)) => Operation::SetEntity {
            key: &set.key,
            value: &set.value,
            condition: condition_of(&field("condition"), set.condition.as_ref(), check),
            expires_at: set.expires_at_ms.and_then(|time| {
                let time = u64::try_from(time);
                if time.is_err() {
                    check.add(field("expires_at_ms"), "is before 1970");
                }
                time.ok()
            }),
        },
        Some(Op::DeleteEntity(delete)) => Operation::DeleteEntity {
            key: &delete.key,
            condition: condition_of(&field("condition"), delete.condition.as_ref(), check),
        },
        Some(Op::CreateRecord(create)) => Operation::CreateRecord {
            id: new_id(&field("raw_id"), create, check),
            record_type: &create.record_type,
            fields: fields_of(&field("fields"), &create.fields, check),
            parent: create.parent,
        },
        Some(Op::UpdateRecord(update)) => Operation::UpdateRecord {
            record: update.record,
            fields: fields_of(&field("fields"), &update.fields, check),
            active: update.active,
        },
        Some(Op::NextNumber(next)) => Operation::NextNumber { sequence: &next.sequence },
    })
}

fn new_id(field: &str, create: &v1::CreateRecord, check: &mut Check) -> NewId {
    match (create.record_id, u16::try_from(create.raw_id)) {
        (Some(id), Ok(0)) => NewId::Explicit(id),
        (Some(_), _) => {
            check.add(field, "must be 0 if record_id is given");
            NewId::Raw(1)
        }
        // That it is not 0 is checked with everything else.
        (None, Ok(raw)) => NewId::Raw(raw),
        (None, Err(_)) => {
            check.add(field, "a raw id is 1 to 65535");
            NewId::Raw(1)
        }
    }
}

fn condition_of<'a>(field: &str, condition: Option<&'a v1::Condition>, check: &mut Check) -> Condition<'a> {
    use v1::condition::Kind;
    match condition.and_then(|condition| condition.kind.as_ref()) {
        None => Condition::None,
        Some(Kind::MustNotExist(true)) => Condition::MustNotExist,
        Some(Kind::MustExist(true)) => Condition::MustExist,
        Some(Kind::MustNotExist(false) | Kind::MustExist(false)) => {
            check.add(field, "is true, or not given");
            Condition::None
        }
        Some(Kind::VersionEquals(version)) => Condition::VersionEquals(*version),
        Some(Kind::ValueEquals(value)) => Condition::ValueEquals(value),
    }
}

fn fields_of<'a>(
    field: &str,
    fields: &'a BTreeMap<String, v1::Value>,
    check: &mut Check,
) -> Vec<(&'a str, Value<'a>)> {
    use v1::value::Kind;
    let mut value = |(name, value): (&'a String, &'a v1::Value)| {
        let value = match value.kind.as_ref() {
            None => {
                check.add(format_args!("{field}[{name:.40}]"), "says nothing: set one of its fields");
                Value::Null
            }
            Some(Kind::Null(_)) => Value::Null,
            Some(Kind::Boolean(value)) => Value::Boolean(*value),
            Some(Kind::Integer(value)) => Value::Integer(*value),
            Some(Kind::Text(value)) => Value::Text(value),
            Some(Kind::Blob(value)) => Value::Blob(value),
            Some(Kind::Record(value)) => Value::Record(*value),
        };
        (name.as_str(), value)
    };
    fields.iter().map(&mut value).collect()
}

/// What a write was asked to change, as a request says it.
pub fn operation_message(operation: &Operation<'_>) -> v1::Operation {
    use v1::operation::Op;
    let op = match operation {
        Operation::SetEntity { key, value, condition, expires_at } => Op::SetEntity(v1::SetEntity {
            key: Bytes::copy_from_slice(key),
            value: Bytes::copy_from_slice(value),
            condition: condition_message(condition),
            expires_at_ms: expires_at.map(milliseconds),
        }),
        Operation::DeleteEntity { key, condition } => Op::DeleteEntity(v1::DeleteEntity {
            key: Bytes::copy_from_slice(key),
            condition: condition_message(condition),
        }),
        Operation::CreateRecord { id, record_type, fields, parent } => Op::CreateRecord(v1::CreateRecord {
            raw_id: if let NewId::Raw(raw) = id { u32::from(*raw) } else { 0 },
            record_id: if let NewId::Explicit(id) = id { Some(*id) } else { None },
            record_type: (*record_type).to_owned(),
            fields: field_messages(fields),
            parent: *parent,
        }),
        Operation::UpdateRecord { record, fields, active } => Op::UpdateRecord(v1::UpdateRecord {
            record: *record,
            fields: field_messages(fields),
            active: *active,
        }),
        Operation::NextNumber { sequence } => {
            Op::NextNumber(v1::NextNumber { sequence: (*sequence).to_owned() })
        }
    };
    v1::Operation { op: Some(op) }
}

fn condition_message(condition: &Condition<'_>) -> Option<v1::Condition> {
    use v1::condition::Kind;
    let kind = match condition {
        Condition::None => return None,
        Condition::MustNotExist => Kind::MustNotExist(true),
        Condition::MustExist => Kind::MustExist(true),
        Condition::VersionEquals(version) => Kind::VersionEquals(*version),
        Condition::ValueEquals(value) => Kind::ValueEquals(Bytes::copy_from_slice(value)),
    };
    Some(v1::Condition { kind: Some(kind) })
}

/// The fields of a record.
pub fn field_messages(fields: &[(&str, Value<'_>)]) -> BTreeMap<String, v1::Value> {
    use v1::value::Kind;
    let message = |(name, value): &(&str, Value<'_>)| {
        let kind = match value {
            Value::Null => Kind::Null(true),
            Value::Boolean(value) => Kind::Boolean(*value),
            Value::Integer(value) => Kind::Integer(*value),
            Value::Text(value) => Kind::Text((*value).to_owned()),
            Value::Blob(value) => Kind::Blob(Bytes::copy_from_slice(value)),
            Value::Record(value) => Kind::Record(*value),
        };
        ((*name).to_owned(), v1::Value { kind: Some(kind) })
    };
    fields.iter().map(message).collect()
}

/// What became of a write, without its proof.
pub fn response(key: IdempotencyKey, acknowledgement: &Acknowledgement) -> v1::WriteResponse {
    use v1::write_response::Result as Answer;
    let result = match &*acknowledgement.outcome {
        Outcome::Committed(committed) => Answer::Success(success(committed, acknowledgement.duplicate)),
        Outcome::Refused(refusal) => Answer::Error(error(refusal)),
        other => unreachable!("a write is committed or refused, not {other:?}"),
    };
    v1::WriteResponse { result: Some(result), idempotency_key: Bytes::copy_from_slice(key.as_bytes()) }
}

fn success(committed: &Committed, duplicate: bool) -> v1::WriteSuccess {
    v1::WriteSuccess {
        tx_id: committed.transaction.to_string(),
        block_height: committed.workspace_offset.get(),
        assigned_sequence: committed.client_sequence.get(),
        block_header: None,
        tx_proof: None,
        log_index: committed.log_index.get(),
        partition: u32::from(committed.partition.index.get()),
        partition_offset: committed.partition_offset.get(),
        workspace_offset: committed.workspace_offset.get(),
        record_ids: record_ids(&committed.record_ids),
        numbers: numbers(&committed.numbers),
        committed_at_ms: milliseconds(committed.committed_at),
        duplicate,
    }
}

/// Raw ids and what they became.
pub fn record_ids(ids: &[(u16, RecordId)]) -> BTreeMap<u32, u64> {
    ids.iter().map(|(raw, id)| (u32::from(*raw), id.get())).collect()
}

/// The last number of each sequence: they are in the order of the operations, and later ones win.
pub fn numbers(numbers: &[(Name, u64)]) -> BTreeMap<String, u64> {
    numbers.iter().map(|(sequence, number)| (sequence.to_string(), *number)).collect()
}

/// Why a write was refused.
pub fn error(refusal: &Refusal) -> v1::WriteError {
    v1::WriteError {
        code: error_code(refusal.code).into(),
        key: String::from_utf8_lossy(&refusal.key).into_owned(),
        current_version: refusal.current_version,
        current_value: refusal.current_value.clone(),
        message: refusal.message.clone(),
        committed_tx_id: None,
        committed_block_height: None,
        entity_key: refusal.key.clone(),
        operation: refusal.operation.map(u32::from),
    }
}

fn error_code(code: RefusalCode) -> v1::WriteErrorCode {
    match code {
        RefusalCode::KeyExists => v1::WriteErrorCode::KeyExists,
        RefusalCode::KeyNotFound => v1::WriteErrorCode::KeyNotFound,
        RefusalCode::VersionMismatch => v1::WriteErrorCode::VersionMismatch,
        RefusalCode::ValueMismatch => v1::WriteErrorCode::ValueMismatch,
        RefusalCode::IdempotencyKeyReused => v1::WriteErrorCode::IdempotencyKeyReused,
        RefusalCode::OffsetMismatch => v1::WriteErrorCode::OffsetMismatch,
        RefusalCode::InvalidRecord => v1::WriteErrorCode::InvalidRecord,
        RefusalCode::UnknownSequence => v1::WriteErrorCode::UnknownSequence,
        RefusalCode::WrongKind => v1::WriteErrorCode::WrongKind,
        RefusalCode::Malformed => v1::WriteErrorCode::Malformed,
    }
}

/// A time as the wire has it: signed, as most languages do.
pub fn milliseconds(time: u64) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}
