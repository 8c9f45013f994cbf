//! Things under numbers that were given out one after the other: nearly all of them go in the order in which they came.
//!
//! ```text
//!           first ─▼
//!  late: 2, 5      | 7 | - | 9 | 10 |       8 has gone, or there never was one
//! ```
//!
//! Invariants
//! - Whoever stays for long takes a place of his own, and not one for everybody who came after him.
//!
//! Must not know: what is kept.

use std::collections::{BTreeMap, VecDeque};

/// Places in a row: with more, those in front are kept elsewhere.
const MOST_PLACES: usize = 8192;

/// A map from numbers that only grow.
#[derive(Debug)]
pub struct Numbered<T> {
    /// The number of the place in front.
    first: u64,
    /// The one in front is there, if any is.
    places: VecDeque<Option<T>>,
    /// Those that stayed while many others came.
    late: BTreeMap<u64, T>,
    count: usize,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { first: 0, places: VecDeque::new(), late: BTreeMap::new(), count: 0 }
    }
}

impl<T> Numbered<T> {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Keeps one more, under a number that is higher than every one before it.
    ///
    /// # Panics
    /// If it is not.
    pub fn push(&mut self, number: u64, thing: T) {
        while self.places.front().is_some() && number.saturating_sub(self.first) >= MOST_PLACES as u64 {
            if let Some(Some(late)) = self.places.pop_front() {
                self.late.insert(self.first, late);
            }
            self.first += 1;
            self.close_up();
        }
        if self.places.is_empty() {
            self.first = number;
        }
        let place = number.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
        let place = place.filter(|place| *place >= self.places.len()).expect("numbers only grow");
        self.places.resize_with(place, || None);
        self.places.push_back(Some(thing));
        self.count += 1;
    }

    /// The thing under a number, which has gone then.
    pub fn remove(&mut self, number: u64) -> Option<T> {
        let thing = match number.checked_sub(self.first) {
            Some(place) => self.places.get_mut(usize::try_from(place).ok()?)?.take()?,
            None => self.late.remove(&number)?,
        };
        self.count -= 1;
        self.close_up();
        Some(thing)
    }

    /// The one with the lowest number.
    #[must_use]
    pub fn first(&self) -> Option<(u64, &T)> {
        if let Some((number, late)) = self.late.first_key_value() {
            return Some((*number, late));
        }
        Some((self.first, self.places.front()?.as_ref()?))
    }

    /// All of them, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.late.values().chain(self.places.iter().flatten())
    }

    /// Nobody is missing in front.
    fn close_up(&mut self) {
        while let Some(None) = self.places.front() {
            self.places.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((prop_oneof![0..4_u64, 0..3000_u64], any::<u64>()), 0..200)) {
            let (mut numbered, mut model, mut next) = (Numbered::default(), BTreeMap::new(), 5);
            for (gap, chance) in steps {
                if chance % 5 < 3 {
                    next += gap;
                    numbered.push(next, chance);
                    model.insert(next, chance);
                    next += 1;
                } else {
                    let there = model.keys().nth((chance % 16) as usize).copied();
                    for asked in there.into_iter().chain([chance % 40]) {
                        prop_assert_eq!(numbered.remove(asked), model.remove(&asked));
                    }
                }
                prop_assert_eq!(numbered.len(), model.len());
                prop_assert_eq!(numbered.first(), model.first_key_value().map(|(number, thing)| (*number, thing)));
                prop_assert!(numbered.places.len() <= MOST_PLACES);
                prop_assert!(numbered.iter().eq(model.values()));
            }
        }
    }

    #[test]
    fn whoever_stays_does_not_keep_room_for_everybody_behind_him() {
        let mut numbered = Numbered::default();
        numbered.push(0, 0);
        for number in 1..1_000_000 {
            numbered.push(number, number);
            assert_eq!(numbered.remove(number), Some(number));
        }
        assert!(numbered.places.capacity() <= 2 * MOST_PLACES, "{}", numbered.places.capacity());
        assert_eq!((numbered.len(), numbered.first()), (1, Some((0, &0))));
        assert_eq!(numbered.remove(0), Some(0));
        assert!(numbered.is_empty() && numbered.first().is_none());
    }
}
