//! Fuzzes a write as a message; what must hold is in `../harness/api.rs`.

#![no_main]

#[path = "../harness/api.rs"]
mod api;

libfuzzer_sys::fuzz_target!(|data: &[u8]| api::write_request(data));
