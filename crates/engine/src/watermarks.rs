//! How far every partition of this node is: what is durable, applied, synced, in a checkpoint, in a snapshot.
//!
//! ```text
//!  offsets of a partition   1 ........................................................ highest
//!  snapshot ──▶ checkpoint ──▶ synced ──▶ applied ──▶ durable ──▶ highest
//! ```
//!
//! Only committed entries are told here. So nothing that was told is ever cut off by another leader, and no mark has to fall.
//!
//! Invariants
//! - WM-1: snapshot <= checkpoint <= synced <= applied <= durable <= highest, per partition; none ever falls. A dispatcher that
//!   hands out what is not on stable storage here yet breaks it.
//! - A partition with nothing queued up to an index counts as applied through it: an idle one holds nobody back.
//! - A report of an earlier incarnation of a partition changes nothing.
//!
//! Must not know: who waits for a mark, how a partition gets there, files, clocks.

mod partition;

use std::collections::{BTreeMap, VecDeque};

use gapless_types::{LogIndex, PartitionId, PartitionOffset};
use thiserror::Error;

pub use self::partition::Marks;
use self::partition::State;

/// Which life of a partition: one that was dropped and comes back has a higher one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u32);

/// An offset, and where its record stands in the replicated log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// The offset.
    pub offset: PartitionOffset,
    /// The log index.
    pub index: LogIndex,
}

/// Where a partition stands when it is opened or installed. All of it is on stable storage, outcomes up to `applied`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// The last outcome.
    pub applied: Option<Reach>,
    /// The last outcome on stable storage.
    pub synced: Option<PartitionOffset>,
    /// The last outcome whose state is, too.
    pub checkpoint: Option<Reach>,
}

/// A report that changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Stale {
    /// The partition is not open here.
    #[error("partition {partition} is not open")]
    NotOpen {
        /// Which one.
        partition: PartitionId,
    },
    /// The partition has come back since.
    #[error("partition {partition} is in incarnation {current:?}, not {given:?}")]
    Incarnation {
        /// Which one.
        partition: PartitionId,
        /// The one it is in.
        current: Incarnation,
        /// The one of the report.
        given: Incarnation,
    },
}

/// The watermarks of all partitions of a node.
#[derive(Debug, Default)]
pub struct Watermarks {
    partitions: BTreeMap<PartitionId, State>,
    /// Entries up to here were handed to their partitions.
    dispatched: Option<LogIndex>,
    /// The replicated log is on stable storage here up to this index, as far as is known.
    durable: Option<LogIndex>,
    /// What was dispatched before it was durable here.
    not_durable: VecDeque<(PartitionId, Incarnation, Reach)>,
}

impl Watermarks {
    /// Marks of a node whose log was dispatched up to an index before: that of the checkpoint it starts from.
    #[must_use]
    pub fn starting_at(dispatched: Option<LogIndex>) -> Self {
        Self { dispatched, ..Self::default() }
    }

    /// A partition is open, with what it had. Of an incarnation that is known already it may only have more: it was rolled forward by
    /// a snapshot, or opened again; what is not said of it is as it was. One that stopped and lost outcomes that were not on stable storage is told of once it has them
    /// again: until then nobody may be served from it.
    ///
    /// # Errors
    /// If it has come back in a later incarnation since.
    ///
    /// # Panics
    /// If a mark would fall, or marks are not in order (WM-1).
    pub fn open(
        &mut self,
        partition: PartitionId,
        incarnation: Incarnation,
        opened: Opened,
    ) -> Result<(), Stale> {
        match self.partitions.get_mut(&partition) {
            Some(state) if incarnation < state.incarnation => {
                Err(Stale::Incarnation { partition, current: state.incarnation, given: incarnation })
            }
            Some(state) if incarnation == state.incarnation => {
                state.install(&opened);
                Ok(())
            }
            _ => {
                self.partitions.insert(partition, State::new(incarnation, &opened));
                Ok(())
            }
        }
    }

    /// A partition is there, and nobody knows yet what it has: everything from this index on is needed until [`open`](Self::open) tells.
    pub fn open_unknown(&mut self, partition: PartitionId, incarnation: Incarnation, from: LogIndex) {
        self.partitions.insert(partition, State::unknown(incarnation, from));
    }

