//! The fuzz target of `fuzz/` for what the log says to a projection, on a stable compiler and in bounded time.
//!
//! The inputs follow from one number, which is printed. Another one is tried with
//! `GAPLESS_FUZZ_SEED=7 cargo test -p gapless-projection --test fuzz_corpus`. An input that fails is printed; once the fault
//! behind it is repaired, it becomes a file `fuzz/corpus/TARGET/seed-NAME`.

#![expect(clippy::unwrap_used, reason = "the first thing that does not hold ends the test")]
#![expect(clippy::print_stdout, reason = "seeds and failing inputs are printed")]

#[path = "../../../fuzz/harness/exercise.rs"]
mod exercise;
#[path = "../../../fuzz/harness/projection.rs"]
pub mod projection;

use exercise::exercise;

#[test]
fn what_the_log_says_to_a_projection() {
    exercise("projection", projection::projection, 50_000);
}
