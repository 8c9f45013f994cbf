//! Steps 6 and 7 of the corridor for one partition: a task that takes what is next and has it applied, one slice at a time.
//!
//! ```text
//!  opening ──▶ serving ◀──▶ catching up          failed: opened again after a while, and read on from the replicated log
//!     ▲          │                               quarantined: stays as it is until somebody repaired it
//!     └── failed ┴──▶ quarantined ──▶ closed
//! ```
//!
//! Invariants
//! - One apply is in flight per partition; partitions do not wait for each other (ISO-1).
//! - A failure of the world stops this partition alone; what is committed is applied once it clears.
//! - Acknowledged entries are never rolled back: a partition is rolled forward.
//!
//! Must not know: other partitions.

use std::sync::{Arc, PoisonError};

use gapless_consensus::{CommittedBody, EntriesError};
use gapless_partition::{ApplyError, CheckpointFailed, Partition, Record};
use gapless_types::{LogIndex, PartitionId, PartitionOffset};

use crate::acks::Decided;
use crate::entry::{Entry, EntryRecord};
use crate::node::Node;
use crate::offsets::{Dispatch, Resume, Verdict};
use crate::slot::{Applied, Mark, Marked, PartitionState, Slot, Step, Work};
use crate::watermarks::{Opened, Reach};

/// Bytes of entries that are read at once by a partition that catches up.
const CATCH_UP_BYTES: u64 = 4 << 20;

/// Starts the task of a partition.
pub(crate) fn start(node: Arc<Node>, slot: Arc<Slot>) {
    let runtime = node.runtime.clone();
    runtime.spawn(async move { drive(&node, &slot).await });
}

/// Why serving ended.
enum End {
    Closing,
    Failed(String),
    Quarantined(String),
}

/// Says that a partition is closed when its task ends, also if it panicked: nobody waits for it for ever.
struct Ending<'a>(&'a Node, &'a Slot);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let Self(node, slot) = self;
        if std::thread::panicking() {
            // A snapshot waits for ever: if it failed, the node would end.
            node.alarm(format!("partition {} broke an invariant and stays closed", slot.id));
        } else {
            slot.drop_marks();
        }
        slot.state.send_replace(PartitionState::Closed);
    }
}

async fn drive(node: &Arc<Node>, slot: &Arc<Slot>) {
    let _ending = Ending(node, slot);
    if !await_catalog(node, slot).await {
        return;
    }
    let mut first = true;
    loop {
        let end = match open(node, slot, first).await {
            Ok(()) => serve(node, slot).await,
            Err(end) => end,
        };
        first = false;
        match end {
            End::Closing => break,
            End::Quarantined(reason) => {
                node.alarm(format!("partition {} is quarantined: {reason}", slot.id));
                slot.state.send_replace(PartitionState::Quarantined(reason.into()));
                give_up(node, slot).await;
                break;
            }
            End::Failed(reason) => {
                node.alarm(format!("partition {} has failed: {reason}", slot.id));
                slot.state.send_replace(PartitionState::Failed(reason.into()));
                let mut closing = slot.closing.subscribe();
                let closed = closing.wait_for(|closing| *closing);
                if tokio::time::timeout(node.reopen_delay, closed).await.is_ok() {
                    break;
                }
            }
        }
    }
    close(node, slot).await;
}

/// Nothing is applied here any more until the node is opened again. Whoever waits for an outcome looks again, and is told why he
/// gets none; also those whose writes were on their way.
async fn give_up(node: &Node, slot: &Slot) {
    let mut closing = slot.closing.subscribe();
    loop {
        slot.give_up();
        node.acks.give_up(slot.id);
        tokio::select! {
            _ = closing.wait_for(|closing| *closing) => return,
            () = slot.wake.notified() => {}
        }
    }
}

/// A partition makes its directory after the catalog that names it is on disk. Whether it is.
async fn await_catalog(node: &Node, slot: &Slot) -> bool {
    let (mut durable, mut closing) = (node.durable.subscribe(), slot.closing.subscribe());
    let named = durable.wait_for(|durable| durable.catalog.by_id(slot.id.namespace).is_some());
    let closed = closing.wait_for(|closing| *closing);
    tokio::select! {
        named = named => named.is_ok(),
        _ = closed => false,
    }
}

