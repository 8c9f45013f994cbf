//! Connections that say nothing, say nonsense, or are too many.

use std::time::Duration;

use gapless_server::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::support::{LONG, Node, sale, written};

#[tokio::test]
async fn who_does_not_say_what_he_wants_is_not_waited_for() {
    // Longer than whoever asks at once may be held up on a busy machine.
    let limits = Limits { header_timeout: Duration::from_secs(5), ..Limits::default() };
    let node = Node::start_with(limits).await;
    let mut all = JoinSet::new();
    for said in ["", "P", "PRI * HTTP/2.0\r\n", "GET / HTTP/1.1\r\nHost: "] {
        let mut silent = TcpStream::connect(node.server.address()).await.unwrap();
        silent.write_all(said.as_bytes()).await.unwrap();
        all.spawn(async move { timeout(LONG, silent.read_to_end(&mut Vec::new())).await.unwrap().ok() });
    }
    all.join_all().await;
    written(&mut node.ledger().await, sale(1, 1)).await;
    node.stop().await;
}

#[tokio::test]
async fn nonsense_is_refused_and_others_are_served() {
    let node = Node::start().await;
    let mut ledger = node.ledger().await;
    let noise: Vec<u8> = (0..4096_u32).map(|number| (number * 31 % 251) as u8).collect();
    for said in [&noise[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nand then something else entirely .........."] {
        let mut stream = TcpStream::connect(node.server.address()).await.unwrap();
        stream.write_all(said).await.unwrap();
        let mut rest = Vec::new();
        timeout(LONG, stream.read_to_end(&mut rest)).await.unwrap().ok();
    }
    written(&mut ledger, sale(1, 1)).await;
    node.stop().await;
}

#[tokio::test]
async fn beyond_the_limit_a_connection_waits_until_another_ends() {
    let node = Node::start_with(Limits { connections: 1, ..Limits::default() }).await;
    // The one that defined the namespace is closed by now, or will be.
    let mut first = timeout(LONG, node.ledger()).await.unwrap();
    written(&mut first, sale(1, 1)).await;
    let mut second = node.ledger().await;
    let waiting = tokio::spawn(async move { written(&mut second, sale(1, 2)).await });
    // Far more calls than it would take to answer him.
    for number in 3..100 {
        written(&mut first, sale(2, number)).await;
    }
    assert!(!waiting.is_finished());
    drop(first);
    assert_eq!(timeout(LONG, waiting).await.unwrap().unwrap().workspace_offset, 2);
    node.stop().await;
}
