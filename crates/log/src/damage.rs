//! What can be wrong with the files of a log, and where.
//!
//! The rules are those of `docs/format.md`, "What damage means": a torn tail is dropped and reported; anything that was
//! certified durable is never dropped, its good records are rescued and its bad ones named.

use std::fmt;
use std::ops::{Range, RangeInclusive};

use gapless_types::{Position, SegmentNumber};

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Finding {
    /// The last frame is bad and nothing behind it certifies it: dropped.
    TornTail,
    /// A frame is bad and a later one certifies that it was durable.
    CorruptFrame,
    /// A frame number is missing although a later one certifies it.
    LostWrite,
    /// A frame names another predecessor than the one that is there.
    BrokenChain,
    /// A segment's file is gone.
    MissingSegment,
    /// A segment's file has another length than it was created with.
    WrongLength,
    /// The footer is bad; it was rebuilt by scanning.
    BadFooter,
    /// One or both copies of a segment's header are bad; what they say was found elsewhere.
    BadHeader,
    /// A record did not match its checksum when it was read.
    BadRecord,
}

impl Finding {
    /// Whether it may take away records that were acknowledged, so that someone must act.
    pub fn threatens_records(self) -> bool {
        !matches!(self, Finding::TornTail | Finding::BadFooter | Finding::BadHeader)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Finding::TornTail => "torn tail",
            Finding::CorruptFrame => "corrupt frame",
            Finding::LostWrite => "lost write",
            Finding::BrokenChain => "broken chain",
            Finding::MissingSegment => "missing segment",
            Finding::WrongLength => "wrong length",
            Finding::BadFooter => "bad footer",
            Finding::BadHeader => "bad header",
            Finding::BadRecord => "bad record",
        })
    }
}

/// One finding with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// What was found.
    pub finding: Finding,
    /// In which segment.
    pub segment: SegmentNumber,
    /// The last segment concerned: another one only where several next to each other are missing.
    pub last_segment: SegmentNumber,
    /// Where in its file.
    pub bytes: Range<u32>,
    /// Numbers of the frames concerned; empty if none is.
    pub frames: Range<u64>,
    /// Positions that cannot be read. Rescued ones are not among them.
    pub positions: Vec<Range<Position>>,
    /// Records that were saved out of the damaged bytes.
    pub rescued: u64,
}

impl Damage {
    /// A finding that concerns no position.
    pub(crate) fn at(finding: Finding, segment: SegmentNumber, bytes: Range<u32>) -> Self {
        let positions = Vec::new();
        Self { finding, segment, last_segment: segment, bytes, frames: 0..0, positions, rescued: 0 }
    }

    /// Segments next to each other whose files are gone, and with them these positions.
    pub(crate) fn missing(segments: RangeInclusive<SegmentNumber>, positions: Range<Position>) -> Self {
        let positions = if positions.is_empty() { Vec::new() } else { vec![positions] };
        let last_segment = *segments.end();
        Self { last_segment, positions, ..Self::at(Finding::MissingSegment, *segments.start(), 0..0) }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.last_segment > self.segment {
            write!(f, "missing segments {} to {}", self.segment, self.last_segment)?;
        } else if self.finding == Finding::MissingSegment {
            write!(f, "missing segment {}", self.segment)?;
        } else {
            let (finding, segment) = (self.finding, self.segment);
            write!(f, "{finding} in segment {segment} at bytes {}..{}", self.bytes.start, self.bytes.end)?;
        }
        if !self.frames.is_empty() {
            write!(f, ", frames {}..{}", self.frames.start, self.frames.end)?;
        }
        for range in &self.positions {
            write!(f, ", positions {}..{}", range.start, range.end)?;
        }
        if self.rescued > 0 {
            write!(f, ", {} records rescued", self.rescued)?;
        }
        Ok(())
    }
}
