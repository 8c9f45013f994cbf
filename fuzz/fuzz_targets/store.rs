//! Fuzzes the files of a store; what must hold is in `../harness/store.rs`.

#![no_main]

#[path = "../harness/store.rs"]
mod store;

libfuzzer_sys::fuzz_target!(|data: &[u8]| store::store(data));
