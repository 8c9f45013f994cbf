//! Who has what: per partition and offset, which replicas have it on stable storage, whether that is enough, and which entries of
//! the replicated log are still needed for it.
//!
//! ```text
//!  append ──▶ tracked ──acks──▶ satisfied ──applied──▶ finished ──release──▶ forgotten
//!                │  appended again at a higher index: acknowledgements start over
//!                └──▶ truncated: forgotten, and durable falls with it
//! ```
//!
//! An entry is needed until it is satisfied and applied. A partition with nothing unfinished needs nothing up to what is
//! durable: an idle partition never holds anything back.
//!
//! Invariants
//! - What was satisfied stays satisfied, whatever becomes of the members, until it is appended again or truncated.
//! - Offsets are kept as ranges: what follows each other and is in the same state costs one entry, however long it is.
//!
//! Must not know: how reports travel, what a majority is used for, files.

mod partition;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use gapless_types::{LogIndex, PartitionId, PartitionOffset};
use thiserror::Error;

use self::partition::Tracked;
use crate::NodeId;

/// When an entry is on enough replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// More than half of the members have it.
    Majority,
    /// So many members have it.
    Threshold(usize),
}

/// Whose acknowledgements count for a partition, and how many of them it takes. Without members every entry is satisfied at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quorum {
    /// Those who count.
    pub members: BTreeSet<NodeId>,
    /// How many of them.
    pub rule: Rule,
}

impl Quorum {
    /// How many acknowledgements it takes.
    fn needed(&self) -> usize {
        match self.rule {
            _ if self.members.is_empty() => 0,
            Rule::Majority => self.members.len() / 2 + 1,
            Rule::Threshold(count) => count,
        }
    }
}

/// What an acknowledgement came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// Members that have the entry.
    pub count: usize,
    /// Whether they are enough, now or earlier.
    pub satisfied: bool,
    /// Whether this one made it enough.
    pub newly: bool,
    /// Where the entry stands in the replicated log.
    pub index: LogIndex,
}

/// What can be told of the replicated log as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// The log is on stable storage up to here.
    pub durable: LogIndex,
    /// The lowest index that some partition still needs.
    pub min_required: LogIndex,
    /// Up to here nobody needs it.
    pub truncate_upto: LogIndex,
    /// Whether there is anything to cut.
    pub can_truncate: bool,
}

/// Why something is not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AckError {
    /// The partition is not registered.
    #[error("partition {partition} is not registered")]
    PartitionMissing {
        /// Which one.
        partition: PartitionId,
    },
    /// Nothing is known of the offset.
    #[error("offset {offset} of partition {partition} is not tracked")]
    EntryMissing {
        /// The partition.
        partition: PartitionId,
        /// The offset.
        offset: PartitionOffset,
    },
    /// Somebody has what was not appended here yet.
    #[error("offset {offset} of partition {partition} was appended at {appended}, not at {given}")]
    AckAhead {
        /// The partition.
        partition: PartitionId,
        /// The offset.
        offset: PartitionOffset,
        /// Its index here.
        appended: LogIndex,
        /// The index that was acknowledged.
        given: LogIndex,
    },
}

/// Offsets from one to another, both included.
pub type Offsets = RangeInclusive<PartitionOffset>;

/// Keeps who has what, on the leader.
#[derive(Debug)]
pub struct Acknowledgements {
    partitions: BTreeMap<PartitionId, Tracked>,
    /// Index 0 holds the first membership and no record, so it can stand for nothing.
    durable: LogIndex,
}

impl Default for Acknowledgements {
    fn default() -> Self {
        Self { partitions: BTreeMap::new(), durable: LogIndex::FIRST }
    }
}

impl Acknowledgements {
    /// Takes a partition in, or gives it another quorum. What is known of it is kept; acknowledgements of those who are no members
    /// any more do not count. Gives what became satisfied by the change.
    pub fn register(&mut self, partition: PartitionId, quorum: Quorum) -> Vec<Offsets> {
        match self.partitions.entry(partition) {
            std::collections::btree_map::Entry::Occupied(mut tracked) => tracked.get_mut().set_quorum(quorum),
            std::collections::btree_map::Entry::Vacant(vacant) => {
                vacant.insert(Tracked::new(quorum));
                Vec::new()
            }
        }
    }

    /// The replicated log is on stable storage here up to this index. Never falls, except by a truncation.
    pub fn durable(&mut self, index: LogIndex) -> LogIndex {
        self.durable = self.durable.max(index);
        self.durable
    }

    /// A record for a partition was appended to the replicated log. Again at the same or a lower index: nothing happens. At a
    /// higher one: it is another record, and acknowledgements start over.
    ///
    /// # Errors
    /// If the partition is not registered.
    pub fn append(
        &mut self,
        partition: PartitionId,
        offset: PartitionOffset,
        index: LogIndex,
    ) -> Result<(), AckError> {
        self.tracked(partition)?.append(offset, index);
        Ok(())
    }

