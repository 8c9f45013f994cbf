//! Makes checksums right again, so that what they protect gets past them.
//!
//! Must not know: what the fields mean, beyond where they are and how long things are.

use gapless_log::format::footer::TRAILER_BYTES;
use gapless_log::format::{FRAME_HEADER_BYTES, RECORD_ALIGNMENT, RECORD_HEADER_BYTES, Salt};

const HEADER_COPIES_AT: [usize; 2] = [0, 2048];
const HEADER_COPY_BYTES: usize = 128;

/// Both copies in the first block of a segment.
pub(super) fn segment_header(block: &mut [u8]) {
    for at in HEADER_COPIES_AT {
        let Some(copy) = block.get_mut(at..at + HEADER_COPY_BYTES) else { return };
        copy[..8].copy_from_slice(b"GAPLESSL");
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&copy[..12]), &copy[16..]);
        put(copy, 12, checksum);
    }
}

/// The header of a frame; returns its checksum.
pub(super) fn frame_header(salt: Salt, header: &mut [u8]) -> u32 {
    header[..4].copy_from_slice(b"GLFR");
    let checksum = salt.checksum(&[&header[8..FRAME_HEADER_BYTES]]);
    put(header, 4, checksum);
    checksum
}

/// The records of a body, as far as their lengths lead.
pub(super) fn records(salt: Salt, body: &mut [u8]) {
    let mut at = 0;
    while let Some(header) = body.get(at..at + RECORD_HEADER_BYTES) {
        let end = at + RECORD_HEADER_BYTES + get(header, 0) as usize;
        let Some(record) = body.get_mut(at..end) else { return };
        let checksum = salt.checksum(&[&record[..4], &record[8..]]);
        put(record, 4, checksum);
        at = end.next_multiple_of(RECORD_ALIGNMENT);
    }
}

/// The trailer of a footer, whose index is everything before it.
pub(super) fn footer(salt: Salt, bytes: &mut [u8]) {
    let (index, trailer) = bytes.split_at_mut(bytes.len() - TRAILER_BYTES);
    trailer[..4].copy_from_slice(b"GLFT");
    let checksum = salt.checksum(&[&trailer[8..], index]);
    put(trailer, 4, checksum);
}

/// A whole segment: everything in it that carries a magic number.
pub(super) fn segment(salt: Salt, file: &mut [u8]) {
    if file.len() < 4096 {
        return;
    }
    if file.starts_with(b"GAPLESSL") {
        segment_header(file);
    }
    let mut previous = None;
    let mut at = 4096;
    while at + FRAME_HEADER_BYTES <= file.len() {
        if !file[at..].starts_with(b"GLFR") {
            at += RECORD_ALIGNMENT;
            continue;
        }
        let body_at = at + FRAME_HEADER_BYTES;
        let body_end = body_at + get(file, at + 24) as usize;
        if let Some(body) = file.get_mut(body_at..body_end) {
            records(salt, body);
            let checksum = salt.checksum(&[body]);
            put(file, at + 32, checksum);
        }
        if let Some(previous) = previous {
            put(file, at + 36, previous);
        }
        previous = Some(frame_header(salt, &mut file[at..]));
        at = body_at;
    }
    let trailer = file.len() - TRAILER_BYTES;
    if file[trailer..].starts_with(b"GLFT") {
        let index = (get(file, trailer + 28) as usize).min(trailer);
        footer(salt, &mut file[trailer - index..]);
    }
}

fn get(bytes: &[u8], at: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(value)
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}
