//! A server: bound, answering, and at the end drained.
//!
//! Must not know: what a call means.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gapless_api::v1::admin_server::AdminServer;
use gapless_api::v1::ledger_server::LedgerServer;
use gapless_api::v1::projections_server::ProjectionsServer;
use gapless_api::{
    AdminCalls, BackupPlaces, FILE_DESCRIPTORS, InFlight, LedgerCalls, OtherNodes, ProjectionCalls,
    UnsentLimit,
};
use gapless_engine::Engine;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::service::Routes;

use crate::accept::{self, Door};
use crate::access::clock::Clock;
use crate::access::fairness::Room;
use crate::access::gate::Gate;
use crate::access::lobby::Lobby;
use crate::access::reload::{self, ReloadCounters};
use crate::admin_service::AdminService;
use crate::audit::Audit;
use crate::http::{self, Http};
use crate::ledger_service::LedgerService;
use crate::metrics::Metrics;
use crate::projection_service::ProjectionService;
use crate::rate::Rates;
use crate::readiness::{self, Readiness, Told};
use crate::security::Security;
use crate::telemetry::SpanCounters;

/// Longest message that is read, in bytes. What is longer than a write may be, but not absurdly so, is told so by name.
const MAX_MESSAGE_BYTES: usize = 8 << 20;

/// Of what all calls together may be, strangers who look whether it serves have this part besides, and at least so many.
const LOBBY_SHARE: usize = 16;
const LEAST_LOBBY: usize = 64;

/// Where to listen, and what to bear.
#[derive(Clone, Debug)]
pub struct Config {
    /// Address to listen on; port 0 picks a free one.
    pub listen: SocketAddr,
    /// What is borne.
    pub limits: Limits,
    /// Whether the engine has a network to other nodes.
    pub other_nodes: OtherNodes,
    /// What becomes of spans.
    pub spans: Arc<SpanCounters>,
    /// How it protects itself.
    pub security: Security,
    /// What time it is when credentials are looked at.
    pub clock: Clock,
    /// Directory that backups lie below. Without one they lie anywhere if nobody comes from another machine, and nowhere otherwise.
    pub backup_root: Option<PathBuf>,
}

/// What a server bears. Beyond it, somebody is refused or waits; nothing grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at one time; the next ones wait to be accepted.
    pub connections: usize,
    /// Of those, connections of one address; the next ones are closed.
    pub connections_per_address: usize,
    /// Calls at one time, of which one client has at most half.
    pub calls: usize,
    /// Calls at one time on one connection.
    pub calls_per_connection: u32,
    /// Bytes of requests that are being read at one time, of which one client has at most half.
    pub request_bytes: usize,
    /// Bytes of answers that are read and not sent yet, of which one client has at most half.
    pub response_bytes: usize,
    /// What one stream of writes has in flight.
    pub in_flight: InFlight,
    /// How long a connection may take to say what it wants, before it is closed.
    pub header_timeout: Duration,
    /// How long a connection may be without a call, before it is closed.
    pub idle_timeout: Duration,
    /// How often a connection that says nothing is asked whether it is there, and how long the answer may take.
    pub keep_alive: Duration,
    /// How long a call may take that names no deadline, and at most.
    pub patience: Duration,
    /// How long calls may take to finish when the server stops.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            connections_per_address: 1024,
            calls: 16_384,
            calls_per_connection: 1024,
            request_bytes: 256 << 20,
            response_bytes: 256 << 20,
            in_flight: InFlight::default(),
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(600),
            keep_alive: Duration::from_secs(20),
            patience: Duration::from_secs(30),
            drain: Duration::from_secs(10),
        }
    }
}

impl Config {
    /// A server with default limits.
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            limits: Limits::default(),
            other_nodes: OtherNodes::default(),
            spans: Arc::default(),
            security: Security::default(),
            clock: Clock::default(),
            backup_root: None,
        }
    }
}

/// Why a server did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// Nobody can listen there.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A certificate or a key is not what it should be.
    #[error("{0}")]
    Security(String),
    /// The descriptors of the protocol are not what they should be.
    #[error("reflection cannot be offered")]
    Reflection(#[from] tonic_reflection::server::Error),
}

/// A server that answers. Dropped, it goes on until the runtime ends; see [`Server::stop`].
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    closing: watch::Sender<bool>,
    accepting: JoinHandle<()>,
    readiness: JoinHandle<()>,
    ready: watch::Receiver<Readiness>,
}

