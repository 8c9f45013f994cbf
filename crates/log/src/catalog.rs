//! Which segment holds a position, over the whole log.
//!
//! Memory: some bytes per segment, and the indexes of a few sealed segments that were read lately; all others are in their
//! footers.
//!
//! Must not know: how to read a file, what waits to be written.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use gapless_types::{Position, SegmentNumber};

use crate::format::Geometry;
use crate::index::{Override, SegmentIndex};
use crate::io::File;

/// A sealed segment whose index is in memory.
#[derive(Debug)]
pub(crate) struct OpenSegment {
    pub(crate) number: SegmentNumber,
    pub(crate) file: Arc<dyn File>,
    pub(crate) index: SegmentIndex,
}

/// A segment of the log.
#[derive(Debug)]
pub(crate) struct SegmentEntry {
    pub(crate) geometry: Geometry,
    /// Kept in memory until its footer is on disk.
    pub(crate) pinned: Option<Arc<OpenSegment>>,
}

/// Where a position is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the extents of this segment, and so are those behind it up to the second position.
    Segment(SegmentNumber, Position),
    /// A record of its own.
    Single(SegmentNumber, Override),
    /// Damaged in this segment.
    Hole(SegmentNumber),
    /// Nowhere.
    Nowhere,
}

/// All segments and what they hold.
#[derive(Debug)]
pub(crate) struct Catalog {
    pub(crate) segments: BTreeMap<SegmentNumber, SegmentEntry>,
    runs: Vec<(Range<Position>, SegmentNumber)>,
    overrides: BTreeMap<Position, (SegmentNumber, Override)>,
    holes: Vec<(Range<Position>, SegmentNumber)>,
    cache: VecDeque<Arc<OpenSegment>>,
    cache_limit: usize,
}

impl Catalog {
    pub(crate) fn new(
        runs: Vec<(Range<Position>, SegmentNumber)>,
        overrides: BTreeMap<Position, (SegmentNumber, Override)>,
        holes: Vec<(Range<Position>, SegmentNumber)>,
        cache_limit: usize,
    ) -> Self {
        Self { segments: BTreeMap::new(), runs, overrides, holes, cache: VecDeque::new(), cache_limit }
    }

    /// Where a position is.
    pub(crate) fn place_of(&self, position: Position) -> Place {
        if let Some(&(segment, entry)) = self.overrides.get(&position) {
            return Place::Single(segment, entry);
        }
        if let Some((_, segment)) = self.holes.iter().find(|(hole, _)| hole.contains(&position)) {
            return Place::Hole(*segment);
        }
        let after = self.runs.partition_point(|(run, _)| run.start <= position);
        match after.checked_sub(1).map(|index| &self.runs[index]) {
            Some((run, segment)) if run.contains(&position) => {
                let end = self.next_exception(position).map_or(run.end, |exception| exception.min(run.end));
                Place::Segment(*segment, end)
            }
            _ => Place::Nowhere,
        }
    }

    /// The first position from `from` on where something else than plain extents begins.
    fn next_exception(&self, from: Position) -> Option<Position> {
        let single = self.overrides.range(from..).next().map(|(&position, _)| position);
        let hole = self.holes.iter().map(|(hole, _)| hole.start).filter(|&start| start >= from).min();
        single.into_iter().chain(hole).min()
    }

    /// Takes in positions that were written to a segment.
    pub(crate) fn add_run(&mut self, run: Range<Position>, segment: SegmentNumber) {
        if run.is_empty() {
            return;
        }
        match self.runs.last_mut() {
            Some((last, number)) if *number == segment && last.end == run.start => last.end = run.end,
            _ => self.runs.push((run, segment)),
        }
    }

    /// Takes in a single record that stands for a position.
    pub(crate) fn add_override(&mut self, segment: SegmentNumber, entry: Override) {
        self.overrides.insert(entry.position, (segment, entry));
    }

    /// Forgets everything from `from` on.
    pub(crate) fn truncate(&mut self, from: Position) {
        while let Some((run, _)) = self.runs.last_mut() {
            if run.start >= from {
                self.runs.pop();
                continue;
            }
            run.end = run.end.min(from);
            break;
        }
        self.overrides.split_off(&from);
        self.holes.retain_mut(|(hole, _)| {
            hole.end = hole.end.min(from);
            hole.start < hole.end
        });
    }

