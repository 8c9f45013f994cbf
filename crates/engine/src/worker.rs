//! Steps 6 and 7 of the corridor for one partition: what is queued is applied in turns, one slice at a time, on threads that may wait
//! for a disk. A task looks after everything else: opening, catching up, checkpoints, failures.
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

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, PoisonError};

use gapless_partition::{ApplyError, Partition, Record};
use gapless_types::PartitionId;
use gapless_types::mistakes::{Mistake, makes};

use crate::acks::Decided;
use crate::counters::count;
use crate::log_time::LogTime;
use crate::node::Node;
use crate::slot::{Applied, PartitionState, Slot, Step, Work};
use crate::telling::Telling;
use crate::watermarks::Reach;

mod catching_up;
mod checkpoints;
mod opening;

use catching_up::catch_up;
use checkpoints::{begin_checkpoint, end_checkpoint, report_durable, take_mark};
pub(crate) use opening::begin;
use opening::open_partition;

/// Starts the task of a partition.
pub(crate) fn start(node: Arc<Node>, slot: Arc<Slot>) {
    let runtime = node.runtime.clone();
    runtime.spawn(async move { drive(&node, &slot).await });
}

/// Why serving ended.
#[derive(Debug)]
pub(crate) enum End {
    Closing,
    Failed(String),
    Quarantined(String),
    /// It has less than it had, and nothing here can bring it back: quarantined, until it is installed from another node or a backup.
    Lacking(String),
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
        if !first {
            count(&slot.reopenings);
        }
        let end = match open(node, slot, first).await {
            Ok(()) => serve(node, slot).await,
            Err(end) => end,
        };
        first = false;
        if matches!(end, End::Lacking(_)) {
            slot.set_lacking();
        }
        match end {
            End::Closing => break,
            End::Quarantined(reason) | End::Lacking(reason) => {
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

async fn serve(node: &Arc<Node>, slot: &Arc<Slot>) -> End {
    slot.open_turns();
    let end = take_turns(node, slot).await;
    slot.close_turns();
    end
}

/// What is queued is applied by jobs, one after the other, which whoever queues it has begun. The task does the rest in between.
async fn take_turns(node: &Arc<Node>, slot: &Arc<Slot>) -> End {
    loop {
        if let Some(broken_off) = slot.take_broken_off() {
            return broken_off.unwrap_or_else(|panic| resume_unwind(panic));
        }
        if slot.is_closing() && slot.take_last_turn() {
            return End::Closing;
        }
        let step = if slot.is_closing() { None } else { slot.take_step() };
        let done = match step {
            None => {
                slot.wake.notified().await;
                continue;
            }
            Some(Step::Apply) => {
                begin_turn(node.clone(), slot.clone());
                continue;
            }
            Some(Step::CatchUp(from)) => catch_up(node, slot, from).await,
            Some(Step::Checkpoint) => begin_checkpoint(node, slot).await,
            Some(Step::EndCheckpoint) => end_checkpoint(node, slot).await,
            Some(Step::Mark(mark)) => take_mark(node, slot, mark).await,
        };
        if let Err(end) = done {
            return end;
        }
        slot.end_step();
    }
}

/// What is applied sooner than a thread is woken, in bytes of commands, about.
const SMALL_TURN_BYTES: u64 = 2 << 10;

/// Has what is queued for a partition applied, by whoever has got the turn to do so.
pub(crate) fn begin_turn(node: Arc<Node>, slot: Arc<Slot>) {
    let (workers, runtime) = (node.workers.clone(), node.runtime.clone());
    let is_small = has_little(&slot);
    let turn = move || take_turn(node, slot, is_small);
    if is_small { workers.submit_small(&runtime, turn) } else { workers.submit(&runtime, turn) }
}

fn has_little(slot: &Slot) -> bool {
    slot.backlog().bytes <= SMALL_TURN_BYTES
}

/// Applies slice by slice, as long as there is something to apply and nobody else wants the thread. A turn that was small and is not any
/// more begins anew: others do not wait for it then.
fn take_turn(node: Arc<Node>, slot: Arc<Slot>, is_small: bool) {
    let applied = catch_unwind(AssertUnwindSafe(|| {
        while let Some(slice) = slot.next_slice() {
            apply_slice(&node, &slot, slice)?;
            if node.workers.are_wanted() || is_small && !has_little(&slot) {
                return Ok(true);
            }
        }
        Ok(false)
    }));
    match applied {
        Ok(Ok(false)) => {}
        Ok(Ok(true)) => begin_turn(node, slot),
        Ok(Err(end)) => slot.break_off(Ok(end)),
        Err(panic) => slot.break_off(Err(panic)),
    }
}

/// Applies a slice that did not come through the queue; the task has the turn.
async fn apply(node: &Arc<Node>, slot: &Arc<Slot>, slice: Vec<Work>) -> Result<(), End> {
    let job = {
        let (node, slot) = (node.clone(), slot.clone());
        move || apply_slice(&node, &slot, slice)
    };
    node.workers.run(job).await
}

/// Outcomes that are told together while others are applied: writers of a slice would otherwise come back all at once, and wait
/// while nothing is applied for what they write next.
const TOLD_TOGETHER: usize = 32;

/// Outcomes of a slice on their way to those who wait for them. What was applied is told, whatever becomes of the rest.
struct Outcomes<'a> {
    node: &'a Arc<Node>,
    partition: PartitionId,
    decided: Vec<Decided>,
}

impl Outcomes<'_> {
    fn push(&mut self, decided: Decided) {
        if self.decided.len() >= TOLD_TOGETHER {
            self.tell();
            self.decided.reserve(TOLD_TOGETHER);
        }
        self.decided.push(decided);
    }

    fn tell(&mut self) {
        Telling::tell_soon(self.node, self.partition, std::mem::take(&mut self.decided));
    }
}

/// Applies a slice of the log and moves the marks.
fn apply_slice(node: &Arc<Node>, slot: &Slot, slice: Vec<Work>) -> Result<(), End> {
    let mut guard = slot.partition();
    let partition = guard.as_mut().expect("a partition that serves is open");
    // Writes share a slice, so this is a trace of its own; partition and log index join it to theirs.
    let _step = tracing::debug_span!(
        "apply",
        partition = %slot.id,
        first_log_index = slice.first().map(|work| work.index.get()),
        last_log_index = slice.last().map(|work| work.index.get()),
        records = slice.iter().map(|work| work.commands.len()).sum::<usize>(),
    )
    .entered();
    let mut outcomes = Outcomes { node, partition: slot.id, decided: Vec::new() };
    let applied = slice.into_iter().try_for_each(|work| apply_work(partition, work, &mut outcomes));
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
    let due = partition.begin_sync();
    drop(guard);
    outcomes.tell();
    if let Some(due) = due {
        node.workers.submit_long(&node.runtime, move || due.sync());
    }
    if wants_checkpoint {
        slot.request_checkpoint();
    }
    end
}

fn apply_work(partition: &mut Partition, work: Work, outcomes: &mut Outcomes<'_>) -> Result<(), ApplyError> {
    let Work { index, mut time, machine_version, commands, digests } = work;
    if makes(Mistake::OwnClockAtApply) {
        time = LogTime::ZERO.after(outcomes.node.clock.wall());
    }
    let digests = digests.into_iter().chain(std::iter::repeat(None));
    for ((offset, command), digest) in commands.into_iter().zip(digests) {
        let time_ms = time.as_millis();
        let record = Record { offset, log_index: index, time: time_ms, machine_version, command: &command };
        let outcome = Arc::new(partition.apply_digested(&record, digest)?);
        outcomes.push(Decided { offset, command, time, outcome });
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

async fn close(node: &Arc<Node>, slot: &Arc<Slot>) {
    let job = {
        let (node, slot) = (node.clone(), slot.clone());
        move || {
            // Whoever waits for an outcome that there is gets it.
            node.telling.tell(&node.acks);
            let partition = slot.partition().take();
            if slot.is_abandoned() {
                drop(partition);
            } else if let Some(mut partition) = partition {
                // One that is quarantined is left as it is: it may have less than it should.
                let is_sound = partition.fault().is_none()
                    && !matches!(*slot.state.borrow(), PartitionState::Quarantined(_));
                if is_sound && !node.is_dropped(slot.id) {
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
