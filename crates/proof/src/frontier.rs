//! What the writer keeps of a tree: the roots of the full subtrees that it consists of, one for each 1 in the binary form
//! of its size. The next root follows from them and the next leaf.
//!
//! ```text
//!  size 6 = 110      0..4    4..6         append leaf 6      0..4    4..6   6       size 7 = 111
//!                                         append leaf 7      0..8                   size 8 = 1000
//! ```
//!
//! Invariants
//! - PROOF-1: its root is that of RFC 6962 over all leaves that were appended, in their order.
//!
//! Must not know: where leaves and subtrees are stored.

use thiserror::Error;

use crate::hash::Hash;
use crate::number::{Head, TreeSize};
use crate::shape::full_parts;
use crate::stored::{StoredHashes, Subtree, TILE_BITS};
use crate::tree::{Tree, TreeError, joined};

/// A tree that leaves are appended to. At most 64 hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frontier {
    size: TreeSize,
    /// Largest subtree first.
    nodes: Vec<Hash>,
}

/// A subtree that has become full, and its root: to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Which one.
    pub subtree: Subtree,
    /// Its root.
    pub root: Hash,
}

/// Why a frontier cannot be, or cannot grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrontierError {
    /// The tree has 2^64 - 1 leaves.
    #[error("the tree has as many leaves as it can have")]
    Full,
    /// The hashes cannot be those of a tree of this size.
    #[error("a tree of {size} leaves has {expected} nodes at its frontier, not {found}")]
    WrongNodes {
        /// The size that was given.
        size: TreeSize,
        /// How many hashes belong to it.
        expected: usize,
        /// How many were given.
        found: usize,
    },
}

impl Default for Frontier {
    /// The tree without leaves.
    fn default() -> Self {
        Self { size: TreeSize::EMPTY, nodes: Vec::new() }
    }
}

impl Frontier {
    /// The frontier of the tree of this size, from what is stored. Reads at most 255 hashes of each level.
    ///
    /// # Errors
    /// If a hash is missing or cannot be read.
    pub fn load<S: StoredHashes>(tree: &Tree<'_, S>, size: TreeSize) -> Result<Self, TreeError<S::Error>> {
        let nodes = full_parts(0..size.get()).map(|part| tree.full(part)).collect::<Result<_, _>>()?;
        Ok(Self { size, nodes })
    }

    /// The frontier with these nodes, as [`Frontier::nodes`] gave them: for a caller that stores it. They are believed.
    ///
    /// # Errors
    /// If a tree of this size has another number of nodes.
    pub fn from_nodes(size: TreeSize, nodes: Vec<Hash>) -> Result<Self, FrontierError> {
        let (expected, found) = (full_parts(0..size.get()).count(), nodes.len());
        if expected == found {
            Ok(Self { size, nodes })
        } else {
            Err(FrontierError::WrongNodes { size, expected, found })
        }
    }

    /// Roots of the full subtrees that the tree consists of, largest first.
    #[must_use]
    pub fn nodes(&self) -> &[Hash] {
        &self.nodes
    }

    /// How many leaves were appended.
    #[must_use]
    pub const fn size(&self) -> TreeSize {
        self.size
    }

    /// Appends a leaf. Returns what became full with it, lowest level first: the same as
    /// [`completed_subtrees`](crate::completed_subtrees) of the new size. Nothing is allocated where that is nothing.
    ///
    /// # Errors
    /// If the tree has as many leaves as it can have; it stays as it was.
    pub fn append(&mut self, leaf: Hash) -> Result<Vec<Completed>, FrontierError> {
        let size = self.size.next().ok_or(FrontierError::Full)?;
        let mut completed = Vec::new();
        let mut node = leaf;
        for height in 1..=size.get().trailing_zeros() {
            let left = self.nodes.pop().expect("PROOF-1: a size has a node for every 1 in its binary form");
            node = Hash::of_node(left, node);
            if height % TILE_BITS == 0 {
                let level = u8::try_from(height / TILE_BITS).expect("a height is below 64");
                let number = (size.get() >> height) - 1;
                completed.push(Completed { subtree: Subtree { level, number }, root: node });
            }
        }
        self.nodes.push(node);
        self.size = size;
        Ok(completed)
    }

    /// Root of the tree as it is.
    #[must_use]
    pub fn root(&self) -> Hash {
        joined(&self.nodes)
    }

    /// Size and root of the tree as it is.
    #[must_use]
    pub fn head(&self) -> Head {
        Head { size: self.size, root: self.root() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_tree_takes_no_leaf_and_stays_as_it_was() {
        let mut frontier = Frontier::from_nodes(TreeSize::MAX, vec![Hash::default(); 64]).unwrap();
        let before = frontier.clone();
        assert_eq!(frontier.append(Hash::default()), Err(FrontierError::Full));
        assert_eq!(frontier, before);
    }

    #[test]
    fn nodes_that_do_not_fit_the_size_are_refused() {
        let size = TreeSize::new(0b1011);
        let refused = Frontier::from_nodes(size, vec![Hash::default(); 2]);
        assert_eq!(refused, Err(FrontierError::WrongNodes { size, expected: 3, found: 2 }));
        assert!(Frontier::from_nodes(size, vec![Hash::default(); 3]).is_ok());
    }
}
