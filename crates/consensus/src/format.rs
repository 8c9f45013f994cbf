//! The bytes on disk, version 1: entries, small state, the control file, snapshots. Drawn in `docs/format.md`.
//!
//! Every decoder takes any bytes and never panics; golden bytes pin every encoder. Numbers are little-endian.
//!
//! Must not know: files, the consensus library.

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

/// Bytes that are not of this version's form, and in what way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// Bytes that are taken from the front. Whatever is missing is malformed, not a panic.
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

    fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], Malformed> {
        let taken = self.take(LENGTH)?;
        Ok(taken.try_into().expect("as many bytes as were asked for"))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
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

    pub(crate) fn bytes16(&mut self) -> Result<[u8; 16], Malformed> {
        self.array()
    }

    pub(crate) fn entry_id(&mut self) -> Result<EntryId, Malformed> {
        Ok(EntryId { term: Term::new(self.u64()?), index: LogIndex::new(self.u64()?) })
    }

    /// Bytes that are zero in this version.
    pub(crate) fn reserved(&mut self, count: usize) -> Result<(), Malformed> {
        match self.take(count)?.iter().all(|&byte| byte == 0) {
            true => Ok(()),
            false => Err(Malformed("reserved bytes are not zero")),
        }
    }

    /// Nothing may be left.
    pub(crate) fn end(self) -> Result<(), Malformed> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(Malformed("it goes on behind its end")),
        }
    }

    pub(crate) fn version(&mut self) -> Result<(), Malformed> {
        match self.u8()? {
            FORMAT_VERSION => Ok(()),
            _ => Err(Malformed("its version is unknown")),
        }
    }
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
    match sum == crc32c::crc32c_append(crc32c::crc32c(magic), input.0) {
        true => Ok(input.0),
        false => Err(Malformed("it does not match its checksum")),
    }
}
