//! `tests/verify_proof.py`, which shares nothing with this crate but the RFC, comes to the same verdicts.

use std::path::Path;
use std::process::Command;

use gapless_proof::{Hash, Head, LeafIndex, Tree, TreeSize, verify_consistency, verify_inclusion};
use serde_json::{Value, json};

use crate::model::{Dense, Model, numbered};
use crate::sources::{Sparse, stored};

/// A claim with its proof.
#[derive(Clone)]
enum Claim {
    Inclusion { leaf_hash: Hash, leaf: u64, head: Head, proof: Vec<Hash> },
    Consistency { old: Head, new: Head, proof: Vec<Hash> },
}

impl Claim {
    fn holds(&self) -> bool {
        match self {
            Self::Inclusion { leaf_hash, leaf, head, proof } => {
                verify_inclusion(*leaf_hash, LeafIndex::new(*leaf), head, proof).is_ok()
            }
            Self::Consistency { old, new, proof } => verify_consistency(old, new, proof).is_ok(),
        }
    }

    fn to_json(&self) -> Value {
        let texts = |proof: &[Hash]| proof.iter().map(Hash::to_string).collect::<Vec<_>>();
        match self {
            Self::Inclusion { leaf_hash, leaf, head, proof } => json!({
                "kind": "inclusion",
                "leaf_hash": leaf_hash.to_string(),
                "index": leaf,
                "size": head.size.get(),
                "root": head.root.to_string(),
                "proof": texts(proof),
            }),
            Self::Consistency { old, new, proof } => json!({
                "kind": "consistency",
                "old_size": old.size.get(),
                "old_root": old.root.to_string(),
                "new_size": new.size.get(),
                "new_root": new.root.to_string(),
                "proof": texts(proof),
            }),
        }
    }

    /// This claim with one thing changed, in every way that there is a name for.
    fn tampered(&self) -> Vec<Self> {
        let mut all = Vec::new();
        let mut change = |change: &dyn Fn(&mut Self)| {
            let mut claim = self.clone();
            change(&mut claim);
            all.push(claim);
        };
        let length = self.proof().len();
        for at in 0..length {
            change(&|claim| flip(&mut claim.proof_mut()[at]));
            change(&|claim| {
                claim.proof_mut().remove(at);
            });
        }
        change(&|claim| claim.proof_mut().push(Hash::of_empty_tree()));
        change(&|claim| claim.proof_mut().insert(0, Hash::of_empty_tree()));
        change(&|claim| match claim {
            Self::Inclusion { leaf_hash, .. } => flip(leaf_hash),
            Self::Consistency { old, .. } => flip(&mut old.root),
        });
        change(&|claim| match claim {
            Self::Inclusion { head, .. } | Self::Consistency { new: head, .. } => flip(&mut head.root),
        });
        for bit in 0..64 {
            change(&|claim| match claim {
                Self::Inclusion { leaf, .. } => *leaf ^= 1 << bit,
                Self::Consistency { old, .. } => old.size = TreeSize::new(old.size.get() ^ (1 << bit)),
            });
            change(&|claim| match claim {
                Self::Inclusion { head, .. } | Self::Consistency { new: head, .. } => {
                    head.size = TreeSize::new(head.size.get() ^ (1 << bit));
                }
            });
        }
        all
    }

    fn proof(&self) -> &[Hash] {
        match self {
            Self::Inclusion { proof, .. } | Self::Consistency { proof, .. } => proof,
        }
    }

    fn proof_mut(&mut self) -> &mut Vec<Hash> {
        match self {
            Self::Inclusion { proof, .. } | Self::Consistency { proof, .. } => proof,
        }
    }
}

fn flip(hash: &mut Hash) {
    let mut bytes = *hash.as_bytes();
    bytes[13] ^= 0x40;
    *hash = Hash::from_bytes(bytes);
}

/// What the script says to these: how it exits, and a line each.
fn verdicts(claims: &[Value]) -> (Option<i32>, Vec<String>) {
    let file = tempfile::NamedTempFile::new().unwrap();
    serde_json::to_writer(&file, claims).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/verify_proof.py");
    let output = Command::new("python3").arg(&script).arg(file.path()).output().unwrap_or_else(|error| {
        panic!("this test runs {} and needs python3 on the PATH: {error}", script.display())
    });
    let lines = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(complaint, "", "the script has nothing to complain about");
    (output.status.code(), lines)
}