async fn open(node: &Arc<Node>, slot: &Arc<Slot>, first: bool) -> Result<(), End> {
    slot.state.send_replace(PartitionState::Actualizing);
    let job = {
        let (node, slot) = (node.clone(), slot.clone());
        move || open_partition(&node, &slot, first)
    };
    let state = node.workers.run(job).await?;
    slot.state.send_replace(state);
    Ok(())
}

/// The first half of opening: where the partition stands.
pub(crate) fn begin(node: &Node, slot: &Slot) -> Result<Option<Reach>, String> {
    let failed = |error: gapless_partition::OpenError| with_causes(&error);
    let opening = Partition::begin(&node.io, &slot.dir, slot.id, &node.partition_options).map_err(failed)?;
    let at = opening.last().map_err(failed)?;
    *slot.opening.lock().unwrap_or_else(PoisonError::into_inner) = Some(opening);
    Ok(at.map(|(offset, index)| Reach { offset, index }))
}

fn open_partition(node: &Node, slot: &Slot, first: bool) -> Result<PartitionState, End> {
    let failed = |error: &dyn std::error::Error| End::Failed(with_causes(error));
    let begun = slot.opening.lock().unwrap_or_else(PoisonError::into_inner).take();
    let was_begun = begun.is_some();
    let (partition, _) = match (begun, slot.partition().take()) {
        (Some(opening), _) => opening.finish().map_err(|error| failed(&error))?,
        (None, Some(stopped)) => {
            stopped.reopen(&node.io, &slot.dir, &node.partition_options).map_err(|error| failed(&error))?
        }
        (None, None) => Partition::open(&node.io, &slot.dir, slot.id, &node.partition_options)
            .map_err(|error| failed(&error))?,
    };
    let reach = reach_of(&partition);
    let lost = lost_outcomes(node, slot, reach);
    if lost.is_none() && was_begun {
        let synced = partition.synced().min(reach.map(|reach| reach.offset));
        let opened = Opened { applied: reach, synced, checkpoint: None };
        let _ = node.core().watermarks.open(slot.id, slot.incarnation, opened);
    }
    if let Some(lost) = lost {
        report(slot, &partition);
        *slot.partition() = Some(partition);
        return Err(End::Quarantined(lost));
    }
    // A partition that is opened again may have lost outcomes that it had not written yet, and its queue with them.
    let fresh = was_begun || (first && reach.is_none());
    if !fresh {
        let kept = node.first_kept();
        slot.detach_from(reach.map_or(kept, |reach| reach.index.max(kept)));
    }
    report(slot, &partition);
    let quarantined = partition.fault().filter(|fault| fault.is_quarantine()).map(ToString::to_string);
    *slot.partition() = Some(partition);
    match quarantined {
        Some(reason) => Err(End::Quarantined(reason)),
        None if fresh => Ok(PartitionState::Serving),
        None => Ok(PartitionState::CatchingUp),
    }
}

/// What a partition has to have, and has not: its log is gone, or another one.
fn lost_outcomes(node: &Node, slot: &Slot, reach: Option<Reach>) -> Option<String> {
    let offset = reach.map(|reach| reach.offset);
    let synced = node.core().watermarks.marks(slot.id).and_then(|marks| marks.synced);
    if offset < synced {
        let shown = |offset: Option<PartitionOffset>| offset.map_or(0, PartitionOffset::get);
        return Some(format!(
            "its log ends at outcome {}, and had {} on stable storage",
            shown(offset),
            shown(synced)
        ));
    }
    (offset.is_none() && slot.is_begun()).then(|| "its log is gone".to_owned())
}

async fn serve(node: &Arc<Node>, slot: &Arc<Slot>) -> End {
    loop {
        if slot.is_closing() {
            return End::Closing;
        }
        let served = match slot.next_step() {
            Step::Idle => {
                slot.wake.notified().await;
                Ok(())
            }
            Step::Apply(slice) => apply(node, slot, slice).await,
            Step::CatchUp(from) => catch_up(node, slot, from).await,
            Step::Checkpoint => checkpoint(node, slot).await,
            Step::Mark(mark) => take_mark(node, slot, mark).await,
        };
        if let Err(end) = served {
            return end;
        }
    }
}

