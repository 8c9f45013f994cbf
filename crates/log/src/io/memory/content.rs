//! The bytes of one file in memory: pages that copies share until one of them writes.
//!
//! A clone costs one pointer per page that holds anything; a page of zeros is not stored at all. So the durable and
//! the current version of a file, and every fork of a disk, stand side by side without copying each other.
//!
//! Invariant: bytes behind the length are zeros, so that a file that grows again reads zeros there.
//!
//! Must not know: what is durable; names; faults.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

const PAGE_BYTES: usize = 4096;

type Page = [u8; PAGE_BYTES];

#[derive(Clone, Debug, Default)]
pub(in crate::io) struct Content {
    pages: BTreeMap<u64, Arc<Page>>,
    length: u64,
}

impl Content {
    pub(in crate::io) fn length(&self) -> u64 {
        self.length
    }

    /// Fills `buffer` as far as the file goes; returns how far that was.
    pub(in crate::io) fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let count = clipped(buffer.len(), offset, self.length);
        for piece in pieces(offset, count) {
            match self.pages.get(&piece.page) {
                Some(page) => buffer[piece.outside].copy_from_slice(&page[piece.inside]),
                None => buffer[piece.outside].fill(0),
            }
        }
        count
    }

    /// Everything up to the length.
    pub(in crate::io) fn to_vec(&self) -> Vec<u8> {
        let length = usize::try_from(self.length).expect("a file in memory fits into memory");
        let mut bytes = vec![0; length];
        self.read(&mut bytes, 0);
        bytes
    }

    /// Writes all of `bytes`; the file grows where they reach behind its end.
    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        self.length = self.length.max(offset + bytes.len() as u64);
        self.write_inside(bytes, offset);
    }

    /// Writes what of `bytes` lies before the end of the file.
    pub(super) fn write_inside(&mut self, bytes: &[u8], offset: u64) {
        let count = clipped(bytes.len(), offset, self.length);
        for piece in pieces(offset, count) {
            self.write_piece(piece.page, piece.inside, &bytes[piece.outside]);
        }
    }

    fn write_piece(&mut self, page: u64, inside: Range<usize>, bytes: &[u8]) {
        let zeros = bytes.iter().all(|byte| *byte == 0);
        if let Ok(whole) = Page::try_from(bytes) {
            if zeros {
                self.pages.remove(&page);
            } else {
                self.pages.insert(page, Arc::new(whole));
            }
        } else if !zeros || self.pages.contains_key(&page) {
            self.page_mut(page)[inside].copy_from_slice(bytes);
        }
    }

    pub(super) fn set_length(&mut self, length: u64) {
        if length < self.length {
            let page_bytes = PAGE_BYTES as u64;
            drop(self.pages.split_off(&length.div_ceil(page_bytes)));
            if let Some(last) = self.pages.get_mut(&(length / page_bytes)) {
                Arc::make_mut(last)[place_in_page(length)..].fill(0);
            }
        }
        self.length = length;
    }

    /// Hands every byte of the range that lies before the end of the file to `change`, with its offset.
    pub(super) fn change_bytes(&mut self, range: Range<u64>, change: &mut dyn FnMut(u64, &mut u8)) {
        let end = range.end.min(self.length);
        let count =
            usize::try_from(end.saturating_sub(range.start)).expect("a file in memory fits into memory");
        for piece in pieces(range.start, count) {
            let first = range.start + piece.outside.start as u64;
            let bytes = &mut self.page_mut(piece.page)[piece.inside];
            for (position, byte) in (first..).zip(bytes) {
                change(position, byte);
            }
        }
    }

    /// How many bytes are not zero.
    pub(in crate::io) fn non_zero_count(&self) -> usize {
        self.pages.values().map(|page| non_zero_places(page).count()).sum()
    }

    /// Offset of the byte before which there are `rank` bytes that are not zero, and which is not zero itself.
    pub(in crate::io) fn non_zero_offset(&self, mut rank: usize) -> Option<u64> {
        for (number, page) in &self.pages {
            let count = non_zero_places(page).count();
            if rank < count {
                return non_zero_places(page)
                    .nth(rank)
                    .map(|place| number * PAGE_BYTES as u64 + place as u64);
            }
            rank -= count;
        }
        None
    }

    fn page_mut(&mut self, page: u64) -> &mut Page {
        Arc::make_mut(self.pages.entry(page).or_insert_with(|| Arc::new([0; PAGE_BYTES])))
    }
}

/// The part of a range that lies in one page.
struct Piece {
    page: u64,
    /// Where it lies in the page.
    inside: Range<usize>,
    /// Where it lies in the range.
    outside: Range<usize>,
}

fn pieces(offset: u64, length: usize) -> impl Iterator<Item = Piece> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == length {
            return None;
        }
        let position = offset + done as u64;
        let start = place_in_page(position);
        let count = (PAGE_BYTES - start).min(length - done);
        let piece = Piece {
            page: position / PAGE_BYTES as u64,
            inside: start..start + count,
            outside: done..done + count,
        };
        done += count;
        Some(piece)
    })
}

fn place_in_page(offset: u64) -> usize {
    usize::try_from(offset % PAGE_BYTES as u64).expect("a place in a page is smaller than a page")
}

/// How many of `count` bytes from `offset` lie before `end`.
fn clipped(count: usize, offset: u64, end: u64) -> usize {
    usize::try_from(end.saturating_sub(offset)).map_or(count, |room| room.min(count))
}

fn non_zero_places(page: &Page) -> impl Iterator<Item = usize> + '_ {
    page.iter().enumerate().filter(|(_, byte)| **byte != 0).map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pages_behave_like_one_vector(
            steps in prop::collection::vec((0_u64..20_000, 0_usize..9_000, any::<u8>(), any::<bool>()), 1..20),
        ) {
            let mut content = Content::default();
            let mut model = Vec::new();
            for (offset, count, byte, shorten) in steps {
                let place = usize::try_from(offset).unwrap();
                if shorten {
                    content.set_length(offset);
                    model.resize(place, 0);
                } else {
                    content.write(&vec![byte & 1; count], offset);
                    model.resize(model.len().max(place + count), 0);
                    model[place..place + count].fill(byte & 1);
                }
                prop_assert_eq!(&content.to_vec(), &model);
                prop_assert_eq!(content.non_zero_count(), model.iter().filter(|byte| **byte != 0).count());
            }
        }
    }

    #[test]
    fn a_clone_does_not_see_later_writes() {
        let mut content = Content::default();
        content.write(&[1; 10_000], 0);
        let before = content.clone();
        content.write(&[2; 100], 5_000);
        assert_eq!(before.to_vec(), [1; 10_000]);
        assert_eq!(content.to_vec()[5_000..5_100], [2; 100]);
    }

    #[test]
    fn ranks_count_only_bytes_that_are_not_zero() {
        let mut content = Content::default();
        content.write(&[7], 3);
        content.write(&[9], 9_000);
        assert_eq!(content.non_zero_offset(0), Some(3));
        assert_eq!(content.non_zero_offset(1), Some(9_000));
        assert_eq!(content.non_zero_offset(2), None);
    }
}
