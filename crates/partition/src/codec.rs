//! Writing and reading the fixed layouts of this crate: little-endian integers, lengths in front of bytes.
//!
//! Reading takes any bytes and never panics; what does not fit is [`Malformed`].

use thiserror::Error;

/// Bytes that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("malformed {what} at byte {at}")]
pub struct Malformed {
    /// What was expected there.
    pub what: &'static str,
    /// Where in the bytes.
    pub at: usize,
}

/// Appends to a buffer.
pub(crate) trait Put {
    fn put_u8(&mut self, value: u8);
    fn put_u16(&mut self, value: u16);
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);
    /// At most 65 535 bytes, behind their length in two.
    fn put_short(&mut self, bytes: &[u8]);
    /// At most 4 GiB, behind their length in four.
    fn put_long(&mut self, bytes: &[u8]);
}

impl Put for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }

    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_short(&mut self, bytes: &[u8]) {
        self.put_u16(u16::try_from(bytes.len()).expect("short parts are checked before they are encoded"));
        self.extend_from_slice(bytes);
    }

    fn put_long(&mut self, bytes: &[u8]) {
        self.put_u32(u32::try_from(bytes.len()).expect("long parts are checked before they are encoded"));
        self.extend_from_slice(bytes);
    }
}

/// Reads from the start of bytes to their end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Take<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Take<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Where the next part starts.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn malformed(&self, what: &'static str) -> Malformed {
        Malformed { what, at: self.at }
    }

    pub(crate) fn bytes(&mut self, length: usize, what: &'static str) -> Result<&'a [u8], Malformed> {
        let end = self.at.checked_add(length).ok_or(self.malformed(what))?;
        let found = self.bytes.get(self.at..end).ok_or(self.malformed(what))?;
        self.at = end;
        Ok(found)
    }

    pub(crate) fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Malformed> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N, what)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8, Malformed> {
        self.array::<1>(what).map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self, what: &'static str) -> Result<u16, Malformed> {
        self.array(what).map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32, Malformed> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self, what: &'static str) -> Result<u64, Malformed> {
        self.array(what).map(u64::from_le_bytes)
    }

    pub(crate) fn short(&mut self, what: &'static str) -> Result<&'a [u8], Malformed> {
        let length = self.u16(what)?;
        self.bytes(usize::from(length), what)
    }

    pub(crate) fn long(&mut self, what: &'static str) -> Result<&'a [u8], Malformed> {
        let length = self.u32(what)?;
        let length = usize::try_from(length).map_err(|_| self.malformed(what))?;
        self.bytes(length, what)
    }

    pub(crate) fn text(&mut self, what: &'static str) -> Result<&'a str, Malformed> {
        let malformed = self.malformed(what);
        std::str::from_utf8(self.short(what)?).map_err(|_| malformed)
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        self.at = self.bytes.len();
        rest
    }

    /// Nothing may be left.
    pub(crate) fn end(self, what: &'static str) -> Result<(), Malformed> {
        if self.at == self.bytes.len() { Ok(()) } else { Err(self.malformed(what)) }
    }
}
