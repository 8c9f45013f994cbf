//! Fuzzes a whole directory of a log, arbitrary, damaged or forged; what must hold is in `../harness/log.rs`.

#![no_main]

#[path = "../harness/log.rs"]
mod log;

libfuzzer_sys::fuzz_target!(|data: &[u8]| log::directory(data));
