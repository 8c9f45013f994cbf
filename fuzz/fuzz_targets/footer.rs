//! Fuzzes the footer of a segment; what must hold is in `../harness/log.rs`.

#![no_main]

#[path = "../harness/log.rs"]
mod log;

libfuzzer_sys::fuzz_target!(|data: &[u8]| log::footer(data));
