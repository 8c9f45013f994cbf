//! A server on a free port with a directory of its own, and clients of it.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use gapless_api::v1::admin_client::AdminClient;
use gapless_api::v1::ledger_client::LedgerClient;
use gapless_api::v1::projections_client::ProjectionsClient;
use gapless_api::{Problem, v1};
use gapless_engine::{Config as EngineConfig, Engine};
use gapless_server::{Config, Limits, Server};
use tonic::transport::Channel;
use tonic::{Code, Status};

pub(crate) type Ledger = LedgerClient<Channel>;
pub(crate) type Admin = AdminClient<Channel>;

/// How long anything may take before a test has failed.
pub(crate) const LONG: Duration = Duration::from_secs(60);

const SHOP: &str = r#"
name = "shop"
partitions = 3
[kinds.default.sequences]
invoice = 1
[records.settings]
singleton = true
"#;

/// A server with its engine and its directory.
pub(crate) struct Node {
    pub(crate) engine: Engine,
    pub(crate) server: Server,
    dir: tempfile::TempDir,
}

impl Node {
    /// A server with the namespace `shop`.
    pub(crate) async fn start() -> Self {
        Self::start_with(Limits::default()).await
    }

    pub(crate) async fn start_with(limits: Limits) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let node = Self::open(dir, limits).await;
        node.define_shop().await;
        node
    }

    /// The same with an engine that is configured otherwise.
    pub(crate) async fn start_on(
        limits: Limits,
        configure: impl FnOnce(EngineConfig) -> EngineConfig,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = configure(EngineConfig::embedded(dir.path().join("data")));
        let engine = Engine::open(config).await.unwrap();
        engine.wait_for_leader().await;
        let node = Self::serve(engine, dir, limits).await;
        node.define_shop().await;
        node
    }

    /// On a server with little patience and a busy machine it can take more than one attempt.
    async fn define_shop(&self) {
        let request = v1::ApplyNamespaceRequest { definition: SHOP.to_owned() };
        while let Err(status) = self.admin().await.apply_namespace(request.clone()).await {
            assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
        }
    }

    /// A server with the namespace `shop` at an address that it can come back to.
    pub(crate) async fn start_at(address: SocketAddr) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::embed(dir.path().join("data")).await.unwrap();
        let server = Server::start(engine.clone(), Config::new(address)).await.unwrap();
        let node = Self { engine, server, dir };
        node.define_shop().await;
        node
    }

    async fn open(dir: tempfile::TempDir, limits: Limits) -> Self {
        let engine = Engine::embed(dir.path().join("data")).await.unwrap();
        Self::serve(engine, dir, limits).await
    }

    async fn serve(engine: Engine, dir: tempfile::TempDir, limits: Limits) -> Self {
        let config = Config { limits, ..Config::new(([127, 0, 0, 1], 0).into()) };
        let server = Server::start(engine.clone(), config).await.unwrap();
        Self { engine, server, dir }
    }

    /// The same directory with another server.
    pub(crate) async fn restarted(self) -> Self {
        let Self { engine, server, dir } = self;
        server.stop().await;
        engine.close().await;
        drop(engine);
        Self::open(dir, Limits::default()).await
    }

    pub(crate) async fn stop(self) {
        self.server.stop().await;
        self.engine.close().await;
    }

    pub(crate) async fn channel(&self) -> Channel {
        let address = format!("http://{}", self.server.address());
        Channel::from_shared(address).unwrap().connect().await.unwrap()
    }

    pub(crate) async fn ledger(&self) -> Ledger {
        LedgerClient::new(self.channel().await).max_decoding_message_size(16 << 20)
    }

    pub(crate) async fn projections(&self) -> ProjectionsClient<Channel> {
        ProjectionsClient::new(self.channel().await).max_decoding_message_size(16 << 20)
    }

    pub(crate) async fn admin(&self) -> Admin {
        AdminClient::new(self.channel().await)
    }
}

/// Polls until something holds.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..6000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

/// A key that no other number gives.
pub(crate) fn key(number: u64) -> Bytes {
    let mut key = [0xA5; 16];
    key[..8].copy_from_slice(&number.to_le_bytes());
    Bytes::copy_from_slice(&key)
}

/// An event in a workspace of the shop, of the client `till`.
pub(crate) fn sale(workspace: u64, number: u64) -> v1::WriteRequest {
    v1::WriteRequest {
        namespace: "shop".to_owned(),
        workspace,
        client_id: "till".to_owned(),
        idempotency_key: key(number),
        event_type: "ItemSold".to_owned(),
        payload: Bytes::from(format!("{{\"sale\":{number}}}")),
        ..Default::default()
    }
}

/// The same with these changes.
pub(crate) fn with(mut request: v1::WriteRequest, operations: Vec<v1::operation::Op>) -> v1::WriteRequest {
    request.operations = operations.into_iter().map(|op| v1::Operation { op: Some(op) }).collect();
    request
}

pub(crate) fn invoice() -> v1::operation::Op {
    v1::operation::Op::NextNumber(v1::NextNumber { sequence: "invoice".to_owned() })
}

pub(crate) fn set(key: &str, value: &str) -> v1::operation::Op {
    v1::operation::Op::SetEntity(v1::SetEntity {
        key: Bytes::copy_from_slice(key.as_bytes()),
        value: Bytes::copy_from_slice(value.as_bytes()),
        ..Default::default()
    })
}

pub(crate) fn create(raw_id: u32, record_type: &str, total: i64) -> v1::operation::Op {
    let value = v1::Value { kind: Some(v1::value::Kind::Integer(total)) };
    v1::operation::Op::CreateRecord(v1::CreateRecord {
        raw_id,
        record_type: record_type.to_owned(),
        fields: [("total".to_owned(), value)].into(),
        ..Default::default()
    })
}

/// Writes, and expects success.
pub(crate) async fn written(ledger: &mut Ledger, request: v1::WriteRequest) -> v1::WriteSuccess {
    success(ledger.write(request).await.unwrap().into_inner())
}

pub(crate) fn success(response: v1::WriteResponse) -> v1::WriteSuccess {
    match response.result {
        Some(v1::write_response::Result::Success(success)) => success,
        other => panic!("not a success: {other:?}"),
    }
}

pub(crate) fn refusal(response: v1::WriteResponse) -> v1::WriteError {
    match response.result {
        Some(v1::write_response::Result::Error(error)) => error,
        other => panic!("not a refusal: {other:?}"),
    }
}

/// The problem behind a status.
pub(crate) fn problem(status: &Status) -> Problem {
    Problem::from(status)
}

/// The fields that a status says are wrong.
pub(crate) fn violations(status: &Status) -> Vec<String> {
    problem(status).violations.into_iter().map(|violation| violation.field).collect()
}
