//! Fuzzes what nodes ask each other; what must hold is in `../harness/engine.rs`.

#![no_main]

#[path = "../harness/engine.rs"]
mod engine;

libfuzzer_sys::fuzz_target!(|data: &[u8]| engine::question(data));
