//! A user's batch on its way into a frame: checked against the limits, compressed where asked, encoded.

use std::borrow::Cow;

use bytes::Bytes;
use gapless_types::Position;
use gapless_types::limits::{MAX_RECORD_BYTES, MAX_RECORDS_PER_BATCH};

use crate::error::AppendError;
use crate::format::Salt;
use crate::format::record::{RawRecord, RecordType, Stored, record_bytes};
use crate::index::advance;
use crate::options::Options;

/// zstd's level: the fastest of those that compress well.
const COMPRESSION_LEVEL: i32 = 3;

/// Payloads within the limits, as they will be stored.
#[derive(Debug)]
pub(crate) struct Payloads<'a> {
    /// As stored, and the length as appended if that is another.
    stored: Vec<(Cow<'a, [u8]>, Option<u32>)>,
    plain_bytes: u64,
}

/// A batch as it stands in a frame.
#[derive(Debug)]
pub(crate) struct EncodedBatch {
    pub(crate) first: Position,
    pub(crate) count: u32,
    pub(crate) payload_bytes: u64,
    pub(crate) starts: Vec<u32>,
    pub(crate) body: Bytes,
}

impl<'a> Payloads<'a> {
    /// Refuses what is beyond a limit; compresses what is worth it.
    pub(crate) fn check<P: AsRef<[u8]>>(payloads: &'a [P], options: &Options) -> Result<Self, AppendError> {
        if payloads.is_empty() {
            return Err(AppendError::EmptyBatch);
        }
        if payloads.len() > MAX_RECORDS_PER_BATCH {
            return Err(AppendError::TooManyRecords { count: payloads.len(), limit: MAX_RECORDS_PER_BATCH });
        }
        let mut stored = Vec::with_capacity(payloads.len());
        let (mut plain_bytes, mut body_bytes) = (0, 0);
        for payload in payloads {
            let payload = payload.as_ref();
            let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
            if length > MAX_RECORD_BYTES {
                let limit = MAX_RECORD_BYTES as usize;
                return Err(AppendError::RecordTooLarge { bytes: payload.len(), limit });
            }
            plain_bytes += u64::from(length);
            let packed = options.compress_from.filter(|&from| length >= from).and_then(|_| compress(payload));
            let entry = match packed {
                Some(packed) => (Cow::Owned(packed), Some(length)),
                None => (Cow::Borrowed(payload), None),
            };
            body_bytes += record_bytes(entry.0.len());
            stored.push(entry);
        }
        let limit = options.max_frame_bytes as usize;
        if body_bytes > limit {
            return Err(AppendError::BatchTooLarge { bytes: body_bytes, limit });
        }
        Ok(Self { stored, plain_bytes })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.stored.len() as u64
    }

    /// Where each record will start in the body.
    pub(crate) fn starts(&self) -> Vec<u32> {
        let mut at = 0;
        let starts = self.stored.iter().map(|(bytes, _)| {
            let start = at;
            at += u32::try_from(record_bytes(bytes.len())).unwrap_or(u32::MAX);
            start
        });
        starts.collect()
    }

    /// The batch with its positions.
    pub(crate) fn encode(&self, salt: Salt, first: Position) -> EncodedBatch {
        let length = self.stored.iter().map(|(bytes, _)| record_bytes(bytes.len())).sum();
        let mut body = Vec::with_capacity(length);
        for (index, _) in self.stored.iter().enumerate() {
            self.raw(index, RecordType::Data, advance(first, index as u64)).encode(salt, &mut body);
        }
        EncodedBatch {
            first,
            count: u32::try_from(self.stored.len()).unwrap_or(u32::MAX),
            payload_bytes: self.plain_bytes,
            starts: self.starts(),
            body: body.into(),
        }
    }

    /// The first payload as a record that restores a position.
    pub(crate) fn encode_repair(&self, salt: Salt, position: Position) -> Bytes {
        let mut body = Vec::new();
        self.raw(0, RecordType::Repair, position).encode(salt, &mut body);
        body.into()
    }

    fn raw(&self, index: usize, kind: RecordType, position: Position) -> RawRecord<'_> {
        let (bytes, plain_length) = &self.stored[index];
        let payload = match plain_length {
            Some(length) => Stored::Compressed(bytes, *length),
            None => Stored::Plain(bytes),
        };
        RawRecord { kind, position, payload }
    }
}

/// The payload compressed, if that makes it smaller.
fn compress(payload: &[u8]) -> Option<Vec<u8>> {
    zstd::bulk::compress(payload, COMPRESSION_LEVEL).ok().filter(|packed| packed.len() < payload.len())
}
