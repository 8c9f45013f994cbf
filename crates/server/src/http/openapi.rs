//! The description of every route, made from the table of routes and the protocol itself, so that it cannot say anything else.

use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};

use gapless_api::json::{BASE64, message};

use super::routes::{Route, pages, routes};

/// `GET /openapi.json`.
pub(super) fn document() -> Value {
    let mut paths = Map::new();
    let mut schemas = Schemas(Map::new());
    for route in routes() {
        let path = route.path.replace("{*", "{");
        let operation = operation(&route, &path, &mut schemas);
        let entry = paths.entry(path).or_insert_with(|| json!({}));
        entry[route.method] = operation;
    }
    for page in pages() {
        let content = if page.content_type == "text/plain" {
            json!({"type": "string"})
        } else {
            json!({"type": "object"})
        };
        let answer = |description: &str| json!({"description": description, "content": {page.content_type: {"schema": content}}});
        let mut responses = json!({"200": answer("it is")});
        if page.path == "/readyz" {
            responses["503"] = answer("it does not, and why");
        }
        paths.insert(page.path.to_owned(), json!({"get": {"summary": page.summary, "responses": responses}}));
    }
    schemas.0.insert("Problem".to_owned(), problem());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Gapless",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "An event ledger. Numbers of 64 bits are JSON numbers; bytes are base64, but in a path or a query they are the text itself, unless their name ends with _base64.",
        },
        "paths": paths,
        "components": {"schemas": schemas.0},
    })
}

/// What one answer of a call is, and the form that answers come in.
fn answer_of(call: &str) -> (String, &'static str) {
    match call {
        "Write" => ("WriteSuccess".to_owned(), "application/json"),
        "ReadWorkspace" | "ReadAll" => ("Event".to_owned(), LINES),
        "ReadPartition" => ("Outcome".to_owned(), LINES),
        _ => (format!("{call}Response"), "application/json"),
    }
}

/// One line of JSON for each.
const LINES: &str = "application/x-ndjson";

fn operation(route: &Route, path: &str, schemas: &mut Schemas) -> Value {
    let request = message(&format!("{}Request", route.call));
    let (answer, form) = answer_of(route.call);
    let answer = schemas.reference(&message(&answer));
    let mut parameters = Vec::new();
    for field in request.fields() {
        let in_path = path.contains(&format!("{{{}}}", field.name()));
        match field.kind() {
            Kind::Message(options) if options.name() == "ReadOptions" => {
                parameters.extend(options.fields().map(|field| parameter(&field, false)));
            }
            _ if in_path => parameters.push(parameter(&field, true)),
            kind if route.body.is_none() => {
                parameters.push(parameter(&field, false));
                if kind == Kind::Bytes {
                    parameters.push(encoded(&field));
                }
            }
            _ => {}
        }
    }
    let mut operation = json!({
        "operationId": operation_id(route),
        "responses": {
            "200": {"description": "the answer", "content": {form: {"schema": answer}}},
            "default": {"description": "why there is none", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}},
        },
    });
    if let Some(content_type) = route.body {
        let body = match content_type {
            "application/json" => schemas.body(&request, path),
            _ => json!({"type": "string"}),
        };
        operation["requestBody"] = json!({"required": true, "content": {content_type: {"schema": body}}});
    }
    if route.call == "Write" {
        let why = "One for each intended write, the same for every retry of it: a UUID, 32 hexadecimal digits, or any name.";
        parameters.push(json!({"name": "Idempotency-Key", "in": "header", "required": true, "description": why, "schema": {"type": "string"}}));
        let error = schemas.reference(&message("WriteError"));
        for (status, description) in [("409", "refused"), ("422", "the key was used for another request")] {
            operation["responses"][status] =
                json!({"description": description, "content": {"application/json": {"schema": error}}});
        }
    }
    if form == LINES {
        let why = "Goes on with what happens, as server-sent events; each has an id to go on behind.";
        parameters.push(
            json!({"name": "follow", "in": "query", "description": why, "schema": {"type": "boolean"}}),
        );
        parameters.push(json!({"name": "Last-Event-ID", "in": "header", "description": "With follow: where to go on behind.", "schema": {"type": "string"}}));
        operation["responses"]["200"]["content"]["text/event-stream"] = json!({"schema": {"type": "string"}});
    }
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

/// The same bytes for those that are no text.
fn encoded(field: &FieldDescriptor) -> Value {
    let why = format!("Instead of `{}`: its bytes as base64, with either alphabet.", field.name());
    json!({"name": format!("{}{BASE64}", field.name()), "in": "query", "description": why, "required": false, "schema": {"type": "string", "contentEncoding": "base64"}})
}

/// The call; one that can be asked in two ways has two names.
fn operation_id(route: &Route) -> String {
    match route.path.rsplit('/').next() {
        Some("entity") => format!("{}ByQuery", route.call),
        _ => route.call.to_owned(),
    }
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

    /// A message without what its path and its headers say.
    fn body(&mut self, message: &MessageDescriptor, path: &str) -> Value {
        let said_elsewhere = |name: &str| path.contains(&format!("{{{name}}}")) || name == "idempotency_key";
        let fields = message.fields().filter(|field| !said_elsewhere(field.name()));
        let properties: Map<String, Value> =
            fields.map(|field| (field.name().to_owned(), self.field(&field))).collect();
        json!({"type": "object", "properties": properties, "additionalProperties": false})
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
        Kind::Double | Kind::Float => json!({"type": "number"}),
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
