//! Tamper evidence: anyone who keeps 32 bytes can later check that no event of a workspace was changed, moved or removed.
//!
//! The events of a workspace are the leaves of the Merkle tree of RFC 6962 (SHA-256), in the order of their offsets. One
//! event is one leaf is one block, so the tree of every size is a function of the events alone and never of how they were
//! batched. What a leaf covers is the caller's: the event's canonical bytes, numbers included.
//!
//! ```text
//!  append ──▶ Frontier ──▶ root of the new size ──▶ BlockHeader      to be kept by a client
//!                │
//!                └──▶ leaf hash; root of every subtree of 256, 65 536, ... leaves that is now full      to be stored
//!                                          │
//!  Tree over StoredHashes ◀────────────────┘
//!     └──▶ root of any size, inclusion proof of any leaf, consistency proof of any two sizes, at any time
//!                                          │
//!  verify ◀────────────────────────────────┘      needs the proof, the heads and nothing else
//! ```
//!
//! # What it costs
//!
//! | | hashes computed | hashes read |
//! |---|---|---|
//! | append, with the root | 1 of the leaf; nodes: at most the binary logarithm of the new size, half of that on average | none |
//! | root of any size | fewer than are read | at most 255 for each level |
//! | inclusion or consistency proof | fewer than are read | at most 510 for each level, 511 for a consistency |
//! | verification | at most 64 nodes for an inclusion, twice that for a consistency | none |
//!
//! A tree has one level more than the logarithm of its size to the base 256: 3 with a million leaves. An
//! append and its root together compute fewer node hashes than the size has binary digits. Stored are 32 bytes for each leaf and, for each 255
//! leaves, another 32.
//!
//! # Example
//!
//! ```
//! use gapless_proof::{Frontier, Hash, Head, LeafIndex, Memory, Tree, verify_consistency, verify_inclusion};
//!
//! let mut frontier = Frontier::default();
//! let mut stored = Memory::default();
//! let mut heads: Vec<Head> = Vec::new();
//! for event in ["first", "second", "third"] {
//!     let leaf = Hash::of_leaf(event.as_bytes());
//!     let completed = frontier.append(leaf)?;
//!     stored.add(leaf, &completed);
//!     heads.push(frontier.head());
//! }
//!
//! let tree = Tree::over(&stored);
//! let proof = tree.inclusion_proof(LeafIndex::new(1), heads[2].size)?;
//! verify_inclusion(Hash::of_leaf(b"second"), LeafIndex::new(1), &heads[2], &proof)?;
//! assert!(verify_inclusion(Hash::of_leaf(b"forged"), LeafIndex::new(1), &heads[2], &proof).is_err());
//!
//! let proof = tree.consistency_proof(heads[0].size, heads[2].size)?;
//! verify_consistency(&heads[0], &heads[2], &proof)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The bytes are in `docs/format.md`, the reasons in `docs/adr/0009-proofs.md`.
//!
//! Must not know: what an event is, where hashes are stored, clocks, threads, any other crate of ours.

mod frontier;
mod hash;
mod header;
mod memory;
mod number;
mod shape;
mod stored;
mod tree;
mod verify;

pub use frontier::{Completed, Frontier, FrontierError};
pub use hash::Hash;
pub use header::{BlockHeader, HEADER_BYTES, HeaderError};
pub use memory::Memory;
pub use number::{Head, Height, LeafIndex, TreeSize};
pub use stored::{StoredHashes, Subtree, completed_subtrees};
pub use tree::{Tree, TreeError};
pub use verify::{VerifyError, verify_consistency, verify_inclusion};
