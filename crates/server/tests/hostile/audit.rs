//! What is administered and who was refused is written down, in order and for good; and strangers cannot fill the disk with it.

use serde_json::Value;

use crate::support::{Secured, until};
use crate::wire::{http1, request};

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
        ("AdminAction", "DropNamespace", Some("shop2")),
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
}
