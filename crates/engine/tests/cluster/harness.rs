//! Nodes in one process, on disks and a network that a test decides about; clients that retry; and what must be true afterwards.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use gapless_consensus::network::switchboard::Switchboard;
use gapless_consensus::{ClusterId, Members, NodeId, Start};
use gapless_engine::log_time::Clock;
use gapless_engine::{
    Acknowledgement, Config, Consistency, Engine, Leader, MachineVersion, Peers, ReadError, ReadOptions,
    Report, WriteError, WriteOptions,
};
use gapless_log::Drive;
use gapless_log::io::Io;
use gapless_log::io::faulty::FaultyIo;
use gapless_partition::{Committed, Definition, Direction, Operation, Outcome, View, Write};
use gapless_types::{IdempotencyKey, Name, PartitionId, WorkspaceId, WorkspaceOffset};

pub(crate) fn id(node: u64) -> NodeId {
    NodeId::new(node)
}

/// One node, and what survives it.
pub(crate) struct Seat {
    pub(crate) io: FaultyIo,
    pub(crate) clock: Arc<OffClock>,
    pub(crate) engine: Option<Engine>,
    pub(crate) cluster: ClusterId,
    /// The newest machine version that its program knows.
    pub(crate) known_version: MachineVersion,
    start: Start,
}

/// Reports reach the node they are meant for at once, if it runs.
#[derive(Clone, Default)]
pub(crate) struct Hub(Arc<Mutex<BTreeMap<NodeId, Engine>>>);

impl Peers for Hub {
    fn report(&self, to: Leader, report: Report) -> BoxFuture<'static, ()> {
        if let Some(engine) = self.0.lock().unwrap().get(&to.node) {
            engine.receive(&report);
        }
        Box::pin(async {})
    }
}

/// A clock that runs with the runtime's time, some time off.
#[derive(Debug)]
pub(crate) struct OffClock {
    start: tokio::time::Instant,
    pub(crate) off: Mutex<Duration>,
}

impl Clock for OffClock {
    fn wall(&self) -> Duration {
        Duration::from_secs(1_000_000) + self.start.elapsed() + *self.off.lock().unwrap()
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}

/// A cluster in one process, on the runtime's time.
pub(crate) struct Cluster {
    pub(crate) board: Switchboard,
    pub(crate) seats: BTreeMap<NodeId, Seat>,
    pub(crate) keep_entries: u64,
    /// Beyond it voters that are behind are left behind.
    pub(crate) max_retained_bytes: u64,
    hub: Hub,
    began: tokio::time::Instant,
    seed: u64,
}

impl Cluster {
    pub(crate) async fn found(count: u64, seed: u64) -> Self {
        Self::found_keeping(count, seed, 10_000).await
    }

    pub(crate) async fn found_keeping(count: u64, seed: u64, keep_entries: u64) -> Self {
        Self::found_retaining(count, seed, keep_entries, u64::MAX).await
    }

    pub(crate) async fn found_retaining(
        count: u64,
        seed: u64,
        keep_entries: u64,
        max_retained_bytes: u64,
    ) -> Self {
        let mut cluster = Self {
            board: Switchboard::new(seed),
            seats: BTreeMap::new(),
            keep_entries,
            max_retained_bytes,
            hub: Hub::default(),
            began: tokio::time::Instant::now(),
            seed,
        };
        let address = |node: u64| (id(node), format!("node-{node}"));
        let members = Members::voting((1..=count).map(address)).unwrap();
        for node in 1..=count {
            cluster.seat(node, Start::Found(members.clone()));
        }
        for node in 1..=count {
            cluster.start(id(node)).await;
        }
        cluster
    }

    pub(crate) fn seat(&mut self, node: u64, start: Start) {
        let clock = Arc::new(OffClock { start: self.began, off: Mutex::default() });
        let (io, cluster) = (FaultyIo::new(node), ClusterId::from_bytes(*b"the cluster's id"));
        let known_version = MachineVersion::FIRST;
        let seat = Seat { io, clock, engine: None, cluster, known_version, start };
        self.seats.insert(id(node), seat);
    }

    /// Opens a node on what survived it.
    pub(crate) async fn start(&mut self, node: NodeId) {
        assert!(self.try_start(node).await, "node {node} can be opened");
    }

    /// Opens a node, if that can be done.
    pub(crate) async fn try_start(&mut self, node: NodeId) -> bool {
        let engine = Engine::open(self.config(node)).await.ok();
        let seat = self.seats.get_mut(&node).unwrap();
        if let Some(engine) = &engine {
            self.hub.0.lock().unwrap().insert(node, engine.clone());
        }
        seat.engine = engine;
        seat.engine.is_some()
    }

