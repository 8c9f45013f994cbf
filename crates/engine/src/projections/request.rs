//! A command for a domain as it stands in an entry: which domain, who asked, what.
//!
//! ```text
//! u8 version 1 | u8 length, name of the projection | u32 its version | u64 term | u64 number in the term | command
//! ```
//!
//! Invariants
//! - Term and number name one request for ever: a term has one leader, and it counts.
//!
//! Must not know: what a command means.

use bytes::{Buf, BufMut, Bytes};
use gapless_types::{Name, PartitionId};

use crate::retention::Domain;

const VERSION: u8 = 1;
/// Bytes in front of a command besides the name.
const FIXED_BYTES: usize = 22;

/// Names a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequestId {
    /// The term of the leader who was asked.
    pub(crate) term: u64,
    /// Which one of that term it is.
    pub(crate) number: u64,
}

/// A command with its addressee.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DomainRequest {
    pub(crate) domain: Domain,
    pub(crate) id: RequestId,
    pub(crate) command: Bytes,
}

/// How long the record of a command is.
pub(crate) fn encoded_bytes(domain: &Domain, command: &[u8]) -> usize {
    FIXED_BYTES + domain.projection.as_str().len() + command.len()
}

impl DomainRequest {
    pub(crate) fn encode(&self) -> Bytes {
        let name = self.domain.projection.as_str();
        let mut bytes = Vec::with_capacity(encoded_bytes(&self.domain, &self.command));
        bytes.put_u8(VERSION);
        bytes.put_u8(u8::try_from(name.len()).expect("names have at most 63 bytes"));
        bytes.extend_from_slice(name.as_bytes());
        bytes.put_u32_le(self.domain.version);
        bytes.put_u64_le(self.id.term);
        bytes.put_u64_le(self.id.number);
        bytes.extend_from_slice(&self.command);
        bytes.into()
    }

    /// A request for a domain of this partition; none if the bytes are not one that this program knows.
    pub(crate) fn decode(partition: PartitionId, mut bytes: Bytes) -> Option<Self> {
        if bytes.try_get_u8().ok()? != VERSION {
            return None;
        }
        let length = usize::from(bytes.try_get_u8().ok()?);
        if bytes.len() < length {
            return None;
        }
        let name = bytes.split_to(length);
        let projection = Name::new(std::str::from_utf8(&name).ok()?).ok()?;
        let version = bytes.try_get_u32_le().ok()?;
        let id = RequestId { term: bytes.try_get_u64_le().ok()?, number: bytes.try_get_u64_le().ok()? };
        Some(Self { domain: Domain { projection, version, partition }, id, command: bytes })
    }
}

#[cfg(test)]
mod tests {
    use gapless_types::{NamespaceId, PartitionIndex};

    use super::*;

    #[test]
    fn a_request_comes_back_and_anything_else_is_none() {
        let partition = PartitionId { namespace: NamespaceId::new(16), index: PartitionIndex::new(3) };
        let domain = Domain { projection: Name::new("sales").unwrap(), version: 2, partition };
        let id = RequestId { term: 7, number: 1 << 40 };
        let request = DomainRequest { domain, id, command: Bytes::from_static(b"do it") };
        let bytes = request.encode();
        assert_eq!(bytes.len(), encoded_bytes(&request.domain, &request.command));
        assert_eq!(&bytes[..11], b"\x01\x05sales\x02\x00\x00\x00");
        assert_eq!(DomainRequest::decode(partition, bytes.clone()), Some(request));
        for length in 0..FIXED_BYTES + 5 {
            assert_eq!(DomainRequest::decode(partition, bytes.slice(..length)), None);
        }
        let mut other = bytes.to_vec();
        other[0] = 2;
        assert_eq!(DomainRequest::decode(partition, other.into()), None);
    }
}
