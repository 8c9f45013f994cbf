//! Opening a partition, for the first time or again: where it stands, and whether that is what it has to have.
//!
//! Invariants
//! - A partition that has less than it had on stable storage is not taken for a new one: it is quarantined.
//!
//! Must not know: other partitions.

use std::sync::PoisonError;

use gapless_partition::Partition;
use gapless_types::PartitionOffset;

use super::{End, reach_of, report, with_causes};
use crate::node::Node;
use crate::repair;
use crate::slot::{PartitionState, Slot};
use crate::watermarks::{Opened, Reach};

/// The first half of opening: where the partition stands.
pub(crate) fn begin(node: &Node, slot: &Slot) -> Result<Option<Reach>, String> {
    let failed = |error: gapless_partition::OpenError| with_causes(&error);
    finish_swap(node, slot)?;
    let opening = Partition::begin(&node.io, &slot.dir, slot.id, &node.partition_options).map_err(failed)?;
    let at = opening.last().map_err(failed)?;
    *slot.opening.lock().unwrap_or_else(PoisonError::into_inner) = Some(opening);
    Ok(at.map(|(offset, index)| Reach { offset, index }))
}

pub(super) fn open_partition(node: &Node, slot: &Slot, first: bool) -> Result<PartitionState, End> {
    let failed = |error: gapless_partition::OpenError| {
        if matches!(error, gapless_partition::OpenError::LogTooShort { .. }) {
            slot.set_lacking();
        }
        End::Failed(with_causes(&error))
    };
    finish_swap(node, slot).map_err(End::Failed)?;
    let begun = slot.opening.lock().unwrap_or_else(PoisonError::into_inner).take();
    let was_begun = begun.is_some();
    let (partition, _) = match (begun, slot.partition().take()) {
        (Some(opening), _) => opening.finish().map_err(failed)?,
        (None, Some(stopped)) => {
            stopped.reopen(&node.io, &slot.dir, &node.partition_options).map_err(failed)?
        }
        (None, None) => {
            Partition::open(&node.io, &slot.dir, slot.id, &node.partition_options).map_err(failed)?
        }
    };
    let reach = reach_of(&partition);
    let lost = lost_outcomes(node, slot, reach);
    let is_known = !node.core().dispatch.is_unknown(slot.id);
    if lost.is_none() && was_begun && is_known {
        let synced = partition.synced().min(reach.map(|reach| reach.offset));
        let opened = Opened { applied: reach, synced, checkpoint: None };
        let _ = node.core().watermarks.open(slot.id, slot.incarnation, opened);
    }
    if let Some(lost) = lost {
        report(slot, &partition);
        *slot.partition() = Some(partition);
        return Err(End::Lacking(lost));
    }
    // A partition that is opened again may have lost outcomes that it had not written yet, and its queue with them.
    let fresh = (was_begun && is_known) || (first && reach.is_none());
    if !fresh {
        let kept = node.first_kept();
        slot.detach_from(reach.map_or(kept, |reach| reach.index.max(kept)));
    }
    report(slot, &partition);
    let quarantined = partition.fault().filter(|fault| fault.is_quarantine()).map(ToString::to_string);
    *slot.partition() = Some(partition);
    match quarantined {
        Some(reason) => Err(End::Quarantined(reason)),
        None if fresh && is_known => Ok(PartitionState::Serving),
        None => Ok(PartitionState::CatchingUp),
    }
}

/// A log that is being exchanged is in two places: the new one is complete, and takes the place of the old one.
fn finish_swap(node: &Node, slot: &Slot) -> Result<(), String> {
    match repair::is_swapping(&*node.io, &slot.dir) {
        true => repair::finish_swap(&node.io, &slot.dir)
            .map_err(|error| format!("a repair of it cannot be finished: {error}")),
        false => Ok(()),
    }
}

/// What a partition has to have, and has not: its log is gone, or another one.
fn lost_outcomes(node: &Node, slot: &Slot, reach: Option<Reach>) -> Option<String> {
    let offset = reach.map(|reach| reach.offset);
    let synced = node.core().watermarks.marks(slot.id).and_then(|marks| marks.synced);
    if offset < synced {
        return Some(lost(offset, synced));
    }
    (offset.is_none() && slot.is_begun()).then(|| "its log is gone".to_owned())
}

/// That a partition has less than it had.
pub(super) fn lost(has: Option<PartitionOffset>, had: Option<PartitionOffset>) -> String {
    let shown = |offset: Option<PartitionOffset>| offset.map_or(0, PartitionOffset::get);
    format!("its log ends at outcome {}, and had {} on stable storage", shown(has), shown(had))
}
