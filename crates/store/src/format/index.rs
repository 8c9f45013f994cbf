//! Where the blocks of a run are, by the last key of each.
//!
//! ```text
//! | count: u32 | for each block: length: u32 | key length: u16 | last key |
//! ```
//!
//! Blocks follow each other from the end of the header on, so that their lengths say where they are.
//!
//! Must not know: files, checksums.

use bytes::Bytes;

use super::{CHECKSUM_BYTES, Input, Malformed, field};

/// Where a block lies in its file; its checksum stands behind it and is not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) offset: u64,
    pub(crate) length: u32,
}

/// Collects blocks in key order.
#[derive(Debug, Default)]
pub(crate) struct IndexBuilder {
    bytes: Vec<u8>,
    count: usize,
}

impl IndexBuilder {
    pub(crate) fn push(&mut self, length: usize, last_key: &[u8]) {
        self.count += 1;
        self.bytes.extend_from_slice(&field(length).to_le_bytes());
        let key_length = u16::try_from(last_key.len()).expect("limits keep keys short");
        self.bytes.extend_from_slice(&key_length.to_le_bytes());
        self.bytes.extend_from_slice(last_key);
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        let mut bytes = field(self.count).to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.bytes);
        bytes
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    place: Place,
    key_at: usize,
    key_length: u16,
}

/// A decoded index.
#[derive(Debug)]
pub(crate) struct Index {
    bytes: Bytes,
    entries: Vec<Entry>,
}

impl Index {
    /// `first` is where the first block begins.
    pub(crate) fn decode(bytes: Bytes, first: u64) -> Result<Self, Malformed> {
        let mut input = Input::new(&bytes);
        let count = input.u32()? as usize;
        let mut entries = Vec::with_capacity(count.min(bytes.len() / 6));
        let mut offset = first;
        for _ in 0..count {
            let (length, key_length) = (input.u32()?, input.u16()?);
            let key_at = bytes.len() - input.rest().len();
            input.take(usize::from(key_length))?;
            entries.push(Entry { place: Place { offset, length }, key_at, key_length });
            offset += u64::from(length) + CHECKSUM_BYTES as u64;
        }
        input.end()?;
        Ok(Self { bytes, entries })
    }

    pub(crate) fn count(&self) -> usize {
        self.entries.len()
    }

    /// Where the last block ends, checksum included; none without blocks.
    pub(crate) fn end(&self) -> Option<u64> {
        let last = self.entries.last()?.place;
        Some(last.offset + u64::from(last.length) + CHECKSUM_BYTES as u64)
    }

    pub(crate) fn place(&self, block: usize) -> Option<Place> {
        Some(self.entries.get(block)?.place)
    }

    /// The first block whose last key is not before what is looked for.
    pub(crate) fn partition_point(&self, before: impl Fn(&[u8]) -> bool) -> usize {
        self.entries.partition_point(|entry| {
            before(&self.bytes[entry.key_at..entry.key_at + usize::from(entry.key_length)])
        })
    }

    /// What it takes in memory.
    pub(crate) fn weight(&self) -> usize {
        self.bytes.len() + self.entries.capacity() * size_of::<Entry>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn blocks_follow_each_other() {
        let mut builder = IndexBuilder::default();
        builder.push(100, b"b");
        builder.push(50, b"d");
        let index = Index::decode(builder.finish().into(), 16).unwrap();
        assert_eq!(index.place(0), Some(Place { offset: 16, length: 100 }));
        assert_eq!(index.place(1), Some(Place { offset: 120, length: 50 }));
        assert_eq!((index.place(2), index.end()), (None, Some(174)));
        let block_of = |key: &[u8]| index.partition_point(|last| last < key);
        assert_eq!([block_of(b"a"), block_of(b"b"), block_of(b"c"), block_of(b"e")], [0, 0, 1, 2]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_index_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = Index::decode(bytes.into(), 16);
        }
    }
}
