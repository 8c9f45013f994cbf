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

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use gapless_partition::{Opening, Partition};
use gapless_types::{LogIndex, PartitionId, PartitionOffset};
use tokio::sync::{Notify, oneshot, watch};

use crate::log_time::LogTime;
use crate::watermarks::Incarnation;

/// Bytes of entries that wait for one partition; with more, it is detached.
pub(crate) const MAX_QUEUED_BYTES: u64 = 32 << 20;
/// Entries that wait for one partition; with more, it is detached.
pub(crate) const MAX_QUEUED_ENTRIES: usize = 16 << 10;
/// Commands that are applied in one go, about: readers get in between.
const SLICE_COMMANDS: usize = 512;
/// Bytes of commands that are applied in one go, about.
const SLICE_BYTES: u64 = 4 << 20;

/// What an entry has for one partition.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub(crate) index: LogIndex,
    pub(crate) time: LogTime,
    pub(crate) commands: Vec<(PartitionOffset, Bytes)>,
}

impl Work {
    pub(crate) fn bytes(&self) -> u64 {
        self.commands.iter().map(|(_, command)| command.len() as u64 + 64).sum()
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

/// A place in the order at which somebody wants the state of the partition.
#[derive(Debug)]
pub(crate) struct Mark {
    /// Behind this entry, and in front of the next.
    pub(crate) at: LogIndex,
    pub(crate) reply: oneshot::Sender<Result<Marked, Arc<str>>>,
}

/// The state at a mark: durable, and readable as long as it is held.
#[derive(Debug)]
pub(crate) struct Marked {
    pub(crate) view: gapless_partition::View,
}

/// What the worker does next.
#[derive(Debug)]
pub(crate) enum Step {
    Mark(Mark),
    Apply(Vec<Work>),
    /// Read from the replicated log, from here on.
    CatchUp(LogIndex),
    Checkpoint,
    Idle,
}

#[derive(Debug, Default)]
struct Queue {
    /// What waits, and when it came.
    work: VecDeque<(Duration, Work)>,
    bytes: u64,
    marks: VecDeque<Mark>,
    /// The first entry that is not in the queue, if it fell behind.
    detached: Option<LogIndex>,
    wants_checkpoint: bool,
    /// When the oldest that is not applied came: what is being applied counts until the next step.
    waiting_since: Option<Duration>,
    /// Times it was detached.
    detachments: u64,
    /// Nothing is written any more.
    abandoned: bool,
}

/// One partition of a node.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) id: PartitionId,
    pub(crate) incarnation: Incarnation,
    pub(crate) dir: PathBuf,
    queue: Mutex<Queue>,
    pub(crate) wake: Notify,
    /// The first half of opening, until the second takes it over.
    pub(crate) opening: Mutex<Option<Opening>>,
    pub(crate) partition: Mutex<Option<Partition>>,
    pub(crate) state: watch::Sender<PartitionState>,
    pub(crate) applied: watch::Sender<Applied>,
    pub(crate) closing: watch::Sender<bool>,
}

impl Slot {
    pub(crate) fn new(id: PartitionId, dir: PathBuf) -> Self {
        Self {
            id,
            // Namespace ids are never used again, so a partition lives once.
            incarnation: Incarnation(0),
            dir,
            queue: Mutex::default(),
            wake: Notify::new(),
            opening: Mutex::default(),
            partition: Mutex::default(),
            state: watch::Sender::new(PartitionState::Actualizing),
            applied: watch::Sender::default(),
            closing: watch::Sender::new(false),
        }
    }

    /// Takes in what an entry has for the partition.
    pub(crate) fn push(&self, work: Work, now: Duration) {
        {
            let mut queue = self.queue();
            if queue.detached.is_some() {
                return;
            }
            let bytes = work.bytes();
            let full = queue.work.len() >= MAX_QUEUED_ENTRIES
                || queue.bytes.saturating_add(bytes) > MAX_QUEUED_BYTES;
            if full && !queue.work.is_empty() {
                queue.detached = Some(work.index);
                queue.detachments += 1;
            } else {
                queue.waiting_since.get_or_insert(now);
                queue.bytes += bytes;
                queue.work.push_back((now, work));
            }
        }
        self.wake.notify_one();
    }

    /// Asks for the state behind an entry, which was dispatched, while the next one was not.
    pub(crate) fn mark(&self, mark: Mark) {
        self.queue().marks.push_back(mark);
        self.wake.notify_one();
    }

    pub(crate) fn request_checkpoint(&self) {
        self.queue().wants_checkpoint = true;
        self.wake.notify_one();
    }

    /// Forgets what is queued: from this entry on everything is read from the replicated log.
    pub(crate) fn detach_from(&self, index: LogIndex) {
        let mut queue = self.queue();
        queue.work.clear();
        queue.bytes = 0;
        queue.detached = Some(index);
    }

