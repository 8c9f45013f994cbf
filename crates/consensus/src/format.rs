//! The bytes on disk, version 1: entries, small state, the control file, snapshots. Drawn in `docs/format.md`.
//!
//! Every decoder takes any bytes and never panics; golden bytes pin every encoder. Numbers are little-endian.
//!
//! Must not know: files, the consensus library.

pub(crate) use gapless_log::input::{Input, Malformed};
use gapless_types::LogIndex;

use crate::identity::Term;
use crate::message::EntryId;

pub(crate) mod control;
pub(crate) mod entry;
#[cfg(test)]
mod golden;
pub(crate) mod members;
pub(crate) mod snapshot;
pub(crate) mod state;

/// The version that this program writes, and the only one it reads.
pub(crate) const FORMAT_VERSION: u8 = 1;

/// The version of what follows, which has to be this one.
pub(crate) fn get_version(input: &mut Input<'_>) -> Result<(), Malformed> {
    match input.u8()? {
        FORMAT_VERSION => Ok(()),
        _ => Err(Malformed("its version is unknown")),
    }
}

pub(crate) fn get_entry_id(input: &mut Input<'_>) -> Result<EntryId, Malformed> {
    Ok(EntryId { term: Term::new(input.u64()?), index: LogIndex::new(input.u64()?) })
}

pub(crate) fn put_entry_id(bytes: &mut Vec<u8>, id: EntryId) {
    bytes.extend_from_slice(&id.term.get().to_le_bytes());
    bytes.extend_from_slice(&id.index.get().to_le_bytes());
}

/// A count in the width in which it is stored; limits keep every count within it.
pub(crate) fn count16(count: usize) -> [u8; 2] {
    u16::try_from(count).expect("limits keep counts and addresses within 16 bits").to_le_bytes()
}

/// Puts the checksum of everything behind it at the front of what it covers.
pub(crate) fn seal(magic: &[u8; 8], content: &[u8]) -> Vec<u8> {
    let mut bytes = magic.to_vec();
    bytes.extend_from_slice(&crc32c::crc32c_append(crc32c::crc32c(magic), content).to_le_bytes());
    bytes.extend_from_slice(content);
    bytes
}

/// What [`seal`] covered, if its checksum matches.
pub(crate) fn unseal<'a>(magic: &[u8; 8], bytes: &'a [u8]) -> Result<&'a [u8], Malformed> {
    let mut input = Input::new(bytes);
    if input.take(8)? != magic {
        return Err(Malformed("it does not begin as such a file does"));
    }
    let sum = input.u32()?;
    match sum == crc32c::crc32c_append(crc32c::crc32c(magic), input.rest()) {
        true => Ok(input.rest()),
        false => Err(Malformed("it does not match its checksum")),
    }
}