fn claims() -> Vec<Claim> {
    let dense = Dense::numbered(600);
    let memory = stored(&dense.0);
    let large = [0, 1, 255, 256, 65_535, 65_536, 1_000_000, (1 << 40) - 1, u64::MAX - 2];
    let sparse = Sparse::new(u64::MAX, large);
    let mut claims = Vec::new();
    let mut claim = |inclusion: Vec<Hash>, consistency: Vec<Hash>, leaf: u64, old: Head, new: Head| {
        claims.push(Claim::Inclusion { leaf_hash: numbered(leaf), leaf, head: new, proof: inclusion });
        claims.push(Claim::Consistency { old, new, proof: consistency });
    };
    for size in (1..=20).chain([255, 256, 257, 511, 512, 513, 600]) {
        for leaf in [0, 1, 2, 4, 7, 14, 254, 255, 256, 257, 511].into_iter().filter(|&leaf| leaf < size) {
            let tree = Tree::over(&memory);
            let head = |size| tree.head(TreeSize::new(size)).unwrap();
            let (old, new) = (head(leaf + 1), head(size));
            let inclusion = tree.inclusion_proof(LeafIndex::new(leaf), new.size).unwrap();
            let consistency = tree.consistency_proof(old.size, new.size).unwrap();
            claim(inclusion, consistency, leaf, old, new);
        }
    }
    for size in [65_537, 1_000_001, 1 << 40, u64::MAX] {
        for leaf in large.into_iter().filter(|&leaf| leaf < size) {
            let tree = Tree::over(&sparse);
            let head = |size| Head { size: TreeSize::new(size), root: sparse.root(size) };
            let (old, new) = (head(leaf + 1), head(size));
            let inclusion = tree.inclusion_proof(LeafIndex::new(leaf), new.size).unwrap();
            let consistency = tree.consistency_proof(old.size, new.size).unwrap();
            claim(inclusion, consistency, leaf, old, new);
        }
    }
    claims
}

#[test]
fn the_independent_verifier_accepts_every_proof() {
    let claims: Vec<Value> = claims().iter().map(Claim::to_json).collect();
    let (exit, lines) = verdicts(&claims);
    assert_eq!(lines.len(), claims.len());
    for line in &lines {
        assert!(line.ends_with(": ok"), "{line}");
    }
    assert_eq!(exit, Some(0));
}

#[test]
fn the_independent_verifier_comes_to_the_same_verdict_on_everything_tampered_with() {
    let tampered: Vec<Claim> = claims().iter().step_by(9).flat_map(Claim::tampered).collect();
    assert!(tampered.len() > 3000, "{}", tampered.len());
    let (exit, lines) = verdicts(&tampered.iter().map(Claim::to_json).collect::<Vec<_>>());
    assert_eq!(lines.len(), tampered.len());
    for (claim, line) in tampered.iter().zip(&lines) {
        assert_eq!(line.ends_with(": ok"), claim.holds(), "{line}: {}", claim.to_json());
        assert_eq!(line.contains(": WRONG: "), !claim.holds(), "{line}");
    }
    assert_eq!(exit, Some(1));
    // The ones that hold are those whose size a root cannot tell (see `tampering.rs`); all others are refused.
    let refused = tampered.iter().filter(|claim| !claim.holds()).count();
    assert!(refused * 10 > tampered.len() * 9, "{refused} of {}", tampered.len());
}

#[test]
fn one_wrong_proof_among_right_ones_is_named_and_decides_the_exit() {
    let all = claims();
    let wrong = all[8].tampered().remove(0);
    let (exit, lines) = verdicts(&[all[7].to_json(), wrong.to_json(), all[9].to_json()]);
    assert_eq!(exit, Some(1));
    let right: Vec<bool> = lines.iter().map(|line| line.ends_with(": ok")).collect();
    assert_eq!(right, [true, false, true]);
    assert!(lines[1].starts_with("2 "), "{}", lines[1]);
}

#[test]
fn the_independent_verifier_hashes_leaves_itself_and_refuses_what_is_malformed() {
    let leaf = b"event".as_slice();
    let root = Hash::of_leaf(leaf).to_string();
    let claim = |leaf: &str| json!({"kind": "inclusion", "leaf": leaf, "index": 0, "size": 1, "proof": [], "root": root});
    assert_eq!(verdicts(&[claim("6576656e74")]).0, Some(0));
    assert_eq!(verdicts(&[claim("6576656e75")]).0, Some(1));
    let malformed = [
        json!(null),
        json!({}),
        json!({"kind": "exclusion"}),
        claim("xx"),
        json!({"kind": "inclusion", "leaf_hash": "00", "index": 0, "size": 1, "proof": [], "root": "00"}),
        json!({"kind": "inclusion", "leaf_hash": root, "index": 0, "size": 1.0, "proof": [], "root": root}),
        json!({"kind": "inclusion", "leaf_hash": root, "index": -1, "size": 1, "proof": [], "root": root}),
        json!({"kind": "inclusion", "leaf_hash": root, "index": false, "size": 1, "proof": [], "root": root}),
        json!({"kind": "inclusion", "leaf_hash": root, "index": 0, "size": 1, "proof": "", "root": root}),
    ];
    let (exit, lines) = verdicts(&malformed);
    assert_eq!((exit, lines.len()), (Some(1), malformed.len()));
    assert!(lines.iter().all(|line| line.contains(": WRONG: ")), "{lines:#?}");
}
