//! HTTP on the same port: every route, statuses, server-sent events, origin, health, metrics, and the description of it all.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::support::Node;

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    #[track_caller]
    fn ok(self) -> Value {
        assert_eq!(self.status, 200, "{}", self.body);
        self.json()
    }
}

/// One request on a connection of its own, byte by byte: there is nothing between the test and the wire.
pub(crate) async fn ask(node: &Node, method: &str, path: &str, headers: &str, body: &str) -> Answer {
    ask_at(node.server.address(), method, path, headers, body).await
}

/// The same at an address.
pub(crate) async fn ask_at(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> Answer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body = if head.to_lowercase().contains("transfer-encoding: chunked") {
        joined(body)
    } else {
        body.to_owned()
    };
    Answer { status, head: head.to_lowercase(), body }
}

/// A body from its chunks.
fn joined(mut chunks: &str) -> String {
    let mut body = String::new();
    while let Some((length, rest)) = chunks.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        body.push_str(&rest[..length]);
        chunks = rest[length..].trim_start_matches("\r\n");
        if length == 0 {
            break;
        }
    }
    body
}

async fn get(node: &Node, path: &str) -> Answer {
    ask(node, "GET", path, "", "").await
}

const EVENTS: &str = "/v1/namespaces/shop/workspaces/42/events";

async fn sell(node: &Node, key: &str, body: &Value) -> Answer {
    ask(node, "POST", EVENTS, &format!("Idempotency-Key: {key}\r\n"), &body.to_string()).await
}

#[tokio::test]
async fn an_event_is_written_with_a_key_and_retried_with_the_same_answer() {
    let node = Node::start().await;
    let body = json!({
        "event_type": "ItemSold",
        "client_id": "till",
        "payload": {"amount": 3},
        "operations": [
            {"next_number": {"sequence": "invoice"}},
            {"create_record": {"raw_id": 1, "record_type": "order", "fields": {"total": {"integer": 3}}}},
            {"set_entity": {"key": "YXBwbGVz", "value": "MTI="}},
        ],
    });
    let first = sell(&node, "order-1", &body).await.ok();
    assert_eq!(first["workspace_offset"], 1);
    assert_eq!(first["record_ids"], json!({"1": 200_001}));
    assert_eq!(first["numbers"], json!({"invoice": 1}));
    let mut again = sell(&node, "order-1", &body).await.ok();
    assert_eq!(again["duplicate"], true);
    again["duplicate"] = json!(false);
    assert_eq!(again, first);
    let uuid = "0e2f9a3c-6c1b-4e61-9d3e-0a4f5f0b7c11";
    let mut other = body.clone();
    other["operations"] = json!([]);
    assert_eq!(sell(&node, uuid, &other).await.ok()["workspace_offset"], 2);

    let reused = sell(&node, "order-1", &other).await;
    assert_eq!(
        (reused.status, &reused.json()["code"]),
        (422, &json!("WRITE_ERROR_CODE_IDEMPOTENCY_KEY_REUSED"))
    );
    other["expected_workspace_offset"] = json!(9);
    let mismatch = sell(&node, "order-3", &other).await;
    assert_eq!((mismatch.status, &mismatch.json()["current_version"]), (409, &json!(2)));
    let keyless = ask(&node, "POST", EVENTS, "", &body.to_string()).await;
    assert_eq!((keyless.status, &keyless.json()["violations"][0]["field"]), (400, &json!("Idempotency-Key")));
    let wrong = sell(&node, "order-4", &json!({"client_id": "", "colour": 1})).await;
    assert_eq!(wrong.status, 400);
    let nowhere = ask(
        &node,
        "POST",
        "/v1/namespaces/nowhere/workspaces/1/events",
        "Idempotency-Key: k\r\n",
        &body.to_string(),
    )
    .await;
    assert_eq!((nowhere.status, &nowhere.json()["reason"]), (404, &json!("UNKNOWN_NAMESPACE")));
    node.stop().await;
}

