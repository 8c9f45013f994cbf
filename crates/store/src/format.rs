//! The bytes of a store: pure encoders, and decoders that take anything. Drawn in `docs/format.md`.
//!
//! Invariants
//! - Every byte of every file is covered by a checksum that also covers the run's number and the place in the file,
//!   so that a block that went astray does not pass.
//! - Decoders never panic and allocate nothing that the input does not already hold.
//!
//! Must not know: files, caches, what rows mean.

pub(crate) mod block;
pub(crate) mod checkpoint;
pub(crate) mod filter;
pub(crate) mod index;
pub(crate) mod run;

/// The version of the format that this program writes, and the only one it reads.
pub const FORMAT_VERSION: u32 = 1;

/// Bytes of a checksum behind what it covers.
pub(crate) const CHECKSUM_BYTES: usize = 4;

/// Why bytes mean nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// CRC32C over a run's number, a place in its file, and the bytes there.
pub(crate) fn checksum(run: u64, offset: u64, bytes: &[u8]) -> u32 {
    let start = crc32c::crc32c(&run.to_le_bytes());
    let placed = crc32c::crc32c_append(start, &offset.to_le_bytes());
    crc32c::crc32c_append(placed, bytes)
}

/// Bytes that are taken from the front, piece by piece.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn remaining(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn finish(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed("there are bytes behind its end")) }
    }
}

/// A length or count that fits its field because a limit says so.
pub(crate) fn field(value: usize) -> u32 {
    u32::try_from(value).expect("limits keep every length below 4 GiB")
}
