//! What the tasks of a node share: the slots of its partitions, and what is known of the log.
//!
//! Locks are taken in this order and held for moments: between entries, domains, core, slots, queues. No lock is held while somebody is waited for.
//!
//! Must not know: what the engine offers to whoever uses it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use gapless_consensus::{ClusterId, NodeId, Replicator};
use gapless_log::io::Io;
use gapless_types::{GroupId, LogIndex, MachineVersion, NamespaceId, PartitionId, PartitionOffset};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, SetOnce, mpsc, watch};

use crate::acks::Acks;
use crate::admission::Admission;
use crate::catalog::{Catalog, CatalogFile, Places, StoredCatalog};
use crate::counters::Counters;
use crate::engine::Config;
use crate::error::OpenError;
use crate::limits::{MAX_LOOKS_AT_DECIDED, MAX_REMEMBERED_FATES};
use crate::log_time::{Clock, LeaderClock, LogTime};
use crate::offsets::{BatchId, Dispatch, Fate, Proposer};
use crate::projections::Projections;
use crate::proposing::Request;
use crate::recall::Recall;
use crate::reports::Others;
use crate::retention::{Domain, Retention};
use crate::slot::{PartitionState, QueueLimits, Slot};
use crate::telling::Telling;
use crate::watermarks::Watermarks;
use crate::workers::Workers;

/// What the tasks of a node share.
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) cluster: ClusterId,
    pub(crate) group: GroupId,
    /// The newest machine version that this program knows.
    pub(crate) known_version: MachineVersion,
    pub(crate) io: Arc<dyn Io>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) workers: Workers,
    pub(crate) runtime: Handle,
    pub(crate) partition_options: gapless_partition::Options,
    pub(crate) catalog_file: CatalogFile,
    pub(crate) catalog: watch::Sender<Arc<Catalog>>,
    /// The catalog that is on disk, and up to where everything is in checkpoints.
    pub(crate) durable: watch::Sender<Durable>,
    pub(crate) slots: RwLock<BTreeMap<PartitionId, Arc<Slot>>>,
    core: Mutex<Core>,
    /// Log time, for whoever need not know it to the entry.
    log_time: AtomicU64,
    /// Held while an entry is dispatched: whoever holds it sees all queues behind the same entry.
    pub(crate) between_entries: Mutex<()>,
    pub(crate) recall: Recall,
    pub(crate) admission: Admission,
    pub(crate) acks: Acks,
    pub(crate) telling: Telling,
    pub(crate) counters: Counters,
    /// The domains of this node.
    pub(crate) projections: Projections,
    requests: SetOnce<mpsc::Sender<Request>>,
    /// The entry that is being dispatched or was, plus one.
    announced: AtomicU64,
    pub(crate) dispatched: watch::Sender<Option<LogIndex>>,
    replicator: SetOnce<Arc<dyn Replicator>>,
    /// What is kept of the replicated log, and for whom.
    retention: OnceLock<Arc<Retention>>,
    /// Whether this node takes writes: it leads, and knows all that was decided before.
    pub(crate) leads: watch::Sender<bool>,
    /// Wakes the proposer when a batch has its fate.
    pub(crate) resolved: Notify,
    /// Wakes the keeper.
    pub(crate) keeper: Notify,
    pub(crate) closing: watch::Sender<bool>,
    pub(crate) alarms: Mutex<Vec<String>>,
    /// Partitions that were dropped and may still be open.
    pub(crate) leaving: Mutex<Vec<Arc<Slot>>>,
    pub(crate) reopen_delay: Duration,
    pub(crate) queue_limits: QueueLimits,
    pub(crate) max_clock_skew: Duration,
    /// Held by whoever decides what the catalog on disk says, until it does.
    pub(crate) catalog_turn: tokio::sync::Mutex<()>,
    /// Shared by snapshots that are being taken; a snapshot that is installed waits for them.
    pub(crate) taking: Arc<tokio::sync::RwLock<()>>,
    /// Held by whoever repairs a partition: one at a time.
    pub(crate) repairing: tokio::sync::Mutex<()>,
    /// Whether what a snapshot replaced may still be on disk.
    pub(crate) has_earlier: AtomicBool,
    /// Writes that are not admitted and still look whether they were decided before: a node that has too much to do looks after few.
    pub(crate) looks_at_decided: Semaphore,
}

