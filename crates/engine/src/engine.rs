//! The engine: a node of the ledger, to be embedded.
//!
//! Must not know: sockets, encodings of an interface.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use gapless_consensus::network::{Inbound, Network};
use gapless_consensus::{
    ClusterId, Config as ConsensusConfig, Identity, Members, NodeId, Replicator, Settings, Start,
};
use gapless_log::io::Io;
use gapless_log::io::real::RealIo;
use gapless_types::{GroupId, LogIndex, MachineVersion, PartitionId};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::admission::{AdmissionLimits, Signal};
use crate::barriers::Barriers;
use crate::cutting::Cutting;
use crate::dispatcher::{Dispatcher, close_partitions, reset_partitions, start_workers};
use crate::error::OpenError;
use crate::founding;
use crate::keeper::{self, Housekeeping};
use crate::log_time::{Clock, MachineClock};
use crate::masters::Masters;
use crate::node::Node;
use crate::projections;
use crate::proposing::{self, Request};
use crate::recall::RecallLimits;
use crate::reinstalling;
use crate::removal;
use crate::reports::{self, NoPeers, Peers, Report};
use crate::retention::Retention;
use crate::scrubbing;
use crate::slot::{PartitionState, QueueLimits};
use crate::watermarks::Marks;
use crate::workers::{JobsTake, Workers};

/// Writes that wait for the proposer; more of them wait in their callers.
const QUEUED_REQUESTS: usize = 4096;

/// Takes what a node offers to others.
pub type Attach = Arc<dyn Fn(Arc<dyn Inbound>) + Send + Sync>;

/// What to open, and how.
#[derive(Clone)]
pub struct Config {
    /// The directory of the node.
    pub dir: PathBuf,
    /// The disk.
    pub io: Arc<dyn Io>,
    /// The clocks.
    pub clock: Arc<dyn Clock>,
    /// Which node it is.
    pub node: NodeId,
    /// The group of nodes that share its log.
    pub group: GroupId,
    /// The cluster that it belongs to. Chosen when the cluster is founded, and kept in the directory: a directory of another one is
    /// not opened. Who joins has to be told it. Without it, a node that founds a cluster of its own chooses one by chance, and those
    /// who found one together take one that follows from their ids and addresses; whoever founds another one at the same
    /// addresses should tell them apart.
    pub cluster: Option<ClusterId>,
    /// The newest machine version that this program knows: [`MachineVersion::NEWEST`], but for tests of upgrades.
    #[doc(hidden)]
    pub known_version: MachineVersion,
    /// What a node without a past does.
    pub start: Start,
    /// How other nodes are reached.
    pub network: Arc<dyn Network>,
    /// Gives what this node offers to others to the transport.
    pub attach: Option<Attach>,
    /// How nodes tell each other how far they are.
    pub peers: Arc<dyn Peers>,
    /// How often they do.
    pub report_interval: Duration,
    /// Times and chances of consensus.
    pub consensus: Settings,
    /// The replicated log. As fast as it is scrubbed, partition logs are, too.
    pub log: gapless_log::Options,
    /// Partitions, with the memory that all of them share.
    pub partitions: gapless_partition::Options,
    /// What is admitted.
    pub admission: AdmissionLimits,
    /// What else can stop writes.
    pub signal: Option<Arc<dyn Signal>>,
    /// What is recalled.
    pub recall: RecallLimits,
    /// Checkpoints, and how much of the replicated log is kept.
    pub housekeeping: Housekeeping,
    /// Which voter looks after a partition.
    pub masters: Masters,
    /// Whether partitions work on threads, or in place for a simulation.
    pub on_threads: bool,
    /// How long everything takes that partitions do in place, for a simulation.
    pub jobs_take: Option<JobsTake>,
    /// How long a partition that failed waits until it is opened again.
    pub reopen_delay: Duration,
    /// What may wait for one partition before it is detached.
    pub queue: QueueLimits,
    /// How far the clock of a leader may be from the median of the voters'. Beyond it gives up leadership.
    pub max_clock_skew: Duration,
}

