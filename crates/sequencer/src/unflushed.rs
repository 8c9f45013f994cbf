//! What the log knows and the storage does not yet: the last numbers of the workspaces that changed.
//!
//! Invariants
//! - A value is forgotten only after it was written, and only if no larger one has come since.
//! - Merging is by maximum.
//!
//! ```text
//!   merge ──▶ active ──(begin_write: the two change places)──▶ writing ──(end_write)──▶ forgotten
//!                └────────────── a value is looked for in both ──────┘
//! ```
//!
//! So beginning and ending a write take moments, however much is written; and a value that changes while it is being
//! written stands in both, counts once, and stays.

use std::sync::Arc;

use gapless_types::{SequenceId, WorkspaceId};
use hashbrown::HashTable;

use crate::hash::HashSeed;
use crate::storage::SequenceValue;

/// The largest number of each workspace and sequence that came in.
#[derive(Debug)]
pub(crate) struct NumberSet {
    seed: HashSeed,
    values: Vec<SequenceValue>,
    table: HashTable<u32>,
}

impl NumberSet {
    fn new(seed: HashSeed) -> Self {
        Self { seed, values: Vec::new(), table: HashTable::new() }
    }

    pub(crate) fn values(&self) -> &[SequenceValue] {
        &self.values
    }

    /// Whether the key was not there before.
    #[inline]
    fn merge(&mut self, value: SequenceValue) -> bool {
        let Self { seed, values, table } = self;
        let hash = seed.hash(value.workspace, value.sequence);
        let same = |index: &u32| {
            let known = &values[*index as usize];
            known.workspace == value.workspace && known.sequence == value.sequence
        };
        if let Some(index) = table.find(hash, same) {
            let known = &mut values[*index as usize];
            known.number = known.number.max(value.number);
            return false;
        }
        let index = u32::try_from(values.len()).expect("back-pressure keeps the set small");
        values.push(value);
        table.insert_unique(hash, index, |index| {
            let known = &values[*index as usize];
            seed.hash(known.workspace, known.sequence)
        });
        true
    }

    #[inline]
    fn get(&self, workspace: WorkspaceId, sequence: SequenceId) -> u64 {
        if self.values.is_empty() {
            return 0;
        }
        let found = self.table.find(self.seed.hash(workspace, sequence), |index| {
            let known = &self.values[*index as usize];
            known.workspace == workspace && known.sequence == sequence
        });
        found.map_or(0, |index| self.values[*index as usize].number)
    }

    fn clear(&mut self) {
        self.values.clear();
        self.table.clear();
    }
}

/// The unflushed values, in two sets of which one may be on its way to the storage.
#[derive(Debug)]
pub(crate) struct Unflushed {
    active: NumberSet,
    writing: Arc<NumberSet>,
    /// Keys in either set.
    count: usize,
}

impl Unflushed {
    pub(crate) fn new(seed: HashSeed) -> Self {
        Self { active: NumberSet::new(seed), writing: Arc::new(NumberSet::new(seed)), count: 0 }
    }

    /// Values that the storage does not have for certain.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    #[inline]
    pub(crate) fn merge(&mut self, value: SequenceValue) {
        if self.active.merge(value) && self.writing.get(value.workspace, value.sequence) == 0 {
            self.count += 1;
        }
    }

    /// The last number; 0 if there is none here.
    pub(crate) fn get(&self, workspace: WorkspaceId, sequence: SequenceId) -> u64 {
        self.active.get(workspace, sequence).max(self.writing.get(workspace, sequence))
    }

    /// Raises `numbers` to what is known here of these sequences, which are sorted.
    pub(crate) fn raise(&self, workspace: WorkspaceId, sequences: &[SequenceId], numbers: &mut [u64]) {
        let held = self.active.values.len() + self.writing.values.len();
        if sequences.len() <= held {
            for (sequence, number) in sequences.iter().zip(numbers) {
                *number = self.get(workspace, *sequence).max(*number);
            }
            return;
        }
        // Of a kind with very many sequences only few are here.
        for value in self.active.values.iter().chain(&self.writing.values) {
            if value.workspace == workspace
                && let Ok(position) = sequences.binary_search(&value.sequence)
            {
                numbers[position] = numbers[position].max(value.number);
            }
        }
    }

    /// Everything that came in so far goes on its way; what comes now is for the next write.
    pub(crate) fn begin_write(&mut self) -> Arc<NumberSet> {
        debug_assert!(self.writing.values.is_empty(), "one write at a time");
        let writing =
            Arc::get_mut(&mut self.writing).expect("nobody holds the set while no write is going on");
        std::mem::swap(&mut self.active, writing);
        self.writing.clone()
    }

    /// The write has ended well, and its set was handed back by dropping it.
    pub(crate) fn end_write(&mut self) {
        self.forget_writing();
        self.count = self.active.values.len();
    }

    /// Forgets everything. Not while somebody writes.
    pub(crate) fn clear(&mut self) {
        self.forget_writing();
        self.active.clear();
        self.count = 0;
    }

    fn forget_writing(&mut self) {
        Arc::get_mut(&mut self.writing).expect("the set is handed back before it is forgotten").clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(workspace: u64, sequence: u16, number: u64) -> SequenceValue {
        SequenceValue { workspace: WorkspaceId::new(workspace), sequence: SequenceId::new(sequence), number }
    }

    fn number(unflushed: &Unflushed, workspace: u64, sequence: u16) -> u64 {
        unflushed.get(WorkspaceId::new(workspace), SequenceId::new(sequence))
    }

    #[test]
    fn the_largest_number_stays_in_whatever_order_they_come() {
        let mut unflushed = Unflushed::new(HashSeed::new(0));
        for number in [5, 9, 3] {
            unflushed.merge(value(1, 1, number));
        }
        assert_eq!((number(&unflushed, 1, 1), unflushed.len()), (9, 1));
    }

    #[test]
    fn what_changed_during_a_write_counts_once_and_stays() {
        let mut unflushed = Unflushed::new(HashSeed::new(0));
        unflushed.merge(value(1, 1, 5));
        unflushed.merge(value(2, 1, 5));
        let writing = unflushed.begin_write();
        assert_eq!(writing.values(), [value(1, 1, 5), value(2, 1, 5)]);
        unflushed.merge(value(1, 1, 6));
        assert_eq!(unflushed.len(), 2);
        assert_eq!((number(&unflushed, 1, 1), number(&unflushed, 2, 1)), (6, 5));
        drop(writing);
        unflushed.end_write();
        assert_eq!(unflushed.len(), 1);
        assert_eq!((number(&unflushed, 1, 1), number(&unflushed, 2, 1)), (6, 0));
    }

    #[test]
    fn many_sequences_and_few_are_raised_alike() {
        let mut unflushed = Unflushed::new(HashSeed::new(0));
        unflushed.merge(value(1, 7, 70));
        drop(unflushed.begin_write());
        unflushed.merge(value(1, 9, 90));
        unflushed.merge(value(2, 8, 80));
        for count in [3_u16, 100] {
            let sequences: Vec<SequenceId> = (7..7 + count).map(SequenceId::new).collect();
            let mut numbers = vec![75; sequences.len()];
            unflushed.raise(WorkspaceId::new(1), &sequences, &mut numbers);
            assert_eq!(numbers[..3], [75, 75, 90]);
            assert!(numbers[3..].iter().all(|number| *number == 75));
        }
    }
}
