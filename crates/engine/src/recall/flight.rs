//! A key in flight: who owns it, who waits for it, and what they are told.

use std::future::poll_fn;
use std::sync::Arc;

use gapless_partition::{Outcome, RequestDigest};

use super::fate::{Arrivals, Awaited, Fate};
use super::{Decision, Recall, WriteIdentity};
use crate::log_time::LogTime;

/// What somebody who waited is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// His request got this outcome.
    Outcome(Arc<Outcome>),
    /// The key was used for another request.
    Reused,
    /// The one he waited for came to nothing, so the key is free: look it up again.
    Again,
    /// Another node leads, and knows.
    NotLeading,
}

/// The right to propose a key that nobody else has in flight. Dropped, it gives the key back.
#[derive(Debug)]
#[must_use = "dropped, it gives the key back"]
pub struct Flight {
    recall: Recall,
    identity: WriteIdentity,
    flight: u64,
    waiter: Waiter,
    proposed: bool,
}

impl Flight {
    pub(super) fn new(recall: Recall, identity: WriteIdentity, flight: u64, waiter: Waiter) -> Self {
        Self { recall, identity, flight, waiter, proposed: false }
    }

    /// Waits for the outcome like everybody else.
    #[must_use]
    pub fn waiter(&self) -> Waiter {
        self.waiter.clone()
    }

    /// It is about to be proposed. To be called before it is: from then on it may be committed, whatever becomes of who asked for
    /// it.
    pub fn proposed(mut self) -> Proposed {
        self.proposed = true;
        Proposed {
            recall: self.recall.clone(),
            identity: self.identity.clone(),
            flight: self.flight,
            digest: self.waiter.digest,
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if !self.proposed {
            self.recall.end(&self.identity, self.flight, &Fate::Vanished);
        }
    }
}

/// A write that may be committed. Dropped without a fate, its key stays in flight until [`Recall::decided`] or a change of leader.
#[derive(Debug)]
pub struct Proposed {
    recall: Recall,
    identity: WriteIdentity,
    flight: u64,
    digest: RequestDigest,
}

impl Proposed {
    /// Whose it is.
    #[must_use]
    pub fn identity(&self) -> &WriteIdentity {
        &self.identity
    }

    /// What it asks for.
    #[must_use]
    pub fn digest(&self) -> RequestDigest {
        self.digest
    }

    /// It got this outcome at this log time.
    pub fn decided(self, outcome: &Arc<Outcome>, time: LogTime) {
        self.recall.decided(&self.identity, self.digest, outcome, time);
    }

    /// Each got this outcome at this log time. All of them are known to one [`Recall`].
    pub(crate) fn all_decided(decided: &[(Self, Arc<Outcome>, LogTime)]) {
        let Some((first, ..)) = decided.first() else { return };
        let recall = first.recall.clone();
        let decisions = decided.iter().map(|(proposed, outcome, time)| Decision {
            identity: &proposed.identity,
            digest: proposed.digest,
            outcome,
            time: *time,
        });
        recall.all_decided(decisions);
    }

    /// It was not committed and never will be, or was committed and dropped by the dispatcher: it got no outcome.
    pub fn vanished(self) {
        self.recall.end(&self.identity, self.flight, &Fate::Vanished);
    }
}

/// Waits for the fate of a key in flight. Any number can wait; dropping one takes nothing from the others.
#[derive(Clone, Debug)]
pub struct Waiter {
    awaited: Arc<Awaited>,
    digest: RequestDigest,
}

impl Waiter {
    pub(super) fn new(awaited: Arc<Awaited>, digest: RequestDigest) -> Self {
        Self { awaited, digest }
    }

    /// Waits until the fate is known, on any runtime. Can be dropped at any time.
    pub async fn answer(self) -> Answer {
        let mut place = None;
        poll_fn(|context| self.awaited.poll(self.digest, &mut place, context)).await
    }

    /// The answer comes into a queue, under this number.
    pub fn forward(self, arrivals: &Arc<Arrivals>, number: u64) {
        self.awaited.forward(self.digest, arrivals, number);
    }

    /// The answer, if the fate is known.
    #[must_use]
    pub fn try_answer(&self) -> Option<Answer> {
        self.awaited.get(self.digest)
    }
}
