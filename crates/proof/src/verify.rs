//! Checks proofs. Takes anything, never panics, and needs the hashes that it is given and no others.
//!
//! Every hash of a proof is used, and a proof has exactly as many as its sizes call for. An inclusion shows where a leaf
//! stands: another index under the same head is refused.
//!
//! **A head is trusted as a pair.** A root alone does not say how many leaves it has: trees of different sizes can have
//! their nodes beside a leaf in the same places (leaf 0 in trees of 5, 6, 7 and 8 leaves), and then the proof for one of these
//! sizes holds for the others under the same root. So size and root are to be taken from one
//! [`BlockHeader`](crate::BlockHeader) that the verifier trusts, never the size from whoever sends the proof.
//!
//! ```text
//!  way of leaf 4 in a tree of 7        inner: while the way of the last leaf is another one, the bits of the index
//!             root                            say on which side the leaf is: 4 = 100
//!           ┌──┴──┐                    border: from where both ways are one, the leaf is always on the right,
//!         [0..4] 4..7  } border               once for each 1 that is left of its index
//!               ┌──┴──┐
//!             4..6   [6]  } inner
//!             ┌┴┐
//!             4 [5]       } inner
//! ```
//!
//! Must not know: stored hashes, how proofs are made.

use thiserror::Error;

use crate::hash::Hash;
use crate::number::{Head, LeafIndex, TreeSize};

/// Why a proof shows nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum VerifyError {
    /// The leaf is not in a tree of this size.
    #[error("leaf {leaf} is not in a tree of {size} leaves")]
    LeafOutOfRange {
        /// The leaf it is about.
        leaf: LeafIndex,
        /// Size of the head.
        size: TreeSize,
    },
    /// The older head is the larger one.
    #[error("a tree of {old} leaves cannot become one of {new}")]
    SizesOutOfOrder {
        /// Size of the older head.
        old: TreeSize,
        /// Size of the newer head.
        new: TreeSize,
    },
    /// The proof has too many hashes or too few.
    #[error("a proof for these sizes has {expected} hashes, not {found}")]
    WrongLength {
        /// How many it must have.
        expected: usize,
        /// How many it has.
        found: usize,
    },
    /// The root of the head, or of the newer one of two, does not follow from the proof.
    #[error("the proof leads to another root")]
    RootMismatch,
    /// The root of the older head does not follow from the proof.
    #[error("the proof leads to another root of the older tree")]
    OldRootMismatch,
}

/// Checks that the leaf with this hash stands at this index in the tree with this head.
///
/// # Errors
/// If the proof does not show it.
pub fn verify_inclusion(
    leaf_hash: Hash,
    leaf: LeafIndex,
    head: &Head,
    proof: &[Hash],
) -> Result<(), VerifyError> {
    let size = head.size;
    if leaf.get() >= size.get() {
        return Err(VerifyError::LeafOutOfRange { leaf, size });
    }
    let way = Way::of(leaf.get(), size.get() - 1, 0);
    expect_length(way.length(), proof)?;
    expect_root(way.up(leaf_hash, proof), head.root)
}

/// Checks that the tree with the newer head begins with the tree with the older one.
///
/// Equal sizes have equal roots and an empty proof. Every tree begins with the empty one: that proof is empty too, and says
/// nothing about the newer root unless that tree is empty as well.
///
/// # Errors
/// If the proof does not show it.
pub fn verify_consistency(old: &Head, new: &Head, proof: &[Hash]) -> Result<(), VerifyError> {
    let (old_size, new_size) = (old.size.get(), new.size.get());
    if old_size > new_size {
        return Err(VerifyError::SizesOutOfOrder { old: old.size, new: new.size });
    }
    if old_size == 0 {
        expect_length(0, proof)?;
        expect_old_root(Hash::of_empty_tree(), old.root)?;
        return if new_size == 0 { expect_root(old.root, new.root) } else { Ok(()) };
    }
    if old_size == new_size {
        expect_length(0, proof)?;
        return expect_root(old.root, new.root);
    }
    // The full subtree that ends the older tree is a node of both trees, and both roots lie above it. The proof begins with
    // it, unless it is all of the older tree.
    let way = Way::of(old_size - 1, new_size - 1, old_size.trailing_zeros());
    let whole = old_size.is_power_of_two();
    expect_length(way.length() + usize::from(!whole), proof)?;
    let (start, path) = match proof {
        [first, rest @ ..] if !whole => (*first, rest),
        _ => (old.root, proof),
    };
    expect_old_root(way.up_without_right(start, path), old.root)?;
    expect_root(way.up(start, path), new.root)
}

/// The way from a node up to the root: on which side of each hash of the proof it lies.
struct Way {
    /// From the lowest bit: 1 if the node is on the right.
    sides: u64,
    inner: usize,
    border: usize,
}

impl Way {
    /// From the node of this height above a leaf, in the tree with this last leaf.
    fn of(leaf: u64, last: u64, height: u32) -> Self {
        let meet = u64::BITS - (leaf ^ last).leading_zeros();
        let ones = leaf.checked_shr(meet).unwrap_or(0).count_ones();
        let sides = leaf.checked_shr(height).unwrap_or(0);
        Self { sides, inner: meet.saturating_sub(height) as usize, border: ones as usize }
    }

    const fn length(&self) -> usize {
        self.inner + self.border
    }

    /// The root above a node.
    fn up(&self, start: Hash, path: &[Hash]) -> Hash {
        path.iter().enumerate().fold(start, |node, (step, &beside)| {
            if self.is_right(step) { Hash::of_node(beside, node) } else { Hash::of_node(node, beside) }
        })
    }

    /// The root above a node in the tree that ends with it: what lies on its right was not there yet.
    fn up_without_right(&self, start: Hash, path: &[Hash]) -> Hash {
        path.iter().enumerate().fold(start, |node, (step, &beside)| {
            if self.is_right(step) { Hash::of_node(beside, node) } else { node }
        })
    }

    fn is_right(&self, step: usize) -> bool {
        // Fewer inner steps than bits: a step is only shifted by where it is inner.
        step >= self.inner || (self.sides >> step) & 1 == 1
    }
}

fn expect_length(expected: usize, proof: &[Hash]) -> Result<(), VerifyError> {
    let found = proof.len();
    if found == expected { Ok(()) } else { Err(VerifyError::WrongLength { expected, found }) }
}

fn expect_root(computed: Hash, root: Hash) -> Result<(), VerifyError> {
    if computed == root { Ok(()) } else { Err(VerifyError::RootMismatch) }
}

fn expect_old_root(computed: Hash, root: Hash) -> Result<(), VerifyError> {
    if computed == root { Ok(()) } else { Err(VerifyError::OldRootMismatch) }
}
