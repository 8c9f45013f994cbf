//! HTTP/2 by hand: frames that no client would send, or that do not come. Whoever sends them is ended or refused, and others are served.

use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use crate::support::{HURRIED, LONG, Neighbour, Secured, until};
use crate::wire::tls;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// Most frames that a flood has: far more than anybody needs to see.
const FLOOD: usize = 200_000;

/// GET / of localhost, with indices of the static table.
const GET: &[u8] = b"\x82\x87\x84\x41\x09localhost";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The kinds and payloads of frames.
fn frames(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut frames = Vec::new();
    while let [a, b, c, kind, _flags, _, _, _, _, rest @ ..] = bytes {
        let length = usize::try_from(u32::from_be_bytes([0, *a, *b, *c])).unwrap().min(rest.len());
        frames.push((*kind, rest[..length].to_vec()));
        bytes = &rest[length..];
    }
    frames
}

type Halves = (ReadHalf<TlsStream<TcpStream>>, WriteHalf<TlsStream<TcpStream>>);

/// A connection that has said what it speaks, and this.
async fn connected(server: &Secured, said: &[&[u8]]) -> Halves {
    let stream = tls(server, "localhost", None, b"h2").await.unwrap();
    let (reading, mut writing) = tokio::io::split(stream);
    writing.write_all(&[&[PREFACE, &frame(SETTINGS, 0, 0, b"")], said].concat().concat()).await.unwrap();
    writing.flush().await.unwrap();
    (reading, writing)
}

/// Everything until the other side closes.
async fn until_closed(mut reading: ReadHalf<TlsStream<TcpStream>>, what: &str) -> Vec<(u8, Vec<u8>)> {
    let mut said = Vec::new();
    let read = timeout(LONG, reading.read_to_end(&mut said)).await;
    // Cut off or closed in order: either way it is over.
    let _ = read.unwrap_or_else(|_| panic!("{what}: still open"));
    frames(&said)
}

/// Sends the same again and again, until nobody takes it any more. Nothing is read meanwhile.
async fn flood(mut writing: WriteHalf<TlsStream<TcpStream>>, part: Vec<u8>, what: &str) {
    let flood = async {
        for _ in 0..FLOOD {
            if writing.write_all(&part).await.is_err() || writing.flush().await.is_err() {
                return true;
            }
        }
        false
    };
    let was_ended = timeout(LONG, flood).await;
    assert_eq!(was_ended.ok(), Some(true), "{what}: it was let go on, or hung");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_whose_first_request_does_not_come_is_closed() {
    let server = Secured::start_with(&[HURRIED]);
    let neighbour = Neighbour::at(&server);
    let before = server.metric("gapless_connections_silent_total");
    let (early, _writes_nothing) = connected(&server, &[]).await;
    let (unended, _writes_no_more) = connected(&server, &[&frame(HEADERS, END_STREAM, 1, GET)]).await;
    let (reading, mut writing) = connected(&server, &[]).await;
    let dribbling = tokio::spawn(async move {
        while writing.write_all(&frame(PING, 0, 0, b"hereiam!")).await.is_ok()
            && writing.flush().await.is_ok()
        {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    });
    let (said, ..) = tokio::join!(
        until_closed(early, "nothing behind the preface"),
        until_closed(unended, "headers without an end"),
        until_closed(reading, "pings and no request"),
    );
    assert!(said.iter().any(|(kind, _)| *kind == GOAWAY), "who was only early is told: {said:?}");
    dribbling.abort();
    until("they are counted", || server.metric("gapless_connections_silent_total") >= before + 3);
    neighbour.leave();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_answer_a_ping_is_closed() {
    let server = Secured::start_with(&[("GAPLESS_SERVER__KEEP_ALIVE", "3s")]);
    let get = frame(HEADERS, END_STREAM | END_HEADERS, 1, GET);
    let (reading, _writing) = connected(&server, &[&get]).await;
    let said = until_closed(reading, "no answer to a ping").await;
    let answered = said.iter().position(|(kind, _)| *kind == HEADERS).expect("its request was answered");
    let asked = said.iter().rposition(|(kind, _)| *kind == PING).expect("it was asked whether it is there");
    assert!(asked > answered, "{said:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_that_are_too_long_or_never_end_are_not_kept() {
    let server = Secured::start_with(&[HURRIED]);
    let neighbour = Neighbour::at(&server);
    let memory = server.memory();
    // A literal header x of 16 000 bytes, again and again; the length is an integer with a prefix of seven bits.
    let mut header = b"\x00\x01x\x7f\x81\x7c".to_vec();
    header.extend([b'x'; 16_000]);
    let begin = frame(HEADERS, END_STREAM, 1, GET);
    let (reading, writing) = connected(&server, &[&begin]).await;
    flood(writing, frame(CONTINUATION, 0, 1, &header), "headers without an end").await;
    drop(reading);
    // Empty ones, of which there can be any number.
    let (reading, writing) = connected(&server, &[&begin]).await;
    flood(writing, frame(CONTINUATION, 0, 1, b""), "empty parts of headers without an end").await;
    drop(reading);
    // As long as 40 KiB, and whole: the request is refused.
    let parts: Vec<Vec<u8>> =
        (0..3).map(|part| frame(CONTINUATION, if part == 2 { END_HEADERS } else { 0 }, 1, &header)).collect();
    let (reading, _writing) = connected(&server, &[&begin, &parts.concat()]).await;
    let said = until_closed(reading, "long headers").await;
    // 0x88 is the status 200.
    assert!(!said.iter().any(|(kind, head)| *kind == HEADERS && head.first() == Some(&0x88)), "{said:?}");
    server.memory_is_as_before(memory, "headers");
    neighbour.leave();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_of_frames_that_want_an_answer_end_with_whoever_sends_them() {
    // Whoever reads no answers cannot be asked whether he is there. The neighbour may be held up for less than that.
    let server = Secured::start_with(&[("GAPLESS_SERVER__KEEP_ALIVE", "3s")]);
    let neighbour = Neighbour::at(&server);
    let memory = server.memory();
    let get = frame(HEADERS, END_STREAM | END_HEADERS, 1, GET);
    for (what, part) in [
        ("pings", frame(PING, 0, 0, b"answer!!")),
        // The initial window of streams, which is one more thing to acknowledge.
        ("settings", frame(SETTINGS, 0, 0, b"\x00\x04\x00\x00\xff\xff")),
    ] {
        let (mut reading, writing) = connected(&server, &[&get]).await;
        let mut said = Vec::new();
        while !frames(&said).iter().any(|(kind, _)| *kind == DATA) {
            assert_ne!(timeout(LONG, reading.read_buf(&mut said)).await.unwrap().unwrap(), 0, "it is served");
        }
        // From now on, nothing of what comes back is read.
        flood(writing, part.repeat(64), what).await;
        drop(reading);
        server.memory_is_as_before(memory, what);
    }
    neighbour.leave();
}