async fn apply(node: &Arc<Node>, slot: &Arc<Slot>, slice: Vec<Work>) -> Result<(), End> {
    let job = {
        let (node, slot) = (node.clone(), slot.clone());
        move || apply_slice(&node, &slot, slice)
    };
    let (decided, end) = node.workers.run(job).await;
    // Told from here: waking a task costs much more on a thread that is not the runtime's.
    node.acks.decided(slot.id, decided);
    end
}

/// Applies a slice of the log and moves the marks. What became of it, as far as it was applied.
fn apply_slice(node: &Node, slot: &Slot, slice: Vec<Work>) -> (Vec<Decided>, Result<(), End>) {
    let mut guard = slot.partition();
    let partition = guard.as_mut().expect("a partition that serves is open");
    let mut decided = Vec::with_capacity(slice.iter().map(|work| work.commands.len()).sum());
    let applied = slice.into_iter().try_for_each(|work| apply_work(partition, work, &mut decided));
    let end = applied.map_err(|error| end_of(&error));
    let wants_checkpoint = end.is_ok() && partition.wants_checkpoint();
    if let Some(reach) = reach_of(partition) {
        let core = &mut *node.core();
        // One that was opened again applies once more what it had lost; that is nothing new to anybody. Of one whose place is not
        // known, all is told at once when it is.
        let known = core.watermarks.marks(slot.id).and_then(|marks| marks.applied);
        if known < Some(reach.offset) && !core.dispatch.is_unknown(slot.id) {
            let _ = core.watermarks.applied(slot.id, slot.incarnation, reach);
        }
        if let Some(others) = &mut core.others {
            others.applied(slot.id, reach);
        }
    }
    report(slot, partition);
    drop(guard);
    if wants_checkpoint {
        slot.request_checkpoint();
    }
    (decided, end)
}

fn apply_work(partition: &mut Partition, work: Work, decided: &mut Vec<Decided>) -> Result<(), ApplyError> {
    let Work { index, time, commands, .. } = work;
    for (offset, command) in commands {
        let record = Record { offset, log_index: index, time: time.as_millis(), command: &command };
        let outcome = partition.apply(&record)?;
        decided.push(Decided { offset, command, time, outcome });
    }
    Ok(())
}

fn end_of(error: &ApplyError) -> End {
    match error {
        ApplyError::Stopped(fault) if fault.is_quarantine() => End::Quarantined(fault.to_string()),
        ApplyError::Stopped(fault) => End::Failed(fault.to_string()),
        // The partition and the replicated log do not belong together. Trying again is of no use.
        ApplyError::NotNext { .. } | ApplyError::Diverged { .. } => End::Quarantined(error.to_string()),
    }
}

