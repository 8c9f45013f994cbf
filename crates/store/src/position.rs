//! The words of the interface: offsets of the owner's log, buckets, spaces.
//!
//! Must not know: what an offset counts, what a bucket stands for.

use std::fmt;

/// Place in the owner's log up to which a state is valid. 0 is before the first place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(u64);

impl Offset {
    /// Before the first place: the state of an empty store.
    pub const ZERO: Self = Self(0);

    /// The place with this number.
    pub const fn new(offset: u64) -> Self {
        Self(offset)
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Says that the owner's log is on stable storage up to an offset (LOG-2).
///
/// Only whoever has just synced that log makes one, with what the sync covered. There is no other source: neither a
/// clone of an older one nor a default.
#[derive(Debug, PartialEq, Eq)]
pub struct Synced(Offset);

impl Synced {
    /// The log was synced, and the sync covered everything up to `offset`.
    pub fn by_a_sync_up_to(offset: Offset) -> Self {
        Self(offset)
    }

    /// Up to where.
    pub fn offset(&self) -> Offset {
        self.0
    }
}

/// Rows that are dropped together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketId(pub u64);

impl fmt::Display for BucketId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Where keys are unique: the main space, or one bucket. The main space comes first in every order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// All rows that are in no bucket.
    Main,
    /// The rows of a bucket.
    Bucket(BucketId),
}

/// Which end of a range comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Smallest key first.
    Forward,
    /// Largest key first.
    Backward,
}
