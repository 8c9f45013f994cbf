//! The audit: what was administered, and who was not let in, as events of the namespace of the node itself. So they are ordered,
//! durable and provable like everything else.
//!
//! ```text
//!  an action   ──▶ AdminAction, acknowledged ──▶ the action ──▶ AdminActionDone, or ...Failed with the reason    (no event: it is not done)
//!                                                          └──▶ AdminActionAbandoned: whoever asked did not wait for its end
//!  leadership  ──▶ LeaderElected, by whoever leads from now on, which is also how a TransferLeader that went well ends,
//!                  and a RemoveNode of the node that led: it says who votes
//!  a stranger  ──▶ counted; now and then an event with how many more there were
//! ```
//!
//! Invariants
//! - Nothing of a request is in it but its call and the names of what it is about, cut where they are too long; nothing of a
//!   credential is.
//! - An action that begun and did not end in it before somebody else leads is one of which nobody knows: the process, or its
//!   leadership, ended first.
//! - Whatever strangers do, there is at most one event of theirs in a while; and they leave room for what is denied to those who are known.
//!
//! Must not know: who may do what.

mod actions;
mod writing;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gapless_api::Problem;
use gapless_engine::{Engine, NodeId};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

pub(crate) use self::actions::Begun;
use self::actions::{action, is_local};
use self::writing::{Unwritten, write_later, written};
use crate::access::Caller;
use crate::access::rules::{Asked, Rule};

/// Events of strangers that are written at once, and how long it takes until one more is.
const BURST: u32 = 20;
const REFILL: Duration = Duration::from_secs(5);
/// Events that nobody waits for and that wait to be written.
const WAITING: usize = 64;

/// What became of what strangers did.
#[derive(Debug, Default)]
pub(crate) struct AuditCounters {
    /// Requests without a credible credential.
    pub(crate) refused: AtomicU64,
    /// Requests of somebody who may not.
    pub(crate) denied: AtomicU64,
    /// What is in no event.
    pub(crate) unwritten: AtomicU64,
}

/// The audit of a node. Clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Audit(Option<Arc<Kept>>, Arc<AuditCounters>);

#[derive(Debug)]
struct Kept {
    engine: Engine,
    /// What nobody waits for.
    later: mpsc::Sender<Later>,
    refused: Mutex<Bucket>,
    denied: Mutex<Bucket>,
    /// The last term of which it was told that this node leads in it.
    led: AtomicU64,
}

/// An event that is written when its turn comes.
#[derive(Debug)]
struct Later {
    event_type: &'static str,
    event: Value,
}

#[derive(Debug)]
struct Bucket {
    left: u32,
    since: Instant,
    /// How many were not written since one was.
    more: u64,
}

impl Audit {
    /// One that only counts.
    pub(crate) fn off() -> Self {
        Self(None, Arc::default())
    }

    /// One that is kept in this engine.
    pub(crate) fn kept(engine: Engine) -> Self {
        let (later, waiting) = mpsc::channel(WAITING);
        let counters: Arc<AuditCounters> = Arc::default();
        tokio::spawn(write_later(engine.clone(), waiting, counters.clone()));
        let [refused, denied] = [(); 2].map(|()| Mutex::new(Bucket::full(Instant::now())));
        Self(Some(Arc::new(Kept { engine, later, refused, denied, led: AtomicU64::new(0) })), counters)
    }

    pub(crate) fn counters(&self) -> &AuditCounters {
        &self.1
    }

    /// Something is about to be administered. Ready when that is on stable storage.
    ///
    /// # Errors
    /// If it cannot be written down.
    pub(crate) async fn begin<M: Asked>(&self, caller: &Caller, message: &M) -> Result<Begun, Problem> {
        let Some(kept) = &self.0 else { return Ok(Begun::unaudited()) };
        let rule = M::RULE;
        let event = action(caller, message);
        let number = match written(&kept.engine, "AdminAction", &event).await {
            Ok(number) => Some(number),
            // It is the business of this node alone, and the audit is where the leader is: the node's own lines have to do.
            Err(Unwritten::NotLeader(_)) if is_local(rule) => {
                self.1.unwritten.fetch_add(1, Relaxed);
                tracing::warn!(
                    principal = caller.principal.name,
                    call = rule.call,
                    "administered on a node that does not lead"
                );
                None
            }
            Err(Unwritten::NotLeader(problem) | Unwritten::Other(problem)) => return Err(problem),
        };
        Ok(Begun::new(self.clone(), kept.clone(), number, caller, message))
    }

    /// This node leads from now on. It is not waited for.
    pub(crate) fn elected(&self, node: u64, term: u64) {
        let Some(kept) = &self.0 else { return };
        // Who leads is told again when his address has changed; that he was removed is one such change.
        if kept.led.swap(term, Relaxed) == term {
            return;
        }
        let members = kept.engine.replicator().members();
        let voters: Vec<u64> = members.all_voters().into_iter().map(NodeId::get).collect();
        let event = json!({"node_id": node, "term": term, "voters": voters});
        let later = Later { event_type: "LeaderElected", event };
        if kept.later.try_send(later).is_err() {
            self.1.unwritten.fetch_add(1, Relaxed);
        }
    }

    /// Somebody asked without a credible credential.
    pub(crate) fn refused(&self, address: std::net::IpAddr, reason: &'static str) {
        self.1.refused.fetch_add(1, Relaxed);
        let Some(kept) = &self.0 else { return };
        kept.now_and_then(
            &kept.refused,
            "AuthenticationRefused",
            |more| json!({"address": address.to_string(), "reason": reason, "more": more}),
        );
    }

    /// Somebody asked for what he may not.
    pub(crate) fn denied(&self, caller: &Caller, rule: &Rule) {
        self.1.denied.fetch_add(1, Relaxed);
        let Some(kept) = &self.0 else { return };
        kept.now_and_then(&kept.denied, "PermissionDenied", |more| {
            json!({
                "principal": caller.principal.name,
                "address": caller.peer.ip().to_string(),
                "call": rule.call,
                "more": more,
            })
        });
    }
}

impl Kept {
    /// Writes it down, or counts it.
    fn now_and_then(
        &self,
        bucket: &Mutex<Bucket>,
        event_type: &'static str,
        event: impl FnOnce(u64) -> Value,
    ) {
        let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(more) = bucket.take(Instant::now()) else { return };
        if self.later.try_send(Later { event_type, event: event(more) }).is_err() {
            bucket.more += more + 1;
        }
    }
}

impl Bucket {
    fn full(now: Instant) -> Self {
        Self { left: BURST, since: now, more: 0 }
    }

    /// How many were only counted since the last one, if there may be one more event now.
    fn take(&mut self, now: Instant) -> Option<u64> {
        let steps = now.saturating_duration_since(self.since).as_secs() / REFILL.as_secs();
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(steps).min(BURST);
        self.since = if self.left == BURST { now } else { self.since + REFILL * steps };
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Some(std::mem::take(&mut self.more))
            }
            None => {
                self.more += 1;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_counted_when_they_are_many() {
        let now = Instant::now();
        let mut bucket = Bucket::full(now);
        for _ in 0..BURST {
            assert_eq!(bucket.take(now), Some(0));
        }
        for _ in 0..7 {
            assert_eq!(bucket.take(now), None);
        }
        assert_eq!(bucket.take(now + REFILL), Some(7));
        assert_eq!(bucket.take(now + REFILL), None);
        assert_eq!(bucket.take(now + REFILL * 1000), Some(1));
    }
}
