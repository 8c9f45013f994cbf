//! What is administered and who was refused is written down, in order and for good; and strangers cannot fill the disk with it.

use bytes::Bytes;
use gapless_api::v1;
use prost::Message;
use serde_json::Value;
use tonic::Code;

use crate::support::{Secured, until};
use crate::wire::{framed, grpc, http1, request};

/// The audit, as those who administer everything read it.
fn audit(server: &Secured) -> Vec<(String, Value)> {
    let lines = server.says(&server.operator(), &["read", "_system/1", "-o", "json"]);
    let event = |line: &str| {
        let event: Value = serde_json::from_str(line).unwrap();
        let payload = event["payload"].clone();
        let payload = match payload.as_str() {
            Some(text) => serde_json::from_str(text).unwrap_or(Value::Null),
            None => payload,
        };
        (event["event_type"].as_str().unwrap().to_owned(), payload)
    };
    lines.lines().map(event).collect()
}

#[test]
fn actions_are_in_the_audit_before_they_are_done_and_can_be_proved() {
    let server = Secured::start();
    let boss = server.token("boss", "shop*", "admin");
    let file = server.path("shop2.toml");
    std::fs::write(&file, "name = 'shop2'\npartitions = 1\n").unwrap();
    server.says(&boss, &["namespace", "apply", file.to_str().unwrap()]);
    server.says(&boss, &["namespace", "drop", "shop2", "--yes"]);
    server.refuses(&boss, &["namespace", "drop", "well", "--yes"]);
    until("the refusal is there", || audit(&server).iter().any(|(name, _)| name == "PermissionDenied"));
    let all = audit(&server);
    let mine: Vec<_> = all.iter().filter(|(_, event)| event["principal"] == "boss").collect();
    let told: Vec<_> = mine
        .iter()
        .map(|(name, event)| (name.as_str(), event["call"].as_str().unwrap(), event["namespace"].as_str()))
        .collect();
    let expected = [
        ("AdminAction", "ApplyNamespace", Some("shop2")),
        ("AdminActionDone", "ApplyNamespace", None),
        ("AdminAction", "DropNamespace", Some("shop2")),
        ("AdminActionDone", "DropNamespace", None),
        ("PermissionDenied", "DropNamespace", None),
    ];
    assert_eq!(told, expected, "{all:#?}");
    let proof = server.says(&server.operator(), &["proof", "_system/1", "1"]);
    assert!(!proof.is_empty());
    // Nobody makes, changes, drops or writes it; only those who administer everything read it.
    let operator = server.operator();
    for arguments in
        [&["write", "_system/1", "AdminAction", "{}"][..], &["namespace", "drop", "_system", "--yes"]]
    {
        assert!(server.refuses(&operator, arguments).contains("is never written"), "{arguments:?}");
    }
    for actions in ["read", "read,write,work"] {
        let curious = server.token("curious", "*", actions);
        server.refuses(&curious, &["read", "_system/1"]);
        assert!(!server.says(&curious, &["namespace", "list"]).contains("_system"));
    }
}