    /// Where a partition stands is not known any more, from this index on, until [`open`](Self::open) tells. What it had stays told.
    pub fn lose_place(&mut self, partition: PartitionId, incarnation: Incarnation, from: LogIndex) {
        match self.state(partition, incarnation) {
            Ok(state) => state.lose_place(from),
            Err(_) => self.open_unknown(partition, incarnation, from),
        }
    }

    /// A snapshot of everything up to an entry was installed: that entry was handed to everybody. Partitions that it rolls forward stay;
    /// all others are to be opened.
    pub fn installed(&mut self, at: Option<LogIndex>, rolls_forward: impl Fn(PartitionId) -> bool) {
        self.partitions.retain(|partition, _| rolls_forward(*partition));
        self.dispatched = self.dispatched.max(at);
        self.durable = self.durable.max(at);
        // What is in the snapshot is durable, and nothing behind it was dispatched.
        self.not_durable.clear();
    }

    /// A partition was dropped. It holds nothing back any more, and late reports of it are stale.
    ///
    /// # Errors
    /// If it is not open in this incarnation.
    pub fn close(&mut self, partition: PartitionId, incarnation: Incarnation) -> Result<(), Stale> {
        self.state(partition, incarnation)?;
        self.partitions.remove(&partition);
        Ok(())
    }

    /// A committed entry was handed to its partitions: the last offset that each of them got of it. Entries without records for
    /// partitions count, too.
    ///
    /// # Panics
    /// If an entry comes twice or out of order, or for a partition that is not open.
    pub fn dispatched(
        &mut self,
        index: LogIndex,
        records: impl IntoIterator<Item = (PartitionId, PartitionOffset)>,
    ) {
        assert!(self.dispatched.is_none_or(|last| last < index), "WM-1: entries are dispatched in order");
        let durable = self.durable.is_some_and(|durable| durable >= index);
        for (partition, offset) in records {
            let reach = Reach { offset, index };
            let state = self.partitions.get_mut(&partition);
            let state =
                state.unwrap_or_else(|| panic!("WM-1: partition {partition} gets records and is not open"));
            state.dispatch(reach);
            if durable {
                state.make_durable(offset);
            } else {
                self.not_durable.push_back((partition, state.incarnation, reach));
            }
        }
        self.dispatched = Some(index);
    }

    /// The replicated log is on stable storage here up to this index.
    pub fn durable(&mut self, index: LogIndex) {
        self.durable = self.durable.max(Some(index));
        while let Some((partition, incarnation, reach)) = self.not_durable.front().copied() {
            if Some(reach.index) > self.durable {
                break;
            }
            self.not_durable.pop_front();
            if let Ok(state) = self.state(partition, incarnation) {
                state.make_durable(reach.offset);
            }
        }
    }

    /// The end of the replicated log was cut off from this index on, before it was committed: another leader had something else.
    ///
    /// # Panics
    /// If a committed entry was cut off.
    pub fn truncated_from(&mut self, index: LogIndex) {
        assert!(self.dispatched.is_none_or(|last| last < index), "ACK-1: a committed entry is never cut off");
        self.durable = self.durable.min(index.previous());
    }

    /// Outcomes up to this one exist.
    ///
    /// # Errors
    /// If the report is stale.
    ///
    /// # Panics
    /// If more is applied than is durable here (WM-1).
    pub fn applied(
        &mut self,
        partition: PartitionId,
        incarnation: Incarnation,
        reach: Reach,
    ) -> Result<(), Stale> {
        self.state(partition, incarnation)?.apply(reach);
        Ok(())
    }

    /// Outcomes up to this one are on stable storage.
    ///
    /// # Errors
    /// If the report is stale.
    ///
    /// # Panics
    /// If more is synced than is applied (WM-1).
    pub fn synced(
        &mut self,
        partition: PartitionId,
        incarnation: Incarnation,
        offset: PartitionOffset,
    ) -> Result<(), Stale> {
        self.state(partition, incarnation)?.sync(offset);
        Ok(())
    }

