//! Fuzzes every call with its message; what must hold is in `../harness/calls.rs`.

#![no_main]

#[path = "../harness/calls.rs"]
mod calls;

libfuzzer_sys::fuzz_target!(|data: &[u8]| calls::call(data));
