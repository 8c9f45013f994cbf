//! Denied unless allowed: every method and every route that the server describes, asked by nobody and by somebody who may do nothing.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use prost_reflect::DescriptorPool;
use tonic::Code;

use crate::support::Secured;
use crate::wire::{framed, grpc, http1, request};

/// A token of somebody who may do nothing anywhere, which is one all the same.
fn powerless(server: &Secured) -> String {
    let key: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(server.path("shared.jwk")).unwrap()).unwrap();
    let secret = URL_SAFE_NO_PAD.decode(key["keys"][0]["k"].as_str().unwrap()).unwrap();
    let claims = serde_json::json!({
        "sub": "nobody", "aud": "gapless", "exp": 4_000_000_000_u64, "namespaces": [], "actions": [],
    });
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let message = format!("{}.{}", part(r#"{"alg":"HS256","kid":"shared"}"#), part(&claims.to_string()));
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &secret);
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(ring::hmac::sign(&key, message.as_bytes())))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_method_is_open_to_nobody_or_to_somebody_who_may_do_nothing() {
    let server = Secured::start();
    let state = server.state();
    let bearer = format!("Bearer {}", powerless(&server));
    let pool = DescriptorPool::decode(gapless_api::FILE_DESCRIPTORS).unwrap();
    let mut methods = 0;
    for method in pool.services().flat_map(|service| service.methods().collect::<Vec<_>>()) {
        let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
        let stranger = grpc(&server, None, &path, &[], framed(b"")).await.unwrap();
        let told = (stranger.code, stranger.reason.as_str());
        assert_eq!(told, (Code::Unauthenticated, "NO_CREDENTIALS"), "{path}");
        let known = grpc(&server, None, &path, &[("authorization", &bearer)], framed(b"")).await.unwrap();
        let told = (known.code, known.reason.as_str());
        assert_eq!(told, (Code::PermissionDenied, "PERMISSION_DENIED"), "{path}");
        methods += 1;
    }
    assert!(methods > 50, "{methods}");
    assert_eq!(server.state(), state);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_route_is_open_to_nobody_or_to_somebody_who_may_do_nothing() {
    let server = Secured::start();
    let state = server.state();
    let bearer = format!("Bearer {}", powerless(&server));
    // A test of the routes holds this page against them.
    let page: serde_json::Value = serde_json::from_str(&server.page("/openapi.json")).unwrap();
    let mut routes = 0;
    for (path, operations) in page["paths"].as_object().unwrap() {
        if !path.starts_with("/v1/") {
            continue;
        }
        let asked = path
            .replace("{namespace}", "shop")
            .replace("{workspace}", "1")
            .split('/')
            .map(|part| if part.starts_with('{') { "1" } else { part })
            .collect::<Vec<_>>()
            .join("/");
        for method in operations.as_object().unwrap().keys() {
            let method = method.to_uppercase();
            let body = match (method.as_str(), asked.as_str()) {
                ("GET" | "DELETE", _) => "",
                (_, "/v1/namespaces") => "name = 'shop'\npartitions = 2\n",
                _ => "{}",
            };
            let key = ("idempotency-key", "everything");
            let stranger = http1(&server, &request(&method, &asked, &[key], body.as_bytes())).await;
            assert_eq!(
                (stranger.status, stranger.reason.as_str()),
                (401, "NO_CREDENTIALS"),
                "{method} {asked}"
            );
            let known = [key, ("authorization", bearer.as_str())];
            let answer = http1(&server, &request(&method, &asked, &known, body.as_bytes())).await;
            assert_eq!(
                (answer.status, answer.reason.as_str()),
                (403, "PERMISSION_DENIED"),
                "{method} {asked}: {}",
                answer.body
            );
            routes += 1;
        }
    }
    assert!(routes > 40, "{routes}");
    assert_eq!(server.state(), state);
}
