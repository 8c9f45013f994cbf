//! Messages as JSON: the mapping that protobuf defines, with field names as in the protocol and 64-bit numbers as numbers.
//!
//! A payload is base64 there; where its content type is JSON, it stands as what it is: digit by digit, name by name.
//!
//! Must not know: which messages there are.

use std::fmt;
use std::ops::Deref;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use prost::Message;
use prost_reflect::{
    DescriptorPool, DynamicMessage, Kind, MessageDescriptor, ReflectMessage, SerializeOptions,
};
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::FILE_DESCRIPTORS;
use crate::check::Check;
use crate::problem::Problem;

static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(FILE_DESCRIPTORS).expect("the build made the descriptors"));

/// A message of `gapless.v1`, by its name there.
///
/// # Panics
/// If there is no such message, or the message is another one: both are mistakes of this program.
pub fn to_json(name: &str, message: &impl Message) -> Json {
    let decoded = DynamicMessage::decode(self::message(name), message.encode_to_vec().as_slice());
    let decoded = decoded.expect("a message is what its name says");
    let options = SerializeOptions::new()
        .stringify_64_bit_integers(false)
        .use_proto_field_name(true)
        .skip_default_fields(false);
    let value = decoded.serialize_with_options(serde_json::value::Serializer, &options);
    Json(value.expect("every message has a form in JSON"))
}

/// A message as JSON, on one line if it is displayed. Payloads are put in when it is written out: whatever stood between would round
/// their numbers and drop what they say twice.
#[derive(Clone, Debug, PartialEq)]
pub struct Json(Value);

/// The message with its payloads as base64: what [`from_json`] takes.
impl Deref for Json {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Shown(&self.0).serialize(serializer)
    }
}

/// A part of a message.
struct Shown<'a>(&'a Value);

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Array(items) => serializer.collect_seq(items.iter().map(Shown)),
            Value::Object(fields) => {
                let is_json = fields.get("content_type").and_then(Value::as_str).is_some_and(is_json);
                let payload = fields.get("payload").filter(|_| is_json).and_then(payload);
                serializer.collect_map(fields.iter().map(|(name, value)| match &payload {
                    Some(payload) if name == "payload" => (name, Part::Payload(payload)),
                    _ => (name, Part::Field(Shown(value))),
                }))
            }
            value => value.serialize(serializer),
        }
    }
}

