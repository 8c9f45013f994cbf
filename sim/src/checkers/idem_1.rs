//! IDEM-1: within its window a key executes at most once. A fold over the outcomes of a partition.
//!
//! Must not know: who retried.

use std::collections::BTreeMap;

use gapless_partition::{Header, OutcomeKind};
use gapless_types::{IdempotencyKey, PartitionId, WorkspaceId};

type Identity = (PartitionId, WorkspaceId, String, IdempotencyKey);

/// Keys that were used, and when last.
#[derive(Debug, Default)]
pub(crate) struct Idem1 {
    used: BTreeMap<Identity, (u64, u64)>,
}

/// What a key turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Used {
    First,
    /// Used again after it was forgotten.
    Anew,
    /// Recognized.
    Duplicate,
}

impl Idem1 {
    /// Takes in the next outcome of a partition whose namespace knows keys for `window` milliseconds.
    pub(crate) fn fold(
        &mut self,
        partition: PartitionId,
        window: u64,
        header: &Header<'_>,
    ) -> Result<Used, String> {
        let Some(key) = header.key else { return Ok(Used::Duplicate) };
        if !matches!(header.kind, OutcomeKind::Event | OutcomeKind::Refusal) {
            return Ok(Used::Duplicate);
        }
        let identity = (partition, header.workspace, header.client.to_owned(), key);
        let now = (header.time, header.partition_offset.get());
        match self.used.insert(identity, now) {
            None => Ok(Used::First),
            Some((before, _)) if header.time - before >= window => Ok(Used::Anew),
            Some((before, first)) => Err(format!(
                "partition {partition}: key {key} of {} executed at outcome {first} and again at {}, {} ms later",
                header.client,
                now.1,
                header.time - before
            )),
        }
    }
}
