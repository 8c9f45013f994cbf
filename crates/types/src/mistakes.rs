//! The classic mistakes of a ledger, to be switched on by a simulation that shows that each is found. In any other build none can be
//! made: without the feature `faults`, asking costs nothing and the answer is no.
//!
//! What is switched on counts for one thread, because a simulation runs on one, and others beside it.
//!
//! Must not know: who makes a mistake, and where.

/// A mistake that the program can be told to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// A write is acknowledged before the log is synced.
    AcknowledgeBeforeSync,
    /// A sync that failed is tried again, and believed.
    RetryFailedSync,
    /// Only what the leader recalls keeps a key from executing twice.
    IdempotencyInCacheOnly,
    /// A client's counter goes with its keys.
    CounterEvictedWithKey,
    /// The replicated log is rolled back to where the partitions are.
    RollBackToLaggingPartition,
    /// What is dispatched counts as covered, whether or not a slow partition has a checkpoint of it.
    CutBelowSlowPartition,
    /// A leader answers a linearizable read without asking anybody whether it still leads.
    ReadWithoutQuorum,
    /// A vote is not written down.
    ForgottenVote,
    /// A node that lost the end of its log votes at once.
    VoteWithLostTail,
    /// A partition takes the time of its own machine.
    OwnClockAtApply,
    /// A checkpoint is made before the partition log is synced.
    CheckpointBeforeSync,
    /// A commit counts with a token that has run out and was replaced by a newer one.
    ExpiredTokenCommits,
}

impl Mistake {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::AcknowledgeBeforeSync,
        Self::RetryFailedSync,
        Self::IdempotencyInCacheOnly,
        Self::CounterEvictedWithKey,
        Self::RollBackToLaggingPartition,
        Self::CutBelowSlowPartition,
        Self::ReadWithoutQuorum,
        Self::ForgottenVote,
        Self::VoteWithLostTail,
        Self::OwnClockAtApply,
        Self::CheckpointBeforeSync,
        Self::ExpiredTokenCommits,
    ];
}

#[cfg(feature = "faults")]
mod switch {
    use std::cell::Cell;

    use super::Mistake;

    thread_local! {
        static MADE: Cell<Option<Mistake>> = const { Cell::new(None) };
    }

    /// Lets this thread make a mistake from now on, or none.
    pub fn make(mistake: Option<Mistake>) {
        MADE.set(mistake);
    }

    /// Whether this thread is to make a mistake.
    #[must_use]
    pub fn makes(mistake: Mistake) -> bool {
        MADE.get() == Some(mistake)
    }
}

#[cfg(feature = "faults")]
pub use switch::{make, makes};

/// Whether a mistake is to be made: never, in this build.
#[cfg(not(feature = "faults"))]
#[inline]
#[must_use]
pub const fn makes(_: Mistake) -> bool {
    false
}
