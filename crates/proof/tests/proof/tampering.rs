//! Every single bit that is changed is noticed: all of them in small trees, and anything at all in large ones.
//!
//! A size is different: a root does not cover it, so a proof also holds for another size that puts its hashes on the same
//! sides. The tests say exactly which sizes those are. That is why a head is trusted as a pair.

use gapless_proof::{
    Hash, Head, LeafIndex, Tree, TreeSize, VerifyError, verify_consistency, verify_inclusion,
};
use proptest::prelude::*;

use crate::model::{Dense, Model, consistency_sides, inclusion_sides, numbered};
use crate::sources::{Sparse, stored};

const SMALL: u64 = 19;

/// A hash with each of its bits changed in turn.
fn flipped(hash: Hash) -> impl Iterator<Item = Hash> {
    (0..256).map(move |bit| {
        let mut bytes = *hash.as_bytes();
        bytes[bit / 8] ^= 1 << (bit % 8);
        Hash::from_bytes(bytes)
    })
}

/// A number with each of its bits changed in turn.
fn flipped_number(number: u64) -> impl Iterator<Item = u64> {
    (0..64).map(move |bit| number ^ (1 << bit))
}

/// Every proof that is one hash longer, one shorter, in another order, or one bit away.
fn changed(proof: &[Hash]) -> Vec<Vec<Hash>> {
    let mut all = Vec::new();
    for at in 0..proof.len() {
        for hash in flipped(proof[at]) {
            let mut other = proof.to_vec();
            other[at] = hash;
            all.push(other);
        }
        let mut shorter = proof.to_vec();
        shorter.remove(at);
        all.push(shorter);
        for with in at + 1..proof.len() {
            let mut swapped = proof.to_vec();
            swapped.swap(at, with);
            all.push(swapped);
        }
    }
    for at in 0..=proof.len() {
        for hash in proof.iter().copied().chain([Hash::default(), Hash::of_empty_tree()]) {
            let mut longer = proof.to_vec();
            longer.insert(at, hash);
            all.push(longer);
        }
    }
    all
}

fn heads(model: &impl Model) -> impl Fn(u64) -> Head {
    move |size| Head { size: TreeSize::new(size), root: model.root(size) }
}

#[test]
fn every_change_of_an_inclusion_proof_its_leaf_its_index_and_its_root_is_refused() {
    let model = Dense::numbered(SMALL);
    let stored = stored(&model.0);
    for size in 1..=SMALL {
        let head = heads(&model)(size);
        for leaf in 0..size {
            let index = LeafIndex::new(leaf);
            let proof = Tree::over(&stored).inclusion_proof(index, head.size).unwrap();
            let refused = |leaf_hash, index, head: &Head, proof: &[Hash]| {
                assert!(
                    verify_inclusion(leaf_hash, index, head, proof).is_err(),
                    "leaf {leaf} of {size}: {leaf_hash} at {index} under {head:?} by {proof:?}"
                );
            };
            flipped(numbered(leaf)).for_each(|other| refused(other, index, &head, &proof));
            flipped(head.root)
                .for_each(|root| refused(numbered(leaf), index, &Head { root, ..head }, &proof));
            changed(&proof).iter().for_each(|other| refused(numbered(leaf), index, &head, other));
            for other in flipped_number(leaf).chain(0..2 * SMALL).filter(|&other| other != leaf) {
                refused(numbered(leaf), LeafIndex::new(other), &head, &proof);
            }
        }
    }
}

#[test]
fn another_size_is_refused_for_an_inclusion_unless_all_hashes_stand_on_the_same_sides() {
    let model = Dense::numbered(SMALL);
    let stored = stored(&model.0);
    for size in 1..=SMALL {
        for leaf in 0..size {
            let index = LeafIndex::new(leaf);
            let proof = Tree::over(&stored).inclusion_proof(index, TreeSize::new(size)).unwrap();
            for other in flipped_number(size).chain(0..2 * SMALL) {
                let head = Head { size: TreeSize::new(other), root: model.root(size) };
                let verdict = verify_inclusion(numbered(leaf), index, &head, &proof);
                let same = inclusion_sides(leaf, other) == inclusion_sides(leaf, size);
                assert_eq!(verdict.is_ok(), same, "leaf {leaf} of {size} under {other}: {verdict:?}");
            }
        }
    }
}

#[test]
fn every_change_of_a_consistency_proof_and_of_its_roots_is_refused() {
    let model = Dense::numbered(SMALL);
    let stored = stored(&model.0);
    for new_size in 1..=SMALL {
        for old_size in 1..=new_size {
            let (old, new) = (heads(&model)(old_size), heads(&model)(new_size));
            let proof = Tree::over(&stored).consistency_proof(old.size, new.size).unwrap();
            let refused = |old: &Head, new: &Head, proof: &[Hash]| {
                assert!(verify_consistency(old, new, proof).is_err(), "{old:?} to {new:?} by {proof:?}");
            };
            flipped(old.root).for_each(|root| refused(&Head { root, ..old }, &new, &proof));
            flipped(new.root).for_each(|root| refused(&old, &Head { root, ..new }, &proof));
            changed(&proof).iter().for_each(|other| refused(&old, &new, other));
            if old_size < new_size {
                refused(&new, &old, &proof);
            }
        }
    }
}

