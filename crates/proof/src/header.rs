//! The block header: what a client keeps of an event, to hold it against any later proof.
//!
//! ```text
//!  0  1  version, 1                        41 32  root of the tree that ends with this leaf
//!  1  8  height                            73  8  log time, milliseconds
//!  9 32  leaf hash                         81  8  log index
//! ```
//!
//! There is one encoding of a header and no other length. The root covers the leaf; height, time and log index are
//! covered as far as the caller puts them into the bytes of the leaf.
//!
//! Must not know: whose event it is.

use thiserror::Error;

use crate::hash::Hash;
use crate::number::{Head, Height};

/// Length of an encoded header.
pub const HEADER_BYTES: usize = 89;

const VERSION: u8 = 1;

/// One event as a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockHeader {
    /// Offset of the event in its workspace; the tree has this many leaves.
    pub height: Height,
    /// Hash of the event's canonical bytes, numbers included.
    pub leaf: Hash,
    /// Root of the tree that ends with this leaf.
    pub root: Hash,
    /// Log time in milliseconds.
    pub time: u64,
    /// Where the write stands in the replicated log.
    pub log_index: u64,
}

/// Why some bytes are not a block header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// There are too many or too few.
    #[error("a block header has {HEADER_BYTES} bytes, not {bytes}")]
    Length {
        /// How many there are.
        bytes: usize,
    },
    /// They are of a version that is not known here.
    #[error("a block header of version {version} is not known, only {VERSION}")]
    Version {
        /// The version they name.
        version: u8,
    },
    /// The height is 0.
    #[error("the first block has height 1, not 0")]
    HeightZero,
}

impl BlockHeader {
    /// Size and root of the tree that ends with this block.
    #[must_use]
    pub const fn head(&self) -> Head {
        Head { size: self.height.size(), root: self.root }
    }

    /// The canonical bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = VERSION;
        bytes[1..9].copy_from_slice(&self.height.get().to_le_bytes());
        bytes[9..41].copy_from_slice(self.leaf.as_bytes());
        bytes[41..73].copy_from_slice(self.root.as_bytes());
        bytes[73..81].copy_from_slice(&self.time.to_le_bytes());
        bytes[81..89].copy_from_slice(&self.log_index.to_le_bytes());
        bytes
    }

    /// The header with these bytes.
    ///
    /// # Errors
    /// If they are not the canonical bytes of one.
    pub fn decode(bytes: &[u8]) -> Result<Self, HeaderError> {
        let Some((&[version], rest)) = bytes.split_first_chunk() else {
            return Err(HeaderError::Length { bytes: 0 });
        };
        if version != VERSION {
            return Err(HeaderError::Version { version });
        }
        Self::decode_first_version(rest).ok_or(HeaderError::Length { bytes: bytes.len() })?
    }

    /// None if the length is wrong.
    fn decode_first_version(bytes: &[u8]) -> Option<Result<Self, HeaderError>> {
        let (height, bytes) = bytes.split_first_chunk()?;
        let (leaf, bytes) = bytes.split_first_chunk()?;
        let (root, bytes) = bytes.split_first_chunk()?;
        let (time, bytes) = bytes.split_first_chunk()?;
        let log_index = bytes.try_into().ok()?;
        let Some(height) = Height::new(u64::from_le_bytes(*height)) else {
            return Some(Err(HeaderError::HeightZero));
        };
        Some(Ok(Self {
            height,
            leaf: Hash::from_bytes(*leaf),
            root: Hash::from_bytes(*root),
            time: u64::from_le_bytes(*time),
            log_index: u64::from_le_bytes(log_index),
        }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header() -> BlockHeader {
        BlockHeader {
            height: Height::new(0x0102_0304_0506_0708).unwrap(),
            leaf: Hash::from_bytes([0xaa; 32]),
            root: Hash::from_bytes([0xbb; 32]),
            time: 0x1112_1314_1516_1718,
            log_index: 0x2122_2324_2526_2728,
        }
    }

    #[test]
    fn the_bytes_of_version_1_are_these() {
        let expected = [
            [1].as_slice(),
            &[8, 7, 6, 5, 4, 3, 2, 1],
            &[0xaa; 32],
            &[0xbb; 32],
            &[0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11],
            &[0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21],
        ]
        .concat();
        assert_eq!(header().encode().as_slice(), expected);
        assert_eq!(BlockHeader::decode(&expected), Ok(header()));
    }

    #[test]
    fn no_other_length_version_or_height_is_a_header() {
        let bytes = header().encode();
        for length in 0..HEADER_BYTES {
            assert_eq!(BlockHeader::decode(&bytes[..length]), Err(HeaderError::Length { bytes: length }));
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert_eq!(BlockHeader::decode(&longer), Err(HeaderError::Length { bytes: HEADER_BYTES + 1 }));
        for version in (0..=255).filter(|&version| version != VERSION) {
            let mut other = bytes;
            other[0] = version;
            assert_eq!(BlockHeader::decode(&other), Err(HeaderError::Version { version }));
        }
        let mut zero = bytes;
        zero[1..9].fill(0);
        assert_eq!(BlockHeader::decode(&zero), Err(HeaderError::HeightZero));
    }

    proptest! {
        #[test]
        fn what_decodes_is_canonical(bytes in proptest::collection::vec(any::<u8>(), 0..100), version in any::<bool>()) {
            let mut bytes = bytes;
            if version && let Some(first) = bytes.first_mut() {
                *first = VERSION;
            }
            if let Ok(header) = BlockHeader::decode(&bytes) {
                prop_assert_eq!(header.encode().to_vec(), bytes);
            }
        }

        #[test]
        fn any_header_comes_back(bytes in proptest::collection::vec(any::<u8>(), HEADER_BYTES)) {
            let mut bytes = bytes;
            bytes[0] = VERSION;
            prop_assume!(bytes[1..9] != [0; 8]);
            prop_assert_eq!(BlockHeader::decode(&bytes)?.encode().to_vec(), bytes);
        }
    }
}
