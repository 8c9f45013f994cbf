//! A set of numbers, stored as the ranges it consists of.
//!
//! What is acknowledged, satisfied or applied is nearly always everything up to somewhere: one range, however many offsets.
//!
//! Must not know: what the numbers are.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Numbers, as ranges that neither overlap nor touch: first number to last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Whether a number is among them.
    pub(crate) fn contains(&self, number: u64) -> bool {
        self.0.range(..=number).next_back().is_some_and(|(_, last)| *last >= number)
    }

    /// Adds numbers.
    pub(crate) fn insert(&mut self, range: RangeInclusive<u64>) {
        let (mut first, mut last) = range.into_inner();
        if first > last {
            return;
        }
        // A range that begins before and reaches this one, or ends right before it, swallows it.
        if let Some((&start, &end)) = self.0.range(..=first).next_back()
            && end.saturating_add(1) >= first
        {
            (first, last) = (start, last.max(end));
        }
        while let Some((&start, &end)) = self.0.range(first..=last.saturating_add(1)).next() {
            self.0.remove(&start);
            last = last.max(end);
        }
        self.0.insert(first, last);
    }

    /// Takes numbers out.
    pub(crate) fn remove(&mut self, range: RangeInclusive<u64>) {
        let (first, last) = range.into_inner();
        if first > last {
            return;
        }
        let touched: Vec<(u64, u64)> = (self.0.range(..=last).rev())
            .take_while(|(_, end)| **end >= first)
            .map(|(start, end)| (*start, *end))
            .collect();
        for (start, end) in touched {
            self.0.remove(&start);
            if start < first {
                self.0.insert(start, first - 1);
            }
            if end > last {
                self.0.insert(last + 1, end);
            }
        }
    }

    /// The ranges of the set within a range, cut to it.
    pub(crate) fn within(&self, range: RangeInclusive<u64>) -> impl Iterator<Item = (u64, u64)> + '_ {
        let (first, last) = range.into_inner();
        let before = self.0.range(..first).next_back().map(|(start, end)| (*start, *end));
        let inside = (first <= last).then(|| self.0.range(first..=last)).into_iter().flatten();
        before
            .into_iter()
            .chain(inside.map(|(start, end)| (*start, *end)))
            .map(move |(start, end)| (start.max(first), end.min(last)))
            .filter(|(start, end)| start <= end)
    }

    /// The lowest number of a range that is not in the set.
    pub(crate) fn first_missing(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let (first, last) = range.into_inner();
        let missing = match self.0.range(..=first).next_back() {
            Some((_, end)) if *end >= first => end.checked_add(1)?,
            _ => first,
        };
        (missing <= last).then_some(missing)
    }

    /// How many ranges it takes.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_are_a_set_in_as_few_pieces_as_possible(
            steps in proptest::collection::vec((any::<bool>(), 0..40_u64, 0..10_u64), 1..60),
        ) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for (add, first, length) in steps {
                let range = first..=first + length;
                if add {
                    set.extend(range.clone());
                    ranges.insert(range);
                } else {
                    set.retain(|number| !range.contains(number));
                    ranges.remove(range);
                }
                for number in 0..60 {
                    prop_assert_eq!(ranges.contains(number), set.contains(&number));
                    let missing = (number..=55).find(|candidate| !set.contains(candidate));
                    prop_assert_eq!(ranges.first_missing(number..=55), missing);
                }
                let pieces = set.iter().filter(|number| !set.contains(&(*number + 1))).count();
                prop_assert_eq!(ranges.count(), pieces);
                let within: Vec<u64> = ranges.within(10..=30).flat_map(|(first, last)| first..=last).collect();
                prop_assert_eq!(within, set.range(10..=30).copied().collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn the_ends_of_the_numbers_are_numbers() {
        let mut ranges = Ranges::default();
        ranges.insert(u64::MAX - 1..=u64::MAX);
        ranges.insert(0..=0);
        assert!(ranges.contains(u64::MAX) && ranges.contains(0));
        assert_eq!(ranges.first_missing(u64::MAX..=u64::MAX), None);
        ranges.remove(0..=u64::MAX);
        assert_eq!(ranges.count(), 0);
    }
}