impl Server {
    /// Binds and answers. Health says so as soon as the engine takes writes, or knows who does, and every partition is up; and when
    /// that is no longer so.
    ///
    /// # Errors
    /// If nobody can listen there.
    pub async fn start(engine: Engine, config: Config) -> Result<Self, StartError> {
        let security = config.security.open(config.clock).map_err(StartError::Security)?;
        let refused = |source| StartError::Listen { address: config.listen, source };
        let listener = TcpListener::bind(config.listen).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let (closing, closed) = watch::channel(false);
        let (health, health_service) = tonic_health::server::health_reporter();
        let told = Told::starting(health).await;
        let ledger = LedgerCalls::new(engine.clone());
        let places = match &config.backup_root {
            Some(root) => BackupPlaces::Below(root.clone()),
            None if address.ip().is_loopback() => BackupPlaces::Anywhere,
            None => BackupPlaces::Nowhere,
        };
        let admin = AdminCalls::new(engine.clone(), env!("CARGO_PKG_VERSION"), config.other_nodes);
        let admin = admin.with_backups(places);
        let projections = ProjectionCalls::new(engine.clone());
        let barriers = Arc::new(Rates::new(security.authentication.is_on()));
        let audit = match security.authentication.is_on() {
            true => Audit::kept(engine.clone()),
            false => Audit::off(),
        };
        let reloads: Arc<ReloadCounters> = Arc::default();
        let unsent = UnsentLimit::new(config.limits.response_bytes);
        let metrics = Metrics::new(
            engine.clone(),
            told.watch(),
            config.spans.clone(),
            admin.connections(),
            audit.clone(),
            reloads.clone(),
            unsent.clone(),
        );
        let ledger = Gate::new(ledger, audit.clone());
        let admin = Gate::new(admin, audit.clone());
        let projections = Gate::new(projections, audit.clone());
        let traffic = metrics.traffic.clone();
        let http = Http {
            ledger: ledger.clone(),
            admin: admin.clone(),
            projections: projections.clone(),
            limits: config.limits,
            metrics,
            barriers: barriers.clone(),
            readiness: told.watch(),
            closing: closed.clone(),
        };
        let ledger = LedgerService::new(ledger, config.limits, closed.clone());
        let admin = AdminService::new(admin, config.limits, barriers);
        let projections = ProjectionService::new(projections, config.limits, closed.clone());
        let ledger = LedgerServer::new(ledger).max_decoding_message_size(MAX_MESSAGE_BYTES);
        let routes = Routes::new(AdminServer::new(admin).max_decoding_message_size(MAX_MESSAGE_BYTES))
            .add_service(ProjectionsServer::new(projections).max_decoding_message_size(MAX_MESSAGE_BYTES))
            .add_service(health_service)
            .add_service(reflection().build_v1()?)
            .add_service(reflection().build_v1alpha()?);
        let router = routes.prepare().into_axum_router().merge(http::router(http)).fallback(http::nowhere);
        let elections = audit.clone();
        let door = Door {
            ledger,
            router,
            traffic,
            tls: security.tls,
            authentication: security.authentication,
            audit,
            room: Arc::new(Room::new(config.limits.calls, config.limits.request_bytes, unsent)),
            lobby: Arc::new(Lobby::new((config.limits.calls / LOBBY_SHARE).max(LEAST_LOBBY))),
        };
        let interval = config.security.reload_interval;
        tokio::spawn(reload::watch(security.sources, interval, reloads, closed.clone()));
        let accepting = tokio::spawn(accept::run(listener, Arc::new(door), config.limits, closed));
        tokio::spawn(tell_leadership(engine.clone(), elections, closing.subscribe()));
        let ready = told.watch();
        let readiness = tokio::spawn(readiness::follow(engine, told, closing.subscribe()));
        Ok(Self { address, closing, accepting, readiness, ready })
    }

    /// Waits until whoever asks is told that it is ready, or that it never will be.
    pub async fn wait_until_ready(&self) {
        let _ = self.ready.clone().wait_for(|now| *now != Readiness::Starting).await;
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops: takes no new connections and calls, lets calls finish, ends subscriptions. Ready when nobody is connected any more,
    /// or the time for that is over.
    pub async fn stop(self) {
        self.closing.send_replace(true);
        // They cannot fail but by a panic, which was reported.
        let _ = self.readiness.await;
        let _ = self.accepting.await;
    }
}

/// Says who leads, whenever that changes, and when the node has stopped by itself. That this one does is audited.
async fn tell_leadership(engine: Engine, audit: Audit, mut closing: watch::Receiver<bool>) {
    let mut leadership = engine.replicator().leadership();
    let mut told = None;
    loop {
        let now = leadership.borrow_and_update().clone();
        if *closing.borrow() {
            return;
        }
        if let Some(stopped) = now.stopped {
            tracing::error!("the node takes no part any more: {}", stopped.reason);
            return;
        }
        let leads = now.leader.map(|leader| (now.term, leader.node, leader.address));
        if leads != told {
            match &leads {
                Some((term, node, _)) if now.is_self => {
                    tracing::info!(%term, %node, "this node leads");
                    audit.elected(node.get(), term.get());
                }
                Some((term, node, address)) => tracing::info!(%term, %node, address, "another node leads"),
                None => tracing::warn!("nobody leads"),
            }
            told = leads;
        }
        tokio::select! {
            changed = leadership.changed() => if changed.is_err() { return },
            _ = closing.wait_for(|closing| *closing) => return,
        }
    }
}

fn reflection() -> tonic_reflection::server::Builder<'static> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(FILE_DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}
