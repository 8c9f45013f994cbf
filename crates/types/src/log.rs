//! Places in the files of one log: a record's, a frame's, a segment's.
//!
//! Must not know: what a record means, where the files are.

use std::num::{NonZeroU32, NonZeroU64};

use crate::number::{dense_number, position_number};

position_number! {
    /// Place of a record in a log. Unit: records.
    ///
    /// A log starts at [`Position::FIRST`] unless it is told otherwise: a replicated log starts at 0, the
    /// first [`LogIndex`](crate::LogIndex), and one restored from a snapshot behind that snapshot.
    Position(u64), first = 1
}

dense_number! {
    /// Place of a frame (one group commit) in a log, across its segments. Unit: frames; the first is 1.
    FrameNumber(u64, NonZeroU64), "frame number"
}

dense_number! {
    /// Place of a segment file in a log. Unit: segments; the first is 1.
    SegmentNumber(u32, NonZeroU32), "segment number"
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::OutOfRange;

    #[test]
    fn a_log_counts_records_frames_and_segments_from_one() {
        assert_eq!(Position::FIRST.get(), 1);
        assert_eq!(FrameNumber::FIRST.get(), 1);
        assert_eq!(SegmentNumber::FIRST.get(), 1);
    }

    #[test]
    fn a_log_may_start_at_position_zero_but_not_at_frame_zero() {
        assert_eq!(Position::new(0).next(), Some(Position::FIRST));
        assert_eq!(FrameNumber::new(0), None);
        assert_eq!(FrameNumber::FIRST.previous(), None);
    }

    #[test]
    fn the_last_segment_number_is_that_of_32_bits() {
        assert_eq!(SegmentNumber::MAX.next(), None);
        assert_eq!(
            SegmentNumber::try_from(0).unwrap_err(),
            OutOfRange { what: "segment number", value: 0, first: 1, last: u64::from(u32::MAX) }
        );
    }

    proptest! {
        #[test]
        fn adding_a_count_moves_a_position_that_far_or_not_at_all(value: u64, count: u64) {
            let moved = Position::new(value).checked_add(count).map(Position::get);
            prop_assert_eq!(moved, value.checked_add(count));
        }

        #[test]
        fn frames_step_back_to_where_they_came_from(value in 1..u64::MAX) {
            let frame = FrameNumber::try_from(value)?;
            prop_assert_eq!(frame.next().and_then(FrameNumber::previous), Some(frame));
        }
    }
}
