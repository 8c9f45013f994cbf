//! Where the nodes of a tree are: pure arithmetic on ranges of leaves, without a hash.
//!
//! A tree with more than one leaf is split at the largest power of two below its size; its left side is full, and its right
//! side is split the same way. So every node covers a range of leaves, and a proof is a list of ranges.
//!
//! ```text
//!  7 leaves             0..7                    path of leaf 2:  3..4, 0..2, 4..7
//!                   ┌────┴─────┐
//!                 0..4        4..7              5 leaves were there before:  4..5, 5..6, 6..7, 0..4
//!               ┌───┴──┐     ┌──┴──┐
//!             0..2   2..4  4..6   6..7
//! ```
//!
//! Must not know: hashes, where they are stored.

use std::ops::Range;

/// Full subtree of 2^height leaves; number 0 is the leftmost of its height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full {
    pub(crate) height: u32,
    pub(crate) number: u64,
}

/// The nodes beside the way from a leaf up to the root. The leaf is in the tree.
pub(crate) fn inclusion_path(leaf: u64, size: u64) -> Vec<Range<u64>> {
    let mut path = Vec::new();
    let mut node = 0..size;
    while node.end - node.start > 1 {
        let split = split(&node);
        let (next, beside) = if leaf < split {
            (node.start..split, split..node.end)
        } else {
            (split..node.end, node.start..split)
        };
        path.push(beside);
        node = next;
    }
    path.reverse();
    path
}

/// The nodes from which both roots follow, that of `old` leaves and that of `new`; `old` is neither 0 nor larger.
///
/// A full tree of `old` leaves is left out where it is a node itself: whoever verifies has its root.
pub(crate) fn consistency_path(old: u64, new: u64) -> Vec<Range<u64>> {
    let mut path = Vec::new();
    let mut node = 0..new;
    while old < node.end {
        let split = split(&node);
        let (next, beside) = if old <= split {
            (node.start..split, split..node.end)
        } else {
            (split..node.end, node.start..split)
        };
        path.push(beside);
        node = next;
    }
    if node.start > 0 {
        path.push(node);
    }
    path.reverse();
    path
}

/// The full subtrees that a node, or a whole tree, consists of: from the left, each smaller than the one before.
pub(crate) fn full_parts(node: Range<u64>) -> impl Iterator<Item = Full> {
    let Range { mut start, end } = node;
    std::iter::from_fn(move || {
        let height = (end - start).checked_ilog2()?;
        let part = Full { height, number: start >> height };
        start += 1 << height;
        Some(part)
    })
}

/// Where a node with at least two leaves is split.
fn split(node: &Range<u64>) -> u64 {
    node.start + (1 << (node.end - node.start - 1).ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_is_right() {
        assert_eq!(inclusion_path(2, 7), [3..4, 0..2, 4..7]);
        assert_eq!(consistency_path(5, 7), [4..5, 5..6, 6..7, 0..4]);
        assert_eq!(inclusion_path(0, 1), []);
        assert_eq!(consistency_path(6, 7), [4..6, 6..7, 0..4]);
        assert_eq!(consistency_path(7, 7), []);
    }

    #[test]
    fn the_parts_of_a_node_are_the_ones_of_its_binary_form() {
        let parts: Vec<_> = full_parts(0..0b1101).map(|part| (part.height, part.number)).collect();
        assert_eq!(parts, [(3, 0), (2, 2), (0, 12)]);
        assert_eq!(full_parts(0..0).count(), 0);
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        assert_eq!(full_parts(0..u64::MAX).count(), 64);
        assert_eq!(inclusion_path(u64::MAX - 1, u64::MAX).len(), 63);
        assert_eq!(inclusion_path(0, u64::MAX).len(), 64);
        assert_eq!(consistency_path(u64::MAX - 1, u64::MAX).len(), 64);
        assert_eq!(consistency_path(1, u64::MAX).len(), 64);
    }
}
