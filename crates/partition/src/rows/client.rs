//! `8, namespace (4), workspace (8), client id` -> last client sequence (8). Never evicted: a client's counter is not its last
//! key.

use gapless_types::{ClientSequence, NamespaceId, WorkspaceId};

const KIND: u8 = 8;

pub(crate) fn key(namespace: NamespaceId, workspace: WorkspaceId, client: &str, key: &mut Vec<u8>) {
    super::workspace_key(KIND, namespace, workspace, key);
    key.extend_from_slice(client.as_bytes());
}

pub(crate) fn value(last: ClientSequence) -> [u8; 8] {
    last.get().to_le_bytes()
}

pub(crate) fn decode(value: &[u8]) -> Option<ClientSequence> {
    super::decode_number(value).and_then(ClientSequence::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_these() {
        let mut bytes = vec![9; 40];
        key(NamespaceId::new(1), WorkspaceId::new(2), "till", &mut bytes);
        assert_eq!(bytes, [&[8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2][..], b"till"].concat());
        let last = ClientSequence::new(3).unwrap();
        assert_eq!(decode(&value(last)), Some(last));
    }
}
