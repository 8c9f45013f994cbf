//! What the leader knows of a write before it is proposed: that it was decided, or is about to be.
//!
//! ```text
//!            lookup                 propose                      decided
//!  new key ──────────▶ Flight ───────────────▶ Proposed ──────────────────────▶ known, for as long as there is room
//!                        │ dropped: refused,      │ vanished: certainly not          │
//!                        ▼ cancelled, too late    ▼ committed                        ▼
//!                       gone: waiters look up again; one of them flies next         waiters get the outcome
//!
//!  a Proposed that is dropped is a fate nobody knows yet: the key stays in flight until somebody tells
//! ```
//!
//! This is a fast path and may forget. The table that decides is the partition's: what is not known here is proposed, and what was
//! decided before comes back as a duplicate.
//!
//! Invariants
//! - IDEM-1: a key is in flight at most once. A retry waits for the first one and gets its outcome. A request that reuses the key
//!   for something else waits, too: it is refused only if the first one was decided, because otherwise the key was never used.
//! - Nothing is known longer than the window of its namespace, by log time.
//! - Every lock is held for moments, and nobody is woken while it is.
//!
//! Must not know: how an order is agreed on, tasks, deadlines. Whoever waits brings his own.

mod cache;
mod fate;
mod flight;

use std::collections::hash_map;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use gapless_partition::{Outcome, RefusalCode, RequestDigest};
use gapless_types::{ClientId, IdempotencyKey, NamespaceId, WorkspaceId};
use thiserror::Error;

use self::cache::Cache;
pub use self::fate::Arrivals;
use self::fate::{Fate, Teller};
pub use self::flight::{Answer, Flight, Proposed, Waiter};
use crate::keyed::KeyedMap;
use crate::log_time::LogTime;

/// What tells one intended write from another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WriteIdentity {
    /// The namespace.
    pub namespace: NamespaceId,
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Who writes.
    pub client: ClientId,
    /// Which of his writes.
    pub key: IdempotencyKey,
}

/// How much is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecallLimits {
    /// Most outcomes that are known.
    pub outcomes: usize,
    /// Most bytes of outcomes that are known.
    pub outcome_bytes: usize,
    /// Most keys in flight.
    pub in_flight: usize,
}

impl Default for RecallLimits {
    fn default() -> Self {
        Self { outcomes: 100_000, outcome_bytes: 64 << 20, in_flight: 65_536 }
    }
}

/// Outcomes that are taken in while nobody can look anything up: whoever writes waits for no more than these.
const DECIDED_TOGETHER: usize = 16;

/// For how long an outcome counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Log time now.
    pub now: LogTime,
    /// How long keys of the namespace are known, in milliseconds.
    pub millis: u64,
}

/// What is known of a write.
#[derive(Debug)]
pub enum Recalled {
    /// It was decided like this.
    Known(Arc<Outcome>),
    /// Its key was used for another request.
    Reused,
    /// Its key is in flight, with this request or another.
    InFlight(Waiter),
    /// Nothing: it is to be admitted and proposed.
    New(Flight),
}

/// Why a write was not looked up. It can be tried again with the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RecallRefused {
    /// Another node leads, or what was in flight when this one began to lead is not resolved yet.
    #[error("this node does not lead")]
    NotLeading,
    /// Too many keys are in flight.
    #[error("{limit} writes are in flight")]
    Full {
        /// How many may be.
        limit: usize,
    },
}

/// What the leader knows of writes. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub struct Recall {
    table: Arc<Mutex<Table>>,
}

#[derive(Debug)]
struct Table {
    leads: bool,
    limits: RecallLimits,
    known: Cache,
    in_flight: KeyedMap<WriteIdentity, Entry>,
    /// Tells flights of one key apart.
    next_flight: u64,
}

#[derive(Debug)]
struct Entry {
    flight: u64,
    digest: RequestDigest,
    fate: Teller,
}

/// A write and what became of it.
struct Decision<'a> {
    identity: &'a WriteIdentity,
    digest: RequestDigest,
    outcome: &'a Arc<Outcome>,
    time: LogTime,
}

impl Table {
    /// Knows an outcome from now on. The flight that ends with it, if it is of the same request.
    fn decide(&mut self, decision: &Decision<'_>) -> Option<Entry> {
        let Decision { identity, digest, outcome, time } = *decision;
        if let Some((outcome, time)) = deciding(outcome, time) {
            self.known.insert(identity, digest, outcome, time);
        }
        // Known and in flight change together, so that no lookup finds neither.
        match self.in_flight.entry(identity.clone()) {
            hash_map::Entry::Occupied(entry) if entry.get().digest == digest => Some(entry.remove()),
            _ => None,
        }
    }
}

impl Recall {
    /// Knows nothing, and does not lead.
    #[must_use]
    pub fn new(limits: RecallLimits) -> Self {
        let known = Cache::new(limits.outcomes, limits.outcome_bytes);
        let table = Table { leads: false, limits, known, in_flight: KeyedMap::default(), next_flight: 0 };
        Self { table: Arc::new(Mutex::new(table)) }
    }

    /// This node leads, and its first entry was dispatched: whatever was in flight before is decided or never will be.
    pub fn lead(&self) {
        self.forget(true);
    }

