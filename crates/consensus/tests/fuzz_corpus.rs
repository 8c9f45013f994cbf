//! The fuzz targets of `fuzz/` for consensus, on a stable compiler and in bounded time.
//!
//! The inputs follow from one number, which is printed. Another one is tried with
//! `GAPLESS_FUZZ_SEED=7 cargo test -p gapless-consensus --test fuzz_corpus`. An input that fails is printed; once the fault
//! behind it is repaired, it becomes a file `fuzz/corpus/TARGET/seed-NAME`.

#![expect(clippy::unwrap_used, reason = "the first thing that does not hold ends the test")]
#![expect(clippy::print_stdout, reason = "seeds and failing inputs are printed")]

#[path = "../../../fuzz/harness/consensus.rs"]
pub mod consensus;
#[path = "../../../fuzz/harness/exercise.rs"]
mod exercise;

use exercise::exercise;

#[test]
fn snapshots() {
    exercise("snapshot", consensus::snapshot, 4000);
}

#[test]
fn the_seeds_of_snapshots_are_snapshots() {
    let seed = |name: &str| {
        let path = format!("{}/../../fuzz/corpus/snapshot/seed-{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read(path).unwrap()
    };
    let (header, control) = (seed("header"), seed("control"));
    assert_eq!(gapless_consensus::fuzzing::snapshot_header_again(&header), Some(header));
    assert_eq!(gapless_consensus::fuzzing::control_again(&control), Some(control));
    let body = gapless_consensus::fuzzing::snapshot_body(&seed("pieces"), 5).unwrap();
    assert!(body.starts_with(b"firstthe second piece"));
    assert_eq!(gapless_consensus::fuzzing::snapshot_body(&seed("broken"), 5), None);
}
