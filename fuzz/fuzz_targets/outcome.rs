//! Fuzzes an outcome; what must hold is in `../harness/partition.rs`.

#![no_main]

#[path = "../harness/partition.rs"]
mod partition;

libfuzzer_sys::fuzz_target!(|data: &[u8]| partition::outcome(data));