/// Every action over HTTP, each of which fails or not; what the operator did, in order.
const ACTIONS: [(&str, &str, &str, &str); 19] = [
    ("POST", "/v1/namespaces", "name = 'shop2'\npartitions = 1\n", "ApplyNamespace"),
    ("POST", "/v1/namespaces", "name = 'shop2'\npartitions = 0\n", "ApplyNamespace"),
    ("POST", "/v1/namespaces/shop2/partitions/0/freeze", "", "FreezePartition"),
    ("POST", "/v1/namespaces/shop2/partitions/9/freeze", "", "FreezePartition"),
    ("POST", "/v1/namespaces/shop2/partitions/0/thaw", "", "ThawPartition"),
    ("POST", "/v1/namespaces/shop2/partitions/0/repair", "", "RepairPartition"),
    ("DELETE", "/v1/namespaces/nothing", "", "DropNamespace"),
    ("DELETE", "/v1/namespaces/shop2", "", "DropNamespace"),
    ("POST", "/v1/snapshot", "", "Snapshot"),
    ("POST", "/v1/backup", "{\"target\":\"not absolute\"}", "Backup"),
    ("POST", "/v1/cluster/nodes", "{\"address\":\"127.0.0.1:1\"}", "AddNode"),
    ("DELETE", "/v1/cluster/nodes/9", "", "RemoveNode"),
    ("POST", "/v1/cluster/nodes/9/lead", "", "TransferLeader"),
    ("POST", "/v1/namespaces/shop/projections/p/pause", "", "Pause"),
    ("POST", "/v1/namespaces/shop/projections/p/resume", "", "Resume"),
    ("POST", "/v1/namespaces/shop/projections/p/rebuild", "", "Rebuild"),
    ("POST", "/v1/namespaces/shop/projections/p/switch", "", "Switch"),
    ("POST", "/v1/namespaces/shop/projections/p/audit", "", "Audit"),
    ("POST", "/v1/namespaces/shop/projections/p/dead-letters/replay", "", "ReplayDeadLetters"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn how_an_action_ended_is_behind_it_in_the_audit() {
    let server = Secured::start();
    let boss = format!("Bearer {}", server.token("boss", "*", "admin"));
    let mut expected = Vec::new();
    for (method, path, body, call) in ACTIONS {
        let headers = [("authorization", boss.as_str()), ("content-type", kind_of(path))];
        let answer = http1(&server, &request(method, path, &headers, body.as_bytes())).await;
        assert!(answer.status != 401 && answer.status != 403, "{path}: {answer:?}");
        expected.push(("AdminAction".to_owned(), call.to_owned(), None));
        expected.push(match answer.status {
            200 => ("AdminActionDone".to_owned(), call.to_owned(), None),
            _ => ("AdminActionFailed".to_owned(), call.to_owned(), Some(answer.reason)),
        });
    }
    assert!(expected.iter().filter(|(name, ..)| name == "AdminActionDone").count() >= 4, "{expected:#?}");
    // A backup by gRPC is a stream, and ends when it does.
    let boss = server.token("boss", "*", "admin");
    server.says(&boss, &["backup", server.path("backups").to_str().unwrap()]);
    server.refuses(&boss, &["backup", server.path("data").to_str().unwrap()]);
    for (name, reason) in
        [("AdminActionDone", None), ("AdminActionFailed", Some("INVALID_REQUEST".to_owned()))]
    {
        expected.push(("AdminAction".to_owned(), "Backup".to_owned(), None));
        expected.push((name.to_owned(), "Backup".to_owned(), reason));
    }
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let all = audit(&server);
    let numbered: Vec<_> =
        (1_u64..).zip(&all).filter(|(_, (_, event))| event["principal"] == "boss").collect();
    let found: Vec<_> = numbered
        .iter()
        .map(|(_, (name, event))| (name.clone(), text(&event["call"]).unwrap(), text(&event["reason"])))
        .collect();
    assert_eq!(found, expected);
    for pair in numbered.chunks(2) {
        let [(number, _), (_, (_, end))] = pair else { panic!("an action without an end") };
        assert_eq!(end["action"], *number, "it says which action has ended");
    }
}

/// Streams that somebody may not begin, or may not go on with: the call, the actions of his token, what he sends.
fn streams() -> [(&'static str, &'static str, Bytes); 4] {
    let write = v1::WriteRequest { namespace: "well".to_owned(), ..Default::default() };
    let hello = v1::WorkHello { namespace: "well".to_owned(), ..Default::default() };
    let work = v1::WorkRequest { request: Some(v1::work_request::Request::Hello(hello)) };
    let (write, work) = (framed(&write.encode_to_vec()), framed(&work.encode_to_vec()));
    [
        ("Ledger/WriteStream", "read", write.clone()),
        ("Projections/Work", "read", work.clone()),
        ("Ledger/WriteStream", "write", write),
        ("Projections/Work", "work", work),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_may_not_begin_a_stream_or_go_on_with_it_is_in_the_audit() {
    let server = Secured::start();
    let mut expected = Vec::new();
    for (number, (call, actions, body)) in (0..).zip(streams()) {
        let principal = format!("till-{number}");
        let bearer = format!("Bearer {}", server.token(&principal, "shop", actions));
        let path = format!("/gapless.v1.{call}");
        let answer = grpc(&server, None, &path, &[("authorization", &bearer)], body).await.unwrap();
        assert_eq!(answer.code, Code::PermissionDenied, "{call} with {actions}: {answer:?}");
        expected.push((principal, call.split_once('/').unwrap().1.to_owned()));
    }
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let denied = || -> Vec<_> {
        let all = audit(&server).into_iter().filter(|(name, _)| name == "PermissionDenied");
        all.map(|(_, event)| (text(&event["principal"]), text(&event["call"]))).collect()
    };
    until("all of them are there", || denied().len() >= expected.len());
    // A write of a stream is under the rule of a write.
    expected[2].1 = "Write".to_owned();
    assert_eq!(denied(), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_leads_and_what_was_acted_upon_is_in_the_audit() {
    let server = Secured::start();
    until("it leads", || audit(&server).iter().any(|(name, _)| name == "LeaderElected"));
    let boss = format!("Bearer {}", server.token("boss", "*", "admin"));
    let freeze = "/v1/namespaces/shop/partitions/1/freeze";
    let answer = http1(&server, &request("POST", freeze, &[("authorization", &boss)], b"")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let all = audit(&server);
    let (_, elected) = all.iter().find(|(name, _)| name == "LeaderElected").unwrap();
    assert_eq!(elected["node_id"], 1, "{all:#?}");
    let (_, frozen) = all.iter().find(|(_, event)| event["principal"] == "boss").unwrap();
    assert_eq!((&frozen["namespace"], &frozen["partition"]), (&"shop".into(), &1.into()), "{all:#?}");
}

fn kind_of(path: &str) -> &'static str {
    if path == "/v1/namespaces" { "application/toml" } else { "application/json" }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_are_counted_and_not_written_down_one_by_one() {
    let server = Secured::start();
    for _ in 0..100 {
        let answer =
            http1(&server, &request("GET", "/v1/namespaces", &[("authorization", "Bearer a.b.c")], b""))
                .await;
        assert_eq!(answer.status, 401);
    }
    assert!(server.metric("gapless_authentications_refused_total") >= 100);
    until("some of them are there", || {
        audit(&server).iter().any(|(name, _)| name == "AuthenticationRefused")
    });
    let refused: Vec<_> =
        audit(&server).into_iter().filter(|(name, _)| name == "AuthenticationRefused").collect();
    // A burst, and one more every few seconds that this test may take.
    assert!(refused.len() < 60, "{}", refused.len());
    assert_eq!(refused[0].1["reason"], "TOKEN_MALFORMED");
    assert_eq!(refused[0].1["address"], "127.0.0.1");
    // They leave room for those who are known.
    server.refuses(&server.token("till", "shop", "read"), &["write", "shop/1", "ItemSold"]);
    until("what was denied to somebody known is there all the same", || {
        audit(&server).iter().any(|(name, event)| name == "PermissionDenied" && event["principal"] == "till")
    });
}
