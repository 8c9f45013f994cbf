//! Which hashes are stored, and how a tree asks for them.
//!
//! ```text
//!  level 2                          0                      full subtrees of 65 536 leaves
//!                    ┌──────────────┼───────────── ...
//!  level 1           0              1              255     full subtrees of 256 leaves
//!               ┌────┼────┐    ┌────┼────┐
//!  level 0      0   ...  255  256  ...  511                leaf hashes
//!               └─ a tile ┘
//! ```
//!
//! Between two levels lie seven heights of the tree that are not stored: they are computed from the 256 hashes of a tile.
//!
//! Must not know: files, keys, tables.

use std::error::Error;
use std::fmt;

/// How many bits of a number one level takes: 256 hashes are a tile.
pub(crate) const TILE_BITS: u32 = 8;
/// How many hashes a tile has.
pub(crate) const TILE: usize = 1 << TILE_BITS;
/// The highest level: a full subtree on the next one would have 2^64 leaves.
pub(crate) const MAX_LEVEL: u8 = 7;

/// Names a stored hash: the root of a full subtree of 256^level leaves. On level 0 that is a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subtree {
    /// 0 to 7.
    pub level: u8,
    /// Which one of its level, from the left; the first is 0.
    pub number: u64,
}

impl fmt::Display for Subtree {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.level {
            0 => write!(formatter, "leaf {}", self.number),
            level => write!(formatter, "subtree {} of level {level}", self.number),
        }
    }
}

/// Gives a tree the hashes that were stored when its leaves were appended.
///
/// They never change: a leaf hash is stored with its event, the root of a full subtree with the event that filled it (see
/// [`completed_subtrees`]). So a source may be ahead of the size that is asked for, and may be appended to meanwhile.
pub trait StoredHashes {
    /// What reading can fail with. A hash that is not there is no such failure.
    type Error: Error + 'static;

    /// Reads the hashes of `first` and of those to its right on the same level, as many as `into` has places, at most 256
    /// and all in one tile. Returns how many there are in a row from `first` on.
    ///
    /// # Errors
    /// Whatever the storage fails with.
    fn read(&self, first: Subtree, into: &mut [crate::Hash]) -> Result<usize, Self::Error>;
}

/// The subtrees that become full with the leaf that makes a tree this large, lowest level first. Each is to be stored.
///
/// Mostly none: one at every 256th leaf, two at every 65 536th. [`Frontier::append`](crate::Frontier::append) returns them
/// with their roots; [`Tree::subtree_root`](crate::Tree::subtree_root) computes one from the 256 stored hashes below it.
pub fn completed_subtrees(new_size: crate::TreeSize) -> impl Iterator<Item = Subtree> {
    let size = new_size.get();
    let levels = if size == 0 { 0 } else { size.trailing_zeros() / TILE_BITS };
    (1..=MAX_LEVEL)
        .take_while(move |&level| u32::from(level) <= levels)
        .map(move |level| Subtree { level, number: (size >> (TILE_BITS * u32::from(level))) - 1 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TreeSize;

    #[test]
    fn subtrees_are_completed_at_every_power_of_256() {
        let completed = |size| -> Vec<(u8, u64)> {
            completed_subtrees(TreeSize::new(size)).map(|subtree| (subtree.level, subtree.number)).collect()
        };
        for size in [0, 1, 255, 257, 65_535, 65_537, u64::MAX] {
            assert_eq!(completed(size), [], "{size}");
        }
        assert_eq!(completed(256), [(1, 0)]);
        assert_eq!(completed(512), [(1, 1)]);
        assert_eq!(completed(65_536), [(1, 255), (2, 0)]);
        assert_eq!(completed(3 << 24), [(1, 0x2_ffff), (2, 0x2ff), (3, 2)]);
        assert_eq!(completed(1 << 63).len(), 7);
        assert_eq!(completed(1 << 63)[6], (7, 127));
    }
}
