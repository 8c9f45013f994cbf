//! Tokens that were not right, counted by where they came from: each costs a signature to be checked, and nobody has to be let in for
//! that. Whoever sends too many is refused before anything is checked. Tokens that are remembered are not checked, so that whoever is
//! known is served beside him, from the same address, too.
//!
//! Must not know: what is wrong with a token.

use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

use super::fairness;
use crate::rate::{Buckets, Pace};

/// Far more than mistakes come to, and far less than a processor can check.
pub(super) const PACE: Pace = Pace { burst: 1000, refill: Duration::from_millis(10) };

/// What came from where.
#[derive(Debug)]
pub(super) struct Failures(Buckets);

impl Default for Failures {
    fn default() -> Self {
        Self(Buckets::new(PACE))
    }
}

impl Failures {
    /// Whether so many came from there that nothing of it is looked at now.
    pub(super) fn are_too_many(&self, from: IpAddr) -> bool {
        !self.0.has_left(&fairness::stranger(from), Instant::now())
    }

    /// One more came. Where there are so many places that this one is not remembered, the others are.
    pub(super) fn note(&self, from: IpAddr) {
        self.0.take(fairness::stranger(from), Instant::now());
    }
}
