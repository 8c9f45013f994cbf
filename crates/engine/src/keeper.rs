//! The housekeeping of a node: checkpoints, the catalog on disk, where the replicated log is cut, what is thrown away.
//!
//! ```text
//!  partitions ──checkpoints──▶ covered: everything up to here is in checkpoints ──▶ catalog file ──▶ cut of the replicated log
//! ```
//!
//! Invariants
//! - LOG-2: what the file says is covered is in checkpoints, and those are behind what is synced.
//! - TRUNC-1: the log is cut where nobody needs it: no partition, no snapshot, no reader, no replica.
//!
//! Must not know: what records mean.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use gapless_types::{LogIndex, PartitionId};
use tokio::task::JoinHandle;

use crate::admission::Backlog;
use crate::catalog::StoredCatalog;
use crate::node::{Durable, Node, partition_name};
use crate::retention::{Needs, Peers, RetainedLog, Retention};

/// How often, and how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Housekeeping {
    /// How often partitions that have something new are asked for a checkpoint.
    pub checkpoint_interval: Duration,
    /// Entries of the replicated log that are kept for followers that are a little behind.
    pub keep_entries: u64,
    /// Longest replicated log, in bytes; a single node refuses writes beyond it.
    pub max_retained_bytes: u64,
}

impl Default for Housekeeping {
    fn default() -> Self {
        Self {
            checkpoint_interval: Duration::from_secs(5),
            keep_entries: 10_000,
            max_retained_bytes: 16 << 30,
        }
    }
}

/// Keeps house until the node closes.
pub(crate) async fn run(
    node: Arc<Node>,
    retention: Arc<Retention>,
    housekeeping: Housekeeping,
    segment_bytes: u32,
) {
    let mut closing = node.closing.subscribe();
    let mut chores = Chores(None);
    let mut ticks = tokio::time::interval(housekeeping.checkpoint_interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            _ = closing.wait_for(|closing| *closing) => return,
            () = node.keeper.notified() => {}
            _ = ticks.tick() => {
                request_checkpoints(&node);
                report_backlogs(&node);
            }
        }
        keep_catalog(&node).await;
        chores.begin(&node, &retention, housekeeping, segment_bytes);
    }
}

/// What may have to wait for a single partition, and must not keep the rest from being done (ISO-1): one round at a time.
struct Chores(Option<JoinHandle<()>>);

impl Chores {
    fn begin(
        &mut self,
        node: &Arc<Node>,
        retention: &Arc<Retention>,
        housekeeping: Housekeeping,
        segment_bytes: u32,
    ) {
        if self.0.as_ref().is_some_and(|round| !round.is_finished()) {
            return;
        }
        let (node, retention) = (node.clone(), retention.clone());
        let runtime = node.runtime.clone();
        self.0 = Some(runtime.spawn(async move {
            remove_earlier(&node).await;
            collect_garbage(&node).await;
            cut(&node, &retention, &housekeeping, segment_bytes).await;
        }));
    }
}

impl Drop for Chores {
    fn drop(&mut self) {
        if let Some(round) = &self.0 {
            round.abort();
        }
    }
}

/// Asks partitions that have something new for a checkpoint.
fn request_checkpoints(node: &Node) {
    let due: Vec<PartitionId> = {
        let core = node.core();
        let is_due = |marks: &crate::watermarks::Marks| marks.checkpoint < marks.applied;
        core.watermarks.all().filter(|(_, _, marks)| is_due(marks)).map(|(partition, ..)| partition).collect()
    };
    for slot in due.into_iter().filter_map(|partition| node.slot(partition)) {
        slot.request_checkpoint();
    }
}

fn report_backlogs(node: &Node) {
    let dispatched = node.dispatched.borrow().map_or(0, LogIndex::get);
    for slot in node.all_slots() {
        let backlog = slot.backlog();
        let through = node.core().watermarks.applied_through(slot.id).map_or(0, LogIndex::get);
        let lag = dispatched.saturating_sub(through);
        node.admission.report(slot.id, Backlog { oldest: backlog.waiting_since, lag });
    }
}

/// Writes the catalog if it or what is covered has changed.
pub(crate) async fn keep_catalog(node: &Arc<Node>) {
    let _turn = node.catalog_turn.lock().await;
    let stored = {
        let core = node.core();
        let catalog = node.catalog();
        let lowest = core.watermarks.lowest_needed();
        let covered = lowest.previous().max(node.durable.borrow().covered);
        // Everything that is dispatched is in the catalog, so it is never behind what is covered.
        Durable { catalog, covered, time: core.time }
    };
    if !stored.says_more_than(&node.durable.borrow()) {
        return;
    }
    let generation = node.generation.load(Ordering::Acquire);
    write_catalog(node, stored, generation).await;
}

