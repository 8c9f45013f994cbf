//! Places in the orders a user sees: the cluster's, a partition's, a workspace's and a client's.
//!
//! Invariants
//! - NUM-1: in its scope each of them has no gap and no repeat. The types give it a beginning and a successor;
//!   whoever hands numbers out keeps it.
//!
//! Must not know: who hands them out, where they are stored.

use std::num::NonZeroU64;

use crate::number::{dense_number, position_number};

position_number! {
    /// Place of an entry in the replicated log, the one order the cluster agreed on. Unit: entries.
    ///
    /// The first is 0, not 1: that is how the consensus library counts, and its index 0 is a real entry (the
    /// one that records the first membership). A shift by one between the two would have to be applied in
    /// every message and every stored vote, and forgotten in one of them.
    LogIndex(u64), first = 0
}

dense_number! {
    /// Place of an outcome in the log of its partition. Unit: outcomes; the first has offset 1.
    PartitionOffset(u64, NonZeroU64), "partition offset"
}

dense_number! {
    /// Place of an event in its workspace. Unit: events; the first has offset 1.
    WorkspaceOffset(u64, NonZeroU64), "workspace offset"
}

dense_number! {
    /// Place of an event among those its client committed in a workspace. Unit: events; the first is 1.
    ClientSequence(u64, NonZeroU64), "client sequence"
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::OutOfRange;

    #[test]
    fn what_a_user_counts_starts_at_one() {
        assert_eq!(PartitionOffset::FIRST.get(), 1);
        assert_eq!(WorkspaceOffset::FIRST.get(), 1);
        assert_eq!(ClientSequence::FIRST.get(), 1);
    }

    #[test]
    fn the_replicated_log_starts_at_zero() {
        assert_eq!(LogIndex::FIRST, LogIndex::new(0));
        assert_eq!(LogIndex::FIRST.previous(), None);
        assert_eq!(LogIndex::FIRST.next(), Some(LogIndex::new(1)));
        assert_eq!(LogIndex::MAX.next(), None);
    }

    #[test]
    fn zero_is_refused_by_name() {
        let refusal = PartitionOffset::try_from(0).unwrap_err();
        assert_eq!(refusal, OutOfRange { what: "partition offset", value: 0, first: 1, last: u64::MAX });
        assert_eq!(refusal.to_string(), "partition offset 0 is not in 1..=18446744073709551615");
        assert_eq!(WorkspaceOffset::try_from(0).unwrap_err().what, "workspace offset");
        assert_eq!(ClientSequence::try_from(0).unwrap_err().what, "client sequence");
    }

    #[test]
    fn nothing_precedes_the_first_or_follows_the_last() {
        assert_eq!(WorkspaceOffset::FIRST.previous(), None);
        assert_eq!(WorkspaceOffset::MAX.next(), None);
    }

    proptest! {
        #[test]
        fn a_number_gives_back_its_value(value in 1..=u64::MAX) {
            let offset = WorkspaceOffset::try_from(value)?;
            prop_assert_eq!(offset.get(), value);
            prop_assert_eq!(u64::from(offset), value);
            prop_assert_eq!(offset.to_string(), value.to_string());
        }

        #[test]
        fn the_successor_is_the_nearest_greater(value in 1..u64::MAX) {
            let offset = PartitionOffset::try_from(value)?;
            let next = offset.next().unwrap();
            prop_assert!(next > offset);
            prop_assert_eq!(next.get() - offset.get(), 1);
            prop_assert_eq!(next.previous(), Some(offset));
        }
    }
}
