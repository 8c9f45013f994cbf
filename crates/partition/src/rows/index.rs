//! `5, namespace (4), workspace (8), workspace offset (8)` -> partition offset of that event (8).

use gapless_types::{NamespaceId, PartitionOffset, WorkspaceId};

const KIND: u8 = 5;

pub(crate) fn key(namespace: NamespaceId, workspace: WorkspaceId, offset: u64) -> [u8; 21] {
    let mut key = [0; 21];
    key[0] = KIND;
    key[1..5].copy_from_slice(&namespace.get().to_be_bytes());
    key[5..13].copy_from_slice(&workspace.get().to_be_bytes());
    key[13..].copy_from_slice(&offset.to_be_bytes());
    key
}

pub(crate) fn value(offset: PartitionOffset) -> [u8; 8] {
    offset.get().to_le_bytes()
}

pub(crate) fn decode(value: &[u8]) -> Option<PartitionOffset> {
    super::decode_number(value).and_then(PartitionOffset::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_these() {
        let key = key(NamespaceId::new(1), WorkspaceId::new(2), 0x0304);
        assert_eq!(key, [5, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 3, 4]);
        let offset = PartitionOffset::new(9).unwrap();
        assert_eq!(decode(&value(offset)), Some(offset));
    }
}
