//! The fuzz targets of `fuzz/` for tokens and keys, on a stable compiler and in bounded time.
//!
//! Another run than the printed one is made with `GAPLESS_FUZZ_SEED=7 cargo test -p gapless --test hostile fuzzing`.
#![allow(clippy::print_stdout, reason = "seeds and failing inputs are printed")]

#[path = "../../../../fuzz/harness/access.rs"]
pub mod access;
#[path = "../../../../fuzz/harness/exercise.rs"]
mod exercise;

use exercise::exercise;

#[test]
fn tokens() {
    exercise("token", access::token, 4_000);
}

#[test]
fn files_of_clients() {
    exercise("clients", access::clients, 4_000);
}

#[test]
fn files_of_keys() {
    exercise("token_keys", access::token_keys, 4_000);
}
