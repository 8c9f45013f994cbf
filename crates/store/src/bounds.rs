//! A range of keys that can be walked from either end.
//!
//! Must not know: where keys are stored.

use std::ops::{Bound, RangeBounds};

use bytes::Bytes;

use crate::position::Direction;

/// Both ends of a range.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    pub(crate) start: Bound<Bytes>,
    pub(crate) end: Bound<Bytes>,
}

impl Bounds {
    pub(crate) fn new<Key: AsRef<[u8]>>(range: &impl RangeBounds<Key>) -> Self {
        let owned = |key: &Key| Bytes::copy_from_slice(key.as_ref());
        Self { start: range.start_bound().map(owned), end: range.end_bound().map(owned) }
    }

    pub(crate) fn all() -> Self {
        Self { start: Bound::Unbounded, end: Bound::Unbounded }
    }

    /// All keys that begin with `prefix`.
    pub(crate) fn prefix(prefix: &[u8]) -> Self {
        let start = Bound::Included(Bytes::copy_from_slice(prefix));
        // The first key behind them: the prefix with its last byte that can grow grown, and nothing behind it.
        let end = match prefix.iter().rposition(|byte| *byte < u8::MAX) {
            None => Bound::Unbounded,
            Some(last) => {
                let mut end = prefix[..=last].to_vec();
                end[last] += 1;
                Bound::Excluded(end.into())
            }
        };
        Self { start, end }
    }

    /// Whether no key can be inside. Maps panic when they are asked for such a range.
    pub(crate) fn is_empty(&self) -> bool {
        match (&self.start, &self.end) {
            (Bound::Included(start), Bound::Included(end)) => start > end,
            (
                Bound::Included(start) | Bound::Excluded(start),
                Bound::Included(end) | Bound::Excluded(end),
            ) => start >= end,
            _ => false,
        }
    }

    pub(crate) fn is_before(&self, key: &[u8]) -> bool {
        match &self.start {
            Bound::Unbounded => false,
            Bound::Included(start) => key < &start[..],
            Bound::Excluded(start) => key <= &start[..],
        }
    }

    pub(crate) fn is_behind(&self, key: &[u8]) -> bool {
        match &self.end {
            Bound::Unbounded => false,
            Bound::Included(end) => key > &end[..],
            Bound::Excluded(end) => key >= &end[..],
        }
    }

    /// Leaves what comes after `key` in walking order.
    pub(crate) fn shrink_behind(&mut self, key: Bytes, direction: Direction) {
        match direction {
            Direction::Forward => self.start = Bound::Excluded(key),
            Direction::Backward => self.end = Bound::Excluded(key),
        }
    }

    pub(crate) fn as_slices(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (as_slice(&self.start), as_slice(&self.end))
    }
}

fn as_slice(bound: &Bound<Bytes>) -> Bound<&[u8]> {
    bound.as_ref().map(|key| &key[..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_first_key_that_lacks_it() {
        let inside = |prefix: &[u8], key: &[u8]| {
            let bounds = Bounds::prefix(prefix);
            !bounds.is_before(key) && !bounds.is_behind(key)
        };
        assert!(inside(b"ab", b"ab") && inside(b"ab", b"ab\xff\xff") && inside(b"", b"anything"));
        assert!(!inside(b"ab", b"ac") && !inside(b"ab", b"aa") && !inside(b"ab", b"a"));
        assert!(inside(b"a\xff", b"a\xff\xff") && !inside(b"a\xff", b"b"));
        assert!(inside(b"\xff\xff", b"\xff\xff\x01") && !inside(b"\xff\xff", b"\xff\xfe"));
    }
}
