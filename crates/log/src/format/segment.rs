//! The header of a segment: 128 bytes, twice in the file's first 4 KiB, so that one bad sector does not lose it.
//!
//! ```text
//!   0  8  magic "GAPLESSL"          40  8  capacity: length of the file
//!   8  4  version, 1                48  8  number of its first frame
//!  12  4  CRC32C                    56  4  checksum of the last frame before it, 0 if none
//!  16 16  log id                    60  4  zero
//!  32  4  segment number            64  8  next position when it began
//!  36  4  layout: 0 aligned,        72  4  truncations so far in this log (wraps)
//!         1 packed                  76  4  zero
//!                                   80  8  lowest position truncated in the two segments
//!                                          before it; all ones if none
//!                                   88 40  zero
//! ```
//! The CRC covers the 128 bytes without itself. Copies lie at 0 and 2048; all else in the block is zero.

use gapless_types::limits::{FRAME_ALIGNMENT, MAX_SEGMENT_BYTES};
use gapless_types::{FrameNumber, Position, SegmentNumber};

use super::{Geometry, Layout};
use super::{LogId, SEGMENT_HEADER_BYTES, get, put};

const MAGIC: [u8; 8] = *b"GAPLESSL";
/// The only version there is so far.
pub const VERSION: u32 = 1;
const COPY_BYTES: usize = 128;
const COPIES_AT: [usize; 2] = [0, 2048];

/// What the header of a segment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The log it belongs to.
    pub log: LogId,
    /// Its place among the segments.
    pub number: SegmentNumber,
    /// Length of the file and the way frames lie in it.
    pub geometry: Geometry,
    /// Number of its first frame.
    pub first_frame: FrameNumber,
    /// Checksum of the last frame of the segment before; 0 if there was none.
    pub previous_checksum: u32,
    /// The next position when it began.
    pub first_position: Position,
    /// Truncations of the log before it began.
    pub truncations: u32,
    /// The lowest position cut off by a truncation in the two segments before, if any.
    pub lowest_truncated: Option<Position>,
}

/// What the first 4 KiB of a file turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodedHeader {
    /// A header; `copies` of it (1 or 2) were good.
    Valid {
        /// The header.
        header: SegmentHeader,
        /// How many of the two copies were good.
        copies: u32,
    },
    /// Nothing but zeros: prepared and never used.
    Blank,
    /// A sound header of a version this program does not know.
    UnknownVersion(u32),
    /// Neither copy is good.
    Damaged,
}

impl SegmentHeader {
    /// The block that opens the segment.
    pub fn encode(&self) -> Vec<u8> {
        let mut copy = [0; COPY_BYTES];
        copy[..8].copy_from_slice(&MAGIC);
        put::u32(&mut copy, 8, VERSION);
        copy[16..32].copy_from_slice(self.log.as_bytes());
        put::u32(&mut copy, 32, self.number.get());
        put::u32(&mut copy, 36, layout_code(self.geometry.layout));
        put::u64(&mut copy, 40, u64::from(self.geometry.capacity));
        put::u64(&mut copy, 48, self.first_frame.get());
        put::u32(&mut copy, 56, self.previous_checksum);
        put::u64(&mut copy, 64, self.first_position.get());
        put::u32(&mut copy, 72, self.truncations);
        put::u64(&mut copy, 80, self.lowest_truncated.map_or(u64::MAX, Position::get));
        let checksum = checksum(&copy);
        put::u32(&mut copy, 12, checksum);

        let mut block = vec![0; SEGMENT_HEADER_BYTES as usize];
        for at in COPIES_AT {
            block[at..at + COPY_BYTES].copy_from_slice(&copy);
        }
        block
    }

    /// Reads the block that opens a segment; a short block is damaged.
    pub fn decode(block: &[u8]) -> DecodedHeader {
        if block.len() < SEGMENT_HEADER_BYTES as usize {
            return DecodedHeader::Damaged;
        }
        let block = &block[..SEGMENT_HEADER_BYTES as usize];
        if block.iter().all(|&byte| byte == 0) {
            return DecodedHeader::Blank;
        }
        let copies = COPIES_AT.map(|at| decode_copy(&block[at..at + COPY_BYTES]));
        match copies {
            [Copy::Valid(first), Copy::Valid(second)] if first == second => {
                DecodedHeader::Valid { header: first, copies: 2 }
            }
            [Copy::Valid(header), _] | [_, Copy::Valid(header)] => DecodedHeader::Valid { header, copies: 1 },
            [Copy::UnknownVersion(version), _] | [_, Copy::UnknownVersion(version)] => {
                DecodedHeader::UnknownVersion(version)
            }
            [Copy::Damaged, Copy::Damaged] => DecodedHeader::Damaged,
        }
    }
}

