//! The footer: an index of a segment's frames, so that opening a log need not read them.
//!
//! It is an accelerator and never the truth: it covers the frames up to `end_offset`, whatever lies behind is scanned, and
//! a footer that is bad or missing is rebuilt by scanning. It is written at half of a segment, on a clean close and on
//! sealing; the sealed one says that a next segment exists.
//!
//! ```text
//! index    extents    24 each: first position (8), count (4), offset (4), length (4), zero (4)
//!          overrides  16 each: position (8), offset of the record (4), its length (4)
//!          holes      16 each: first position (8), end position (8)
//!          controls   the log's own records as they stand behind the last frame, each as in a body
//! trailer   0  4  magic "GLFT"            32  4  checksum of the last frame
//! (last     4  4  CRC32C                  36  4  truncations so far in this log
//!  72 bytes 8  4  segment number          40  8  next position behind the last frame
//!  of the  12  4  flags: 1 sealed,        48  8  lowest position truncated in this segment
//!  file)          2 tail dropped,         56  4  count of extents
//!                 4 state in doubt        60  4  count of overrides
//!          16  8  number of last frame    64  4  count of holes
//!          24  4  end of the last frame   68  4  bytes of controls
//!          28  4  bytes of the index
//! ```
//! The CRC starts with the log's id and covers the trailer behind it, then the index.

use gapless_types::limits::{LAST_LOG_NUMBER, MAX_SEGMENT_BYTES};
use gapless_types::{Position, SegmentNumber};

use super::{Geometry, Salt, get, put};
use crate::index::{Extent, Override, SegmentIndex};

const MAGIC: [u8; 4] = *b"GLFT";
/// Bytes of the trailer.
pub const TRAILER_BYTES: usize = 72;
pub(crate) const TRAILER_LENGTH: u32 = 72;
const EXTENT_BYTES: usize = 24;
const OVERRIDE_BYTES: usize = 16;
const HOLE_BYTES: usize = 16;
const SEALED: u32 = 1;
const TAIL_DROPPED: u32 = 2;
const STATE_IN_DOUBT: u32 = 4;

/// What the footer of a segment says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Footer {
    /// The segment it belongs to.
    pub segment: SegmentNumber,
    /// No frame will be added, and a next segment exists.
    pub sealed: bool,
    /// Bytes behind the last frame were dropped as torn.
    pub tail_dropped: bool,
    /// A frame that may have held state records was damaged.
    pub state_in_doubt: bool,
    /// Number of the last frame covered; that of the frame before the segment if it covers none.
    pub last_frame: u64,
    /// Where the last frame covered ends.
    pub end_offset: u32,
    /// Checksum of the last frame covered.
    pub last_checksum: u32,
    /// Truncations up to the last frame covered.
    pub truncations: u32,
    /// The next position behind the last frame covered.
    pub next_position: Position,
    /// The lowest position truncated in this segment.
    pub lowest_truncated: Option<Position>,
    /// Where the positions are.
    pub index: SegmentIndex,
    /// The log's own records as they stand, encoded as in a body.
    pub controls: Vec<u8>,
}

impl Footer {
    /// The bytes that end the segment's file.
    pub fn encode(&self, salt: Salt) -> Vec<u8> {
        let index = &self.index;
        let index_bytes = index.extents.len() * EXTENT_BYTES
            + index.overrides.len() * OVERRIDE_BYTES
            + index.holes.len() * HOLE_BYTES;
        let mut bytes = Vec::with_capacity(index_bytes + self.controls.len() + TRAILER_BYTES);
        for extent in &index.extents {
            bytes.extend_from_slice(&extent.first.get().to_le_bytes());
            bytes.extend_from_slice(&extent.count.to_le_bytes());
            bytes.extend_from_slice(&extent.offset.to_le_bytes());
            bytes.extend_from_slice(&extent.length.to_le_bytes());
            bytes.extend_from_slice(&[0; 4]);
        }
        for entry in &index.overrides {
            bytes.extend_from_slice(&entry.position.get().to_le_bytes());
            bytes.extend_from_slice(&entry.offset.to_le_bytes());
            bytes.extend_from_slice(&entry.length.to_le_bytes());
        }
        for hole in &index.holes {
            bytes.extend_from_slice(&hole.start.get().to_le_bytes());
            bytes.extend_from_slice(&hole.end.get().to_le_bytes());
        }
        bytes.extend_from_slice(&self.controls);
        let trailer = self.encode_trailer(salt, &bytes);
        bytes.extend_from_slice(&trailer);
        bytes
    }

