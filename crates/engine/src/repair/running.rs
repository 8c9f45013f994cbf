//! Repair of one partition while the others serve: it alone is closed, its files are made whole, and it is opened again.
//!
//! Invariants
//! - ISO-1: nobody but whoever asked waits for it.
//! - What it is to be repaired from is looked at before it is closed; whoever is told that it failed finds it as it was.
//! - TRUNC-1: what it needs of the replicated log is kept until it is open again.
//! - It is never taken for further than it is: it says where it stands when it has read what it misses.
//!
//! Must not know: other partitions.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use gapless_log::Depth;
use gapless_partition::Partition;
use gapless_types::{LogIndex, PartitionId, PartitionOffset};

use super::log::Rebuilt;
use super::peer::{self, Peer};
use super::{RepairError, RepairReport, RepairSource, Repaired, Source, log, rebuild_log};
use crate::engine::Engine;
use crate::node::Node;
use crate::slot::{PartitionState, Slot};
use crate::worker::{self, with_causes};

impl Engine {
    /// Closes a partition of this node, makes it anew out of its own log and what else is given, and opens it again; what is behind
    /// comes from the replicated log. The other partitions serve meanwhile. Ready when it serves.
    ///
    /// # Errors
    /// If it is not repaired: then it is open again as it was, or was never closed.
    pub async fn repair(
        &self,
        partition: PartitionId,
        source: RepairSource,
    ) -> Result<RepairReport, RepairError> {
        repair_partition(self.node(), partition, source).await
    }
}

/// What was found to be of use.
enum Found {
    OwnLog,
    Backup(Box<Source>),
    Peer(Peer),
}

pub(crate) async fn repair_partition(
    node: &Arc<Node>,
    partition: PartitionId,
    source: RepairSource,
) -> Result<RepairReport, RepairError> {
    let _one_at_a_time = node.repairing.lock().await;
    node.slot(partition).ok_or(RepairError::NoPartition(partition))?;
    // Nothing is closed for a source that is of no use.
    let found = find(node, partition, source).await?;
    // A snapshot that is installed replaces all of them.
    let _taking = node.taking.clone().read_owned().await;
    let old = node.slot(partition).ok_or(RepairError::NoPartition(partition))?;
    old.keep_marks();
    old.close();
    let _ = old.state.subscribe().wait_for(|state| *state == PartitionState::Closed).await;
    let had = {
        let synced = node.core().watermarks.marks(partition).and_then(|marks| marks.synced);
        synced.max(old.required())
    };
    let made = match found {
        Found::Peer(peer) => take_from(node, &old.dir, partition, peer, had).await,
        Found::OwnLog => make_whole(node, &old, None, had).await,
        Found::Backup(source) => make_whole(node, &old, Some(*source), had).await,
    };
    let Some(new) = take_in(node, &old, had) else { return Err(RepairError::NoPartition(partition)) };
    worker::start(node.clone(), new.clone());
    // Also whoever is told that it was not repaired finds it as it was, not on its way there.
    let settled = settled(node, &new).await;
    let report = made?;
    match settled {
        PartitionState::Serving => Ok(report),
        PartitionState::Failed(reason) | PartitionState::Quarantined(reason) => {
            Err(RepairError::failed(&old.dir, &reason))
        }
        _ => Err(RepairError::failed(&old.dir, &"it was closed")),
    }
}

async fn find(node: &Arc<Node>, partition: PartitionId, source: RepairSource) -> Result<Found, RepairError> {
    if let Some(peer) = peer::choose(node, partition, &source).await? {
        return Ok(Found::Peer(peer));
    }
    let RepairSource::Backup(from) = source else { return Ok(Found::OwnLog) };
    let open = {
        let node = node.clone();
        move || Source::of_partition(&node.io, &from, node.cluster, partition)
    };
    node.workers.run(open).await.map(|source| Found::Backup(Box::new(source)))
}

/// How a partition does, once it is open and has read what it misses, or cannot.
async fn settled(node: &Node, slot: &Slot) -> PartitionState {
    let (mut state, mut closing) = (slot.state.subscribe(), node.closing.subscribe());
    let is_settled =
        |state: &PartitionState| !matches!(state, PartitionState::Actualizing | PartitionState::CatchingUp);
    tokio::select! {
        settled = state.wait_for(is_settled) => settled.map_or(PartitionState::Closed, |state| state.clone()),
        _ = closing.wait_for(|closing| *closing) => PartitionState::Closed,
    }
}

