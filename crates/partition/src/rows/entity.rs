//! `7, namespace (4), workspace (8), key` -> entity.
//!
//! ```text
//!  0  8  version: workspace offset of the last change
//!  8  1  presence: bit 0, it expires
//!  9  8  log time in milliseconds from which on it does not exist, only if present
//!        value
//! ```

use gapless_types::{NamespaceId, WorkspaceId};

use crate::codec::{Malformed, Put, Take};

const KIND: u8 = 7;
const EXPIRES: u8 = 1;

/// A value under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntityRow<'a> {
    pub(crate) version: u64,
    pub(crate) expires_at: Option<u64>,
    pub(crate) value: &'a [u8],
}

impl<'a> EntityRow<'a> {
    /// Whether it exists for whoever reads or writes at this log time.
    pub(crate) fn exists_at(&self, time: u64) -> bool {
        self.expires_at.is_none_or(|expires_at| time < expires_at)
    }

    pub(crate) fn encode(&self, into: &mut Vec<u8>) {
        into.put_u64(self.version);
        into.put_u8(if self.expires_at.is_some() { EXPIRES } else { 0 });
        if let Some(expires_at) = self.expires_at {
            into.put_u64(expires_at);
        }
        into.extend_from_slice(self.value);
    }

    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut take = Take::new(bytes);
        let version = take.u64("entity")?;
        let expires_at = match take.u8("entity")? {
            0 => None,
            EXPIRES => Some(take.u64("entity")?),
            _ => return Err(take.malformed("entity")),
        };
        Ok(Self { version, expires_at, value: take.rest() })
    }
}

pub(crate) fn key(namespace: NamespaceId, workspace: WorkspaceId, entity: &[u8], key: &mut Vec<u8>) {
    super::workspace_key(KIND, namespace, workspace, key);
    key.extend_from_slice(entity);
}

/// The entity's own key.
pub(crate) fn decode_key(key: &[u8]) -> &[u8] {
    key.get(super::WORKSPACE_KEY_BYTES..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_these() {
        let mut bytes = Vec::new();
        key(NamespaceId::new(1), WorkspaceId::new(2), b"cart", &mut bytes);
        assert_eq!(bytes, [&[7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2][..], b"cart"].concat());
        assert_eq!(decode_key(&bytes), b"cart");
        let row = EntityRow { version: 3, expires_at: Some(5), value: b"x" };
        let mut bytes = Vec::new();
        row.encode(&mut bytes);
        assert_eq!(bytes, [3, 0, 0, 0, 0, 0, 0, 0, 1, 5, 0, 0, 0, 0, 0, 0, 0, b'x']);
        assert_eq!(EntityRow::decode(&bytes), Ok(row));
        assert!(row.exists_at(4) && !row.exists_at(5));
    }
}
