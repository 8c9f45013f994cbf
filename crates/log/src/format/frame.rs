//! The header of a frame. A frame is one group commit: this header, then the records.
//!
//! ```text
//!   0  4  magic "GLFR"               36  4  checksum of the frame before
//!   4  4  CRC32C of the header       40  4  distance back to the last frame known durable
//!   8  8  frame number               44  4  truncations in this log before this frame (wraps)
//!  16  4  segment number             48  8  next position before this frame
//!  20  4  offset in the segment      56  8  lowest position truncated before this frame, in its
//!  24  4  body length                       segment or the two before; all ones if none
//!  28  4  record count
//!  32  4  CRC32C of the body
//! ```
//! Both CRCs start with the log's id. The header's own CRC is the frame's checksum: it covers the body's CRC and, through
//! "checksum of the frame before", everything that came earlier.
//!
//! The frame says where it lies (a misdirected write gives itself away) and how far truncations went (when a frame is
//! lost, its neighbour still tells which older records it had made void).

use gapless_types::limits::{MAX_FRAME_BYTES, MAX_SEGMENT_BYTES};
use gapless_types::{FrameNumber, Position, SegmentNumber};

use super::{FRAME_HEADER_BYTES, Layout, Salt, get, put};

const MAGIC: [u8; 4] = *b"GLFR";

/// What the header of a frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Dense over the whole log.
    pub number: FrameNumber,
    /// The segment it was written to.
    pub segment: SegmentNumber,
    /// Where in the segment it was written.
    pub offset: u32,
    /// Bytes of records behind the header, padding not counted.
    pub body_length: u32,
    /// Records in the body.
    pub record_count: u32,
    /// CRC32C of the body.
    pub body_checksum: u32,
    /// Checksum of the frame before; 0 for the first frame of a log.
    pub previous_checksum: u32,
    /// Frames between this one and the last one known durable when it was written: `number - durable`.
    pub durable_distance: u32,
    /// Truncations of the log before this frame.
    pub truncations: u32,
    /// The next position before this frame.
    pub first_position: Position,
    /// The lowest position cut off before this frame by a truncation in its segment or the two before, if any.
    pub lowest_truncated: Option<Position>,
}

/// What 64 bytes turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodedFrame {
    /// A header of this log and its checksum.
    Valid(FrameHeader, u32),
    /// Nothing but zeros.
    Blank,
    /// Anything else.
    Invalid,
}

impl FrameHeader {
    /// Writes the header to the first 64 bytes of `bytes`; returns the frame's checksum.
    pub fn encode(&self, salt: Salt, bytes: &mut [u8]) -> u32 {
        bytes[..4].copy_from_slice(&MAGIC);
        put::u64(bytes, 8, self.number.get());
        put::u32(bytes, 16, self.segment.get());
        put::u32(bytes, 20, self.offset);
        put::u32(bytes, 24, self.body_length);
        put::u32(bytes, 28, self.record_count);
        put::u32(bytes, 32, self.body_checksum);
        put::u32(bytes, 36, self.previous_checksum);
        put::u32(bytes, 40, self.durable_distance);
        put::u32(bytes, 44, self.truncations);
        put::u64(bytes, 48, self.first_position.get());
        put::u64(bytes, 56, self.lowest_truncated.map_or(u64::MAX, Position::get));
        let checksum = salt.checksum(&[&bytes[8..FRAME_HEADER_BYTES]]);
        put::u32(bytes, 4, checksum);
        checksum
    }

    /// Reads a header; fewer than 64 bytes are invalid.
    pub fn decode(salt: Salt, bytes: &[u8]) -> DecodedFrame {
        let Some(bytes) = bytes.get(..FRAME_HEADER_BYTES) else { return DecodedFrame::Invalid };
        if bytes[..4] != MAGIC {
            let blank = bytes.iter().all(|&byte| byte == 0);
            return if blank { DecodedFrame::Blank } else { DecodedFrame::Invalid };
        }
        let checksum = salt.checksum(&[&bytes[8..]]);
        if get::u32(bytes, 4) != checksum {
            return DecodedFrame::Invalid;
        }
        match Self::decode_fields(bytes) {
            Some(header) => DecodedFrame::Valid(header, checksum),
            None => DecodedFrame::Invalid,
        }
    }

