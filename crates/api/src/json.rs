//! Messages as JSON: the mapping that protobuf defines, with field names as in the protocol and 64-bit numbers as numbers.
//!
//! A payload is base64 there; where its content type is JSON, it stands as what it is.
//!
//! Must not know: which messages there are.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use serde_json::Value;

use crate::FILE_DESCRIPTORS;

static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(FILE_DESCRIPTORS).expect("the build made the descriptors"));

/// A message of `gapless.v1`, by its name there.
///
/// # Panics
/// If there is no such message, or the message is another one: both are mistakes of this program.
pub fn to_json(name: &str, message: &impl Message) -> Value {
    let descriptor =
        POOL.get_message_by_name(&format!("gapless.v1.{name}")).expect("the protocol has this message");
    let decoded = DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice());
    let decoded = decoded.expect("a message is what its name says");
    let options = SerializeOptions::new()
        .stringify_64_bit_integers(false)
        .use_proto_field_name(true)
        .skip_default_fields(false);
    let mut value = decoded
        .serialize_with_options(serde_json::value::Serializer, &options)
        .expect("every message has a form in JSON");
    show_payloads(&mut value);
    value
}

/// Puts JSON where it was encoded, wherever an event is.
fn show_payloads(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(show_payloads),
        Value::Object(fields) => {
            let is_json = fields.get("content_type").and_then(Value::as_str).is_some_and(is_json);
            if let Some(payload) = fields.get_mut("payload").filter(|_| is_json)
                && let Some(decoded) = payload.as_str().and_then(|text| STANDARD.decode(text).ok())
                && let Ok(json) = serde_json::from_slice(&decoded)
            {
                *payload = json;
            } else {
                fields.values_mut().for_each(show_payloads);
            }
        }
        _ => {}
    }
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
        let value = to_json("Event", &event);
        assert_eq!(value["payload"], json!({"amount": 3}));
        assert_eq!(value["workspace"], json!(u64::MAX));
        assert_eq!(value["numbers"], json!({"invoice": 7}));
        let bytes = v1::Event { content_type: "application/octet-stream".to_owned(), ..event };
        assert_eq!(to_json("Event", &bytes)["payload"], json!("eyJhbW91bnQiOjN9"));
        assert!(is_json("application/problem+json; charset=utf-8") && !is_json("text/plain"));
    }
}
