//! Room is shared: however many calls and connections somebody holds, and for however long, the next one who comes is served.

use axum::http::Request;
use tokio::time::timeout;

use crate::support::{LONG, Neighbour, Secured};
use crate::wire::{Answer, begun, end, framed, grpc, http1_from, http2, http2_from, of_grpc, request};

const WATCH: &str = "/grpc.health.v1.Health/Watch";
const WRITE_STREAM: &str = "/gapless.v1.Ledger/WriteStream";

fn refused(answer: &Answer) -> (tonic::Code, &str) {
    (answer.code, answer.reason.as_str())
}

const TOO_MANY: (tonic::Code, &str) = (tonic::Code::ResourceExhausted, "TOO_MANY_CALLS");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_asks_whether_it_serves_is_told_however_many_look_on_for_ever() {
    // The lobby has 64 seats then.
    let server = Secured::start_with(&[("GAPLESS_SERVER__CALLS", "32")]);
    let neighbour = Neighbour::at(&server);
    let mut watching = Vec::new();
    for host in [1, 2] {
        let mut sender = http2_from(&server, host).await;
        for _ in 0..80 {
            let (response, _) = begun(&server, &mut sender, WATCH, None, Some(framed(b""))).await;
            watching.push(response);
        }
    }
    // A third one, who only wants to know.
    for path in ["/healthz", "/readyz", "/", "/console/main.js"] {
        let answer = http1_from(&server, 3, &request("GET", path, &[], b"")).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }
    let mut sender = http2_from(&server, 3).await;
    let check = "/grpc.health.v1.Health/Check";
    let (response, _body) = begun(&server, &mut sender, check, None, Some(framed(b""))).await;
    assert_eq!(end(response).await.code, tonic::Code::Ok);
    // The oldest of those who have most made room, and are told so.
    assert_eq!(refused(&end(watching.remove(0)).await), TOO_MANY);
    neighbour.leave();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_third_client_finds_room_however_many_streams_two_others_hold() {
    let server = Secured::start_with(&[("GAPLESS_SERVER__CALLS", "32")]);
    let mut held = Vec::new();
    for (name, most) in [("one", 16), ("two", 8)] {
        let token = server.token(name, "shop", "read,write");
        let mut sender = http2(&server, None).await.unwrap();
        let mut open = 0;
        for _ in 0..40 {
            let (response, body) = begun(&server, &mut sender, WRITE_STREAM, Some(&token), None).await;
            if response.headers().contains_key("grpc-status") {
                let answer = of_grpc(response.status().as_u16(), response.headers(), None);
                assert_eq!(refused(&answer), TOO_MANY, "{answer:?}");
                assert!(answer.headers.iter().any(|(header, _)| header == "grpc-status-details-bin"));
            } else {
                open += 1;
                held.push((response, body));
            }
        }
        assert_eq!(open, most, "{name} has as many as he leaves to others");
    }
    let third = server.token("three", "shop", "read,write");
    server.says(&third, &["write", "shop/1", "ItemSold"]);
    server.says(&third, &["read", "shop/1"]);
    drop(held);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_token_does_not_hold_all_connections() {
    let server = Secured::start_with(&[("GAPLESS_SERVER__CONNECTIONS", "8")]);
    let (greedy, till) = (server.token("greedy", "shop", "write"), server.token("till", "shop", "write"));
    let mut held = Vec::new();
    for number in 0..16 {
        // From several addresses, and each of them with a call that never ends.
        let mut sender = http2_from(&server, 1 + number % 4).await;
        let (response, body) = begun(&server, &mut sender, WRITE_STREAM, Some(&greedy), None).await;
        assert!(!response.headers().contains_key("grpc-status"), "{response:?}");
        held.push((sender, response, body));
    }
    server.says(&till, &["write", "shop/1", "ItemSold"]);
    assert!(server.metric("gapless_connections_displaced_total") >= 8);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_sends_one_forged_token_after_the_other_is_not_looked_at_any_more_and_the_known_are() {
    let server = Secured::start();
    let neighbour = Neighbour::at(&server);
    let till = server.token("till", "shop", "read");
    let list = "/gapless.v1.Admin/ListNamespaces";
    let mut forged = till.clone().into_bytes();
    let place = forged.len() - 10;
    forged[place] = if forged[place] == b'A' { b'B' } else { b'A' };
    let forged = String::from_utf8(forged).unwrap();
    let mut sender = http2_from(&server, 2).await;
    let mut seen = 0_u32;
    let limited = loop {
        let (response, _) = begun(&server, &mut sender, list, Some(&forged), Some(framed(b""))).await;
        let answer = of_grpc(response.status().as_u16(), response.headers(), None);
        if refused(&answer) != (tonic::Code::Unauthenticated, "TOKEN_SIGNATURE") {
            break answer;
        }
        seen += 1;
        assert!(seen < 50_000, "every one of them was checked");
    };
    assert_eq!(refused(&limited), (tonic::Code::ResourceExhausted, "RATE_LIMITED"), "after {seen}");
    assert!(seen >= 1000, "mistakes are made: {seen}");
    // Over HTTP it is told when to come again.
    let told = loop {
        sender = timeout(LONG, sender.ready()).await.unwrap().unwrap();
        let request = Request::get(format!("https://{}/v1/namespaces", server.address));
        let request = request.header("authorization", format!("Bearer {forged}")).body(()).unwrap();
        let response = timeout(LONG, sender.send_request(request, true).unwrap().0).await.unwrap().unwrap();
        if response.status() != 401 {
            break response;
        }
    };
    assert_eq!((told.status().as_u16(), told.headers()["retry-after"].as_bytes()), (429, &b"1"[..]));
    // Somebody from elsewhere is looked at.
    let bearer = format!("Bearer {till}");
    let answer = grpc(&server, None, list, &[("authorization", &bearer)], framed(b"")).await.unwrap();
    assert_eq!(answer.code, tonic::Code::Ok, "{answer:?}");
    neighbour.leave();
}