    /// The fields, unless one has a value that no frame can have.
    fn decode_fields(bytes: &[u8]) -> Option<Self> {
        Some(FrameHeader {
            number: get::frame_number(bytes, 8)?,
            segment: get::segment_number(bytes, 16)?,
            offset: Some(get::u32(bytes, 20)).filter(|&offset| offset <= MAX_SEGMENT_BYTES)?,
            body_length: Some(get::u32(bytes, 24)).filter(|&length| length <= MAX_FRAME_BYTES)?,
            record_count: get::u32(bytes, 28),
            body_checksum: get::u32(bytes, 32),
            previous_checksum: get::u32(bytes, 36),
            durable_distance: get::u32(bytes, 40),
            truncations: get::u32(bytes, 44),
            first_position: get::position(bytes, 48)?,
            lowest_truncated: get::position_or_none(bytes, 56)?,
        })
    }

    /// Whether it lies where it was written to.
    pub(crate) fn is_at(&self, segment: SegmentNumber, offset: u32) -> bool {
        self.segment == segment && self.offset == offset
    }

    /// Where a good frame ends that lies at `offset` and says that it belongs elsewhere: what is in it must not be taken for
    /// what belongs here.
    pub(crate) fn end_of_stray(
        salt: Salt,
        bytes: &[u8],
        segment: SegmentNumber,
        offset: u32,
        layout: Layout,
    ) -> Option<u32> {
        match FrameHeader::decode(salt, bytes) {
            DecodedFrame::Valid(header, _) if !header.is_at(segment, offset) => {
                Some(offset.saturating_add(layout.frame_bytes(header.body_length)))
            }
            _ => None,
        }
    }

    /// The number of the last frame known durable when this one was written; 0 if none was.
    pub fn certified(&self) -> u64 {
        self.number.get().saturating_sub(u64::from(self.durable_distance))
    }
}

#[cfg(test)]
mod tests {
    use super::super::LogId;
    use super::*;

    fn header() -> FrameHeader {
        FrameHeader {
            number: FrameNumber::new(17).unwrap(),
            segment: SegmentNumber::new(2).unwrap(),
            offset: 8192,
            body_length: 100,
            record_count: 3,
            body_checksum: 1,
            previous_checksum: 2,
            durable_distance: 1,
            truncations: 4,
            first_position: Position::new(55),
            lowest_truncated: Some(Position::new(50)),
        }
    }

    #[test]
    fn a_header_comes_back_as_it_was_and_no_flipped_bit_passes() {
        let salt = LogId::from_bytes([9; 16]).salt();
        let mut bytes = [0; FRAME_HEADER_BYTES];
        let checksum = header().encode(salt, &mut bytes);
        assert_eq!(FrameHeader::decode(salt, &bytes), DecodedFrame::Valid(header(), checksum));
        assert_eq!(header().certified(), 16);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FrameHeader::decode(salt, &flipped), DecodedFrame::Invalid, "bit {bit}");
        }
    }

    #[test]
    fn places_and_numbers_that_no_frame_has_are_invalid() {
        let salt = LogId::from_bytes([9; 16]).salt();
        let impossible = [
            FrameHeader { number: FrameNumber::MAX, ..header() },
            FrameHeader { segment: SegmentNumber::MAX, ..header() },
            FrameHeader { number: FrameNumber::new(1 << 63).unwrap(), ..header() },
            FrameHeader { segment: SegmentNumber::new(1 << 31).unwrap(), ..header() },
            FrameHeader { first_position: Position::new((1 << 63) + 1), ..header() },
            FrameHeader { lowest_truncated: Some(Position::new(u64::MAX - 1)), ..header() },
            FrameHeader { offset: MAX_SEGMENT_BYTES + 1, ..header() },
            FrameHeader { body_length: MAX_FRAME_BYTES + 1, ..header() },
        ];
        for header in impossible {
            let mut bytes = [0; FRAME_HEADER_BYTES];
            header.encode(salt, &mut bytes);
            assert_eq!(FrameHeader::decode(salt, &bytes), DecodedFrame::Invalid, "{header:?}");
        }
    }

    #[test]
    fn a_frame_of_another_log_is_not_ours() {
        let mut bytes = [0; FRAME_HEADER_BYTES];
        header().encode(LogId::from_bytes([1; 16]).salt(), &mut bytes);
        assert_eq!(FrameHeader::decode(LogId::from_bytes([2; 16]).salt(), &bytes), DecodedFrame::Invalid);
    }
}
