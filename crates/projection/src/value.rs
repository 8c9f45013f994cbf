//! Values, rows and their canonical JSON: what rules compute with and what hashes are made of.
//!
//! Invariants
//! - There are no fractions in rows, so that the same row has the same bytes and the same hash everywhere.
//! - A row has one encoding: columns are sorted by name.
//!
//! Must not know: tables, slots, where rows are stored.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use bytes::BufMut;
use gapless_log::input::{Input, Malformed};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use crate::codec::{Put, Take};
use crate::limits::{MAX_COLUMNS, MAX_NAME_BYTES};

/// A value of a column or of an event's field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// None.
    Null,
    /// True or false.
    Bool(bool),
    /// A 64-bit integer.
    Integer(i64),
    /// A text.
    Text(Box<str>),
    /// What rules cannot compute with (a list, an object, a number that is no 64-bit integer), as canonical JSON.
    Opaque(Box<str>),
}

/// Columns by name. One that is not there is null.
pub type Row = BTreeMap<Box<str>, Value>;

impl Value {
    /// Any JSON.
    pub fn from_json(json: &Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(*value),
            Json::String(text) => Self::Text(text.as_str().into()),
            Json::Number(number) => match number.as_i64() {
                Some(integer) => Self::Integer(integer),
                None => Self::Opaque(number.to_string().into()),
            },
            Json::Array(_) | Json::Object(_) => Self::Opaque(canonical_json(json).into()),
        }
    }

    /// How it compares with another one of its type; none if either is null.
    ///
    /// # Errors
    /// If they have different types, or one that has no order.
    pub fn compare(&self, other: &Self) -> Result<Option<Ordering>, DifferentTypes> {
        match (self, other) {
            (Self::Null, _) | (_, Self::Null) => Ok(None),
            (Self::Bool(one), Self::Bool(other)) => Ok(Some(one.cmp(other))),
            (Self::Integer(one), Self::Integer(other)) => Ok(Some(one.cmp(other))),
            (Self::Text(one), Self::Text(other)) => Ok(Some(one.cmp(other))),
            _ => Err(DifferentTypes),
        }
    }

    fn write_json(&self, text: &mut String) {
        match self {
            Self::Null => text.push_str("null"),
            Self::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
            Self::Integer(integer) => write!(text, "{integer}").expect("a string takes everything"),
            Self::Text(value) => write_json_text(value, text),
            Self::Opaque(json) => text.push_str(json),
        }
    }
}

/// Two values that cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DifferentTypes;

/// A row of JSON; none if it is no object, has too many columns, or has a number in it that is no 64-bit integer.
pub fn row_from_json(json: &Json) -> Option<Row> {
    let columns = json.as_object()?;
    let fits = columns.len() <= MAX_COLUMNS && columns.keys().all(|name| name.len() <= MAX_NAME_BYTES);
    (fits && columns.values().all(is_exact)).then(|| fields_from_json(columns))
}

/// The fields of an event, whatever they are.
pub(crate) fn fields_from_json(fields: &serde_json::Map<String, Json>) -> Row {
    fields.iter().map(|(name, value)| (name.as_str().into(), Value::from_json(value))).collect()
}

fn is_exact(json: &Json) -> bool {
    match json {
        Json::Number(number) => number.is_i64(),
        Json::Array(items) => items.iter().all(is_exact),
        Json::Object(fields) => fields.values().all(is_exact),
        Json::Null | Json::Bool(_) | Json::String(_) => true,
    }
}

/// JSON with sorted keys and without spaces.
pub fn canonical_json(json: &Json) -> String {
    let mut text = String::new();
    write_canonical(json, &mut text);
    text
}

fn write_canonical(json: &Json, text: &mut String) {
    match json {
        Json::Array(items) => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write_canonical(item, text);
            }
            text.push(']');
        }
        Json::Object(fields) => {
            let sorted: BTreeMap<&str, &Json> =
                fields.iter().map(|(name, value)| (name.as_str(), value)).collect();
            text.push('{');
            for (at, (name, value)) in sorted.into_iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write_json_text(name, text);
                text.push(':');
                write_canonical(value, text);
            }
            text.push('}');
        }
        Json::String(value) => write_json_text(value, text),
        Json::Null | Json::Bool(_) | Json::Number(_) => {
            write!(text, "{json}").expect("a string takes everything");
        }
    }
}

/// A text in quotes.
pub(crate) fn write_json_text(value: &str, text: &mut String) {
    text.push_str(&serde_json::to_string(value).expect("every text is JSON"));
}

/// A row, or null, as canonical JSON.
pub(crate) fn write_json_row(row: Option<&Row>, text: &mut String) {
    let Some(row) = row else { return text.push_str("null") };
    text.push('{');
    for (at, (name, value)) in row.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        write_json_text(name, text);
        text.push(':');
        value.write_json(text);
    }
    text.push('}');
}

/// The SHA-256 of a text, in hexadecimal.
pub(crate) fn hash_of(text: &str) -> String {
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(text.as_bytes()) {
        write!(hex, "{byte:02x}").expect("a string takes everything");
    }
    hex
}