/// Makes the log anew out of what another node has, and the state out of it.
async fn take_from(
    node: &Arc<Node>,
    dir: &Path,
    partition: PartitionId,
    peer: Peer,
    had: Option<PartitionOffset>,
) -> Result<RepairReport, RepairError> {
    let is_swapping = {
        let (node, dir) = (node.clone(), dir.to_path_buf());
        node.workers.clone().run(move || log::is_swapping(&*node.io, &dir)).await
    };
    let rebuilt = match is_swapping {
        true => None,
        false => Some(peer::rebuild_from(node, dir, partition, peer, had).await?),
    };
    let swap = {
        let (node, dir) = (node.clone(), dir.to_path_buf());
        move || {
            log::swap(&node.io, &dir)?;
            rebuild_state(&node, &dir)
        }
    };
    let state = node.workers.run(swap).await?;
    let what = rebuilt.map_or_else(
        || "an exchange that was begun is finished".to_owned(),
        |Rebuilt { own, from_peer, differed, .. }| {
            let others = if differed > 0 { "; its own were others" } else { "" };
            format!("written anew: {own} outcomes of its own, {from_peer} of node {}{others}", peer.node)
        },
    );
    Ok(RepairReport { repaired: vec![Repaired { path: dir.join("log"), what }, state] })
}

fn rebuild_state(node: &Node, dir: &Path) -> Result<Repaired, RepairError> {
    Partition::rebuild(&node.io, dir).map_err(|error| RepairError::failed(dir, &with_causes(&error)))?;
    Ok(Repaired { path: dir.join("store"), what: "made anew from the partition log".to_owned() })
}

async fn make_whole(
    node: &Arc<Node>,
    old: &Arc<Slot>,
    source: Option<Source>,
    had: Option<PartitionOffset>,
) -> Result<RepairReport, RepairError> {
    // A log can be whole and lack its end: what it had on stable storage tells.
    let is_short = old.applied.borrow().offset < had;
    let (job_node, slot) = (node.clone(), old.clone());
    let job = move || make_whole_now(&job_node, &slot.dir, slot.id, source.as_ref(), is_short);
    node.workers.run(job).await
}

fn make_whole_now(
    node: &Node,
    dir: &Path,
    partition: PartitionId,
    source: Option<&Source>,
    is_short: bool,
) -> Result<RepairReport, RepairError> {
    let (io, options) = (&node.io, &node.partition_options);
    let log_dir = dir.join("log");
    let is_whole =
        gapless_log::inspect(&**io, &log_dir, Depth::EveryFrame, &mut |_| {}).is_ok_and(|survey| {
            let threatened = survey.damage.iter().any(|damage| damage.finding.threatens_records());
            survey.log.is_some() && survey.missing.is_empty() && !threatened
        });
    let mut report = RepairReport::default();
    if !is_whole || (is_short && source.is_some()) || log::is_swapping(&**io, dir) {
        let rebuilt = rebuild_log(io, dir, partition, source, options, &mut |_| {})?;
        let from = rebuilt.last.and_then(LogIndex::next).unwrap_or(LogIndex::FIRST);
        if let Some(lost) = rebuilt.lost.filter(|_| from < node.first_kept()) {
            let lost = format!(
                "outcomes {} to {} cannot be read, and the replicated log begins with entry {}",
                lost.start,
                lost.end - 1,
                node.first_kept()
            );
            return Err(RepairError::Lost { path: log_dir, lost });
        }
        log::swap(io, dir)?;
        let (own, backup) = (rebuilt.own, rebuilt.from_backup);
        let what = format!("written anew: {own} outcomes of its own, {backup} of the backup");
        report.repaired.push(Repaired { path: log_dir, what });
    }
    report.repaired.push(rebuild_state(node, dir)?);
    Ok(report)
}

/// A place for the partition, which reads from the replicated log what it misses and then says where it stands. None if it was dropped.
fn take_in(node: &Arc<Node>, old: &Slot, had: Option<PartitionOffset>) -> Option<Arc<Slot>> {
    // Nothing is dispatched until the new one is in its place.
    let _between = node.between_entries.lock().unwrap_or_else(PoisonError::into_inner);
    if node.is_dropped(old.id) {
        old.give_marks_up();
        return None;
    }
    let new = Arc::new(Slot::new(old.id, old.dir.clone(), node.queue_limits));
    // One that never had anything on stable storage may begin with nothing.
    new.set_begun(old.is_begun() || had.is_some());
    new.require(old.required());
    new.repairs.store(old.repairs.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    let mut core = node.core();
    let covered = node.durable.borrow().covered;
    let behind = covered.and_then(LogIndex::next).unwrap_or(LogIndex::FIRST);
    let from = core.watermarks.needed_from(old.id).unwrap_or(behind).min(behind);
    new.detach_from(from);
    core.dispatch.open_unknown(old.id);
    core.watermarks.open_unknown(old.id, new.incarnation, from);
    node.slots.write().unwrap_or_else(PoisonError::into_inner).insert(old.id, new.clone());
    drop(core);
    old.hand_over(&new);
    Some(new)
}
