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

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gapless_types::mistakes::{Mistake, makes};
use gapless_types::{LogIndex, PartitionId, PartitionOffset};
use tokio::task::JoinHandle;

use crate::catalog::{Catalog, partition_in};
use crate::cutting::Cutting;
use crate::node::{Core, Durable, Node};
use crate::projections;
use crate::removal;

/// How often, and how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Housekeeping {
    /// How often partitions that have something new are asked for a checkpoint.
    pub checkpoint_interval: Duration,
    /// Entries of the replicated log that are kept for followers that are a little behind.
    pub keep_entries: u64,
    /// Longest replicated log, in bytes, about: it is cut in whole segments. Beyond it a cluster leaves behind who is slow, and a
    /// single node refuses writes.
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
pub(crate) async fn run(node: Arc<Node>, cutting: Cutting, interval: Duration) {
    let mut closing = node.closing.subscribe();
    let mut chores = Chores(None);
    let mut ticks = tokio::time::interval(cutting.housekeeping.checkpoint_interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut looks = tokio::time::interval(interval);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            _ = closing.wait_for(|closing| *closing) => return,
            () = node.keeper.notified() => {}
            _ = ticks.tick() => request_checkpoints(&node),
            _ = looks.tick() => {
                // A log that is too long waits for nobody's turn.
                if !cutting.is_too_long(&node) && !node.admission.is_log_too_long() {
                    continue;
                }
                request_checkpoints(&node);
            }
        }
        keep_catalog(&node).await;
        let cut = cutting.plan(&node, chores.are_busy());
        chores.begin(&node, cut);
    }
}

/// What may have to wait for a single partition, and must not keep the rest from being done (ISO-1): one round at a time.
struct Chores(Option<JoinHandle<()>>);

impl Chores {
    fn are_busy(&self) -> bool {
        self.0.as_ref().is_some_and(|round| !round.is_finished())
    }

    fn begin(&mut self, node: &Arc<Node>, cut: Option<LogIndex>) {
        if self.are_busy() {
            return;
        }
        let node = node.clone();
        let runtime = node.runtime.clone();
        self.0 = Some(runtime.spawn(async move {
            remove_earlier(&node).await;
            collect_garbage(&node).await;
            if let Some(first_kept) = cut {
                let first = node.first_kept();
                match node.replicator().purge_to(first_kept).await {
                    // It is shorter now. If it is not, somebody looks again when it is time: not at once, for ever.
                    Ok(kept) if kept > first => node.keeper.notify_one(),
                    Ok(_) => {}
                    Err(error) => node.alarm(format!("the replicated log cannot be cut: {error}")),
                }
            }
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
    for slot in node.projections.all().into_iter().filter(|slot| slot.is_dirty()) {
        slot.request_checkpoint();
    }
}

/// Writes the catalog if it or what is covered has changed.
pub(crate) async fn keep_catalog(node: &Arc<Node>) {
    let _turn = node.catalog_turn.lock().await;
    let stored = {
        // Looked at first: everything up to there has reached the queues of the domains.
        let dispatched = *node.dispatched.borrow();
        let core = node.core();
        let catalog = node.catalog();
        let lowest = core.watermarks.lowest_needed();
        let mut covered = lowest.previous().max(node.durable.borrow().covered);
        if makes(Mistake::CutBelowSlowPartition) {
            covered = covered.max(*node.dispatched.borrow());
        }
        // Everything that is dispatched is in the catalog, so it is never behind what is covered.
        let ends = ends(&core, &catalog, &node.durable.borrow().ends);
        let places = Arc::new(node.durable.borrow().places.of(&catalog));
        let domains = node.projections.needs(dispatched);
        Durable { catalog, covered, time: core.time, domains, ends, places }
    };
    if !stored.says_more_than(&node.durable.borrow()) {
        return;
    }
    write_catalog(node, stored).await;
}

/// The last outcome that each partition of the catalog has on stable storage; as it was for one that does not say.
pub(crate) fn ends(
    core: &Core,
    catalog: &Catalog,
    earlier: &BTreeMap<PartitionId, PartitionOffset>,
) -> BTreeMap<PartitionId, PartitionOffset> {
    let end = |partition| {
        let synced = core.watermarks.marks(partition).and_then(|marks| marks.synced);
        Some((partition, synced.max(earlier.get(&partition).copied())?))
    };
    catalog.partitions().filter_map(end).collect()
}

/// Writes the catalog; everybody who waits for it is told. Whoever calls this holds the turn.
pub(crate) async fn write_catalog(node: &Arc<Node>, durable: Durable) -> bool {
    let job = {
        let (node, durable) = (node.clone(), durable.clone());
        move || node.catalog_file.write(&durable.stored(node.cluster))
    };
    match node.workers.run(job).await {
        Ok(()) => {
            node.durable.send_replace(durable);
            true
        }
        Err(error) => {
            node.alarm(format!("the catalog cannot be written: {error}"));
            false
        }
    }
}

/// Removes what snapshots replaced, once the catalog on disk names what took its place.
async fn remove_earlier(node: &Arc<Node>) {
    if !node.has_earlier.swap(false, Ordering::AcqRel) {
        return;
    }
    let job = {
        let node = node.clone();
        move || {
            let is_replaced = |name: &str| node.durable.borrow().places.is_replaced(name);
            removal::remove_below(&*node.io, &node.catalog_file.partitions_dir(), is_replaced)?;
            let catalog = node.catalog();
            catalog.partitions().try_for_each(|partition| projections::drop_removed(&node, partition))
        }
    };
    if let Err(error) = node.workers.run(job).await {
        node.alarm(format!("what a snapshot replaced cannot be removed: {error}"));
        node.has_earlier.store(true, Ordering::Release);
    }
}

/// Removes what was dropped, once the catalog on disk says so and nobody has it open.
async fn collect_garbage(node: &Arc<Node>) {
    let durable = node.durable.borrow().catalog.clone();
    for namespace in durable.garbage() {
        if node.is_closing_down(namespace) {
            continue;
        }
        let job = {
            let node = node.clone();
            move || {
                let is_of_it =
                    |name: &str| partition_in(name).is_some_and(|(id, _)| id.namespace == namespace);
                removal::remove_below(&*node.io, &node.catalog_file.partitions_dir(), is_of_it)
            }
        };
        match node.workers.run(job).await {
            Ok(()) => {
                let _core = node.core();
                let mut catalog = (*node.catalog()).clone();
                catalog.forget_garbage(namespace);
                node.catalog.send_replace(Arc::new(catalog));
                node.keeper.notify_one();
            }
            Err(error) => node.alarm(format!("a dropped namespace cannot be removed: {error}")),
        }
    }
}
