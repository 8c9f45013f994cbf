//! `4, namespace (4), workspace (8)` -> kind (2). A workspace exists from its first event on, and so does this row.

use gapless_types::{NamespaceId, WorkspaceId, WorkspaceKind};

const KIND: u8 = 4;

pub(crate) fn key(namespace: NamespaceId, workspace: WorkspaceId) -> [u8; 13] {
    let mut key = [0; 13];
    key[0] = KIND;
    key[1..5].copy_from_slice(&namespace.get().to_be_bytes());
    key[5..].copy_from_slice(&workspace.get().to_be_bytes());
    key
}

pub(crate) fn decode_key(key: &[u8]) -> Option<WorkspaceId> {
    Some(WorkspaceId::new(u64::from_be_bytes(key.get(5..13)?.try_into().ok()?)))
}

pub(crate) fn value(kind: WorkspaceKind) -> [u8; 2] {
    kind.get().to_le_bytes()
}

pub(crate) fn decode(value: &[u8]) -> Option<WorkspaceKind> {
    Some(WorkspaceKind::new(u16::from_le_bytes(value.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_these() {
        let (namespace, workspace) = (NamespaceId::new(1), WorkspaceId::new(0x0203));
        let key = key(namespace, workspace);
        assert_eq!(key, [4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 2, 3]);
        assert_eq!(decode_key(&key), Some(workspace));
        assert_eq!(decode(&value(WorkspaceKind::new(7))), Some(WorkspaceKind::new(7)));
    }
}
