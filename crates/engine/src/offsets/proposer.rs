//! The proposer's side: reserving offsets for batches in flight, and knowing when not to.
//!
//! ```text
//!            term dispatched                   a batch failed, or a record of it was dropped
//!  Following ───────────────▶ Leading ───────────────────────────────────────────▶ Draining
//!      ▲                        ▲ │ reserve: offsets behind those in flight            │ nothing is reserved
//!      │ step down              │ └ resolve: forgets the batch                         │ resolve, until none is in flight
//!      └────────────────────────┼──────────────────────────────────────────────────────┤
//!                               └── `next` is read from the dispatcher again ◀─────────┘
//! ```

use std::collections::BTreeMap;

use gapless_types::{PartitionId, PartitionOffset};
use thiserror::Error;

use super::Dispatch;
use crate::keyed::KeyedMap;
use crate::limits::MAX_BATCHES_IN_FLIGHT;

/// Tells batches apart. Never used again, also not in a later term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchId(u64);

/// Offsets for the records of one proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// To be named when its fate is known.
    pub id: BatchId,
    /// One for each record, in their order.
    pub offsets: Vec<PartitionOffset>,
}

/// What became of a batch. Something unknown is not among them: such a batch stays in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was committed, and every record of it was delivered.
    Delivered,
    /// It was committed, and some record of it was dropped, or its partition was gone.
    Dropped,
    /// It was not committed and never will be.
    Failed,
}

/// Why no offsets are reserved. Nothing was lost: the records can wait or be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotNow {
    /// Another node leads, or this one has not seen its own first entry dispatched yet.
    #[error("this node does not lead")]
    Following,
    /// Something went wrong with an earlier batch, and those behind it are not resolved yet.
    #[error("{in_flight} batches have to be resolved first")]
    Draining {
        /// How many.
        in_flight: usize,
    },
    /// As many batches are in flight as may be.
    #[error("{MAX_BATCHES_IN_FLIGHT} batches are in flight")]
    Full,
    /// A partition is gone, or where it stands is not known yet.
    #[error("partition {partition} is gone, or where it stands is not known")]
    Gone {
        /// Which one.
        partition: PartitionId,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Following,
    Leading,
    Draining,
}

/// Reserves offsets for the proposals of one group.
#[derive(Debug)]
pub struct Proposer {
    state: State,
    next_batch: u64,
    /// Batches whose fate is not known, and how many records of which partition they have.
    in_flight: BTreeMap<BatchId, KeyedMap<PartitionId, usize>>,
    /// Partitions with records in flight: how many, and the offset behind the last one.
    reserved: KeyedMap<PartitionId, Reserved>,
    /// Records of all batches in flight.
    records: usize,
}

#[derive(Clone, Copy, Debug)]
struct Reserved {
    records: usize,
    next: PartitionOffset,
}

impl Default for Proposer {
    fn default() -> Self {
        Self {
            state: State::Following,
            next_batch: 0,
            in_flight: BTreeMap::new(),
            reserved: KeyedMap::default(),
            records: 0,
        }
    }
}

impl Proposer {
    /// This node leads, and its first entry was dispatched: whatever was proposed before has been dispatched or never will be. Gives
    /// the batches of earlier terms whose fate was not told; they have failed.
    pub fn lead(&mut self) -> Vec<BatchId> {
        self.state = State::Leading;
        self.reserved.clear();
        self.records = 0;
        std::mem::take(&mut self.in_flight).into_keys().collect()
    }

    /// Another node leads. What is in flight may still be committed.
    pub fn step_down(&mut self) {
        self.state = State::Following;
    }

    /// Whether a batch has no fate yet, and was reserved since this node leads.
    #[must_use]
    pub fn is_in_flight(&self, batch: BatchId) -> bool {
        self.in_flight.contains_key(&batch)
    }

    /// How many batches have no fate yet.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// How many records have no fate yet.
    #[must_use]
    pub fn records_in_flight(&self) -> usize {
        self.records
    }

    /// Offsets for records of these partitions, in their order, to be proposed as one entry and in the order of the batches.
    ///
    /// # Errors
    /// If offsets would be a guess, or too many batches are in flight. Nothing is reserved then.
    pub fn reserve(
        &mut self,
        dispatch: &Dispatch,
        records: impl IntoIterator<Item = PartitionId>,
    ) -> Result<Batch, NotNow> {
        match self.state {
            State::Following => return Err(NotNow::Following),
            State::Draining => return Err(NotNow::Draining { in_flight: self.in_flight.len() }),
            State::Leading if self.in_flight.len() >= MAX_BATCHES_IN_FLIGHT => return Err(NotNow::Full),
            State::Leading => {}
        }
        let (mut offsets, mut counts) = (Vec::new(), KeyedMap::default());
        let mut reserving: KeyedMap<PartitionId, PartitionOffset> = KeyedMap::default();
        for partition in records {
            let next = match (reserving.get(&partition), self.reserved.get(&partition)) {
                (Some(next), _) => *next,
                (None, Some(reserved)) => reserved.next,
                (None, None) => dispatch.next(partition).ok_or(NotNow::Gone { partition })?,
            };
            offsets.push(next);
            *counts.entry(partition).or_insert(0_usize) += 1;
            reserving.insert(partition, next.next().expect("partition offsets end long before 64 bits do"));
        }
        for (partition, next) in reserving {
            let reserved = self.reserved.entry(partition).or_insert(Reserved { records: 0, next });
            *reserved = Reserved { records: reserved.records + counts[&partition], next };
        }
        let id = BatchId(self.next_batch);
        self.next_batch += 1;
        self.records += offsets.len();
        self.in_flight.insert(id, counts);
        Ok(Batch { id, offsets })
    }

    /// The fate of a batch is known. A committed one is resolved after all of its records were judged, so that `next` of the
    /// dispatcher counts them. One that is not in flight was resolved by a change of leader, and does not matter.
    pub fn resolve(&mut self, batch: BatchId, fate: Fate) {
        let Some(counts) = self.in_flight.remove(&batch) else { return };
        if fate != Fate::Delivered && self.state == State::Leading {
            self.state = State::Draining;
        }
        for (partition, count) in counts {
            let reserved = self.reserved.get_mut(&partition).expect("what is in flight is reserved");
            reserved.records -= count;
            self.records -= count;
            // Nothing is in flight for it: the dispatcher knows better.
            if reserved.records == 0 {
                self.reserved.remove(&partition);
            }
        }
        if self.in_flight.is_empty() {
            assert!(self.reserved.is_empty(), "NUM-2: offsets are reserved for nobody");
            assert_eq!(self.records, 0, "NUM-2: nothing is in flight, so nobody's record is");
            if self.state == State::Draining {
                self.state = State::Leading;
            }
        }
    }
}
