//! Who may come in: the last place where a write is refused. After the commit nothing is.
//!
//! Counted per partition and for the node: operations and bytes that are admitted and not answered yet, the age of the oldest entry
//! that is not applied, the lag behind the log, how long the log is, and a signal of whoever runs the node. A refusal names where, which limit, its current
//! value and when to come back.
//!
//! ```text
//!  bytes of a pool (a partition's, the node's)
//!  |<---------------- large writes: at most three quarters ---------------->|<--- small ones alone --->|
//!  | large in use | claimed by large ones that were refused | free           |                          |
//! ```
//!
//! Fair between large and small: a part of every pool is for small writes alone, and a large one that was refused claims room, which
//! fills up as others leave, until it comes back or its claim ends. Fair between partitions: without a claim a partition may hold
//! as much as is free, so that n busy ones hold an nth each, nearly, and one more finds room (ISO-1). Fair between clients of a
//! partition in the same way: see `clients`.
//!
//! Invariants
//! - What is admitted is released exactly once, on every exit: a [`Permit`] does it when it is dropped.
//! - No pool is ever overdrawn.
//!
//! Must not know: what is written, what whoever writes is called or may do, retries that are known (they are answered before).

mod clients;
mod gate;
mod pool;

use std::fmt;
use std::time::Duration;

use gapless_types::{IdempotencyKey, PartitionId};
use thiserror::Error;

pub use self::gate::{Admission, LogLength, Permit};
use crate::limits::MAX_COMMAND_BYTES;

/// What may be admitted and not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Operations: writes.
    pub operations: u64,
    /// Bytes of writes.
    pub bytes: u64,
    /// Age of the oldest entry that is not applied.
    pub age: Duration,
    /// Entries between the end of the log and what is applied.
    pub lag: u64,
}

/// Every limit of admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionLimits {
    /// For each partition.
    pub partition: Budget,
    /// For all of them.
    pub node: Budget,
    /// A partition whose oldest entry is older than this is frozen: it is not busy, it is stuck.
    pub frozen_age: Duration,
    /// Nobody is told to come back sooner.
    pub min_retry: Duration,
    /// Nor later.
    pub max_retry: Duration,
}

impl Default for AdmissionLimits {
    fn default() -> Self {
        let partition =
            Budget { operations: 16_384, bytes: 32 << 20, age: Duration::from_secs(5), lag: 65_536 };
        let node =
            Budget { operations: 131_072, bytes: 256 << 20, age: Duration::from_secs(10), lag: 262_144 };
        Self {
            partition,
            node,
            frozen_age: Duration::from_secs(60),
            min_retry: Duration::from_millis(10),
            max_retry: Duration::from_secs(5),
        }
    }
}

/// Limits that contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LimitsError {
    /// The largest write would never be admitted.
    #[error("{bytes} bytes are too few: the largest write has to fit into half of them, that is {least}")]
    Bytes {
        /// Those given.
        bytes: u64,
        /// The least.
        least: u64,
    },
    /// Nothing would ever be admitted.
    #[error("at least 2 operations have to be admitted")]
    Operations,
    /// The order of these is wrong.
    #[error("the shortest delay is longer than the longest")]
    Retry,
}

impl AdmissionLimits {
    /// Whether everything that is allowed can be admitted at some time.
    ///
    /// # Errors
    /// If not.
    pub fn check(&self) -> Result<(), LimitsError> {
        let least = 2 * MAX_COMMAND_BYTES as u64;
        for budget in [self.partition, self.node] {
            if budget.bytes < least {
                return Err(LimitsError::Bytes { bytes: budget.bytes, least });
            }
            if budget.operations < 2 {
                return Err(LimitsError::Operations);
            }
        }
        if self.min_retry > self.max_retry { Err(LimitsError::Retry) } else { Ok(()) }
    }
}

/// Where a limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Everywhere on this node.
    Node,
    /// In one partition; others may have room.
    Partition(PartitionId),
}

impl fmt::Display for Scope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node => formatter.write_str("the node"),
            Self::Partition(partition) => write!(formatter, "partition {partition}"),
        }
    }
}

/// Which limit was reached. Values are in its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// Operations in use.
    Operations,
    /// Bytes in use, claims included.
    Bytes,
    /// Bytes in use by one partition, of what is its fair share now.
    Share,
    /// Operations or bytes in use by one client, of what is its fair part of the partition now.
    Client,
    /// Age of the oldest entry that is not applied, in milliseconds.
    Age,
    /// Entries behind the log.
    Lag,
    /// Bytes of the replicated log, which a node that is alone cannot cut: something in it is in no checkpoint yet.
    LogBytes,
    /// A signal with this name.
    Signal(&'static str),
}

/// Too much for now. The same key can be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{scope} is at its limit: {limit:?} {current} of {maximum}, retry after {retry_after:?}")]
pub struct Overloaded {
    /// Where.
    pub scope: Scope,
    /// Which limit.
    pub limit: Limit,
    /// What it would come to.
    pub current: u64,
    /// What it may come to.
    pub maximum: u64,
    /// When to come back.
    pub retry_after: Duration,
}

/// Why a write is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AdmissionError {
    /// Too much for now.
    #[error(transparent)]
    Overloaded(#[from] Overloaded),
    /// The partition does not move. It takes writes again when it does: somebody has to look after its disk first.
    #[error("partition {partition} is frozen")]
    Frozen {
        /// Which one.
        partition: PartitionId,
    },
    /// Larger than any write may be.
    #[error("a write of {bytes} bytes is larger than {MAX_COMMAND_BYTES}")]
    TooLarge {
        /// Its length.
        bytes: u64,
    },
}

/// A signal of whoever runs the node: a full disk, too many known keys.
pub trait Signal: Send + Sync + fmt::Debug {
    /// Whether writes to a partition have to stop. Asked for every write; must not wait.
    fn check(&self, partition: PartitionId) -> Result<(), Overloaded>;
}

/// How far something is behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// When the oldest entry that is not applied was dispatched (for the node: not dispatched, was proposed), by the monotonic clock;
    /// none if there is none.
    pub oldest: Option<Duration>,
    /// Entries between the end of the log and what is applied.
    pub lag: u64,
}

/// A write that asks to come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<C> {
    /// Where it goes.
    pub partition: PartitionId,
    /// How long its command is.
    pub bytes: u64,
    /// Tells it from others when it comes back.
    pub key: IdempotencyKey,
    /// Tells whoever asks from others who write to this partition.
    pub client: C,
}

#[cfg(test)]
mod tests;
