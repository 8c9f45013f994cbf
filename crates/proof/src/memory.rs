//! Stored hashes in memory: for small trees, for examples, and for the tests of whoever stores them elsewhere.
//!
//! Must not know: files.

use std::collections::BTreeMap;
use std::convert::Infallible;

use crate::frontier::Completed;
use crate::hash::Hash;
use crate::stored::{StoredHashes, Subtree};

/// All hashes of one tree, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    hashes: BTreeMap<Subtree, Hash>,
    leaves: u64,
}

impl Memory {
    /// Stores the next leaf and what became full with it.
    pub fn add(&mut self, leaf: Hash, completed: &[Completed]) {
        self.set(Subtree { level: 0, number: self.leaves }, leaf);
        self.leaves += 1;
        for completed in completed {
            self.set(completed.subtree, completed.root);
        }
    }

    /// Puts a hash under any name, whatever was there.
    pub fn set(&mut self, subtree: Subtree, hash: Hash) {
        self.hashes.insert(subtree, hash);
    }

    /// Forgets a hash.
    pub fn remove(&mut self, subtree: Subtree) -> Option<Hash> {
        self.hashes.remove(&subtree)
    }

    /// Every hash with its name, level by level.
    pub fn iter(&self) -> impl Iterator<Item = (Subtree, Hash)> {
        self.hashes.iter().map(|(&subtree, &hash)| (subtree, hash))
    }
}

impl StoredHashes for Memory {
    type Error = Infallible;

    fn read(&self, first: Subtree, into: &mut [Hash]) -> Result<usize, Infallible> {
        let stored = self.hashes.range(first..);
        let in_a_row = stored.zip(first.number..).zip(into).take_while(|(((subtree, _), number), _)| {
            (subtree.level, subtree.number) == (first.level, *number)
        });
        Ok(in_a_row.map(|(((_, hash), _), place)| *place = *hash).count())
    }
}
