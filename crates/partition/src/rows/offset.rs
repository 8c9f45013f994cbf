//! `2, namespace (4), partition (2), 0 (2)` -> next partition offset (8): everything in front of it is in the numbers.

use gapless_types::{PartitionId, PartitionOffset};

const KIND: u8 = 2;

pub(crate) fn key(partition: PartitionId) -> [u8; 9] {
    let mut key = [0; 9];
    key[0] = KIND;
    key[1..5].copy_from_slice(&partition.namespace.get().to_be_bytes());
    key[5..7].copy_from_slice(&partition.index.get().to_be_bytes());
    key
}

pub(crate) fn value(next: PartitionOffset) -> [u8; 8] {
    next.get().to_le_bytes()
}

pub(crate) fn decode(value: &[u8]) -> Option<PartitionOffset> {
    super::decode_number(value).and_then(PartitionOffset::new)
}

#[cfg(test)]
mod tests {
    use gapless_types::{NamespaceId, PartitionIndex};

    use super::*;

    #[test]
    fn the_bytes_are_these() {
        let partition =
            PartitionId { namespace: NamespaceId::new(0x0102_0304), index: PartitionIndex::new(0x0506) };
        assert_eq!(key(partition), [2, 1, 2, 3, 4, 5, 6, 0, 0]);
        let next = PartitionOffset::new(0x0102).unwrap();
        assert_eq!(value(next), [2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(decode(&value(next)), Some(next));
        assert_eq!(decode(&[0; 8]), None, "there is no offset 0");
        assert_eq!(decode(&[1; 7]), None);
    }
}
