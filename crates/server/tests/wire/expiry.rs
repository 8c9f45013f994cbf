//! A token that expires ends what was begun with it. What time it is, the test says.

use futures_util::stream::{self, Stream};
use gapless_api::v1;
use gapless_api::v1::ledger_client::LedgerClient;
use gapless_api::v1::projections_client::ProjectionsClient;
use gapless_engine::Engine;
use gapless_server::access::clock::Clock;
use gapless_server::access::keys::{Algorithm, Key, to_file};
use gapless_server::access::tokens::{Claims, issued};
use gapless_server::{Config, Security, Server};
use tokio::sync::{mpsc, watch};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};

use crate::support::{LONG, problem, sale};

/// What time it is at first, and when tokens end, leeway included.
const NOW: u64 = 1_800_000_000;
const ENDS: u64 = NOW + 60;
const LEEWAY: u64 = 30;

const SHOP: &str = "name = 'shop'\npartitions = 1\n[projections.work]\nevents = ['ItemSold']\n";

/// Sends a token with everything.
#[derive(Clone)]
struct Bearer(MetadataValue<Ascii>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert("authorization", self.0.clone());
        Ok(request)
    }
}

struct Node {
    engine: Engine,
    server: Server,
    key: Key,
    clock: watch::Sender<u64>,
    _dir: tempfile::TempDir,
}

impl Node {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let key = Key::generate("one", Algorithm::EdDSA).unwrap();
        let token_keys = dir.path().join("keys.json");
        std::fs::write(&token_keys, to_file(&[key.to_check_with()])).unwrap();
        let engine = Engine::embed(dir.path().join("data")).await.unwrap();
        let (clock, told) = watch::channel(NOW);
        let security = Security { token_keys, ..Security::default() };
        let config =
            Config { security, clock: Clock::told_by(told), ..Config::new(([127, 0, 0, 1], 0).into()) };
        let server = Server::start(engine.clone(), config).await.unwrap();
        Self { engine, server, key, clock, _dir: dir }
    }

    fn bearer(&self, actions: &str, ends: u64) -> Bearer {
        let text = format!(
            r#"{{"sub":"till","aud":"gapless","exp":{},"namespaces":["shop"],"actions":{actions}}}"#,
            ends - LEEWAY
        );
        let claims: Claims = serde_json::from_str(&text).unwrap();
        Bearer(format!("Bearer {}", issued(&claims, &self.key).unwrap()).parse().unwrap())
    }

    async fn channel(&self) -> Channel {
        let address = format!("http://{}", self.server.address());
        Channel::from_shared(address).unwrap().connect().await.unwrap()
    }

    async fn ledger(&self, bearer: Bearer) -> LedgerClient<InterceptedService<Channel, Bearer>> {
        LedgerClient::with_interceptor(self.channel().await, bearer)
    }

    async fn stop(self) {
        self.server.stop().await;
        self.engine.close().await;
    }
}

fn received<T: Send + 'static>(receiver: mpsc::Receiver<T>) -> impl Stream<Item = T> + Send + 'static {
    stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) })
}

/// What a stream ends with, whatever comes before.
async fn end<T>(answers: &mut Streaming<T>) -> Status {
    loop {
        if let Err(status) = answers.message().await {
            return status;
        }
    }
}

#[track_caller]
fn expired(status: &Status) {
    assert_eq!((status.code(), &*problem(status).reason), (Code::Unauthenticated, "TOKEN_EXPIRED"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_expires_ends_what_was_begun_with_it() {
    let node = Node::start().await;
    let admin = node.bearer(r#"["admin"]"#, NOW + 3600);
    let mut admin = v1::admin_client::AdminClient::with_interceptor(node.channel().await, admin);
    admin.apply_namespace(v1::ApplyNamespaceRequest { definition: SHOP.to_owned() }).await.unwrap();
    let till = node.bearer(r#"["read","write","work"]"#, ENDS);
    let mut ledger = node.ledger(till.clone()).await;
    ledger.write(sale(1, 1)).await.unwrap();

    // A reader that follows, a stream of writes, a worker: each has had an answer, and waits.
    let follow = v1::SubscribeRequest {
        namespace: "shop".to_owned(),
        what: Some(v1::subscribe_request::What::Workspace(1)),
        from: 1,
    };
    let mut follows = ledger.subscribe(follow).await.unwrap().into_inner();
    follows.message().await.unwrap().unwrap();
    let (writes, sent) = mpsc::channel(4);
    writes.send(sale(1, 2)).await.unwrap();
    let mut written = ledger.write_stream(received(sent)).await.unwrap().into_inner();
    written.message().await.unwrap().unwrap();
    let mut projections = ProjectionsClient::with_interceptor(node.channel().await, till);
    let (works, sent) = mpsc::channel(4);
    let hello = v1::WorkHello {
        namespace: "shop".to_owned(),
        projection: "work".to_owned(),
        worker: "one".to_owned(),
        credits: 1,
        ..Default::default()
    };
    works.send(v1::WorkRequest { request: Some(v1::work_request::Request::Hello(hello)) }).await.unwrap();
    let mut work = projections.work(received(sent)).await.unwrap().into_inner();

    // A second before, everything is as it was.
    node.clock.send_replace(ENDS - 1);
    ledger.write(sale(1, 3)).await.unwrap();
    let ended = async { tokio::join!(end(&mut follows), end(&mut written), end(&mut work)) };
    node.clock.send_replace(ENDS);
    let (follows, written, work) = tokio::time::timeout(LONG, ended).await.unwrap();
    [follows, written, work].iter().for_each(expired);
    expired(&ledger.write(sale(1, 4)).await.unwrap_err());
    drop((writes, works));
    node.stop().await;
}
