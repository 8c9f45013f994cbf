//! What the engine's suite writes to: nodes of the engine in this process, each in a directory of its own, and a bare log.
//!
//! Must not know: how many write, what is done with the figures.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use gapless_consensus::network::switchboard::Switchboard;
use gapless_consensus::{Leader, Members, NodeId, Start};
use gapless_engine::admission::AdmissionError;
use gapless_engine::{Config, Engine, Peers, Report, WriteError, WriteOptions};
use gapless_log::io::real::RealIo;
use gapless_log::{Log, Options};
use gapless_partition::{Command, Definition, Write};
use gapless_types::{IdempotencyKey, Name, WorkspaceId};
use tempfile::TempDir;

use crate::counting_io::CountingIo;
use crate::engine_load::{Cost, Target};

/// Payload of an event, in bytes.
pub(crate) const EVENT_BYTES: usize = 256;
const NAMESPACE: &str = "bench";
/// On a busy machine a leader that does not run for a moment is not gone.
const ELECTION_TIMEOUT: Duration = Duration::from_secs(3);

/// Reports reach the node that leads at once, so that the log is cut as it is in a real cluster.
#[derive(Clone, Default)]
struct Reporting(Arc<Mutex<BTreeMap<NodeId, Engine>>>);

impl Reporting {
    fn engines(&self) -> MutexGuard<'_, BTreeMap<NodeId, Engine>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Peers for Reporting {
    fn report(&self, to: Leader, report: Report) -> BoxFuture<'static, ()> {
        let leader = self.engines().get(&to.node).cloned();
        Box::pin(async move {
            if let Some(leader) = leader {
                leader.receive(&report);
            }
        })
    }
}

/// Nodes in this process, connected by memory.
pub(crate) struct Nodes {
    engines: Vec<Engine>,
    reporting: Reporting,
    leader: Engine,
    disk: Arc<CountingIo>,
    payload: Vec<u8>,
    /// Writes that were refused because there was too much to do, and tried again.
    refusals: AtomicU64,
    _home: TempDir,
}

impl Nodes {
    /// Founds a cluster, and a namespace with so many partitions.
    pub(crate) async fn found(parent: &Path, count: u64, partitions: u16) -> Result<Self> {
        let home = tempfile::Builder::new().prefix("engine-").tempdir_in(parent)?;
        let disk = Arc::new(CountingIo::default());
        let board = Switchboard::new(1);
        let addresses = (1..=count).map(|node| (NodeId::new(node), format!("node-{node}")));
        let members = Members::voting(addresses)?;
        let (mut engines, reporting) = (Vec::new(), Reporting::default());
        for node in (1..=count).map(NodeId::new) {
            let dir = home.path().join(format!("node-{node}"));
            let mut config = Config::new(dir, node, Start::Found(members.clone()), Arc::new(board.clone()));
            let board = board.clone();
            config.attach = Some(Arc::new(move |inbound| board.attach(node, inbound)));
            config.io = disk.clone();
            config.consensus.election_timeout = ELECTION_TIMEOUT;
            config.peers = Arc::new(reporting.clone());
            let engine = Engine::open(config).await?;
            reporting.engines().insert(node, engine.clone());
            engines.push(engine);
        }
        let leader = leader_of(&engines).await?;
        let partitions = NonZeroU16::new(partitions).context("there is at least one partition")?;
        leader.define(Definition::new(Name::new(NAMESPACE)?, partitions)).await?;
        let payload = vec![7; EVENT_BYTES];
        Ok(Self { engines, reporting, leader, disk, payload, refusals: AtomicU64::new(0), _home: home })
    }