    /// The state derived from outcomes up to this one is on stable storage.
    ///
    /// # Errors
    /// If the report is stale.
    ///
    /// # Panics
    /// If it is ahead of what is synced (WM-1, LOG-2).
    pub fn checkpointed(
        &mut self,
        partition: PartitionId,
        incarnation: Incarnation,
        reach: Reach,
    ) -> Result<(), Stale> {
        self.state(partition, incarnation)?.checkpoint(reach);
        Ok(())
    }

    /// A snapshot holds outcomes up to this one.
    ///
    /// # Errors
    /// If the report is stale.
    ///
    /// # Panics
    /// If it is ahead of the checkpoint (WM-1).
    pub fn snapshot(
        &mut self,
        partition: PartitionId,
        incarnation: Incarnation,
        offset: PartitionOffset,
    ) -> Result<(), Stale> {
        self.state(partition, incarnation)?.take_snapshot(offset);
        Ok(())
    }

    /// The marks of a partition; none if it is not open.
    #[must_use]
    pub fn marks(&self, partition: PartitionId) -> Option<Marks> {
        self.partitions.get(&partition).map(|state| state.marks)
    }

    /// The last outcome of a partition, as far as was told.
    #[must_use]
    pub fn applied_of(&self, partition: PartitionId) -> Option<PartitionOffset> {
        self.marks(partition).and_then(|marks| marks.applied)
    }

    /// The marks of all partitions that are open.
    pub fn all(&self) -> impl Iterator<Item = (PartitionId, Incarnation, Marks)> + '_ {
        self.partitions.iter().map(|(partition, state)| (*partition, state.incarnation, state.marks))
    }

    /// Everything up to this log index that was meant for a partition has an outcome. None if not even the first entry counts.
    #[must_use]
    pub fn applied_through(&self, partition: PartitionId) -> Option<LogIndex> {
        self.partitions.get(&partition)?.applied_through(self.dispatched)
    }

    /// Everything up to this log index has an outcome, whatever its partition.
    #[must_use]
    pub fn applied_everywhere(&self) -> Option<LogIndex> {
        let least = self.partitions.values().map(|state| state.applied_through(self.dispatched)).min();
        least.unwrap_or(self.dispatched)
    }

    /// The lowest log index that a partition would need to read again if this node stopped now: the first entry with something for it
    /// that its checkpoint does not cover, or the one behind all that were dispatched.
    #[must_use]
    pub fn needed_from(&self, partition: PartitionId) -> Option<LogIndex> {
        self.partitions.get(&partition).map(|state| self.needed_by(state))
    }

    /// The same for all partitions that are open.
    pub fn all_needed_from(&self) -> impl Iterator<Item = (PartitionId, LogIndex)> + '_ {
        self.partitions.iter().map(|(partition, state)| (*partition, self.needed_by(state)))
    }

    /// The lowest log index that any checkpoint does not cover.
    #[must_use]
    pub fn lowest_needed(&self) -> LogIndex {
        self.partitions
            .values()
            .map(|state| self.needed_by(state))
            .min()
            .unwrap_or_else(|| self.behind_dispatched())
    }

    /// Entries up to here were handed to their partitions.
    #[must_use]
    pub fn last_dispatched(&self) -> Option<LogIndex> {
        self.dispatched
    }

    fn needed_by(&self, state: &State) -> LogIndex {
        state.needed_from().unwrap_or_else(|| self.behind_dispatched())
    }

    fn behind_dispatched(&self) -> LogIndex {
        match self.dispatched {
            None => LogIndex::FIRST,
            Some(index) => index.next().expect("log indexes end long before 64 bits do"),
        }
    }

    fn state(&mut self, partition: PartitionId, incarnation: Incarnation) -> Result<&mut State, Stale> {
        match self.partitions.get_mut(&partition) {
            None => Err(Stale::NotOpen { partition }),
            Some(state) if state.incarnation != incarnation => {
                Err(Stale::Incarnation { partition, current: state.incarnation, given: incarnation })
            }
            Some(state) => Ok(state),
        }
    }
}

#[cfg(test)]
mod tests;
