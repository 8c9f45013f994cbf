//! What a write must be like before it may become part of the log: within every limit, in canonical order.
//!
//! All violations are found at once, so that a client can mend them at once. Whether the write fits the state it meets is
//! decided when it is applied.

use std::fmt;

use gapless_types::Name;
use gapless_types::limits::{
    MAX_CLIENT_ID_BYTES, MAX_ENTITY_KEY_BYTES, MAX_ENTITY_VALUE_BYTES, MAX_FIELD_NAME_BYTES,
    MAX_METADATA_PAIR_BYTES, MAX_METADATA_PAIRS, MAX_PAYLOAD_BYTES, MAX_RECORD_FIELDS, MAX_TYPE_BYTES,
    MAX_WRITE_BYTES, MAX_WRITE_OPERATIONS,
};

use super::{Condition, NewId, Operation, Value, Write};

/// Something in a write that must be otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Where: a path such as `operations[3].key`.
    pub field: String,
    /// What is wrong with it, and what would be right.
    pub problem: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

impl Write<'_> {
    /// Everything that keeps the write from being accepted; empty for a write that may be encoded.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        let mut found = Violations::default();
        if Name::check(self.kind).is_err() {
            found.add(
                "kind",
                format_args!("`{:.80}` is not a name of lower-case letters, digits, _ and -", self.kind),
            );
        }
        found.text("client_id", self.client, MAX_CLIENT_ID_BYTES);
        found.text("event_type", self.event_type, MAX_TYPE_BYTES);
        found.text("content_type", self.content_type, MAX_TYPE_BYTES);
        found.most("payload", self.payload.len(), MAX_PAYLOAD_BYTES, "bytes");
        found.most("operations", self.operations.len(), MAX_WRITE_OPERATIONS, "operations");
        found.most("metadata", self.metadata.len(), MAX_METADATA_PAIRS, "pairs");
        for (key, value) in &self.metadata {
            if key.is_empty() || key.len() + value.len() > MAX_METADATA_PAIR_BYTES {
                found.add(
                    format_args!("metadata[{key:.40}]"),
                    format_args!("a pair has a key and at most {MAX_METADATA_PAIR_BYTES} bytes"),
                );
            }
        }
        found.ascending("metadata", &self.metadata);
        for (index, operation) in self.operations.iter().enumerate() {
            found.operation(index, operation);
        }
        if found.0.is_empty() {
            found.most("write", self.encoded_length(), MAX_WRITE_BYTES, "bytes");
        }
        found.0
    }

    /// Bytes that the write takes at most.
    fn encoded_length(&self) -> usize {
        let texts = self.kind.len() + self.client.len() + self.event_type.len() + self.content_type.len();
        let metadata: usize = self.metadata.iter().map(|(key, value)| key.len() + value.len() + 4).sum();
        let operations: usize = self.operations.iter().map(operation_length).sum();
        64 + texts + self.payload.len() + metadata + operations
    }
}

fn operation_length(operation: &Operation<'_>) -> usize {
    match operation {
        Operation::CreateRecord { record_type, fields, .. } => 32 + record_type.len() + fields_length(fields),
        Operation::UpdateRecord { fields, .. } => 16 + fields_length(fields),
        Operation::SetEntity { key, value, condition, .. } => {
            24 + key.len() + value.len() + condition_length(condition)
        }
        Operation::DeleteEntity { key, condition } => 16 + key.len() + condition_length(condition),
        Operation::NextNumber { sequence } => 4 + sequence.len(),
    }
}

fn condition_length(condition: &Condition<'_>) -> usize {
    if let Condition::ValueEquals(value) = condition { value.len() } else { 8 }
}

fn fields_length(fields: &[(&str, Value<'_>)]) -> usize {
    let length = |value: &Value<'_>| match value {
        Value::Text(text) => text.len(),
        Value::Blob(bytes) => bytes.len(),
        Value::Null | Value::Boolean(_) | Value::Integer(_) | Value::Record(_) => 8,
    };
    fields.iter().map(|(name, value)| 8 + name.len() + length(value)).sum()
}

#[derive(Default)]
struct Violations(Vec<Violation>);

impl Violations {
    fn add(&mut self, field: impl fmt::Display, problem: impl fmt::Display) {
        self.0.push(Violation { field: field.to_string(), problem: problem.to_string() });
    }

    fn most(&mut self, field: impl fmt::Display, given: usize, limit: usize, unit: &str) {
        if given > limit {
            self.add(field, format_args!("{given} {unit}; the most are {limit}"));
        }
    }

    fn text(&mut self, field: impl fmt::Display, text: &str, limit: usize) {
        if text.is_empty() || text.len() > limit {
            self.add(field, format_args!("{} bytes; 1 to {limit} are needed", text.len()));
        }
    }

    fn ascending<T>(&mut self, field: impl fmt::Display, pairs: &[(&str, T)]) {
        if pairs.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
            self.add(field, "names must ascend, each once");
        }
    }

    fn operation(&mut self, index: usize, operation: &Operation<'_>) {
        let field = |name: &str| format!("operations[{index}].{name}");
        match operation {
            Operation::CreateRecord { id, record_type, fields, .. } => {
                if *id == NewId::Raw(0) {
                    self.add(field("raw_id"), "a raw id is 1 to 65535");
                }
                self.text(field("record_type"), record_type, MAX_TYPE_BYTES);
                self.fields(&field("fields"), fields);
            }
            Operation::UpdateRecord { fields, .. } => self.fields(&field("fields"), fields),
            Operation::SetEntity { key, value, condition, .. } => {
                self.key(&field("key"), key);
                self.most(field("value"), value.len(), MAX_ENTITY_VALUE_BYTES, "bytes");
                self.condition(&field("condition"), condition);
            }
            Operation::DeleteEntity { key, condition } => {
                self.key(&field("key"), key);
                self.condition(&field("condition"), condition);
            }
            Operation::NextNumber { sequence } => {
                if Name::check(sequence).is_err() {
                    self.add(field("sequence"), "not a name of lower-case letters, digits, _ and -");
                }
            }
        }
    }

    fn key(&mut self, field: &str, key: &[u8]) {
        if key.is_empty() || key.len() > MAX_ENTITY_KEY_BYTES {
            self.add(field, format_args!("{} bytes; 1 to {MAX_ENTITY_KEY_BYTES} are needed", key.len()));
        }
    }

    fn condition(&mut self, field: &str, condition: &Condition<'_>) {
        if let Condition::ValueEquals(value) = condition {
            self.most(field, value.len(), MAX_ENTITY_VALUE_BYTES, "bytes");
        }
    }

    fn fields(&mut self, field: &str, fields: &[(&str, Value<'_>)]) {
        self.most(field, fields.len(), MAX_RECORD_FIELDS, "fields");
        self.ascending(field, fields);
        for (name, _) in fields {
            self.text(format_args!("{field}[{name:.40}]"), name, MAX_FIELD_NAME_BYTES);
        }
    }
}
