//! The fuzz targets of `fuzz/` for partitions, proofs and stores, on a stable compiler and in bounded time.
//!
//! The inputs follow from one number, which is printed. Another one is tried with
//! `GAPLESS_FUZZ_SEED=7 cargo test -p gapless-partition --test fuzz_corpus`. An input that fails is printed; once the fault
//! behind it is repaired, it becomes a file `fuzz/corpus/TARGET/seed-NAME`.

#![expect(clippy::unwrap_used, reason = "the first thing that does not hold ends the test")]
#![expect(clippy::print_stdout, reason = "seeds and failing inputs are printed")]
#![allow(clippy::cast_possible_truncation, reason = "indexes of a small tree")]

#[path = "../../../fuzz/harness/exercise.rs"]
mod exercise;
#[path = "../../../fuzz/harness/partition.rs"]
pub mod partition;
#[path = "../../../fuzz/harness/proof.rs"]
pub mod proof;
#[path = "../../../fuzz/harness/store.rs"]
pub mod store;

use exercise::exercise;

#[test]
fn commands_alone() {
    exercise("command", partition::command, 20_000);
}

#[test]
fn outcomes() {
    exercise("outcome", partition::outcome, 20_000);
}

#[test]
fn logs_of_commands() {
    exercise("commands", partition::commands, 1000);
}

#[test]
fn proofs() {
    exercise("proof", proof::proof, 4000);
}

#[test]
fn stores() {
    exercise("store", store::store, 3000);
}
