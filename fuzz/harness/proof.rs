//! What a verifier is asked to do with arbitrary bytes: it takes anything, never panics, and believes nothing that was not
//! proved.

#![allow(dead_code, reason = "each fuzz target uses one of the functions")]

use gapless_proof::Frontier;
use gapless_proof::{
    BlockHeader, Hash, Head, LeafIndex, Memory, Tree, TreeSize, verify_consistency, verify_inclusion,
};

/// Leaves of the tree that proofs are held against.
const LEAVES: u64 = 300;

/// Bytes as a block header, and as a proof: three numbers, then hashes. A proof that holds for a leaf of a known tree is the one
/// that the tree gives.
pub fn proof(data: &[u8]) {
    if let Ok(header) = BlockHeader::decode(data) {
        assert_eq!(header.encode().as_slice(), data);
    }
    let Some((head, rest)) = data.split_first_chunk::<24>() else { return };
    let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
    let (chunks, _) = rest.as_chunks::<32>();
    let hashes: Vec<Hash> = chunks.iter().map(|bytes| Hash::from_bytes(*bytes)).collect();
    let [first, second, proof @ ..] = &hashes[..] else { return };
    let any = |size, root| Head { size: TreeSize::new(size), root };
    let _any = verify_inclusion(*first, LeafIndex::new(number(0)), &any(number(8), *second), proof);
    let _any = verify_consistency(&any(number(0), *first), &any(number(8), *second), proof);

    let (stored, leaves) = known();
    let tree = Tree::over(&stored);
    let (leaf, size) = (number(0) % LEAVES, number(8) % LEAVES + 1);
    let head = tree.head(TreeSize::new(size)).expect("nothing is missing");
    // The hashes of the input, or the right ones with one exchanged for one of the input.
    let mut right = match tree.inclusion_proof(LeafIndex::new(leaf), head.size) {
        Ok(right) => right,
        Err(_) => {
            let leaf_hash = leaves[leaf as usize];
            assert!(verify_inclusion(leaf_hash, LeafIndex::new(leaf), &head, &hashes).is_err());
            return;
        }
    };
    let leaf_hash = leaves[leaf as usize];
    verify_inclusion(leaf_hash, LeafIndex::new(leaf), &head, &right).expect("the proof of the tree holds");
    assert_eq!(verify_inclusion(leaf_hash, LeafIndex::new(leaf), &head, &hashes).is_ok(), hashes == right);
    if let Some(place) = usize::try_from(number(16)).ok().and_then(|place| place.checked_rem(right.len()))
        && right[place] != *first
    {
        right[place] = *first;
        assert!(verify_inclusion(leaf_hash, LeafIndex::new(leaf), &head, &right).is_err());
    }
}

fn known() -> (Memory, Vec<Hash>) {
    let (mut frontier, mut stored, mut leaves) = (Frontier::default(), Memory::default(), Vec::new());
    for number in 0..LEAVES {
        let leaf = Hash::of_leaf(&number.to_le_bytes());
        let completed = frontier.append(leaf).expect("it is far from full");
        stored.add(leaf, &completed);
        leaves.push(leaf);
    }
    (stored, leaves)
}
