//! The bytes on disk, version 1: segment header, frame header, record, footer. Drawn in `docs/format.md`.
//!
//! Every decoder takes any bytes and never panics; golden files pin every encoder.
//!
//! Must not know: files, threads, where in a log's life it is.

use gapless_types::SegmentNumber;
use gapless_types::limits::FRAME_ALIGNMENT;

pub mod control;
pub mod footer;
pub mod frame;
pub mod record;
pub mod segment;

/// Bytes of the block at the start of a segment that holds its header twice.
pub const SEGMENT_HEADER_BYTES: u32 = 4096;
/// Bytes of a frame header.
pub const FRAME_HEADER_BYTES: usize = 64;
/// The same as a length in a segment.
pub(crate) const FRAME_HEADER_LENGTH: u32 = 64;
/// Bytes of a record header.
pub const RECORD_HEADER_BYTES: usize = 24;
/// The same as a length in a segment.
pub(crate) const RECORD_HEADER_LENGTH: u32 = 24;
/// Records start at multiples of this inside a body, and packed frames inside a segment.
pub const RECORD_ALIGNMENT: usize = 8;

/// Names one log for ever. Every checksum of the log starts with it, so that bytes of another log, or bytes that a
/// client smuggled into a payload, do not pass for ours.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogId([u8; 16]);

impl LogId {
    /// The id with these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes of the id.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Where every checksum of this log starts.
    pub fn salt(&self) -> Salt {
        Salt(crc32c::crc32c(&self.0))
    }
}

impl std::fmt::Display for LogId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for LogId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LogId({self})")
    }
}

/// The CRC32C of a log's id, from which all its checksums continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Salt(u32);

impl Salt {
    /// CRC32C over the log's id followed by `parts`.
    pub fn checksum(self, parts: &[&[u8]]) -> u32 {
        parts.iter().fold(self.0, |checksum, part| crc32c::crc32c_append(checksum, part))
    }
}

/// How frames lie in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Frames start at multiples of 4 KiB and are padded to that: a block that was acknowledged is never written again.
    Aligned,
    /// Frames follow each other at multiples of 8 bytes.
    Packed,
}

impl Layout {
    /// Distance between places where a frame may start.
    pub const fn alignment(self) -> u32 {
        match self {
            Layout::Aligned => FRAME_ALIGNMENT,
            Layout::Packed => 8,
        }
    }

    /// Bytes a frame with this body takes in the segment.
    pub const fn frame_bytes(self, body: u32) -> u32 {
        (FRAME_HEADER_LENGTH + body).next_multiple_of(self.alignment())
    }
}

/// The parts of a segment file of a given length.
///
/// ```text
/// 0          4096                          content_end                 capacity
/// | header    | frames ... (zeros)          | (zeros) index | trailer   |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Length of the file.
    pub capacity: u32,
    /// How frames lie in it.
    pub layout: Layout,
}

impl Geometry {
    /// First place of a frame.
    pub const CONTENT_START: u32 = SEGMENT_HEADER_BYTES;

    /// End of the place for frames; the footer lies behind it.
    pub const fn content_end(self) -> u32 {
        self.capacity.saturating_sub(Self::footer_area(self.capacity))
    }

    /// Bytes of frames that fit.
    pub const fn content_bytes(self) -> u32 {
        self.content_end().saturating_sub(Self::CONTENT_START)
    }

    /// The smallest capacity, a multiple of 4 KiB, with room for this many bytes of frames.
    pub fn capacity_for(content: u32) -> u32 {
        let mut capacity = (Self::CONTENT_START + content).next_multiple_of(4096);
        while capacity < Self::CONTENT_START + Self::footer_area(capacity) + content {
            capacity += 4096;
        }
        capacity
    }

    /// An index entry takes 24 bytes and stands for 16 KiB of frames or more, less than a 512th; truncations may need
    /// more entries than that, and then the segment has no footer and is scanned.
    const fn footer_area(capacity: u32) -> u32 {
        (capacity / 512).next_multiple_of(4096) + 4096
    }
}

/// Name of a segment's file.
pub fn segment_file_name(number: SegmentNumber) -> String {
    format!("{:010}.segment", number.get())
}

/// The number in a segment's file name; `None` if it is not one.
pub fn parse_segment_file_name(name: &str) -> Option<SegmentNumber> {
    let digits = name.strip_suffix(".segment")?;
    if digits.len() != 10 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().and_then(SegmentNumber::new)
}

/// Little-endian integers out of bytes whose length the caller has checked.
pub(crate) mod get {
    use gapless_types::limits::{LAST_LOG_NUMBER, LAST_SEGMENT_NUMBER};
    use gapless_types::{FrameNumber, Position, SegmentNumber};

    /// A position, or one behind the last there is.
    pub(crate) fn position(bytes: &[u8], at: usize) -> Option<Position> {
        Some(u64(bytes, at)).filter(|&value| value <= LAST_LOG_NUMBER + 1).map(Position::new)
    }

    /// A position or none, which is all ones; `None` if it is neither.
    pub(crate) fn position_or_none(bytes: &[u8], at: usize) -> Option<Option<Position>> {
        if u64(bytes, at) == u64::MAX { Some(None) } else { position(bytes, at).map(Some) }
    }

    /// A frame number that has a successor.
    pub(crate) fn frame_number(bytes: &[u8], at: usize) -> Option<FrameNumber> {
        Some(u64(bytes, at)).filter(|&value| value <= LAST_LOG_NUMBER).and_then(FrameNumber::new)
    }

    /// A segment number that has a successor.
    pub(crate) fn segment_number(bytes: &[u8], at: usize) -> Option<SegmentNumber> {
        Some(u32(bytes, at)).filter(|&value| value <= LAST_SEGMENT_NUMBER).and_then(SegmentNumber::new)
    }

    pub(crate) fn u32(bytes: &[u8], at: usize) -> u32 {
        let mut value = [0; 4];
        value.copy_from_slice(&bytes[at..at + 4]);
        u32::from_le_bytes(value)
    }

    pub(crate) fn u64(bytes: &[u8], at: usize) -> u64 {
        let mut value = [0; 8];
        value.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(value)
    }
}

/// Little-endian integers into bytes.
pub(crate) mod put {
    pub(crate) fn u32(bytes: &mut [u8], at: usize, value: u32) {
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(bytes: &mut [u8], at: usize, value: u64) {
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_segments_round_trip_and_others_are_refused() {
        let number = SegmentNumber::new(42).unwrap();
        assert_eq!(segment_file_name(number), "0000000042.segment");
        assert_eq!(parse_segment_file_name("0000000042.segment"), Some(number));
        for foreign in
            ["42.segment", "0000000000.segment", "0000000042.tmp", "+000000042.segment", "9999999999.segment"]
        {
            assert_eq!(parse_segment_file_name(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn a_capacity_for_some_content_has_room_for_it() {
        for content in [1, 4096, 60_000, 1 << 20, (16 << 20) + 64, 512 << 20] {
            let capacity = Geometry::capacity_for(content);
            let geometry = Geometry { capacity, layout: Layout::Aligned };
            assert!(geometry.content_bytes() >= content);
            assert_eq!(capacity % 4096, 0);
        }
    }
}
