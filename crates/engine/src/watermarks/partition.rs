//! The marks of one partition, and what it takes to answer by log index.

use std::collections::VecDeque;

use gapless_types::{LogIndex, PartitionOffset};

use super::{Incarnation, Opened, Reach};
use crate::limits::MAX_REMEMBERED_ENTRIES;

/// The watermarks of a partition; none where there is nothing yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The last offset that was dispatched.
    pub highest: Option<PartitionOffset>,
    /// The command is on stable storage here, in the replicated log.
    pub durable: Option<PartitionOffset>,
    /// The outcome exists.
    pub applied: Option<PartitionOffset>,
    /// The outcome is on stable storage, in the partition log.
    pub synced: Option<PartitionOffset>,
    /// So is the state derived from it.
    pub checkpoint: Option<PartitionOffset>,
    /// A snapshot holds it.
    pub snapshot: Option<PartitionOffset>,
    /// Where the record of the last outcome stands in the replicated log.
    pub applied_index: Option<LogIndex>,
}

impl Marks {
    /// Whether the marks are in the order that WM-1 prescribes.
    #[must_use]
    pub fn are_ordered(&self) -> bool {
        self.snapshot <= self.checkpoint
            && self.checkpoint <= self.synced
            && self.synced <= self.applied
            && self.applied <= self.durable
            && self.durable <= self.highest
    }
}

/// An entry with records for the partition: its index, and the last offset it has for it. Where too many are remembered, the last
/// one stands for several, and the index is that of the first of them.
type Dispatched = Reach;

#[derive(Debug)]
pub(super) struct State {
    pub(super) incarnation: Incarnation,
    pub(super) marks: Marks,
    /// Entries with records that are not applied, in order.
    unapplied: VecDeque<Dispatched>,
    /// The lowest index that may hold a record that the checkpoint does not cover; none if it covers all.
    needed_from: Option<LogIndex>,
    /// What the partition has is not known from this index on.
    unknown_from: Option<LogIndex>,
}

impl State {
    pub(super) fn new(incarnation: Incarnation, opened: &Opened) -> Self {
        let mut state = Self {
            incarnation,
            marks: Marks::default(),
            unapplied: VecDeque::new(),
            needed_from: None,
            unknown_from: None,
        };
        state.install(opened);
        state
    }

    pub(super) fn unknown(incarnation: Incarnation, from: LogIndex) -> Self {
        Self { unknown_from: Some(from), ..Self::new(incarnation, &Opened::default()) }
    }

    /// Everything jumps to where the partition stands now. What is not said is as it was.
    pub(super) fn install(&mut self, opened: &Opened) {
        let applied = opened.applied.map(|reach| reach.offset);
        let highest = self.marks.highest.max(applied);
        let installed = Marks {
            highest,
            durable: self.marks.durable.max(applied),
            applied,
            synced: opened.synced.max(self.marks.synced),
            checkpoint: opened.checkpoint.map(|reach| reach.offset).max(self.marks.checkpoint),
            snapshot: self.marks.snapshot,
            applied_index: opened.applied.map(|reach| reach.index),
        };
        self.change(installed);
        self.unknown_from = None;
        self.drop_applied();
        self.needed_from = match opened.checkpoint {
            _ if self.marks.checkpoint == self.marks.highest => None,
            // The entry of the checkpoint may hold more for this partition.
            Some(reach) => Some(reach.index),
            None => Some(LogIndex::FIRST),
        };
    }

    /// Nobody knows where the partition stands, from this index on.
    pub(super) fn lose_place(&mut self, from: LogIndex) {
        self.unknown_from = Some(from);
    }

    pub(super) fn dispatch(&mut self, reach: Reach) {
        assert!(
            self.marks.highest < Some(reach.offset),
            "WM-1: the highest offset of a partition never falls, and an entry with records raises it"
        );
        self.marks.highest = Some(reach.offset);
        self.needed_from.get_or_insert(reach.index);
        let full = self.unapplied.len() >= MAX_REMEMBERED_ENTRIES;
        match self.unapplied.back_mut() {
            Some(last) if full => last.offset = reach.offset,
            _ => self.unapplied.push_back(reach),
        }
    }

    pub(super) fn make_durable(&mut self, offset: PartitionOffset) {
        self.change(Marks { durable: self.marks.durable.max(Some(offset)), ..self.marks });
    }

    pub(super) fn apply(&mut self, reach: Reach) {
        let (applied, applied_index) = (Some(reach.offset), Some(reach.index));
        self.change(Marks { applied, applied_index, ..self.marks });
        self.drop_applied();
    }

    pub(super) fn sync(&mut self, offset: PartitionOffset) {
        self.change(Marks { synced: Some(offset), ..self.marks });
    }

    pub(super) fn checkpoint(&mut self, reach: Reach) {
        self.change(Marks { checkpoint: Some(reach.offset), ..self.marks });
        self.needed_from = if self.marks.checkpoint == self.marks.highest {
            None
        } else if self.marks.checkpoint == self.marks.applied {
            self.unapplied.front().map(|first| first.index.max(reach.index))
        } else {
            // The entry of the checkpoint may hold more for this partition.
            self.needed_from.max(Some(reach.index))
        };
    }

    pub(super) fn take_snapshot(&mut self, offset: PartitionOffset) {
        self.change(Marks { snapshot: Some(offset), ..self.marks });
    }

    pub(super) fn applied_through(&self, dispatched: Option<LogIndex>) -> Option<LogIndex> {
        if let Some(from) = self.unknown_from {
            return from.previous();
        }
        match self.unapplied.front() {
            None => dispatched,
            // Where one stands for several, what is applied tells more than the first of them.
            Some(first) => first.index.max(self.marks.applied_index.unwrap_or(LogIndex::FIRST)).previous(),
        }
    }

    pub(super) fn needed_from(&self) -> Option<LogIndex> {
        self.unknown_from.or(self.needed_from)
    }

    fn drop_applied(&mut self) {
        while self.unapplied.front().is_some_and(|first| Some(first.offset) <= self.marks.applied) {
            self.unapplied.pop_front();
        }
    }

    /// The one place where marks change.
    fn change(&mut self, to: Marks) {
        let from = self.marks;
        let falls = to.highest < from.highest
            || to.durable < from.durable
            || to.applied < from.applied
            || to.synced < from.synced
            || to.checkpoint < from.checkpoint
            || to.snapshot < from.snapshot
            || to.applied_index < from.applied_index;
        assert!(!falls, "WM-1: a watermark falls: {from:?} to {to:?}");
        assert!(to.are_ordered(), "WM-1: watermarks out of order: {from:?} to {to:?}");
        self.marks = to;
    }
}
