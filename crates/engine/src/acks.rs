//! Step 8 of the corridor: who is told when a write has its outcome.
//!
//! A write is registered under the place it is proposed for, before it is proposed, and taken out on every exit: its outcome, a
//! record that the dispatcher dropped, a proposal that was refused, a change of leader. What is applied at that place is its own
//! only if it is the same request: the place alone can be somebody else's after a change of leader.
//!
//! They are registered in the order of their places, and nearly always told in that order.
//!
//! Must not know: queues, tasks, how an order is agreed on.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use gapless_partition::{Outcome, RequestDigest};
use gapless_types::{PartitionId, PartitionOffset};

use crate::admission::Permit;
use crate::keyed::KeyedMap;
use crate::log_time::LogTime;
use crate::recall::Proposed;

/// A place in a partition's log.
pub(crate) type AckPlace = (PartitionId, PartitionOffset);

/// Writes that were proposed and have no fate yet.
#[derive(Debug, Default)]
pub(crate) struct Acks(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    partitions: KeyedMap<PartitionId, VecDeque<(PartitionOffset, Waiting)>>,
    count: usize,
}

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
    pub(crate) outcome: Arc<Outcome>,
}

impl Acks {
    /// These writes are about to be proposed, each for its place, in the order of their places.
    pub(crate) fn register(&self, writes: impl IntoIterator<Item = (AckPlace, Waiting)>) {
        let mut table = self.lock();
        for ((partition, offset), waiting) in writes {
            table.partitions.entry(partition).or_default().push_back((offset, waiting));
            table.count += 1;
        }
    }

    /// The digests of those commands of a partition that somebody here waits for: each was computed when it was looked up. The place
    /// alone says nothing, because it can be somebody else's.
    pub(crate) fn digests(
        &self,
        partition: PartitionId,
        commands: &[(PartitionOffset, Bytes)],
    ) -> Vec<Option<RequestDigest>> {
        let table = self.lock();
        let (Some(waiting), Some((first, _))) = (table.partitions.get(&partition), commands.first()) else {
            return Vec::new();
        };
        // They are in the order of their places, unless some came to nothing; whoever is not found is computed again.
        let from = waiting.partition_point(|(offset, _)| offset < first);
        let mut waiting = waiting.range(from..).peekable();
        let digest_of = |(offset, command): &(PartitionOffset, Bytes)| {
            let (_, waiting) = waiting.next_if(|(other, _)| other == offset)?;
            (waiting.command == *command).then(|| waiting.proposed.digest())
        };
        commands.iter().map(digest_of).collect()
    }

    /// Records of a partition have their outcomes.
    pub(crate) fn decided(&self, partition: PartitionId, decided: Vec<Decided>) {
        let (mut told, mut permits) = (Vec::with_capacity(decided.len()), Vec::with_capacity(decided.len()));
        {
            let mut table = self.lock();
            for Decided { offset, command, time, outcome } in decided {
                if let Some(Waiting { proposed, permit, .. }) = table.take((partition, offset), &command) {
                    permits.push(permit);
                    told.push((proposed, outcome, time));
                }
            }
        }
        // Given back first: whoever is told may come again at once.
        Permit::release_all(permits);
        Proposed::all_decided(&told);
    }

    /// The record for this place was dropped by the dispatcher.
    pub(crate) fn dropped(&self, place: AckPlace, command: &Bytes) {
        let waiting = self.lock().take(place, command);
        if let Some(waiting) = waiting {
            waiting.vanished();
        }
    }

    /// These were certainly not appended.
    pub(crate) fn refused(&self, places: impl IntoIterator<Item = AckPlace>) {
        for place in places {
            let waiting = self.lock().remove(place, |_| true);
            if let Some(waiting) = waiting {
                waiting.vanished();
            }
        }
    }

