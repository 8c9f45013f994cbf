//! What waits for one partition: entries, marks between them, and from where on the replicated log has to be read instead.
//!
//! Invariants
//! - Entries are taken in the order of the log, none left out, none twice.
//! - A mark is served behind its entry and in front of the next.
//!
//! Must not know: who applies, threads, locks.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gapless_partition::RequestDigest;
use gapless_types::{LogIndex, MachineVersion, PartitionOffset};
use tokio::sync::oneshot;

use super::{QueueLimits, Slot};
use crate::log_time::LogTime;

/// Commands that are applied in one go, about: readers get in between.
const SLICE_COMMANDS: usize = 512;
/// Bytes of commands that are applied in one go, about.
const SLICE_BYTES: u64 = 4 << 20;

/// What an entry has for one partition.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub(crate) index: LogIndex,
    pub(crate) time: LogTime,
    pub(crate) machine_version: MachineVersion,
    pub(crate) commands: Vec<(PartitionOffset, Bytes)>,
    /// Of the commands from the first one on, where it is known: they need not be computed again.
    pub(crate) digests: Vec<Option<RequestDigest>>,
}

impl Work {
    pub(crate) fn bytes(&self) -> u64 {
        self.commands.iter().map(|(_, command)| command.len() as u64 + 64).sum()
    }
}

/// A place in the order at which somebody wants the state of the partition.
#[derive(Debug)]
pub(crate) struct Mark {
    /// Behind this entry, and in front of the next.
    pub(crate) at: LogIndex,
    pub(crate) reply: oneshot::Sender<Marked>,
}

/// The state at a mark: durable, and readable as long as it is held.
#[derive(Debug)]
pub(crate) struct Marked {
    pub(crate) view: gapless_partition::View,
}

/// What the task of the partition does next.
#[derive(Debug)]
pub(crate) enum Step {
    Mark(Mark),
    /// Have what is queued applied: the turn goes to whoever does it.
    Apply,
    /// Read from the replicated log, from here on.
    CatchUp(LogIndex),
    /// Begin one: it is written out beside everything else.
    Checkpoint,
    /// End the one that is written out.
    EndCheckpoint,
}

/// The same, before it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Mark,
    Apply,
    CatchUp(LogIndex),
    Checkpoint,
    EndCheckpoint,
    Nothing,
}

/// Who works on the partition: one at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Turn {
    /// Its task alone, while it is opened, failed or closed.
    #[default]
    Closed,
    /// Nobody: whoever comes first takes it.
    Free,
    /// Its task, or a job that applies.
    Taken,
}

/// What waits.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Each with the time it came at.
    work: VecDeque<(Duration, Work)>,
    bytes: u64,
    pub(super) marks: VecDeque<Mark>,
    /// Marks outlive the partition: it will be opened again in another place.
    pub(super) keeps_marks: bool,
    /// That place, once there is one.
    pub(super) successor: Option<Arc<Slot>>,
    /// The first entry that is not in the queue, if it fell behind.
    detached: Option<LogIndex>,
    pub(super) wants_checkpoint: bool,
    /// The one that was begun is written out.
    pub(super) ends_checkpoint: bool,
    /// When the oldest came of what is being applied, or is read from the replicated log.
    taken_since: Option<Duration>,
    /// Times it was detached.
    detachments: u64,
    /// Nothing is written any more.
    pub(super) abandoned: bool,
    pub(super) turn: Turn,
}

impl Queue {
    /// When the oldest came of what has no outcome yet.
    fn waiting_since(&self) -> Option<Duration> {
        self.taken_since.or_else(|| self.work.front().map(|(since, _)| *since))
    }

    pub(super) fn push(&mut self, work: Work, now: Duration, limits: &QueueLimits) {
        if self.detached.is_some() {
            return;
        }
        let bytes = work.bytes();
        let full = self.work.len() >= limits.entries || self.bytes.saturating_add(bytes) > limits.bytes;
        if full && !self.work.is_empty() {
            self.detached = Some(work.index);
            self.detachments += 1;
        } else {
            self.bytes += bytes;
            self.work.push_back((now, work));
        }
    }

