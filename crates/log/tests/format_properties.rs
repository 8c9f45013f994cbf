//! Every encoder and its decoder: what goes in comes out, whatever it is; and what was not written does not pass.

#![expect(clippy::unwrap_used, reason = "the first thing that does not hold ends the test")]

use gapless_log::format::control::{Control, Loss, StateKey, Suspect};
use gapless_log::format::footer::{Footer, TRAILER_BYTES};
use gapless_log::format::frame::{DecodedFrame, FrameHeader};
use gapless_log::format::record::{RawRecord, RecordType, Stored, record_bytes, records, unpack};
use gapless_log::format::segment::{DecodedHeader, SegmentHeader};
use gapless_log::format::{
    FRAME_HEADER_BYTES, Geometry, Layout, LogId, Salt, parse_segment_file_name, segment_file_name,
};
use gapless_log::{Extent, Override, SegmentIndex};
use gapless_types::limits::{LAST_LOG_NUMBER, LAST_SEGMENT_NUMBER};
use gapless_types::limits::{MAX_FRAME_BYTES, MAX_SEGMENT_BYTES};
use gapless_types::{FrameNumber, Position, SegmentNumber};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// Blocks of the shortest segment that has room for a frame.
const MIN_BLOCKS: u32 = 4;

fn log_id() -> impl Strategy<Value = LogId> {
    any::<[u8; 16]>().prop_map(LogId::from_bytes)
}

fn salt() -> impl Strategy<Value = Salt> {
    log_id().prop_map(|log| log.salt())
}

fn segment_number() -> impl Strategy<Value = SegmentNumber> {
    (1..=LAST_SEGMENT_NUMBER).prop_map(|number| SegmentNumber::new(number).unwrap())
}

fn frame_number() -> impl Strategy<Value = FrameNumber> {
    (1..=LAST_LOG_NUMBER).prop_map(|number| FrameNumber::new(number).unwrap())
}

fn position() -> impl Strategy<Value = Position> {
    (0..=LAST_LOG_NUMBER + 1).prop_map(Position::new)
}

fn lowest() -> impl Strategy<Value = Option<Position>> {
    option::of(position())
}

fn geometry() -> impl Strategy<Value = Geometry> {
    let layout = prop_oneof![Just(Layout::Aligned), Just(Layout::Packed)];
    (MIN_BLOCKS..=MAX_SEGMENT_BYTES / 4096, layout)
        .prop_map(|(blocks, layout)| Geometry { capacity: blocks * 4096, layout })
}

prop_compose! {
    fn segment_header()(
        log in log_id(),
        number in segment_number(),
        geometry in geometry(),
        first_frame in frame_number(),
        previous_checksum: u32,
        first_position in position(),
        truncations: u32,
        lowest_truncated in lowest(),
    ) -> SegmentHeader {
        SegmentHeader {
            log, number, geometry, first_frame, previous_checksum, first_position, truncations, lowest_truncated,
        }
    }
}

prop_compose! {
    fn frame_header()(
        (number, segment) in (frame_number(), segment_number()),
        (offset, body_length) in (0..=MAX_SEGMENT_BYTES, 0..=MAX_FRAME_BYTES),
        (record_count, body_checksum, previous_checksum) in any::<(u32, u32, u32)>(),
        (durable_distance, truncations) in any::<(u32, u32)>(),
        first_position in position(),
        lowest_truncated in lowest(),
    ) -> FrameHeader {
        FrameHeader {
            number, segment, offset, body_length, record_count, body_checksum, previous_checksum,
            durable_distance, truncations, first_position, lowest_truncated,
        }
    }
}

fn record_type() -> impl Strategy<Value = RecordType> {
    prop_oneof![
        Just(RecordType::Data),
        Just(RecordType::State),
        Just(RecordType::Truncate),
        Just(RecordType::Release),
        Just(RecordType::Suspect),
        Just(RecordType::Loss),
        Just(RecordType::Repair),
    ]
}

/// A record's type, position, stored payload, and the length before compression if it is taken for compressed.
fn record_parts() -> impl Strategy<Value = (RecordType, Position, Vec<u8>, Option<u32>)> {
    (record_type(), position(), vec(any::<u8>(), 0..200), option::of(0..10_000_u32))
}

fn stored(bytes: &[u8], plain_length: Option<u32>) -> Stored<'_> {
    plain_length.map_or(Stored::Plain(bytes), |length| Stored::Compressed(bytes, length))
}

