//! The small tree that implementations of RFC 6962 share as a test, and the smallest trees by hand.

use gapless_proof::{Frontier, Hash, LeafIndex, Tree, TreeSize};

use crate::model::{leaf, node};
use crate::sources::stored;

const INPUTS: [&[u8]; 8] = [
    &[],
    &[0x00],
    &[0x10],
    &[0x20, 0x21],
    &[0x30, 0x31],
    &[0x40, 0x41, 0x42, 0x43],
    &[0x50, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57],
    &[0x60, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x6b, 0x6c, 0x6d, 0x6e, 0x6f],
];

const ROOTS: [&str; 9] = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
];

fn leaves() -> Vec<Hash> {
    INPUTS.iter().map(|input| Hash::of_leaf(input)).collect()
}

#[test]
fn the_well_known_tree_has_the_well_known_roots() {
    let memory = stored(&leaves());
    let tree = Tree::over(&memory);
    let mut frontier = Frontier::default();
    for (size, expected) in (0..).zip(ROOTS) {
        assert_eq!(tree.root(TreeSize::new(size)).unwrap().to_string(), expected, "size {size}");
        assert_eq!(frontier.root().to_string(), expected, "size {size}");
        if let Some(input) = INPUTS.get(usize::try_from(size).unwrap()) {
            frontier.append(Hash::of_leaf(input)).unwrap();
        }
    }
}

#[test]
fn the_proofs_in_a_tree_of_seven_are_those_of_the_drawing() {
    let [a, b, c, d, e, f, g] = ["a", "b", "c", "d", "e", "f", "g"].map(|text| leaf(text.as_bytes()));
    let memory = stored(&[a, b, c, d, e, f, g]);
    let tree = Tree::over(&memory);
    let inclusion = |index| tree.inclusion_proof(LeafIndex::new(index), TreeSize::new(7)).unwrap();
    let (abcd, ef) = (node(node(a, b), node(c, d)), node(e, f));
    assert_eq!(inclusion(0), [b, node(c, d), node(ef, g)]);
    assert_eq!(inclusion(3), [c, node(a, b), node(ef, g)]);
    assert_eq!(inclusion(4), [f, g, abcd]);
    assert_eq!(inclusion(6), [ef, abcd]);
    let consistency = |old| tree.consistency_proof(TreeSize::new(old), TreeSize::new(7)).unwrap();
    assert_eq!(consistency(3), [c, d, node(a, b), node(ef, g)]);
    assert_eq!(consistency(4), [node(ef, g)]);
    assert_eq!(consistency(6), [ef, g, abcd]);
    assert_eq!(consistency(7), []);
    assert_eq!(consistency(0), []);
}