    pub(crate) fn config(&self, node: NodeId) -> Config {
        let seat = &self.seats[&node];
        let board = Arc::new(self.board.clone());
        let mut config = Config::new(format!("node-{node}"), node, seat.start.clone(), board);
        config.io = Arc::new(seat.io.clone()) as Arc<dyn Io>;
        let board = self.board.clone();
        config.attach = Some(Arc::new(move |inbound| board.attach(node, inbound)));
        config.consensus.seed = self.seed.wrapping_mul(31).wrapping_add(node.get());
        config.log.drive = Drive::Caller;
        config.log.segment_bytes = 256 << 10;
        config.log.first_segment_bytes = 256 << 10;
        config.log.hot_bytes = 16 << 10;
        config.partitions.log.segment_bytes = 256 << 10;
        config.partitions.log.first_segment_bytes = 256 << 10;
        config.housekeeping.keep_entries = self.keep_entries;
        config.housekeeping.checkpoint_interval = Duration::from_millis(200);
        config.on_threads = false;
        config.clock = seat.clock.clone();
        config.peers = Arc::new(self.hub.clone());
        config.housekeeping.max_retained_bytes = self.max_retained_bytes;
        config.cluster = Some(seat.cluster);
        config.known_version = seat.known_version;
        config
    }

    /// Ends a node as a power cut does.
    pub(crate) async fn kill(&mut self, node: NodeId) {
        self.board.detach(node);
        self.hub.0.lock().unwrap().remove(&node);
        let seat = self.seats.get_mut(&node).unwrap();
        seat.io.memory().power_cut();
        seat.engine.take().unwrap().kill().await;
    }

    /// Closes a node, as an operator does.
    pub(crate) async fn close(&mut self, node: NodeId) {
        self.board.detach(node);
        self.hub.0.lock().unwrap().remove(&node);
        self.seats.get_mut(&node).unwrap().engine.take().unwrap().close().await;
    }

    /// Ends all nodes, and opens them with clocks that are this much ahead.
    pub(crate) async fn restart_all_with_clocks(&mut self, off: Duration) {
        self.restart_all_with_clocks_except(&[], off).await;
    }

    pub(crate) async fn restart_all_with_clocks_except(&mut self, except: &[NodeId], off: Duration) {
        for node in self.running() {
            self.kill(node).await;
        }
        let nodes: Vec<NodeId> = self.seats.keys().copied().collect();
        for node in nodes.into_iter().filter(|node| !except.contains(node)) {
            *self.seats[&node].clock.off.lock().unwrap() = off;
            self.start(node).await;
        }
    }

    /// Waits until the log of a node begins behind an entry.
    pub(crate) async fn cut_beyond(&self, node: NodeId, index: u64) {
        let engine = self.engine(node);
        eventually("the log was cut", || {
            let progress = *engine.replicator().progress().borrow();
            progress.first_kept.is_some_and(|first| first.get() > index)
        })
        .await;
    }

    pub(crate) async fn close_all(&mut self) {
        self.hub.0.lock().unwrap().clear();
        for seat in self.seats.values_mut() {
            if let Some(engine) = seat.engine.take() {
                engine.close().await;
            }
        }
    }

    pub(crate) fn engine(&self, node: NodeId) -> Engine {
        self.seats[&node].engine.clone().expect("a running node")
    }

    pub(crate) fn running(&self) -> Vec<NodeId> {
        self.seats.iter().filter(|(_, seat)| seat.engine.is_some()).map(|(node, _)| *node).collect()
    }

    pub(crate) async fn leader_except(&self, except: &[NodeId]) -> NodeId {
        let mut found = None;
        eventually("somebody leads", || {
            let candidates = self.running().into_iter().filter(|node| !except.contains(node));
            found = candidates
                .into_iter()
                .find(|node| self.engine(*node).replicator().leadership().borrow().is_ready());
            found.is_some()
        })
        .await;
        found.unwrap()
    }

    pub(crate) async fn leader(&self) -> NodeId {
        self.leader_except(&[]).await
    }

    /// Defines the namespace of the tests.
    pub(crate) async fn define(&self, partitions: u16) {
        let leader = self.leader().await;
        self.engine(leader).define(shop(partitions)).await.unwrap();
    }

    /// Writes with one key until somebody gives the outcome, as a client would.
    pub(crate) async fn write(&self, number: u64, write: &Write<'_>) -> Acknowledgement {
        self.write_except(&[], number, write).await
    }

