//! Reading a long row of things page by page, so that a reader who stops early or is slow costs little memory.

use gapless_engine::types::limits::MAX_RECORD_BYTES;

/// Bytes that are read ahead of a reader, about.
pub(crate) const AHEAD_BYTES: usize = 256 << 10;
/// Bytes that a page has at most: the last item is the one that goes beyond.
pub(crate) const PAGE_BYTES: usize = AHEAD_BYTES + MAX_RECORD_BYTES as usize;
/// Items that are read at once, at most.
const MOST: usize = 64;

/// How many items the next page has: as many as fit, by the last one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageLength(usize);

impl PageLength {
    /// Before anything is known of the items.
    pub(crate) const fn first() -> Self {
        Self(4)
    }

    pub(crate) const fn get(self) -> usize {
        self.0
    }

    /// After a page of so many items with so many bytes.
    pub(crate) fn next(self, items: usize, bytes: usize) -> Self {
        let average = bytes / items.max(1) + 1;
        Self((AHEAD_BYTES / average).clamp(1, MOST).min(self.0 * 4))
    }
}

/// How many items are still wanted: 0 in a request means all of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted(u64);

impl Wanted {
    pub(crate) const fn of(limit: u64) -> Self {
        Self(if limit == 0 { u64::MAX } else { limit })
    }

    pub(crate) const fn is_over(self) -> bool {
        self.0 == 0
    }

    /// At most this many of what fits on a page.
    pub(crate) fn of_page(self, length: PageLength) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX).min(length.get())
    }

    pub(crate) fn without(self, items: usize) -> Self {
        Self(self.0.saturating_sub(items as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_small_items_grow_and_those_of_large_ones_shrink() {
        let mut length = PageLength::first();
        for expected in [16, 64, 64] {
            length = length.next(length.get(), 100 * length.get());
            assert_eq!(length.get(), expected);
        }
        assert_eq!(length.next(64, 64 << 20).get(), 1);
    }
}
