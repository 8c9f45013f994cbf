//! Operations and bytes of which there is only so much: what is in use, what is claimed, how fast it comes back.

use std::time::Duration;

use super::clients::{Free, Held};
use super::{Budget, Limit};
use crate::limits::SMALL_WRITE_BYTES;

/// How long a rate is measured before it counts.
const MEASURE: Duration = Duration::from_millis(100);

/// One operation of so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size(u64);

impl Size {
    pub(super) const fn of(bytes: u64) -> Self {
        Self(bytes)
    }

    pub(super) const fn bytes(self) -> u64 {
        self.0
    }

    pub(super) const fn is_small(self) -> bool {
        self.0 <= SMALL_WRITE_BYTES
    }

    /// Its bytes, if it is large.
    pub(super) const fn large(self) -> u64 {
        if self.is_small() { 0 } else { self.0 }
    }
}

#[derive(Debug)]
pub(super) struct Pool {
    most_operations: u64,
    most_bytes: u64,
    operations: u64,
    bytes: u64,
    /// Bytes in use by large writes.
    large: u64,
    /// Claims of large writes, and their bytes.
    claims: u64,
    claimed: u64,
    drain: Drain,
}

impl Pool {
    pub(super) fn new(budget: &Budget) -> Self {
        Self {
            most_operations: budget.operations,
            most_bytes: budget.bytes,
            operations: 0,
            bytes: 0,
            large: 0,
            claims: 0,
            claimed: 0,
            drain: Drain::default(),
        }
    }

    pub(super) fn in_use(&self) -> (u64, u64) {
        (self.operations, self.bytes)
    }

    /// The same, as if one client had it all.
    pub(super) fn held_in_all(&self) -> Held {
        Held { operations: self.operations, bytes: self.bytes, large: self.large }
    }

    pub(super) fn claimed(&self) -> u64 {
        self.claimed
    }

    pub(super) fn is_empty(&self) -> bool {
        self.operations == 0 && self.claims == 0
    }

    /// What nobody uses and nobody has claimed.
    pub(super) fn free(&self) -> Free {
        Free {
            operations: self.most_operations.saturating_sub(self.operations + self.claims),
            bytes: self.most_bytes.saturating_sub(self.bytes + self.held(self.claimed)),
            large: self.share_of_large().saturating_sub(self.large + self.claimed),
        }
    }

    /// What is missing for an operation, with what it would come to and what it may: nothing if there is room. Its own claim is its
    /// own.
    pub(super) fn lacks(&self, size: Size, own: Option<Size>) -> Option<(Limit, u64, u64)> {
        let claims = self.claims - u64::from(own.is_some());
        let claimed = self.claimed - own.map_or(0, Size::bytes);
        let operations = self.operations + claims + 1;
        if operations > self.most_operations {
            return Some((Limit::Operations, operations, self.most_operations));
        }
        let large = self.large + claimed + size.bytes();
        if !size.is_small() && large > self.share_of_large() {
            return Some((Limit::Bytes, large, self.share_of_large()));
        }
        let bytes = self.bytes + self.held(claimed) + size.bytes();
        (bytes > self.most_bytes).then_some((Limit::Bytes, bytes, self.most_bytes))
    }

    pub(super) fn take(&mut self, size: Size) {
        self.operations += 1;
        self.bytes += size.bytes();
        self.large += size.large();
        assert!(
            self.operations <= self.most_operations && self.bytes <= self.most_bytes,
            "no pool is overdrawn: {self:?}"
        );
    }

    pub(super) fn give_back(&mut self, size: Size, now: Duration) {
        self.operations -= 1;
        self.bytes -= size.bytes();
        self.large -= size.large();
        self.drain.count(size.bytes(), now);
    }

    pub(super) fn claim(&mut self, size: Size) {
        self.claims += 1;
        self.claimed += size.bytes();
    }

    pub(super) fn end_claim(&mut self, size: Size) {
        self.claims -= 1;
        self.claimed -= size.bytes();
    }

    /// About how long it takes until this much has come back, as far as that is known.
    pub(super) fn time_to_drain(&self, size: Size) -> Duration {
        self.drain.time_for(size.bytes())
    }

    /// What large writes may use of the bytes: the rest is for small ones alone.
    fn share_of_large(&self) -> u64 {
        self.most_bytes / 4 * 3
    }

    /// What claims keep from others: no more than large writes may use.
    fn held(&self, claimed: u64) -> u64 {
        claimed.min(self.share_of_large().saturating_sub(self.large))
    }
}

/// How many bytes come back in a second.
#[derive(Debug, Default)]
struct Drain {
    since: Duration,
    bytes: u64,
    per_second: u64,
}

impl Drain {
    fn count(&mut self, bytes: u64, now: Duration) {
        self.bytes = self.bytes.saturating_add(bytes);
        let elapsed = now.saturating_sub(self.since);
        if elapsed >= MEASURE {
            let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
            let rate = self.bytes.saturating_mul(1000) / millis;
            self.per_second = if self.per_second == 0 { rate } else { self.per_second.midpoint(rate) };
            (self.since, self.bytes) = (now, 0);
        }
    }

    fn time_for(&self, bytes: u64) -> Duration {
        match self.per_second {
            // Nothing is known yet: a middling guess.
            0 => MEASURE,
            rate => Duration::from_millis(bytes.saturating_mul(1000) / rate),
        }
    }
}