/// What of the catalog is on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Durable {
    pub(crate) catalog: Arc<Catalog>,
    /// Everything up to here is in checkpoints.
    pub(crate) covered: Option<LogIndex>,
    /// At least the log time of every entry up to there.
    pub(crate) time: LogTime,
    /// What domains need of the replicated log.
    pub(crate) domains: BTreeMap<Domain, LogIndex>,
    /// The last outcome that each partition had on stable storage: one that has less has lost something.
    pub(crate) ends: BTreeMap<PartitionId, PartitionOffset>,
    /// Where partitions and domains are.
    pub(crate) places: Arc<Places>,
}

impl Durable {
    /// As the file says it.
    pub(crate) fn stored(self, cluster: ClusterId) -> StoredCatalog {
        let Self { catalog, covered, time, domains, ends, places } = self;
        let (catalog, places) = ((*catalog).clone(), (*places).clone());
        StoredCatalog { catalog, covered, time, cluster: Some(cluster), domains, ends, places }
    }

    /// Whether the file has to be written for this: time alone matters only for what is covered.
    pub(crate) fn says_more_than(&self, on_disk: &Self) -> bool {
        (&self.catalog, self.covered, &self.domains) != (&on_disk.catalog, on_disk.covered, &on_disk.domains)
    }
}

/// What is known of the log, as far as it was dispatched.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) dispatch: Dispatch,
    pub(crate) watermarks: Watermarks,
    pub(crate) proposer: Proposer,
    /// Log time: that of the last entry, also of one that was cut off the log or came with a snapshot.
    pub(crate) time: LogTime,
    /// What the last entry that was dispatched needed.
    pub(crate) machine_version: MachineVersion,
    /// The clock of a leader.
    pub(crate) leader_clock: Option<LeaderClock>,
    /// What a leader knows of the other voters; none if there are none.
    pub(crate) others: Option<Others>,
    /// Batches that are committed and not dispatched yet.
    awaited: BTreeMap<LogIndex, BatchId>,
    /// Entries that were dispatched before anybody said whose they are.
    fates: BTreeMap<LogIndex, Fate>,
}

impl Core {
    pub(crate) fn new(durable: &Durable) -> Self {
        Self {
            dispatch: Dispatch::default(),
            watermarks: Watermarks::starting_at(durable.covered),
            proposer: Proposer::default(),
            time: durable.time,
            machine_version: MachineVersion::FIRST,
            leader_clock: None,
            others: None,
            awaited: BTreeMap::new(),
            fates: BTreeMap::new(),
        }
    }

    /// Partitions are taken in with everything that is covered: those that are rolled forward as they are, all others anew.
    pub(crate) fn reset(&mut self, durable: &Durable, rolled: &BTreeSet<PartitionId>) {
        self.dispatch = Dispatch::default();
        self.watermarks.installed(durable.covered, |partition| rolled.contains(&partition));
        self.time = self.time.max(durable.time);
        self.machine_version = MachineVersion::FIRST;
        self.forget_flights();
    }

    /// An entry was dispatched with this fate.
    pub(crate) fn settle(&mut self, index: LogIndex, fate: Fate) {
        match self.awaited.remove(&index) {
            Some(batch) => self.proposer.resolve(batch, fate),
            None => {
                self.fates.insert(index, fate);
                while self.fates.len() > MAX_REMEMBERED_FATES {
                    self.fates.pop_first();
                }
            }
        }
    }

    /// A batch was committed as this entry.
    pub(crate) fn committed(&mut self, batch: BatchId, index: LogIndex) {
        match self.fates.remove(&index) {
            Some(fate) => self.proposer.resolve(batch, fate),
            None => {
                self.awaited.insert(index, batch);
            }
        }
    }

    /// A change of leader: what was in flight is told in another way.
    pub(crate) fn forget_flights(&mut self) {
        self.awaited.clear();
        self.fates.clear();
    }
}

