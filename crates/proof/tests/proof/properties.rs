//! Everything equals the model, and everything that is made verifies.

use gapless_proof::{
    Frontier, Hash, Head, LeafIndex, StoredHashes, Subtree, Tree, TreeError, TreeSize, completed_subtrees,
    verify_consistency, verify_inclusion,
};
use proptest::prelude::*;

use crate::model::{Dense, Model, numbered};
use crate::sources::{Failing, Sparse, stored};

/// Holds both proofs of a tree against the model and against the verifier.
pub(crate) fn check_inclusion<S: StoredHashes>(model: &impl Model, stored: &S, leaf: u64, size: u64) {
    let (index, size_type) = (LeafIndex::new(leaf), TreeSize::new(size));
    let proof = Tree::over(stored).inclusion_proof(index, size_type).unwrap();
    assert_eq!(proof, model.path(leaf, size), "path of leaf {leaf} in {size}");
    let head = Head { size: size_type, root: model.root(size) };
    let leaf_hash = model.root_of(leaf..leaf + 1);
    assert_eq!(verify_inclusion(leaf_hash, index, &head, &proof), Ok(()), "leaf {leaf} in {size}");
}

pub(crate) fn check_consistency<S: StoredHashes>(model: &impl Model, stored: &S, old: u64, new: u64) {
    let head = |size| Head { size: TreeSize::new(size), root: model.root(size) };
    let proof = Tree::over(stored).consistency_proof(TreeSize::new(old), TreeSize::new(new)).unwrap();
    if old > 0 {
        assert_eq!(proof, model.consistency(old, new), "from {old} to {new}");
    }
    assert_eq!(verify_consistency(&head(old), &head(new), &proof), Ok(()), "from {old} to {new}");
}

#[test]
fn every_proof_of_every_small_tree_equals_the_model_and_verifies() {
    let model = Dense::numbered(70);
    let stored = stored(&model.0);
    for size in 0..=model.size() {
        for smaller in 0..=size {
            if smaller < size {
                check_inclusion(&model, &stored, smaller, size);
            }
            check_consistency(&model, &stored, smaller, size);
        }
    }
}

#[test]
fn the_root_of_every_size_up_to_some_thousands_equals_the_model() {
    let model = Dense::numbered(2100);
    let stored = stored(&model.0);
    let tree = Tree::over(&stored);
    let mut frontier = Frontier::default();
    for size in 0..=model.size() {
        let expected = model.root(size);
        assert_eq!(tree.root(TreeSize::new(size)), Ok(expected), "size {size}");
        assert_eq!(frontier.head(), Head { size: TreeSize::new(size), root: expected });
        assert_eq!(Frontier::load(&tree, TreeSize::new(size)), Ok(frontier.clone()), "size {size}");
        let again = Frontier::from_nodes(frontier.size(), frontier.nodes().to_vec());
        assert_eq!(again, Ok(frontier.clone()));
        frontier.append(numbered(size)).unwrap();
    }
}

#[test]
fn what_an_append_completes_is_announced_and_is_what_the_tiles_below_say() {
    let model = Dense::numbered(65_536 + 256);
    let stored = stored(&model.0);
    let tree = Tree::over(&stored);
    let mut frontier = Frontier::default();
    let mut names = Vec::new();
    for (&leaf, size) in model.0.iter().zip(1..) {
        let completed = frontier.append(leaf).unwrap();
        let announced: Vec<_> = completed_subtrees(TreeSize::new(size)).collect();
        assert_eq!(completed.iter().map(|completed| completed.subtree).collect::<Vec<_>>(), announced);
        for completed in completed {
            assert_eq!(tree.subtree_root(completed.subtree), Ok(completed.root));
            names.push(completed.subtree);
        }
    }
    let expected = (0..=256).map(|number| Subtree { level: 1, number });
    let mut expected: Vec<_> = expected.collect();
    expected.insert(256, Subtree { level: 2, number: 0 });
    assert_eq!(names, expected);
    assert_eq!(tree.subtree_root(Subtree { level: 0, number: 7 }), Ok(numbered(7)));
}

#[test]
fn what_is_out_of_range_is_refused_by_name() {
    let stored = stored(&Dense::numbered(10).0);
    let tree = Tree::over(&stored);
    let (leaf, size) = (LeafIndex::new(5), TreeSize::new(5));
    assert_eq!(tree.inclusion_proof(leaf, size), Err(TreeError::LeafOutOfRange { leaf, size }));
    let (old, new) = (TreeSize::new(6), TreeSize::new(5));
    assert_eq!(tree.consistency_proof(old, new), Err(TreeError::SizesOutOfOrder { old, new }));
    for subtree in [
        Subtree { level: 8, number: 0 },
        Subtree { level: 255, number: 0 },
        Subtree { level: 7, number: 255 },
        Subtree { level: 7, number: u64::MAX },
        Subtree { level: 0, number: u64::MAX },
    ] {
        assert_eq!(tree.subtree_root(subtree), Err(TreeError::NoSuchSubtree(subtree)));
    }
    let beyond = Subtree { level: 0, number: 10 };
    assert_eq!(tree.root(TreeSize::new(11)), Err(TreeError::Missing(beyond)));
    assert_eq!(tree.inclusion_proof(leaf, TreeSize::new(11)), Err(TreeError::Missing(beyond)));
    assert_eq!(tree.consistency_proof(old, TreeSize::new(11)), Err(TreeError::Missing(beyond)));
    assert!(tree.root(TreeSize::MAX).is_err());
}