/// Writes the catalog; everybody who waits for it is told. Whoever calls this holds the turn.
pub(crate) async fn write_catalog(node: &Arc<Node>, durable: Durable, generation: u64) -> bool {
    let job = {
        let (node, durable) = (node.clone(), durable.clone());
        move || {
            let Durable { catalog, covered, time } = durable;
            node.catalog_file.write(&StoredCatalog { catalog: (*catalog).clone(), covered, time, generation })
        }
    };
    match node.workers.run(job).await {
        Ok(()) => {
            node.generation.store(generation, Ordering::Release);
            node.durable.send_replace(durable);
            true
        }
        Err(error) => {
            node.alarm(format!("the catalog cannot be written: {error}"));
            false
        }
    }
}

/// Removes what a snapshot replaced, once the catalog on disk names its own directory.
async fn remove_earlier(node: &Arc<Node>) {
    let earlier = node.earlier.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let Some(earlier) = earlier else { return };
    let job = {
        let (node, earlier) = (node.clone(), earlier.clone());
        move || {
            let dir = node.catalog_file.partitions_dir(earlier.generation);
            earlier
                .partitions
                .iter()
                .try_for_each(|&partition| node.remove_files(&dir.join(partition_name(partition))))
        }
    };
    if let Err(error) = node.workers.run(job).await {
        node.alarm(format!("what a snapshot replaced cannot be removed: {error}"));
        node.earlier.lock().unwrap_or_else(PoisonError::into_inner).push(earlier);
    }
}

/// Removes what was dropped, once the catalog on disk says so and nobody has it open.
async fn collect_garbage(node: &Arc<Node>) {
    let durable = node.durable.borrow().catalog.clone();
    for namespace in durable.garbage() {
        if node.is_closing_down(namespace.id) {
            continue;
        }
        let job = {
            let node = node.clone();
            move || namespace.partitions().try_for_each(|partition| node.remove_partition(partition))
        };
        match node.workers.run(job).await {
            Ok(()) => {
                let _core = node.core();
                let mut catalog = (*node.catalog()).clone();
                catalog.forget_garbage(namespace.id);
                node.catalog.send_replace(Arc::new(catalog));
                node.keeper.notify_one();
            }
            Err(error) => node.alarm(format!("a dropped namespace cannot be removed: {error}")),
        }
    }
}

/// What is there of the replicated log.
struct Replicated {
    end: LogIndex,
    first: LogIndex,
    bytes: u64,
}

impl RetainedLog for Replicated {
    fn end(&self) -> LogIndex {
        self.end
    }

    fn bytes_from(&self, index: LogIndex) -> u64 {
        // Entries are taken to be of equal length: good enough to decide whether the log is far too long.
        let all = self.end.get().saturating_sub(self.first.get()).max(1);
        let kept = self.end.get().saturating_sub(index.get());
        let bytes = u128::from(self.bytes) * u128::from(kept) / u128::from(all);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

async fn cut(node: &Arc<Node>, retention: &Retention, housekeeping: &Housekeeping, segment_bytes: u32) {
    let Some(covered) = node.durable.borrow().covered else { return };
    let progress = *node.replicator().progress().borrow();
    let first = progress.first_kept.unwrap_or(LogIndex::FIRST);
    let end = LogIndex::new(covered.get().saturating_add(1).saturating_sub(housekeeping.keep_entries));
    // Cutting costs a snapshot, so it is done in large pieces.
    if end.get() < first.get().saturating_add(housekeeping.keep_entries.max(1)) {
        return;
    }
    let statistics = node.replicator().statistics();
    let needs = {
        let core = node.core();
        Needs {
            partitions: core.watermarks.all_needed_from().collect(),
            domains: Vec::new(),
            replicas: core.others.as_ref().map(|others| others.missing()).unwrap_or_default(),
            acknowledgements: core.others.as_ref().map(|others| others.min_required()),
        }
    };
    let alone = node.core().members.addresses.len() <= 1;
    let log = Replicated { end, first, bytes: statistics.log.segments * u64::from(segment_bytes) };
    let cut = retention.cut(&needs, &log, if alone { Peers::None } else { Peers::Some });
    for (holder, index) in &cut.dropped_out {
        node.alarm(format!("the replicated log is cut although {holder} needs entry {index}"));
    }
    if cut.first_kept > first
        && let Err(error) = node.replicator().purge_to(cut.first_kept).await
    {
        node.alarm(format!("the replicated log cannot be cut: {error}"));
    }
}
