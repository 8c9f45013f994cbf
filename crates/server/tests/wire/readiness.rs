//! Whether a node is ready, over HTTP, gRPC and in the metrics: always the same, and as it is now.

use std::sync::Arc;

use gapless_server::Limits;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::disk::Disk;
use crate::http::ask;
use crate::support::{Node, sale, written};

/// What is told: by `/readyz`, by the health of every service, and by the metric.
async fn told(node: &Node) -> (u16, String, Vec<bool>, bool) {
    let ready = ask(node, "GET", "/readyz", "", "").await;
    let mut health = HealthClient::new(node.channel().await);
    let mut serving = Vec::new();
    for service in ["", "gapless.v1.Ledger", "gapless.v1.Admin", "gapless.v1.Projections"] {
        let request = HealthCheckRequest { service: service.to_owned() };
        let status = health.check(request).await.unwrap().into_inner().status();
        serving.push(status == ServingStatus::Serving);
    }
    let metrics = ask(node, "GET", "/metrics", "", "").await.body;
    (ready.status, ready.body, serving, metrics.contains("\ngapless_ready 1\n"))
}

/// Polls until the status is this one; what is told then.
async fn until(node: &Node, status: u16) -> (String, Vec<bool>, bool) {
    for _ in 0..6000 {
        if ask(node, "GET", "/readyz", "", "").await.status == status {
            let (_, text, health, metric) = told(node).await;
            return (text, health, metric);
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("it never says {status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_log_has_failed_is_not_ready_any_more() {
    let disk = Disk::default();
    let node = Node::start_on(Limits::default(), |mut config| {
        config.io = Arc::new(disk.clone());
        config
    })
    .await;
    let mut ledger = node.ledger().await;
    written(&mut ledger, sale(1, 1)).await;
    assert_eq!(until(&node, 200).await, ("it serves\n".to_owned(), vec![true; 4], true));
    disk.fail();
    let lost = ledger.write(sale(1, 2)).await.unwrap_err();
    assert!(crate::support::problem(&lost).can_be_retried(), "{lost}");
    let (text, health, metric) = until(&node, 503).await;
    assert!(text.starts_with("it has stopped by itself"), "{text}");
    assert_eq!((health, metric), (vec![false; 4], false));
    disk.heal();
    // It does not come back by itself.
    assert_eq!(told(&node).await.0, 503);
    node.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_is_closed_under_its_server_is_not_ready_any_more() {
    let node = Node::start().await;
    until(&node, 200).await;
    node.engine.close().await;
    let (_, health, metric) = until(&node, 503).await;
    assert_eq!((health, metric), (vec![false; 4], false));
    node.server.stop().await;
}
