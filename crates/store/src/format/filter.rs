//! Says of most keys that are not in a run that they are not: a Bloom filter in blocks of one cache line.
//!
//! ```text
//! | block of 64 bytes | ... |      10 bits for each row; 6 of them in one block are set for a key
//! ```
//!
//! Invariants
//! - It never denies a key that was put into it.
//!
//! Whoever chooses keys can make it useless for them, never wrong: a get then reads a block in vain.
//!
//! Must not know: files, checksums.

use bytes::Bytes;
use twox_hash::XxHash3_64;

use super::Malformed;

const FILTER_BLOCK_BYTES: usize = 64;
const BITS_PER_ROW: usize = 10;
/// Rows beyond so many share the bits of the others.
const MOST_ROWS: u64 = 1 << 32;
const PROBES: u32 = 6;
/// Golden ratio: spreads the bits of one 32-bit hash over the probes.
const SPREAD: u32 = 0x9e37_79b9;

/// What a filter knows of a key; computed once for all runs that are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyHash(u64);

impl KeyHash {
    pub(crate) fn of(key: &[u8]) -> Self {
        Self(XxHash3_64::oneshot(key))
    }

    fn block(self, blocks: usize) -> usize {
        let place = ((self.0 >> 32) * blocks as u64) >> 32;
        usize::try_from(place).expect("below the number of blocks")
    }

    /// Byte in the block and bit in the byte of every probe.
    fn probes(self) -> impl Iterator<Item = (usize, u8)> {
        let [first, second, third, fourth, ..] = self.0.to_le_bytes();
        let mut hash = u32::from_le_bytes([first, second, third, fourth]);
        (0..PROBES).map(move |_| {
            let bit = hash >> 23;
            hash = hash.wrapping_mul(SPREAD);
            ((bit / 8) as usize, 1 << (bit % 8))
        })
    }
}

/// Collects keys.
#[derive(Debug, Default)]
pub(crate) struct FilterBuilder(Vec<u8>);

impl FilterBuilder {
    pub(crate) fn for_rows(rows: u64) -> Self {
        let rows = usize::try_from(rows.min(MOST_ROWS)).unwrap_or(usize::MAX / BITS_PER_ROW);
        let blocks = (rows * BITS_PER_ROW).div_ceil(FILTER_BLOCK_BYTES * 8).max(1);
        Self(vec![0; blocks * FILTER_BLOCK_BYTES])
    }

    pub(crate) fn insert(&mut self, hash: KeyHash) {
        let start = hash.block(self.0.len() / FILTER_BLOCK_BYTES) * FILTER_BLOCK_BYTES;
        let block = &mut self.0[start..start + FILTER_BLOCK_BYTES];
        for (byte, bit) in hash.probes() {
            block[byte] |= bit;
        }
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// A decoded filter.
#[derive(Clone, Debug)]
pub(crate) struct Filter(Bytes);

impl Filter {
    pub(crate) fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        if bytes.is_empty() || !bytes.len().is_multiple_of(FILTER_BLOCK_BYTES) {
            return Err(Malformed("a filter is a whole number of blocks"));
        }
        Ok(Self(bytes))
    }

    pub(crate) fn may_contain(&self, hash: KeyHash) -> bool {
        let start = hash.block(self.0.len() / FILTER_BLOCK_BYTES) * FILTER_BLOCK_BYTES;
        let block = &self.0[start..start + FILTER_BLOCK_BYTES];
        hash.probes().all(|(byte, bit)| block[byte] & bit != 0)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter_of(keys: std::ops::Range<u64>) -> Filter {
        let mut builder = FilterBuilder::for_rows(keys.end - keys.start);
        keys.for_each(|key| builder.insert(KeyHash::of(&key.to_be_bytes())));
        Filter::decode(builder.into_bytes().into()).unwrap()
    }

    #[test]
    fn no_key_that_was_put_in_is_denied() {
        let filter = filter_of(0..10_000);
        assert!((0..10_000_u64).all(|key| filter.may_contain(KeyHash::of(&key.to_be_bytes()))));
    }

    #[test]
    fn most_other_keys_are_denied() {
        let filter = filter_of(0..10_000);
        let passed =
            (10_000..110_000_u64).filter(|key| filter.may_contain(KeyHash::of(&key.to_be_bytes()))).count();
        assert!(passed < 2_000, "{passed} of 100 000 passed");
    }

    #[test]
    fn a_filter_without_a_whole_block_is_refused() {
        assert!(Filter::decode(Bytes::new()).is_err());
        assert!(Filter::decode(Bytes::from_static(&[0; 65])).is_err());
    }
}
