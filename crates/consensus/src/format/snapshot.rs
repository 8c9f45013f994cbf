//! A snapshot as a stream of bytes, on its way and where it is kept until it is installed.
//!
//! ```text
//! header:  | length: u32 | "GAPLESSS" | CRC: u32 | version: u8 | reserved: 3 | cluster: 16 | group: u32 | reserved: 4 | standing |
//! piece:   | length: u32, not 0 | CRC of its bytes: u32 | bytes |
//! end:     | 0: u32 | CRC of all pieces' CRCs: u32 | bytes in all: u64 |
//! ```
//!
//! The standing is that of `control.rs`: the last entry contained, the members, the highest node id. The body in the pieces is the
//! machine's. The header's length counts from the magic on.

use gapless_types::GroupId;

use super::control::{Standing, get_origin, put_origin};
use super::{FORMAT_VERSION, Input, Malformed, get_version, seal, unseal};
use crate::identity::{ClusterId, Identity};
use crate::message::Received;

const MAGIC: &[u8; 8] = b"GAPLESSS";

/// What a snapshot says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SnapshotHeader {
    pub(crate) cluster: ClusterId,
    pub(crate) group: GroupId,
    pub(crate) standing: Standing,
}

impl SnapshotHeader {
    pub(crate) fn new(identity: &Identity, standing: Standing) -> Self {
        Self { cluster: identity.cluster, group: identity.group, standing }
    }

    /// Whether a node may install it.
    pub(crate) fn fits(&self, identity: &Identity) -> bool {
        (self.cluster, self.group) == (identity.cluster, identity.group)
    }

    /// The header without its length.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![FORMAT_VERSION, 0, 0, 0];
        put_origin(&mut bytes, self.cluster, self.group);
        self.standing.put(&mut bytes);
        seal(MAGIC, &bytes)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Input::new(unseal(MAGIC, bytes)?);
        get_version(&mut input)?;
        input.reserved(3)?;
        let (cluster, group) = get_origin(&mut input)?;
        let standing = Standing::get(&mut input)?;
        input.end()?;
        match standing.last {
            Some(_) => Ok(Self { cluster, group, standing }),
            None => Err(Malformed("it contains no entry")),
        }
    }
}

/// The checksum over all pieces, piece by piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BodyChecksum {
    sum: u32,
    bytes: u64,
    pieces: u64,
}

/// What stands in front of a piece: its length and its checksum.
pub(crate) const PIECE_PREFIX_BYTES: usize = 8;
/// What stands behind the last piece.
pub(crate) const END_BYTES: usize = 16;

impl BodyChecksum {
    /// Takes in a piece; returns what stands in front of it.
    pub(crate) fn add(&mut self, piece: &[u8]) -> [u8; PIECE_PREFIX_BYTES] {
        let length = u32::try_from(piece.len()).expect("pieces are limited").to_le_bytes();
        let sum = crc32c::crc32c(piece).to_le_bytes();
        self.sum = crc32c::crc32c_append(self.sum, &sum);
        self.bytes += piece.len() as u64;
        self.pieces += 1;
        let mut prefix = [0; PIECE_PREFIX_BYTES];
        prefix[..4].copy_from_slice(&length);
        prefix[4..].copy_from_slice(&sum);
        prefix
    }

    /// What was taken in so far.
    pub(crate) fn received(self) -> Received {
        Received { pieces: self.pieces, bytes: self.bytes, sum: self.sum }
    }

    /// What stands behind the last piece.
    pub(crate) fn end(self) -> [u8; END_BYTES] {
        let mut end = [0; END_BYTES];
        end[4..8].copy_from_slice(&self.sum.to_le_bytes());
        end[8..].copy_from_slice(&self.bytes.to_le_bytes());
        end
    }
}
