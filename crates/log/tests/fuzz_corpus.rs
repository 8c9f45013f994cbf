//! The fuzz targets of `fuzz/` on a stable compiler and in bounded time: over the seeds that are checked in, and over
//! some thousand inputs that are random or seeds with changes.
//!
//! The inputs follow from one number, which is printed. Another one is tried with
//! `GAPLESS_FUZZ_SEED=7 cargo test -p gapless-log --test fuzz_corpus`. An input that fails is printed; once the fault
//! behind it is repaired, it becomes a file `fuzz/corpus/TARGET/seed-NAME`.

#![expect(clippy::unwrap_used, reason = "the first thing that does not hold ends the test")]
#![expect(clippy::print_stdout, reason = "seeds and failing inputs are printed")]

#[path = "../../../fuzz/harness/exercise.rs"]
mod exercise;
#[path = "../../../fuzz/harness/log.rs"]
pub mod log;

use exercise::exercise;

#[test]
fn segment_headers() {
    exercise("segment_header", log::segment_header, 4000);
}

#[test]
fn frame_headers() {
    exercise("frame_header", log::frame_header, 20_000);
}

#[test]
fn records() {
    exercise("record", log::record, 20_000);
}

#[test]
fn controls() {
    exercise("control", log::control, 20_000);
}

#[test]
fn footers() {
    exercise("footer", log::footer, 20_000);
}

#[test]
fn directories() {
    exercise("directory", log::directory, 3000);
}
