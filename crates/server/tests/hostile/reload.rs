//! Certificates and keys are exchanged while the server runs; what is of no use changes nothing.

use rustls::pki_types::pem::PemObject;

use crate::support::{Secured, keygen, program, says, until};
use crate::wire::tls;

async fn certificate(server: &Secured) -> Vec<u8> {
    let stream = tls(server, "localhost", None, b"h2").await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

fn on_disk(server: &Secured) -> Vec<u8> {
    rustls::pki_types::CertificateDer::from_pem_file(server.path("tls/localhost.pem")).unwrap().to_vec()
}

/// What is shown now and then as a page.
fn reloads(server: &Secured, result: &str) -> u64 {
    let page = server.page("/metrics");
    let line =
        page.lines().find(|line| line.starts_with(&format!("gapless_reloads_total{{result=\"{result}\"}}")));
    line.unwrap().rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_certificate_is_shown_without_a_restart_and_a_broken_one_never() {
    let server = Secured::start();
    let first = certificate(&server).await;
    assert_eq!(first, on_disk(&server));
    says(program().args(["tls", "issue"]).arg(server.path("tls")).args(["localhost", "127.0.0.1"]));
    let second = on_disk(&server);
    assert_ne!(first, second);
    let mut shown = first;
    for _ in 0..600 {
        shown = certificate(&server).await;
        if shown == second {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(shown, second);
    let kept = reloads(&server, "kept");
    std::fs::write(server.path("tls/localhost.key"), "-----BEGIN PRIVATE KEY-----\nplanted\n").unwrap();
    until("the broken file is noticed", || reloads(&server, "kept") > kept);
    assert_eq!(certificate(&server).await, second, "what was there stays");
    let lines = server.lines();
    assert!(lines.contains("are of no use; those before stay") && !lines.contains("planted"), "{lines}");
}

#[test]
fn keys_of_tokens_are_exchanged_one_after_the_other() {
    // Nobody looks by himself; a signal says when.
    let server = Secured::start_with(&[("GAPLESS_ACCESS__RELOAD_INTERVAL", "1h")]);
    let old = server.operator();
    keygen(server.dir.path(), "two", "EdDSA");
    let new = server.token_of("two", "gapless", "operator", "*", "read,admin", "1h");
    let list = &["namespace", "list", "-o", "raw"];
    assert!(server.refuses(&new, list).contains("no key of this server signed the token"));
    server.signal("-HUP");
    until("the new key counts", || server.ask(&new, list).status.success());
    server.says(&old, list);
    // The old one is removed, and what it signed is void at once.
    let keys: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(server.path("token-keys.json")).unwrap()).unwrap();
    let all = keys["keys"].as_array().unwrap();
    let left: Vec<_> = all.iter().filter(|key| key["kid"] != "one").cloned().collect();
    std::fs::write(server.path("token-keys.json"), serde_json::json!({"keys": left}).to_string()).unwrap();
    server.signal("-HUP");
    until("the old key is gone", || !server.ask(&old, list).status.success());
    server.says(&new, list);
    std::fs::write(server.path("token-keys.json"), "{}").unwrap();
    server.signal("-HUP");
    until("the broken file is noticed", || {
        server.lines().contains("keys of tokens changed, and are of no use")
    });
    server.says(&new, list);
}
