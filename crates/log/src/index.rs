//! Where positions lie in one segment.
//!
//! An extent stands for frames that follow each other and hold positions that follow each other; it is closed at 16 KiB,
//! so that an index is small and a lookup reads little. Truncation shortens extents: the void records stay in the file,
//! and no extent covers them any more.
//!
//! Must not know: files, other segments.

use std::ops::Range;

use gapless_types::Position;

/// Frames are joined to one extent up to this many bytes.
const EXTENT_TARGET_BYTES: u32 = 16 * 1024;

/// A run of frames and the positions in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First position in it.
    pub first: Position,
    /// How many positions it covers.
    pub count: u32,
    /// Where its first frame starts.
    pub offset: u32,
    /// Bytes of its frames.
    pub length: u32,
}

impl Extent {
    /// First position behind it.
    pub fn end(&self) -> Position {
        advance(self.first, u64::from(self.count))
    }
}

/// A single record that stands for a position whatever the extents say: rescued from a damaged frame, or a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Override {
    /// The position.
    pub position: Position,
    /// Where the record starts.
    pub offset: u32,
    /// Bytes of the record.
    pub length: u32,
}

/// Where positions lie in one segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentIndex {
    /// In order of positions and of offsets.
    pub extents: Vec<Extent>,
    /// Single records.
    pub overrides: Vec<Override>,
    /// Positions that were here and are damaged.
    pub holes: Vec<Range<Position>>,
}

impl SegmentIndex {
    /// Takes in a frame. One that repositioned the log starts an extent: the frame before it may hold void records
    /// of the same positions.
    pub fn add_frame(&mut self, frame: Extent, repositioned: bool) {
        let Extent { first, count, offset, length } = frame;
        if count == 0 {
            return;
        }
        if let Some(last) = self.extents.last_mut() {
            let adjoining = last.offset + last.length == offset && last.end() == first && !repositioned;
            if adjoining && last.length + length <= EXTENT_TARGET_BYTES {
                last.count += count;
                last.length += length;
                return;
            }
        }
        self.extents.push(frame);
    }

    /// Forgets everything from `from` on.
    pub fn truncate(&mut self, from: Position) {
        while let Some(last) = self.extents.last_mut() {
            if last.first >= from {
                self.extents.pop();
                continue;
            }
            if last.end() > from {
                last.count =
                    u32::try_from(from.get() - last.first.get()).expect("less than the count it had");
            }
            break;
        }
        self.overrides.retain(|entry| entry.position < from);
        truncate_ranges(&mut self.holes, from);
    }

    /// The extent that holds a position.
    pub fn extent_of(&self, position: Position) -> Option<usize> {
        let after = self.extents.partition_point(|extent| extent.first <= position);
        let index = after.checked_sub(1)?;
        (position < self.extents[index].end()).then_some(index)
    }

    /// Runs of positions that extents, overrides and holes cover together, in order.
    pub fn runs(&self) -> Vec<Range<Position>> {
        let mut pieces: Vec<Range<Position>> = self
            .extents
            .iter()
            .map(|extent| extent.first..extent.end())
            .chain(self.overrides.iter().map(|entry| entry.position..advance(entry.position, 1)))
            .chain(self.holes.iter().cloned())
            .collect();
        pieces.sort_by_key(|piece| piece.start);
        let mut runs: Vec<Range<Position>> = Vec::new();
        for piece in pieces {
            match runs.last_mut() {
                Some(last) if piece.start <= last.end => last.end = last.end.max(piece.end),
                _ => runs.push(piece),
            }
        }
        runs
    }
}

/// Cuts ranges off at `from`.
pub(crate) fn truncate_ranges(ranges: &mut Vec<Range<Position>>, from: Position) {
    ranges.retain_mut(|range| {
        range.end = range.end.min(from);
        range.start < range.end
    });
}

/// `count` positions behind `position`. What is appended and what is decoded ends at [`LAST_LOG_NUMBER`], and a batch or a frame
/// has fewer than 2^32 records.
///
/// [`LAST_LOG_NUMBER`]: gapless_types::limits::LAST_LOG_NUMBER
pub(crate) fn advance(position: Position, count: u64) -> Position {
    position.checked_add(count).expect("positions end long before 64 bits do")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(position: u64) -> Position {
        Position::new(position)
    }

    #[test]
    fn adjoining_frames_share_an_extent_up_to_its_target() {
        let mut index = SegmentIndex::default();
        for frame in 0..6 {
            let first = at(1 + 2 * u64::from(frame));
            index.add_frame(Extent { first, count: 2, offset: 4096 + frame * 4096, length: 4096 }, false);
        }
        assert_eq!(index.extents.len(), 2);
        assert_eq!(index.extents[0], Extent { first: at(1), count: 8, offset: 4096, length: 16_384 });
        assert_eq!(index.extent_of(at(8)), Some(0));
        assert_eq!(index.extent_of(at(9)), Some(1));
        assert_eq!(index.extent_of(at(13)), None);
        assert_eq!(index.extent_of(at(0)), None);
    }

    #[test]
    fn truncation_shortens_and_what_follows_starts_a_new_extent() {
        let mut index = SegmentIndex::default();
        index.add_frame(Extent { first: at(1), count: 5, offset: 4096, length: 4096 }, false);
        index.truncate(at(3));
        index.add_frame(Extent { first: at(3), count: 1, offset: 8192, length: 4096 }, true);
        assert_eq!(index.extents.len(), 2);
        assert_eq!(index.extents[0].count, 2);
        assert_eq!(index.extent_of(at(3)), Some(1));
        index.truncate(at(1));
        assert!(index.extents.is_empty());
    }
}
