//! `3, namespace (4), workspace (8), sequence (2)` -> last number (8).

use gapless_types::{NamespaceId, SequenceId, WorkspaceId};

const KIND: u8 = 3;
/// How all keys begin.
pub(crate) const PREFIX: [u8; 1] = [KIND];

pub(crate) fn key(namespace: NamespaceId, workspace: WorkspaceId, sequence: SequenceId) -> [u8; 15] {
    let mut key = [0; 15];
    key[0] = KIND;
    key[1..5].copy_from_slice(&namespace.get().to_be_bytes());
    key[5..13].copy_from_slice(&workspace.get().to_be_bytes());
    key[13..].copy_from_slice(&sequence.get().to_be_bytes());
    key
}

/// Workspace and sequence in a key.
pub(crate) fn decode_key(key: &[u8]) -> Option<(WorkspaceId, SequenceId)> {
    let workspace = key.get(5..13)?.try_into().ok()?;
    let sequence = key.get(13..)?.try_into().ok()?;
    Some((WorkspaceId::new(u64::from_be_bytes(workspace)), SequenceId::new(u16::from_be_bytes(sequence))))
}

pub(crate) fn decode(value: &[u8]) -> Option<u64> {
    super::decode_number(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_these() {
        let key = key(NamespaceId::new(1), WorkspaceId::new(0x0203), SequenceId::new(0x0405));
        assert_eq!(key, [3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 2, 3, 4, 5]);
        assert_eq!(decode_key(&key), Some((WorkspaceId::new(0x0203), SequenceId::new(0x0405))));
        assert_eq!(decode(&200_001_u64.to_le_bytes()), Some(200_001));
        assert_eq!(decode(&[]), None);
    }
}
