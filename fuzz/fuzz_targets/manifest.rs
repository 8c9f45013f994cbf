//! Fuzzes the manifest of a backup; what must hold is in `../harness/engine.rs`.

#![no_main]

#[path = "../harness/engine.rs"]
mod engine;

libfuzzer_sys::fuzz_target!(|data: &[u8]| engine::manifest(data));
