//! The client: several addresses, retries with one key, streams and subscriptions that go on, one trait for both kinds of ledger.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use gapless_client::{Client, Embedded, Error, Ledger, Options, Retry, v1};
use gapless_engine::Engine;
use gapless_server::{Config, Server};

use crate::address::own;
use crate::support::{Node, invoice, sale, with};

fn client(addresses: &[String]) -> Client {
    let retry = Retry { deadline: Duration::from_secs(60), ..Retry::default() };
    Client::new(addresses).unwrap().with(Options { retry, ..Options::default() })
}

/// A program that does not know where its ledger is.
async fn sell(ledger: &impl Ledger, workspace: u64) -> Vec<u64> {
    let mut invoices = Vec::new();
    for number in 1..=3 {
        invoices.push(
            ledger.write(with(sale(workspace, number), vec![invoice()])).await.unwrap().numbers["invoice"],
        );
    }
    let keyless = v1::WriteRequest { idempotency_key: bytes::Bytes::new(), ..sale(workspace, 0) };
    assert_eq!(ledger.write(keyless).await.unwrap().workspace_offset, 4);
    let request = v1::ReadWorkspaceRequest { namespace: "shop".to_owned(), workspace, ..Default::default() };
    let events: Vec<_> = ledger.read_workspace(request).await.unwrap().map(Result::unwrap).collect().await;
    assert_eq!(events.len(), 4);
    let streamed = (10..20).map(move |number| sale(workspace, number));
    let answers: Vec<_> = ledger.write_stream(stream::iter(streamed).boxed()).collect().await;
    assert!(answers.len() == 10 && answers.iter().all(Result::is_ok));
    let what = Some(v1::subscribe_request::What::Workspace(workspace));
    let request = v1::SubscribeRequest { namespace: "shop".to_owned(), what, from: 14 };
    let followed = ledger.subscribe(request).next().await.unwrap().unwrap();
    let Some(v1::subscribe_response::Item::Event(event)) = followed.item else { panic!("{followed:?}") };
    assert_eq!(event.workspace_offset, 14);
    invoices
}

#[tokio::test]
async fn embedded_and_remote_are_one_trait() {
    let node = Node::start().await;
    assert_eq!(sell(&Embedded::new(node.engine.clone()), 1).await, [1, 2, 3]);
    assert_eq!(sell(&client(&[node.server.address().to_string()]), 2).await, [1, 2, 3]);
    node.stop().await;
}

#[tokio::test]
async fn a_refusal_and_a_violation_are_told_as_what_they_are_and_not_retried() {
    let node = Node::start().await;
    let client = client(&[node.server.address().to_string()]);
    client.write(sale(1, 1)).await.unwrap();
    let other = v1::WriteRequest { event_type: "Other".to_owned(), ..sale(1, 1) };
    let Err(Error::Refused(refused)) = client.write(other).await else { panic!("it was used") };
    assert_eq!(refused.code(), v1::WriteErrorCode::IdempotencyKeyReused);
    let invalid =
        client.write(v1::WriteRequest { client_id: String::new(), ..sale(1, 2) }).await.unwrap_err();
    assert_eq!(invalid.problem().unwrap().violations[0].field, "client_id");
    node.stop().await;
}

