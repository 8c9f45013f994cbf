//! The two ends of a run: a header that names the format, a trailer that says where everything is.
//!
//! ```text
//! 0        16                                                        length - 56  length
//! | header | block, checksum | ... | index, checksum | filter, checksum | trailer |
//! ```
//!
//! Must not know: files.

use super::{CHECKSUM_BYTES, FORMAT_VERSION, Input, Malformed, checksum};

const HEADER_MAGIC: &[u8; 8] = b"GAPLESSR";
const TRAILER_MAGIC: &[u8; 8] = b"GAPLESST";

/// Length of a header, and where the first block begins.
pub(crate) const HEADER_BYTES: usize = 16;
/// Length of a trailer.
pub(crate) const TRAILER_BYTES: usize = 56;

/// What a header is, if it is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// Of a format that we know.
    Known,
    /// Intact, and of another.
    Unknown(u32),
}

pub(crate) fn encode_header(run: u64) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(HEADER_MAGIC);
    header[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    let sum = checksum(run, 0, &header[..12]);
    header[12..].copy_from_slice(&sum.to_le_bytes());
    header
}

pub(crate) fn decode_header(run: u64, bytes: &[u8; HEADER_BYTES]) -> Result<Header, Malformed> {
    let mut input = Input::new(bytes);
    let magic = input.take(8)?;
    let (version, sum) = (input.u32()?, input.u32()?);
    if magic != HEADER_MAGIC || sum != checksum(run, 0, &bytes[..12]) {
        return Err(Malformed("the header does not match its checksum"));
    }
    Ok(if version == FORMAT_VERSION { Header::Known } else { Header::Unknown(version) })
}

/// Where the parts of a run are, and how much it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trailer {
    /// Where the blocks end and the index begins.
    pub(crate) index_offset: u64,
    /// Length of the index without its checksum.
    pub(crate) index_length: u64,
    /// Length of the filter, which follows the index, without its checksum.
    pub(crate) filter_length: u64,
    /// Rows, deletions included.
    pub(crate) rows: u64,
    /// Deletions among them.
    pub(crate) deletions: u64,
    /// CRC32C over the checksums of all blocks, of the index and of the filter: runs that differ anywhere have
    /// different trailers.
    pub(crate) contents: u32,
}

impl Trailer {
    pub(crate) fn filter_offset(&self) -> u64 {
        self.index_offset + self.index_length + CHECKSUM_BYTES as u64
    }

    /// Where the trailer itself begins.
    pub(crate) fn offset(&self) -> u64 {
        self.filter_offset() + self.filter_length + CHECKSUM_BYTES as u64
    }

    pub(crate) fn encode(&self, run: u64) -> [u8; TRAILER_BYTES] {
        let mut bytes = [0; TRAILER_BYTES];
        bytes[..8].copy_from_slice(TRAILER_MAGIC);
        bytes[8..16].copy_from_slice(&self.index_offset.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.index_length.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.filter_length.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.rows.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.deletions.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.contents.to_le_bytes());
        let sum = checksum(run, self.offset(), &bytes[..52]);
        bytes[52..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// `offset` is where the trailer was read.
    pub(crate) fn decode(run: u64, offset: u64, bytes: &[u8; TRAILER_BYTES]) -> Result<Self, Malformed> {
        let mut input = Input::new(bytes);
        let magic = input.take(8)?;
        let trailer = Self {
            index_offset: input.u64()?,
            index_length: input.u64()?,
            filter_length: input.u64()?,
            rows: input.u64()?,
            deletions: input.u64()?,
            contents: input.u32()?,
        };
        if magic != TRAILER_MAGIC || input.u32()? != checksum(run, offset, &bytes[..52]) {
            return Err(Malformed("the trailer does not match its checksum"));
        }
        // The first comparisons keep the sum in the last from overflowing.
        let parts = [trailer.index_offset, trailer.index_length, trailer.filter_length];
        if parts.iter().any(|part| *part > offset) || offset >= u64::MAX / 8 || trailer.offset() != offset {
            return Err(Malformed("the trailer belongs to a run of another length"));
        }
        Ok(trailer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trailer_survives_the_way_through_bytes() {
        let trailer = Trailer {
            index_offset: 1000,
            index_length: 70,
            filter_length: 64,
            rows: 9,
            deletions: 2,
            contents: 77,
        };
        let bytes = trailer.encode(7);
        assert_eq!(Trailer::decode(7, trailer.offset(), &bytes), Ok(trailer));
        assert!(Trailer::decode(8, trailer.offset(), &bytes).is_err(), "of another run");
        assert!(Trailer::decode(7, trailer.offset() + 1, &bytes).is_err(), "from another place");
    }

    #[test]
    fn a_newer_header_is_told_from_a_damaged_one() {
        let mut bytes = encode_header(3);
        assert_eq!(decode_header(3, &bytes), Ok(Header::Known));
        bytes[8] = 9;
        assert!(decode_header(3, &bytes).is_err());
        let sum = checksum(3, 0, &bytes[..12]);
        bytes[12..].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(decode_header(3, &bytes), Ok(Header::Unknown(9)));
    }
}
