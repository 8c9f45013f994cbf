//! The place of one partition in a node: what waits to be applied, and how far it is.
//!
//! The dispatcher puts entries into the queue and never waits: if the queue is full, the partition is detached, and reads what it
//! misses from the replicated log itself until it has caught up. What it cannot lose are marks, which say where a snapshot is taken.
//!
//! ```text
//!  dispatcher ──▶ queue ──────────────▶ worker ──▶ partition     attached: the queue has everything
//!       └─ full: detached ─▶ replicated log ─┘                   detached: from an index on it has nothing
//! ```
//!
//! Invariants
//! - Entries are taken in the order of the log, none left out, none twice.
//! - ISO-1: nothing here waits for the partition while somebody else waits for the lock.
//!
//! Must not know: what commands mean, how an order is agreed on.

use std::any::Any;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use gapless_log::Log;
use gapless_partition::{Opening, Partition};
use gapless_types::{LogIndex, PartitionId, PartitionOffset};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};

mod queue;

pub(crate) use queue::{Backlog, Mark, Marked, Step, Work};
use queue::{Next, Queue, Turn};

use crate::watermarks::Incarnation;
use crate::worker::End;

/// Why a job did not come to its end, or what it panicked with.
pub(crate) type BrokenOff = Result<End, Box<dyn Any + Send>>;

/// Somebody has the partition right now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Busy;

/// What may wait for one partition; with more, it is detached and reads from the replicated log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Entries.
    pub entries: usize,
    /// Bytes of entries.
    pub bytes: u64,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self { entries: 16 << 10, bytes: 32 << 20 }
    }
}

/// How a partition does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionState {
    /// It is being opened, or folds the tail of its log.
    Actualizing,
    /// It applies what it gets.
    Serving,
    /// It fell behind, and reads from the replicated log what it misses.
    CatchingUp,
    /// Its disk failed; it is opened again after a while.
    Failed(Arc<str>),
    /// The store holds something it should not: it can be read, and somebody has to repair it.
    Quarantined(Arc<str>),
    /// It is gone, or the node is closing.
    Closed,
}

/// How far a partition has applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// The last outcome.
    pub offset: Option<PartitionOffset>,
    /// Where its record stands in the replicated log.
    pub index: Option<LogIndex>,
    /// Idempotency keys that are known, expired ones among them.
    pub known_keys: u64,
}

/// One partition of a node.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) id: PartitionId,
    pub(crate) incarnation: Incarnation,
    pub(crate) dir: PathBuf,
    limits: QueueLimits,
    queue: Mutex<Queue>,
    pub(crate) wake: Notify,
    /// Why the last job that applied did not come to its end; it has kept the turn.
    broken_off: Mutex<Option<BrokenOff>>,
    /// The first half of opening, until the second takes it over.
    pub(crate) opening: Mutex<Option<Opening>>,
    pub(crate) partition: Mutex<Option<Partition>>,
    pub(crate) state: watch::Sender<PartitionState>,
    pub(crate) applied: watch::Sender<Applied>,
    pub(crate) closing: watch::Sender<bool>,
    /// Whether it certainly had an outcome when the node was opened.
    begun: AtomicBool,
    /// The last outcome that it had on stable storage in earlier lives of the node; 0 for none.
    required: AtomicU64,
    /// Whether it lacks outcomes that the replicated log of this node does not have any more.
    lacking: AtomicBool,
    /// Times that it was opened again after a failure.
    pub(crate) reopenings: AtomicU64,
    /// Times that it was made anew.
    pub(crate) repairs: AtomicU64,
    /// One reader at a time waits for the partition on a thread: more would use up the threads of all others (ISO-1).
    readers: Arc<Semaphore>,
}

