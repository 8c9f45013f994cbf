//! Fuzzes what the log says to a projection; what must hold is in `../harness/projection.rs`.

#![no_main]

#[path = "../harness/projection.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::projection(data));
