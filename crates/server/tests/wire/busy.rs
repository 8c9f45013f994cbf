//! A node that cannot keep up: who is refused is told what by and when to come back, and who is not told an outcome gets it with the
//! same key.

use std::sync::Arc;
use std::time::Duration;

use gapless_api::v1;
use gapless_engine::Config as EngineConfig;
use gapless_server::Limits;
use serde_json::json;
use tonic::Code;

use crate::disk::Disk;
use crate::http::ask;
use crate::support::{Ledger, Node, problem, sale, success, until, written};

/// A server on a disk that can be held up.
async fn node(disk: &Disk, limits: Limits, change: impl FnOnce(&mut EngineConfig)) -> Node {
    let configure = |mut config: EngineConfig| {
        config.io = Arc::new(disk.clone());
        change(&mut config);
        config
    };
    Node::start_on(limits, configure).await
}

fn of_client(number: u64) -> v1::WriteRequest {
    v1::WriteRequest { client_id: format!("till-{number}"), ..sale(3, number) }
}

const EVENTS: &str = "/v1/namespaces/shop/workspaces/3/events";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_not_admitted_is_told_the_partition_the_limit_and_when_to_come_back() {
    let disk = Disk::default();
    let node = node(&disk, Limits::default(), |config| config.admission.partition.operations = 2).await;
    disk.hold_up();
    let mut waiting = Vec::new();
    for number in 1..=2 {
        let mut ledger = node.ledger().await;
        waiting.push(tokio::spawn(async move { ledger.write(of_client(number)).await }));
        until("it is in flight", || node.engine.in_flight() as u64 == number).await;
    }
    let mut ledger = node.ledger().await;
    let status = ledger.write(of_client(3)).await.unwrap_err();
    let found = problem(&status);
    assert_eq!((status.code(), &*found.reason), (Code::ResourceExhausted, "OVERLOADED"));
    assert_eq!(found.details["scope"], "partition");
    assert_eq!(found.details["limit"], "operations");
    // With this one it would be three.
    assert_eq!((found.details["current"].as_str(), found.details["maximum"].as_str()), ("3", "2"));
    let partition = node.engine.partition_of("shop", gapless_types::WorkspaceId::new(3)).unwrap();
    assert_eq!(found.details["partition"], partition.to_string());
    assert!(found.retry_after.is_some_and(|delay| delay > Duration::ZERO));
    let body = json!({"event_type": "ItemSold", "client_id": "till-4"}).to_string();
    let refused = ask(&node, "POST", EVENTS, "Idempotency-Key: four\r\n", &body).await;
    assert_eq!(refused.status, 429, "{}", refused.body);
    assert!(refused.head.lines().any(|line| line.starts_with("retry-after: ")), "{}", refused.head);
    disk.heal();
    for write in waiting {
        success(write.await.unwrap().unwrap().into_inner());
    }
    assert_eq!(written(&mut ledger, of_client(3)).await.workspace_offset, 3, "the same key, later");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whose_outcome_is_not_known_in_time_gets_it_with_the_same_key() {
    let disk = Disk::default();
    let limits = Limits { patience: Duration::from_secs(1), ..Limits::default() };
    let node = node(&disk, limits, |_| {}).await;
    let mut ledger = node.ledger().await;
    disk.hold_up();
    let status = ledger.write(of_client(1)).await.unwrap_err();
    assert_eq!((status.code(), &*problem(&status).reason), (Code::DeadlineExceeded, "OUTCOME_UNKNOWN"));
    let body = json!({"event_type": "ItemSold", "client_id": "till"}).to_string();
    let post = || ask(&node, "POST", EVENTS, "Idempotency-Key: two\r\n", &body);
    let unknown = post().await;
    assert_eq!(unknown.status, 504, "{}", unknown.body);
    assert!(unknown.body.contains("OUTCOME_UNKNOWN"), "{}", unknown.body);
    disk.heal();
    assert_eq!(in_the_end(&mut ledger, of_client(1)).await.workspace_offset, 1);
    let mut second = post().await;
    while second.status == 504 {
        second = post().await;
    }
    assert_eq!(second.status, 200, "{}", second.body);
    assert!(second.body.contains("\"workspace_offset\":2"), "written once: {}", second.body);
    assert_eq!(in_the_end(&mut ledger, of_client(3)).await.workspace_offset, 3);
    node.stop().await;
}

/// The outcome, asked for until it is known.
async fn in_the_end(ledger: &mut Ledger, request: v1::WriteRequest) -> v1::WriteSuccess {
    loop {
        match ledger.write(request.clone()).await {
            Ok(answer) => return success(answer.into_inner()),
            Err(status) => assert_eq!(status.code(), Code::DeadlineExceeded, "{status}"),
        }
    }
}