/// Extents in order of positions and of bytes, as folding frames makes them; the end of the last one.
fn extents() -> impl Strategy<Value = (Vec<Extent>, u32)> {
    let step = (0..1000_u64, 1..1000_u32, 0..1000_u32, 1..5000_u32);
    (0..LAST_LOG_NUMBER - 40_000, vec(step, 0..20)).prop_map(|(start, steps)| {
        let (mut position, mut offset) = (start, Geometry::CONTENT_START);
        let mut extents = Vec::new();
        for (skipped, count, gap, length) in steps {
            let first = Position::new(position + skipped);
            extents.push(Extent { first, count, offset: offset + gap, length });
            position += skipped + u64::from(count);
            offset += gap + length;
        }
        (extents, offset)
    })
}

fn hole() -> impl Strategy<Value = std::ops::Range<Position>> {
    (0..LAST_LOG_NUMBER / 2, 1..LAST_LOG_NUMBER / 2)
        .prop_map(|(start, length)| Position::new(start)..Position::new(start + length))
}

prop_compose! {
    fn footer()(
        segment in segment_number(),
        (sealed, tail_dropped, state_in_doubt) in any::<(bool, bool, bool)>(),
        (last_frame, last_checksum, truncations) in (0..=LAST_LOG_NUMBER, any::<u32>(), any::<u32>()),
        next_position in position(),
        lowest_truncated in lowest(),
        (extents, end_offset) in extents(),
        singles in vec((0..LAST_LOG_NUMBER, 0..4000_u32, 24..96_u32), 0..5),
        holes in vec(hole(), 0..5),
        controls in vec(any::<u8>(), 0..100),
    ) -> Footer {
        let overrides = singles.into_iter().map(|(position, offset, length)| {
            Override { position: Position::new(position), offset, length }
        });
        Footer {
            segment, sealed, tail_dropped, state_in_doubt, last_frame, end_offset, last_checksum, truncations,
            next_position, lowest_truncated,
            index: SegmentIndex { extents, overrides: overrides.collect(), holes },
            controls,
        }
    }
}

fn flip(bytes: &mut [u8], bit: usize) {
    bytes[bit / 8] ^= 1 << (bit % 8);
}

