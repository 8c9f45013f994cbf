//! What waits to be read by somebody who does not read is bounded, for one of them and for many.

use bytes::Bytes;
use futures_util::StreamExt;
use gapless_api::v1;
use gapless_client::Ledger;
use prost::Message;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use crate::support::{LONG, Neighbour, Secured, until};
use crate::wire::{begun, end, framed, http2, of_grpc, request, tls};

/// Streams that nobody reads from.
const STREAMS: usize = 64;
/// What is written meanwhile: all of it, for each of them, would be a gigabyte.
const WRITES: u32 = 256;
const PAYLOAD_BYTES: usize = 64 << 10;
/// What a stream may have waiting, in KiB: as much as is sent ahead, and what the engine hands over at a time.
const STREAM_KIB: u64 = 1 << 10;
/// What writing itself takes.
const WRITING_KIB: u64 = 64 << 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscribers_that_read_nothing_take_so_much_memory_and_no_more() {
    let server = Secured::start();
    let token = server.token("slow", "shop", "read,write");
    let follow = v1::SubscribeRequest {
        namespace: "shop".to_owned(),
        what: Some(v1::subscribe_request::What::Workspace(1)),
        from: 1,
    };
    let follow = framed(&follow.encode_to_vec());
    let neighbour = Neighbour::at(&server);
    let mut sender = http2(&server, None).await.unwrap();
    let mut held = Vec::new();
    let subscribe = "/gapless.v1.Ledger/Subscribe";
    let memory = server.memory();
    for _ in 0..STREAMS {
        let (response, body) =
            begun(&server, &mut sender, subscribe, Some(&token), Some(follow.clone())).await;
        assert!(!response.headers().contains_key("grpc-status"), "{response:?}");
        held.push((response, body));
    }
    let mut writer = http2(&server, None).await.unwrap();
    for number in 1..=WRITES {
        let key = [number.to_be_bytes(); 4].concat();
        let write = v1::WriteRequest {
            namespace: "shop".to_owned(),
            workspace: 1,
            client_id: "till".to_owned(),
            idempotency_key: Bytes::from(key),
            event_type: "ItemSold".to_owned(),
            payload: Bytes::from(vec![b'1'; PAYLOAD_BYTES]),
            ..Default::default()
        };
        let (path, message) = ("/gapless.v1.Ledger/Write", Some(framed(&write.encode_to_vec())));
        let (response, _body) = begun(&server, &mut writer, path, Some(&token), message).await;
        let answer = end(response).await;
        assert_eq!(answer.code, tonic::Code::Ok, "{answer:?}");
    }
    let streams = u64::try_from(STREAMS).unwrap() * STREAM_KIB;
    server.memory_is_within(memory, streams + WRITING_KIB, "streams that nobody reads");
    drop(held);
    neighbour.leave();
}

/// The longest payload there can be.
const LONG_BYTES: usize = 1 << 20;
/// Events with such a payload; each stream of those below has all of them to read.
const LONG_EVENTS: usize = 16;
/// Streams of them that nobody reads, of each kind: all that they could hold, a few events each, would be gigabytes.
const LONG_STREAMS: usize = 64;
/// What answers may take that are not sent, in KiB, and its setting.
const UNSENT_KIB: u64 = 32 << 10;
const UNSENT: (&str, &str) = ("GAPLESS_SERVER__RESPONSE_BYTES", "32MiB");
/// What a stream, and what is under way to its connection, takes besides, in KiB.
const OPEN_STREAM_KIB: u64 = 96;

/// Writes these operations with a long payload, and waits until it is done.
async fn write_long(server: &Secured, token: &str, number: usize, operations: Vec<v1::Operation>) {
    let write = v1::WriteRequest {
        namespace: "shop".to_owned(),
        workspace: 1,
        client_id: "till".to_owned(),
        event_type: "ItemSold".to_owned(),
        payload: Bytes::from(vec![b'1'; LONG_BYTES]),
        operations,
        ..Default::default()
    };
    let written = timeout(LONG, server.client(token).write(write)).await.unwrap().unwrap();
    assert_eq!(written.workspace_offset, number as u64);
}

