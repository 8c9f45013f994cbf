//! Who is not believed: no token, an old one, a forged one, one for somebody else; a certificate of nobody, or of yesterday.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gapless_api::v1;
use prost::Message;
use tonic::Code;

use crate::support::{Neighbour, Secured, piped, program, says, until};
use crate::wire::{Answer, framed, grpc, http1, request, tls};

const LIST: &str = "/gapless.v1.Admin/ListNamespaces";

fn part(json: &str) -> String {
    URL_SAFE_NO_PAD.encode(json)
}

fn claims_of(part: &str) -> serde_json::Value {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

/// The same claims, signed with a key that the server knows, that ended a day ago.
fn of_yesterday(server: &Secured, claims: &serde_json::Value) -> String {
    let mut claims = claims.clone();
    let ends = claims["exp"].as_u64().unwrap();
    claims["exp"] = (ends - ends % 86_400 - 86_400).into();
    let key: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(server.path("shared.jwk")).unwrap()).unwrap();
    let secret = URL_SAFE_NO_PAD.decode(key["keys"][0]["k"].as_str().unwrap()).unwrap();
    let message = format!("{}.{}", part(r#"{"alg":"HS256","kid":"shared"}"#), part(&claims.to_string()));
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &secret);
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(ring::hmac::sign(&key, message.as_bytes())))
}

