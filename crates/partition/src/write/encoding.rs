//! The canonical bytes of a write, version 1. What the proposer puts into the replicated log, what the request digest covers
//! and what stands as body of an event in the partition log are these same bytes.
//!
//! ```text
//!   0  1  version, 1                     16  8  expected workspace offset, only if present
//!   1  1  presence: bit 0, expected          2+ kind, 2+ client id, 2+ event type, 2+ content type
//!         workspace offset                   4+ payload
//!   2  2  operations                            metadata: 2+ key, 2+ value each
//!   4  2  pairs of metadata                     operations
//!   6  2  zero
//!   8  8  workspace
//! ```
//! `2+` and `4+` are a length of that many bytes and what it counts. An operation is a tag (1), presence bits (1), then:
//!
//! ```text
//!  1 create   bit 0 explicit id, bit 1 parent    id (8), parent (8) if present, 2+ type, fields
//!  2 update   bit 0 active is given, bit 1 it    record (8), fields
//!  3 set      bits 0-2 condition, bit 3 expiry   version (8) or 4+ value of the condition, expiry (8), 2+ key, 4+ value
//!  4 delete   bits 0-2 condition                 version (8) or 4+ value of the condition, 2+ key
//!  5 number                                      2+ sequence
//!
//!  condition  0 none, 1 must not exist, 2 must exist, 3 version equals, 4 value equals
//!  fields     count (2), each 2+ name, tag (1): 0 null, 1 false, 2 true, 3 integer (8), 4 text (4+), 5 blob (4+), 6 record (8)
//! ```
//! Metadata and fields ascend by name and have each name once; unused bits are zero. Anything else is malformed, so that one
//! write has one encoding.

use gapless_types::WorkspaceId;

use super::{Condition, NewId, Operation, Value, Write};
use crate::codec::{Malformed, Put, Take};

const VERSION: u8 = 1;
const EXPECTED_OFFSET: u8 = 1;

const CREATE: u8 = 1;
const UPDATE: u8 = 2;
const SET: u8 = 3;
const DELETE: u8 = 4;
const NUMBER: u8 = 5;

const EXPLICIT: u8 = 1;
const PARENT: u8 = 2;
const ACTIVE_GIVEN: u8 = 1;
const ACTIVE: u8 = 2;
const CONDITION: u8 = 0b111;
const EXPIRY: u8 = 0b1000;

impl<'a> Write<'a> {
    /// Appends the canonical bytes of a write without violations (see [`Write::violations`]).
    pub fn encode(&self, into: &mut Vec<u8>) {
        into.put_u8(VERSION);
        into.put_u8(if self.expected_offset.is_some() { EXPECTED_OFFSET } else { 0 });
        into.put_u16(count(self.operations.len()));
        into.put_u16(count(self.metadata.len()));
        into.put_u16(0);
        into.put_u64(self.workspace.get());
        if let Some(offset) = self.expected_offset {
            into.put_u64(offset);
        }
        for text in [self.kind, self.client, self.event_type, self.content_type] {
            into.put_short(text.as_bytes());
        }
        into.put_long(self.payload);
        for (key, value) in &self.metadata {
            into.put_short(key.as_bytes());
            into.put_short(value.as_bytes());
        }
        for operation in &self.operations {
            encode_operation(operation, into);
        }
    }

    /// Takes canonical bytes apart.
    ///
    /// # Errors
    /// If they are not the canonical bytes of any write. Limits are not checked.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut take = Take::new(bytes);
        if take.u8("version")? != VERSION {
            return Err(Malformed { what: "version", at: 0 });
        }
        let presence = take.u8("presence bits")?;
        let operations = take.u16("count of operations")?;
        let metadata = take.u16("count of metadata")?;
        let zero = take.u16("zero")?;
        if presence & !EXPECTED_OFFSET != 0 || zero != 0 {
            return Err(Malformed { what: "presence bits", at: 1 });
        }
        let workspace = WorkspaceId::new(take.u64("workspace")?);
        let expected_offset = match presence & EXPECTED_OFFSET {
            0 => None,
            _ => Some(take.u64("expected workspace offset")?),
        };
        let write = Write {
            workspace,
            expected_offset,
            kind: take.text("kind")?,
            client: take.text("client id")?,
            event_type: take.text("event type")?,
            content_type: take.text("content type")?,
            payload: take.long("payload")?,
            metadata: ascending(&mut take, metadata, "metadata", |take| take.text("metadata"))?,
            operations: (0..operations).map(|_| decode_operation(&mut take)).collect::<Result<_, _>>()?,
        };
        take.end("end")?;
        Ok(write)
    }
}