#[tokio::test]
async fn a_payload_is_kept_byte_for_byte() {
    let node = Node::start().await;
    let body = r#"{"event_type":"A","client_id":"t","payload": {"b": 1.10,  "a": 12345678901234567890123}}"#;
    let answer = ask(&node, "POST", EVENTS, "Idempotency-Key: k\r\n", body).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let request = gapless_api::v1::ReadWorkspaceRequest {
        namespace: "shop".to_owned(),
        workspace: 42,
        ..Default::default()
    };
    let mut events = node.ledger().await.read_workspace(request).await.unwrap().into_inner();
    let event = events.message().await.unwrap().unwrap().event.unwrap();
    let payload = r#"{"b": 1.10,  "a": 12345678901234567890123}"#;
    assert_eq!(&event.payload[..], payload.as_bytes());
    // It is read as it was written: no digit is rounded, no name is dropped.
    let twice = r#"{"a":1,"a":2}"#;
    let body = format!(r#"{{"event_type":"A","client_id":"t","payload":{twice}}}"#);
    ask(&node, "POST", EVENTS, "Idempotency-Key: l\r\n", &body).await.ok();
    let read = get(&node, EVENTS).await;
    let lines: Vec<&str> = read.body.lines().collect();
    assert!(lines[0].contains(&format!(r#""payload":{payload}"#)), "{}", lines[0]);
    assert!(lines[1].contains(&format!(r#""payload":{twice}"#)), "{}", lines[1]);
    let mut stream = BufReader::new(TcpStream::connect(node.server.address()).await.unwrap());
    let request = format!("GET {EVENTS}?follow=true HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut followed = stream.lines();
    let data = loop {
        let line = followed.next_line().await.unwrap().unwrap();
        if let Some(data) = line.strip_prefix("data: ") {
            break data.to_owned();
        }
    };
    assert_eq!(data, lines[0]);
    drop(followed);
    node.stop().await;
}

#[tokio::test]
async fn everything_that_is_wrong_with_a_write_is_told_at_once() {
    let node = Node::start().await;
    let fields = |answer: &Answer| -> Vec<String> {
        let violations = answer.json()["violations"].as_array().cloned().unwrap_or_default();
        violations.iter().map(|violation| violation["field"].as_str().unwrap().to_owned()).collect()
    };
    let body = json!({"event_type": "", "client_id": ""}).to_string();
    let keyless = ask(&node, "POST", EVENTS, "", &body).await;
    assert_eq!(keyless.status, 400);
    let told = fields(&keyless);
    assert_eq!(told[0], "Idempotency-Key");
    assert!(told.contains(&"client_id".to_owned()) && told.contains(&"event_type".to_owned()), "{told:?}");
    assert!(!told.contains(&"idempotency_key".to_owned()), "once: {told:?}");
    let broken = ask(&node, "POST", EVENTS, "", "{").await;
    assert_eq!(fields(&broken), ["Idempotency-Key", "body"]);
    let zeros = "Idempotency-Key: 00000000-0000-0000-0000-000000000000\r\n";
    let body = json!({"event_type": "A", "client_id": "t", "namespace": "a", "workspace": 1}).to_string();
    assert_eq!(
        fields(&ask(&node, "POST", EVENTS, zeros, &body).await),
        ["Idempotency-Key", "namespace", "workspace"]
    );
    node.stop().await;
}

#[tokio::test]
async fn keys_that_are_no_text_are_fetched_and_listed() {
    let node = Node::start().await;
    // The bytes 0xfb 0xff 0x00 and 0xfb 0xff 0x01.
    let operations = json!([
        {"set_entity": {"key": "+/8A", "value": "MQ=="}},
        {"set_entity": {"key": "+/8B", "value": "Mg=="}},
        {"set_entity": {"key": "YXBwbGVz", "value": "Mw=="}},
    ]);
    let body = json!({"event_type": "A", "client_id": "t", "operations": operations});
    sell(&node, "k", &body).await.ok();
    let at = |path: &str| format!("/v1/namespaces/shop/workspaces/42{path}");
    for key in ["%2B%2F8A", "-_8A", "-_8A%3D%3D"] {
        let found = get(&node, &at(&format!("/entity?key_base64={key}"))).await.ok();
        assert_eq!((&found["entity"]["key"], &found["entity"]["value"]), (&json!("+/8A"), &json!("MQ==")));
    }
    assert_eq!(get(&node, &at("/entity?key=apples")).await.ok()["entity"]["value"], "Mw==");
    let listed = get(&node, &at("/entities?prefix_base64=-_8")).await.ok();
    let keys: Vec<_> = listed["entities"].as_array().unwrap().iter().map(|entity| &entity["key"]).collect();
    assert_eq!(keys, ["+/8A", "+/8B"]);
    for (path, field) in [
        ("/entity?key_base64=%21", "key_base64"),
        ("/entity?key=a&key_base64=YQ", "key_base64"),
        ("/entity", "key"),
    ] {
        let wrong = get(&node, &at(path)).await;
        assert_eq!((wrong.status, &wrong.json()["violations"][0]["field"]), (400, &json!(field)), "{path}");
    }
    let described = get(&node, "/openapi.json").await.ok();
    let operation = &described["paths"]["/v1/namespaces/{namespace}/workspaces/{workspace}/entity"]["get"];
    let parameters = operation["parameters"].as_array().unwrap();
    assert!(parameters.iter().any(|parameter| parameter["name"] == "key_base64"), "{parameters:?}");
    node.stop().await;
}

#[tokio::test]
async fn what_cannot_be_had_of_what_is_followed_is_refused_and_not_ignored() {
    let node = Node::start().await;
    for (path, fields) in [
        ("follow=true&consistency=linearizable", vec!["consistency"]),
        ("follow=true&min_partition_offset=7", vec!["min_partition_offset"]),
        (
            "follow=true&limit=1&direction=backward&min_partition_offset=7",
            vec!["limit", "direction", "min_partition_offset"],
        ),
    ] {
        for of in [EVENTS, "/v1/namespaces/shop/events", "/v1/namespaces/shop/partitions/0/outcomes"] {
            let refused = get(&node, &format!("{of}?{path}")).await;
            assert_eq!(refused.status, 400, "{of}?{path}");
            let violations = refused.json()["violations"].as_array().unwrap().clone();
            let told: Vec<_> =
                violations.iter().map(|violation| violation["field"].as_str().unwrap()).collect();
            assert_eq!(told, fields, "{of}?{path}");
        }
    }
    node.stop().await;
}

#[tokio::test]
async fn every_route_answers() {
    let node = Node::start().await;
    let body = json!({
        "event_type": "ItemSold",
        "client_id": "till",
        "operations": [
            {"create_record": {"raw_id": 1, "record_type": "order"}},
            {"set_entity": {"key": "c3RvY2svYXBwbGVz", "value": "MTI="}},
            {"next_number": {"sequence": "invoice"}},
        ],
    });
    for key in ["a", "b", "c"] {
        sell(&node, key, &body).await.ok();
    }
    let workspace = "/v1/namespaces/shop/workspaces/42";
    let at = |path: &str| format!("{workspace}{path}");
    assert_eq!(get(&node, workspace).await.ok()["last_offset"], 3);
    assert_eq!(get(&node, &at("/entities/stock/apples")).await.ok()["entity"]["value"], "MTI=");
    assert_eq!(
        get(&node, &at("/entities?prefix=stock%2F&page_size=1")).await.ok()["entities"][0]["version"],
        3
    );
    assert_eq!(get(&node, &at("/records/200002")).await.ok()["record"]["record_type"], "order");
    assert_eq!(
        get(&node, &at("/records?record_type=order")).await.ok()["records"].as_array().unwrap().len(),
        3
    );
    assert_eq!(get(&node, &at("/sequences")).await.ok()["sequences"][0]["last_number"], 3);
    assert_eq!(get(&node, &at("/clients/till")).await.ok()["last_committed_sequence"], 3);
    assert_eq!(get(&node, &at("/blocks/2")).await.ok()["header"]["height"], 2);
    assert_eq!(get(&node, &at("/proofs/2?tree_size=3")).await.ok()["proof"]["tree_size"], 3);
    assert_eq!(get(&node, &at("/consistency?old_size=1")).await.ok()["new_size"], 3);
    assert_eq!(get(&node, &at("/root")).await.ok()["tree_size"], 3);
    let events = get(&node, &at("/events?from=2&consistency=stale")).await;
    assert_eq!((events.status, events.body.lines().count()), (200, 2));
    let last = get(&node, &at("/events?direction=backward&limit=1")).await;
    assert_eq!(last.json()["workspace_offset"], 3);
    assert_eq!(get(&node, "/v1/namespaces/shop/events").await.body.lines().count(), 3);
    assert_eq!(get(&node, "/v1/namespaces/shop/partitions/0/outcomes").await.body.lines().count(), 4);

    let other = ask(&node, "POST", "/v1/namespaces", "", "name = 'other'\npartitions = 1").await.ok();
    assert_eq!(other["namespace"]["name"], "other");
    assert_eq!(get(&node, "/v1/namespaces").await.ok()["namespaces"].as_array().unwrap().len(), 2);
    assert_eq!(get(&node, "/v1/namespaces/other").await.ok()["namespace"]["partitions"], 1);
    assert_eq!(
        get(&node, "/v1/partitions?namespace=shop").await.ok()["partitions"].as_array().unwrap().len(),
        3
    );
    ask(&node, "POST", "/v1/namespaces/shop/partitions/0/freeze", "", "").await.ok();
    let frozen = sell(&node, "d", &body).await;
    assert_eq!((frozen.status, &frozen.json()["reason"]), (412, &json!("PARTITION_FROZEN")));
    ask(&node, "POST", "/v1/namespaces/shop/partitions/0/thaw", "", "").await.ok();
    ask(&node, "POST", "/v1/namespaces/shop/partitions/0/repair", "", "").await.ok();
    let target = json!({"targets": [{"namespace": "shop", "partition": 0, "partition_offset": 4}]});
    assert_eq!(ask(&node, "POST", "/v1/barrier", "", &target.to_string()).await.ok()["reached"], true);
    assert!(ask(&node, "POST", "/v1/snapshot", "", "").await.ok()["log_index"].as_u64().unwrap() > 0);
    assert_eq!(get(&node, "/v1/cluster").await.ok()["is_leader"], true);
    ask(&node, "DELETE", "/v1/namespaces/other", "", "").await.ok();
    assert_eq!(get(&node, "/v1/namespaces/other").await.status, 404);
    for (path, field) in [
        ("/records?page_size=1001", "page_size"),
        ("/root?tree_size=x", "tree_size"),
        ("/root?colour=red", "colour"),
    ] {
        let wrong = get(&node, &at(path)).await;
        assert_eq!((wrong.status, &wrong.json()["violations"][0]["field"]), (400, &json!(field)));
    }
    node.stop().await;
}

#[tokio::test]
async fn following_is_a_stream_of_server_sent_events_that_goes_on_behind_the_last_one() {
    let node = Node::start().await;
    let body = json!({"event_type": "ItemSold", "client_id": "till"});
    sell(&node, "1", &body).await.ok();
    sell(&node, "2", &body).await.ok();
    let stream = TcpStream::connect(node.server.address()).await.unwrap();
    let mut stream = BufReader::new(stream);
    let request = format!("GET {EVENTS}?follow=true HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 1\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut lines = stream.lines();
    let mut ids = Vec::new();
    while ids.len() < 3 {
        let line = lines.next_line().await.unwrap().unwrap();
        if let Some(id) = line.strip_prefix("id: ") {
            ids.push(id.parse::<u64>().unwrap());
            sell(&node, &format!("next-{}", ids.len()), &body).await.ok();
        }
    }
    assert_eq!(ids, [2, 3, 4]);
    drop(lines);
    node.stop().await;
}

#[tokio::test]
async fn pages_from_elsewhere_are_refused() {
    let node = Node::start().await;
    let foreign = ask(&node, "GET", "/v1/namespaces", "Origin: https://example.com\r\n", "").await;
    assert_eq!((foreign.status, &foreign.json()["reason"]), (403, &json!("FOREIGN_ORIGIN")));
    let own = ask(&node, "GET", "/v1/namespaces", "Origin: http://localhost\r\n", "").await;
    assert_eq!(own.status, 200);
    node.stop().await;
}

#[tokio::test]
async fn health_metrics_and_the_description_are_there() {
    let node = Node::start().await;
    assert_eq!(get(&node, "/healthz").await.status, 200);
    for _ in 0..6000 {
        if get(&node, "/readyz").await.status == 200 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(get(&node, "/readyz").await.status, 200);
    sell(&node, "1", &json!({"event_type": "ItemSold", "client_id": "till"})).await.ok();
    let sample = "gapless_partition_offset{namespace=\"shop\",partition=\"0\",mark=\"applied\"} 2\n";
    let mut metrics = get(&node, "/metrics").await;
    assert!(metrics.head.contains("text/plain; version=0.0.4"));
    // A mark follows the acknowledgement.
    for _ in 0..6000 {
        if metrics.body.contains(sample) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        metrics = get(&node, "/metrics").await;
    }
    assert!(metrics.body.contains(sample), "{}", metrics.body);
    let described = get(&node, "/openapi.json").await.ok();
    assert_eq!(described["openapi"], "3.1.0");
    let paths = described["paths"].as_object().unwrap();
    assert!(paths.len() > 20);
    check_references(&described, &described);
    for (path, operations) in paths {
        let wanted = path.matches('{').count();
        for operation in operations.as_object().unwrap().values() {
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            let in_path = parameters.iter().filter(|parameter| parameter["in"] == "path").count();
            assert_eq!(in_path, wanted, "{path}: every part of a path is described");
        }
    }
    node.stop().await;
}

/// Every reference leads somewhere.
fn check_references(value: &Value, document: &Value) {
    match value {
        Value::Object(fields) => {
            if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
                let target = document.pointer(reference.trim_start_matches('#'));
                assert!(target.is_some_and(Value::is_object), "{reference}");
            }
            fields.values().for_each(|value| check_references(value, document));
        }
        Value::Array(items) => items.iter().for_each(|value| check_references(value, document)),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_sends_a_place_in_a_trace_gets_one_in_the_same_trace_back() {
    let node = Node::start().await;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let sent = format!("traceparent: 00-{trace}-00f067aa0ba902b7-01\r\n");
    let answer = ask(&node, "GET", "/v1/namespaces", &sent, "").await;
    let given = answer.head.lines().find_map(|line| line.strip_prefix("traceparent: ")).unwrap();
    assert!(given.starts_with(&format!("00-{trace}-")) && given.ends_with("-01"), "{given}");
    assert!(!given.contains("00f067aa0ba902b7"), "{given}");
    for wrong in ["", "traceparent: nonsense\r\n"] {
        let answer = ask(&node, "GET", "/v1/namespaces", wrong, "").await;
        assert_eq!((answer.status, answer.head.contains("traceparent")), (200, false));
    }
    node.stop().await;
}
