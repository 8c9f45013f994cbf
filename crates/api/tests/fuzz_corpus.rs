//! The fuzz targets of `fuzz/` for what clients send, on a stable compiler and in bounded time.
//!
//! The inputs follow from one number, which is printed. Another one is tried with
//! `GAPLESS_FUZZ_SEED=7 cargo test -p gapless-api --test fuzz_corpus`. An input that fails is printed; once the fault
//! behind it is repaired, it becomes a file `fuzz/corpus/TARGET/seed-NAME`.

#![expect(clippy::unwrap_used, reason = "the first thing that does not hold ends the test")]
#![expect(clippy::print_stdout, reason = "seeds and failing inputs are printed")]

#[path = "../../../fuzz/harness/api.rs"]
pub mod api;
#[path = "../../../fuzz/harness/calls.rs"]
pub mod calls;
#[path = "../../../fuzz/harness/exercise.rs"]
mod exercise;

use exercise::exercise;

#[test]
fn writes() {
    exercise("write_request", api::write_request, 20_000);
}

#[test]
fn bodies_and_queries() {
    exercise("http_json", api::http_json, 10_000);
}

#[test]
fn definitions() {
    exercise("definition", api::definition, 10_000);
}

#[test]
fn page_tokens() {
    exercise("page_token", api::page_token_of, 20_000);
}

#[test]
fn every_call() {
    let pool = prost_reflect::DescriptorPool::decode(gapless_api::FILE_DESCRIPTORS).unwrap();
    let methods = pool.services().map(|service| service.methods().count()).sum::<usize>();
    assert_eq!(methods, usize::from(calls::CALLS), "each call of the protocol is one that is tried");
    exercise("call", calls::call, 3_000);
}
