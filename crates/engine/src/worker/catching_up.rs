//! A partition that fell behind reads what it misses from the replicated log, until the queue has everything again.
//!
//! Invariants
//! - It judges records by the same rule as the dispatcher, from where it is itself (NUM-3).
//! - WM-1: it never reads beyond what the dispatcher is done with, nor beyond a mark that waits.
//!
//! Must not know: other partitions, who waits for outcomes.

use std::sync::Arc;

use gapless_consensus::{CommittedBody, EntriesError};
use gapless_types::{LogIndex, PartitionId, PartitionOffset};

use super::opening::lost;
use super::{End, apply, with_causes};
use crate::entry::{Entry, EntryRecord, NotApplied};
use crate::node::Node;
use crate::offsets::{Dispatch, Resume, Verdict};
use crate::slot::{PartitionState, Slot, Work};
use crate::watermarks::{Opened, Reach};

/// Bytes of entries that are read at once.
const CATCH_UP_BYTES: u64 = 4 << 20;

/// Reads what the queue does not have from the replicated log.
pub(super) async fn catch_up(node: &Arc<Node>, slot: &Arc<Slot>, from: LogIndex) -> Result<(), End> {
    slot.state.send_replace(PartitionState::CatchingUp);
    // Not beyond what the dispatcher is done with: what it has not told the watermarks of cannot be applied yet (WM-1).
    let dispatched = *node.dispatched.borrow();
    if dispatched < Some(from) {
        return attach_or_wait(node, slot, from).await;
    }
    // Nor beyond a mark: what is applied there has to be exactly what is in front of it. One that comes now is not in front of
    // `dispatched`.
    let last = dispatched.min(slot.next_mark().or(dispatched));
    let end = last.and_then(LogIndex::next).unwrap_or(LogIndex::MAX);
    let mut closing = slot.closing.subscribe();
    let replicator = tokio::select! {
        replicator = node.await_replicator() => replicator,
        // The node may never get one, if it cannot be opened.
        _ = closing.wait_for(|closing| *closing) => return Ok(()),
    };
    let entries = match replicator.entries(from, end, CATCH_UP_BYTES).await {
        Ok(entries) => entries,
        Err(EntriesError::NotYet(_)) => Vec::new(),
        Err(error) => return Err(End::Failed(with_causes(&error))),
    };
    let Some(last) = entries.last().map(|entry| entry.index) else {
        return attach_or_wait(node, slot, from).await;
    };
    let resume = {
        let applied = *slot.applied.borrow();
        applied.offset.zip(applied.index).map(|(offset, index)| Resume { offset, index })
    };
    let mut dispatch = Dispatch::default();
    dispatch.open(slot.id, resume);
    let mut slice = Vec::new();
    for entry in entries {
        let CommittedBody::Entry(bytes) = entry.body else { continue };
        match Entry::of_group(node.group, node.known_version, &bytes) {
            Ok(decoded) => slice.push(work_of(&mut dispatch, slot.id, entry.index, decoded)),
            // Every replica passes over it alike.
            Err(NotApplied::PassedOver(_)) => {}
            Err(error @ NotApplied::TooNew(_)) => return Err(End::Failed(error.to_string())),
        }
    }
    apply(node, slot, slice).await?;
    attach(node, slot, last)?;
    Ok(())
}

/// Everything up to `read` is applied. If that is all there is, the queue has everything from now on. Whether it has.
fn attach(node: &Node, slot: &Slot, read: LogIndex) -> Result<bool, End> {
    {
        let core = &mut *node.core();
        // While the core is locked, nothing is judged: what is announced from now on finds the partition attached.
        if !slot.caught_up(read, node.announced()) {
            return Ok(false);
        }
        let applied = *slot.applied.borrow();
        let reach = applied.offset.zip(applied.index).map(|(offset, index)| Reach { offset, index });
        if applied.offset < slot.required() {
            // After a restart what it had on stable storage may still be on its way through the dispatcher.
            if !node.is_all_dispatched() {
                slot.detach_from(read.next().unwrap_or(LogIndex::MAX));
                return Ok(false);
            }
            return Err(End::Lacking(lost(applied.offset, slot.required())));
        }
        if core.dispatch.is_unknown(slot.id) {
            let told = core.watermarks.applied_of(slot.id);
            if applied.offset < told {
                return Err(End::Lacking(lost(applied.offset, told)));
            }
            core.dispatch.open(slot.id, reach.map(|Reach { offset, index }| Resume { offset, index }));
            let opened = Opened { applied: reach, ..Opened::default() };
            let _ = core.watermarks.open(slot.id, slot.incarnation, opened);
        }
        let next = reach.map_or(Some(PartitionOffset::FIRST), |reach| reach.offset.next());
        let expected = core.dispatch.next(slot.id);
        if expected.is_some() && expected != next {
            let shown = |offset: Option<PartitionOffset>| offset.map_or(0, PartitionOffset::get);
            return Err(End::Lacking(format!(
                "it has read the whole log and is at outcome {}, where {} comes next",
                shown(applied.offset),
                shown(expected)
            )));
        }
    }
    slot.state.send_replace(PartitionState::Serving);
    Ok(true)
}

/// There is nothing to read from here on: everything in front of it was read.
async fn attach_or_wait(node: &Arc<Node>, slot: &Arc<Slot>, from: LogIndex) -> Result<(), End> {
    let mut dispatched = node.dispatched.subscribe();
    let nothing_there = match from.previous() {
        Some(read) => attach(node, slot, read)?,
        // Nothing was ever dispatched.
        None => false,
    };
    if nothing_there {
        return Ok(());
    }
    let mut closing = slot.closing.subscribe();
    tokio::select! {
        _ = dispatched.wait_for(|dispatched| *dispatched >= Some(from)) => {}
        () = slot.wake.notified() => {}
        _ = closing.wait_for(|closing| *closing) => {}
    }
    Ok(())
}

/// What an entry has for a partition, judged from where the partition is.
fn work_of(dispatch: &mut Dispatch, partition: PartitionId, index: LogIndex, entry: Entry) -> Work {
    let Entry { time, machine_version, records, .. } = entry;
    let mut commands = Vec::new();
    for record in records {
        if let EntryRecord::Write(command) | EntryRecord::Definition(command) = record
            && command.partition == partition
            && dispatch.judge(index, partition, command.expected) == Verdict::Deliver
        {
            commands.push((command.expected, command.command));
        }
    }
    Work { index, time, machine_version, commands, digests: Vec::new() }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use gapless_types::{GroupId, MachineVersion, NamespaceId, PartitionIndex};

    use super::*;
    use crate::entry::PartitionCommand;
    use crate::log_time::LogTime;

    #[test]
    fn what_is_read_from_the_log_has_the_stamp_of_its_entry() {
        let partition = PartitionId { namespace: NamespaceId::new(16), index: PartitionIndex::new(0) };
        let (expected, command) = (PartitionOffset::FIRST, Bytes::from_static(b"command"));
        let record = EntryRecord::Write(PartitionCommand { partition, expected, command });
        let (time, machine_version) = (LogTime::from_millis(7).unwrap(), MachineVersion(3));
        let entry = Entry { group: GroupId::FIRST, machine_version, time, records: vec![record] };
        let mut dispatch = Dispatch::default();
        dispatch.open(partition, None);
        let work = work_of(&mut dispatch, partition, LogIndex::new(9), entry);
        assert_eq!((work.time, work.machine_version, work.commands.len()), (time, machine_version, 1));
    }
}
