//! In a bucket: `workspace (8), idempotency key (16), client id` -> request digest (16), partition offset of the first outcome
//! (8), its log time (8). The namespace is that of the store.

use gapless_types::{IdempotencyKey, PartitionOffset, WorkspaceId};

use crate::codec::{Malformed, Put, Take};
use crate::outcome::RequestDigest;

/// What is remembered of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RememberedRow {
    pub(crate) digest: RequestDigest,
    pub(crate) offset: PartitionOffset,
    pub(crate) time: u64,
}

impl RememberedRow {
    pub(crate) fn encode(&self) -> [u8; 32] {
        let mut value = Vec::with_capacity(32);
        value.extend_from_slice(self.digest.as_bytes());
        value.put_u64(self.offset.get());
        value.put_u64(self.time);
        value.try_into().expect("16 and twice 8 bytes are 32")
    }

    pub(crate) fn decode(value: &[u8]) -> Result<Self, Malformed> {
        let mut take = Take::new(value);
        let malformed = take.malformed("idempotency row");
        let row = Self {
            digest: RequestDigest::from_bytes(take.array("idempotency row")?),
            offset: PartitionOffset::new(take.u64("idempotency row")?).ok_or(malformed)?,
            time: take.u64("idempotency row")?,
        };
        take.end("idempotency row")?;
        Ok(row)
    }
}

pub(crate) fn key(workspace: WorkspaceId, idempotency_key: IdempotencyKey, client: &str, key: &mut Vec<u8>) {
    key.clear();
    key.extend_from_slice(&workspace.get().to_be_bytes());
    key.extend_from_slice(idempotency_key.as_bytes());
    key.extend_from_slice(client.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_these() {
        let mut bytes = Vec::new();
        key(WorkspaceId::new(0x0102), IdempotencyKey::new([7; 16]).unwrap(), "till", &mut bytes);
        assert_eq!(bytes, [&[0, 0, 0, 0, 0, 0, 1, 2][..], &[7; 16], b"till"].concat());
        let row = RememberedRow {
            digest: RequestDigest::from_bytes([9; 16]),
            offset: PartitionOffset::new(3).unwrap(),
            time: 4,
        };
        let value = row.encode();
        assert_eq!(value[..16], [9; 16]);
        assert_eq!(value[16..], [3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(RememberedRow::decode(&value), Ok(row));
    }
}
