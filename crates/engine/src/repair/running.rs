//! Repair of one partition while the others serve: it alone is closed, its files are made whole, and it is opened again.
//!
//! Invariants
//! - ISO-1: nobody but whoever asked waits for it.
//! - What it is to be repaired from is looked at before it is closed; whoever is told that it failed finds it as it was.
//! - TRUNC-1: what it needs of the replicated log is kept until it is open again.
//! - It is never taken for further than it is: it says where it stands when it has read what it misses.
//!
//! Must not know: other partitions.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use gapless_log::Depth;
use gapless_partition::Partition;
use gapless_types::{LogIndex, PartitionId};

use super::{RepairError, RepairReport, Repaired, Source, log, rebuild_log};
use crate::engine::Engine;
use crate::node::Node;
use crate::slot::{PartitionState, Slot};
use crate::worker::{self, with_causes};

impl Engine {
    /// Closes a partition of this node, makes it anew out of its own log and, if one is given, a backup on this machine, and opens it
    /// again; what is behind comes from the replicated log. The other partitions serve meanwhile. Ready when it serves.
    ///
    /// # Errors
    /// If it is not repaired: then it is open again as it was, or was never closed.
    pub async fn repair(
        &self,
        partition: PartitionId,
        from: Option<PathBuf>,
    ) -> Result<RepairReport, RepairError> {
        let node = self.node();
        node.slot(partition).ok_or(RepairError::NoPartition(partition))?;
        // Nothing is closed for a backup that is of no use.
        let open = {
            let node = node.clone();
            move || {
                from.map(|from| Source::of_partition(&node.io, &from, node.cluster, partition)).transpose()
            }
        };
        let source = node.workers.run(open).await?;
        // A snapshot that is installed replaces all of them.
        let _taking = node.taking.clone().read_owned().await;
        let old = node.slot(partition).ok_or(RepairError::NoPartition(partition))?;
        old.close();
        let _ = old.state.subscribe().wait_for(|state| *state == PartitionState::Closed).await;
        let had = {
            let synced = node.core().watermarks.marks(partition).and_then(|marks| marks.synced);
            synced.max(old.required())
        };
        // A log can be whole and lack its end: what it had on stable storage tells.
        let is_short = old.applied.borrow().offset < had;
        let job = {
            let (node, dir) = (node.clone(), old.dir.clone());
            move || make_whole(&node, &dir, partition, source.as_ref(), is_short)
        };
        let made = node.workers.run(job).await;
        let Some(new) = take_in(node, &old) else { return Err(RepairError::NoPartition(partition)) };
        worker::start(node.clone(), new.clone());
        // Also whoever is told that it was not repaired finds it as it was, not on its way there.
        let settled = settled(&new).await;
        let report = made?;
        match settled {
            PartitionState::Serving => Ok(report),
            PartitionState::Failed(reason) | PartitionState::Quarantined(reason) => {
                Err(RepairError::failed(&old.dir, &reason))
            }
            _ => Err(RepairError::failed(&old.dir, &"it was closed")),
        }
    }
}

/// How a partition does, once it is open and has read what it misses, or cannot.
async fn settled(slot: &Slot) -> PartitionState {
    let mut state = slot.state.subscribe();
    let is_settled =
        |state: &PartitionState| !matches!(state, PartitionState::Actualizing | PartitionState::CatchingUp);
    let settled = state.wait_for(is_settled).await.map(|state| state.clone());
    settled.unwrap_or(PartitionState::Closed)
}

fn make_whole(
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
        let rebuilt = rebuild_log(io, dir, partition, source, options)?;
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
    Partition::rebuild(io, dir).map_err(|error| RepairError::failed(dir, &with_causes(&error)))?;
    let what = "made anew from the partition log".to_owned();
    report.repaired.push(Repaired { path: dir.join("store"), what });
    Ok(report)
}

/// A place for the partition, which reads from the replicated log what it misses and then says where it stands. None if it was dropped.
fn take_in(node: &Arc<Node>, old: &Slot) -> Option<Arc<Slot>> {
    // Nothing is dispatched until the new one is in its place.
    let _between = node.between_entries.lock().unwrap_or_else(PoisonError::into_inner);
    if node.is_dropped(old.id) {
        return None;
    }
    let new = Arc::new(Slot::new(old.id, old.dir.clone(), node.queue_limits));
    new.set_begun(true);
    new.require(old.required());
    let mut core = node.core();
    let covered = node.durable.borrow().covered;
    let behind = covered.and_then(LogIndex::next).unwrap_or(LogIndex::FIRST);
    let from = core.watermarks.needed_from(old.id).unwrap_or(behind).min(behind);
    new.detach_from(from);
    core.dispatch.open_unknown(old.id);
    core.watermarks.open_unknown(old.id, new.incarnation, from);
    node.slots.write().unwrap_or_else(PoisonError::into_inner).insert(old.id, new.clone());
    Some(new)
}