#[tokio::test]
async fn an_address_where_nobody_is_costs_a_moment_and_nothing_else() {
    let node = Node::start().await;
    let gone = own();
    let client = client(&[gone.to_string(), node.server.address().to_string()]);
    assert_eq!(client.write(sale(1, 1)).await.unwrap().workspace_offset, 1);
    let nobody = Client::new(&[gone.to_string()]).unwrap();
    let retry = Retry { deadline: Duration::from_millis(300), ..Retry::default() };
    let error = nobody.with(Options { retry, ..Options::default() }).write(sale(1, 2)).await.unwrap_err();
    assert!(error.problem().unwrap().can_be_retried());
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_and_subscriptions_go_on_over_a_restart_of_the_server() {
    let node = Node::start_at(own()).await;
    let (engine, address) = (node.engine.clone(), node.server.address());
    let client = client(&[address.to_string()]);
    let what = Some(v1::subscribe_request::What::Workspace(1));
    let request = v1::SubscribeRequest { namespace: "shop".to_owned(), what, from: 1 };
    let mut followed = client.subscribe(request);
    let all = v1::SubscribeRequest {
        namespace: "shop".to_owned(),
        what: Some(v1::subscribe_request::What::All(true)),
        from: 0,
    };
    let mut all = client.subscribe(all);
    let mut answers = client.write_stream(stream::iter((1..=2000).map(|number| sale(1, number))).boxed());
    let mut answered = 0;
    while answered < 500 {
        answers.next().await.unwrap().unwrap();
        answered += 1;
    }
    for offset in 1..=100 {
        assert_eq!(next(&mut followed).await, offset);
        assert_eq!(next(&mut all).await, offset);
    }
    let restart = tokio::spawn(async move {
        node.server.stop().await;
        start(engine, address).await
    });
    while answered < 2000 {
        answers.next().await.unwrap().unwrap();
        answered += 1;
    }
    assert!(answers.next().await.is_none());
    for offset in 101..=2000 {
        assert_eq!(next(&mut followed).await, offset);
        assert_eq!(next(&mut all).await, offset);
    }
    let server = restart.await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn a_stream_of_writes_takes_up_no_more_than_may_be_in_flight() {
    let node = Node::start().await;
    let client = client(&[node.server.address().to_string()]);
    let client = client.with(Options { in_flight: 3, ..Options::default() });
    let taken = Arc::new(AtomicUsize::new(0));
    let counted = taken.clone();
    let requests = stream::iter((1..=50).map(|number| sale(1, number))).inspect(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let mut answers = client.write_stream(requests.boxed());
    for before in 0..50 {
        answers.next().await.unwrap().unwrap();
        let taken = taken.load(Ordering::Relaxed);
        assert!(taken <= before + 3, "{taken} were taken up, and {before} answered before");
    }
    assert!(answers.next().await.is_none());
    node.stop().await;
}

#[tokio::test]
async fn what_was_silent_for_longer_than_the_deadline_goes_on_after_a_restart() {
    let node = Node::start_at(own()).await;
    let (engine, address) = (node.engine.clone(), node.server.address());
    let client = Client::new(&[address.to_string()]).unwrap();
    let what = Some(v1::subscribe_request::What::Workspace(1));
    let request = v1::SubscribeRequest { namespace: "shop".to_owned(), what, from: 1 };
    let mut followed = client.subscribe(request);
    let (requests, asked) = tokio::sync::mpsc::unbounded_channel();
    let asked = stream::unfold(asked, |mut asked| async move { Some((asked.recv().await?, asked)) });
    let mut answers = client.write_stream(asked.boxed());
    requests.send(sale(1, 1)).unwrap();
    answers.next().await.unwrap().unwrap();
    assert_eq!(next(&mut followed).await, 1);
    let follower = tokio::spawn(async move { next(&mut followed).await });
    let writer = tokio::spawn(async move { answers.next().await.unwrap() });
    // Nothing happens for longer than anybody tries again.
    tokio::time::pause();
    tokio::time::advance(Retry::default().deadline + Duration::from_secs(1)).await;
    tokio::time::resume();
    node.server.stop().await;
    let server = start(engine, address).await;
    requests.send(sale(1, 2)).unwrap();
    writer.await.unwrap().unwrap();
    assert_eq!(follower.await.unwrap(), 2);
    server.stop().await;
}

#[tokio::test]
async fn a_server_that_takes_connections_and_says_nothing_is_given_up() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let retry = Retry { deadline: Duration::from_millis(200), ..Retry::default() };
    let client = Client::new(&[silent.local_addr().unwrap().to_string()]).unwrap();
    let client = client.with(Options { retry, ..Options::default() });
    let given_up = |error: Error| {
        let problem = error.problem().unwrap();
        assert!(problem.can_be_retried(), "{problem:?}");
    };
    let namespace = || "shop".to_owned();
    let request = v1::ReadWorkspaceRequest { namespace: namespace(), workspace: 1, ..Default::default() };
    given_up(client.read_workspace(request).await.err().unwrap());
    let request = v1::ReadAllRequest { namespace: namespace(), ..Default::default() };
    given_up(client.read_all(request).await.err().unwrap());
    let what = Some(v1::subscribe_request::What::Workspace(1));
    let request = v1::SubscribeRequest { namespace: namespace(), what, from: 1 };
    given_up(client.subscribe(request).next().await.unwrap().unwrap_err());
    let requests = stream::iter([sale(1, 1)]).boxed();
    given_up(client.write_stream(requests).next().await.unwrap().unwrap_err());
}

/// On the same port, as soon as it is free again.
async fn start(engine: Engine, address: std::net::SocketAddr) -> Server {
    for _ in 0..6000 {
        if let Ok(server) = Server::start(engine.clone(), Config::new(address)).await {
            return server;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{address} does not become free");
}

async fn next(items: &mut gapless_client::Stream<v1::SubscribeResponse>) -> u64 {
    match items.next().await.unwrap().unwrap().item {
        Some(v1::subscribe_response::Item::Event(event)) => event.workspace_offset,
        other => panic!("{other:?}"),
    }
}
