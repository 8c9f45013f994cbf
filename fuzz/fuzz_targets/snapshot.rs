//! Fuzzes a snapshot on its way; what must hold is in `../harness/consensus.rs`.

#![no_main]

#[path = "../harness/consensus.rs"]
mod consensus;

libfuzzer_sys::fuzz_target!(|data: &[u8]| consensus::snapshot(data));
