//! A server that is stopped in the middle of everything (SIGSTOP) and goes on later: whoever waited gets one answer, and nothing is
//! written twice or lost.

use gapless_api::v1;
use gapless_client::Ledger;

use crate::support::{Secured, until};

fn sale(number: u8) -> v1::WriteRequest {
    v1::WriteRequest {
        namespace: "shop".to_owned(),
        workspace: 1,
        client_id: "till".to_owned(),
        idempotency_key: vec![number; 16].into(),
        event_type: "ItemSold".to_owned(),
        payload: b"{}"[..].into(),
        ..Default::default()
    }
}

/// Whether every thread of the process is stopped.
fn is_stopped(server: &Secured) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.process())).unwrap();
    status.lines().any(|line| line.starts_with("State:") && line.contains('T'))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_stopped_goes_on_and_writes_everything_once() {
    let server = Secured::start();
    let client = server.client(&server.token("till", "shop", "read,write"));
    assert_eq!(client.write(sale(1)).await.unwrap().workspace_offset, 1);
    server.signal("-STOP");
    until("it is stopped", || is_stopped(&server));
    // One that is sent while nobody listens, and one of which nobody waits for the answer.
    let waits = tokio::spawn({
        let client = client.clone();
        async move { client.write(sale(2)).await.unwrap() }
    });
    let gone = tokio::spawn({
        let client = client.clone();
        async move { client.write(sale(3)).await }
    });
    gone.abort();
    assert!(!waits.is_finished(), "nobody answers");
    server.signal("-CONT");
    let second = waits.await.unwrap();
    let third = client.write(sale(3)).await.unwrap();
    let mut offsets = [second.workspace_offset, third.workspace_offset];
    offsets.sort_unstable();
    assert_eq!(offsets, [2, 3], "dense, whichever came first");
    for (number, first) in [(2, second), (3, third)] {
        let again = client.write(sale(number)).await.unwrap();
        assert!(again.duplicate);
        assert_eq!(again.workspace_offset, first.workspace_offset);
    }
}
