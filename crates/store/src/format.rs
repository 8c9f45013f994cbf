//! The bytes of a store: pure encoders, and decoders that take anything. Drawn in `docs/format.md`.
//!
//! Invariants
//! - Every byte of every file is covered by a checksum that also covers the run's number and the place in the file,
//!   so that a block that went astray does not pass.
//! - Decoders never panic and allocate nothing that the input does not already hold.
//!
//! Must not know: files, caches, what rows mean.

pub(crate) use gapless_log::input::{Input, Malformed};

pub(crate) mod block;
pub(crate) mod checkpoint;
pub(crate) mod filter;
pub(crate) mod index;
pub(crate) mod run;

/// The version of the format that this program writes, and the only one it reads.
pub const FORMAT_VERSION: u32 = 1;

/// Bytes of a checksum behind what it covers.
pub(crate) const CHECKSUM_BYTES: usize = 4;

/// CRC32C over a run's number, a place in its file, and the bytes there.
pub(crate) fn checksum(run: u64, offset: u64, bytes: &[u8]) -> u32 {
    let start = crc32c::crc32c(&run.to_le_bytes());
    let placed = crc32c::crc32c_append(start, &offset.to_le_bytes());
    crc32c::crc32c_append(placed, bytes)
}

/// A length or count that fits its field because a limit says so.
pub(crate) fn field(value: usize) -> u32 {
    u32::try_from(value).expect("limits keep every length below 4 GiB")
}
