//! Numbers of a tree: where a leaf stands, how many there are, and what a block is called.
//!
//! ```text
//!  height            1     2     3     4        = offset of the event in its workspace
//!  leaf index        0     1     2     3
//!  tree size      0     1     2     3     4     the tree whose last leaf has this height
//! ```
//!
//! Must not know: hashes of what.

use std::fmt;
use std::num::NonZeroU64;

use crate::hash::Hash;

/// Place of a leaf in the tree. The first has index 0; the last possible one is 2^64 - 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeafIndex(u64);

/// How many leaves a tree has. Unit: leaves; 0 is the empty tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreeSize(u64);

/// Which block it is: the offset of its event in the workspace. The first has height 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Height(NonZeroU64);

/// A tree in 40 bytes: its size and its root. They belong together and are to be trusted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Head {
    /// How many leaves it has.
    pub size: TreeSize,
    /// Its root.
    pub root: Hash,
}

impl LeafIndex {
    /// The leaf with this index.
    #[must_use]
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The value.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl TreeSize {
    /// The tree without leaves.
    pub const EMPTY: Self = Self(0);
    /// The largest tree there can be.
    pub const MAX: Self = Self(u64::MAX);

    /// A tree with so many leaves.
    #[must_use]
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The value.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// With one leaf more; none after [`Self::MAX`].
    #[must_use]
    pub const fn next(self) -> Option<Self> {
        match self.0.checked_add(1) {
            Some(value) => Some(Self(value)),
            None => None,
        }
    }
}

impl Height {
    /// The block of the event with this offset; none for 0.
    #[must_use]
    pub const fn new(value: u64) -> Option<Self> {
        match NonZeroU64::new(value) {
            Some(value) => Some(Self(value)),
            None => None,
        }
    }

    /// The value, at least 1.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// Where its leaf stands.
    #[must_use]
    pub const fn index(self) -> LeafIndex {
        LeafIndex(self.0.get() - 1)
    }

    /// Size of the tree whose last leaf it is.
    #[must_use]
    pub const fn size(self) -> TreeSize {
        TreeSize(self.0.get())
    }
}

impl fmt::Display for LeafIndex {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl fmt::Display for TreeSize {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl fmt::Display for Height {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_of_the_first_event_is_leaf_0_and_makes_a_tree_of_1() {
        let first = Height::new(1).unwrap();
        assert_eq!((first.index(), first.size()), (LeafIndex::new(0), TreeSize::new(1)));
        assert_eq!(Height::new(0), None);
        assert_eq!(TreeSize::EMPTY.next(), Some(TreeSize::new(1)));
        assert_eq!(TreeSize::MAX.next(), None);
    }
}