    /// What comes next: a mark in front of everything else, then the end of a checkpoint, then what is queued, then what has to be
    /// read from the replicated log.
    pub(super) fn next(&self) -> Next {
        let next = self.work.front().map(|(_, work)| work.index).or(self.detached);
        if let Some(mark) = self.marks.front()
            && next.is_none_or(|next| mark.at < next)
        {
            return Next::Mark;
        }
        // It takes a moment, and gives memory back.
        if self.ends_checkpoint {
            return Next::EndCheckpoint;
        }
        match (self.work.is_empty(), self.detached) {
            (true, Some(from)) => Next::CatchUp(from),
            // Under load a checkpoint comes between two slices: otherwise it never would.
            _ if self.wants_checkpoint => Next::Checkpoint,
            (true, None) => Next::Nothing,
            (false, _) => Next::Apply,
        }
    }

    /// Takes the turn for whoever applies what is queued, if that comes next and nobody has it.
    pub(super) fn begin_turn(&mut self) -> bool {
        let begins = self.turn == Turn::Free && self.next() == Next::Apply;
        if begins {
            self.turn = Turn::Taken;
        }
        begins
    }

    pub(super) fn end_turn(&mut self) {
        assert_eq!(self.turn, Turn::Taken, "one apply is in flight per partition");
        self.turn = Turn::Free;
        if self.detached.is_none() {
            self.taken_since = None;
        }
    }

    /// Takes the turn for what the task does next.
    pub(super) fn take_step(&mut self) -> Option<Step> {
        if self.turn != Turn::Free {
            return None;
        }
        let step = match self.next() {
            Next::Mark => Step::Mark(self.marks.pop_front()?),
            Next::Apply => Step::Apply,
            Next::CatchUp(from) => Step::CatchUp(from),
            Next::Checkpoint => {
                self.wants_checkpoint = false;
                Step::Checkpoint
            }
            Next::EndCheckpoint => {
                self.ends_checkpoint = false;
                Step::EndCheckpoint
            }
            Next::Nothing => return None,
        };
        self.turn = Turn::Taken;
        Some(step)
    }

    /// What is applied in one go.
    pub(super) fn slice(&mut self) -> Vec<Work> {
        let end = self.marks.front().map(|mark| mark.at);
        self.taken_since = self.work.front().map(|(since, _)| *since);
        let (mut slice, mut commands, mut bytes) = (Vec::new(), 0, 0);
        while let Some((_, work)) = self.work.front() {
            if commands >= SLICE_COMMANDS || bytes >= SLICE_BYTES || end.is_some_and(|end| work.index > end) {
                break;
            }
            let (_, work) = self.work.pop_front().expect("there is one");
            commands += work.commands.len();
            bytes += work.bytes();
            slice.push(work);
        }
        self.bytes -= bytes;
        slice
    }

    pub(super) fn caught_up(&mut self, read: LogIndex, dispatched: Option<LogIndex>) -> bool {
        if dispatched <= Some(read) {
            self.detached = None;
            return true;
        }
        self.detached = read.next();
        false
    }

    pub(super) fn detach_from(&mut self, index: LogIndex) {
        self.taken_since = self.waiting_since();
        self.work.clear();
        self.bytes = 0;
        self.detached = Some(index);
    }

    pub(super) fn give_up(&mut self) {
        self.taken_since = None;
        self.work.clear();
        self.bytes = 0;
    }

    pub(super) fn backlog(&self) -> Backlog {
        Backlog {
            entries: self.work.len(),
            bytes: self.bytes,
            detached: self.detached.is_some(),
            waiting_since: self.waiting_since(),
            detachments: self.detachments,
        }
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