fn encode_operation(operation: &Operation<'_>, into: &mut Vec<u8>) {
    match operation {
        Operation::CreateRecord { id, record_type, fields, parent } => {
            let (explicit, id) = match *id {
                NewId::Raw(id) => (0, u64::from(id)),
                NewId::Explicit(id) => (EXPLICIT, id),
            };
            into.put_u8(CREATE);
            into.put_u8(explicit | if parent.is_some() { PARENT } else { 0 });
            into.put_u64(id);
            if let Some(parent) = parent {
                into.put_u64(*parent);
            }
            into.put_short(record_type.as_bytes());
            encode_fields(fields, into);
        }
        Operation::UpdateRecord { record, fields, active } => {
            into.put_u8(UPDATE);
            into.put_u8(match active {
                None => 0,
                Some(false) => ACTIVE_GIVEN,
                Some(true) => ACTIVE_GIVEN | ACTIVE,
            });
            into.put_u64(*record);
            encode_fields(fields, into);
        }
        Operation::SetEntity { key, value, condition, expires_at } => {
            into.put_u8(SET);
            into.put_u8(condition_code(condition) | if expires_at.is_some() { EXPIRY } else { 0 });
            encode_condition(condition, into);
            if let Some(expires_at) = expires_at {
                into.put_u64(*expires_at);
            }
            into.put_short(key);
            into.put_long(value);
        }
        Operation::DeleteEntity { key, condition } => {
            into.put_u8(DELETE);
            into.put_u8(condition_code(condition));
            encode_condition(condition, into);
            into.put_short(key);
        }
        Operation::NextNumber { sequence } => {
            into.put_u8(NUMBER);
            into.put_u8(0);
            into.put_short(sequence.as_bytes());
        }
    }
}

fn decode_operation<'a>(take: &mut Take<'a>) -> Result<Operation<'a>, Malformed> {
    let malformed = take.malformed("operation");
    let (tag, presence) = (take.u8("operation")?, take.u8("presence bits")?);
    let known = match tag {
        CREATE => EXPLICIT | PARENT,
        UPDATE => ACTIVE_GIVEN | ACTIVE,
        SET => CONDITION | EXPIRY,
        DELETE => CONDITION,
        NUMBER => 0,
        _ => return Err(malformed),
    };
    if presence & !known != 0 {
        return Err(malformed);
    }
    Ok(match tag {
        CREATE => {
            let id = take.u64("record id")?;
            let id = match presence & EXPLICIT {
                0 => NewId::Raw(u16::try_from(id).map_err(|_| malformed)?),
                _ => NewId::Explicit(id),
            };
            let parent = if presence & PARENT == 0 { None } else { Some(take.u64("parent")?) };
            let record_type = take.text("record type")?;
            Operation::CreateRecord { id, record_type, fields: decode_fields(take)?, parent }
        }
        UPDATE => {
            let active = match presence {
                0 => None,
                ACTIVE => return Err(malformed),
                given => Some(given & ACTIVE != 0),
            };
            Operation::UpdateRecord { record: take.u64("record id")?, fields: decode_fields(take)?, active }
        }
        SET => {
            let condition = decode_condition(take, presence & CONDITION)?;
            let expires_at = if presence & EXPIRY == 0 { None } else { Some(take.u64("expiry")?) };
            Operation::SetEntity {
                condition,
                expires_at,
                key: take.short("key")?,
                value: take.long("value")?,
            }
        }
        DELETE => {
            let condition = decode_condition(take, presence)?;
            Operation::DeleteEntity { condition, key: take.short("key")? }
        }
        _ => Operation::NextNumber { sequence: take.text("sequence")? },
    })
}

