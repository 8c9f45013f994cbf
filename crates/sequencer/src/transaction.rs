//! The numbers of one event, from the moment they are asked for until it is known whether the event is in the log.
//!
//! Invariants
//! - Numbers come from, in this order: the transaction itself, the cache, the unflushed set, the storage, the initial
//!   number. All hold the last issued number; where two know one, the larger counts.
//! - The first number is the initial number, and never less.
//! - Nothing of a transaction is seen outside before `flush`, and all of it after.

use gapless_types::{PartitionOffset, SequenceId, WorkspaceId, WorkspaceKind};

use crate::cache::Slot;
use crate::error::NextError;
use crate::sequencer::Sequencer;
use crate::storage::{SequenceValue, Storage};

/// An open transaction: the offset and the numbers of an event that is about to be appended to the log.
///
/// [`flush`](Self::flush) and [`actualize`](Self::actualize) consume it; dropping it unfinished means `actualize`.
#[must_use = "dropped unfinished, it makes the sequencer read the log again"]
pub struct Transaction<'a, S: Storage> {
    sequencer: &'a mut Sequencer<S>,
    /// Where the kind stands among the kinds.
    kind: usize,
    workspace: WorkspaceId,
    offset: PartitionOffset,
    finished: bool,
}

impl<'a, S: Storage> Transaction<'a, S> {
    #[inline]
    pub(crate) fn new(
        sequencer: &'a mut Sequencer<S>,
        kind: usize,
        workspace: WorkspaceId,
        offset: PartitionOffset,
    ) -> Self {
        Self { sequencer, kind, workspace, offset, finished: false }
    }

    /// The offset that the event will have in the log.
    #[must_use]
    pub fn offset(&self) -> PartitionOffset {
        self.offset
    }

    /// The workspace whose numbers these are.
    #[must_use]
    pub fn workspace(&self) -> WorkspaceId {
        self.workspace
    }

    /// Takes the next number of a sequence.
    ///
    /// # Errors
    /// If the kind of the workspace has no such sequence, none of its numbers is left, or the storage cannot be read. The
    /// transaction stays open, and no number is taken.
    #[inline]
    pub fn next(&mut self, sequence: SequenceId) -> Result<u64, NextError<S::Error>> {
        let position = self.position(sequence)?;
        let last = self.last_number(position, sequence)?;
        let initial = self.sequencer.shared.kinds.at(self.kind).initial_number(position);
        let number = if last < initial {
            initial
        } else {
            last.checked_add(1).ok_or(NextError::NumbersExhausted { sequence })?
        };
        self.sequencer.scratch.places[position].raise(number);
        Ok(number)
    }

    /// The last number of a sequence that was issued or observed, by this transaction or before it; 0 if there is none. Takes
    /// nothing.
    ///
    /// # Errors
    /// If the kind of the workspace has no such sequence, or the storage cannot be read. The transaction stays open.
    pub fn last(&mut self, sequence: SequenceId) -> Result<u64, NextError<S::Error>> {
        let position = self.position(sequence)?;
        let last = self.last_number(position, sequence)?;
        let initial = self.sequencer.shared.kinds.at(self.kind).initial_number(position);
        Ok(if last < initial { 0 } else { last })
    }

    /// Takes note of a number that the event brings with it, such as an imported record id: the sequence continues above
    /// it. Numbers below the initial one, and those that were issued before, do not move the sequence.
    ///
    /// # Errors
    /// If the kind of the workspace has no such sequence, or the storage cannot be read. The transaction stays open.
    pub fn observe(&mut self, sequence: SequenceId, number: u64) -> Result<(), NextError<S::Error>> {
        let position = self.position(sequence)?;
        if number < self.sequencer.shared.kinds.at(self.kind).initial_number(position) {
            return Ok(());
        }
        let last = self.last_number(position, sequence)?;
        if number > last {
            self.sequencer.scratch.places[position].raise(number);
        }
        Ok(())
    }

    /// The event is in the log: keeps the numbers, and advances the offset by one, also when no number was taken.
    #[inline]
    pub fn flush(mut self) {
        self.finished = true;
        let Sequencer { shared, cache, scratch, .. } = &mut *self.sequencer;
        let sequences = shared.kinds.at(self.kind).sequences();
        let workspace = self.workspace;
        for &position in &scratch.used {
            let place = &scratch.places[usize::from(position)];
            if place.changed {
                cache.set(place.slot, workspace, sequences[usize::from(position)], place.last);
            }
        }
        let changed = scratch.used.iter().filter_map(|&position| {
            let place = &scratch.places[usize::from(position)];
            let sequence = sequences[usize::from(position)];
            place.changed.then_some(SequenceValue { workspace, sequence, number: place.last })
        });
        shared.commit(self.offset, changed);
        scratch.reset();
    }

    /// The event is not in the log, or nobody knows: forgets the numbers and reads the log's tail again.
    pub fn actualize(self) {
        drop(self);
    }