#[test]
fn other_sizes_are_refused_for_a_consistency_unless_all_hashes_stand_on_the_same_sides() {
    let model = Dense::numbered(SMALL);
    let stored = stored(&model.0);
    for new_size in 2..=SMALL {
        for old_size in 1..new_size {
            let (old, new) = (heads(&model)(old_size), heads(&model)(new_size));
            let proof = Tree::over(&stored).consistency_proof(old.size, new.size).unwrap();
            let expected = consistency_sides(old_size, new_size);
            let check = |old_other, new_other| {
                let old = Head { size: TreeSize::new(old_other), ..old };
                let new = Head { size: TreeSize::new(new_other), ..new };
                let verdict = verify_consistency(&old, &new, &proof);
                let same = consistency_sides(old_other, new_other) == expected;
                assert_eq!(verdict.is_ok(), same, "{old_size}, {new_size} as {old_other}, {new_other}");
            };
            flipped_number(old_size).chain(0..2 * SMALL).for_each(|other| check(other, new_size));
            flipped_number(new_size).chain(0..2 * SMALL).for_each(|other| check(old_size, other));
        }
    }
}

#[test]
fn the_empty_tree_begins_every_tree_and_has_one_root() {
    let model = Dense::numbered(5);
    let (empty, five) = (heads(&model)(0), heads(&model)(5));
    let other = Head { root: five.root, ..empty };
    assert_eq!(verify_consistency(&empty, &five, &[]), Ok(()));
    assert_eq!(verify_consistency(&empty, &empty, &[]), Ok(()));
    assert_eq!(verify_consistency(&other, &five, &[]), Err(VerifyError::OldRootMismatch));
    assert_eq!(verify_consistency(&empty, &other, &[]), Err(VerifyError::RootMismatch));
    assert_eq!(verify_consistency(&other, &other, &[]), Err(VerifyError::OldRootMismatch));
    let too_long = VerifyError::WrongLength { expected: 0, found: 1 };
    assert_eq!(verify_consistency(&empty, &five, &[five.root]), Err(too_long));
    assert_eq!(verify_consistency(&five, &five, &[five.root]), Err(too_long));
    let (leaf, size) = (LeafIndex::new(0), TreeSize::EMPTY);
    let refused = verify_inclusion(five.root, leaf, &empty, &[]);
    assert_eq!(refused, Err(VerifyError::LeafOutOfRange { leaf, size }));
}

#[test]
fn a_refusal_says_what_is_wrong() {
    let model = Dense::numbered(7);
    let stored = stored(&model.0);
    let (five, seven) = (heads(&model)(5), heads(&model)(7));
    let proof = Tree::over(&stored).consistency_proof(five.size, seven.size).unwrap();
    let length = |found| Err(VerifyError::WrongLength { expected: 4, found });
    assert_eq!(verify_consistency(&five, &seven, &[]), length(0));
    assert_eq!(verify_consistency(&five, &seven, &proof[..3]), length(3));
    assert_eq!(verify_consistency(&five, &seven, &vec![five.root; 5_000]), length(5_000));
    let out_of_order = VerifyError::SizesOutOfOrder { old: seven.size, new: five.size };
    assert_eq!(verify_consistency(&seven, &five, &proof), Err(out_of_order));
    let forged = Head { root: seven.root, ..five };
    assert_eq!(verify_consistency(&forged, &seven, &proof), Err(VerifyError::OldRootMismatch));
    let forged = Head { root: five.root, ..seven };
    assert_eq!(verify_consistency(&five, &forged, &proof), Err(VerifyError::RootMismatch));
}

fn hash() -> impl Strategy<Value = Hash> {
    any::<[u8; 32]>().prop_map(Hash::from_bytes)
}

/// Sizes of every magnitude, and those where arithmetic likes to overflow.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        (0..64u32, any::<u64>()).prop_map(|(shift, bits)| bits >> shift),
        (0..64u32, 0..3u64).prop_map(|(bit, beside)| (1u64 << bit).wrapping_add(beside).wrapping_sub(1)),
        prop::sample::select(vec![0, 1, u64::MAX - 1, u64::MAX]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(3000) })]

    #[test]
    fn any_input_gets_a_verdict_and_what_was_not_proved_is_refused(
        hashes in [hash(), hash()],
        numbers in [number(), number()],
        proof in proptest::collection::vec(hash(), 0..130),
    ) {
        let [one, two] = numbers.map(TreeSize::new);
        let head = |size, root| Head { size, root };
        let inclusion = verify_inclusion(hashes[0], LeafIndex::new(numbers[0]), &head(two, hashes[1]), &proof);
        prop_assert!(inclusion.is_err());
        prop_assert!(verify_consistency(&head(one, hashes[0]), &head(two, hashes[1]), &proof).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn a_bit_changed_in_a_large_tree_is_noticed(size in number(), at in any::<u64>(), bit in any::<prop::sample::Index>()) {
        let size = size.max(2);
        let leaf = at % size;
        let model = Sparse::new(size, [leaf]);
        let index = LeafIndex::new(leaf);
        let head = Head { size: TreeSize::new(size), root: model.root(size) };
        let proof = Tree::over(&model).inclusion_proof(index, head.size).unwrap();
        let mut bytes: Vec<u8> = proof.iter().flat_map(|hash| *hash.as_bytes()).collect();
        let bit = bit.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        let other: Vec<Hash> = bytes.chunks(32).map(|hash| Hash::from_bytes(hash.try_into().unwrap())).collect();
        prop_assert_eq!(verify_inclusion(numbered(leaf), index, &head, &proof), Ok(()));
        prop_assert_eq!(verify_inclusion(numbered(leaf), index, &head, &other), Err(VerifyError::RootMismatch));
        for other in flipped_number(leaf) {
            prop_assert!(verify_inclusion(numbered(leaf), LeafIndex::new(other), &head, &proof).is_err());
        }
    }
}
