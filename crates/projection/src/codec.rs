//! Writing the fixed layouts of this crate, and the parts of reading them that the log's decoder has not: little-endian
//! integers, lengths in front of bytes.
//!
//! Reading takes any bytes and never panics; what does not fit is [`Malformed`].

use bytes::BufMut;
use gapless_log::input::{Input, Malformed};

/// Appends bytes behind their length, which [`BufMut`] does not.
pub(crate) trait Put {
    /// At most 65 535 bytes, behind their length in two.
    fn put_short(&mut self, bytes: &[u8]);
    /// At most 4 GiB, behind their length in four.
    fn put_long(&mut self, bytes: &[u8]);
    /// A count in four bytes.
    fn put_count(&mut self, count: usize);
}

impl Put for Vec<u8> {
    fn put_short(&mut self, bytes: &[u8]) {
        let length =
            u16::try_from(bytes.len()).expect("names, ids and keys are checked before they are encoded");
        self.put_u16_le(length);
        self.extend_from_slice(bytes);
    }

    fn put_long(&mut self, bytes: &[u8]) {
        self.put_count(bytes.len());
        self.extend_from_slice(bytes);
    }

    fn put_count(&mut self, count: usize) {
        self.put_u32_le(u32::try_from(count).expect("what is counted is within the limits"));
    }
}

/// Takes what [`Put`] has put.
pub(crate) trait Take<'a> {
    fn short(&mut self) -> Result<&'a [u8], Malformed>;
    fn long(&mut self) -> Result<&'a [u8], Malformed>;
    /// A text of two length bytes, of at most so many.
    fn text(&mut self, limit: usize) -> Result<&'a str, Malformed>;
    /// A count of things that take at least so many bytes each: more than what is left can hold is no count.
    fn count(&mut self, least_bytes: usize) -> Result<usize, Malformed>;
    /// A byte that is 0 or 1.
    fn flag(&mut self) -> Result<bool, Malformed>;
}

impl<'a> Take<'a> for Input<'a> {
    fn short(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.u16()?;
        self.take(usize::from(length))
    }

    fn long(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.u32()?;
        self.take(usize::try_from(length).map_err(|_| Malformed("a length beyond memory"))?)
    }

    fn text(&mut self, limit: usize) -> Result<&'a str, Malformed> {
        let bytes = self.short()?;
        if bytes.len() > limit {
            return Err(Malformed("a text longer than its limit"));
        }
        std::str::from_utf8(bytes).map_err(|_| Malformed("a text that is not UTF-8"))
    }

    fn count(&mut self, least_bytes: usize) -> Result<usize, Malformed> {
        let count = usize::try_from(self.u32()?).map_err(|_| Malformed("a count beyond memory"))?;
        if count.saturating_mul(least_bytes) > self.rest().len() {
            return Err(Malformed("a count of more than there is"));
        }
        Ok(count)
    }

    fn flag(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("a flag that is neither 0 nor 1")),
        }
    }
}