    fn encode_trailer(&self, salt: Salt, index: &[u8]) -> [u8; TRAILER_BYTES] {
        let flags = flag(self.sealed, SEALED)
            | flag(self.tail_dropped, TAIL_DROPPED)
            | flag(self.state_in_doubt, STATE_IN_DOUBT);
        let mut trailer = [0; TRAILER_BYTES];
        trailer[..4].copy_from_slice(&MAGIC);
        put::u32(&mut trailer, 8, self.segment.get());
        put::u32(&mut trailer, 12, flags);
        put::u64(&mut trailer, 16, self.last_frame);
        put::u32(&mut trailer, 24, self.end_offset);
        put::u32(&mut trailer, 28, count(index.len()));
        put::u32(&mut trailer, 32, self.last_checksum);
        put::u32(&mut trailer, 36, self.truncations);
        put::u64(&mut trailer, 40, self.next_position.get());
        put::u64(&mut trailer, 48, self.lowest_truncated.map_or(u64::MAX, Position::get));
        put::u32(&mut trailer, 56, count(self.index.extents.len()));
        put::u32(&mut trailer, 60, count(self.index.overrides.len()));
        put::u32(&mut trailer, 64, count(self.index.holes.len()));
        put::u32(&mut trailer, 68, count(self.controls.len()));
        let checksum = salt.checksum(&[&trailer[8..], index]);
        put::u32(&mut trailer, 4, checksum);
        trailer
    }

    /// How many bytes of index lie in front of this trailer, if it may be one of this segment's.
    pub fn index_bytes(trailer: &[u8], segment: SegmentNumber) -> Option<u32> {
        let trailer = trailer.get(..TRAILER_BYTES)?;
        let length = get::u32(trailer, 28);
        // Nothing has vouched for the length yet: one that no segment could hold is not even looked at.
        let plausible = length <= MAX_SEGMENT_BYTES;
        (trailer[..4] == MAGIC && get::u32(trailer, 8) == segment.get() && plausible).then_some(length)
    }

    /// Reads a footer; `None` if it is bad in any way.
    pub fn decode(salt: Salt, index: &[u8], trailer: &[u8]) -> Option<Self> {
        let trailer = trailer.get(..TRAILER_BYTES)?;
        if trailer[..4] != MAGIC || get::u32(trailer, 4) != salt.checksum(&[&trailer[8..], index]) {
            return None;
        }
        let [extents, overrides, holes, controls] = [56, 60, 64, 68].map(|at| get::u32(trailer, at) as usize);
        let (extents, rest) = index.split_at_checked(extents.checked_mul(EXTENT_BYTES)?)?;
        let (overrides, rest) = rest.split_at_checked(overrides.checked_mul(OVERRIDE_BYTES)?)?;
        let (holes, rest) = rest.split_at_checked(holes.checked_mul(HOLE_BYTES)?)?;
        let (flags, index_length) = (get::u32(trailer, 12), get::u32(trailer, 28) as usize);
        let unknown = flags & !(SEALED | TAIL_DROPPED | STATE_IN_DOUBT) != 0;
        if rest.len() != controls || index.len() != index_length || unknown {
            return None;
        }
        let footer = Footer {
            segment: get::segment_number(trailer, 8)?,
            sealed: flags & SEALED != 0,
            tail_dropped: flags & TAIL_DROPPED != 0,
            state_in_doubt: flags & STATE_IN_DOUBT != 0,
            last_frame: get::u64(trailer, 16),
            end_offset: get::u32(trailer, 24),
            last_checksum: get::u32(trailer, 32),
            truncations: get::u32(trailer, 36),
            next_position: get::position(trailer, 40)?,
            lowest_truncated: get::position_or_none(trailer, 48)?,
            index: SegmentIndex {
                extents: extents.chunks_exact(EXTENT_BYTES).map(decode_extent).collect::<Option<_>>()?,
                overrides: overrides
                    .chunks_exact(OVERRIDE_BYTES)
                    .map(decode_override)
                    .collect::<Option<_>>()?,
                holes: holes
                    .chunks_exact(HOLE_BYTES)
                    .map(|hole| Some(get::position(hole, 0)?..get::position(hole, 8)?))
                    .collect::<Option<_>>()?,
            },
            controls: rest.to_vec(),
        };
        footer.is_sound().then_some(footer)
    }