    /// A replica has the record at this offset and index.
    ///
    /// # Errors
    /// If the partition or the offset is not known, or was not appended at this index yet.
    pub fn acknowledge(
        &mut self,
        partition: PartitionId,
        offset: PartitionOffset,
        index: LogIndex,
        replica: NodeId,
    ) -> Result<Acknowledged, AckError> {
        let tracked = self.tracked(partition)?;
        let appended = tracked.index_of(offset).ok_or(AckError::EntryMissing { partition, offset })?;
        if index > appended {
            return Err(AckError::AckAhead { partition, offset, appended, given: index });
        }
        let newly = index == appended && !tracked.acknowledge(offset..=offset, index, replica).is_empty();
        let (count, satisfied) = tracked.status(offset);
        Ok(Acknowledged { count, satisfied, newly, index: appended })
    }

    /// A replica reports that it has everything up to this offset, which stands at this index. What stands here at a higher index
    /// is another record than the replica has, and does not count. Gives what became satisfied.
    ///
    /// # Errors
    /// If the partition or the offset is not known, or was not appended at this index yet. Nothing is counted then.
    pub fn acknowledge_through(
        &mut self,
        partition: PartitionId,
        offset: PartitionOffset,
        index: LogIndex,
        replica: NodeId,
    ) -> Result<Vec<Offsets>, AckError> {
        let tracked = self.tracked(partition)?;
        let appended = tracked.index_of(offset).ok_or(AckError::EntryMissing { partition, offset })?;
        if index > appended {
            return Err(AckError::AckAhead { partition, offset, appended, given: index });
        }
        Ok(tracked.acknowledge(PartitionOffset::FIRST..=offset, index, replica))
    }

    /// The outcome of the record at this offset exists.
    ///
    /// # Errors
    /// If the partition or the offset is not known.
    pub fn applied(&mut self, partition: PartitionId, offset: PartitionOffset) -> Result<(), AckError> {
        let tracked = self.tracked(partition)?;
        tracked.index_of(offset).ok_or(AckError::EntryMissing { partition, offset })?;
        tracked.apply(offset..=offset);
        Ok(())
    }

    /// Outcomes of all records up to this offset exist; those that are not tracked do not matter.
    ///
    /// # Errors
    /// If the partition is not known.
    pub fn applied_through(
        &mut self,
        partition: PartitionId,
        offset: PartitionOffset,
    ) -> Result<(), AckError> {
        self.tracked(partition)?.apply(PartitionOffset::FIRST..=offset);
        Ok(())
    }

    /// The lowest index that a partition still needs: that of an entry that is not satisfied or not applied, or the one behind
    /// what is durable.
    ///
    /// # Errors
    /// If the partition is not known.
    pub fn min_required(&self, partition: PartitionId) -> Result<LogIndex, AckError> {
        let tracked = self.partitions.get(&partition).ok_or(AckError::PartitionMissing { partition })?;
        Ok(self.required_by(tracked))
    }

    /// What can be cut of a log that begins with `first_index`.
    #[must_use]
    pub fn marks(&self, first_index: LogIndex) -> Marks {
        let required = self.partitions.values().map(|tracked| self.required_by(tracked)).min();
        let min_required = required.unwrap_or_else(|| behind(self.durable));
        let truncate_upto = self.durable.min(min_required.previous().unwrap_or(LogIndex::FIRST));
        let can_truncate = truncate_upto >= first_index;
        Marks { durable: self.durable, min_required, truncate_upto, can_truncate }
    }

    /// The log was cut off from this index on, because another leader had something else there.
    pub fn truncate_from(&mut self, index: LogIndex) {
        self.durable = self.durable.min(index.previous().unwrap_or(LogIndex::FIRST));
        for tracked in self.partitions.values_mut() {
            tracked.truncate_from(index);
        }
    }

    /// The partition is gone, and needs nothing.
    ///
    /// # Errors
    /// If it is not known.
    pub fn remove(&mut self, partition: PartitionId) -> Result<(), AckError> {
        self.partitions.remove(&partition).map(drop).ok_or(AckError::PartitionMissing { partition })
    }

    /// Nobody needs this entry any more, in whatever state it is.
    ///
    /// # Errors
    /// If the partition or the offset is not known.
    pub fn release(&mut self, partition: PartitionId, offset: PartitionOffset) -> Result<(), AckError> {
        let tracked = self.tracked(partition)?;
        tracked.index_of(offset).ok_or(AckError::EntryMissing { partition, offset })?;
        tracked.forget(offset.get()..=offset.get());
        Ok(())
    }

    /// Forgets what is finished in all partitions, so that memory is bounded by what is not. Replicas that report it later are told
    /// [`AckError::EntryMissing`] for a single offset, and are right with a cumulative report.
    pub fn release_finished(&mut self) {
        self.partitions.values_mut().for_each(Tracked::release_finished);
    }

    fn required_by(&self, tracked: &Tracked) -> LogIndex {
        tracked.min_unfinished().unwrap_or_else(|| behind(self.durable))
    }

    fn tracked(&mut self, partition: PartitionId) -> Result<&mut Tracked, AckError> {
        self.partitions.get_mut(&partition).ok_or(AckError::PartitionMissing { partition })
    }
}

fn behind(index: LogIndex) -> LogIndex {
    index.next().expect("log indexes end long before 64 bits do")
}

#[cfg(test)]
mod tests;
