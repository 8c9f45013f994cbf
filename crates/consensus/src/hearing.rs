//! When this node has last heard of whoever leads.
//!
//! The library names the last leader for as long as there is no other: a follower that nobody reaches asks in vain whether it could be
//! elected, and its term stays. It must not send anybody to a leader that may have been followed by another one long ago.
//!
//! Invariants
//! - Who is in touch is never silent: heartbeats come many times within the patience.
//!
//! Must not know: who leads, what is told about it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::identity::Term;
use crate::message::Vote;

/// What was heard of leaders, and how long that counts.
pub(crate) struct Hearing {
    patience: Duration,
    heard: Mutex<Heard>,
    /// Told when a leader is heard again.
    pub(crate) again: Notify,
}

struct Heard {
    /// The newest term whose leader was heard. What comes from an older one does not count.
    term: Term,
    at: Instant,
    /// Somebody was told that nothing is heard.
    is_missed: bool,
}

impl Hearing {
    /// A node that was opened now has as long as any other to hear of its leader.
    pub(crate) fn new(patience: Duration) -> Self {
        let heard = Heard { term: Term::default(), at: Instant::now(), is_missed: false };
        Self { patience, heard: Mutex::new(heard), again: Notify::new() }
    }

    /// A node has sent what only a leader sends.
    pub(crate) fn hear(&self, vote: Vote) {
        let mut heard = self.heard();
        if !vote.committed || vote.term < heard.term {
            return;
        }
        (heard.term, heard.at) = (vote.term, Instant::now());
        if std::mem::take(&mut heard.is_missed) {
            self.again.notify_one();
        }
    }

    /// Whether nothing was heard for so long that nobody should be named. If so, it is told when that changes.
    pub(crate) fn is_silent(&self) -> bool {
        let mut heard = self.heard();
        heard.is_missed = heard.at.elapsed() >= self.patience;
        heard.is_missed
    }

    /// When it is silent, if nothing is heard until then.
    pub(crate) fn patient_until(&self) -> Instant {
        self.heard().at + self.patience
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::NodeId;

    fn vote(term: u64, committed: bool) -> Vote {
        Vote { term: Term::new(term), node: NodeId::new(1), committed }
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_with_a_leader_of_no_older_term() {
        let second = Duration::from_secs(1);
        let hearing = Hearing::new(2 * second);
        assert!(!hearing.is_silent(), "it was opened a moment ago");
        tokio::time::advance(second).await;
        hearing.hear(vote(5, true));
        tokio::time::advance(second).await;
        assert!(!hearing.is_silent());
        assert_eq!(hearing.patient_until(), Instant::now() + second);
        for (term, committed) in [(4, true), (6, false)] {
            hearing.hear(vote(term, committed));
        }
        tokio::time::advance(second).await;
        assert!(hearing.is_silent(), "neither leads");
        hearing.hear(vote(5, true));
        assert!(!hearing.is_silent());
        hearing.again.notified().await;
    }
}
