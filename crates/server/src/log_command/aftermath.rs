//! What later frames made of earlier ones: truncations that void records, repairs that restore them.
//!
//! A frame on its own does not tell whether its records still count. Collected over all frames of a log, these two kinds
//! of records do.
//!
//! Must not know: files, how anything is shown.

use std::collections::BTreeMap;
use std::ops::Range;

use gapless_log::{Damage, FrameView, Loss, RecordType};
use gapless_types::Position;

/// Truncations and repairs of a log, in the order of their frames.
#[derive(Clone, Debug, Default)]
pub(crate) struct Aftermath {
    /// Number of the frame, and the first position it voids.
    truncations: Vec<(u64, Position)>,
    /// The last frame that restored a position.
    repairs: BTreeMap<Position, u64>,
}

impl Aftermath {
    /// Takes in the next frame.
    pub(crate) fn observe(&mut self, frame: &FrameView<'_>) {
        for record in frame.records() {
            self.observe_record(frame.number.get(), record.kind, record.position);
        }
    }

    /// Takes in a record of the next frame.
    pub(crate) fn observe_record(&mut self, frame: u64, kind: RecordType, position: Position) {
        match kind {
            RecordType::Truncate => self.truncations.push((frame, position)),
            RecordType::Repair => {
                self.repairs.insert(position, frame);
            }
            _ => {}
        }
    }

    /// Whether something behind this frame voids a position in it.
    pub(crate) fn voids(&self, frame: u64, position: Position) -> bool {
        self.cut_behind(frame).is_some_and(|cut| cut <= position)
    }

    /// The lowest position that frames behind this one cut off.
    fn cut_behind(&self, frame: u64) -> Option<Position> {
        let behind = self.truncations.partition_point(|&(number, _)| number <= frame);
        self.truncations[behind..].iter().map(|&(_, from)| from).min()
    }

    /// The positions of a damage that are still wanted: not restored, not void, and not lost with consent.
    pub(crate) fn still_wanted(&self, damage: &Damage, losses: &[Loss]) -> Vec<Range<Position>> {
        let last_frame = damage.frames.end.saturating_sub(1);
        let cut = self.cut_behind(last_frame).filter(|_| !damage.frames.is_empty());
        let mut wanted = Vec::new();
        for range in &damage.positions {
            let end = cut.map_or(range.end, |cut| range.end.min(cut));
            let repaired = self.repairs.range(range.start..end.max(range.start));
            let repaired =
                repaired.filter(|&(_, &frame)| frame > last_frame).map(|(&at, _)| at..behind(at)).collect();
            let consented = losses.iter().map(|loss| loss.first..loss.end.max(loss.first)).collect();
            wanted.extend(without(without(vec![range.start..end], repaired), consented));
        }
        wanted
    }
}

/// `ranges` without everything in `removed`; empty ones are dropped.
fn without(ranges: Vec<Range<Position>>, removed: Vec<Range<Position>>) -> Vec<Range<Position>> {
    let mut left = ranges;
    for gone in removed {
        left = left
            .into_iter()
            .flat_map(|range| {
                let before = range.start..range.end.min(gone.start).max(range.start);
                let after = range.start.max(gone.end)..range.end;
                [before, after]
            })
            .collect();
    }
    left.retain(|range| range.start < range.end);
    left
}

fn behind(position: Position) -> Position {
    position.next().unwrap_or(position)
}

#[cfg(test)]
mod tests {
    use gapless_log::Finding;
    use gapless_types::SegmentNumber;

    use super::*;

    fn at(position: u64) -> Position {
        Position::new(position)
    }

    fn damage(frames: Range<u64>, positions: Range<u64>) -> Damage {
        Damage {
            finding: Finding::CorruptFrame,
            segment: SegmentNumber::FIRST,
            last_segment: SegmentNumber::FIRST,
            bytes: 4096..8192,
            frames,
            positions: vec![at(positions.start)..at(positions.end)],
            rescued: 0,
        }
    }

    #[test]
    fn a_truncation_voids_what_was_written_before_it_and_nothing_behind_it() {
        let mut aftermath = Aftermath::default();
        aftermath.observe_record(7, RecordType::Truncate, at(5));
        aftermath.observe_record(9, RecordType::Truncate, at(8));
        assert!(aftermath.voids(6, at(5)));
        assert!(!aftermath.voids(6, at(4)));
        assert!(!aftermath.voids(7, at(6)));
        assert!(aftermath.voids(7, at(8)));
        assert!(!aftermath.voids(9, at(8)));
    }

    #[test]
    fn what_was_repaired_or_truncated_or_given_up_is_not_wanted_any_more() {
        let mut aftermath = Aftermath::default();
        aftermath.observe_record(1, RecordType::Repair, at(3));
        assert_eq!(
            aftermath.still_wanted(&damage(2..3, 3..9), &[]),
            [at(3)..at(9)],
            "a repair is older than the damage"
        );
        aftermath.observe_record(5, RecordType::Repair, at(4));
        aftermath.observe_record(6, RecordType::Truncate, at(8));
        assert_eq!(aftermath.still_wanted(&damage(2..3, 3..9), &[]), [at(3)..at(4), at(5)..at(8)]);
        let segment = SegmentNumber::FIRST;
        let loss = Loss { first: at(6), end: at(20), first_segment: segment, last_segment: segment };
        assert_eq!(aftermath.still_wanted(&damage(2..3, 3..9), &[loss]), [at(3)..at(4), at(5)..at(6)]);
    }
}