    /// A partition applies nothing here any more: whoever waits for it looks again, and finds out.
    pub(crate) fn give_up(&self, partition: PartitionId) {
        let given_up = {
            let mut table = self.lock();
            let given_up = table.partitions.remove(&partition).unwrap_or_default();
            table.count -= given_up.len();
            given_up
        };
        for (_, waiting) in given_up {
            waiting.vanished();
        }
    }

    /// Another node leads, or this one anew: nobody will be told here.
    pub(crate) fn clear(&self) {
        let table = std::mem::take(&mut *self.lock());
        // In which order somebody is told follows from what was written, and from nothing else.
        let mut partitions: Vec<_> = table.partitions.into_iter().collect();
        partitions.sort_unstable_by_key(|(partition, _)| *partition);
        drop(partitions);
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().count
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// The write that waits for this place, if it is this one.
    fn take(&mut self, place: AckPlace, command: &Bytes) -> Option<Waiting> {
        self.remove(place, |waiting| waiting.command == *command)
    }

    fn remove(&mut self, (partition, offset): AckPlace, is_it: impl Fn(&Waiting) -> bool) -> Option<Waiting> {
        let waiting = self.partitions.get_mut(&partition)?;
        let index = match waiting.front() {
            Some((first, _)) if *first == offset => 0,
            _ => waiting.iter().position(|(other, _)| *other == offset)?,
        };
        if !is_it(&waiting[index].1) {
            return None;
        }
        let (_, found) = waiting.remove(index)?;
        if waiting.is_empty() {
            self.partitions.remove(&partition);
        }
        self.count -= 1;
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use gapless_partition::{Refusal, RefusalCode};
    use gapless_types::{ClientId, IdempotencyKey, NamespaceId, PartitionIndex, WorkspaceId};

    use super::*;
    use crate::admission::{Admission, AdmissionLimits, Request};
    use crate::log_time::manual::ManualClock;
    use crate::recall::{Answer, Recall, RecallLimits, Recalled, Waiter, Window, WriteIdentity};

    const LIMITS: RecallLimits = RecallLimits { outcomes: 100, outcome_bytes: 1 << 20, in_flight: 100 };

    /// Writes of one partition that wait for the places 1, 2, 3 and so on.
    struct Proposals {
        acks: Acks,
        waiters: Vec<Waiter>,
    }

    fn partition() -> PartitionId {
        PartitionId { namespace: NamespaceId::new(1), index: PartitionIndex::new(0) }
    }

    fn offset(place: u8) -> PartitionOffset {
        PartitionOffset::new(u64::from(place)).unwrap()
    }

    fn command(place: u8) -> Bytes {
        Bytes::from(vec![place])
    }

    fn outcome(place: u8) -> Arc<Outcome> {
        Arc::new(Outcome::Refused(Refusal {
            code: RefusalCode::KeyExists,
            operation: None,
            key: Bytes::new(),
            current_version: None,
            current_value: None,
            message: format!("outcome {place}"),
        }))
    }

    fn decided(place: u8) -> Decided {
        Decided {
            offset: offset(place),
            command: command(place),
            time: LogTime::ZERO,
            outcome: outcome(place),
        }
    }

    impl Proposals {
        fn new(count: u8) -> Self {
            let admission =
                Admission::new(AdmissionLimits::default(), Arc::new(ManualClock::default()), None).unwrap();
            let recall = Recall::new(LIMITS);
            recall.lead();
            let (acks, mut waiters) = (Acks::default(), Vec::new());
            acks.register((1..=count).map(|place| {
                let key = IdempotencyKey::new([place; 16]).unwrap();
                let identity = WriteIdentity {
                    namespace: NamespaceId::new(1),
                    workspace: WorkspaceId::new(1),
                    client: ClientId::new("till").unwrap(),
                    key,
                };
                let window = Window { now: LogTime::ZERO, millis: 1000 };
                let looked_up = recall.lookup(&identity, RequestDigest::of(&[place]), window).unwrap();
                let Recalled::New(flight) = looked_up else { panic!("{looked_up:?}") };
                waiters.push(flight.waiter());
                let request = Request { partition: partition(), bytes: 10, key, client: "till" };
                let permit = admission.admit(request).unwrap();
                let waiting = Waiting { command: command(place), proposed: flight.proposed(), permit };
                ((partition(), offset(place)), waiting)
            }));
            Self { acks, waiters }
        }

        /// What whoever waits for each place was told.
        fn told(&self) -> Vec<Option<Answer>> {
            self.waiters.iter().map(Waiter::try_answer).collect()
        }
    }

    #[test]
    fn outcomes_in_any_order_of_their_places_reach_those_who_wait_for_them() {
        for order in [[1, 2, 3, 4], [4, 3, 2, 1], [2, 1, 4, 3], [3, 1, 4, 2]] {
            for at_once in [1, 2, 4] {
                let proposals = Proposals::new(4);
                let mut known = Vec::new();
                for places in order.chunks(at_once) {
                    proposals.acks.decided(partition(), places.iter().copied().map(decided).collect());
                    known.extend_from_slice(places);
                    let expected: Vec<_> = (1..=4)
                        .map(|place| known.contains(&place).then(|| Answer::Outcome(outcome(place))))
                        .collect();
                    assert_eq!(proposals.told(), expected, "{order:?}, {at_once} at once");
                    assert_eq!(proposals.acks.len(), 4 - known.len());
                }
                // Told again, nobody waits any more; and nothing is held.
                proposals.acks.decided(partition(), order.map(decided).into());
                assert_eq!(proposals.acks.len(), 0);
                assert!(proposals.acks.lock().partitions.is_empty());
            }
        }
    }

    #[test]
    fn digests_are_those_of_the_very_commands_that_wait() {
        let proposals = Proposals::new(4);
        let asked = |places: &[(u8, u8)]| -> Vec<_> {
            places.iter().map(|(place, of)| (offset(*place), command(*of))).collect()
        };
        let digests = |places: &[(u8, u8)]| proposals.acks.digests(partition(), &asked(places));
        let of = |place: u8| Some(RequestDigest::of(&[place]));
        assert_eq!(digests(&[(1, 1), (2, 2), (3, 3), (4, 4)]), [of(1), of(2), of(3), of(4)]);
        // Those in front were decided; somebody else's is among them; one that nobody waits for comes behind.
        proposals.acks.decided(partition(), vec![decided(1)]);
        assert_eq!(digests(&[(1, 1), (2, 2)]), [None, of(2)]);
        assert_eq!(digests(&[(2, 9), (3, 3), (4, 4), (5, 5)]), [None, of(3), of(4), None]);
        assert_eq!(digests(&[(3, 3)]), [of(3)]);
        assert_eq!(digests(&[]), []);
        let other = PartitionId { index: PartitionIndex::new(7), ..partition() };
        assert_eq!(proposals.acks.digests(other, &asked(&[(1, 1)])), []);
    }

    #[test]
    fn what_is_applied_at_a_place_of_another_request_is_nobodys_outcome() {
        let proposals = Proposals::new(3);
        // Somebody else's record, at a place behind the first and at the first; and a place that nobody waits for.
        for place in [2, 1] {
            let others = Decided { command: command(9), ..decided(place) };
            proposals.acks.decided(partition(), vec![others]);
            proposals.acks.dropped((partition(), offset(place)), &command(9));
        }
        proposals.acks.decided(partition(), vec![decided(7)]);
        assert_eq!((proposals.told(), proposals.acks.len()), (vec![None; 3], 3));
        proposals.acks.dropped((partition(), offset(2)), &command(2));
        proposals.acks.refused([(partition(), offset(3))]);
        proposals.acks.decided(partition(), vec![decided(1)]);
        let expected = [Answer::Outcome(outcome(1)), Answer::Again, Answer::Again].map(Some);
        assert_eq!(proposals.told(), expected);
        assert_eq!(proposals.acks.len(), 0);
    }
}