/// A field of a message, or a payload as it is.
#[derive(Serialize)]
#[serde(untagged)]
enum Part<'a> {
    Field(Shown<'a>),
    Payload(&'a RawValue),
}

/// The JSON that was encoded, if it is some: what no ordinary parser reads would make the message around it unreadable, too.
fn payload(encoded: &Value) -> Option<Box<RawValue>> {
    let decoded = STANDARD.decode(encoded.as_str()?).ok()?;
    serde_json::from_slice::<Value>(&decoded).ok()?;
    // Line breaks stand between its parts alone, where a space is as good, and a message is one line.
    let one_line = String::from_utf8(decoded).ok()?.replace(['\n', '\r'], " ");
    serde_json::from_str(&one_line).ok()
}

/// The bytes of a message of `gapless.v1` with these fields, given as text: a path and a query have nothing else.
///
/// A field of [`crate::v1::ReadOptions`] goes into the message's `options`. Bytes are the text itself, or base64 with [`BASE64`] behind
/// the name of the field: not all bytes are text.
///
/// # Errors
/// Every field that there is none of, and every text that is none of its values.
pub fn from_fields<'a>(
    name: &str,
    fields: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Vec<u8>, Problem> {
    let mut message = DynamicMessage::new(message(name));
    let mut check = Check::default();
    for (field, text) in fields {
        if !set(&mut message, field, text, &mut check) {
            let has_options = message.descriptor().get_field_by_name("options").is_some();
            let options = message.get_field_by_name_mut("options").filter(|_| has_options);
            let in_options = match options {
                Some(prost_reflect::Value::Message(options)) => set(options, field, text, &mut check),
                _ => false,
            };
            if !in_options {
                check.add(field, "is not known here");
            }
        }
    }
    check.end()?;
    Ok(message.encode_to_vec())
}

/// The bytes of a message of `gapless.v1` that is given as JSON.
///
/// # Errors
/// If it is not of the form that the protocol says.
pub fn from_json(name: &str, value: &Value) -> Result<Vec<u8>, Problem> {
    let decoded = DynamicMessage::deserialize(message(name), value);
    let message = decoded.map_err(|error| Problem::violation("body", error.to_string()))?;
    Ok(message.encode_to_vec())
}

/// Sets a field to what a text says; whether there is such a field.
fn set(message: &mut DynamicMessage, name: &str, text: &str, check: &mut Check) -> bool {
    if set_encoded(message, name, text, check) {
        return true;
    }
    let Some(field) = message.descriptor().get_field_by_name(name) else { return false };
    let value = match field.kind() {
        Kind::String => Some(prost_reflect::Value::String(text.to_owned())),
        Kind::Bytes if message.has_field(&field) => {
            check.add(name, "is said twice");
            return true;
        }
        Kind::Bytes => Some(prost_reflect::Value::Bytes(text.as_bytes().to_vec().into())),
        Kind::Uint64 => text.parse().ok().map(prost_reflect::Value::U64),
        Kind::Uint32 => text.parse().ok().map(prost_reflect::Value::U32),
        Kind::Bool => text.parse().ok().map(prost_reflect::Value::Bool),
        Kind::Enum(values) => {
            let full = format!("{}_{}", values.name().to_uppercase(), text.to_uppercase());
            values.get_value_by_name(&full).map(|value| prost_reflect::Value::EnumNumber(value.number()))
        }
        _ => None,
    };
    match value {
        Some(value) => message.set_field(&field, value),
        None => check.add(name, format_args!("`{text:.80}` is none of its values")),
    }
    true
}

/// Behind the name of a field of bytes: they are given as base64, with either alphabet, padded or not.
pub const BASE64: &str = "_base64";

/// Sets a field of bytes to what a text encodes; whether there is such a field.
fn set_encoded(message: &mut DynamicMessage, name: &str, text: &str, check: &mut Check) -> bool {
    let field = name.strip_suffix(BASE64).and_then(|name| message.descriptor().get_field_by_name(name));
    let Some(field) = field.filter(|field| field.kind() == Kind::Bytes) else { return false };
    let standard = |character| match character {
        // A query has spaces where somebody wrote a plus.
        '-' | ' ' => '+',
        '_' => '/',
        character => character,
    };
    let digits: String = text.trim_end_matches('=').chars().map(standard).collect();
    match STANDARD_NO_PAD.decode(digits) {
        Ok(_) if message.has_field(&field) => check.add(name, "is said twice"),
        Ok(bytes) => message.set_field(&field, prost_reflect::Value::Bytes(bytes.into())),
        Err(_) => check.add(name, format_args!("`{text:.80}` is no base64")),
    }
    true
}

/// What the protocol says of a message of `gapless.v1`.
///
/// # Panics
/// If there is no such message: a mistake of this program.
pub fn message(name: &str) -> MessageDescriptor {
    POOL.get_message_by_name(&format!("gapless.v1.{name}")).expect("the protocol has this message")
}

/// Whether a content type says JSON.
pub fn is_json(content_type: &str) -> bool {
    let bare = content_type.split(';').next().unwrap_or_default().trim();
    bare == "application/json" || bare.ends_with("+json")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::v1;

    #[test]
    fn an_event_shows_its_payload_as_what_it_is() {
        let event = v1::Event {
            workspace: u64::MAX,
            content_type: "application/json".to_owned(),
            payload: "{\"amount\":3}".into(),
            numbers: [("invoice".to_owned(), 7)].into(),
            ..Default::default()
        };
        let shown = |event: &v1::Event| -> Value {
            serde_json::from_str(&to_json("Event", event).to_string()).unwrap()
        };
        let value = shown(&event);
        assert_eq!(value["payload"], json!({"amount": 3}));
        assert_eq!(value["workspace"], json!(u64::MAX));
        assert_eq!(value["numbers"], json!({"invoice": 7}));
        let bytes = v1::Event { content_type: "application/octet-stream".to_owned(), ..event };
        assert_eq!(shown(&bytes)["payload"], json!("eyJhbW91bnQiOjN9"));
        assert!(is_json("application/problem+json; charset=utf-8") && !is_json("text/plain"));
    }

    #[test]
    fn a_payload_is_shown_digit_by_digit_and_name_by_name_on_one_line() {
        let shown = |payload: &str| {
            let event = v1::Event {
                content_type: "application/json".to_owned(),
                payload: payload.to_owned().into(),
                ..Default::default()
            };
            // As deep as a message can stand in another one.
            let response = v1::ReadWorkspaceResponse { event: Some(event) };
            to_json("ReadWorkspaceResponse", &response).to_string()
        };
        for (payload, expected) in [
            (r#"{"a":12345678901234567890123,"a":1.10}"#, r#"{"a":12345678901234567890123,"a":1.10}"#),
            ("{\r\n \"b\" : \"\\n\"\n}\n", "{   \"b\" : \"\\n\" }"),
            // What no parser reads stays what it was.
            ("{\"a\":", "\"eyJhIjo=\""),
            ("", "\"\""),
        ] {
            let line = shown(payload);
            assert!(line.contains(&format!("\"payload\":{expected}")), "{line}");
            assert!(!line.contains(['\n', '\r']), "{line}");
        }
        let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
        serde_json::from_str::<Value>(&shown(&deep)).unwrap();
    }

    #[test]
    fn bytes_are_given_as_text_or_as_base64() {
        let key = |fields: &[(&str, &str)]| {
            let bytes = from_fields("GetEntityRequest", fields.iter().copied())?;
            Ok::<_, Problem>(v1::GetEntityRequest::decode(&bytes[..]).unwrap().key)
        };
        assert_eq!(key(&[("key", "a b")]).unwrap(), "a b");
        for encoded in ["+/8A", " /8A", "-_8A", "-_8A=="] {
            assert_eq!(key(&[("key_base64", encoded)]).unwrap()[..], [0xfb, 0xff, 0x00], "{encoded}");
        }
        let twice = key(&[("key", "a"), ("key_base64", "YQ==")]).unwrap_err();
        assert_eq!(twice.violations[0].field, "key_base64");
        assert_eq!(key(&[("key_base64", "!")]).unwrap_err().violations[0].field, "key_base64");
        assert_eq!(key(&[("namespace_base64", "YQ")]).unwrap_err().violations[0].field, "namespace_base64");
    }
}
