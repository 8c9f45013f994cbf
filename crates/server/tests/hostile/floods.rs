//! Too much, too slow, or nothing at all: connections that are silent, dribble, pile up, or break off what they began.

use std::time::Duration;

use axum::http::{HeaderValue, Request, Response};
use bytes::{BufMut, Bytes, BytesMut};
use gapless_api::v1;
use h2::RecvStream;
use h2::client::{ResponseFuture, SendRequest};
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic::Code;

use crate::support::{HURRIED, LONG, Neighbour, Secured, until};
use crate::wire::{begun, end, framed, grpc, http2, of_grpc, parsed, tcp, tls};

/// Reads until the other side closes.
async fn closed(mut stream: impl tokio::io::AsyncRead + Unpin, what: &'static str) -> Vec<u8> {
    let mut said = Vec::new();
    let ended = timeout(LONG, stream.read_to_end(&mut said)).await;
    // Cut off or closed in order: either way it is over.
    let _ = ended.unwrap_or_else(|_| panic!("{what}: still open"));
    said
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_and_dribbling_connections_are_closed() {
    let server = Secured::start_with(&[HURRIED]);
    let neighbour = Neighbour::at(&server);
    let memory = server.memory();
    let mut all = JoinSet::new();
    // Before TLS: nothing, the beginning of a greeting, and something else entirely.
    for said in [&b""[..], b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n"] {
        let mut stream = tcp(&server).await;
        stream.write_all(said).await.unwrap();
        all.spawn(closed(stream, "no handshake"));
    }
    // After it: nothing, headers without an end, one byte after the other.
    for said in ["", "GET /healthz HTTP/1.1\r\nhost: localhost\r\n", "PRI * HTTP/2.0\r\n"] {
        let mut stream = tls(&server, "localhost", None, b"http/1.1").await.unwrap();
        stream.write_all(said.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        all.spawn(closed(stream, said));
    }
    let (reading, mut writing) =
        tokio::io::split(tls(&server, "localhost", None, b"http/1.1").await.unwrap());
    let dribble = tokio::spawn(async move {
        loop {
            if writing.write_all(b"x").await.is_err() || writing.flush().await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    all.spawn(closed(reading, "one byte after the other"));
    all.join_all().await;
    dribble.abort();
    until("they are counted", || server.metric("gapless_connections_silent_total") >= 1);
    server.memory_is_as_before(memory, "silence");
    neighbour.leave();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_do_not_come_are_not_waited_for() {
    let server = Secured::start_with(&[("GAPLESS_SERVER__PATIENCE", "3s")]);
    let token = format!("Bearer {}", server.operator());
    let mut stream = tls(&server, "localhost", None, b"http/1.1").await.unwrap();
    let head = format!(
        "POST /v1/namespaces/shop/workspaces/1/events HTTP/1.1\r\nhost: localhost\r\nidempotency-key: slow\r\n\
         authorization: {token}\r\ncontent-length: 100\r\nconnection: close\r\n\r\n{{"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let answer = parsed(&String::from_utf8_lossy(&closed(stream, "a body without an end").await));
    assert_eq!((answer.status, answer.reason.as_str()), (504, "REQUEST_TOO_SLOW"));
    let mut sender = http2(&server, None).await.unwrap().ready().await.unwrap();
    let request = Request::post(format!("https://{}/gapless.v1.Ledger/Write", server.address))
        .header("content-type", "application/grpc")
        .header("authorization", &token)
        .body(())
        .unwrap();
    let (response, mut body) = sender.send_request(request, false).unwrap();
    // If it is over by now, the answer says why.
    let _ = body.send_data(Bytes::from_static(&[0, 0, 0]), false);
    let response = timeout(LONG, response).await.unwrap().unwrap();
    assert_eq!(response.headers().get("grpc-status").unwrap(), "4", "{response:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_address_has_so_many_connections_and_idle_ones_are_closed() {
    // Longer than the neighbour may be held up between two writes.
    let settings =
        [("GAPLESS_SERVER__CONNECTIONS_PER_ADDRESS", "24"), ("GAPLESS_SERVER__IDLE_TIMEOUT", "10s")];
    let server = Secured::start_with(&settings);
    let neighbour = Neighbour::at(&server);
    let before = server.metric("gapless_connections_crowded_total");
    assert_eq!(before, 0);
    let mut held = JoinSet::new();
    for _ in 0..64 {
        let mut stream = tcp(&server).await;
        held.spawn(async move { stream.read(&mut [0]).await });
    }
    // Those that were let in hear nothing; the others are closed.
    for refused in 0..64 - 24 {
        let closed = timeout(LONG, held.join_next()).await;
        closed.unwrap_or_else(|_| panic!("{refused} were refused")).unwrap().unwrap().ok();
    }
    drop(held);
    // They make room when the server has noticed that they are gone.
    until("somebody is let in again", || server.curl("/healthz").output().unwrap().status.success());
    until("they are counted", || server.metric("gapless_connections_crowded_total") >= 40);
    // A connection that has been asked for nothing for a while is ended, by HTTP/2's own words.
    let stream = tls(&server, "localhost", None, b"h2").await.unwrap();
    let (_sender, connection) = h2::client::handshake(stream).await.unwrap();
    timeout(LONG, connection).await.unwrap().ok();
    neighbour.leave();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_beyond_the_limit_are_refused_and_others_are_served() {
    let server = Secured::start_with(&[("GAPLESS_SERVER__CALLS", "32")]);
    let neighbour = Neighbour::at(&server);
    let memory = server.memory();
    let token = format!("Bearer {}", server.token("greedy", "shop", "read,write"));
    let mut sender = http2(&server, None).await.unwrap();
    let (mut open, mut refused) = (Vec::new(), 0);
    for _ in 0..200 {
        sender = timeout(LONG, sender.ready()).await.unwrap().unwrap();
        let request = Request::post(format!("https://{}/gapless.v1.Ledger/WriteStream", server.address))
            .header("content-type", "application/grpc")
            .header("authorization", &token)
            .body(())
            .unwrap();
        let (response, body) = sender.send_request(request, false).unwrap();
        let response = timeout(LONG, response).await.unwrap().unwrap();
        match response.headers().get("grpc-status") {
            Some(status) => {
                assert_eq!(status, "8", "{response:?}");
                let answer = of_grpc(200, response.headers(), None);
                assert_eq!(answer.reason, "TOO_MANY_CALLS");
                refused += 1;
            }
            None => open.push((response, body)),
        }
    }
    assert_eq!((open.len(), refused), (16, 184), "one client has half of all places");
    server.memory_is_as_before(memory, "streams");
    neighbour.leave();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_breaks_off_one_call_after_the_other_is_cut_off() {
    let server = Secured::start();
    let neighbour = Neighbour::at(&server);
    let (memory, state) = (server.memory(), server.state());
    let token = format!("Bearer {}", server.token("fickle", "shop", "read,write"));
    let mut cut_off = false;
    let mut sender = http2(&server, None).await.unwrap();
    for _ in 0..50_000 {
        // Being kept waiting is not being cut off.
        let Ok(ready) = timeout(LONG, sender.ready()).await.expect("it hangs") else {
            cut_off = true;
            break;
        };
        sender = ready;
        let request = Request::post(format!("https://{}/gapless.v1.Ledger/Write", server.address))
            .header("content-type", "application/grpc")
            .header("authorization", &token)
            .body(())
            .unwrap();
        let Ok((response, mut body)) = sender.send_request(request, false) else {
            cut_off = true;
            break;
        };
        body.send_reset(h2::Reason::CANCEL);
        drop(response);
    }
    assert!(cut_off, "fifty thousand calls were begun and broken off");
    // Whoever reads the lines of the node is not told of every stranger.
    let lines = std::fs::read_to_string(server.path("stderr")).unwrap();
    assert!(!lines.contains("h2::"), "{lines}");
    server.memory_is_as_before(memory, "resets");
    assert_eq!(server.state(), state);
    // He may come again, and behave.
    let headers = [("authorization", token.as_str())];
    let answer = grpc(&server, None, "/gapless.v1.Ledger/Write", &headers, framed(b"")).await.unwrap();
    assert_eq!(answer.code, tonic::Code::PermissionDenied);
    neighbour.leave();
}

/// Asks for ever whether the server serves: the head of the answer, whose body has no end.
async fn watching(server: &Secured, sender: &mut SendRequest<Bytes>) -> Response<RecvStream> {
    begun(server, sender, "/grpc.health.v1.Health/Watch", None, Some(framed(b""))).await.0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_who_only_look_whether_it_serves_take_no_room_from_others() {
    let server = Secured::start_with(&[("GAPLESS_SERVER__CALLS", "32")]);
    let neighbour = Neighbour::at(&server);
    let memory = server.memory();
    let mut held = Vec::new();
    for _ in 0..4 {
        let mut sender = http2(&server, None).await.unwrap();
        for _ in 0..40 {
            held.push(watching(&server, &mut sender).await);
        }
    }
    // The lobby has 64 seats, and whoever came last has them.
    let newest = held.split_off(held.len() - 64);
    for response in held {
        let answer = end(response).await;
        assert_eq!((answer.code, answer.reason.as_str()), (Code::ResourceExhausted, "TOO_MANY_CALLS"));
    }
    for mut response in newest {
        let first = timeout(LONG, response.body_mut().data()).await.unwrap();
        assert!(first.is_some_and(|data| data.is_ok()), "it is told whether it serves");
        assert!(!response.body().is_end_stream());
    }
    server.memory_is_as_before(memory, "strangers");
    neighbour.leave();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_known_gets_a_connection_however_many_strangers_hold_one() {
    let server = Secured::start_with(&[("GAPLESS_SERVER__CONNECTIONS", "8")]);
    let token = server.token("till", "shop", "write");
    // They say nothing.
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(tcp(&server).await);
    }
    server.says(&token, &["write", "shop/1", "ItemSold"]);
    // They want to know for ever whether it serves, each on a connection of his own.
    let mut held = Vec::new();
    for _ in 0..20 {
        let mut sender = http2(&server, None).await.unwrap();
        let response = watching(&server, &mut sender).await;
        held.push((sender, response));
    }
    server.says(&token, &["write", "shop/1", "ItemSold"]);
    assert!(server.metric("gapless_connections_displaced_total") >= 20);
    for stream in silent {
        closed(stream, "silence").await;
    }
    let (_, mut first) = held.remove(0);
    while let Some(Ok(_)) = timeout(LONG, first.body_mut().data()).await.unwrap() {}
}

/// The status of an answer, whichever end of it that stands at.
async fn status(response: ResponseFuture) -> Option<HeaderValue> {
    let (head, mut body) = response.await.ok()?.into_parts();
    if let Some(status) = head.headers.get("grpc-status") {
        return Some(status.clone());
    }
    while let Some(Ok(data)) = body.data().await {
        let _ = body.flow_control().release_capacity(data.len());
    }
    body.trailers().await.ok()??.get("grpc-status").cloned()
}

/// Sends a message but for its last byte.
async fn all_but_the_last_byte(body: &mut h2::SendStream<Bytes>, bytes: usize) {
    let mut message = BytesMut::new();
    message.put_u8(0);
    message.put_u32(u32::try_from(bytes).unwrap());
    message.put_bytes(7, bytes - 1);
    let mut left = message.freeze();
    while !left.is_empty() {
        body.reserve_capacity(left.len().min(1 << 16));
        match std::future::poll_fn(|context| body.poll_capacity(context)).await {
            Some(Ok(room)) if body.send_data(left.split_to(room.min(left.len())), false).is_ok() => {}
            // It was broken off; the answer says why.
            _ => std::future::pending().await,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_never_end_take_so_much_memory_and_no_more() {
    // Nobody is ended for being slow, however long it takes on a busy machine to send all of this.
    let settings = [("GAPLESS_SERVER__REQUEST_BYTES", "32MiB"), ("GAPLESS_SERVER__PATIENCE", "1h")];
    let server = Secured::start_with(&settings);
    let neighbour = Neighbour::at(&server);
    let memory = server.memory();
    let token = format!("Bearer {}", server.token("greedy", "shop", "read,write"));
    // Half of what is read at one time is one client's; and strangers have nothing to say that is long.
    for (path, bytes, most) in [
        ("/gapless.v1.Ledger/Write", 6 << 20, 2),
        ("/gapless.v1.Ledger/WriteStream", 6 << 20, 2),
        ("/grpc.health.v1.Health/Check", 3 << 20, 0),
    ] {
        let mut calls = tokio::task::JoinSet::new();
        let mut sender = http2(&server, None).await.unwrap();
        for _ in 0..64 {
            sender = timeout(LONG, sender.ready()).await.unwrap().unwrap();
            let request = Request::post(format!("https://{}{path}", server.address))
                .header("content-type", "application/grpc")
                .header("authorization", &token);
            let (response, mut body) = sender.send_request(request.body(()).unwrap(), false).unwrap();
            calls.spawn(async move {
                let mut answered = Box::pin(status(response));
                tokio::select! {
                    status = &mut answered => Err(status),
                    () = all_but_the_last_byte(&mut body, bytes) => Ok((answered, body)),
                }
            });
        }
        let (mut held, mut bodies, mut refused) = (Vec::new(), Vec::new(), 0);
        while let Some(call) = timeout(LONG, calls.join_next()).await.unwrap() {
            match call.unwrap() {
                Ok((answer, body)) => {
                    held.push(answer);
                    bodies.push(body);
                }
                Err(status) => {
                    assert_eq!(status.as_ref().map(HeaderValue::as_bytes), Some(&b"8"[..]), "{path}");
                    refused += 1;
                }
            }
        }
        // Some were refused while their last bytes were on the way.
        while held.len() > most {
            let next = timeout(LONG, futures_util::future::select_all(&mut held)).await;
            let (status, at, _) = next.unwrap_or_else(|_| panic!("{path}: too many are held"));
            assert_eq!(status.as_ref().map(HeaderValue::as_bytes), Some(&b"8"[..]), "{path}");
            drop((held.swap_remove(at), bodies.swap_remove(at)));
            refused += 1;
        }
        assert!(refused >= 64 - most, "{path}: {} are held", held.len());
        // What may be read at one time, and as much again for what is on its way to being read.
        server.memory_is_within(memory, 64 << 10, path);
    }
    neighbour.leave();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_a_name_waits_for_barriers_as_often_as_he_may_whoever_asks_from_the_same_address() {
    let server = Secured::start();
    let target = Some(v1::barrier_target::Target::PartitionOffset(1 << 40));
    let target = v1::BarrierTarget { namespace: "shop".to_owned(), partition: 0, target };
    let message = framed(&v1::WaitBarrierRequest { targets: vec![target], timeout_ms: 1 }.encode_to_vec());
    let uri = format!("https://{}/gapless.v1.Admin/WaitBarrier", server.address);
    // All of them together ask more often than anybody may, and none of them does.
    for name in ["one", "two", "three", "four", "five", "six"] {
        let token = format!("Bearer {}", server.token(name, "shop", "read"));
        let mut sender = http2(&server, None).await.unwrap();
        for number in 0..150 {
            sender = timeout(LONG, sender.ready()).await.unwrap().unwrap();
            let request = Request::post(&uri).header("content-type", "application/grpc");
            let request = request.header("authorization", &token).body(()).unwrap();
            let (response, mut body) = sender.send_request(request, false).unwrap();
            // Who is refused by his head alone can have his answer by now.
            let _ = body.send_data(message.clone(), true);
            let status = timeout(LONG, status(response)).await.unwrap();
            assert_eq!(status.as_ref().map(HeaderValue::as_bytes), Some(&b"0"[..]), "{name}, {number}");
        }
    }
}
