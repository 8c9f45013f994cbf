//! The tree over what is stored: roots and proofs of any size, at any time.
//!
//! Invariants
//! - PROOF-1: the root of a size is that of RFC 6962 over the first leaves, whatever was stored behind them.
//! - PROOF-2: a root reads at most 255 hashes of each level, an inclusion proof at most 510, a consistency proof 511.
//!
//! Must not know: how hashes got there, who asks.

use std::error::Error;
use std::ops::Range;

use thiserror::Error;

use crate::hash::Hash;
use crate::number::{Head, LeafIndex, TreeSize};
use crate::shape::{Full, consistency_path, full_parts, inclusion_path};
use crate::stored::{MAX_LEVEL, StoredHashes, Subtree, TILE, TILE_BITS};

/// Answers questions about the tree whose hashes a source has stored.
#[derive(Clone, Copy, Debug)]
pub struct Tree<'a, S> {
    stored: &'a S,
}

/// Why a question about a tree has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TreeError<E: Error + 'static> {
    /// The leaf is not in a tree of this size.
    #[error("leaf {leaf} is not in a tree of {size} leaves")]
    LeafOutOfRange {
        /// The leaf that was asked for.
        leaf: LeafIndex,
        /// The size that was asked for.
        size: TreeSize,
    },
    /// The tree that should be the older one is larger.
    #[error("a tree of {old} leaves cannot become one of {new}")]
    SizesOutOfOrder {
        /// The size that should be the smaller one.
        old: TreeSize,
        /// The size that should be the larger one.
        new: TreeSize,
    },
    /// There is no such subtree, in a tree of any size.
    #[error("there can be no {0}")]
    NoSuchSubtree(Subtree),
    /// The source does not have a hash: the tree is not that large, or something was lost.
    #[error("the hash of {0} is not stored")]
    Missing(Subtree),
    /// The source failed.
    #[error("a stored hash could not be read")]
    Source(#[source] E),
}

impl<'a, S: StoredHashes> Tree<'a, S> {
    /// The tree with these hashes.
    pub const fn over(stored: &'a S) -> Self {
        Self { stored }
    }

    /// Root of the tree of this size.
    ///
    /// # Errors
    /// If a hash is missing or cannot be read.
    pub fn root(&self, size: TreeSize) -> Result<Hash, TreeError<S::Error>> {
        self.node(0..size.get())
    }

    /// Size and root of the tree of this size.
    ///
    /// # Errors
    /// If a hash is missing or cannot be read.
    pub fn head(&self, size: TreeSize) -> Result<Head, TreeError<S::Error>> {
        Ok(Head { size, root: self.root(size)? })
    }

    /// Proof that a leaf is in the tree of this size: the hashes beside its way up to the root, from the leaf on.
    ///
    /// # Errors
    /// If the leaf is not in a tree of that size, or a hash is missing or cannot be read.
    pub fn inclusion_proof(&self, leaf: LeafIndex, size: TreeSize) -> Result<Vec<Hash>, TreeError<S::Error>> {
        if leaf.get() >= size.get() {
            return Err(TreeError::LeafOutOfRange { leaf, size });
        }
        inclusion_path(leaf.get(), size.get()).into_iter().map(|node| self.node(node)).collect()
    }

    /// Proof that the tree of the larger size begins with all leaves of the smaller one, in their places.
    ///
    /// Between equal sizes, and from the empty tree to any, there is nothing to show: the proof is empty.
    ///
    /// # Errors
    /// If the sizes are in the wrong order, or a hash is missing or cannot be read.
    pub fn consistency_proof(&self, old: TreeSize, new: TreeSize) -> Result<Vec<Hash>, TreeError<S::Error>> {
        if old > new {
            return Err(TreeError::SizesOutOfOrder { old, new });
        }
        if old == TreeSize::EMPTY {
            return Ok(Vec::new());
        }
        consistency_path(old.get(), new.get()).into_iter().map(|node| self.node(node)).collect()
    }

    /// Root of a full subtree, computed from the 256 stored hashes one level below; of a leaf, its stored hash.
    ///
    /// This is what is to be stored under its name. On a subtree that is stored already it is a check.
    ///
    /// # Errors
    /// If there can be no such subtree, or a hash is missing or cannot be read.
    pub fn subtree_root(&self, subtree: Subtree) -> Result<Hash, TreeError<S::Error>> {
        let Subtree { level, number } = subtree;
        // The last leaf of a full subtree must have an index, so the one that would end at 2^64 leaves does not exist.
        if level > MAX_LEVEL || number >= u64::MAX >> (TILE_BITS * u32::from(level)) {
            return Err(TreeError::NoSuchSubtree(subtree));
        }
        match level {
            0 => self.full_over(subtree, 1),
            _ => self.full_over(Subtree { level: level - 1, number: number << TILE_BITS }, TILE),
        }
    }

    /// Hash of the node that covers these leaves.
    fn node(&self, leaves: Range<u64>) -> Result<Hash, TreeError<S::Error>> {
        let parts = full_parts(leaves).map(|part| self.full(part)).collect::<Result<Vec<_>, _>>()?;
        Ok(joined(&parts))
    }

    /// Root of a full subtree of any height.
    pub(crate) fn full(&self, Full { height, number }: Full) -> Result<Hash, TreeError<S::Error>> {
        let level = u8::try_from(height / TILE_BITS).expect("a height is below 64");
        let above = height % TILE_BITS;
        self.full_over(Subtree { level, number: number << above }, 1 << above)
    }

    /// Root of the full subtree over so many stored hashes, a power of two and at most a tile.
    fn full_over(&self, first: Subtree, count: usize) -> Result<Hash, TreeError<S::Error>> {
        let mut tile = [Hash::default(); TILE];
        let hashes = &mut tile[..count];
        let found = self.stored.read(first, hashes).map_err(TreeError::Source)?;
        if found < count {
            let behind = u64::try_from(found).expect("a count within a tile fits");
            return Err(TreeError::Missing(Subtree { number: first.number + behind, ..first }));
        }
        Ok(Hash::of_full_subtree(hashes))
    }
}

/// Root of the tree that consists of these full subtrees, largest first.
pub(crate) fn joined(parts: &[Hash]) -> Hash {
    let (last, before) = match parts {
        [] => return Hash::of_empty_tree(),
        [before @ .., last] => (*last, before),
    };
    before.iter().rev().fold(last, |right, &left| Hash::of_node(left, right))
}
