//! Sources of stored hashes: one that counts what is read, one that fails, and one of a tree far too large to exist.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::ops::Range;

use gapless_proof::{Frontier, Hash, Memory, StoredHashes, Subtree};

use crate::model::{Model, largest_power_below, leaf, node};

/// What a writer stored, leaf by leaf.
pub(crate) fn stored(leaves: &[Hash]) -> Memory {
    let (mut frontier, mut memory) = (Frontier::default(), Memory::default());
    for &leaf in leaves {
        let completed = frontier.append(leaf).unwrap();
        memory.add(leaf, &completed);
    }
    memory
}

/// Counts the hashes that are read on each level, and holds a tree to its promises about reading.
pub(crate) struct Counting<'a, S> {
    source: &'a S,
    read: [Cell<usize>; 8],
}

impl<'a, S> Counting<'a, S> {
    pub(crate) fn over(source: &'a S) -> Self {
        Self { source, read: Default::default() }
    }

    /// How many were read since this was asked last, by level.
    pub(crate) fn take(&self) -> [usize; 8] {
        std::array::from_fn(|level| self.read[level].take())
    }
}

impl<S: StoredHashes> StoredHashes for Counting<'_, S> {
    type Error = S::Error;

    fn read(&self, first: Subtree, into: &mut [Hash]) -> Result<usize, S::Error> {
        let last = first.number + u64::try_from(into.len()).unwrap() - 1;
        assert_eq!(first.number / 256, last / 256, "a read stays in its tile");
        let read = &self.read[usize::from(first.level)];
        read.set(read.get() + into.len());
        self.source.read(first, into)
    }
}

/// A disk that does not answer.
pub(crate) struct Failing;

impl StoredHashes for Failing {
    type Error = io::Error;

    fn read(&self, _: Subtree, _: &mut [Hash]) -> io::Result<usize> {
        Err(io::Error::other("no answer"))
    }
}

/// A tree of any size: every leaf is the same but for a few.
pub(crate) struct Sparse {
    size: u64,
    others: BTreeMap<u64, Hash>,
    /// Root of 2^n leaves that are all the same.
    same: Vec<Hash>,
}

impl Sparse {
    /// The leaves at these places have hashes of their own.
    pub(crate) fn new(size: u64, others: impl IntoIterator<Item = u64>) -> Self {
        let same = std::iter::successors(Some(leaf(b"same")), |&below| Some(node(below, below)));
        let others = others.into_iter().filter(|&number| number < size);
        Self {
            size,
            others: others.map(|number| (number, crate::model::numbered(number))).collect(),
            same: same.take(64).collect(),
        }
    }
}

impl Model for Sparse {
    fn size(&self) -> u64 {
        self.size
    }

    fn root_of(&self, leaves: Range<u64>) -> Hash {
        let size = leaves.end - leaves.start;
        if size.is_power_of_two() && self.others.range(leaves.clone()).next().is_none() {
            return self.same[usize::try_from(size.ilog2()).unwrap()];
        }
        match size {
            0 => crate::model::sha256(&[]),
            1 => self.others[&leaves.start],
            size => {
                let middle = leaves.start + largest_power_below(size);
                node(self.root_of(leaves.start..middle), self.root_of(middle..leaves.end))
            }
        }
    }
}

impl StoredHashes for Sparse {
    type Error = Infallible;

    fn read(&self, first: Subtree, into: &mut [Hash]) -> Result<usize, Infallible> {
        let width = 1 << (8 * u32::from(first.level));
        let full = self.size / width;
        let hashes = (first.number..full).map(|number| self.root_of(number * width..(number + 1) * width));
        Ok(into.iter_mut().zip(hashes).map(|(place, hash)| *place = hash).count())
    }
}
