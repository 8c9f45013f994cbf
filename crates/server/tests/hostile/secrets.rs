//! No secret comes out: not in a line, an error, a metric, what is printed, or what is answered. They are planted, and looked for.

use std::process::{Command, Stdio};

use crate::support::{Secured, program, until};
use crate::wire::{framed, grpc, http1, request};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn planted_secrets_are_nowhere_but_where_they_were_put() {
    // Everything that anybody has to say, libraries included.
    let everything = "trace,h2=trace,hyper=trace,hyper_util=trace,rustls=trace,tonic=trace,tower=trace";
    let server =
        Secured::start_with(&[("GAPLESS_LOG", everything), ("GAPLESS_TELEMETRY__LOG_FORMAT", "json")]);
    let token = server.token("till", "shop", "read,write");
    let key = std::fs::read_to_string(server.path("one.jwk")).unwrap();
    let key: serde_json::Value = serde_json::from_str(&key).unwrap();
    let signing = key["keys"][0]["d"].as_str().unwrap().to_owned();
    let shared = std::fs::read_to_string(server.path("shared.jwk")).unwrap();
    let shared: serde_json::Value = serde_json::from_str(&shared).unwrap();
    let shared = shared["keys"][0]["k"].as_str().unwrap().to_owned();
    let pem = std::fs::read_to_string(server.path("tls/localhost.key")).unwrap();
    let pem = pem.lines().nth(1).unwrap().to_owned();
    let mut said = String::new();
    let mut note = |output: std::process::Output| {
        said.push_str(&String::from_utf8_lossy(&output.stdout));
        said.push_str(&String::from_utf8_lossy(&output.stderr));
    };
    note(server.ask(
        &token,
        &["write", "shop/1", "CardTaken", "{\"card\":\"planted-payload\"}", "--key", "planted-key"],
    ));
    note(server.ask("planted.wrong.token", &["namespace", "list"]));
    note(server.ask("planted\nbroken", &["namespace", "list"]));
    note(server.ask(&token, &["namespace", "drop", "well", "--yes"]));
    note(server.ask(&token, &["write", "shop/1", "", "{\"card\":\"planted-payload\"}"]));
    note(
        program()
            .args(["namespace", "list", "--server", "http://user:planted-password@no such"])
            .output()
            .unwrap(),
    );
    note(program().args(["write", "--help"]).env("GAPLESS_TOKEN", "planted-environment").output().unwrap());
    let mut print = program();
    print.args(["serve", "--print-config"]).env("GAPLESS_ACCESS__TOKEN_KEYS", server.path("token-keys.json"));
    note(print.env("GAPLESS_TOKEN", "planted-environment").output().unwrap());
    let mut broken = program();
    let file = server.path("broken.json");
    std::fs::write(
        &file,
        "{\"keys\":[{\"kty\":\"oct\",\"kid\":\"a\",\"alg\":\"HS256\",\"k\":\"planted-short\"}]}",
    )
    .unwrap();
    broken.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(server.path("other"));
    note(broken.env("GAPLESS_ACCESS__TOKEN_KEYS", &file).output().unwrap());
    let mut inspect = program();
    inspect.args(["token", "inspect", "--keys"]).arg(server.path("token-keys.json")).stdin(Stdio::null());
    note(inspect.output().unwrap());
    for headers in [
        [("authorization", "Bearer planted.bearer.token")],
        [("authorization", "Basic planted-basic")],
        [("cookie", "session=planted-cookie")],
    ] {
        let path = "/v1/namespaces?token=planted-query";
        let answer = http1(&server, &request("GET", path, &headers, b"")).await;
        said.push_str(&format!("{answer:?}\n"));
        let answer = grpc(&server, None, "/gapless.v1.Admin/ListNamespaces", &headers, framed(b"")).await;
        said.push_str(&format!("{answer:?}\n"));
    }
    said.push_str(&server.page("/metrics"));
    said.push_str(&server.page("/v1/cluster"));
    said.push_str(&server.says(&server.operator(), &["read", "_system/1", "-o", "json"]));
    server.signal("-TERM");
    until("it has ended", || server.lines().contains("stopped"));
    said.push_str(&server.lines());
    assert!(said.contains("tokens are taken"), "the lines of the server are looked at");
    assert!(
        said.contains("\"h2::"),
        "and those of a library, which says most of what there is to say about requests"
    );
    for secret in ["planted", token.as_str(), token.rsplit('.').next().unwrap(), &signing, &shared, &pem] {
        let found = said.lines().find(|line| line.contains(secret));
        assert_eq!(found, None, "{secret}");
    }
    // On disk, tokens and keys are only in the files that were made for them.
    for secret in [token.as_str(), &signing, &shared, &pem] {
        let found =
            Command::new("grep").args(["-rlF", "-e", secret]).arg(server.path("data")).output().unwrap();
        assert_eq!(String::from_utf8(found.stdout).unwrap(), "");
    }
}

#[test]
fn files_with_secrets_are_their_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let server = Secured::start();
    for name in ["one.jwk", "token-keys.json", "tls/ca.key", "tls/localhost.key"] {
        let mode = std::fs::metadata(server.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name}");
    }
    let mut again = program();
    again.args(["token", "keygen", "--id", "three", "--key"]).arg(server.path("one.jwk"));
    let output = again.arg("--keys").arg(server.path("token-keys.json")).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "a key is not written over");
    assert!(!std::fs::read_to_string(server.path("token-keys.json")).unwrap().contains("three"));
}
