//! Fuzzes a proof; what must hold is in `../harness/proof.rs`.

#![no_main]

#[path = "../harness/proof.rs"]
mod proof;

libfuzzer_sys::fuzz_target!(|data: &[u8]| proof::proof(data));