    /// Forgets everything below `first`.
    pub(crate) fn release(&mut self, first: Position) {
        self.runs.retain(|(run, _)| run.end > first);
        self.overrides = self.overrides.split_off(&first);
        self.holes.retain_mut(|(hole, _)| {
            hole.start = hole.start.max(first);
            hole.start < hole.end
        });
    }

    /// The first segment that holds anything from `first` on.
    pub(crate) fn first_segment_for(&self, first: Position) -> Option<SegmentNumber> {
        let runs = self.runs.iter().find(|(run, _)| run.end > first).map(|(_, segment)| *segment);
        let singles = self.overrides.range(first..).map(|(_, &(segment, _))| segment).min();
        runs.into_iter().chain(singles).min()
    }

    /// Takes segments before `first` out; returns their numbers and lengths.
    pub(crate) fn remove_before(&mut self, first: SegmentNumber) -> Vec<(SegmentNumber, u32)> {
        let kept = self.segments.split_off(&first);
        let removed = std::mem::replace(&mut self.segments, kept);
        self.cache.retain(|segment| segment.number >= first);
        removed.into_iter().map(|(number, entry)| (number, entry.geometry.capacity)).collect()
    }

    /// Positions that are damaged and not restored, with the segment they were in.
    pub(crate) fn unrepaired(&self) -> Vec<(Range<Position>, SegmentNumber)> {
        let mut open = Vec::new();
        for (hole, segment) in &self.holes {
            let mut start = hole.start;
            for &position in self.overrides.range(hole.clone()).map(|(position, _)| position) {
                if start < position {
                    open.push((start..position, *segment));
                }
                start = crate::index::advance(position, 1);
            }
            if start < hole.end {
                open.push((start..hole.end, *segment));
            }
        }
        open
    }

    /// A sealed segment's index, if it is in memory.
    pub(crate) fn open_segment(&mut self, number: SegmentNumber) -> Option<Arc<OpenSegment>> {
        if let Some(pinned) = self.segments.get(&number).and_then(|entry| entry.pinned.clone()) {
            return Some(pinned);
        }
        let at = self.cache.iter().position(|segment| segment.number == number)?;
        let found = self.cache.remove(at)?;
        self.cache.push_front(found.clone());
        Some(found)
    }

    /// Keeps an index in memory, and lets go of the one that was not used for the longest time.
    pub(crate) fn keep(&mut self, segment: Arc<OpenSegment>) {
        if self.segments.contains_key(&segment.number) {
            self.cache.retain(|cached| cached.number != segment.number);
            self.cache.push_front(segment);
            self.cache.truncate(self.cache_limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(position: u64) -> Position {
        Position::new(position)
    }

    fn segment(number: u32) -> SegmentNumber {
        SegmentNumber::new(number).unwrap()
    }

    fn catalog() -> Catalog {
        let runs = vec![(at(1)..at(10), segment(1)), (at(10)..at(20), segment(2))];
        Catalog::new(runs, BTreeMap::new(), vec![(at(4)..at(7), segment(1))], 2)
    }

    #[test]
    fn a_repaired_position_is_no_hole_any_more() {
        let mut catalog = catalog();
        assert_eq!(catalog.place_of(at(3)), Place::Segment(segment(1), at(4)));
        assert_eq!(catalog.place_of(at(5)), Place::Hole(segment(1)));
        let entry = Override { position: at(5), offset: 4160, length: 32 };
        catalog.add_override(segment(2), entry);
        assert_eq!(catalog.place_of(at(5)), Place::Single(segment(2), entry));
        assert_eq!(catalog.unrepaired(), [(at(4)..at(5), segment(1)), (at(6)..at(7), segment(1))]);
        assert_eq!(catalog.place_of(at(1)), Place::Segment(segment(1), at(4)));
        assert_eq!(catalog.place_of(at(7)), Place::Segment(segment(1), at(10)));
    }

    #[test]
    fn truncation_and_release_leave_what_is_between() {
        let mut catalog = catalog();
        catalog.truncate(at(12));
        catalog.add_run(at(12)..at(14), segment(3));
        catalog.release(at(6));
        assert_eq!(catalog.place_of(at(12)), Place::Segment(segment(3), at(14)));
        assert_eq!(catalog.place_of(at(14)), Place::Nowhere);
        assert_eq!(catalog.first_segment_for(at(6)), Some(segment(1)));
        assert_eq!(catalog.first_segment_for(at(12)), Some(segment(3)));
        assert_eq!(catalog.unrepaired(), [(at(6)..at(7), segment(1))]);
    }
}
