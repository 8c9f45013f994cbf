//! What the engine is asked to read with arbitrary bytes, and what must hold whatever they are.
//!
//! Plain functions, one per fuzz target, so that the fuzzer and the bounded test of `crates/engine` run the same code.

#![allow(dead_code, reason = "each fuzz target uses one of the functions")]

use bytes::Bytes;
use gapless_engine::entry::Entry;
use gapless_engine::fuzzing::catalog_again;

/// An entry of the replicated log, as it is and with its checksum made right: what can be taken apart has one encoding.
pub fn entry(data: &[u8]) {
    check_entry(data);
    let mut bytes = data.to_vec();
    if bytes.len() >= 8 {
        let sum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..4]), &bytes[8..]);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
    }
    check_entry(&bytes);
}

fn check_entry(bytes: &[u8]) {
    if let Ok(entry) = Entry::decode(&Bytes::copy_from_slice(bytes)) {
        assert_eq!(Entry::check(bytes), Ok(()), "what is decoded was checked");
        assert_eq!(entry.encode().as_deref(), Ok(bytes), "{entry:?}");
    }
}

/// The catalog file, as it is and with its checksum made right: what is read is written such that it says the same again.
pub fn catalog(data: &[u8]) {
    check_catalog(data);
    let mut bytes = data.to_vec();
    if bytes.len() >= 12 {
        let sum = crc32c::crc32c(&bytes[12..]);
        bytes[8..12].copy_from_slice(&sum.to_le_bytes());
    }
    check_catalog(&bytes);
}

fn check_catalog(bytes: &[u8]) {
    if let Some(again) = catalog_again(bytes) {
        assert_eq!(catalog_again(&again), Some(again));
    }
}