impl Slot {
    pub(crate) fn new(id: PartitionId, dir: PathBuf, limits: QueueLimits) -> Self {
        Self {
            id,
            // Namespace ids are never used again, so a partition lives once.
            incarnation: Incarnation(0),
            dir,
            limits,
            queue: Mutex::default(),
            wake: Notify::new(),
            broken_off: Mutex::default(),
            opening: Mutex::default(),
            partition: Mutex::default(),
            state: watch::Sender::new(PartitionState::Actualizing),
            applied: watch::Sender::default(),
            closing: watch::Sender::new(false),
            begun: AtomicBool::new(false),
            required: AtomicU64::new(0),
            lacking: AtomicBool::new(false),
            reopenings: AtomicU64::new(0),
            repairs: AtomicU64::new(0),
            readers: Arc::new(Semaphore::new(1)),
        }
    }

    /// It takes the place of another one, as it is or made anew.
    pub(crate) fn succeed(&self, earlier: &Self, is_anew: bool) {
        let repairs = earlier.repairs.load(Ordering::Relaxed) + u64::from(is_anew);
        self.repairs.store(repairs, Ordering::Relaxed);
        self.reopenings.store(earlier.reopenings.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// It certainly had an outcome when the node was opened.
    pub(crate) fn set_begun(&self, begun: bool) {
        self.begun.store(begun, Ordering::Relaxed);
    }

    pub(crate) fn is_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }

    /// It lacks outcomes that nothing on this node can bring back.
    pub(crate) fn set_lacking(&self) {
        self.lacking.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_lacking(&self) -> bool {
        self.lacking.load(Ordering::Relaxed)
    }

    /// It had this outcome on stable storage in an earlier life of the node.
    pub(crate) fn require(&self, end: Option<PartitionOffset>) {
        self.required.store(end.map_or(0, PartitionOffset::get), Ordering::Relaxed);
    }

    /// The last outcome that it has to have.
    pub(crate) fn required(&self) -> Option<PartitionOffset> {
        PartitionOffset::new(self.required.load(Ordering::Relaxed))
    }

    /// The turn of a reader; it is over when this is dropped.
    pub(crate) async fn reader(&self) -> OwnedSemaphorePermit {
        self.readers.clone().acquire_owned().await.expect("nobody closes it")
    }

    /// Takes in what an entry has for the partition. Whether that begins a turn: whoever pushed it has what is queued applied.
    pub(crate) fn push(&self, work: Work, now: Duration) -> bool {
        let mut queue = self.queue();
        queue.push(work, now, &self.limits);
        let begins = queue.begin_turn();
        // Whoever has the turn looks again before he gives it back.
        let is_noticed = begins || queue.turn == Turn::Taken;
        drop(queue);
        if !is_noticed {
            self.wake.notify_one();
        }
        begins
    }

    /// What is queued is applied by whoever pushes it, from now on.
    pub(crate) fn open_turns(&self) {
        self.queue().turn = Turn::Free;
    }

    /// What is queued is not applied until turns are open again.
    pub(crate) fn close_turns(&self) {
        self.queue().turn = Turn::Closed;
    }

    /// The next slice of a turn. Without one, the turn is over, and the task of the partition is told if it has something to do.
    pub(crate) fn next_slice(&self) -> Option<Vec<Work>> {
        let is_closing = self.is_closing();
        let mut queue = self.queue();
        assert_eq!(queue.turn, Turn::Taken, "one apply is in flight per partition");
        let next = queue.next();
        if next == Next::Apply && !is_closing {
            return Some(queue.slice());
        }
        queue.end_turn();
        drop(queue);
        if next != Next::Nothing || is_closing {
            self.wake.notify_one();
        }
        None
    }

    /// A job could not apply what it had. It keeps the turn, and the task is told.
    pub(crate) fn break_off(&self, why: BrokenOff) {
        *self.broken_off.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        self.wake.notify_one();
    }

    /// Why a job could not apply what it had.
    pub(crate) fn take_broken_off(&self) -> Option<BrokenOff> {
        self.broken_off.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// What the task does next, for which it has the turn. None while somebody else has it, or if there is nothing to do.
    pub(crate) fn take_step(&self) -> Option<Step> {
        self.queue().take_step()
    }

    /// The task has done its step.
    pub(crate) fn end_step(&self) {
        self.queue().end_turn();
    }

    /// The task takes the turn and keeps it. Whether it could: somebody else may have it, and tells when he is done.
    pub(crate) fn take_last_turn(&self) -> bool {
        let mut queue = self.queue();
        let could = queue.turn != Turn::Taken;
        if could {
            queue.turn = Turn::Closed;
        }
        could
    }

    /// Asks for the state behind an entry, which was dispatched, while the next one was not.
    pub(crate) fn mark(&self, mark: Mark) {
        let mut queue = self.queue();
        // Whoever asks may have found this place a moment before another one took over.
        match queue.successor.clone() {
            Some(successor) => {
                drop(queue);
                successor.mark(mark);
            }
            None => {
                queue.marks.push_back(mark);
                self.wake.notify_one();
            }
        }
    }

    /// It is closed to be opened again in another place: marks wait for that. A snapshot whose mark is lost would end the node.
    pub(crate) fn keep_marks(&self) {
        self.queue().keeps_marks = true;
    }

    /// Marks that wait, and those that still come, go to another place.
    pub(crate) fn hand_over(&self, to: &Arc<Self>) {
        let marks = {
            let mut queue = self.queue();
            queue.successor = Some(to.clone());
            std::mem::take(&mut queue.marks)
        };
        marks.into_iter().for_each(|mark| to.mark(mark));
    }

    pub(crate) fn request_checkpoint(&self) {
        self.request(|queue| queue.wants_checkpoint = true);
    }

    /// The checkpoint that was begun is written out.
    pub(crate) fn request_end_of_checkpoint(&self) {
        self.request(|queue| queue.ends_checkpoint = true);
    }

    fn request(&self, what: impl FnOnce(&mut Queue)) {
        let mut queue = self.queue();
        what(&mut queue);
        let is_noticed = queue.turn == Turn::Taken;
        drop(queue);
        if !is_noticed {
            self.wake.notify_one();
        }
    }

    /// Forgets what is queued: from this entry on everything is read from the replicated log.
    pub(crate) fn detach_from(&self, index: LogIndex) {
        self.queue().detach_from(index);
    }

    /// Forgets what is queued, for good: nothing will be applied here any more.
    pub(crate) fn give_up(&self) {
        self.queue().give_up();
    }

    /// Nobody will serve marks any more; whoever asked is told.
    pub(crate) fn drop_marks(&self) {
        let mut queue = self.queue();
        if !queue.keeps_marks {
            queue.marks.clear();
        }
    }

    /// There will be no other place.
    pub(crate) fn give_marks_up(&self) {
        self.queue().keeps_marks = false;
        self.drop_marks();
    }

    /// A mark that could not be served now comes first again.
    pub(crate) fn put_back(&self, mark: Mark) {
        self.queue().marks.push_front(mark);
    }

    /// Everything up to `read` was read from the replicated log and applied. Attached again if nothing was dispatched behind it.
    pub(crate) fn caught_up(&self, read: LogIndex, dispatched: Option<LogIndex>) -> bool {
        self.queue().caught_up(read, dispatched)
    }

    /// The entry behind which the first mark waits, if one does.
    pub(crate) fn next_mark(&self) -> Option<LogIndex> {
        self.queue().marks.front().map(|mark| mark.at)
    }

    /// What waits.
    pub(crate) fn backlog(&self) -> Backlog {
        self.queue().backlog()
    }

    pub(crate) fn close(&self) {
        self.closing.send_replace(true);
        self.wake.notify_one();
    }

    /// Closes without writing anything.
    pub(crate) fn abandon(&self) {
        self.queue().abandoned = true;
        self.close();
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.queue().abandoned
    }

    pub(crate) fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    /// The log of the partition, if that is open and nobody has it right now.
    pub(crate) fn try_log(&self) -> Result<Option<Log>, Busy> {
        match self.partition.try_lock() {
            Ok(partition) => Ok(partition.as_ref().map(|partition| partition.log().clone())),
            Err(TryLockError::WouldBlock) => Err(Busy),
            Err(TryLockError::Poisoned(_)) => Ok(None),
        }
    }

    pub(crate) fn partition(&self) -> MutexGuard<'_, Option<Partition>> {
        self.partition.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
