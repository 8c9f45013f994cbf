//! The tree, its proofs and their verification, against the definitions of the RFC written down naively (`model.rs`).

#![allow(clippy::unwrap_used, reason = "the first thing that does not hold ends the test")]

mod boundaries;
mod document;

mod independent;
mod known_answers;
mod model;
mod properties;
mod reads;
mod sources;
mod tampering;
