//! What happened in a domain so far, counted in the log's order: the same on every replica.
//!
//! Invariants
//! - Every grant has one end: granted = committed + expired + released + failed + conflicted + voided + active + waiting.
//!
//! Must not know: how anything is shown or exported.

use bytes::BufMut;
use gapless_log::input::{Input, Malformed};

macro_rules! counters {
    ($($(#[$documentation:meta])* $name:ident,)*) => {
        /// Counts since the domain began.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$documentation])* pub $name: u64,)*
        }

        impl Counters {
            /// Every counter with its name.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }

            pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
                $(bytes.put_u64_le(self.$name);)*
            }

            pub(crate) fn decode(input: &mut Input<'_>) -> Result<Self, Malformed> {
                Ok(Self { $($name: input.u64()?,)* })
            }
        }
    };
}

counters! {
    /// Leases granted, allocations included.
    granted,
    /// Slots whose effect was applied.
    committed,
    /// Leases that ran out.
    expired,
    /// Leases given back.
    released,
    /// Leases that ended with an error, of the worker or of the evaluation.
    failed,
    /// Commits sent back because a row they had read was changed.
    conflicted,
    /// Leases and staged commits whose slot was filled by somebody else.
    voided,
    /// Requests refused because of an old token.
    fenced,
    /// Slots filled.
    filled,
    /// Claimed slots filled.
    dead_letters,
    /// Leased now.
    active,
    /// Staged now.
    waiting,
    /// Allocations refused because the window was full.
    window_refusals,
    /// Slots whose matches were corrected when they were drained.
    corrections,
    /// Milliseconds that committed slots were staged.
    wait_ms,
    /// Milliseconds that ended leases were held.
    held_ms,
    /// Milliseconds that leases were granted for.
    granted_ms,
    /// Leases that expired together, the last time any did.
    expired_at_once,
}

impl Counters {
    /// Whether every grant has one end.
    pub fn is_balanced(&self) -> bool {
        let ends =
            self.committed + self.expired + self.released + self.failed + self.conflicted + self.voided;
        self.granted == ends + self.active + self.waiting
    }

    /// Committed of what was committed or expired; 1 before anything was.
    pub fn efficiency(&self) -> f64 {
        share(self.committed, self.committed + self.expired).unwrap_or(1.0)
    }

    /// How long committed slots were staged on average, in milliseconds.
    pub fn mean_wait_ms(&self) -> f64 {
        share(self.wait_ms, self.committed).unwrap_or(0.0)
    }

    /// How much of the granted time leases were held.
    pub fn utilization(&self) -> f64 {
        share(self.held_ms, self.granted_ms).unwrap_or(0.0)
    }
}

/// A quotient for people; nothing replicated depends on it.
#[expect(clippy::cast_precision_loss, reason = "a share for people needs no more than 52 bits")]
pub(crate) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