    /// Another node leads. What is in flight may still be committed, but nobody here will know: whoever waits is sent there. Nothing
    /// is kept, because what is decided there is not seen here.
    pub fn step_down(&self) {
        self.forget(false);
    }

    /// What is known of a write.
    ///
    /// # Errors
    /// If this node does not lead, or too many keys are in flight.
    pub fn lookup(
        &self,
        identity: &WriteIdentity,
        digest: RequestDigest,
        window: Window,
    ) -> Result<Recalled, RecallRefused> {
        let mut table = lock(&self.table);
        if !table.leads {
            return Err(RecallRefused::NotLeading);
        }
        let Table { known, in_flight, limits, next_flight, .. } = &mut *table;
        let (flying, limit) = (in_flight.len(), limits.in_flight);
        let vacant = match in_flight.entry(identity.clone()) {
            hash_map::Entry::Vacant(vacant) => vacant,
            hash_map::Entry::Occupied(entry) => {
                return Ok(Recalled::InFlight(Waiter::new(entry.get().fate.awaited(), digest)));
            }
        };
        match known.get(identity, window) {
            Some((known, outcome)) if known == digest => return Ok(Recalled::Known(outcome)),
            Some(_) => return Ok(Recalled::Reused),
            None => {}
        }
        if flying >= limit {
            return Err(RecallRefused::Full { limit });
        }
        let fate = Teller::default();
        let waiter = Waiter::new(fate.awaited(), digest);
        let flight = *next_flight;
        *next_flight += 1;
        vacant.insert(Entry { flight, digest, fate });
        drop(table);
        Ok(Recalled::New(Flight::new(self.clone(), identity.clone(), flight, waiter)))
    }

    /// A write got its outcome at this log time. For whoever applies: also resolves a key whose [`Proposed`] was dropped.
    pub fn decided(
        &self,
        identity: &WriteIdentity,
        digest: RequestDigest,
        outcome: &Arc<Outcome>,
        time: LogTime,
    ) {
        self.all_decided([Decision { identity, digest, outcome, time }]);
    }

    /// The same for many at once.
    fn all_decided<'a>(&self, decisions: impl IntoIterator<Item = Decision<'a>>) {
        let (mut decisions, mut wakes) = (decisions.into_iter().peekable(), Vec::new());
        while decisions.peek().is_some() {
            let mut table = lock(&self.table);
            if !table.leads {
                break;
            }
            let decide = |decision: Decision<'a>| {
                let fate = table.decide(&decision)?.fate;
                Some((fate, Fate::Decided { digest: decision.digest, outcome: decision.outcome.clone() }))
            };
            let told: Vec<_> = decisions.by_ref().take(DECIDED_TOGETHER).filter_map(decide).collect();
            drop(table);
            for (fate, decided) in told {
                fate.tell(&decided, &mut wakes);
            }
        }
        wakes.into_iter().for_each(Waker::wake);
    }

    /// Keys in flight, also those that nobody waits for.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        lock(&self.table).in_flight.len()
    }

    /// Outcomes that are known.
    #[must_use]
    pub fn known(&self) -> usize {
        lock(&self.table).known.len()
    }

    /// A flight ended without an outcome. What another flight of the same key does is not its business.
    fn end(&self, identity: &WriteIdentity, flight: u64, fate: &Fate) {
        let mut table = lock(&self.table);
        if table.in_flight.get(identity).is_none_or(|entry| entry.flight != flight) {
            return;
        }
        let entry = table.in_flight.remove(identity).expect("it was there a moment ago");
        drop(table);
        entry.fate.tell_now(fate);
    }

    fn forget(&self, leads: bool) {
        let mut table = lock(&self.table);
        table.leads = leads;
        table.known.clear();
        let mut in_flight: Vec<Entry> = std::mem::take(&mut table.in_flight).into_values().collect();
        drop(table);
        // In the order in which they came, so that a simulation can be repeated.
        in_flight.sort_unstable_by_key(|entry| entry.flight);
        for entry in in_flight {
            entry.fate.tell_now(&Fate::NotLeading);
        }
    }
}

/// What decides a key, and when: not that it was used before for something else.
fn deciding(outcome: &Arc<Outcome>, time: LogTime) -> Option<(Arc<Outcome>, LogTime)> {
    match &**outcome {
        Outcome::Committed(_) => Some((outcome.clone(), time)),
        Outcome::Refused(refusal) if refusal.code != RefusalCode::IdempotencyKeyReused => {
            Some((outcome.clone(), time))
        }
        // The window counts from the first outcome; a refusal does not say when that was.
        Outcome::Duplicate { first, .. } => match &**first {
            Outcome::Committed(committed) => {
                Some((Arc::new((**first).clone()), LogTime::from_millis(committed.committed_at)?))
            }
            _ => None,
        },
        Outcome::Refused(_) | Outcome::Defined | Outcome::DefinitionRefused(_) => None,
    }
}

/// Whether a key was used by what got this outcome.
fn uses_its_key(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Committed(_) | Outcome::Duplicate { .. } => true,
        Outcome::Refused(refusal) => refusal.code != RefusalCode::IdempotencyKeyReused,
        Outcome::Defined | Outcome::DefinitionRefused(_) => false,
    }
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    // A panic while this lock is held leaves nothing half done.
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
