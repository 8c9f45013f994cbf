//! `9, namespace (4), partition (2), partition offset (8)` -> log index (8), request digest (16): which record the outcome at
//! an offset is of.

use gapless_types::{LogIndex, NamespaceId, PartitionId, PartitionIndex, PartitionOffset};

use crate::outcome::RequestDigest;

const KIND: u8 = 9;
/// How all keys begin.
pub(crate) const PREFIX: [u8; 1] = [KIND];

pub(crate) fn key(partition: PartitionId, offset: PartitionOffset) -> [u8; 15] {
    let mut key = [0; 15];
    key[0] = KIND;
    key[1..5].copy_from_slice(&partition.namespace.get().to_be_bytes());
    key[5..7].copy_from_slice(&partition.index.get().to_be_bytes());
    key[7..].copy_from_slice(&offset.get().to_be_bytes());
    key
}

/// The partition offset in a key.
pub(crate) fn decode_key(key: &[u8]) -> Option<PartitionOffset> {
    PartitionOffset::new(u64::from_be_bytes(key.get(7..)?.try_into().ok()?))
}

/// The partition in a key.
pub(crate) fn decode_partition(key: &[u8]) -> Option<PartitionId> {
    let namespace = key.get(1..5)?.try_into().ok()?;
    let index = key.get(5..7)?.try_into().ok()?;
    let namespace = NamespaceId::new(u32::from_be_bytes(namespace));
    Some(PartitionId { namespace, index: PartitionIndex::new(u16::from_be_bytes(index)) })
}

pub(crate) fn value(log_index: LogIndex, digest: &RequestDigest) -> [u8; 24] {
    let mut value = [0; 24];
    value[..8].copy_from_slice(&log_index.get().to_le_bytes());
    value[8..].copy_from_slice(digest.as_bytes());
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_these() {
        let partition = PartitionId { namespace: NamespaceId::new(1), index: PartitionIndex::new(2) };
        let key = key(partition, PartitionOffset::new(0x0304).unwrap());
        assert_eq!(key, [9, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 3, 4]);
        assert_eq!(decode_key(&key), PartitionOffset::new(0x0304));
        assert_eq!(decode_partition(&key), Some(partition));
        let value = value(LogIndex::new(5), &RequestDigest::from_bytes([6; 16]));
        assert_eq!(value[..8], [5, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(value[8..], [6; 16]);
    }
}
