//! A block of rows: sorted, searched in place, its rows handed out without copying.
//!
//! ```text
//! | row | row | ... | start of each row: u32 ... | count: u32 |
//! row: | key length: u16 | value length: u32, all ones for a deletion | key | value |
//! ```
//!
//! Must not know: files, checksums.

use bytes::Bytes;

use super::{Input, Malformed, field};

/// Marks a row that says "there is no such key".
const DELETED: u32 = u32::MAX;
const ROW_HEADER_BYTES: usize = 6;

/// A row as cursors and merges carry it. Without a value it hides older rows of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) key: Bytes,
    pub(crate) value: Option<Bytes>,
}

/// Collects rows in key order.
#[derive(Debug, Default)]
pub(crate) struct BlockBuilder {
    bytes: Vec<u8>,
    starts: Vec<u32>,
}

impl BlockBuilder {
    pub(crate) fn push(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.starts.push(field(self.bytes.len()));
        let key_length = u16::try_from(key.len()).expect("limits keep keys short");
        self.bytes.extend_from_slice(&key_length.to_le_bytes());
        self.bytes.extend_from_slice(&value.map_or(DELETED, |value| field(value.len())).to_le_bytes());
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Length of the block if it were finished now.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + (self.starts.len() + 1) * size_of::<u32>()
    }

    /// Appends the finished block to `output` and starts over.
    pub(crate) fn finish_into(&mut self, output: &mut Vec<u8>) {
        output.extend_from_slice(&self.bytes);
        for start in &self.starts {
            output.extend_from_slice(&start.to_le_bytes());
        }
        output.extend_from_slice(&field(self.starts.len()).to_le_bytes());
        self.bytes.clear();
        self.starts.clear();
    }
}

/// A decoded block: every row lies inside it.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    bytes: Bytes,
    starts_at: usize,
    count: usize,
}

impl Block {
    pub(crate) fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        let counted =
            bytes.len().checked_sub(size_of::<u32>()).ok_or(Malformed("a block without a count"))?;
        let count = Input::new(&bytes[counted..]).u32()? as usize;
        let starts = count.checked_mul(size_of::<u32>()).ok_or(Malformed("more rows than bytes"))?;
        let starts_at = counted.checked_sub(starts).ok_or(Malformed("more rows than bytes"))?;
        let block = Self { bytes, starts_at, count };
        let mut end = 0;
        for index in 0..count {
            if block.start(index) != end {
                return Err(Malformed("a row does not begin where the one before it ends"));
            }
            let mut input = Input::new(&block.bytes[end..starts_at]);
            let (key_length, value_length) = (input.u16()?, input.u32()?);
            let value_length = if value_length == DELETED { 0 } else { value_length as usize };
            let length = usize::from(key_length) + value_length;
            input.take(length)?;
            end += ROW_HEADER_BYTES + length;
        }
        if count == 0 || end != starts_at {
            return Err(Malformed("the rows do not fill the block"));
        }
        Ok(block)
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// What the block takes in memory.
    pub(crate) fn weight(&self) -> usize {
        self.bytes.len() + size_of::<Self>()
    }

    pub(crate) fn key(&self, index: usize) -> &[u8] {
        let (key_at, value_at, _) = self.places(index);
        &self.bytes[key_at..value_at]
    }

    pub(crate) fn value(&self, index: usize) -> Option<Bytes> {
        let (_, value_at, length) = self.places(index);
        (length != DELETED).then(|| self.bytes.slice(value_at..value_at + length as usize))
    }

    pub(crate) fn row(&self, index: usize) -> Row {
        let (key_at, value_at, _) = self.places(index);
        Row { key: self.bytes.slice(key_at..value_at), value: self.value(index) }
    }

    /// How many rows satisfy `before`, which holds for a prefix of them.
    pub(crate) fn partition_point(&self, before: impl Fn(&[u8]) -> bool) -> usize {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low.midpoint(high);
            if before(self.key(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    fn start(&self, index: usize) -> usize {
        let at = self.starts_at + index * size_of::<u32>();
        let bytes = self.bytes[at..].first_chunk().expect("decode counted the starts");
        u32::from_le_bytes(*bytes) as usize
    }

    fn places(&self, index: usize) -> (usize, usize, u32) {
        let start = self.start(index);
        let header: &[u8; ROW_HEADER_BYTES] =
            self.bytes[start..].first_chunk().expect("decode looked at every row");
        let [low, high, value_length @ ..] = *header;
        let key_length = usize::from(u16::from_le_bytes([low, high]));
        let key_at = start + ROW_HEADER_BYTES;
        (key_at, key_at + key_length, u32::from_le_bytes(value_length))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_block_holds_what_was_put_into_it(
            rows in prop::collection::btree_map(
                prop::collection::vec(any::<u8>(), 0..20),
                prop::option::of(prop::collection::vec(any::<u8>(), 0..20)),
                1..20,
            ),
        ) {
            let mut builder = BlockBuilder::default();
            for (key, value) in &rows {
                builder.push(key, value.as_deref());
            }
            let (length, mut bytes) = (builder.len(), Vec::new());
            builder.finish_into(&mut bytes);
            prop_assert_eq!(length, bytes.len());
            prop_assert!(builder.is_empty());
            let block = Block::decode(bytes.into()).unwrap();
            prop_assert_eq!(block.count(), rows.len());
            for (index, (key, value)) in rows.iter().enumerate() {
                prop_assert_eq!(block.key(index), &key[..]);
                prop_assert_eq!(block.value(index).map(|value| value.to_vec()), value.clone());
                prop_assert_eq!(block.partition_point(|other| other < &key[..]), index);
            }
        }

        #[test]
        fn any_bytes_are_a_block_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(block) = Block::decode(bytes.into()) {
                for index in 0..block.count() {
                    block.row(index);
                }
            }
        }
    }
}