proptest! {
    #[test]
    fn a_segment_header_comes_back_as_it_was(header in segment_header()) {
        let block = header.encode();
        prop_assert_eq!(SegmentHeader::decode(&block), DecodedHeader::Valid { header, copies: 2 });
    }

    #[test]
    fn a_segment_header_is_never_read_as_another_one(
        header in segment_header(),
        places in vec((0..4096_usize, any::<u8>()), 1..40),
    ) {
        let mut block = header.encode();
        places.into_iter().for_each(|(place, byte)| block[place] = byte);
        match SegmentHeader::decode(&block) {
            DecodedHeader::Valid { header: found, .. } => prop_assert_eq!(found, header),
            other => prop_assert_eq!(other, DecodedHeader::Damaged),
        }
    }

    #[test]
    fn a_frame_header_comes_back_as_it_was(salt in salt(), header in frame_header()) {
        let mut bytes = [0; FRAME_HEADER_BYTES];
        let checksum = header.encode(salt, &mut bytes);
        prop_assert_eq!(FrameHeader::decode(salt, &bytes), DecodedFrame::Valid(header, checksum));
        prop_assert!(header.certified() <= header.number.get());
    }

    #[test]
    fn a_frame_header_with_another_bit_or_of_another_log_is_invalid(
        (log, other) in (log_id(), log_id()),
        header in frame_header(),
        bit in 0..FRAME_HEADER_BYTES * 8,
    ) {
        prop_assume!(log.salt() != other.salt());
        let mut bytes = [0; FRAME_HEADER_BYTES];
        header.encode(log.salt(), &mut bytes);
        prop_assert_eq!(FrameHeader::decode(other.salt(), &bytes), DecodedFrame::Invalid);
        flip(&mut bytes, bit);
        prop_assert_eq!(FrameHeader::decode(log.salt(), &bytes), DecodedFrame::Invalid);
    }

    #[test]
    fn the_records_of_a_body_come_back_in_order(salt in salt(), parts in vec(record_parts(), 0..20)) {
        let written: Vec<RawRecord<'_>> = parts
            .iter()
            .map(|(kind, position, bytes, plain)| {
                RawRecord { kind: *kind, position: *position, payload: stored(bytes, *plain) }
            })
            .collect();
        let mut body = Vec::new();
        written.iter().for_each(|record| record.encode(salt, &mut body));
        prop_assert_eq!(body.len(), parts.iter().map(|(_, _, bytes, _)| record_bytes(bytes.len())).sum::<usize>());

        let mut end = 0;
        let mut read = Vec::new();
        for record in records(salt, &body) {
            let (at, record, taken) = record.unwrap();
            prop_assert_eq!(at, end);
            end += taken;
            read.push(record);
        }
        prop_assert_eq!(end, body.len());
        prop_assert_eq!(read, written);
    }

    #[test]
    fn a_record_with_another_bit_is_none(
        salt in salt(),
        (kind, position, bytes, plain) in record_parts(),
        place in any::<prop::sample::Index>(),
    ) {
        let mut body = Vec::new();
        RawRecord { kind, position, payload: stored(&bytes, plain) }.encode(salt, &mut body);
        flip(&mut body, place.index((24 + bytes.len()) * 8));
        prop_assert!(RawRecord::decode(salt, &body).is_err());
    }

    #[test]
    fn a_payload_unpacks_to_what_was_packed_and_to_no_other_length(
        payload in vec(0..4_u8, 0..3000),
        wrong in 0..4000_u32,
    ) {
        let packed = zstd::bulk::compress(&payload, 3).unwrap();
        let length = u32::try_from(payload.len()).unwrap();
        prop_assume!(wrong != length);
        prop_assert_eq!(unpack(&packed, length), Some(payload));
        prop_assert_eq!(unpack(&packed, wrong), None);
    }

    #[test]
    fn a_control_record_comes_back_as_it_was(
        salt in salt(),
        which in 0..6,
        (position, end, key) in (position(), position(), any::<u16>()),
        (segment, last_segment) in (segment_number(), segment_number()),
        (offset, frame) in (any::<u32>(), frame_number()),
        value in vec(any::<u8>(), 0..50),
    ) {
        let control = match which {
            0 => Control::State(StateKey(key), &value),
            1 => Control::Truncate(position),
            2 => Control::Release(position, segment),
            3 => Control::Suspect(Suspect { first_position: position, segment, offset, frame }),
            4 => Control::Settled,
            _ => Control::Loss(Loss { first: position, end, first_segment: segment, last_segment }),
        };
        let mut body = Vec::new();
        control.encode(salt, &mut body);
        let (record, taken) = RawRecord::decode(salt, &body).unwrap();
        prop_assert_eq!(taken, body.len());
        prop_assert_eq!(Control::decode(&record), Some(control));
    }

    #[test]
    fn a_footer_comes_back_as_it_was(salt in salt(), footer in footer()) {
        let bytes = footer.encode(salt);
        let (index, trailer) = bytes.split_at(bytes.len() - TRAILER_BYTES);
        prop_assert_eq!(Footer::index_bytes(trailer, footer.segment), u32::try_from(index.len()).ok());
        prop_assert_eq!(Footer::decode(salt, index, trailer), Some(footer));
    }

    #[test]
    fn a_footer_with_another_bit_is_none(
        salt in salt(),
        footer in footer(),
        place in any::<prop::sample::Index>(),
    ) {
        let mut bytes = footer.encode(salt);
        let split = bytes.len() - TRAILER_BYTES;
        flip(&mut bytes, place.index(split * 8 + TRAILER_BYTES * 8));
        prop_assert_eq!(Footer::decode(salt, &bytes[..split], &bytes[split..]), None);
    }

    #[test]
    fn a_segment_is_found_under_its_name(number in segment_number()) {
        let name = segment_file_name(number);
        prop_assert_eq!(name.len(), "0000000001.segment".len());
        prop_assert_eq!(parse_segment_file_name(&name), Some(number));
    }

    #[test]
    fn frames_and_footer_of_a_segment_do_not_overlap(geometry in geometry(), body in 0..=MAX_FRAME_BYTES) {
        let end = geometry.content_end();
        prop_assert!(Geometry::CONTENT_START < end && end < geometry.capacity);
        prop_assert_eq!(end % 4096, 0);
        prop_assert_eq!(end - Geometry::CONTENT_START, geometry.content_bytes());
        let frame = geometry.layout.frame_bytes(body);
        prop_assert!(frame as usize >= FRAME_HEADER_BYTES + body as usize);
        prop_assert_eq!(frame % geometry.layout.alignment(), 0);
    }
}
