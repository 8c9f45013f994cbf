//! The definitions of RFC 6962, section 2.1, as they are written: recursive, over all leaves, without a thought for speed.
//!
//! Uses SHA-256 itself and nothing of the crate but the type of a hash.

use std::ops::Range;

use gapless_proof::Hash;
use sha2::{Digest, Sha256};

/// SHA-256 of these parts in a row.
pub(crate) fn sha256(parts: &[&[u8]]) -> Hash {
    Hash::from_bytes(Sha256::digest(parts.concat()).into())
}

pub(crate) fn leaf(bytes: &[u8]) -> Hash {
    sha256(&[&[0], bytes])
}

pub(crate) fn node(left: Hash, right: Hash) -> Hash {
    sha256(&[&[1], left.as_bytes(), right.as_bytes()])
}

/// The leaf with this number in most tests.
pub(crate) fn numbered(number: u64) -> Hash {
    leaf(&number.to_be_bytes())
}

/// A tree that can say what the root over a range of leaves is.
pub(crate) trait Model {
    fn size(&self) -> u64;

    /// Root of the tree whose leaves are these.
    fn root_of(&self, leaves: Range<u64>) -> Hash;

    /// Root of the tree of the first leaves.
    fn root(&self, size: u64) -> Hash {
        self.root_of(0..size)
    }

    fn path(&self, leaf: u64, size: u64) -> Vec<Hash> {
        self.path_in(leaf, 0..size)
    }

    fn path_in(&self, leaf: u64, tree: Range<u64>) -> Vec<Hash> {
        if tree.end - tree.start == 1 {
            return Vec::new();
        }
        let middle = tree.start + largest_power_below(tree.end - tree.start);
        if leaf < middle {
            [self.path_in(leaf, tree.start..middle), vec![self.root_of(middle..tree.end)]].concat()
        } else {
            [self.path_in(leaf, middle..tree.end), vec![self.root_of(tree.start..middle)]].concat()
        }
    }

    fn consistency(&self, old: u64, new: u64) -> Vec<Hash> {
        self.consistency_in(old, 0..new, true)
    }

    fn consistency_in(&self, old: u64, tree: Range<u64>, whole: bool) -> Vec<Hash> {
        if old == tree.end {
            return if whole { Vec::new() } else { vec![self.root_of(tree)] };
        }
        let middle = tree.start + largest_power_below(tree.end - tree.start);
        if old <= middle {
            let below = self.consistency_in(old, tree.start..middle, whole);
            [below, vec![self.root_of(middle..tree.end)]].concat()
        } else {
            let below = self.consistency_in(old, middle..tree.end, false);
            [below, vec![self.root_of(tree.start..middle)]].concat()
        }
    }
}

pub(crate) fn largest_power_below(size: u64) -> u64 {
    let mut power = 1;
    while size - power > power {
        power *= 2;
    }
    power
}

/// All leaves, one by one.
pub(crate) struct Dense(pub(crate) Vec<Hash>);

impl Dense {
    pub(crate) fn numbered(size: u64) -> Self {
        Self((0..size).map(numbered).collect())
    }
}

impl Model for Dense {
    fn size(&self) -> u64 {
        self.0.len().try_into().unwrap()
    }

    fn root_of(&self, leaves: Range<u64>) -> Hash {
        let place = |number: u64| usize::try_from(number).unwrap();
        match leaves.end - leaves.start {
            0 => sha256(&[]),
            1 => self.0[place(leaves.start)],
            size => {
                let middle = leaves.start + largest_power_below(size);
                node(self.root_of(leaves.start..middle), self.root_of(middle..leaves.end))
            }
        }
    }
}

/// On which side each hash of a proof stands, bottom first; none if there is no such proof.
pub(crate) type Sides = Option<Vec<char>>;

pub(crate) fn inclusion_sides(leaf: u64, size: u64) -> Sides {
    if leaf >= size {
        return None;
    }
    let (mut sides, mut leaf, mut size) = (Vec::new(), leaf, size);
    while size > 1 {
        let power = largest_power_below(size);
        let is_left = leaf < power;
        sides.insert(0, if is_left { 'r' } else { 'l' });
        (leaf, size) = if is_left { (leaf, power) } else { (leaf - power, size - power) };
    }
    Some(sides)
}

pub(crate) fn consistency_sides(old: u64, new: u64) -> Sides {
    if old == 0 || old >= new {
        return None;
    }
    let (mut sides, mut old, mut new, mut whole) = (Vec::new(), old, new, true);
    while old < new {
        let power = largest_power_below(new);
        let is_left = old <= power;
        sides.insert(0, if is_left { 'r' } else { 'l' });
        whole &= is_left;
        (old, new) = if is_left { (old, power) } else { (old - power, new - power) };
    }
    if !whole {
        sides.insert(0, 'b');
    }
    Some(sides)
}
