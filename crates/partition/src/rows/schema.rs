//! `1, namespace (4)` -> the schema as [`Schema::encode`](crate::Schema) writes it.

use gapless_types::NamespaceId;

const KIND: u8 = 1;

pub(crate) fn key(namespace: NamespaceId) -> [u8; 5] {
    let mut key = [KIND; 5];
    key[1..].copy_from_slice(&namespace.get().to_be_bytes());
    key
}
