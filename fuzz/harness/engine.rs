//! What the engine is asked to read with arbitrary bytes, and what must hold whatever they are.
//!
//! Plain functions, one per fuzz target, so that the fuzzer and the bounded test of `crates/engine` run the same code.

#![allow(dead_code, reason = "each fuzz target uses one of the functions")]

use bytes::Bytes;
use gapless_engine::entry::Entry;
use gapless_engine::fuzzing::{catalog_again, manifest_again, piece_items, question_again, sealed_manifest};

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

/// The manifest of a backup, as it is and with its checksum made right: what is read has one encoding.
pub fn manifest(data: &[u8]) {
    for bytes in [data.to_vec(), sealed_manifest(data)] {
        if let Some(again) = manifest_again(&bytes) {
            assert_eq!(again, bytes);
        }
    }
}

/// A file of a backup, of each of its kinds, as it is and with the header and the checksums of all items made right. What is read is all
/// there is.
pub fn piece(data: &[u8]) {
    for kind in 0..3 {
        check_piece(data, kind);
        let mut bytes = data.to_vec();
        if bytes.len() >= 24 {
            bytes[..24].copy_from_slice(&[0; 24]);
            bytes[..8].copy_from_slice(b"GAPLPIEC");
            (bytes[8], bytes[12], bytes[16]) = (1, kind + 1, 1);
        }
        let mut at = 24;
        while let Some(header) = bytes.get(at..at + 8) {
            let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
            let Some(item) = bytes.get(at + 8..).and_then(|rest| rest.get(..length)) else { break };
            let sum = crc32c::crc32c(item).to_le_bytes();
            bytes[at + 4..at + 8].copy_from_slice(&sum);
            at += 8 + length;
        }
        check_piece(&bytes, kind);
    }
}

fn check_piece(bytes: &[u8], kind: u8) {
    if let Some(items) = piece_items(bytes, kind) {
        let length: usize = items.iter().map(|item| item.len() + 8).sum();
        assert_eq!(length + 24, bytes.len());
    }
}

/// What nodes ask each other and answer, as it is and with its checksum made right: what is read has one encoding.
pub fn question(data: &[u8]) {
    let mut sealed = data.to_vec();
    if sealed.len() >= 4 {
        let sum = crc32c::crc32c(&sealed[4..]);
        sealed[..4].copy_from_slice(&sum.to_le_bytes());
    }
    for bytes in [data, &sealed] {
        let (question, answer) = question_again(bytes);
        assert!(question.is_none_or(|again| again == bytes));
        assert!(answer.is_none_or(|again| again == bytes));
    }
}