impl Node {
    /// A node as its configuration and its catalog on disk say.
    pub(crate) fn new(
        config: &Config,
        workers: Workers,
        stored: StoredCatalog,
        cluster: ClusterId,
    ) -> Result<Self, OpenError> {
        let StoredCatalog { catalog, covered, time, domains, ends, places, .. } = stored;
        let installs = places.installs;
        let (catalog, places) = (Arc::new(catalog), Arc::new(places));
        let durable = Durable { catalog, covered, time, domains, ends, places };
        let runtime = Handle::current();
        let admission = Admission::new(config.admission, config.clock.clone(), config.signal.clone())
            .map_err(|error| OpenError::Configuration(error.to_string()))?;
        Ok(Self {
            id: config.node,
            cluster,
            group: config.group,
            known_version: config.known_version,
            io: config.io.clone(),
            clock: config.clock.clone(),
            workers,
            runtime,
            partition_options: config.partitions.clone(),
            catalog_file: CatalogFile::new(config.io.clone(), &config.dir),
            catalog: watch::Sender::new(durable.catalog.clone()),
            dispatched: watch::Sender::new(covered),
            core: Mutex::new(Core::new(&durable)),
            log_time: AtomicU64::new(durable.time.as_millis()),
            between_entries: Mutex::default(),
            durable: watch::Sender::new(durable),
            slots: RwLock::default(),
            recall: Recall::new(config.recall),
            admission,
            acks: Acks::default(),
            telling: Telling::default(),
            counters: Counters::default(),
            projections: Projections::default(),
            requests: SetOnce::new(),
            announced: AtomicU64::new(covered.map_or(0, |covered| covered.get() + 1)),
            replicator: SetOnce::new(),
            retention: OnceLock::new(),
            leads: watch::Sender::new(false),
            resolved: Notify::new(),
            keeper: Notify::new(),
            closing: watch::Sender::new(false),
            alarms: Mutex::default(),
            leaving: Mutex::default(),
            reopen_delay: config.reopen_delay,
            queue_limits: config.queue,
            max_clock_skew: config.max_clock_skew,
            catalog_turn: tokio::sync::Mutex::default(),
            taking: Arc::default(),
            repairing: tokio::sync::Mutex::default(),
            // The process may have ended before all of them were removed.
            has_earlier: AtomicBool::new(installs > 0),
            looks_at_decided: Semaphore::new(MAX_LOOKS_AT_DECIDED),
        })
    }

    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Log time: that of an entry that was dispatched a moment ago.
    pub(crate) fn log_time(&self) -> LogTime {
        LogTime::from_millis(self.log_time.load(Ordering::Relaxed)).expect("it was one when it was stored")
    }

    /// Log time goes on.
    pub(crate) fn set_log_time(&self, time: LogTime) {
        self.log_time.store(time.as_millis(), Ordering::Relaxed);
    }