fn workspace(from: u64) -> v1::SubscribeRequest {
    let what = Some(v1::subscribe_request::What::Workspace(1));
    v1::SubscribeRequest { namespace: "shop".to_owned(), what, from }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_of_long_events_that_nobody_reads_wait_and_others_are_served() {
    let server = Secured::start_with(&[UNSENT]);
    let token = server.token("slow", "shop", "read,write");
    for number in 1..=LONG_EVENTS {
        write_long(&server, &token, number, Vec::new()).await;
    }
    let neighbour = Neighbour::at(&server);
    let namespace = || "shop".to_owned();
    let everything = v1::SubscribeRequest {
        namespace: namespace(),
        what: Some(v1::subscribe_request::What::All(true)),
        from: 0,
    };
    let read = v1::ReadWorkspaceRequest { namespace: namespace(), workspace: 1, ..Default::default() };
    let read_all = v1::ReadAllRequest { namespace: namespace(), ..Default::default() };
    let asked = [
        ("Subscribe", workspace(1).encode_to_vec()),
        ("Subscribe", everything.encode_to_vec()),
        ("ReadWorkspace", read.encode_to_vec()),
        ("ReadAll", read_all.encode_to_vec()),
    ];
    let memory = server.memory();
    let mut held = Vec::new();
    let mut sender = http2(&server, None).await.unwrap();
    for (call, message) in asked.iter().cycle().take(asked.len() * LONG_STREAMS) {
        let path = format!("/gapless.v1.Ledger/{call}");
        let (response, body) = begun(&server, &mut sender, &path, Some(&token), Some(framed(message))).await;
        assert!(!response.headers().contains_key("grpc-status"), "{response:?}");
        held.push((response, body));
    }
    let mut followed = Vec::new();
    for path in ["events", "events?follow=true"].iter().cycle().take(8) {
        let mut stream = tls(&server, "localhost", None, b"http/1.1").await.unwrap();
        let headers = [("authorization", &*format!("Bearer {token}"))];
        let path = format!("/v1/namespaces/shop/workspaces/1/{path}");
        stream.write_all(&request("GET", &path, &headers, b"")).await.unwrap();
        followed.push(stream);
    }
    // Half of the room is theirs, and taken: what comes next of it would be beyond.
    until("they have read what there is room for", || {
        server.metric("gapless_unsent_bytes") > (UNSENT_KIB << 10) / 2 - 10 * (LONG_BYTES as u64)
    });

    // Somebody else reads everything, and follows what comes.
    let well = server.client(&server.token("well-behaved", "shop", "read"));
    let mut events = timeout(LONG, well.read_workspace(read)).await.unwrap().unwrap();
    for number in 1..=LONG_EVENTS {
        let event = timeout(LONG, events.next()).await.unwrap().unwrap().unwrap();
        assert_eq!((event.workspace_offset, event.payload.len()), (number as u64, LONG_BYTES));
    }
    let mut following = well.subscribe(workspace(LONG_EVENTS as u64));
    write_long(&server, &token, LONG_EVENTS + 1, Vec::new()).await;
    for number in LONG_EVENTS..=LONG_EVENTS + 1 {
        let item = timeout(LONG, following.next()).await.unwrap().unwrap().unwrap().item.unwrap();
        let v1::subscribe_response::Item::Event(event) = item else { panic!("{item:?}") };
        assert_eq!(event.workspace_offset, number as u64);
    }
    let streams = u64::try_from(held.len() + followed.len()).unwrap() * OPEN_STREAM_KIB;
    server.memory_is_within(memory, UNSENT_KIB + streams + WRITING_KIB, "long events that nobody reads");
    neighbour.leave();

    // One of them reads after all, when there is room for him again: nothing is missing.
    drop(followed);
    let (response, _body) = held.pop().unwrap();
    drop(held);
    let mut body = response.into_body();
    let mut came = 0;
    while let Some(data) = timeout(LONG, body.data()).await.unwrap() {
        let data = data.unwrap();
        body.flow_control().release_capacity(data.len()).unwrap();
        came += data.len();
    }
    assert!(came > LONG_EVENTS * LONG_BYTES, "{came}");
    let trailers = timeout(LONG, body.trailers()).await.unwrap().unwrap();
    assert_eq!(of_grpc(200, trailers.as_ref().unwrap(), None).code, tonic::Code::Ok);
    drop((body, following, events));
    until("everything is given back", || server.metric("gapless_unsent_bytes") == 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_nobody_reads_are_refused_beyond_a_limit_and_others_are_served() {
    let server = Secured::start_with(&[UNSENT, ("GAPLESS_SERVER__PATIENCE", "2s")]);
    let token = server.token("slow", "shop", "read,write");
    let value = Bytes::from(vec![b'1'; LONG_BYTES]);
    let set = v1::SetEntity { key: "long".into(), value, condition: None, expires_at_ms: None };
    let set = v1::Operation { op: Some(v1::operation::Op::SetEntity(set)) };
    write_long(&server, &token, 1, vec![set]).await;
    let neighbour = Neighbour::at(&server);
    let get = v1::GetEntityRequest {
        namespace: "shop".to_owned(),
        workspace: 1,
        key: "long".into(),
        ..Default::default()
    };
    let memory = server.memory();
    let (mut asking, mut held, mut refused) = (Vec::new(), Vec::new(), 0);
    let sender = http2(&server, None).await.unwrap();
    for _ in 0..128 {
        let (mut sender, token) = (sender.clone(), token.clone());
        let (message, path) = (framed(&get.encode_to_vec()), "/gapless.v1.Ledger/GetEntity");
        let address = server.address.clone();
        asking.push(tokio::spawn(async move {
            sender = timeout(LONG, sender.ready()).await.unwrap().unwrap();
            let request = axum::http::Request::post(format!("https://{address}{path}"))
                .header("content-type", "application/grpc")
                .header("authorization", format!("Bearer {token}"));
            let (response, mut body) = sender.send_request(request.body(()).unwrap(), false).unwrap();
            let _ = body.send_data(message, true);
            timeout(LONG, response).await.unwrap().unwrap()
        }));
    }
    let well = server.client(&server.token("well-behaved", "shop", "read"));
    for _ in 0..20 {
        let answer = timeout(LONG, well.get_entity(get.clone())).await.unwrap().unwrap();
        assert_eq!(answer.entity.unwrap().value.len(), LONG_BYTES);
    }
    for asked in asking {
        let response = asked.await.unwrap();
        match response.headers().contains_key("grpc-status") {
            true => {
                let answer = of_grpc(200, response.headers(), None);
                assert_eq!(
                    (answer.code, &*answer.reason),
                    (tonic::Code::ResourceExhausted, "TOO_MANY_BYTES")
                );
                refused += 1;
            }
            false => held.push(response),
        }
    }
    // Half of the room for one client.
    assert!((8..=20).contains(&held.len()) && refused == 128 - held.len(), "{} are held", held.len());
    server.memory_is_within(memory, UNSENT_KIB + (32 << 10), "answers that nobody reads");
    drop(held);
    until("everything is given back", || server.metric("gapless_unsent_bytes") == 0);
    neighbour.leave();
}
