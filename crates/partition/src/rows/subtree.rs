//! `10, namespace (4), workspace (8), level (1), number (8)` -> root of that full subtree (32): of 256 events on level 1, of
//! 65 536 on level 2. Written once, with the event that fills it. Level 0 are the leaves, in the workspace index.

use gapless_proof::{Hash, Subtree};
use gapless_types::{NamespaceId, WorkspaceId};

const KIND: u8 = 10;

pub(crate) fn key(namespace: NamespaceId, workspace: WorkspaceId, subtree: Subtree) -> [u8; 22] {
    let mut key = [0; 22];
    key[0] = KIND;
    key[1..5].copy_from_slice(&namespace.get().to_be_bytes());
    key[5..13].copy_from_slice(&workspace.get().to_be_bytes());
    key[13] = subtree.level;
    key[14..].copy_from_slice(&subtree.number.to_be_bytes());
    key
}

/// The number in a key.
pub(crate) fn decode_key(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(14..)?.try_into().ok()?))
}

/// Offset of the event that fills the subtree of a key.
pub(crate) fn last_event(key: &[u8]) -> Option<u64> {
    let leaves = 1_u64.checked_shl(8 * u32::from(*key.get(13)?))?;
    decode_key(key)?.checked_add(1)?.checked_mul(leaves)
}

pub(crate) fn decode(value: &[u8]) -> Option<Hash> {
    Some(Hash::from_bytes(value.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_these() {
        let key = key(NamespaceId::new(1), WorkspaceId::new(2), Subtree { level: 3, number: 0x0405 });
        assert_eq!(key, [10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 3, 0, 0, 0, 0, 0, 0, 4, 5]);
        assert_eq!(decode_key(&key), Some(0x0405));
        assert_eq!(last_event(&key), Some(0x0406 << 24));
        assert_eq!(decode(&[6; 32]), Some(Hash::from_bytes([6; 32])));
        assert_eq!(decode(&[6; 31]), None);
    }
}