#[test]
fn a_missing_hash_is_named_and_a_failing_source_is_its_error() {
    let model = Dense::numbered(700);
    let whole = stored(&model.0);
    for lost in [(0, 513), (0, 698), (1, 0), (1, 1)].map(|(level, number)| Subtree { level, number }) {
        let mut stored = whole.clone();
        stored.remove(lost).unwrap();
        assert_eq!(Tree::over(&stored).root(TreeSize::new(700)), Err(TreeError::Missing(lost)));
        let loaded = Frontier::load(&Tree::over(&stored), TreeSize::new(700));
        assert_eq!(loaded, Err(TreeError::Missing(lost)));
    }
    let failure = Tree::over(&Failing).root(TreeSize::new(1)).unwrap_err();
    assert!(matches!(failure, TreeError::Source(ref source) if source.to_string() == "no answer"));
}

#[test]
fn a_changed_stored_hash_never_proves_anything() {
    let model = Dense::numbered(600);
    let whole = stored(&model.0);
    let size = TreeSize::new(600);
    let head = Head { size, root: model.root(600) };
    for (name, hash) in whole.iter().step_by(7) {
        let mut stored = whole.clone();
        let mut bytes = *hash.as_bytes();
        bytes[usize::try_from(name.number % 32).unwrap()] ^= 0x10;
        stored.set(name, Hash::from_bytes(bytes));
        let tree = Tree::over(&stored);
        for leaf in [0, 255, 256, 511, 512, 599].map(LeafIndex::new) {
            let proof = tree.inclusion_proof(leaf, size).unwrap();
            let right = model.path(leaf.get(), 600);
            let verdict = verify_inclusion(numbered(leaf.get()), leaf, &head, &proof);
            assert_eq!(verdict.is_ok(), proof == right, "{name} for leaf {leaf}");
        }
    }
}

fn size_and_places() -> impl Strategy<Value = (u64, Vec<u64>)> {
    // Every order of magnitude is as likely as any other.
    let size = (0..64u32, any::<u64>()).prop_map(|(shift, bits)| (bits >> shift).max(1));
    size.prop_flat_map(|size| (Just(size), proptest::collection::vec(0..size, 1..6)))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn proofs_of_some_thousand_leaves_equal_the_model(size in 1u64..3000, leaf in any::<prop::sample::Index>(), old in any::<prop::sample::Index>()) {
        let model = Dense::numbered(size);
        let stored = stored(&model.0);
        let place = |index: prop::sample::Index| u64::try_from(index.index(model.0.len())).unwrap();
        check_inclusion(&model, &stored, place(leaf), size);
        check_consistency(&model, &stored, place(old), size);
        check_consistency(&model, &stored, place(old), place(old).max(place(leaf)));
    }

    #[test]
    fn proofs_of_trees_too_large_to_exist_equal_the_model((size, places) in size_and_places()) {
        let model = Sparse::new(size, places.iter().copied());
        prop_assert_eq!(Tree::over(&model).root(TreeSize::new(size)), Ok(model.root(size)));
        for &place in &places {
            check_inclusion(&model, &model, place, size);
            check_consistency(&model, &model, place, size);
            check_consistency(&model, &model, place + 1, size);
        }
    }

    #[test]
    fn a_loaded_frontier_goes_on_as_the_model_does((size, places) in size_and_places()) {
        let size = size.min(u64::MAX - 3);
        let model = Sparse::new(size + 3, places.iter().copied().chain(size..size + 3));
        let mut frontier = Frontier::load(&Tree::over(&model), TreeSize::new(size)).unwrap();
        for next in size..size + 3 {
            prop_assert_eq!(frontier.root(), model.root(next));
            let completed = frontier.append(model.root_of(next..next + 1)).unwrap();
            let announced: Vec<_> = completed_subtrees(TreeSize::new(next + 1)).collect();
            prop_assert_eq!(completed.iter().map(|completed| completed.subtree).collect::<Vec<_>>(), announced);
            for completed in completed {
                prop_assert_eq!(Tree::over(&model).subtree_root(completed.subtree), Ok(completed.root));
            }
        }
        prop_assert_eq!(frontier.root(), model.root(size + 3));
    }
}