/// About how many bytes a row takes as it is stored.
pub(crate) fn row_bytes(row: &Row) -> usize {
    let value_bytes = |value: &Value| match value {
        Value::Null | Value::Bool(_) | Value::Integer(_) => 8,
        Value::Text(text) | Value::Opaque(text) => text.len() + 4,
    };
    row.iter().map(|(name, value)| name.len() + 3 + value_bytes(value)).sum::<usize>() + 5
}

/// Appends a row, or what stands for none.
pub(crate) fn put_row(bytes: &mut Vec<u8>, row: Option<&Row>) {
    let Some(row) = row else { return bytes.put_u8(0) };
    bytes.put_u8(1);
    bytes.put_count(row.len());
    for (name, value) in row {
        bytes.put_short(name.as_bytes());
        match value {
            Value::Null => bytes.put_u8(0),
            Value::Bool(value) => bytes.put_u8(1 + u8::from(*value)),
            Value::Integer(integer) => {
                bytes.put_u8(3);
                bytes.extend_from_slice(&integer.to_le_bytes());
            }
            Value::Text(text) => {
                bytes.put_u8(4);
                bytes.put_long(text.as_bytes());
            }
            Value::Opaque(json) => {
                bytes.put_u8(5);
                bytes.put_long(json.as_bytes());
            }
        }
    }
}

/// Takes what [`put_row`] has put.
pub(crate) fn take_row(input: &mut Input<'_>) -> Result<Option<Row>, Malformed> {
    if !input.flag()? {
        return Ok(None);
    }
    let count = input.count(3)?;
    if count > MAX_COLUMNS {
        return Err(Malformed("more columns than a row can have"));
    }
    let mut row = Row::new();
    for _ in 0..count {
        let name: Box<str> = input.text(MAX_NAME_BYTES)?.into();
        if row.last_key_value().is_some_and(|(last, _)| *last >= name) {
            return Err(Malformed("columns that are not in order"));
        }
        let value = match input.u8()? {
            0 => Value::Null,
            1 => Value::Bool(false),
            2 => Value::Bool(true),
            3 => Value::Integer(i64::from_le_bytes(input.array()?)),
            4 => Value::Text(take_text(input)?),
            5 => Value::Opaque(take_canonical(input)?),
            _ => return Err(Malformed("a value of no type")),
        };
        row.insert(name, value);
    }
    Ok(Some(row))
}

fn take_text(input: &mut Input<'_>) -> Result<Box<str>, Malformed> {
    let text = std::str::from_utf8(input.long()?).map_err(|_| Malformed("a value that is not UTF-8"))?;
    Ok(text.into())
}

/// Only lists and objects without fractions, in their one form: a hash must not depend on who wrote them.
fn take_canonical(input: &mut Input<'_>) -> Result<Box<str>, Malformed> {
    let text = take_text(input)?;
    let json: Json = serde_json::from_str(&text).map_err(|_| Malformed("a value that is no JSON"))?;
    let nested = matches!(json, Json::Array(_) | Json::Object(_)) && is_exact(&json);
    if nested && canonical_json(&json) == *text {
        Ok(text)
    } else {
        Err(Malformed("JSON that is not canonical"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_is_canonical_whatever_order_it_came_in() {
        let json: Json =
            serde_json::from_str(r#"{ "b": [1, {"z": null, "a": "é\n\u0001"}], "a": true }"#).unwrap();
        assert_eq!(canonical_json(&json), "{\"a\":true,\"b\":[1,{\"a\":\"é\\n\\u0001\",\"z\":null}]}");
    }

    #[test]
    fn rows_survive_their_encoding_and_fractions_are_refused() {
        let row =
            row_from_json(&json!({"n": -5, "s": "x", "t": true, "f": false, "z": null, "l": [1, {"a": 2}]}));
        let mut bytes = Vec::new();
        put_row(&mut bytes, row.as_ref());
        assert_eq!(take_row(&mut Input::new(&bytes)), Ok(row.clone()));
        for end in 0..bytes.len() {
            assert!(take_row(&mut Input::new(&bytes[..end])).is_err(), "{end}");
        }
        for fraction in [json!({"n": 1.5}), json!({"n": [1, 2.5]}), json!({"n": u64::MAX}), json!([1])] {
            assert_eq!(row_from_json(&fraction), None, "{fraction}");
        }
    }

    #[test]
    fn values_of_different_types_do_not_compare_and_null_compares_with_nothing() {
        let (one, text) = (Value::Integer(1), Value::Text("1".into()));
        assert_eq!(one.compare(&text), Err(DifferentTypes));
        assert_eq!(one.compare(&Value::Null), Ok(None));
        assert_eq!(one.compare(&Value::Integer(2)), Ok(Some(Ordering::Less)));
        assert_eq!(
            Value::from_json(&json!([1])).compare(&Value::from_json(&json!([1]))),
            Err(DifferentTypes)
        );
    }
}