    /// Writes an event with this payload to a workspace; what is refused for now is tried again with the same key.
    pub(crate) async fn write_payload(&self, workspace: u64, number: u64, payload: &[u8]) -> Result<()> {
        let write = event(workspace, payload);
        let key = key(workspace, number)?;
        loop {
            match self.leader.write(NAMESPACE, key, &write, WriteOptions::default()).await {
                Ok(acknowledgement) => {
                    acknowledgement.committed()?;
                    return Ok(());
                }
                Err(WriteError::Admission(AdmissionError::Overloaded(overloaded))) => {
                    self.refusals.fetch_add(1, Relaxed);
                    tokio::time::sleep(overloaded.retry_after).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    pub(crate) fn refusals(&self) -> u64 {
        self.refusals.load(Relaxed)
    }

    pub(crate) async fn close(&self) -> Result<()> {
        // They know each other through it: without this nobody would ever be dropped.
        self.reporting.engines().clear();
        for engine in &self.engines {
            engine.close().await;
            if let Some(alarm) = engine.alarms().first() {
                bail!("a node was not well: {alarm}");
            }
        }
        Ok(())
    }
}

impl Target for Nodes {
    async fn write(&self, writer: u64, number: u64) -> Result<()> {
        self.write_payload(writer, number, &self.payload).await
    }

    fn cost(&self) -> Cost {
        let asked = self.disk.asked();
        let mut cost = Cost { syncs: asked.syncs, bytes: asked.written_bytes, ..Cost::default() };
        for engine in &self.engines {
            let log = engine.replicator().statistics().log;
            cost.log_syncs += log.syncs;
            cost.log_bytes += log.bytes_written;
        }
        cost
    }
}

/// The one that takes writes.
async fn leader_of(engines: &[Engine]) -> Result<Engine> {
    let ready = |engine: &Engine| {
        let mut leadership = engine.replicator().leadership();
        let engine = engine.clone();
        Box::pin(async move {
            leadership.wait_for(|now| now.is_ready()).await?;
            engine.wait_for_leader().await;
            Ok(engine)
        })
    };
    futures_util::future::select_all(engines.iter().map(ready)).await.0
}

fn event(workspace: u64, payload: &[u8]) -> Write<'_> {
    Write { payload, ..Write::new(WorkspaceId::new(workspace), "bench", "Measured") }
}

fn key(workspace: u64, number: u64) -> Result<IdempotencyKey> {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&workspace.to_be_bytes());
    key[8..].copy_from_slice(&(number + 1).to_be_bytes());
    Ok(IdempotencyKey::new(key)?)
}

/// The log alone, as a node opens its replicated log, with records as long as the commands of the events.
pub(crate) struct BareLog {
    log: Arc<Log>,
    record: [Bytes; 1],
    _home: Arc<TempDir>,
}

impl BareLog {
    pub(crate) fn open(parent: &Path, payload_bytes: usize) -> Result<Self> {
        let home = tempfile::Builder::new().prefix("bare-log-").tempdir_in(parent)?;
        let (log, _) = Log::open(Arc::new(RealIo), home.path(), Options::replicated())?;
        Ok(Self { log: Arc::new(log), record: [command(payload_bytes)?], _home: Arc::new(home) })
    }

    /// The same log for events of another length.
    pub(crate) fn with_payload(&self, payload_bytes: usize) -> Result<Self> {
        Ok(Self { log: self.log.clone(), record: [command(payload_bytes)?], _home: self._home.clone() })
    }
}

/// What an event is in the replicated log.
fn command(payload_bytes: usize) -> Result<Bytes> {
    let mut command = Vec::new();
    Command::encode_write(key(1, 1)?, &event(1, &vec![7; payload_bytes]), &mut command);
    Ok(command.into())
}

impl Target for BareLog {
    async fn write(&self, _: u64, _: u64) -> Result<()> {
        self.log.append_next(&self.record)?.await?;
        Ok(())
    }

    fn cost(&self) -> Cost {
        let log = self.log.statistics();
        Cost {
            log_syncs: log.syncs,
            log_bytes: log.bytes_written,
            syncs: log.syncs,
            bytes: log.bytes_written,
        }
    }
}
