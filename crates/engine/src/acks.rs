//! Step 8 of the corridor: who is told when a write has its outcome.
//!
//! A write is registered under the place it is proposed for, before it is proposed, and taken out on every exit: its outcome, a
//! record that the dispatcher dropped, a proposal that was refused, a change of leader. What is applied at that place is its own
//! only if it is the same request: the place alone can be somebody else's after a change of leader.
//!
//! Must not know: queues, tasks, how an order is agreed on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use gapless_partition::Outcome;
use gapless_types::{PartitionId, PartitionOffset};

use crate::admission::Permit;
use crate::keyed::KeyedMap;
use crate::log_time::LogTime;
use crate::recall::Proposed;

/// A place in a partition's log.
pub(crate) type AckPlace = (PartitionId, PartitionOffset);

/// Writes that were proposed and have no fate yet.
#[derive(Debug, Default)]
pub(crate) struct Acks(Mutex<KeyedMap<AckPlace, Waiting>>);

/// A write that was proposed.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) command: Bytes,
    pub(crate) proposed: Proposed,
    /// Given back when the write has its fate, whoever still waits for it.
    pub(crate) permit: Permit,
}

impl Waiting {
    /// Nothing was written. The permit is given back first: whoever is told may come again at once.
    fn vanished(self) {
        let Self { proposed, permit, .. } = self;
        drop(permit);
        proposed.vanished();
    }
}

/// What became of a record.
#[derive(Debug)]
pub(crate) struct Decided {
    pub(crate) offset: PartitionOffset,
    pub(crate) command: Bytes,
    pub(crate) time: LogTime,
    pub(crate) outcome: Outcome,
}

impl Acks {
    /// These writes are about to be proposed, each for its place.
    pub(crate) fn register(&self, writes: impl IntoIterator<Item = (AckPlace, Waiting)>) {
        self.lock().extend(writes);
    }

    /// Records of a partition have their outcomes.
    pub(crate) fn decided(&self, partition: PartitionId, decided: Vec<Decided>) {
        let taken: Vec<(Waiting, Decided)> = {
            let mut waiting = self.lock();
            let take = |decided: Decided| {
                Some((take(&mut waiting, (partition, decided.offset), &decided.command)?, decided))
            };
            decided.into_iter().filter_map(take).collect()
        };
        let told =
            taken.into_iter().map(|(Waiting { proposed, permit, .. }, Decided { outcome, time, .. })| {
                // Given back first: whoever is told may come again at once.
                drop(permit);
                (proposed, Arc::new(outcome), time)
            });
        Proposed::all_decided(&told.collect::<Vec<_>>());
    }

    /// The record for this place was dropped by the dispatcher.
    pub(crate) fn dropped(&self, place: AckPlace, command: &Bytes) {
        let waiting = take(&mut self.lock(), place, command);
        if let Some(waiting) = waiting {
            waiting.vanished();
        }
    }

    /// These were certainly not appended.
    pub(crate) fn refused(&self, places: impl IntoIterator<Item = AckPlace>) {
        for place in places {
            let waiting = self.lock().remove(&place);
            if let Some(waiting) = waiting {
                waiting.vanished();
            }
        }
    }

    /// A partition applies nothing here any more: whoever waits for it looks again, and finds out.
    pub(crate) fn give_up(&self, partition: PartitionId) {
        let given_up = self.lock().extract_if(|(of, _), _| *of == partition).collect();
        for waiting in in_order(given_up) {
            waiting.vanished();
        }
    }

    /// Another node leads, or this one anew: nobody will be told here.
    pub(crate) fn clear(&self) {
        let waiting = std::mem::take(&mut *self.lock());
        in_order(waiting.into_iter().collect()).for_each(drop);
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, KeyedMap<AckPlace, Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes by their places: in which order somebody is told follows from what was written, and from nothing else.
fn in_order(mut waiting: Vec<(AckPlace, Waiting)>) -> impl Iterator<Item = Waiting> {
    waiting.sort_unstable_by_key(|(place, _)| *place);
    waiting.into_iter().map(|(_, waiting)| waiting)
}

fn take(waiting: &mut KeyedMap<AckPlace, Waiting>, place: AckPlace, command: &Bytes) -> Option<Waiting> {
    match waiting.get(&place) {
        Some(found) if found.command == *command => waiting.remove(&place),
        _ => None,
    }
}