    /// What comes next. `dispatched` is the last entry that was.
    pub(crate) fn next_step(&self) -> Step {
        let mut queue = self.queue();
        let next = queue.work.front().map(|(_, work)| work.index).or(queue.detached);
        if let Some(mark) = queue.marks.front()
            && next.is_none_or(|next| mark.at < next)
        {
            return Step::Mark(queue.marks.pop_front().expect("there is one"));
        }
        if queue.work.is_empty() {
            queue.waiting_since = None;
            if let Some(from) = queue.detached {
                return Step::CatchUp(from);
            }
            return match std::mem::take(&mut queue.wants_checkpoint) {
                true => Step::Checkpoint,
                false => Step::Idle,
            };
        }
        queue.waiting_since = queue.work.front().map(|(since, _)| *since);
        // Under load a checkpoint comes between two slices: otherwise it never would.
        if std::mem::take(&mut queue.wants_checkpoint) {
            return Step::Checkpoint;
        }
        let end = queue.marks.front().map(|mark| mark.at);
        let (mut slice, mut commands, mut bytes) = (Vec::new(), 0, 0);
        while let Some((_, work)) = queue.work.front() {
            if commands >= SLICE_COMMANDS || bytes >= SLICE_BYTES || end.is_some_and(|end| work.index > end) {
                break;
            }
            let (_, work) = queue.work.pop_front().expect("there is one");
            commands += work.commands.len();
            bytes += work.bytes();
            slice.push(work);
        }
        queue.bytes -= bytes;
        Step::Apply(slice)
    }

    /// Everything up to `read` was read from the replicated log and applied. Attached again if nothing was dispatched behind it.
    pub(crate) fn caught_up(&self, read: LogIndex, dispatched: Option<LogIndex>) -> bool {
        let mut queue = self.queue();
        if dispatched <= Some(read) {
            queue.detached = None;
            return true;
        }
        queue.detached = read.next();
        false
    }

    /// The last entry in front of which a mark waits, if one does and the worker reads behind `from` itself.
    pub(crate) fn next_mark(&self) -> Option<LogIndex> {
        self.queue().marks.front().map(|mark| mark.at)
    }

    /// Whether everything that was dispatched has been taken out.
    pub(crate) fn backlog(&self) -> Backlog {
        let queue = self.queue();
        Backlog {
            entries: queue.work.len(),
            bytes: queue.bytes,
            detached: queue.detached.is_some(),
            waiting_since: queue.waiting_since,
            detachments: queue.detachments,
        }
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

    pub(crate) fn partition(&self) -> MutexGuard<'_, Option<Partition>> {
        self.partition.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What waits for a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backlog {
    pub(crate) entries: usize,
    pub(crate) bytes: u64,
    pub(crate) detached: bool,
    pub(crate) waiting_since: Option<Duration>,
    pub(crate) detachments: u64,
}

#[cfg(test)]
mod tests {
    use gapless_types::{NamespaceId, PartitionIndex};

    use super::*;

    fn slot() -> Slot {
        let id = PartitionId { namespace: NamespaceId::new(16), index: PartitionIndex::new(0) };
        Slot::new(id, PathBuf::new())
    }

    fn work(index: u64, bytes: usize) -> Work {
        let command = (PartitionOffset::FIRST, Bytes::from(vec![0; bytes]));
        Work { index: LogIndex::new(index), time: LogTime::ZERO, commands: vec![command] }
    }

    fn applied(step: Step) -> Vec<u64> {
        match step {
            Step::Apply(slice) => slice.iter().map(|work| work.index.get()).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_full_queue_detaches_and_attaches_when_nothing_is_missed() {
        let slot = slot();
        for index in 1..=40 {
            slot.push(work(index, 1 << 20), Duration::ZERO);
        }
        assert!(slot.backlog().detached);
        let mut seen = Vec::new();
        let from = loop {
            match slot.next_step() {
                Step::CatchUp(from) => break from,
                step => seen.extend(applied(step)),
            }
        };
        assert_eq!(seen, (1..from.get()).collect::<Vec<_>>());
        assert!(!slot.caught_up(LogIndex::new(38), Some(LogIndex::new(40))), "two more were dispatched");
        assert!(matches!(slot.next_step(), Step::CatchUp(from) if from.get() == 39));
        slot.push(work(41, 1), Duration::ZERO);
        assert!(slot.caught_up(LogIndex::new(41), Some(LogIndex::new(41))));
        assert!(matches!(slot.next_step(), Step::Idle));
        slot.push(work(42, 1), Duration::ZERO);
        assert_eq!(applied(slot.next_step()), [42]);
    }

    #[test]
    fn a_queue_that_is_never_empty_is_as_old_as_its_oldest_entry() {
        let slot = slot();
        let second = |index| Duration::from_secs(index);
        slot.push(work(0, 8 << 20), second(0));
        for index in 1..=20 {
            slot.push(work(index, 8 << 20), second(index));
            assert_eq!(applied(slot.next_step()), [index - 1]);
            assert_eq!(slot.backlog().waiting_since, Some(second(index - 1)), "while it is applied");
        }
        assert_eq!(applied(slot.next_step()), [20]);
        assert!(matches!(slot.next_step(), Step::Idle));
        assert_eq!(slot.backlog().waiting_since, None);
    }

    #[test]
    fn a_mark_stands_between_two_entries() {
        let slot = slot();
        let (reply, _receiver) = oneshot::channel();
        slot.push(work(1, 1), Duration::ZERO);
        slot.push(work(3, 1), Duration::ZERO);
        slot.mark(Mark { at: LogIndex::new(4), reply });
        slot.push(work(5, 1), Duration::ZERO);
        assert_eq!(applied(slot.next_step()), [1, 3]);
        assert!(matches!(slot.next_step(), Step::Mark(mark) if mark.at.get() == 4));
        assert_eq!(applied(slot.next_step()), [5]);
    }

    #[test]
    fn one_entry_larger_than_the_queue_still_gets_in() {
        let slot = slot();
        slot.push(work(1, 64 << 20), Duration::ZERO);
        assert_eq!(applied(slot.next_step()), [1]);
    }
}
