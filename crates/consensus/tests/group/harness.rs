//! Disks, networks and nodes for the tests, and waiting with an upper bound.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gapless_consensus::network::switchboard::Switchboard;
use gapless_consensus::network::{Network, Nobody};
use gapless_consensus::{
    ClusterId, Config, Identity, Members, Node, NodeId, OpenError, Refusal, Replicator, Settings, Start,
};
use gapless_log::io::Io;
use gapless_log::io::memory::MemoryIo;
use gapless_log::{Drive, Options};
use gapless_types::{GroupId, LogIndex};

use crate::ledger::{Ledger, Survives};

pub(crate) fn id(node: u64) -> NodeId {
    NodeId::new(node)
}

pub(crate) fn identity(node: u64) -> Identity {
    Identity { cluster: ClusterId::from_bytes([9; 16]), group: GroupId::FIRST, node: id(node) }
}

pub(crate) fn address(node: NodeId) -> String {
    format!("node-{node}:7000")
}

/// A configuration whose log writes nothing by itself and whose chance follows from a seed.
pub(crate) fn config(node: u64, seed: u64, start: Start) -> Config {
    let log = Options {
        drive: Drive::Caller,
        first_segment_bytes: 256 << 10,
        segment_bytes: 256 << 10,
        hot_bytes: 16 << 10,
        ..Options::replicated()
    };
    let settings = Settings { seed: seed.wrapping_mul(31).wrapping_add(node), ..Settings::default() };
    Config { log, settings, ..Config::new(identity(node), format!("node-{node}"), start) }
}

pub(crate) fn alone() -> Start {
    Start::Found(Members::alone(id(1), address(id(1))).unwrap())
}

/// Opens a single voter.
pub(crate) async fn open_alone(io: Arc<dyn Io>, ledger: Arc<Ledger>) -> Result<Node, OpenError> {
    Node::open(io, Arc::new(Nobody), ledger, config(1, 1, alone())).await
}

/// Waits, in the runtime's time, until something holds. Panics after what no healthy group needs.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came to this: {what}");
}

/// Waits until a node leads and has dispatched all that was committed before.
pub(crate) async fn leads(node: &Node) {
    let mut leadership = node.leadership();
    let ready = leadership.wait_for(|now| now.is_ready());
    tokio::time::timeout(Duration::from_secs(60), ready).await.expect("a leader in time").unwrap();
}

pub(crate) fn entry(number: u64) -> Bytes {
    Bytes::from(format!("entry {number}"))
}

/// One node of a cluster, and what survives it.
pub(crate) struct Seat {
    pub(crate) io: MemoryIo,
    pub(crate) survives: Survives,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) node: Option<Node>,
    start: Start,
}

/// Nodes in one process.
pub(crate) struct Cluster {
    pub(crate) board: Switchboard,
    pub(crate) seats: BTreeMap<NodeId, Seat>,
    seed: u64,
}

impl Cluster {
    /// Founds a group of voters 1 to `count`.
    pub(crate) async fn found(count: u64, seed: u64) -> Self {
        let mut cluster = Self { board: Switchboard::new(seed), seats: BTreeMap::new(), seed };
        let members = Members::voting((1..=count).map(|node| (id(node), address(id(node))))).unwrap();
        for node in 1..=count {
            cluster.seat(node, Start::Found(members.clone()));
        }
        for node in 1..=count {
            cluster.start(id(node)).await;
        }
        cluster
    }

    /// Makes room for a node.
    pub(crate) fn seat(&mut self, node: u64, start: Start) {
        let survives = Survives::default();
        let ledger = Ledger::new(&survives);
        self.seats.insert(id(node), Seat { io: MemoryIo::new(), survives, ledger, node: None, start });
    }

    /// Opens a node on what survived it.
    pub(crate) async fn start(&mut self, node: NodeId) {
        let seat = self.seats.get_mut(&node).unwrap();
        seat.ledger = Ledger::new(&seat.survives);
        let network: Arc<dyn Network> = Arc::new(self.board.clone());
        let config = config(node.get(), self.seed, seat.start.clone());
        let opened =
            Node::open(Arc::new(seat.io.clone()), network, seat.ledger.clone(), config).await.unwrap();
        self.board.attach(node, opened.inbound());
        seat.node = Some(opened);
    }

    /// Ends a node as a power cut does.
    pub(crate) async fn kill(&mut self, node: NodeId) {
        self.board.detach(node);
        let seat = self.seats.get_mut(&node).unwrap();
        seat.io.power_cut();
        seat.node.take().unwrap().kill().await;
    }

    pub(crate) async fn close(&mut self, node: NodeId) {
        self.board.detach(node);
        self.seats.get_mut(&node).unwrap().node.take().unwrap().close().await.unwrap();
    }

    pub(crate) fn node(&self, node: NodeId) -> Node {
        self.seats[&node].node.clone().expect("a running node")
    }

    pub(crate) fn ledger(&self, node: NodeId) -> Arc<Ledger> {
        self.seats[&node].ledger.clone()
    }

    pub(crate) fn running(&self) -> impl Iterator<Item = NodeId> {
        self.seats.iter().filter(|(_, seat)| seat.node.is_some()).map(|(&node, _)| node)
    }

    /// Waits for a leader, among all but those given, that can be written to.
    pub(crate) async fn leader_except(&self, except: &[NodeId]) -> NodeId {
        let mut found = None;
        eventually("somebody leads", || {
            let mut candidates = self.running().filter(|node| !except.contains(node));
            found = candidates.find(|&node| self.node(node).leadership().borrow().is_ready());
            found.is_some()
        })
        .await;
        found.unwrap()
    }

    pub(crate) async fn leader(&self) -> NodeId {
        self.leader_except(&[]).await
    }

    /// Proposes until somebody has committed it. Only what is certainly in no log is proposed again.
    pub(crate) async fn write(&self, entry: Bytes) -> LogIndex {
        for _ in 0..100 {
            let leader = self.leader().await;
            match self.node(leader).propose(entry.clone()).await {
                Ok(index) => return index,
                Err(Refusal::NotLeader { .. }) => tokio::time::sleep(Duration::from_millis(50)).await,
                Err(other) => panic!("{other}"),
            }
        }
        panic!("nobody took the entry");
    }

    /// Waits until all running nodes have dispatched everything that any of them has, and compares them.
    pub(crate) async fn agree(&self) {
        let ledgers: Vec<_> = self.running().map(|node| self.ledger(node)).collect();
        eventually("all have the same", || {
            let longest = ledgers.iter().map(|ledger| ledger.last()).max().unwrap();
            ledgers.iter().all(|ledger| ledger.last() == longest)
        })
        .await;
        for ledger in &ledgers[1..] {
            assert_eq!(ledger.entries(), ledgers[0].entries(), "NUM-3: the same log everywhere");
        }
    }
}
