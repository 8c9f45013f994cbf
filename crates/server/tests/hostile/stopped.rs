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

/// Bytes that came for the server and that it has not read, by what the system knows of its connections: state 01, and behind the colon
/// what is to be read, as a hexadecimal number.
fn unread(server: &Secured) -> u64 {
    let connections = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let port = format!(":{:04X}", server.port);
    let of_server = connections.lines().filter_map(|line| {
        let [_, local, _, "01", queues, ..] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            return None;
        };
        let (_, unread) = queues.split_once(':')?;
        local.ends_with(&port).then(|| u64::from_str_radix(unread, 16).unwrap())
    });
    of_server.sum()
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
    until("the first is at the server, which does not read it", || unread(&server) > 0);
    let first = unread(&server);
    let gone = tokio::spawn({
        let client = client.clone();
        async move { client.write(sale(3)).await }
    });
    until("so is the other", || unread(&server) > first);
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