impl Config {
    /// A node of its own, on real files.
    pub fn embedded(dir: impl Into<PathBuf>) -> Self {
        let node = NodeId::new(1);
        let members = Members::alone(node, "embedded").expect("a group of one is valid");
        Self::new(
            dir,
            node,
            Start::Found(members),
            Arc::new(gapless_consensus::network::switchboard::Switchboard::new(0)),
        )
    }

    /// A node of a cluster.
    pub fn new(dir: impl Into<PathBuf>, node: NodeId, start: Start, network: Arc<dyn Network>) -> Self {
        Self {
            dir: dir.into(),
            io: Arc::new(RealIo),
            clock: Arc::new(MachineClock::default()),
            node,
            group: GroupId::new(0),
            cluster: None,
            known_version: MachineVersion::NEWEST,
            start,
            network,
            attach: None,
            peers: Arc::new(NoPeers),
            report_interval: Duration::from_millis(250),
            consensus: Settings::default(),
            log: gapless_log::Options::replicated(),
            partitions: gapless_partition::Options::new(),
            admission: AdmissionLimits::default(),
            signal: None,
            recall: RecallLimits::default(),
            housekeeping: Housekeeping::default(),
            masters: Masters::Hash,
            on_threads: true,
            jobs_take: None,
            reopen_delay: Duration::from_secs(1),
            queue: QueueLimits::default(),
            max_clock_skew: crate::limits::MAX_CLOCK_SKEW,
        }
    }

    pub(crate) fn workers(&self) -> Result<Workers, OpenError> {
        if !self.on_threads {
            return Ok(Workers::InPlace(self.jobs_take.clone()));
        }
        let failed = |source| OpenError::Io { action: "start threads for", path: self.dir.clone(), source };
        Workers::on_threads().map_err(failed)
    }
}

impl std::fmt::Debug for Config {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Config")
            .field("dir", &self.dir)
            .field("node", &self.node)
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}

/// A node of the ledger. Clones are the same node.
#[derive(Clone, Debug)]
pub struct Engine(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    node: Arc<Node>,
    barriers: Barriers,
    retention: Arc<Retention>,
    consensus: gapless_consensus::Node,
    masters: Masters,
    tasks: std::sync::Mutex<Vec<JoinHandle<()>>>,
}

/// How a partition does on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionReport {
    /// Which one.
    pub partition: PartitionId,
    /// How it does.
    pub state: PartitionState,
    /// How far it is.
    pub marks: Marks,
    /// Entries that wait for it.
    pub queued_entries: usize,
    /// Bytes that wait for it.
    pub queued_bytes: u64,
    /// How long the oldest of them has waited.
    pub queued_for: Option<Duration>,
    /// It does not move, and takes no writes until it does: what waits for it is older than admission allows.
    pub is_stuck: bool,
    /// Times that it fell so far behind that it read from the replicated log.
    pub detachments: u64,
    /// Times that it was opened again after a failure.
    pub reopenings: u64,
    /// Times that it was made anew by a repair; its marks begin anew with each.
    pub repairs: u64,
    /// Everything for it up to this entry has an outcome.
    pub applied_through: Option<LogIndex>,
    /// Idempotency keys that are known, expired ones among them.
    pub known_keys: u64,
}

