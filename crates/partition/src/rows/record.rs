//! `6, namespace (4), workspace (8), record id (8)` -> record.
//!
//! ```text
//!  0  1  bit 0, active; bit 1, it has a parent      24     parent (8), only if it has one
//!  1  7  zero                                              2+ type
//!  8  8  workspace offset that created it                  fields as in a write
//! 16  8  workspace offset of the last change
//! ```

use gapless_types::{NamespaceId, RecordId, WorkspaceId};

use crate::codec::{Malformed, Put, Take};
use crate::write::Value;
use crate::write::encoding::{decode_fields, encode_fields};

const KIND: u8 = 6;
const ACTIVE: u8 = 1;
const PARENT: u8 = 2;

/// A record as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordRow<'a> {
    /// Whether it is active; a record that is not stays where it is.
    pub active: bool,
    /// Workspace offset of the event that created it.
    pub created: u64,
    /// Workspace offset of the event that changed it last.
    pub changed: u64,
    /// The record it belongs to.
    pub parent: Option<RecordId>,
    /// What it is.
    pub record_type: &'a str,
    /// By ascending name, each once; references are stored ids.
    pub fields: Vec<(&'a str, Value<'a>)>,
}

impl<'a> RecordRow<'a> {
    pub(crate) fn encode(&self, into: &mut Vec<u8>) {
        let parent = if self.parent.is_some() { PARENT } else { 0 };
        into.put_u8(parent | if self.active { ACTIVE } else { 0 });
        into.extend_from_slice(&[0; 7]);
        into.put_u64(self.created);
        into.put_u64(self.changed);
        if let Some(parent) = self.parent {
            into.put_u64(parent.get());
        }
        into.put_short(self.record_type.as_bytes());
        encode_fields(&self.fields, into);
    }

    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut take = Take::new(bytes);
        let malformed = take.malformed("record");
        let [flags, zeros @ ..] = take.array::<8>("record")?;
        if flags & !(ACTIVE | PARENT) != 0 || zeros != [0; 7] {
            return Err(malformed);
        }
        let row = Self {
            active: flags & ACTIVE != 0,
            created: take.u64("record")?,
            changed: take.u64("record")?,
            parent: match flags & PARENT {
                0 => None,
                _ => Some(RecordId::new(take.u64("record")?).ok_or(malformed)?),
            },
            record_type: take.text("record")?,
            fields: decode_fields(&mut take)?,
        };
        take.end("record")?;
        Ok(row)
    }

    /// Merges fields into it; both ascend by name, and so does the result.
    pub(crate) fn merge(&mut self, fields: impl IntoIterator<Item = (&'a str, Value<'a>)>) {
        for (name, value) in fields {
            match self.fields.binary_search_by_key(&name, |(known, _)| *known) {
                Ok(at) => self.fields[at].1 = value,
                Err(at) => self.fields.insert(at, (name, value)),
            }
        }
    }
}

/// Length of a record without fields, as it is stored.
pub(crate) fn length_without_fields(record_type: &str, has_parent: bool) -> usize {
    24 + if has_parent { 8 } else { 0 } + 2 + record_type.len() + 2
}

pub(crate) fn key(namespace: NamespaceId, workspace: WorkspaceId, record: u64) -> [u8; 21] {
    let mut key = [0; 21];
    key[0] = KIND;
    key[1..5].copy_from_slice(&namespace.get().to_be_bytes());
    key[5..13].copy_from_slice(&workspace.get().to_be_bytes());
    key[13..].copy_from_slice(&record.to_be_bytes());
    key
}

pub(crate) fn decode_key(key: &[u8]) -> Option<RecordId> {
    RecordId::new(u64::from_be_bytes(key.get(13..)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> RecordRow<'static> {
        RecordRow {
            active: true,
            created: 2,
            changed: 3,
            parent: RecordId::new(200_001),
            record_type: "order",
            fields: vec![("a", Value::Integer(-1)), ("c", Value::Text("x"))],
        }
    }

    #[test]
    fn a_record_comes_back_as_it_was() {
        let mut bytes = Vec::new();
        row().encode(&mut bytes);
        assert_eq!(bytes[..24], [3, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(RecordRow::decode(&bytes), Ok(row()));
        for parent in [None, row().parent] {
            let mut empty = Vec::new();
            RecordRow { parent, fields: Vec::new(), ..row() }.encode(&mut empty);
            assert_eq!(empty.len(), length_without_fields("order", parent.is_some()));
        }
        for length in 0..bytes.len() {
            assert!(RecordRow::decode(&bytes[..length]).is_err(), "{length} bytes");
        }
        let key = key(NamespaceId::new(1), WorkspaceId::new(2), 200_001);
        assert_eq!(decode_key(&key), RecordId::new(200_001));
    }

    #[test]
    fn merging_replaces_and_adds_in_order() {
        let mut row = row();
        row.merge([("b", Value::Null), ("c", Value::Boolean(true))]);
        assert_eq!(row.fields, [("a", Value::Integer(-1)), ("b", Value::Null), ("c", Value::Boolean(true))]);
    }
}
