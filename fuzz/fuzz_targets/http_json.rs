//! Fuzzes bodies and queries of HTTP; what must hold is in `../harness/api.rs`.

#![no_main]

#[path = "../harness/api.rs"]
mod api;

libfuzzer_sys::fuzz_target!(|data: &[u8]| api::http_json(data));
