//! Credentials that end under what was begun with them: a key that is removed, a line of a file that is, a certificate that is over.

use futures_util::StreamExt;
use gapless_api::{ProblemKind, v1};
use gapless_client::{Client, Credentials, Error, Ledger};
use gapless_engine::Engine;
use gapless_server::access::clock::Clock;
use gapless_server::{Config, Security, Server, TlsFiles};
use prost::Message;
use tokio::sync::watch;
use tokio::time::timeout;
use tonic::Code;

use crate::support::{LONG, Secured, keygen, program, says, until};
use crate::wire::{begun, end, framed, http2};

const SUBSCRIBE: &str = "/gapless.v1.Ledger/Subscribe";
const WRITE_STREAM: &str = "/gapless.v1.Ledger/WriteStream";

fn follow() -> v1::SubscribeRequest {
    v1::SubscribeRequest {
        namespace: "shop".to_owned(),
        what: Some(v1::subscribe_request::What::Workspace(1)),
        from: 1,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_begun_with_a_key_ends_when_the_key_is_removed_and_nothing_else_does() {
    let server = Secured::start_with(&[("GAPLESS_ACCESS__RELOAD_INTERVAL", "1h")]);
    keygen(server.dir.path(), "two", "EdDSA");
    server.signal("-HUP");
    let kept = server.token_of("two", "gapless", "kept", "shop", "read,write", "1h");
    until("the new key counts", || server.ask(&kept, &["read", "shop/1"]).status.success());
    let gone = server.token_of("one", "gapless", "gone", "shop", "read,write", "1h");
    let mut sender = http2(&server, None).await.unwrap();
    let follow = || Some(framed(&follow().encode_to_vec()));
    let (follows, _body) = begun(&server, &mut sender, SUBSCRIBE, Some(&gone), follow()).await;
    let (writes, _open) = begun(&server, &mut sender, WRITE_STREAM, Some(&gone), None).await;
    let (stays, _body) = begun(&server, &mut sender, SUBSCRIBE, Some(&kept), follow()).await;
    let stays = tokio::spawn(end(stays));
    let keys: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(server.path("token-keys.json")).unwrap()).unwrap();
    let all = keys["keys"].as_array().unwrap();
    let left: Vec<_> = all.iter().filter(|key| key["kid"] != "one").cloned().collect();
    std::fs::write(server.path("token-keys.json"), serde_json::json!({"keys": left}).to_string()).unwrap();
    server.signal("-HUP");
    for ended in [follows, writes] {
        let answer = end(ended).await;
        assert_eq!(answer.code, Code::Unauthenticated, "{answer:?}");
    }
    assert!(!stays.is_finished(), "whose key is there goes on");
    server.says(&kept, &["write", "shop/1", "ItemSold"]);
    assert!(!stays.is_finished());
    stays.abort();
}

/// A server in this process, which takes certificates of clients and is told what time it is.
struct Node {
    dir: tempfile::TempDir,
    server: Server,
    engine: Engine,
    clock: watch::Sender<u64>,
}

impl Node {
    async fn start(now: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        says(program().args(["tls", "init"]).arg(at("tls")));
        for name in ["localhost", "till-1"] {
            says(program().args(["tls", "issue"]).arg(at("tls")).args([name, "--expires", "30d"]));
        }
        std::fs::write(at("clients.toml"), CLIENTS).unwrap();
        let tls = TlsFiles {
            certificate: at("tls/localhost.pem"),
            key: at("tls/localhost.key"),
            client_ca: at("tls/ca.pem"),
        };
        let security = Security { tls, clients: at("clients.toml"), ..Security::default() };
        let engine = Engine::embed(at("data")).await.unwrap();
        let (clock, told) = watch::channel(now);
        let config =
            Config { security, clock: Clock::told_by(told), ..Config::new(([127, 0, 0, 1], 0).into()) };
        let server = Server::start(engine.clone(), config).await.unwrap();
        Self { dir, server, engine, clock }
    }

    /// Somebody with a certificate.
    fn client(&self) -> Client {
        let read = |name: &str| std::fs::read(self.dir.path().join("tls").join(name)).unwrap();
        let credentials = Credentials::default().with_ca(read("ca.pem"));
        let credentials = credentials.with_certificate(read("till-1.pem"), read("till-1.key"));
        let address = format!("localhost:{}", self.server.address().port());
        Client::connecting(&[address], credentials).unwrap()
    }
}

const CLIENTS: &str =
    "[[client]]\nname = 'till-1'\nnamespaces = ['shop']\nactions = ['read', 'write', 'admin']\n";

fn kind(error: &Error) -> Option<(ProblemKind, &str)> {
    error.problem().map(|problem| (problem.kind, &*problem.reason))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_came_with_a_certificate_is_nobody_once_it_is_over() {
    let machine = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let node = Node::start(machine).await;
    let client = node.client();
    let definition = "name = 'shop'\npartitions = 1\n".to_owned();
    client.apply_namespace(v1::ApplyNamespaceRequest { definition }).await.unwrap();
    let mut follows = client.subscribe(follow());
    let sale = || v1::WriteRequest {
        namespace: "shop".to_owned(),
        workspace: 1,
        client_id: "till".to_owned(),
        event_type: "ItemSold".to_owned(),
        payload: b"{}"[..].into(),
        ..Default::default()
    };
    client.write(sale()).await.unwrap();
    timeout(LONG, follows.next()).await.unwrap().unwrap().unwrap();
    // A day before, everything is as it was.
    node.clock.send_replace(machine + 29 * 86_400);
    client.write(sale()).await.unwrap();
    timeout(LONG, follows.next()).await.unwrap().unwrap().unwrap();
    node.clock.send_replace(machine + 31 * 86_400);
    let ended = loop {
        if let Err(error) = timeout(LONG, follows.next()).await.unwrap().unwrap() {
            break error;
        }
    };
    assert_eq!(kind(&ended).map(|(kind, _)| kind), Some(ProblemKind::Unauthenticated), "{ended:?}");
    let refused = client.write(sale()).await.unwrap_err();
    assert_eq!(kind(&refused), Some((ProblemKind::Unauthenticated, "CERTIFICATE_EXPIRED")));
    node.server.stop().await;
    node.engine.close().await;
}