/// Tokens that nobody should believe, each with the reason.
fn unbelievable(server: &Secured) -> Vec<(&'static str, String, &'static str)> {
    let good = server.operator();
    let parts: Vec<&str> = good.split('.').collect();
    let claims = parts[1];
    let jwk: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(server.path("token-keys.json")).unwrap()).unwrap();
    let public = URL_SAFE_NO_PAD.decode(jwk["keys"][0]["x"].as_str().unwrap()).unwrap();
    let signed = |header: &str, secret: &[u8]| {
        let message = format!("{}.{claims}", part(header));
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(ring::hmac::sign(&key, message.as_bytes())))
    };
    let other = tempfile::tempdir().unwrap();
    crate::support::keygen(other.path(), "one", "EdDSA");
    crate::support::keygen(other.path(), "two", "EdDSA");
    let elsewhere = |key: &str| {
        let mut command = program();
        command.args(["token", "issue", "--subject", "x", "--namespaces", "*", "--actions", "admin"]);
        says(command.args(["--expires", "1h", "--key"]).arg(other.path().join(format!("{key}.jwk"))))
    };
    let mut forged = good.clone().into_bytes();
    let last = forged.len() - 10;
    forged[last] = if forged[last] == b'A' { b'B' } else { b'A' };
    vec![
        ("alg none", format!("{}.{claims}.", part(r#"{"alg":"none","kid":"one"}"#)), "TOKEN_MALFORMED"),
        ("alg None", format!("{}.{claims}.", part(r#"{"alg":"None","kid":"one"}"#)), "TOKEN_MALFORMED"),
        ("the public key as a secret", signed(r#"{"alg":"HS256","kid":"one"}"#, &public), "TOKEN_SIGNATURE"),
        (
            "the algorithm of another key",
            signed(r#"{"alg":"EdDSA","kid":"shared"}"#, &public),
            "TOKEN_SIGNATURE",
        ),
        ("a guessed secret", signed(r#"{"alg":"HS256","kid":"shared"}"#, b"secret"), "TOKEN_SIGNATURE"),
        ("no key id", signed(r#"{"alg":"HS256"}"#, b"secret"), "TOKEN_MALFORMED"),
        (
            "a path as a key id",
            signed(r#"{"alg":"HS256","kid":"../../one.jwk"}"#, b"secret"),
            "TOKEN_SIGNATURE",
        ),
        ("a key that nobody knows", elsewhere("two"), "TOKEN_SIGNATURE"),
        ("a key of the same name", elsewhere("one"), "TOKEN_SIGNATURE"),
        ("a forged signature", String::from_utf8(forged).unwrap(), "TOKEN_SIGNATURE"),
        ("no signature", format!("{}.{claims}.", parts[0]), "TOKEN_SIGNATURE"),
        ("for somebody else", server.token_of("one", "other", "x", "*", "admin", "1h"), "TOKEN_AUDIENCE"),
        ("of yesterday", of_yesterday(server, &claims_of(claims)), "TOKEN_EXPIRED"),
        ("two parts", format!("{}.{claims}", parts[0]), "TOKEN_MALFORMED"),
        ("nothing", String::new(), "TOKEN_MALFORMED"),
        ("too long", "a".repeat(5000), "TOKEN_MALFORMED"),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_token_and_no_other_but_a_good_one_is_believed() {
    let server = Secured::start();
    let neighbour = Neighbour::at(&server);
    let state = server.state();
    let message = framed(&v1::ListNamespacesRequest::default().encode_to_vec());
    let mut wrong = Vec::new();
    for (what, token, reason) in unbelievable(&server) {
        let bearer = format!("Bearer {}", token.trim());
        let headers = [("authorization", bearer.as_str())];
        let answer = grpc(&server, None, LIST, &headers, message.clone()).await.unwrap();
        if (answer.code, answer.reason.as_str()) != (Code::Unauthenticated, reason) {
            wrong.push(format!("{what}: {answer:?}"));
        }
        let answer = http1(&server, &request("GET", "/v1/namespaces", &headers, b"")).await;
        if (answer.status, answer.reason.as_str()) != (401, reason) {
            wrong.push(format!("{what}: {answer:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Whoever says nothing learns nothing, whatever he asks for.
    for path in
        ["/v1/namespaces", "/v1/namespaces/shop", "/metrics", "/openapi.json", "/nowhere", "/v1/cluster"]
    {
        let answer = http1(&server, &request("GET", path, &[], b"")).await;
        assert_eq!((answer.status, answer.reason.as_str()), (401, "NO_CREDENTIALS"), "{path}");
        assert!(answer.headers.contains(&("www-authenticate".to_owned(), "Bearer".to_owned())), "{path}");
        assert!(!answer.body.contains("shop"), "{path}");
    }
    for path in [
        "/gapless.v1.Ledger/Write",
        "/gapless.v1.Nothing/At",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    ] {
        let answer = grpc(&server, None, path, &[], message.clone()).await.unwrap();
        assert_eq!(
            (answer.code, answer.reason.as_str()),
            (Code::Unauthenticated, "NO_CREDENTIALS"),
            "{path}"
        );
    }
    let basic = [("authorization", "Basic b3BlcmF0b3I6c2VjcmV0")];
    let answer = http1(&server, &request("GET", "/v1/namespaces", &basic, b"")).await;
    assert_eq!((answer.status, answer.reason.as_str()), (401, "SCHEME_UNKNOWN"));
    for path in ["/healthz", "/readyz", "/"] {
        assert_eq!(http1(&server, &request("GET", path, &[], b"")).await.status, 200, "{path}");
    }
    assert_eq!(
        grpc(&server, None, "/grpc.health.v1.Health/Check", &[], framed(b"")).await.unwrap().code,
        Code::Ok
    );
    assert_eq!(server.state(), state, "nothing changed");
    assert!(server.metric("gapless_authentications_refused_total") >= 30);
    neighbour.leave();
}

/// What a stranger gets back, byte for byte, but for what belongs to his request and not to what he sent.
async fn told(server: &Secured, token: &str) -> (Answer, Answer) {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str())];
    let message = framed(&v1::ListNamespacesRequest::default().encode_to_vec());
    let mut grpc = grpc(server, None, LIST, &headers, message).await.unwrap();
    let mut http = http1(server, &request("GET", "/v1/namespaces", &headers, b"")).await;
    for answer in [&mut grpc, &mut http] {
        answer.headers.retain(|(name, _)| name != "date");
    }
    (grpc, http)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_cannot_find_out_which_keys_there_are() {
    let server = Secured::start();
    let claims = server.operator().split('.').nth(1).unwrap().to_owned();
    // Whoever administers may know. The first few of strangers are written down one by one.
    for (id, algorithm) in [("nobody's", "EdDSA"), ("one", "HS256"), ("one", "EdDSA")] {
        let header = part(&format!(r#"{{"alg":"{algorithm}","kid":"{id}"}}"#));
        told(&server, &format!("{header}.{claims}.{}", part("nothing"))).await;
    }
    let reasons = ["TOKEN_KEY_UNKNOWN", "TOKEN_ALGORITHM", "TOKEN_SIGNATURE"];
    until("why nobody was believed is in the audit", || {
        let audit = server.says(&server.operator(), &["read", "_system/1", "-o", "json"]);
        assert!(!audit.contains("nobody's"), "nothing of a token is repeated");
        reasons.iter().all(|reason| audit.lines().filter(|event| event.contains(reason)).count() == 2)
    });
    // The server has `one`, of EdDSA, and `shared`, of HS256. Signatures of the length that each has, and none.
    for algorithm in ["EdDSA", "HS256", "RS256"] {
        for signature in [part(&"s".repeat(64)), part(&"s".repeat(32)), String::new(), "!".to_owned()] {
            let with = |id: &str| {
                let header = part(&format!(r#"{{"alg":"{algorithm}","kid":"{id}"}}"#));
                format!("{header}.{claims}.{signature}")
            };
            let expected = told(&server, &with("nobody's")).await;
            assert_eq!((expected.0.code, expected.1.status), (Code::Unauthenticated, 401), "{expected:?}");
            for id in ["one", "shared", "", "../one.jwk"] {
                let answers = told(&server, &with(id)).await;
                assert_eq!(answers, expected, "{algorithm} `{id}` {signature}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn actions_and_namespaces_of_a_token_are_all_that_it_allows() {
    let server = Secured::start();
    let reader = server.token("reader", "sh*", "read");
    let writer = server.token_of("shared", "gapless", "writer", "shop", "write", "1h");
    server.says(&writer, &["write", "shop/1", "ItemSold"]);
    assert!(server.says(&reader, &["read", "shop/1", "-o", "json"]).contains("ItemSold"));
    for (token, arguments) in [
        (&reader, &["write", "shop/1", "ItemSold"][..]),
        (&writer, &["read", "shop/1"]),
        (&writer, &["write", "well/1", "ItemSold"]),
        (&reader, &["namespace", "drop", "shop", "--yes"]),
        (&reader, &["read", "_system/1"]),
    ] {
        let said = server.refuses(token, arguments);
        assert!(said.contains("needs the right to"), "{arguments:?}: {said}");
    }
}

/// A certificate that was good until yesterday, by the authority of the server.
fn expired_certificate(server: &Secured) {
    let issuer =
        rcgen::KeyPair::from_pem(&std::fs::read_to_string(server.path("tls/ca.key")).unwrap()).unwrap();
    let mut authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
    authority.distinguished_name.remove(rcgen::DnType::CommonName);
    authority.distinguished_name.push(rcgen::DnType::CommonName, "Gapless private authority");
    let issuer = rcgen::Issuer::new(authority, issuer);
    let mut params = rcgen::CertificateParams::new(vec!["till-1".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    std::fs::write(server.path("tls/old.pem"), certificate.pem()).unwrap();
    std::fs::write(server.path("tls/old.key"), key.serialize_pem()).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_prove_those_they_name_and_nobody_else() {
    let server = Secured::start();
    let message = framed(&v1::GetNamespaceRequest { namespace: "shop".to_owned() }.encode_to_vec());
    let get = "/gapless.v1.Admin/GetNamespace";
    let till = grpc(&server, Some("tls/till-1"), get, &[], message.clone()).await.unwrap();
    assert_eq!(till.code, Code::Ok, "{till:?}");
    let well = framed(&v1::GetNamespaceRequest { namespace: "well".to_owned() }.encode_to_vec());
    assert_eq!(grpc(&server, Some("tls/till-1"), get, &[], well).await.unwrap().code, Code::PermissionDenied);
    // Of the authority, but nobody that the server knows.
    let stranger = grpc(&server, Some("tls/stranger"), get, &[], message.clone()).await.unwrap();
    assert_eq!((stranger.code, stranger.reason.as_str()), (Code::Unauthenticated, "NO_CREDENTIALS"));
    // A bad token is not made up for by a good certificate.
    let headers = [("authorization", "Bearer a.b.c")];
    let both = grpc(&server, Some("tls/till-1"), get, &headers, message.clone()).await.unwrap();
    assert_eq!((both.code, both.reason.as_str()), (Code::Unauthenticated, "TOKEN_MALFORMED"));
    // Of yesterday, or of another authority: there is no connection at all.
    expired_certificate(&server);
    assert!(grpc(&server, Some("tls/old"), get, &[], message.clone()).await.is_err());
    says(program().args(["tls", "init"]).arg(server.path("others")));
    says(program().args(["tls", "issue"]).arg(server.path("others")).arg("till-1"));
    assert!(grpc(&server, Some("others/till-1"), get, &[], message.clone()).await.is_err());
    until("refused handshakes are counted", || server.metric("gapless_tls_handshakes_failed_total") >= 2);
    until("and who came with them is in the audit", || {
        let audit = server.says(&server.operator(), &["read", "_system/1", "-o", "json"]);
        ["CERTIFICATE_EXPIRED", "CERTIFICATE_SIGNATURE"].iter().all(|reason| audit.contains(reason))
    });
    // The server is called by its name, or not at all.
    assert!(tls(&server, "example.com", None, b"h2").await.is_err());
    let mut command = program();
    command.env("GAPLESS_SERVER", &server.address).env("GAPLESS_CA", server.path("others/ca.pem"));
    let output = command.args(["namespace", "list", "--timeout", "1s"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let mut command = program();
    command.args(["read", "shop/1", "--server", &server.address, "--ca"]).arg(server.path("tls/ca.pem"));
    command.arg("--cert").arg(server.path("tls/till-1.pem"));
    says(command.arg("--key-file").arg(server.path("tls/till-1.key")));
}

#[test]
fn a_token_that_is_looked_at_does_nothing_to_a_terminal() {
    let claims = serde_json::json!({
        "sub": "till\u{1b}[2J", "aud": "\u{1b}[2J", "exp": u64::MAX, "namespaces": ["*"], "actions": ["read"],
    });
    let header = part(&serde_json::json!({"alg": "HS256", "kid": "one\u{9b}31m"}).to_string());
    let token = format!("{header}.{}.{}", part(&claims.to_string()), part("nothing"));
    let said = piped(program().args(["token", "inspect"]), token.as_bytes());
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains("after the year 9999"), "{said:?}");
    assert!(!said.contains('\u{1b}') && !said.contains('\u{9b}'), "{said:?}");
}