    pub(crate) fn slot(&self, partition: PartitionId) -> Option<Arc<Slot>> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner).get(&partition).cloned()
    }

    pub(crate) fn all_slots(&self) -> Vec<Arc<Slot>> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.catalog.borrow().clone()
    }

    /// Where a partition is on disk.
    pub(crate) fn partition_dir(&self, partition: PartitionId) -> PathBuf {
        let places = self.durable.borrow().places.clone();
        places.partition_dir(&self.catalog_file.partitions_dir(), partition)
    }

    /// Where a domain is on disk.
    pub(crate) fn domain_dir(&self, domain: &Domain) -> PathBuf {
        let places = self.durable.borrow().places.clone();
        places.domain_dir(&self.catalog_file.partitions_dir(), domain)
    }

    pub(crate) fn replicator(&self) -> &Arc<dyn Replicator> {
        self.replicator.get().expect("nobody has an engine before its replicator is there")
    }

    /// Consensus asks for partitions while it is opened, so their workers are there before it.
    pub(crate) async fn await_replicator(&self) -> &Arc<dyn Replicator> {
        self.replicator.wait().await
    }

    pub(crate) fn set_replicator(&self, replicator: Arc<dyn Replicator>) {
        assert!(self.replicator.set(replicator).is_ok(), "a node is opened once");
    }

    /// Who keeps what of the replicated log; nobody knows while the node is being opened.
    pub(crate) fn retention(&self) -> Option<&Arc<Retention>> {
        self.retention.get()
    }

    pub(crate) fn set_retention(&self, retention: Arc<Retention>) {
        assert!(self.retention.set(retention).is_ok(), "a node is opened once");
    }

    /// Where requests to the proposer go.
    pub(crate) fn requests(&self) -> &mpsc::Sender<Request> {
        self.requests.get().expect("nobody has an engine before its proposer is there")
    }

    pub(crate) fn set_requests(&self, requests: mpsc::Sender<Request>) {
        assert!(self.requests.set(requests).is_ok(), "a node is opened once");
    }

    /// The time that an entry would get now, in milliseconds; none if this node does not lead.
    pub(crate) fn leader_time(&self) -> Option<u64> {
        self.core().leader_clock.as_ref().map(|clock| clock.now().as_millis())
    }

    /// The first entry that the replicated log keeps, as far as is known.
    pub(crate) fn first_kept(&self) -> LogIndex {
        let kept = self.replicator.get().and_then(|replicator| replicator.progress().borrow().first_kept);
        kept.unwrap_or(LogIndex::FIRST)
    }

    /// Whether everything that the replicated log has was dispatched.
    pub(crate) fn is_all_dispatched(&self) -> bool {
        let dispatched = *self.dispatched.borrow();
        self.replicator.get().is_some_and(|replicator| dispatched >= replicator.progress().borrow().appended)
    }

    /// The other members of the cluster, whoever leads first.
    pub(crate) fn others(&self) -> Vec<NodeId> {
        let Some(replicator) = self.replicator.get() else { return Vec::new() };
        let leader = replicator.leadership().borrow().leader.as_ref().map(|leader| leader.node);
        let mut others: Vec<NodeId> = replicator.members().addresses.into_keys().collect();
        others.retain(|other| *other != self.id);
        others.sort_by_key(|other| Some(*other) != leader);
        others
    }

    /// Says that an entry is about to be dispatched, before anybody gets something of it.
    pub(crate) fn announce(&self, index: LogIndex) {
        self.announced.store(index.get() + 1, Ordering::SeqCst);
    }

    /// The last entry that was announced.
    pub(crate) fn announced(&self) -> Option<LogIndex> {
        self.announced.load(Ordering::SeqCst).checked_sub(1).map(LogIndex::new)
    }

    /// Whether a partition is to be removed.
    pub(crate) fn is_dropped(&self, partition: PartitionId) -> bool {
        self.catalog.borrow().by_id(partition.namespace).is_none()
    }

    /// Whether partitions of a namespace that was dropped are still open.
    pub(crate) fn is_closing_down(&self, namespace: NamespaceId) -> bool {
        let mut leaving = self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        leaving.retain(|slot| *slot.state.borrow() != PartitionState::Closed);
        leaving.iter().any(|slot| slot.id.namespace == namespace)
            || self.projections.are_closing_down(namespace)
    }

    /// Something that an operator should see. What happens again and again is kept once, where it happened last, and told once.
    pub(crate) fn alarm(&self, mut what: String) {
        what.truncate(what.floor_char_boundary(crate::limits::MAX_ALARM_BYTES));
        let mut alarms = self.alarms.lock().unwrap_or_else(PoisonError::into_inner);
        let known = alarms.len();
        alarms.retain(|alarm| *alarm != what);
        let is_new = alarms.len() == known;
        if alarms.len() >= crate::limits::MAX_ALARMS {
            alarms.remove(0);
        }
        alarms.push(what.clone());
        drop(alarms);
        if is_new {
            tracing::warn!("{what}");
        } else {
            tracing::debug!("{what}");
        }
    }
}

/// The directory of a partition.
pub(crate) fn partition_name(partition: PartitionId) -> String {
    format!("{}-{}", partition.namespace.get(), partition.index.get())
}

impl std::fmt::Debug for Node {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Node").field("group", &self.group).finish_non_exhaustive()
    }
}
