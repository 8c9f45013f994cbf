//! A record as a reader gets it.

use bytes::Bytes;
use gapless_types::Position;

use crate::format::Salt;
use crate::format::record::{RawRecord, RecordType, Stored, unpack};

/// A record and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its place in the log.
    pub position: Position,
    /// The bytes that were appended.
    pub payload: Bytes,
}

impl Record {
    /// The data or repair record of `position` at `at`, if it is there and its checksum matches.
    pub(crate) fn decode(salt: Salt, bytes: &Bytes, at: usize, position: Position) -> Option<Self> {
        let (raw, _) = RawRecord::decode(salt, bytes.get(at..)?).ok()?;
        let expected = matches!(raw.kind, RecordType::Data | RecordType::Repair) && raw.position == position;
        expected.then(|| Self::from_raw(bytes, &raw)).flatten()
    }

    /// The record with its payload as it was appended; shares the memory of `bytes`, which must hold `raw`.
    pub(crate) fn from_raw(bytes: &Bytes, raw: &RawRecord<'_>) -> Option<Self> {
        let payload = match raw.payload {
            Stored::Plain([]) => Bytes::new(),
            Stored::Plain(stored) => bytes.slice_ref(stored),
            Stored::Compressed(stored, length) => Bytes::from(unpack(stored, length)?),
        };
        Some(Self { position: raw.position, payload })
    }
}