fn condition_code(condition: &Condition<'_>) -> u8 {
    match condition {
        Condition::None => 0,
        Condition::MustNotExist => 1,
        Condition::MustExist => 2,
        Condition::VersionEquals(_) => 3,
        Condition::ValueEquals(_) => 4,
    }
}

fn encode_condition(condition: &Condition<'_>, into: &mut Vec<u8>) {
    match condition {
        Condition::VersionEquals(version) => into.put_u64(*version),
        Condition::ValueEquals(value) => into.put_long(value),
        Condition::None | Condition::MustNotExist | Condition::MustExist => {}
    }
}

fn decode_condition<'a>(take: &mut Take<'a>, code: u8) -> Result<Condition<'a>, Malformed> {
    Ok(match code {
        0 => Condition::None,
        1 => Condition::MustNotExist,
        2 => Condition::MustExist,
        3 => Condition::VersionEquals(take.u64("version")?),
        4 => Condition::ValueEquals(take.long("value of a condition")?),
        _ => return Err(take.malformed("condition")),
    })
}

/// Bytes that a field takes in [`encode_fields`].
pub(crate) fn field_length(name: &str, value: &Value<'_>) -> usize {
    let value = match value {
        Value::Null | Value::Boolean(_) => 0,
        Value::Integer(_) | Value::Record(_) => 8,
        Value::Text(text) => 4 + text.len(),
        Value::Blob(bytes) => 4 + bytes.len(),
    };
    3 + name.len() + value
}

/// Appends fields; records have the same form where they are stored.
pub(crate) fn encode_fields(fields: &[(&str, Value<'_>)], into: &mut Vec<u8>) {
    into.put_u16(count(fields.len()));
    for (name, value) in fields {
        into.put_short(name.as_bytes());
        match value {
            Value::Null => into.put_u8(0),
            Value::Boolean(false) => into.put_u8(1),
            Value::Boolean(true) => into.put_u8(2),
            Value::Integer(number) => {
                into.put_u8(3);
                into.extend_from_slice(&number.to_le_bytes());
            }
            Value::Text(text) => {
                into.put_u8(4);
                into.put_long(text.as_bytes());
            }
            Value::Blob(bytes) => {
                into.put_u8(5);
                into.put_long(bytes);
            }
            Value::Record(id) => {
                into.put_u8(6);
                into.put_u64(*id);
            }
        }
    }
}

pub(crate) fn decode_fields<'a>(take: &mut Take<'a>) -> Result<Vec<(&'a str, Value<'a>)>, Malformed> {
    let count = take.u16("count of fields")?;
    ascending(take, count, "fields", |take| {
        Ok(match take.u8("type of a value")? {
            0 => Value::Null,
            1 => Value::Boolean(false),
            2 => Value::Boolean(true),
            3 => Value::Integer(i64::from_le_bytes(take.array("integer")?)),
            4 => {
                let malformed = take.malformed("text");
                Value::Text(std::str::from_utf8(take.long("text")?).map_err(|_| malformed)?)
            }
            5 => Value::Blob(take.long("blob")?),
            6 => Value::Record(take.u64("record id")?),
            _ => return Err(take.malformed("type of a value")),
        })
    })
}

/// Named values, which must ascend by name.
fn ascending<'a, T>(
    take: &mut Take<'a>,
    count: u16,
    what: &'static str,
    mut value: impl FnMut(&mut Take<'a>) -> Result<T, Malformed>,
) -> Result<Vec<(&'a str, T)>, Malformed> {
    let mut pairs: Vec<(&'a str, T)> = Vec::new();
    for _ in 0..count {
        let malformed = take.malformed(what);
        let name = take.text(what)?;
        if pairs.last().is_some_and(|(last, _)| *last >= name) {
            return Err(malformed);
        }
        pairs.push((name, value(take)?));
    }
    Ok(pairs)
}

fn count(length: usize) -> u16 {
    u16::try_from(length).expect("counts are checked before they are encoded")
}
