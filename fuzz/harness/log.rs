//! What every decoder of the log is asked to do with arbitrary bytes, and what must hold whatever they are.
//!
//! Plain functions, one per fuzz target, so that the fuzzer and the bounded test of `crates/log` run the same code. A
//! function returns when everything held and panics when something did not.
//!
//! A checksum keeps arbitrary bytes from getting far. So each function looks at its bytes twice: as they are, and with
//! the checksums made right, as if a program with a bug, or somebody with bad intentions, had written them.

#![allow(dead_code, reason = "each fuzz target uses one of the functions")]

use gapless_log::format::control::Control;
use gapless_log::format::footer::{Footer, TRAILER_BYTES};
use gapless_log::format::frame::{DecodedFrame, FrameHeader};
use gapless_log::format::record::{RawRecord, RecordType, Stored, record_bytes, records, unpack};
use gapless_log::format::segment::{DecodedHeader, SegmentHeader};
use gapless_log::format::{FRAME_HEADER_BYTES, LogId, RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, Salt};
use gapless_types::limits::LAST_LOG_NUMBER;
use gapless_types::{Position, SegmentNumber};

mod damage;
mod history;
mod reseal;
mod survival;

/// The log that all bytes are taken for.
const LOG: LogId = LogId::from_bytes(*b"fuzzed log files");

fn salt() -> Salt {
    LOG.salt()
}

/// The first 4 KiB of a segment.
pub fn segment_header(data: &[u8]) {
    check_segment_header(data);
    let mut block = data.to_vec();
    block.resize(SEGMENT_HEADER_BYTES as usize, 0);
    check_segment_header(&block);
    reseal::segment_header(&mut block);
    check_segment_header(&block);
}

/// Whatever is taken for a header says the same once it is written again, in both copies.
fn check_segment_header(block: &[u8]) {
    if let DecodedHeader::Valid { header, copies } = SegmentHeader::decode(block) {
        assert!(copies == 1 || copies == 2, "{copies} copies");
        let again = SegmentHeader::decode(&header.encode());
        assert_eq!(again, DecodedHeader::Valid { header, copies: 2 });
    }
}

/// 64 bytes where a frame may start.
pub fn frame_header(data: &[u8]) {
    check_frame_header(data);
    let mut header = data.to_vec();
    header.resize(FRAME_HEADER_BYTES, 0);
    reseal::frame_header(salt(), &mut header);
    check_frame_header(&header);
}

/// Whatever is taken for a header is what an encoder would write.
fn check_frame_header(bytes: &[u8]) {
    if let DecodedFrame::Valid(header, checksum) = FrameHeader::decode(salt(), bytes) {
        assert!(header.certified() <= header.number.get(), "a frame certifies no later one");
        let mut again = [0; FRAME_HEADER_BYTES];
        assert_eq!(header.encode(salt(), &mut again), checksum);
        assert_eq!(again, bytes[..FRAME_HEADER_BYTES]);
    }
}

/// The body of a frame: records, and what their payloads unpack to.
pub fn record(data: &[u8]) {
    check_records(data);
    let mut body = data.to_vec();
    reseal::records(salt(), &mut body);
    check_records(&body);
}

/// Whatever is taken for a record is what an encoder would write, and no record reaches behind the body.
fn check_records(body: &[u8]) {
    let mut end = 0;
    for record in records(salt(), body) {
        let Ok((at, record, taken)) = record else { break };
        assert_eq!(at, end, "records follow each other");
        end = at + taken;
        let stored = check_payload(&record);
        assert_eq!(taken, record_bytes(stored));
        let mut again = Vec::new();
        record.encode(salt(), &mut again);
        let length = RECORD_HEADER_BYTES + stored;
        assert_eq!(again[..length], body[at..at + length]);
    }
}

/// Unpacks the payload; returns how many bytes are stored.
fn check_payload(record: &RawRecord<'_>) -> usize {
    match record.payload {
        Stored::Plain(bytes) => bytes.len(),
        Stored::Compressed(bytes, length) => {
            if let Some(plain) = unpack(bytes, length) {
                assert_eq!(plain.len(), length as usize, "a payload has the length that its header says");
            }
            bytes.len()
        }
    }
}

/// A record of the log's own: one byte for its type, 8 for its position, the rest for its payload.
pub fn control(data: &[u8]) {
    const TYPES: [RecordType; 7] = [
        RecordType::Data,
        RecordType::State,
        RecordType::Truncate,
        RecordType::Release,
        RecordType::Suspect,
        RecordType::Loss,
        RecordType::Repair,
    ];
    let Some((head, payload)) = data.split_at_checked(9) else { return };
    let mut position = [0; 8];
    position.copy_from_slice(&head[1..]);
    let position = u64::from_le_bytes(position);
    // No record can be decoded that has another one.
    if position > LAST_LOG_NUMBER + 1 {
        return;
    }
    let record = RawRecord {
        kind: TYPES[usize::from(head[0]) % TYPES.len()],
        position: Position::new(position),
        payload: Stored::Plain(payload),
    };
    let Some(control) = Control::decode(&record) else { return };
    let mut body = Vec::new();
    control.encode(salt(), &mut body);
    let (again, taken) = RawRecord::decode(salt(), &body).expect("what was encoded can be decoded");
    assert_eq!(taken, body.len());
    assert_eq!(Control::decode(&again), Some(control));
}

/// The end of a segment: an index and its trailer.
pub fn footer(data: &[u8]) {
    let mut bytes = data.to_vec();
    if bytes.len() < TRAILER_BYTES {
        bytes.resize(TRAILER_BYTES, 0);
    }
    check_footer(&bytes);
    reseal::footer(salt(), &mut bytes);
    check_footer(&bytes);
}

/// Whatever is taken for a footer says the same once it is written again.
fn check_footer(bytes: &[u8]) {
    let (index, trailer) = bytes.split_at(bytes.len() - TRAILER_BYTES);
    let _any_length = Footer::index_bytes(trailer, SegmentNumber::FIRST);
    let Some(footer) = Footer::decode(salt(), index, trailer) else { return };
    for extent in &footer.index.extents {
        let _no_overflow = extent.end();
    }
    let again = footer.encode(salt());
    let (index, trailer) = again.split_at(again.len() - TRAILER_BYTES);
    assert_eq!(Footer::decode(salt(), index, trailer), Some(footer));
}

/// The files of a log: arbitrary ones, or those of a valid log after something happened to them.
pub fn directory(data: &[u8]) {
    let Some((&mode, rest)) = data.split_first() else { return };
    match mode % 4 {
        0 => survival::of_arbitrary_files(rest),
        1 | 2 => survival::of_damage(rest),
        _ => survival::of_forgery(rest),
    }
}
