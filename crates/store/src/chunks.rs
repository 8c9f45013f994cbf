//! Memory that grows in pieces: nothing that is in it moves, and it is given back at once.
//!
//! A vector that doubles holds up to twice what it needs, and three times while it grows; a hundred thousand allocations
//! take longer to free than to fill. The first piece grows like a vector, so that an empty memtable costs nothing.
//!
//! Must not know: what it holds.

use std::fmt;

use bytes::{Bytes, BytesMut};

/// Bytes of keys in one piece.
const KEYS_PIECE: usize = 32 << 10;
/// Bytes of values in the first piece; the next ones double up to the last figure.
const VALUES_FIRST_PIECE: usize = 1 << 10;
const VALUES_PIECE: usize = 64 << 10;
/// A value from this size on has an allocation of its own.
const LARGE_VALUE: usize = 4 << 10;

/// Items that are numbered from 0 and never removed; `PIECE`, a power of two, of them lie together.
pub(crate) struct Items<T, const PIECE: usize> {
    pieces: Vec<Vec<T>>,
}

impl<T, const PIECE: usize> Items<T, PIECE> {
    const SHIFT: u32 = PIECE.trailing_zeros();

    /// Adds an item and returns its number.
    pub(crate) fn push(&mut self, item: T) -> u32 {
        match self.pieces.last() {
            None => self.pieces.push(Vec::new()),
            Some(last) if last.len() == PIECE => self.pieces.push(Vec::with_capacity(PIECE)),
            Some(_) => {}
        }
        let before = (self.pieces.len() - 1) << Self::SHIFT;
        let last = self.pieces.last_mut().expect("there is one now");
        last.push(item);
        u32::try_from(before + last.len() - 1).expect("a memtable has far less than 2^32 rows")
    }

    pub(crate) fn get(&self, number: u32) -> &T {
        let number = number as usize;
        &self.pieces[number >> Self::SHIFT][number & (PIECE - 1)]
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> &mut T {
        let number = number as usize;
        &mut self.pieces[number >> Self::SHIFT][number & (PIECE - 1)]
    }

    pub(crate) fn len(&self) -> usize {
        match self.pieces.split_last() {
            None => 0,
            Some((last, full)) => (full.len() << Self::SHIFT) + last.len(),
        }
    }
}

impl<T, const PIECE: usize> Default for Items<T, PIECE> {
    fn default() -> Self {
        Self { pieces: Vec::new() }
    }
}

impl<T, const PIECE: usize> fmt::Debug for Items<T, PIECE> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Items").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Where the bytes of a key are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyPlace {
    piece: u32,
    start: u32,
    length: u32,
}

impl KeyPlace {
    pub(crate) fn len(self) -> usize {
        self.length as usize
    }
}

/// The bytes of keys.
#[derive(Default)]
pub(crate) struct Keys {
    pieces: Vec<Vec<u8>>,
}

impl Keys {
    pub(crate) fn add(&mut self, key: &[u8]) -> KeyPlace {
        let needs_piece = self.pieces.last().is_none_or(|last| last.len() + key.len() > KEYS_PIECE);
        if needs_piece {
            let capacity = if self.pieces.is_empty() { 0 } else { KEYS_PIECE };
            self.pieces.push(Vec::with_capacity(capacity));
        }
        let piece = self.pieces.len() - 1;
        let last = &mut self.pieces[piece];
        let start = last.len();
        last.extend_from_slice(key);
        let number =
            |number: usize| u32::try_from(number).expect("a memtable has far less than 2^32 bytes of keys");
        KeyPlace { piece: number(piece), start: number(start), length: number(key.len()) }
    }

    pub(crate) fn get(&self, place: KeyPlace) -> &[u8] {
        let start = place.start as usize;
        &self.pieces[place.piece as usize][start..start + place.length as usize]
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Keys").field("pieces", &self.pieces.len()).finish()
    }
}

/// The bytes of values: each can be handed out without a copy, and keeps its piece.
#[derive(Default)]
pub(crate) struct Values {
    current: BytesMut,
    piece_bytes: usize,
}

impl Values {
    /// Whether a value of this size has an allocation of its own, and gives it back without the others.
    pub(crate) fn is_alone(bytes: u64) -> bool {
        bytes >= LARGE_VALUE as u64
    }

    pub(crate) fn add(&mut self, value: &[u8]) -> Bytes {
        if Self::is_alone(value.len() as u64) {
            return Bytes::copy_from_slice(value);
        }
        if self.current.capacity() < value.len() {
            self.piece_bytes = (self.piece_bytes * 2).clamp(VALUES_FIRST_PIECE, VALUES_PIECE);
            self.current = BytesMut::with_capacity(self.piece_bytes.max(value.len()));
        }
        self.current.extend_from_slice(value);
        self.current.split().freeze()
    }
}

impl fmt::Debug for Values {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Values").field("piece_bytes", &self.piece_bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_keep_their_numbers() {
        let mut items = Items::<u32, 8>::default();
        for number in 0..100 {
            assert_eq!(items.push(number * 3), number);
        }
        *items.get_mut(17) = 0;
        assert_eq!((items.len(), *items.get(16), *items.get(17), *items.get(99)), (100, 48, 0, 297));
    }

    #[test]
    fn keys_and_values_of_every_size_come_back() {
        let (mut keys, mut values) = (Keys::default(), Values::default());
        let bytes: Vec<u8> = (0..u8::MAX).cycle().take(70_000).collect();
        let lengths = [0, 1, 24, 4096, 30_000, 40_000, 0, 70_000, 3];
        let added: Vec<_> =
            lengths.map(|length| (keys.add(&bytes[..length]), values.add(&bytes[..length]))).into();
        for ((key, value), length) in added.into_iter().zip(lengths) {
            assert_eq!(keys.get(key), &bytes[..length]);
            assert_eq!(value, &bytes[..length]);
        }
    }
}
