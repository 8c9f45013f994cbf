//! PROOF-2: how much is read, at worst.

use gapless_proof::{Frontier, LeafIndex, Tree, TreeSize};
use proptest::prelude::*;

use crate::sources::{Counting, Sparse};

fn levels(size: u64) -> usize {
    usize::try_from(size.checked_ilog2().map_or(0, |bits| bits / 8 + 1)).unwrap()
}

fn assert_within(read: [usize; 8], per_level: usize, size: u64) {
    let most = |level| if level < levels(size) { per_level } else { 0 };
    let within = read.iter().enumerate().all(|(level, &read)| read <= most(level));
    assert!(within, "PROOF-2: {read:?} hashes by level for a tree of {size}");
}

#[test]
fn the_worst_case_of_a_root_is_255_hashes_of_each_level() {
    let source = Sparse::new(u64::MAX, []);
    let source = Counting::over(&source);
    let tree = Tree::over(&source);
    tree.root(TreeSize::MAX).unwrap();
    assert_eq!(source.take(), [255; 8]);
    tree.root(TreeSize::new((1 << 24) - 1)).unwrap();
    assert_eq!(source.take(), [255, 255, 255, 0, 0, 0, 0, 0]);
    Frontier::load(&tree, TreeSize::MAX).unwrap();
    assert_eq!(source.take(), [255; 8]);
}

#[test]
fn the_worst_case_of_a_proof_is_510_hashes_of_each_level_and_one() {
    let source = Sparse::new(u64::MAX, []);
    let source = Counting::over(&source);
    let tree = Tree::over(&source);
    // On the highest level the way and the end of the tree are in the same tile, and the way itself is not read.
    tree.inclusion_proof(LeafIndex::new(0), TreeSize::MAX).unwrap();
    assert_eq!(source.take(), [510, 510, 510, 510, 510, 510, 510, 254]);
    tree.consistency_proof(TreeSize::new(1), TreeSize::MAX).unwrap();
    assert_eq!(source.take(), [510, 510, 510, 510, 510, 510, 510, 254]);
    // Here the proof begins with a leaf of the older tree: of the lowest tile of the way everything is read.
    tree.consistency_proof(TreeSize::new(3), TreeSize::MAX).unwrap();
    assert_eq!(source.take(), [511, 510, 510, 510, 510, 510, 510, 254]);
    tree.inclusion_proof(LeafIndex::new(0), TreeSize::new((1 << 24) - 1)).unwrap();
    assert_eq!(source.take(), [510, 510, 254, 0, 0, 0, 0, 0]);
}

#[test]
fn a_root_at_the_end_of_a_tile_reads_almost_nothing() {
    let source = Sparse::new(1 << 24, []);
    let source = Counting::over(&source);
    let tree = Tree::over(&source);
    tree.root(TreeSize::new(1 << 16)).unwrap();
    assert_eq!(source.take(), [0, 0, 1, 0, 0, 0, 0, 0]);
    tree.root(TreeSize::new((1 << 16) + 1)).unwrap();
    assert_eq!(source.take(), [1, 0, 1, 0, 0, 0, 0, 0]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn nothing_reads_more_than_its_worst_case(bits in any::<u64>(), shift in 0..64u32, at in any::<u64>()) {
        let size = (bits >> shift).max(1);
        let (leaf, old) = (at % size, at % size + 1);
        let source = Sparse::new(size, []);
        let source = Counting::over(&source);
        let tree = Tree::over(&source);
        tree.root(TreeSize::new(size)).unwrap();
        assert_within(source.take(), 255, size);
        Frontier::load(&tree, TreeSize::new(size)).unwrap();
        assert_within(source.take(), 255, size);
        tree.inclusion_proof(LeafIndex::new(leaf), TreeSize::new(size)).unwrap();
        assert_within(source.take(), 510, size);
        tree.consistency_proof(TreeSize::new(old), TreeSize::new(size)).unwrap();
        assert_within(source.take(), 511, size);
    }
}
