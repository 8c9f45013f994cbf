//! Bytes taken from the front, field by field: what the decoders of files above the log are made of.
//!
//! Numbers are little-endian. Whatever is missing is malformed, never a panic, and nothing is allocated.
//!
//! Must not know: which fields there are, what they mean.

/// Bytes that are not of the expected form, and in what way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// What is left of some bytes.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// All of them.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next so many bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(TOO_SHORT)?;
        self.0 = rest;
        Ok(taken)
    }

    /// The next bytes, as many as the caller has room for.
    pub fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(TOO_SHORT)?;
        self.0 = rest;
        Ok(*taken)
    }

    /// The next byte.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_le_bytes)
    }

    /// A number of two bytes.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    /// A number of four bytes.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    /// A number of eight bytes.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    /// So many bytes that have to be zero.
    pub fn reserved(&mut self, count: usize) -> Result<(), Malformed> {
        match self.take(count)?.iter().all(|&byte| byte == 0) {
            true => Ok(()),
            false => Err(Malformed("reserved bytes are not zero")),
        }
    }

    /// What was not taken.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Nothing may be left.
    pub fn end(self) -> Result<(), Malformed> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(Malformed("it goes on behind its end")),
        }
    }
}

const TOO_SHORT: Malformed = Malformed("it ends too early");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_taken_in_order_and_what_fails_takes_nothing() {
        let mut input = Input::new(&[1, 2, 0, 3, 0, 0, 0, 0, 0, 9, 8]);
        assert_eq!((input.u8(), input.u16(), input.u32()), (Ok(1), Ok(2), Ok(3)));
        assert_eq!(input.u64(), Err(TOO_SHORT));
        assert_eq!(input.take(5), Err(TOO_SHORT));
        assert_eq!(input.reserved(2), Ok(()));
        assert_eq!(input.end(), Err(Malformed("it goes on behind its end")));
        assert_eq!(input.rest(), [9, 8]);
        assert!(input.reserved(1).is_err());
        assert_eq!(input.array(), Ok([8]));
        assert_eq!(input.end(), Ok(()));
    }
}
