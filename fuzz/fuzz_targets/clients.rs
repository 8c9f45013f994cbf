//! Fuzzes files of clients; what must hold is in `../harness/access.rs`.

#![no_main]

#[path = "../harness/access.rs"]
mod access;

libfuzzer_sys::fuzz_target!(|data: &[u8]| access::clients(data));
