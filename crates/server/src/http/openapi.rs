//! The description of every route, made from the table of routes and the protocol itself, so that it cannot say anything else.

use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};

use gapless_api::json::message;

use super::routes;

/// `GET /openapi.json`.
pub(super) fn document() -> Value {
    let mut paths = Map::new();
    let mut schemas = Schemas(Map::new());
    for route in routes() {
        let path = route.path.replace("{*", "{");
        let operation = operation(route.call, &path, route.method, &mut schemas);
        let entry = paths.entry(path).or_insert_with(|| json!({}));
        entry[route.method] = operation;
    }
    for (path, summary) in [
        ("/metrics", "What the node counts, for Prometheus"),
        ("/healthz", "Whether the process runs"),
        ("/readyz", "Whether it serves"),
    ] {
        paths.insert(
            path.to_owned(),
            json!({"get": {"summary": summary, "responses": {"200": {"description": "text"}}}}),
        );
    }
    schemas.0.insert("Problem".to_owned(), problem());
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Gapless", "version": env!("CARGO_PKG_VERSION")},
        "paths": paths,
        "components": {"schemas": schemas.0},
    })
}

fn operation(call: &str, path: &str, method: &str, schemas: &mut Schemas) -> Value {
    let (request, response, kind) = match call {
        "Write" => ("WriteRequest".to_owned(), "WriteSuccess".to_owned(), "application/json"),
        "ReadWorkspace" | "ReadAll" => (format!("{call}Request"), "Event".to_owned(), "application/x-ndjson"),
        "ReadPartition" => (format!("{call}Request"), "Outcome".to_owned(), "application/x-ndjson"),
        _ => (format!("{call}Request"), format!("{call}Response"), "application/json"),
    };
    let has_body = matches!(call, "Write" | "WaitBarrier" | "ApplyNamespace");
    let mut parameters = Vec::new();
    let descriptor = message(&request);
    for field in descriptor.fields() {
        let in_path = path.contains(&format!("{{{}}}", field.name()));
        match field.kind() {
            Kind::Message(options) if options.name() == "ReadOptions" => {
                parameters.extend(options.fields().map(|field| parameter(&field, false)));
            }
            _ if in_path => parameters.push(parameter(&field, true)),
            _ if !has_body => parameters.push(parameter(&field, false)),
            _ => {}
        }
    }
    let mut operation = json!({
        "operationId": format!("{call}"),
        "responses": {
            "200": {"description": "the answer", "content": {kind: {"schema": schemas.reference(&message(&response))}}},
            "default": {"description": "why there is none", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}},
        },
    });
    match call {
        "Write" => {
            parameters.push(json!({"name": "Idempotency-Key", "in": "header", "required": true, "schema": {"type": "string"}}));
            let body = schemas.reference(&descriptor);
            operation["requestBody"] =
                json!({"required": true, "content": {"application/json": {"schema": body}}});
            let error = schemas.reference(&message("WriteError"));
            for status in ["409", "422"] {
                operation["responses"][status] =
                    json!({"description": "refused", "content": {"application/json": {"schema": error}}});
            }
        }
        "ReadWorkspace" => {
            parameters.push(json!({"name": "follow", "in": "query", "schema": {"type": "boolean"}}));
        }
        "ApplyNamespace" => {
            operation["requestBody"] =
                json!({"required": true, "content": {"application/toml": {"schema": {"type": "string"}}}});
        }
        "WaitBarrier" => {
            let body = schemas.reference(&descriptor);
            operation["requestBody"] =
                json!({"required": true, "content": {"application/json": {"schema": body}}});
        }
        _ => {}
    }
    debug_assert!(["get", "post", "delete"].contains(&method));
    operation["parameters"] = Value::Array(parameters);
    operation
}

fn parameter(field: &FieldDescriptor, in_path: bool) -> Value {
    let schema = match field.kind() {
        Kind::Enum(values) => json!({"type": "string", "enum": short_names(&values)}),
        Kind::Bytes => json!({"type": "string"}),
        kind => scalar(&kind),
    };
    json!({"name": field.name(), "in": if in_path { "path" } else { "query" }, "required": in_path, "schema": schema})
}

/// The values of an enum without the prefix that protobuf wants.
fn short_names(values: &EnumDescriptor) -> Vec<String> {
    let prefix = format!("{}_", values.name().to_uppercase());
    values.values().map(|value| value.name().trim_start_matches(&prefix).to_lowercase()).collect()
}

/// Schemas of messages, each once.
struct Schemas(Map<String, Value>);

impl Schemas {
    fn reference(&mut self, message: &MessageDescriptor) -> Value {
        let name = message.name().to_owned();
        if !self.0.contains_key(&name) {
            // First, so that a message that contains itself ends.
            self.0.insert(name.clone(), Value::Null);
            let properties: Map<String, Value> =
                message.fields().map(|field| (field.name().to_owned(), self.field(&field))).collect();
            self.0.insert(name.clone(), json!({"type": "object", "properties": properties}));
        }
        json!({"$ref": format!("#/components/schemas/{name}")})
    }

    fn field(&mut self, field: &FieldDescriptor) -> Value {
        if let (true, Kind::Message(entry)) = (field.is_map(), field.kind()) {
            let value = self.kind(&entry.map_entry_value_field().kind());
            return json!({"type": "object", "additionalProperties": value});
        }
        if field.name() == "payload" {
            return json!({"description": "JSON as it is, or base64 if the content type is another one"});
        }
        let one = self.kind(&field.kind());
        if field.is_list() { json!({"type": "array", "items": one}) } else { one }
    }

    fn kind(&mut self, kind: &Kind) -> Value {
        match kind {
            Kind::Message(message) => self.reference(message),
            Kind::Enum(values) => {
                let names: Vec<String> = values.values().map(|value| value.name().to_owned()).collect();
                json!({"type": "string", "enum": names})
            }
            kind => scalar(kind),
        }
    }
}

fn scalar(kind: &Kind) -> Value {
    match kind {
        Kind::String => json!({"type": "string"}),
        Kind::Bytes => json!({"type": "string", "contentEncoding": "base64"}),
        Kind::Bool => json!({"type": "boolean"}),
        Kind::Uint64 | Kind::Uint32 => json!({"type": "integer", "minimum": 0}),
        _ => json!({"type": "integer"}),
    }
}

fn problem() -> Value {
    json!({
        "type": "object",
        "required": ["reason", "message"],
        "properties": {
            "reason": {"type": "string"},
            "message": {"type": "string"},
            "details": {"type": "object", "additionalProperties": {"type": "string"}},
            "violations": {"type": "array", "items": {"type": "object", "properties": {"field": {"type": "string"}, "problem": {"type": "string"}}}},
            "retry_after_ms": {"type": ["integer", "null"]},
        },
    })
}
