//! `5, namespace (4), workspace (8), workspace offset (8)` -> partition offset of that event (8), its leaf hash (32).

use gapless_proof::Hash;
use gapless_types::{NamespaceId, PartitionOffset, WorkspaceId};

const KIND: u8 = 5;
const VALUE_BYTES: usize = 8 + Hash::BYTES;

pub(crate) fn key(namespace: NamespaceId, workspace: WorkspaceId, offset: u64) -> [u8; 21] {
    let mut key = [0; 21];
    key[0] = KIND;
    key[1..5].copy_from_slice(&namespace.get().to_be_bytes());
    key[5..13].copy_from_slice(&workspace.get().to_be_bytes());
    key[13..].copy_from_slice(&offset.to_be_bytes());
    key
}

/// The workspace offset in a key.
pub(crate) fn decode_key(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(13..)?.try_into().ok()?))
}

pub(crate) fn value(offset: PartitionOffset, leaf: &Hash) -> [u8; VALUE_BYTES] {
    let mut value = [0; VALUE_BYTES];
    value[..8].copy_from_slice(&offset.get().to_le_bytes());
    value[8..].copy_from_slice(leaf.as_bytes());
    value
}

pub(crate) fn decode(value: &[u8]) -> Option<(PartitionOffset, Hash)> {
    let (offset, leaf) = value.split_first_chunk()?;
    let offset = PartitionOffset::new(u64::from_le_bytes(*offset))?;
    Some((offset, Hash::from_bytes(leaf.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_these() {
        let key = key(NamespaceId::new(1), WorkspaceId::new(2), 0x0304);
        assert_eq!(key, [5, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 3, 4]);
        assert_eq!(decode_key(&key), Some(0x0304));
        let (offset, leaf) = (PartitionOffset::new(9).unwrap(), Hash::from_bytes([7; 32]));
        let value = value(offset, &leaf);
        assert_eq!(value[..8], [9, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(value[8..], [7; 32]);
        assert_eq!(decode(&value), Some((offset, leaf)));
    }

    #[test]
    fn no_other_length_and_no_offset_0_is_a_place() {
        let value = value(PartitionOffset::FIRST, &Hash::default());
        assert!((0..VALUE_BYTES).all(|length| decode(&value[..length]).is_none()));
        assert_eq!(decode(&[&value[..], &[0]].concat()), None);
        assert_eq!(decode(&[0; VALUE_BYTES]), None);
    }
}
