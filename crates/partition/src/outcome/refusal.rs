//! Why a write was refused: the body of a refusal in the partition log.
//!
//! ```text
//!  0  1  code                        2+ key, 2+ message
//!  1  1  presence: bit 0 version,    current version (8) if present
//!        bit 1 value, bit 2 operation  4+ current value if present
//!  2  2  operation, counted from 0
//! ```

use bytes::Bytes;

use crate::codec::{Malformed, Put, Take};

const VERSION_KNOWN: u8 = 1;
const VALUE_KNOWN: u8 = 2;
const IN_OPERATION: u8 = 4;

/// Which rule the write broke. The numbers are part of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RefusalCode {
    /// The entity exists.
    KeyExists = 1,
    /// The entity does not exist.
    KeyNotFound = 2,
    /// The entity has another version.
    VersionMismatch = 3,
    /// The entity has another value.
    ValueMismatch = 4,
    /// The idempotency key was used for another request.
    IdempotencyKeyReused = 6,
    /// The workspace log does not end where the write expected.
    OffsetMismatch = 7,
    /// A record cannot be created or changed like this.
    InvalidRecord = 8,
    /// The workspace's kind has no such sequence, or it is at its end.
    UnknownSequence = 9,
    /// The namespace has no such kind, or the workspace another one.
    WrongKind = 10,
    /// The write should never have become part of the log.
    Malformed = 11,
}

/// Why a write was refused, with what the client needs to decide what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Which rule.
    pub code: RefusalCode,
    /// Which operation broke it, counted from 0; none if the write as a whole did.
    pub operation: Option<u16>,
    /// The key of the entity concerned; empty if none is.
    pub key: Bytes,
    /// The entity's current version, or the workspace's current offset.
    pub current_version: Option<u64>,
    /// The entity's current value.
    pub current_value: Option<Bytes>,
    /// For people.
    pub message: String,
}

impl Refusal {
    /// A refusal that concerns the write as a whole.
    pub fn new(code: RefusalCode, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, operation: None, key: Bytes::new(), current_version: None, current_value: None, message }
    }

    /// Appends the bytes of the refusal.
    pub(crate) fn encode(&self, into: &mut Vec<u8>) {
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        into.put_u8(self.code as u8);
        into.put_u8(
            bit(self.current_version.is_some(), VERSION_KNOWN)
                | bit(self.current_value.is_some(), VALUE_KNOWN)
                | bit(self.operation.is_some(), IN_OPERATION),
        );
        into.put_u16(self.operation.unwrap_or(0));
        into.put_short(&self.key);
        into.put_short(self.message.as_bytes());
        if let Some(version) = self.current_version {
            into.put_u64(version);
        }
        if let Some(value) = &self.current_value {
            into.put_long(value);
        }
    }

    /// Takes the bytes of a refusal apart: the body of its record.
    ///
    /// # Errors
    /// If they are none.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut take = Take::new(bytes);
        let malformed = take.malformed("refusal");
        let code = code(take.u8("refusal")?).ok_or(malformed)?;
        let presence = take.u8("refusal")?;
        if presence & !(VERSION_KNOWN | VALUE_KNOWN | IN_OPERATION) != 0 {
            return Err(malformed);
        }
        let operation = take.u16("refusal")?;
        if presence & IN_OPERATION == 0 && operation != 0 {
            return Err(malformed);
        }
        let refusal = Self {
            code,
            operation: (presence & IN_OPERATION != 0).then_some(operation),
            key: Bytes::copy_from_slice(take.short("key")?),
            message: take.text("message")?.to_owned(),
            current_version: match presence & VERSION_KNOWN {
                0 => None,
                _ => Some(take.u64("version")?),
            },
            current_value: match presence & VALUE_KNOWN {
                0 => None,
                _ => Some(Bytes::copy_from_slice(take.long("value")?)),
            },
        };
        take.end("end")?;
        Ok(refusal)
    }
}

fn code(code: u8) -> Option<RefusalCode> {
    use RefusalCode::{
        IdempotencyKeyReused, InvalidRecord, KeyExists, KeyNotFound, Malformed, OffsetMismatch,
        UnknownSequence, ValueMismatch, VersionMismatch, WrongKind,
    };
    [
        KeyExists,
        KeyNotFound,
        VersionMismatch,
        ValueMismatch,
        IdempotencyKeyReused,
        OffsetMismatch,
        InvalidRecord,
        UnknownSequence,
        WrongKind,
        Malformed,
    ]
    .into_iter()
    .find(|&known| known as u8 == code)
}
