//! The three things that are hashed: nothing, a leaf, and two hashes.
//!
//! A leaf and a node begin with different bytes. Without them the bytes of a node could be presented as a leaf, and a proof
//! of that leaf would hold.
//!
//! Must not know: trees.

use std::fmt;

use sha2::{Digest, Sha256};

/// What stands in front of the bytes of a leaf.
const LEAF: [u8; 1] = [0x00];
/// What stands in front of the two hashes of a node.
const NODE: [u8; 1] = [0x01];

/// A SHA-256 hash: of a leaf, of a node, or of the tree without leaves.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash([u8; Hash::BYTES]);

impl Hash {
    /// Length of every hash, in bytes.
    pub const BYTES: usize = 32;

    /// The hash with these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }

    /// Root of the tree without leaves: the hash of no bytes.
    #[must_use]
    pub fn of_empty_tree() -> Self {
        Self(Sha256::new().finalize().into())
    }

    /// Hash of a leaf with these bytes.
    #[must_use]
    pub fn of_leaf(bytes: &[u8]) -> Self {
        Self(Sha256::new().chain_update(LEAF).chain_update(bytes).finalize().into())
    }

    /// Hash of a leaf whose bytes come in parts; the same as that of all of them in a row.
    #[must_use]
    pub fn of_leaf_in_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let hasher = Sha256::new().chain_update(LEAF);
        Self(parts.into_iter().fold(hasher, |hasher, part| hasher.chain_update(part)).finalize().into())
    }

    /// Hash of the node above these two.
    #[must_use]
    pub fn of_node(left: Self, right: Self) -> Self {
        Self(Sha256::new().chain_update(NODE).chain_update(left.0).chain_update(right.0).finalize().into())
    }

    /// Root of the full subtree over these hashes, whose count is a power of two. They are overwritten.
    pub(crate) fn of_full_subtree(hashes: &mut [Self]) -> Self {
        assert!(hashes.len().is_power_of_two(), "PROOF-1: a full subtree has 1, 2, 4, ... hashes below it");
        let mut width = hashes.len();
        while width > 1 {
            width /= 2;
            for at in 0..width {
                hashes[at] = Self::of_node(hashes[2 * at], hashes[2 * at + 1]);
            }
        }
        hashes[0]
    }
}

/// 64 hexadecimal digits.
impl fmt::Display for Hash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Hash({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hashes_of_nothing_and_of_an_empty_leaf_are_the_well_known_ones() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Hash::of_empty_tree().to_string(), empty);
        let leaf = "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d";
        assert_eq!(Hash::of_leaf(b"").to_string(), leaf);
    }

    #[test]
    fn a_leaf_in_parts_is_the_leaf() {
        let parts: [&[u8]; 4] = [b"nu", b"", b"mber", b"s"];
        assert_eq!(Hash::of_leaf_in_parts(parts), Hash::of_leaf(b"numbers"));
    }

    #[test]
    fn the_bytes_of_a_node_are_another_hash_as_a_leaf() {
        let (left, right) = (Hash::of_leaf(b"left"), Hash::of_leaf(b"right"));
        let bytes = [*left.as_bytes(), *right.as_bytes()].concat();
        assert_ne!(Hash::of_node(left, right), Hash::of_leaf(&bytes));
    }
}
