//! A snapshot as a stream of bytes, on its way and where it is kept until it is installed.
//!
//! ```text
//! header:  | length: u32 | "GAPLESSS" | CRC: u32 | version: u8 | reserved: 3 | cluster: 16 | group: u32 | reserved: 4 | standing |
//!          | length: u32 | what the receiver holds, as it said |
//! piece:   | length: u32, not 0 | CRC of its bytes: u32 | bytes |
//! end:     | 0: u32 | CRC of all pieces' CRCs: u32 | bytes in all: u64 |
//! ```
//!
//! The standing is that of `control.rs`: the last entry contained, the members, the highest node id. What the receiver holds and the
//! body in the pieces, which is without it, are the machine's. The header's length counts from the magic on. Its version, 2, is that
//! of all of it: in version 1 nobody said what he holds.

use bytes::Bytes;
use gapless_types::GroupId;

use super::control::{Standing, get_origin, put_origin};
use super::{Input, Malformed, seal, unseal};
use crate::identity::{ClusterId, Identity};
use crate::limits::MAX_HELD_BYTES;
use crate::message::Received;

const MAGIC: &[u8; 8] = b"GAPLESSS";
/// The version that this program sends, and the only one it takes in.
const VERSION: u8 = 2;

/// What a snapshot says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SnapshotHeader {
    pub(crate) cluster: ClusterId,
    pub(crate) group: GroupId,
    pub(crate) standing: Standing,
    /// What the receiver said that it holds.
    pub(crate) held: Bytes,
}

impl SnapshotHeader {
    pub(crate) fn new(identity: &Identity, standing: Standing) -> Self {
        Self { cluster: identity.cluster, group: identity.group, standing, held: Bytes::new() }
    }

    /// For a receiver that holds something already.
    pub(crate) fn behind(&self, held: &Bytes) -> Self {
        Self { held: held.clone(), ..self.clone() }
    }

    /// Whether a node may install it.
    pub(crate) fn fits(&self, identity: &Identity) -> bool {
        (self.cluster, self.group) == (identity.cluster, identity.group)
    }

    /// The header without its length.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION, 0, 0, 0];
        put_origin(&mut bytes, self.cluster, self.group);
        self.standing.put(&mut bytes);
        let length = u32::try_from(self.held.len()).expect("what is held is limited").to_le_bytes();
        bytes.extend_from_slice(&length);
        bytes.extend_from_slice(&self.held);
        seal(MAGIC, &bytes)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Input::new(unseal(MAGIC, bytes)?);
        if input.u8()? != VERSION {
            return Err(Malformed("its version is unknown"));
        }
        input.reserved(3)?;
        let (cluster, group) = get_origin(&mut input)?;
        let standing = Standing::get(&mut input)?;
        let length = input.u32()? as usize;
        if length > MAX_HELD_BYTES {
            return Err(Malformed("the receiver holds too much"));
        }
        let held = Bytes::copy_from_slice(input.take(length)?);
        input.end()?;
        match standing.last {
            Some(_) => Ok(Self { cluster, group, standing, held }),
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
