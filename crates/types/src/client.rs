//! Who writes, and which of its intended writes one is.
//!
//! Must not know: credentials, connections, how long a key is remembered.

use std::fmt;
use std::sync::Arc;

use crate::limits::MAX_CLIENT_ID_BYTES;

/// The name a client gives itself: 1 to 64 bytes of UTF-8. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(Arc<str>);

/// Why a text is not a client id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientIdError {
    /// It has no bytes.
    #[error("a client id has at least 1 byte")]
    Empty,
    /// It has too many bytes.
    #[error("a client id has at most {MAX_CLIENT_ID_BYTES} bytes, not {bytes}")]
    TooLong {
        /// How many it has.
        bytes: usize,
    },
}

impl ClientId {
    /// The client id with this text.
    pub fn new(text: &str) -> Result<Self, ClientIdError> {
        match text.len() {
            0 => Err(ClientIdError::Empty),
            1..=MAX_CLIENT_ID_BYTES => Ok(Self(text.into())),
            bytes => Err(ClientIdError::TooLong { bytes }),
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// 16 bytes a client chose for one intended write; a retry carries the same ones. Not all of them are 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey([u8; IdempotencyKey::BYTES]);

/// Why some bytes are not an idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdempotencyKeyError {
    /// There are not 16 of them.
    #[error("an idempotency key has {} bytes, not {bytes}", IdempotencyKey::BYTES)]
    Length {
        /// How many there are.
        bytes: usize,
    },
    /// All of them are 0: a field that was never filled in, not a choice.
    #[error("an idempotency key must not be all zeros")]
    Zero,
}

impl IdempotencyKey {
    /// Length of every key, in bytes.
    pub const BYTES: usize = 16;

    /// The key with these bytes.
    pub fn new(bytes: [u8; Self::BYTES]) -> Result<Self, IdempotencyKeyError> {
        if bytes == [0; Self::BYTES] { Err(IdempotencyKeyError::Zero) } else { Ok(Self(bytes)) }
    }

    /// The bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }
}

impl TryFrom<&[u8]> for IdempotencyKey {
    type Error = IdempotencyKeyError;

    fn try_from(bytes: &[u8]) -> Result<Self, Self::Error> {
        let bytes = bytes.try_into().map_err(|_| IdempotencyKeyError::Length { bytes: bytes.len() })?;
        Self::new(bytes)
    }
}

/// 32 hexadecimal digits.
impl fmt::Display for IdempotencyKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "IdempotencyKey({self})")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_client_id_has_1_to_64_bytes() {
        assert_eq!(ClientId::new(""), Err(ClientIdError::Empty));
        assert_eq!(ClientId::new("x").unwrap().as_str(), "x");
        assert_eq!(ClientId::new(&"x".repeat(64)).unwrap().as_str().len(), 64);
        assert_eq!(ClientId::new(&"x".repeat(65)), Err(ClientIdError::TooLong { bytes: 65 }));
    }

    #[test]
    fn a_client_id_is_measured_in_bytes_not_characters() {
        assert_eq!(ClientId::new(&"é".repeat(33)), Err(ClientIdError::TooLong { bytes: 66 }));
    }

    #[test]
    fn an_idempotency_key_of_zeros_is_refused_and_one_bit_makes_it_a_key() {
        assert_eq!(IdempotencyKey::new([0; 16]), Err(IdempotencyKeyError::Zero));
        let mut bytes = [0; 16];
        bytes[15] = 1;
        let key = IdempotencyKey::new(bytes).unwrap();
        assert_eq!(key.to_string(), "00000000000000000000000000000001");
    }

    #[test]
    fn an_idempotency_key_has_16_bytes() {
        for bytes in [0, 1, 15, 17, 1000] {
            assert_eq!(
                IdempotencyKey::try_from(&*vec![7; bytes]),
                Err(IdempotencyKeyError::Length { bytes })
            );
        }
    }

    proptest! {
        #[test]
        fn an_idempotency_key_gives_back_its_bytes(bytes in any::<[u8; 16]>()) {
            prop_assume!(bytes != [0; 16]);
            let key = IdempotencyKey::try_from(bytes.as_slice())?;
            prop_assert_eq!(key.as_bytes(), &bytes);
            prop_assert_eq!(u128::from_str_radix(&key.to_string(), 16)?, u128::from_be_bytes(bytes));
        }

        #[test]
        fn a_client_id_gives_back_its_text(text in ".{1,16}") {
            prop_assert_eq!(ClientId::new(&text)?.to_string(), text);
        }
    }
}