    pub(crate) async fn write_except(
        &self,
        except: &[NodeId],
        number: u64,
        write: &Write<'_>,
    ) -> Acknowledgement {
        for _ in 0..200 {
            let leader = self.leader_except(except).await;
            match try_write(&self.engine(leader), number, write, Duration::from_secs(2)).await {
                Ok(acknowledgement) => return acknowledgement,
                Err(WriteError::Invalid(reasons)) => panic!("{reasons:?}"),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
        panic!("write {number} never got an outcome");
    }

    /// Waits until all running nodes have applied the same, and compares everything they have.
    pub(crate) async fn agree(&self) {
        let leader = self.leader().await;
        let partitions: Vec<PartitionId> =
            self.engine(leader).partitions().into_iter().map(|report| report.partition).collect();
        for partition in partitions {
            let newest = view(&self.engine(leader), partition, Consistency::Linearizable).await.unwrap();
            for node in self.running() {
                let Some(applied) = newest.applied() else { continue };
                let other = view(&self.engine(node), partition, Consistency::AtLeast(applied)).await.unwrap();
                assert_eq!(other.applied(), newest.applied(), "node {node}");
                assert_eq!(rows(&other), rows(&newest), "NUM-3: node {node}, partition {partition}");
            }
        }
    }
}

pub(crate) fn rows(view: &View) -> Vec<(String, Vec<u8>, Vec<u8>)> {
    view.rows()
        .map(|row| {
            let (space, key, value) = row.unwrap();
            (format!("{space:?}"), key.to_vec(), value.to_vec())
        })
        .collect()
}

pub(crate) async fn view(
    engine: &Engine,
    partition: PartitionId,
    consistency: Consistency,
) -> Result<View, ReadError> {
    engine.view(partition, ReadOptions { consistency, patience: Duration::from_secs(60) }).await
}

pub(crate) async fn try_write(
    engine: &Engine,
    number: u64,
    write: &Write<'_>,
    patience: Duration,
) -> Result<Acknowledgement, WriteError> {
    engine.write("shop", key(number), write, WriteOptions { patience }).await
}

/// Waits, in the runtime's time, until something holds.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came to this: {what}");
}

pub(crate) fn shop(partitions: u16) -> Definition {
    shop_named("shop", partitions)
}

pub(crate) fn shop_named(name: &str, partitions: u16) -> Definition {
    let mut shop = Definition::new(Name::new(name).unwrap(), NonZeroU16::new(partitions).unwrap());
    shop.kinds.entry(Name::new("default").unwrap()).or_default().insert(Name::new("invoice").unwrap(), 1);
    shop
}

pub(crate) fn key(number: u64) -> IdempotencyKey {
    let mut key = [7; 16];
    key[..8].copy_from_slice(&number.to_le_bytes());
    IdempotencyKey::new(key).unwrap()
}

pub(crate) fn sale(workspace: u64) -> Write<'static> {
    Write {
        payload: b"{\"amount\":3}",
        operations: vec![Operation::NextNumber { sequence: "invoice" }],
        ..Write::new(WorkspaceId::new(workspace), "till", "ItemSold")
    }
}

pub(crate) fn committed(acknowledgement: &Acknowledgement) -> &Committed {
    match &*acknowledgement.outcome {
        Outcome::Committed(committed) => committed,
        other => panic!("{other:?}"),
    }
}

/// Checks that the events of a workspace are exactly these writes, once each, with dense numbers, and that every acknowledgement
/// says what is there.
pub(crate) async fn check_history(engine: &Engine, workspace: u64, acknowledged: &BTreeMap<u64, Committed>) {
    let workspace = WorkspaceId::new(workspace);
    let view = engine.view_of("shop", workspace, ReadOptions::default()).await.unwrap();
    let events = view.events(workspace, WorkspaceOffset::FIRST, usize::MAX, Direction::Forward).unwrap();
    for (number, event) in (1..).zip(&events) {
        let header = event.header();
        assert_eq!(header.workspace_offset.unwrap().get(), number, "NUM-1");
        assert_eq!(header.numbers[0].1, number, "NUM-1: invoices");
        assert_eq!(header.client_sequence.unwrap().get(), number, "NUM-1: the client's own");
    }
    for (number, committed) in acknowledged {
        let event = &events[usize::try_from(committed.workspace_offset.get() - 1).unwrap()];
        assert_eq!(event.header().key, Some(key(*number)), "ACK-1: write {number}");
        assert_eq!(event.header().partition_offset, committed.partition_offset);
        assert_eq!(event.header().log_index, committed.log_index);
    }
    let mut keys: Vec<_> = events.iter().map(|event| event.header().key).collect();
    let all = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), all, "IDEM-1: every key once");
}
