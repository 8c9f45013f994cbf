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

use std::panic::resume_unwind;
use std::sync::{Arc, PoisonError};

use gapless_partition::{ApplyError, Partition, Record};
use gapless_types::PartitionId;
use gapless_types::mistakes::{Mistake, makes};
use tokio::task::JoinHandle;

use crate::acks::Decided;
use crate::counters::count;
use crate::log_time::LogTime;
use crate::node::Node;
use crate::slot::{Applied, PartitionState, Slot, Step, Work};
use crate::watermarks::Reach;

mod catching_up;
mod checkpoints;
mod opening;

use catching_up::catch_up;
use checkpoints::{checkpoint, report_durable, take_mark};
pub(crate) use opening::begin;
use opening::open_partition;

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
    let (mut telling, end) = node.workers.run(job).await;
    telling.tell();
    telling.end().await;
    end
}

/// Outcomes on their way to those who wait for them. They are told on the threads of the runtime, because waking a task costs much
/// more elsewhere, and the first of many while the others are applied: writers of a slice would otherwise come back all at once,
/// and wait while nothing is applied for what they write next.
struct Telling {
    node: Arc<Node>,
    partition: PartitionId,
    decided: Vec<Decided>,
    told: Vec<JoinHandle<()>>,
}

/// Outcomes that are told together while others are applied.
const TOLD_TOGETHER: usize = 64;

impl Telling {
    fn new(node: &Arc<Node>, partition: PartitionId) -> Self {
        Self { node: node.clone(), partition, decided: Vec::new(), told: Vec::new() }
    }

    fn push(&mut self, decided: Decided) {
        if self.decided.len() >= TOLD_TOGETHER && self.node.workers.are_threads() {
            let (node, partition) = (self.node.clone(), self.partition);
            let decided = std::mem::replace(&mut self.decided, Vec::with_capacity(TOLD_TOGETHER));
            let told = self.node.runtime.spawn(async move { node.acks.decided(partition, decided) });
            self.told.push(told);
        }
        self.decided.push(decided);
    }

    /// Tells what is left.
    fn tell(&mut self) {
        self.node.acks.decided(self.partition, std::mem::take(&mut self.decided));
    }

    /// Ends when all are told.
    async fn end(self) {
        for told in self.told {
            if let Err(error) = told.await
                && let Ok(panic) = error.try_into_panic()
            {
                resume_unwind(panic);
            }
        }
    }
}

/// Applies a slice of the log and moves the marks. What became of it, as far as it was applied.
fn apply_slice(node: &Arc<Node>, slot: &Slot, slice: Vec<Work>) -> (Telling, Result<(), End>) {
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
    let mut telling = Telling::new(node, slot.id);
    let applied = slice.into_iter().try_for_each(|work| apply_work(partition, work, &mut telling));
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
    (telling, end)
}

fn apply_work(partition: &mut Partition, work: Work, telling: &mut Telling) -> Result<(), ApplyError> {
    let Work { index, mut time, commands, .. } = work;
    if makes(Mistake::OwnClockAtApply) {
        time = LogTime::ZERO.after(telling.node.clock.wall());
    }
    for (offset, command) in commands {
        let record = Record { offset, log_index: index, time: time.as_millis(), command: &command };
        let outcome = partition.apply(&record)?;
        telling.push(Decided { offset, command, time, outcome });
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