impl Engine {
    /// Opens a node. Partitions serve as soon as each of them is up.
    ///
    /// # Errors
    /// If the catalog or the replicated log cannot be opened, or the configuration contradicts itself.
    pub async fn open(config: Config) -> Result<Self, OpenError> {
        config.io.create_dir(&config.dir).map_err(|source| OpenError::Io {
            action: "create",
            path: config.dir.clone(),
            source,
        })?;
        let workers = config.workers()?;
        let (stored, cluster) = founding::read_or_found(&config, &workers).await?;
        let node = Arc::new(Node::new(&config, workers, stored, cluster)?);
        remove_interrupted(&node).await;
        reset_partitions(&node, &BTreeSet::new()).await;
        start_workers(&node);
        projections::reset_domains(&node);
        projections::start_domains(&node);
        let consensus = match open_consensus(&config, &node).await {
            Ok(consensus) => consensus,
            Err(error) => {
                projections::close_domains(&node).await;
                close_partitions(&node).await;
                return Err(error);
            }
        };
        node.set_replicator(Arc::new(consensus.clone()));
        let retention =
            Arc::new(Retention::new(node.first_kept(), Some(config.housekeeping.max_retained_bytes)));
        node.set_retention(retention.clone());
        let cutting = Cutting {
            retention: retention.clone(),
            housekeeping: config.housekeeping,
            segment_bytes: config.log.segment_bytes,
        };
        let (requests, receiver) = mpsc::channel(QUEUED_REQUESTS);
        node.set_requests(requests);
        let tasks = vec![
            node.runtime.spawn(proposing::run(node.clone(), receiver)),
            node.runtime.spawn(keeper::run(node.clone(), cutting.clone(), config.report_interval)),
            node.runtime.spawn(reinstalling::run(node.clone(), cutting, config.report_interval)),
            node.runtime.spawn(drop_removed_domains(node.clone())),
            node.runtime.spawn(scrubbing::run(node.clone(), config.log.scrub_bytes_per_second)),
            node.runtime.spawn(reports::run(node.clone(), config.peers.clone(), config.report_interval)),
        ];
        Ok(Self(Arc::new(Inner {
            node,
            barriers: Barriers::default(),
            retention,
            consensus,
            masters: config.masters,
            tasks: std::sync::Mutex::new(tasks),
        })))
    }