    /// Whether lookups can rely on the index: in order, in front of the end, without overflow.
    fn is_sound(&self) -> bool {
        let mut positions_end = 0;
        let mut bytes_end = Geometry::CONTENT_START;
        let extents = self.index.extents.iter().all(|extent| {
            let ends =
                (extent.first.checked_add(u64::from(extent.count)), extent.offset.checked_add(extent.length));
            let (Some(last), Some(end)) = ends else { return false };
            let follows = extent.first.get() >= positions_end && extent.offset >= bytes_end;
            (positions_end, bytes_end) = (last.get(), end);
            follows && extent.count > 0 && end <= self.end_offset
        });
        let overrides = self.index.overrides.iter().all(|entry| {
            let end = entry.offset.checked_add(entry.length);
            entry.position.next().is_some() && end.is_some_and(|end| end <= self.end_offset)
        });
        let holes = self.index.holes.iter().all(|hole| hole.start < hole.end);
        let numbers = self.last_frame <= LAST_LOG_NUMBER;
        let places = (Geometry::CONTENT_START..=MAX_SEGMENT_BYTES).contains(&self.end_offset);
        extents && overrides && holes && numbers && places
    }
}

fn decode_extent(bytes: &[u8]) -> Option<Extent> {
    Some(Extent {
        first: get::position(bytes, 0)?,
        count: get::u32(bytes, 8),
        offset: get::u32(bytes, 12),
        length: get::u32(bytes, 16),
    })
}

fn decode_override(bytes: &[u8]) -> Option<Override> {
    Some(Override {
        position: get::position(bytes, 0)?,
        offset: get::u32(bytes, 8),
        length: get::u32(bytes, 12),
    })
}

fn flag(set: bool, bit: u32) -> u32 {
    if set { bit } else { 0 }
}

fn count(length: usize) -> u32 {
    u32::try_from(length).expect("a segment of at most 1 GiB has fewer index bytes than that")
}

#[cfg(test)]
mod tests {
    use super::super::LogId;
    use super::*;

    fn footer() -> Footer {
        let at = Position::new;
        Footer {
            segment: SegmentNumber::new(5).unwrap(),
            sealed: true,
            tail_dropped: false,
            state_in_doubt: true,
            last_frame: 12,
            end_offset: 20_480,
            last_checksum: 77,
            truncations: 1,
            next_position: at(30),
            lowest_truncated: Some(at(20)),
            index: SegmentIndex {
                extents: vec![Extent { first: at(10), count: 20, offset: 4096, length: 16_384 }],
                overrides: vec![Override { position: at(3), offset: 4200, length: 40 }],
                holes: vec![at(4)..at(6)],
            },
            controls: vec![1, 2, 3],
        }
    }

    fn decoded(footer: &Footer) -> Option<Footer> {
        let salt = LogId::from_bytes([4; 16]).salt();
        let bytes = footer.encode(salt);
        let (index, trailer) = bytes.split_at(bytes.len() - TRAILER_BYTES);
        Footer::decode(salt, index, trailer)
    }

    #[test]
    fn a_footer_comes_back_as_it_was_and_no_flipped_bit_passes() {
        let salt = LogId::from_bytes([4; 16]).salt();
        let bytes = footer().encode(salt);
        let split = bytes.len() - TRAILER_BYTES;
        assert_eq!(Footer::index_bytes(&bytes[split..], footer().segment), u32::try_from(split).ok());
        assert_eq!(decoded(&footer()), Some(footer()));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Footer::decode(salt, &flipped[..split], &flipped[split..]), None, "bit {bit}");
        }
    }

    #[test]
    fn an_index_that_lookups_could_not_rely_on_is_none() {
        let at = Position::new;
        let usual = footer().index.extents[0];
        let with_extents = |extents: &[Extent]| {
            let mut footer = footer();
            footer.index.extents = extents.to_vec();
            footer
        };
        let mut reversed_hole = footer();
        reversed_hole.index.holes = vec![at(6)..at(4)];
        let mut override_behind_the_end = footer();
        override_behind_the_end.index.overrides[0].offset = u32::MAX;
        let unsound = [
            with_extents(&[usual, usual]),
            with_extents(&[Extent { first: at(u64::MAX), ..usual }]),
            with_extents(&[Extent { offset: u32::MAX, ..usual }]),
            with_extents(&[Extent { length: 16_385, ..usual }]),
            with_extents(&[Extent { count: 0, ..usual }]),
            reversed_hole,
            override_behind_the_end,
            Footer { last_frame: u64::MAX, ..footer() },
        ];
        for footer in unsound {
            assert_eq!(decoded(&footer), None, "{footer:?}");
        }
    }

    #[test]
    fn an_index_longer_than_any_segment_is_not_even_read() {
        let bytes = footer().encode(LogId::from_bytes([4; 16]).salt());
        let mut trailer = bytes[bytes.len() - TRAILER_BYTES..].to_vec();
        put::u32(&mut trailer, 28, u32::MAX);
        assert_eq!(Footer::index_bytes(&trailer, footer().segment), None);
    }
}