enum Copy {
    Valid(SegmentHeader),
    UnknownVersion(u32),
    Damaged,
}

/// Every version keeps magic, version and CRC where they are, so that "unknown" and "damaged" can be told apart.
fn decode_copy(copy: &[u8]) -> Copy {
    if copy[..8] != MAGIC || get::u32(copy, 12) != checksum(copy) {
        return Copy::Damaged;
    }
    let version = get::u32(copy, 8);
    if version != VERSION {
        return Copy::UnknownVersion(version);
    }
    let mut log = [0; 16];
    log.copy_from_slice(&copy[16..32]);
    match decode_fields(copy, LogId::from_bytes(log)) {
        Some(header) => Copy::Valid(header),
        None => Copy::Damaged,
    }
}

fn decode_fields(copy: &[u8], log: LogId) -> Option<SegmentHeader> {
    Some(SegmentHeader {
        log,
        number: get::segment_number(copy, 32)?,
        geometry: geometry_of(get::u64(copy, 40), get::u32(copy, 36))?,
        first_frame: get::frame_number(copy, 48)?,
        previous_checksum: get::u32(copy, 56),
        first_position: get::position(copy, 64)?,
        truncations: get::u32(copy, 72),
        lowest_truncated: get::position_or_none(copy, 80)?,
    })
}

fn checksum(copy: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&copy[..12]), &copy[16..COPY_BYTES])
}

/// A file of whole blocks, within the limit, with room for a frame: what arithmetic on places in it relies on.
fn geometry_of(capacity: u64, layout: u32) -> Option<Geometry> {
    let capacity = u32::try_from(capacity).ok()?;
    let geometry = Geometry { capacity, layout: layout_of(layout)? };
    let sound = capacity <= MAX_SEGMENT_BYTES
        && capacity.is_multiple_of(FRAME_ALIGNMENT)
        && geometry.content_bytes() >= FRAME_ALIGNMENT;
    sound.then_some(geometry)
}

fn layout_code(layout: Layout) -> u32 {
    match layout {
        Layout::Aligned => 0,
        Layout::Packed => 1,
    }
}

fn layout_of(code: u32) -> Option<Layout> {
    match code {
        0 => Some(Layout::Aligned),
        1 => Some(Layout::Packed),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> SegmentHeader {
        SegmentHeader {
            log: LogId::from_bytes([7; 16]),
            number: SegmentNumber::new(3).unwrap(),
            geometry: Geometry { capacity: 1 << 20, layout: Layout::Packed },
            first_frame: FrameNumber::new(99).unwrap(),
            previous_checksum: 0xdead_beef,
            first_position: Position::new(1234),
            truncations: 5,
            lowest_truncated: Some(Position::new(1200)),
        }
    }

    #[test]
    fn a_header_survives_the_loss_of_either_copy() {
        let block = header().encode();
        assert_eq!(SegmentHeader::decode(&block), DecodedHeader::Valid { header: header(), copies: 2 });
        for bad in COPIES_AT {
            let mut block = block.clone();
            block[bad + 50] ^= 4;
            assert_eq!(SegmentHeader::decode(&block), DecodedHeader::Valid { header: header(), copies: 1 });
        }
    }

    #[test]
    fn a_length_that_no_segment_has_is_damage() {
        for capacity in [0, 71, 4096, 12_288, (1 << 20) + 1, (1 << 30) + 4096, u32::MAX] {
            let geometry = Geometry { capacity, layout: Layout::Packed };
            let block = SegmentHeader { geometry, ..header() }.encode();
            assert_eq!(SegmentHeader::decode(&block), DecodedHeader::Damaged, "{capacity}");
        }
    }

    #[test]
    fn zeros_are_blank_and_other_rubbish_is_damage() {
        assert_eq!(SegmentHeader::decode(&[0; 4096]), DecodedHeader::Blank);
        assert_eq!(SegmentHeader::decode(&[1; 4096]), DecodedHeader::Damaged);
        assert_eq!(SegmentHeader::decode(&[0; 100]), DecodedHeader::Damaged);
    }

    #[test]
    fn a_sound_header_of_another_version_is_told_from_a_damaged_one() {
        let mut block = header().encode();
        for at in COPIES_AT {
            put::u32(&mut block, at + 8, 2);
        }
        assert_eq!(SegmentHeader::decode(&block), DecodedHeader::Damaged);
        for at in COPIES_AT {
            let checksum = checksum(&block[at..at + COPY_BYTES]);
            put::u32(&mut block, at + 12, checksum);
        }
        assert_eq!(SegmentHeader::decode(&block), DecodedHeader::UnknownVersion(2));
    }
}