/// Reads what the queue does not have from the replicated log.
async fn catch_up(node: &Arc<Node>, slot: &Arc<Slot>, from: LogIndex) -> Result<(), End> {
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
    let slice = entries
        .into_iter()
        .filter_map(|entry| match entry.body {
            CommittedBody::Entry(bytes) => Some((entry.index, Entry::decode(&bytes).ok()?)),
            CommittedBody::Blank | CommittedBody::Members(_) => None,
        })
        .map(|(index, entry)| work_of(&mut dispatch, slot.id, index, entry))
        .collect();
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
        if core.dispatch.is_unknown(slot.id) {
            core.dispatch.open(slot.id, reach.map(|Reach { offset, index }| Resume { offset, index }));
            let opened = Opened { applied: reach, ..Opened::default() };
            let _ = core.watermarks.open(slot.id, slot.incarnation, opened);
        }
        let next = reach.map_or(Some(PartitionOffset::FIRST), |reach| reach.offset.next());
        let expected = core.dispatch.next(slot.id);
        if expected.is_some() && expected != next {
            let shown = |offset: Option<PartitionOffset>| offset.map_or(0, PartitionOffset::get);
            return Err(End::Quarantined(format!(
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
    let mut commands = Vec::new();
    for record in entry.records {
        if let EntryRecord::Write(command) | EntryRecord::Definition(command) = record
            && command.partition == partition
            && dispatch.judge(index, partition, command.expected) == Verdict::Deliver
        {
            commands.push((command.expected, command.command));
        }
    }
    Work { index, time: entry.time, commands }
}

async fn checkpoint(node: &Arc<Node>, slot: &Arc<Slot>) -> Result<(), End> {
    let job = {
        let (node, slot) = (node.clone(), slot.clone());
        move || make_checkpoint(&node, &slot)
    };
    node.workers.run(job).await?;
    node.keeper.notify_one();
    Ok(())
}

fn make_checkpoint(node: &Node, slot: &Slot) -> Result<(), End> {
    let mut guard = slot.partition();
    let partition = guard.as_mut().expect("a partition that serves is open");
    let made = partition.checkpoint().and_then(|()| {
        // A step of what is due; more of it comes with the next checkpoint, so that merging never falls far behind.
        partition.maintain().map(|_| ())
    });
    match made {
        Ok(()) => {}
        Err(CheckpointFailed::Stopped(fault)) => return Err(End::Failed(fault.to_string())),
        // The one before is still valid, and the next one takes everything along.
        Err(error) => node.alarm(format!("partition {}: no checkpoint: {error}", slot.id)),
    }
    report_durable(node, slot, partition);
    Ok(())
}

fn report_durable(node: &Node, slot: &Slot, partition: &Partition) {
    let mut core = node.core();
    if core.dispatch.is_unknown(slot.id) {
        return;
    }
    if let Some(synced) = partition.synced().min(partition.applied()) {
        let _ = core.watermarks.synced(slot.id, slot.incarnation, synced);
    }
    // A checkpoint is made of everything that is applied, so both are where the partition is.
    if let Some(reach) = reach_of(partition)
        && partition.checkpointed() == Some(reach.offset)
    {
        let _ = core.watermarks.checkpointed(slot.id, slot.incarnation, reach);
    }
}

async fn take_mark(node: &Arc<Node>, slot: &Arc<Slot>, mark: Mark) -> Result<(), End> {
    let job = {
        let (node, slot) = (node.clone(), slot.clone());
        move || {
            if let Err(end) = make_checkpoint(&node, &slot) {
                slot.put_back(mark);
                return Err(end);
            }
            let mut guard = slot.partition();
            let partition = guard.as_mut().expect("a partition that serves is open");
            let covered = partition.checkpointed() == partition.applied();
            let reason = match partition.view() {
                Ok(view) if covered => {
                    // Whoever asked may be gone.
                    let _ = mark.reply.send(Marked { view });
                    return Ok(());
                }
                Ok(_) => "its state could not be made durable".to_owned(),
                Err(error) => error.to_string(),
            };
            // A snapshot that fails ends the node. It waits instead, until this partition is well (ISO-1).
            slot.put_back(mark);
            Err(End::Failed(reason))
        }
    };
    node.workers.run(job).await
}

async fn close(node: &Arc<Node>, slot: &Arc<Slot>) {
    let job = {
        let (node, slot) = (node.clone(), slot.clone());
        move || {
            let partition = slot.partition().take();
            if slot.is_abandoned() {
                drop(partition);
            } else if let Some(mut partition) = partition {
                if partition.fault().is_none() && !node.is_dropped(slot.id) {
                    let _ = partition.checkpoint();
                    report_durable(&node, &slot, &partition);
                }
                let _ = partition.close();
            }
            drop(slot.opening.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
    };
    node.workers.run(job).await;
}

fn report(slot: &Slot, partition: &Partition) {
    let applied = Applied {
        offset: partition.applied(),
        index: partition.applied_index(),
        known_keys: partition.known_keys(),
    };
    slot.applied.send_if_modified(|before| std::mem::replace(before, applied) != applied);
}

fn reach_of(partition: &Partition) -> Option<Reach> {
    let (offset, index) = (partition.applied()?, partition.applied_index()?);
    Some(Reach { offset, index })
}

/// An error with all its causes, in one line.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