    /// Stops taking writes, lets partitions finish and makes everything durable.
    pub async fn close(&self) {
        let node = &self.0.node;
        node.closing.send_replace(true);
        let tasks =
            std::mem::take(&mut *self.0.tasks.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        for task in tasks {
            let _ = task.await;
        }
        let _ = node.replicator().close().await;
        projections::close_domains(node).await;
        close_partitions(node).await;
        keeper::keep_catalog(node).await;
    }

    /// Ends the node as the end of its process would: nothing is written any more. For tests of what survives.
    pub async fn kill(&self) {
        let node = &self.0.node;
        self.0.consensus.kill().await;
        let tasks =
            std::mem::take(&mut *self.0.tasks.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        for task in &tasks {
            task.abort();
        }
        for slot in node.projections.all() {
            slot.abandon();
        }
        for slot in node.all_slots() {
            slot.abandon();
        }
        projections::close_domains(node).await;
        close_partitions(node).await;
    }

    /// The directory of this node.
    pub fn dir(&self) -> &std::path::Path {
        self.0.node.catalog_file.dir()
    }

    /// The cluster that this node belongs to.
    pub fn cluster(&self) -> ClusterId {
        self.0.node.cluster
    }

    /// Which node it is.
    pub fn id(&self) -> NodeId {
        self.0.node.id
    }

    /// Consensus, for membership and leadership.
    pub fn replicator(&self) -> &Arc<dyn Replicator> {
        self.0.node.replicator()
    }

    /// Waits until this node leads and can take writes, or somebody else does.
    pub async fn wait_for_leader(&self) {
        let (mut leadership, mut leads) = (self.replicator().leadership(), self.0.node.leads.subscribe());
        let somebody_else = |leadership: &gapless_consensus::Leadership| {
            (leadership.leader.is_some() && !leadership.is_self) || leadership.stopped.is_some()
        };
        tokio::select! {
            _ = leadership.wait_for(somebody_else) => {}
            _ = leads.wait_for(|leads| *leads) => {}
        }
    }

    /// Waits until every partition has folded the tail of its log, or cannot. Before, writes to it are refused for the moment.
    pub async fn wait_until_actualized(&self) {
        for slot in self.0.node.all_slots() {
            let _ = slot.state.subscribe().wait_for(|state| *state != PartitionState::Actualizing).await;
        }
    }

    /// Takes in what another node tells. Nobody but a leader keeps it.
    pub fn receive(&self, report: &Report) {
        reports::receive(&self.0.node, report);
    }

    /// The voter that scrubs a partition and backs it up, by the members in force here; none if there are no masters.
    pub fn master_of(&self, partition: PartitionId) -> Option<NodeId> {
        let voters: Vec<NodeId> = self.replicator().members().all_voters().into_iter().collect();
        self.0.masters.master_of(partition, &voters)
    }

    /// Every partition of this node, by id.
    pub fn partitions(&self) -> Vec<PartitionReport> {
        let node = &self.0.node;
        let report = |slot: Arc<crate::slot::Slot>| {
            let backlog = slot.backlog();
            // One lock after the other, not one inside the other.
            let (marks, applied_through) = {
                let core = node.core();
                (core.watermarks.marks(slot.id).unwrap_or_default(), core.watermarks.applied_through(slot.id))
            };
            let state = slot.state.borrow().clone();
            let waits = |since| node.clock.monotonic().saturating_sub(since);
            let queued_for = backlog.waiting_since.map(waits);
            PartitionReport {
                partition: slot.id,
                state,
                marks,
                queued_entries: backlog.entries,
                queued_bytes: backlog.bytes,
                queued_for,
                is_stuck: queued_for.is_some_and(|queued| queued > node.admission.limits().frozen_age),
                detachments: backlog.detachments,
                reopenings: slot.reopenings.load(Relaxed),
                repairs: slot.repairs.load(Relaxed),
                applied_through,
                known_keys: slot.applied.borrow().known_keys,
            }
        };
        node.all_slots().into_iter().map(report).collect()
    }

    /// What an operator should see, the oldest first.
    pub fn alarms(&self) -> Vec<String> {
        self.0.node.alarms.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// Writes that are in flight.
    pub fn in_flight(&self) -> usize {
        self.0.node.acks.len()
    }

    pub(crate) fn is_closing(&self) -> bool {
        *self.0.node.closing.borrow()
    }

    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.0.node
    }

    pub(crate) fn requests(&self) -> &mpsc::Sender<Request> {
        self.0.node.requests()
    }

    pub(crate) fn barriers(&self) -> &Barriers {
        &self.0.barriers
    }

    pub(crate) fn retention(&self) -> &Retention {
        &self.0.retention
    }
}

/// Removes what installs of snapshots in an earlier life did not bring to an end.
async fn remove_interrupted(node: &Arc<Node>) {
    let job = {
        let node = node.clone();
        move || {
            let installs = node.durable.borrow().places.installs;
            removal::remove_beyond(&*node.io, &node.catalog_file.partitions_dir(), installs)
        }
    };
    if let Err(error) = node.workers.run(job).await {
        node.alarm(format!("what an interrupted install left cannot be removed: {error}"));
    }
}

/// Removes what an earlier life had begun to remove. Nobody waits for it, so that a partition whose disk fails keeps nobody (ISO-1).
async fn drop_removed_domains(node: Arc<Node>) {
    let mut closing = node.closing.subscribe();
    for partition in node.catalog().partitions() {
        let job = {
            let node = node.clone();
            move || projections::drop_removed(&node, partition)
        };
        let removed = tokio::select! {
            removed = node.workers.run(job) => removed,
            _ = closing.wait_for(|closing| *closing) => return,
        };
        if let Err(error) = removed {
            node.alarm(format!("what is left of removed projections of partition {partition}: {error}"));
        }
    }
}

async fn open_consensus(config: &Config, node: &Arc<Node>) -> Result<gapless_consensus::Node, OpenError> {
    let identity = Identity { cluster: node.cluster, group: node.group, node: node.id };
    let mut consensus = ConsensusConfig::new(identity, config.dir.join("consensus"), config.start.clone());
    consensus.log = config.log.clone();
    consensus.settings = config.consensus;
    let dispatcher = Arc::new(Dispatcher(node.clone()));
    let opened =
        gapless_consensus::Node::open(config.io.clone(), config.network.clone(), dispatcher, consensus);
    let opened = opened.await?;
    if let Some(attach) = &config.attach {
        attach(opened.inbound());
    }
    Ok(opened)
}
