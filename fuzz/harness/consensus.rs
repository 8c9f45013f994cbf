//! What consensus is asked to read with arbitrary bytes, and what must hold whatever they are.
//!
//! Plain functions, one per fuzz target, so that the fuzzer and the bounded test of `crates/consensus` run the same code.

use gapless_consensus::fuzzing::{control_again, snapshot_body, snapshot_header_again};

/// A snapshot on its way, or its header, or a control file, as they are and with all checksums made right: what can be taken apart has
/// one encoding, and a body is the same however it was cut on its way.
pub fn snapshot(data: &[u8]) {
    check(data);
    check(&sealed_header(data));
    let stream = sealed_stream(data);
    let body = snapshot_body(&stream, 1000);
    assert_eq!(snapshot_body(&stream, 7), body);
}

fn check(bytes: &[u8]) {
    for again in [control_again(bytes), snapshot_header_again(bytes)].into_iter().flatten() {
        assert_eq!(again, bytes);
    }
    assert_eq!(snapshot_body(bytes, 1000), snapshot_body(bytes, 1));
}

/// Magic, checksum and content with the checksum made right.
fn sealed_header(data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    if bytes.len() >= 12 {
        let sum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..8]), &bytes[12..]);
        bytes[8..12].copy_from_slice(&sum.to_le_bytes());
    }
    bytes
}

/// A stream with all its checksums made right, as far as its lengths fit.
fn sealed_stream(data: &[u8]) -> Vec<u8> {
    let word = |at: usize| {
        let bytes = data.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().expect("four bytes")) as usize)
    };
    let Some(header) = word(0).and_then(|length| data.get(4..4 + length)) else { return data.to_vec() };
    let mut bytes = data[..4].to_vec();
    bytes.extend_from_slice(&sealed_header(header));
    let (mut sums, mut total) = (0, 0_u64);
    while let Some(length) = word(bytes.len()).filter(|length| *length > 0) {
        let at = bytes.len();
        let Some(piece) = data.get(at + 8..at + 8 + length) else { break };
        let sum = crc32c::crc32c(piece).to_le_bytes();
        sums = crc32c::crc32c_append(sums, &sum);
        total += length as u64;
        bytes.extend_from_slice(&data[at..at + 4]);
        bytes.extend_from_slice(&sum);
        bytes.extend_from_slice(piece);
    }
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&u32::to_le_bytes(sums));
    bytes.extend_from_slice(&total.to_le_bytes());
    bytes
}
