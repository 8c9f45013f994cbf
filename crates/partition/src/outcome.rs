//! What became of a record: exactly one of these for each record that is dispatched to a partition, and one record of the
//! partition log for each of these.

mod header;
mod refusal;

pub use header::{Header, OutcomeKind};
pub use refusal::{Refusal, RefusalCode};

use std::fmt;

use gapless_types::{
    ClientSequence, LogIndex, Name, PartitionId, PartitionOffset, RecordId, WorkspaceOffset,
};
use sha2::{Digest, Sha256};

/// What became of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is an event now, with these numbers.
    Committed(Committed),
    /// It was refused. That is as durable as a success, and consumed nothing.
    Refused(Refusal),
    /// It had been decided before: nothing was done, and this is the first outcome.
    Duplicate {
        /// Where that stands in the partition log.
        first_offset: PartitionOffset,
        /// The outcome itself, as it was given then.
        first: Box<Outcome>,
    },
    /// The namespace is defined like this from now on.
    Defined,
    /// The definition was refused, for these reasons.
    DefinitionRefused(Vec<String>),
}

/// Everything a write was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Names the transaction on every replica and for every retry.
    pub transaction: TransactionId,
    /// Where its command stands in the replicated log.
    pub log_index: LogIndex,
    /// The partition.
    pub partition: PartitionId,
    /// Its place there.
    pub partition_offset: PartitionOffset,
    /// Its place in its workspace.
    pub workspace_offset: WorkspaceOffset,
    /// Its place among those of its client.
    pub client_sequence: ClientSequence,
    /// Ids of the records it created under raw ids, in the order of its operations.
    pub record_ids: Vec<(u16, RecordId)>,
    /// Numbers it took, in the order of its operations.
    pub numbers: Vec<(Name, u64)>,
    /// Log time in milliseconds.
    pub committed_at: u64,
}

/// Names a transaction: derived from what was committed, so that every retry and every replica gives the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TransactionId([u8; 16]);

impl TransactionId {
    /// The name of the outcome at this place of this request.
    pub(crate) fn new(
        partition: PartitionId,
        offset: PartitionOffset,
        log_index: LogIndex,
        digest: &RequestDigest,
    ) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"gapless transaction 1\0");
        hash.update(partition.namespace.get().to_le_bytes());
        hash.update(partition.index.get().to_le_bytes());
        hash.update(offset.get().to_le_bytes());
        hash.update(log_index.get().to_le_bytes());
        hash.update(digest.0);
        Self(first_half(&hash.finalize()))
    }

    /// Its bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// Fingerprint of a request without its idempotency key: 128 bits over its canonical bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestDigest([u8; 16]);

impl RequestDigest {
    /// The digest of a write or a definition, given as its canonical bytes.
    #[must_use]
    pub fn of(canonical: &[u8]) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"gapless request 1\0");
        hash.update(canonical);
        Self(first_half(&hash.finalize()))
    }

    /// The digest with these bytes.
    pub(crate) const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

fn first_half(hash: &[u8]) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(&hash[..16]);
    half
}

/// Written as one text: every write is answered with one.
fn hexadecimal(bytes: &[u8; 16], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 32];
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    f.write_str(str::from_utf8(&text).expect("digits are text"))
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hexadecimal(&self.0, f)
    }
}

impl fmt::Debug for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hexadecimal(&self.0, f)
    }
}

impl fmt::Debug for RequestDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hexadecimal(&self.0, f)
    }
}
