//! What waits to be read by somebody who does not read is bounded, for one of them and for many.

use bytes::Bytes;
use gapless_api::v1;
use prost::Message;

use crate::support::{Neighbour, Secured};
use crate::wire::{begun, end, framed, http2};

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
