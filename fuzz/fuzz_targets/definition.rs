//! Fuzzes the definition of a namespace; what must hold is in `../harness/api.rs`.

#![no_main]

#[path = "../harness/api.rs"]
mod api;

libfuzzer_sys::fuzz_target!(|data: &[u8]| api::definition(data));