    #[inline]
    fn position(&self, sequence: SequenceId) -> Result<usize, NextError<S::Error>> {
        let kind = self.sequencer.shared.kinds.at(self.kind);
        kind.position(sequence).ok_or_else(|| NextError::UnknownSequence { kind: self.kind(), sequence })
    }

    /// The kind of the workspace.
    #[must_use]
    pub fn kind(&self) -> WorkspaceKind {
        self.sequencer.shared.kinds.at(self.kind).id()
    }

    /// The last number issued or observed, whoever knows it; 0 if nobody does.
    #[inline]
    fn last_number(&mut self, position: usize, sequence: SequenceId) -> Result<u64, NextError<S::Error>> {
        let sequencer = &mut *self.sequencer;
        let place = &sequencer.scratch.places[position];
        if place.known {
            sequencer.hits.transaction += 1;
            return Ok(place.last);
        }
        let (slot, last) = match sequencer.cache.get(self.workspace, sequence) {
            Some(found) => {
                sequencer.hits.cache += 1;
                found
            }
            None => self.find_below_the_cache(position, sequence)?,
        };
        self.sequencer.scratch.learn(position, last, slot);
        Ok(last)
    }

    /// Asks the unflushed set and then the storage, which is asked for all sequences of the workspace at once.
    #[inline(never)]
    fn find_below_the_cache(
        &mut self,
        position: usize,
        sequence: SequenceId,
    ) -> Result<(Slot, u64), NextError<S::Error>> {
        let Sequencer { shared, cache, scratch, hits, .. } = &mut *self.sequencer;
        let kind = shared.kinds.at(self.kind);
        let sequences = kind.sequences();
        let workspace = self.workspace;
        if scratch.fetched {
            // Read for this transaction before, and too many for the cache.
            hits.transaction += 1;
            let last = scratch.stored[position];
            return Ok((cache.insert(workspace, sequence, last), last));
        }
        let stored = &mut scratch.stored[..sequences.len()];
        let unflushed = &mut scratch.unflushed[..sequences.len()];
        unflushed.fill(0);
        // Before the storage is read: what leaves the set afterwards has reached the storage by then.
        shared.state().unflushed.raise(workspace, sequences, unflushed);
        // Also if the set knows a number: one that came from the log's tail may be an imported id below the stored number.
        shared.storage.read_numbers(workspace, sequences, stored).map_err(NextError::Storage)?;
        match (unflushed[position], stored[position]) {
            (set, stored) if set.max(stored) < kind.initial_number(position) => hits.initial += 1,
            (set, stored) if set >= stored => hits.unflushed += 1,
            _ => hits.storage += 1,
        }
        for (stored, unflushed) in stored.iter_mut().zip(unflushed) {
            *stored = (*stored).max(*unflushed);
        }
        scratch.fetched = true;
        let last = stored[position];
        // A kind with very many sequences would push everything else out of the cache.
        if sequences.len() <= cache.most() / 4 {
            for (other, last) in sequences.iter().zip(stored.iter()) {
                if *other != sequence {
                    cache.insert(workspace, *other, *last);
                }
            }
        }
        Ok((cache.insert(workspace, sequence, last), last))
    }
}

impl<S: Storage> Drop for Transaction<'_, S> {
    #[inline]
    fn drop(&mut self) {
        if !self.finished {
            self.sequencer.scratch.reset();
            self.sequencer.cache.clear();
            self.sequencer.shared.order_actualization();
        }
    }
}

impl<S: Storage> std::fmt::Debug for Transaction<'_, S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Transaction")
            .field("workspace", &self.workspace)
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

/// What the open transaction knows, in memory that is used again for the next one.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// One for each sequence of the kind.
    places: Vec<Place>,
    /// The places that are known.
    used: Vec<u16>,
    /// What the storage and the unflushed set had when they were asked.
    stored: Vec<u64>,
    unflushed: Vec<u64>,
    /// They were asked by this transaction.
    fetched: bool,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    last: u64,
    slot: Slot,
    known: bool,
    changed: bool,
}

impl Place {
    const UNKNOWN: Self = Self { last: 0, slot: Slot::NONE, known: false, changed: false };

    #[inline]
    fn raise(&mut self, number: u64) {
        self.last = number;
        self.changed = true;
    }
}

impl Scratch {
    pub(crate) fn new(sequences: usize) -> Self {
        Self {
            places: vec![Place::UNKNOWN; sequences],
            used: Vec::with_capacity(sequences),
            stored: vec![0; sequences],
            unflushed: vec![0; sequences],
            fetched: false,
        }
    }

    #[inline]
    fn learn(&mut self, position: usize, last: u64, slot: Slot) {
        self.places[position] = Place { last, slot, known: true, changed: false };
        self.used.push(u16::try_from(position).expect("a kind has at most 65 535 sequences"));
    }

    #[inline]
    fn reset(&mut self) {
        for position in self.used.drain(..) {
            self.places[usize::from(position)] = Place::UNKNOWN;
        }
        self.fetched = false;
    }
}
