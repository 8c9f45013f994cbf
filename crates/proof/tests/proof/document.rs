//! The worked example of `docs/format.md`: every line of it is recomputed, by the crate and by SHA-256 alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use gapless_proof::{
    BlockHeader, Hash, Height, LeafIndex, Tree, TreeSize, verify_consistency, verify_inclusion,
};

use crate::model::{leaf, node, sha256};
use crate::sources::stored;

fn bytes_of(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2), "{hex}");
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// Every name of the example with its bytes.
fn example() -> BTreeMap<String, Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/format.md");
    let document = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (_, section) = document.split_once("\n## A proof, worked\n").expect("the document has the section");
    let (_, listing) = section.split_once("```text\n").expect("it has a listing");
    let (listing, _) = listing.split_once("\n```").expect("it ends");
    let mut example = BTreeMap::new();
    let mut last = String::new();
    for line in listing.lines() {
        let (content, _) = line.split_once('#').expect("every line says what it is");
        if let Some((name, hex)) = content.split_once('=') {
            last = name.trim().to_owned();
            let before = example.insert(last.clone(), bytes_of(hex.trim()));
            assert_eq!(before, None, "{last} is there once");
        } else {
            let (_, hex) = content.split_once('+').expect("a line has a name or goes on");
            example.get_mut(&last).expect("something to go on with").extend(bytes_of(hex.trim()));
        }
    }
    example
}

#[test]
fn every_line_of_the_worked_example_is_what_the_crate_computes() {
    let example = example();
    let events: [&[u8]; 3] = [b"one", b"two", b"three"];
    let leaves = events.map(Hash::of_leaf);
    let memory = stored(&leaves);
    let tree = Tree::over(&memory);
    let head = |size| tree.head(TreeSize::new(size)).unwrap();
    let (index, three) = (LeafIndex::new, head(3));
    let inclusion = |leaf| tree.inclusion_proof(index(leaf), three.size).unwrap();
    let consistency = |old| tree.consistency_proof(TreeSize::new(old), three.size).unwrap();
    let header = BlockHeader {
        height: Height::new(3).unwrap(),
        leaf: leaves[2],
        root: three.root,
        time: 1_700_000_000_000,
        log_index: 42,
    };
    let bytes = |hashes: &[Hash]| hashes.iter().flat_map(|hash| *hash.as_bytes()).collect::<Vec<_>>();
    let mut expected = BTreeMap::new();
    let mut line = |name: &str, bytes: Vec<u8>| expected.insert(name.to_owned(), bytes);
    for (number, event) in events.iter().enumerate() {
        line(&format!("leaf bytes {number}"), event.to_vec());
        line(&format!("leaf {number}"), bytes(&[leaves[number]]));
    }
    for size in 0..=3 {
        line(&format!("root of {size}"), bytes(&[head(size).root]));
    }
    line("node 0..2", bytes(&[Hash::of_node(leaves[0], leaves[1])]));
    line("inclusion of leaf 1 in 3", bytes(&inclusion(1)));
    line("inclusion of leaf 2 in 3", bytes(&inclusion(2)));
    line("consistency of 1 with 3", bytes(&consistency(1)));
    line("consistency of 2 with 3", bytes(&consistency(2)));
    line("header of block 3", header.encode().to_vec());
    assert_eq!(example, expected);

    assert_eq!(BlockHeader::decode(&example["header of block 3"]), Ok(header));
    for leaf in [1, 2] {
        let place = usize::try_from(leaf).unwrap();
        verify_inclusion(leaves[place], index(leaf), &header.head(), &inclusion(leaf)).unwrap();
        verify_consistency(&head(leaf), &header.head(), &consistency(leaf)).unwrap();
    }
}

#[test]
fn every_hash_of_the_worked_example_is_the_sha_256_that_it_says() {
    let example = example();
    let hash = |name: &str| Hash::from_bytes(example[name].as_slice().try_into().unwrap());
    assert_eq!(hash("root of 0"), sha256(&[]));
    for number in 0..3 {
        let bytes = &example[&format!("leaf bytes {number}")];
        assert_eq!(hash(&format!("leaf {number}")), leaf(bytes));
    }
    assert_eq!(hash("node 0..2"), node(hash("leaf 0"), hash("leaf 1")));
    assert_eq!(hash("root of 1"), hash("leaf 0"));
    assert_eq!(hash("root of 2"), hash("node 0..2"));
    assert_eq!(hash("root of 3"), node(hash("node 0..2"), hash("leaf 2")));
}
