//! Every bad input, line by line: what is sent, and what comes back. Nothing changes, memory stays, and a client beside it is served.

use std::process::Command;

use bytes::Bytes;
use gapless_api::v1;
use prost::Message;
use tonic::Code;

use crate::support::{Neighbour, Secured, piped};
use crate::wire::{Answer, framed, grpc, http1, request};

const WRITE: &str = "/gapless.v1.Ledger/Write";
const EVENTS: &str = "/v1/namespaces/shop/workspaces/1/events";
/// Bytes that a part of a bomb becomes when it is taken apart, and how many parts there are: a gigabyte in all.
const PART_BYTES: usize = 64 << 20;
const PARTS: usize = 16;

/// What is sent.
enum Sent {
    /// A call of gRPC: path, headers, body.
    Grpc(&'static str, Vec<(&'static str, String)>, Bytes),
    /// A request of HTTP/1, as it goes over the wire.
    Http(Vec<u8>),
}

/// What comes back: a code of gRPC or a status of HTTP, and the reason.
enum Expected {
    Code(Code, &'static str),
    Status(u16, &'static str),
}

struct Line {
    what: &'static str,
    sent: Sent,
    expected: Expected,
}

/// A write that would be taken, but for what is wrong with it.
fn good() -> v1::WriteRequest {
    v1::WriteRequest {
        namespace: "shop".to_owned(),
        workspace: 1,
        client_id: "till".to_owned(),
        idempotency_key: Bytes::from_static(&[7; 16]),
        event_type: "ItemSold".to_owned(),
        payload: Bytes::from_static(b"{}"),
        ..Default::default()
    }
}

/// Everything wrong, for somebody who may write and read the shop.
fn lines(token: &str) -> Vec<Line> {
    let bearer = || ("authorization", format!("Bearer {token}"));
    let mut lines = Vec::new();
    let mut call = |what, path, message: &[u8], code, reason| {
        let sent = Sent::Grpc(path, vec![bearer()], framed(message));
        lines.push(Line { what, sent, expected: Expected::Code(code, reason) });
    };
    let invalid = (Code::InvalidArgument, "INVALID_REQUEST");
    let mut write = |what, change: fn(&mut v1::WriteRequest)| {
        let mut request = good();
        change(&mut request);
        call(what, WRITE, &request.encode_to_vec(), invalid.0, invalid.1);
    };
    write("an empty key", |write| write.idempotency_key = Bytes::new());
    write("a key of zeros", |write| write.idempotency_key = Bytes::from_static(&[0; 16]));
    write("a huge key", |write| write.idempotency_key = vec![1; 1 << 20].into());
    write("too many operations", |write| {
        let op = v1::operation::Op::NextNumber(v1::NextNumber { sequence: "invoice".to_owned() });
        write.operations = vec![v1::Operation { op: Some(op) }; 1001];
    });
    write("operations without content", |write| write.operations = vec![v1::Operation { op: None }; 1000]);
    write("a payload that is too long", |write| write.payload = vec![b' '; (1 << 20) + 1].into());
    write("a client without a name", |write| write.client_id = String::new());
    write("too much metadata", |write| {
        write.metadata = (0..33).map(|number| (format!("key-{number}"), String::new())).collect();
    });
    write("an event without a type", |write| write.event_type = String::new());
    // Whoever may not write to a namespace learns nothing about its name; these are asked by somebody who may.
    let everything = good().encode_to_vec();
    call("a message cut short", WRITE, &everything[..everything.len() / 2], invalid.0, invalid.1);
    call("bytes that are no message", WRITE, &[0xFF; 64], invalid.0, invalid.1);
    // Field 1, a text of two bytes that are no UTF-8.
    call("a name that is no UTF-8", WRITE, &[0x0A, 2, 0xC3, 0x28], invalid.0, invalid.1);
    // Groups in groups, of a field that nothing has.
    call("a message in a message, two hundred times", WRITE, &[0x7B; 200], invalid.0, invalid.1);
    call("an oversized message", WRITE, &vec![0; 9 << 20], Code::InvalidArgument, "INVALID_REQUEST");
    let page = |page_size, page_token: &str| {
        v1::ListEntitiesRequest {
            namespace: "shop".to_owned(),
            workspace: 1,
            page_size,
            page_token: page_token.to_owned(),
            ..Default::default()
        }
        .encode_to_vec()
    };
    let list = "/gapless.v1.Ledger/ListEntities";
    call("a page of 0, which is as many as usual", list, &page(0, ""), Code::Ok, "");
    call("a page of 2^31", list, &page(1 << 31, ""), invalid.0, invalid.1);
    call("a token of a page that nobody issued", list, &page(10, "AQAAAAAA"), invalid.0, invalid.1);
    call("a token of a page that is no token", list, &page(10, "../../etc/passwd"), invalid.0, invalid.1);
    for name in ["../shop", "shop/../..", "shop\0", "SHOP", "shop%2F", ".", "~"] {
        let write = v1::WriteRequest { namespace: name.to_owned(), ..good() };
        call("a path as a name", WRITE, &write.encode_to_vec(), Code::PermissionDenied, "PERMISSION_DENIED");
    }
    call(
        "a method that does not exist",
        "/gapless.v1.Ledger/Destroy",
        b"",
        Code::Unimplemented,
        "NO_SUCH_METHOD",
    );
    call(
        "a service that does not exist",
        "/gapless.v2.Ledger/Write",
        b"",
        Code::Unimplemented,
        "NO_SUCH_SERVICE",
    );
    call(
        "a method of somebody else's service that does not exist",
        "/grpc.health.v1.Health/Destroy",
        b"",
        Code::Unimplemented,
        "UNIMPLEMENTED",
    );
    call(
        "a namespace of somebody else",
        WRITE,
        &other().encode_to_vec(),
        Code::PermissionDenied,
        "PERMISSION_DENIED",
    );
    call(
        "a namespace that nobody has",
        WRITE,
        &nowhere().encode_to_vec(),
        Code::PermissionDenied,
        "PERMISSION_DENIED",
    );
    call(
        "the node's own namespace",
        WRITE,
        &system().encode_to_vec(),
        Code::PermissionDenied,
        "PERMISSION_DENIED",
    );
    let drop = v1::DropNamespaceRequest { namespace: "shop".to_owned() }.encode_to_vec();
    call(
        "an action that is not allowed",
        "/gapless.v1.Admin/DropNamespace",
        &drop,
        Code::PermissionDenied,
        "PERMISSION_DENIED",
    );
    // A definition that says the same name in other words.
    let escaped =
        v1::ApplyNamespaceRequest { definition: "name = \"w\\u0065ll\"".to_owned() }.encode_to_vec();
    call(
        "a name in disguise",
        "/gapless.v1.Admin/ApplyNamespace",
        &escaped,
        Code::PermissionDenied,
        "PERMISSION_DENIED",
    );
    lines.extend(compressed(token));
    lines.extend(over_http(token));
    lines
}

fn other() -> v1::WriteRequest {
    v1::WriteRequest { namespace: "well".to_owned(), ..good() }
}

fn nowhere() -> v1::WriteRequest {
    v1::WriteRequest { namespace: "nowhere".to_owned(), ..good() }
}

fn system() -> v1::WriteRequest {
    v1::WriteRequest { namespace: "_system".to_owned(), ..good() }
}

/// Little that becomes much.
fn compressed(token: &str) -> Vec<Line> {
    // One file after the other is one file to whoever takes it apart.
    let bomb = piped(Command::new("gzip").arg("-9"), &vec![0; PART_BYTES]).repeat(PARTS);
    assert!(bomb.len() < 2 << 20, "it is a bomb");
    let mut frame = framed(&bomb).to_vec();
    frame[0] = 1;
    let bearer = ("authorization", format!("Bearer {token}"));
    let value = format!("Bearer {token}");
    let headers =
        [("authorization", value.as_str()), ("content-encoding", "gzip"), ("idempotency-key", "bomb")];
    vec![
        Line {
            what: "a compressed message",
            sent: Sent::Grpc(
                WRITE,
                vec![bearer.clone(), ("grpc-encoding", "gzip".to_owned())],
                frame.clone().into(),
            ),
            expected: Expected::Code(Code::Unimplemented, "UNIMPLEMENTED"),
        },
        Line {
            what: "a compressed message that does not say how",
            sent: Sent::Grpc(WRITE, vec![bearer], frame.into()),
            expected: Expected::Code(Code::InvalidArgument, "INVALID_REQUEST"),
        },
        Line {
            what: "a compressed body",
            sent: Sent::Http(request("POST", EVENTS, &headers, &bomb)),
            expected: Expected::Status(400, "INVALID_REQUEST"),
        },
    ]
}

fn over_http(token: &str) -> Vec<Line> {
    let bearer = format!("Bearer {token}");
    let known = ("authorization", bearer.as_str());
    let key = ("idempotency-key", "hostile");
    let line = |what, bytes, status, reason| Line {
        what,
        sent: Sent::Http(bytes),
        expected: Expected::Status(status, reason),
    };
    let body = |body: &[u8]| request("POST", EVENTS, &[known, key], body);
    let get = |path: &str| request("GET", path, &[known], b"");
    let many: Vec<(String, String)> =
        (0..200).map(|number| (format!("x-{number}"), "1".to_owned())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    vec![
        line("no JSON", body(b"{"), 400, "INVALID_REQUEST"),
        line("JSON a hundred thousand deep", body(deep.as_bytes()), 400, "INVALID_REQUEST"),
        line("a body that is no UTF-8", body(&[b'{', 0xC3, 0x28, b'}']), 400, "INVALID_REQUEST"),
        line("a field that nothing has", body(b"{\"colour\":\"red\"}"), 400, "INVALID_REQUEST"),
        line(
            "a body that says what the path says",
            body(b"{\"namespace\":\"well\"}"),
            400,
            "INVALID_REQUEST",
        ),
        line("an oversized body", body(&vec![b' '; 9 << 20]), 413, "BODY_TOO_LARGE"),
        line(
            "an oversized body that does not say so",
            [
                request("POST", EVENTS, &[known, key, ("transfer-encoding", "chunked")], b""),
                b"100000\r\n".to_vec(),
                [vec![b' '; 1 << 20], b"\r\n100000\r\n".to_vec()].concat().repeat(9),
            ]
            .concat(),
            413,
            "BODY_TOO_LARGE",
        ),
        line("no key", request("POST", EVENTS, &[known], b"{}"), 400, "INVALID_REQUEST"),
        line(
            "a key of zeros",
            request(
                "POST",
                EVENTS,
                &[known, ("idempotency-key", &"0".repeat(32))],
                br#"{"event_type":"A","client_id":"till"}"#,
            ),
            400,
            "INVALID_REQUEST",
        ),
        line(
            "an empty key",
            request("POST", EVENTS, &[known, ("idempotency-key", "")], b"{}"),
            400,
            "INVALID_REQUEST",
        ),
        line(
            "a page of 2^31",
            get("/v1/namespaces/shop/workspaces/1/entities?page_size=2147483648"),
            400,
            "INVALID_REQUEST",
        ),
        line(
            "a page of -1",
            get("/v1/namespaces/shop/workspaces/1/entities?page_size=-1"),
            400,
            "INVALID_REQUEST",
        ),
        line(
            "a query that is no UTF-8",
            get("/v1/namespaces/shop/workspaces/1/entities?prefix=%C3%28"),
            400,
            "INVALID_REQUEST",
        ),
        line("a path that is no UTF-8", get("/v1/namespaces/%C3%28"), 400, "INVALID_REQUEST"),
        line(
            "a host and another one",
            request("GET", "/v1/namespaces", &[known, ("host", "evil.example")], b""),
            403,
            "FOREIGN_ORIGIN",
        ),
        line(
            "a body that says twice how it is packed",
            request(
                "POST",
                EVENTS,
                &[known, key, ("content-encoding", "identity"), ("content-encoding", "gzip")],
                br#"{"event_type":"A","client_id":"till"}"#,
            ),
            400,
            "INVALID_REQUEST",
        ),
        line("a path in a path", get("/v1/namespaces/..%2F..%2Fetc/workspaces/1"), 403, "PERMISSION_DENIED"),
        line("a namespace of somebody else", get("/v1/namespaces/well"), 403, "PERMISSION_DENIED"),
        line("a namespace that nobody has", get("/v1/namespaces/nowhere"), 403, "PERMISSION_DENIED"),
        line("metrics of everybody", get("/metrics"), 403, "PERMISSION_DENIED"),
        line("nothing", get("/etc/passwd"), 404, "NO_SUCH_ROUTE"),
        line("another method", request("PUT", EVENTS, &[known], b"{}"), 405, "WRONG_METHOD"),
        line("too many headers", request("GET", "/healthz", &many, b""), 431, ""),
        line(
            "headers that are too long",
            request("GET", "/healthz", &[("x", &"x".repeat(100_000))], b""),
            431,
            "",
        ),
        line("a path that is too long", get(&format!("/{}", "x".repeat(80_000))), 431, ""),
        line(
            "two lengths",
            b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx".to_vec(),
            400,
            "",
        ),
        line("no HTTP", b"\x16\x03\x01 nothing that anybody speaks\r\n\r\n".to_vec(), 400, ""),
        line(
            "a page from elsewhere",
            request("GET", "/v1/namespaces", &[known, ("origin", "https://evil.example")], b""),
            403,
            "FOREIGN_ORIGIN",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_bad_input_is_answered_changes_nothing_and_costs_little() {
    let server = Secured::start();
    let neighbour = Neighbour::at(&server);
    let token = server.token("somebody", "shop", "read,write");
    let state = server.state();
    let memory = server.memory();
    let mut wrong = Vec::new();
    for Line { what, sent, expected } in lines(&token) {
        let answer = match sent {
            Sent::Grpc(path, headers, body) => {
                let headers: Vec<(&str, &str)> =
                    headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
                grpc(&server, None, path, &headers, body).await
            }
            Sent::Http(bytes) => Ok(http1(&server, &bytes).await),
        };
        let is_expected = |answer: &Answer| match expected {
            Expected::Code(code, reason) => (answer.code, answer.reason.as_str()) == (code, reason),
            Expected::Status(status, reason) => (answer.status, answer.reason.as_str()) == (status, reason),
        };
        if !answer.as_ref().is_ok_and(is_expected) {
            wrong.push(format!("{what}: {answer:?}"));
        }
        server.memory_is_as_before(memory, what);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(server.state(), state, "nothing changed");
    neighbour.leave();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_of_a_page_that_was_changed_or_is_of_another_question_leads_nowhere() {
    let server = Secured::start();
    let token = server.token("somebody", "shop", "read,write");
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str())];
    for entity in ["YQ==", "Yg==", "Yw=="] {
        let operations = format!(
            r#"{{"event_type":"Set","client_id":"till","operations":[{{"set_entity":{{"key":"{entity}","value":"eA=="}}}}]}}"#
        );
        let keyed = [headers[0], ("idempotency-key", entity)];
        let answer = http1(&server, &request("POST", EVENTS, &keyed, operations.as_bytes())).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let list = |workspace: u32, prefix: &str, page: &str| {
        let path = format!(
            "/v1/namespaces/shop/workspaces/{workspace}/entities?page_size=1&prefix={prefix}&page_token={page}"
        );
        request("GET", &path, &headers, b"")
    };
    let first = http1(&server, &list(1, "", "")).await;
    assert_eq!(first.status, 200, "{first:?}");
    let begins = first.body.find("\"next_page_token\":\"").expect("there is more") + 19;
    let page = first.body[begins..].split('"').next().unwrap().to_owned();
    assert_eq!(http1(&server, &list(1, "", &page)).await.status, 200);
    let invalid = (400, "INVALID_REQUEST".to_owned());
    for at in 0..page.len() {
        let mut changed = page.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let answer = http1(&server, &list(1, "", &String::from_utf8(changed).unwrap())).await;
        assert_eq!((answer.status, answer.reason), invalid, "changed at {at}");
    }
    for (workspace, prefix, page) in [
        (2, "", page.as_str()),
        (1, "a", &page),
        (1, "", &page[..page.len() - 1]),
        (1, "", &format!("{page}A")),
    ] {
        let answer = http1(&server, &list(workspace, prefix, page)).await;
        assert_eq!((answer.status, answer.reason), invalid, "{workspace} {prefix} {page}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_that_exists_and_one_that_does_not_are_refused_in_the_same_words() {
    let server = Secured::start();
    let token = server.token("somebody", "shop", "read,write,admin,work");
    for arguments in [
        &["namespace", "show"][..],
        &["namespace", "drop", "--yes"],
        &["projection", "list"],
        &["partitions"],
    ] {
        let refused = |name: &str| {
            let output = server.ask(&token, &[arguments, &[name]].concat());
            (output.status.code(), String::from_utf8(output.stderr).unwrap().replace(name, "NAME"))
        };
        assert_eq!(refused("well"), refused("nope"), "{arguments:?}");
        assert!(refused("well").1.contains("needs the right to"), "{arguments:?}: {}", refused("well").1);
    }
    assert_eq!(server.says(&token, &["namespace", "list", "-o", "raw"]), "shop\n");
    let partitions = server.says(&token, &["partitions", "-o", "json"]);
    assert!(
        partitions.contains("\"shop\"") && !partitions.contains("well") && !partitions.contains("_system")
    );
}
