//! Fuzzes a damaged backup that is restored; what must hold is in `../harness/backup.rs`.

#![no_main]

#[path = "../harness/backup.rs"]
mod backup;

libfuzzer_sys::fuzz_target!(|data: &[u8]| backup::backup(data));
