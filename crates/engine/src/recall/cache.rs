//! Outcomes that are known, in the order in which they were decided: the oldest goes first.
//!
//! Retries come soon or never, so neither how often nor how recently a key was asked for says anything about the next time. A
//! cache that keeps what is popular would drop the newest keys first, which are the ones that are retried.
//!
//! ```text
//!  places: hash of the identity ──▶ number        kept: number ──▶ identity, outcome, ...   (oldest in front)
//! ```
//!
//! Two identities with one hash cannot both be known: the older one is forgotten, as everything here may be.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::mem::size_of;
use std::sync::Arc;

use gapless_partition::{Outcome, RequestDigest};

use super::{Window, WriteIdentity};
use crate::keyed::{KeyedHash, KeyedMap};
use crate::log_time::LogTime;

#[derive(Debug)]
pub(super) struct Cache {
    most: usize,
    most_bytes: usize,
    bytes: usize,
    hash: KeyedHash,
    places: KeyedMap<u64, u64>,
    /// Oldest first; empty where something newer of the same key was decided.
    kept: VecDeque<Option<Known>>,
    /// The number of the oldest.
    first: u64,
}

#[derive(Debug)]
struct Known {
    hash: u64,
    identity: WriteIdentity,
    digest: RequestDigest,
    outcome: Arc<Outcome>,
    time: LogTime,
    bytes: usize,
}

impl Cache {
    pub(super) fn new(most: usize, most_bytes: usize) -> Self {
        Self {
            most,
            most_bytes,
            bytes: 0,
            hash: KeyedHash::default(),
            places: KeyedMap::default(),
            kept: VecDeque::new(),
            first: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn get(
        &self,
        identity: &WriteIdentity,
        window: Window,
    ) -> Option<(RequestDigest, Arc<Outcome>)> {
        let number = *self.places.get(&self.hash.hash_one(identity))?;
        let known = self.kept.get(self.place(number))?.as_ref()?;
        let age = window.now.as_millis().saturating_sub(known.time.as_millis());
        let counts = known.identity == *identity && age < window.millis;
        counts.then(|| (known.digest, known.outcome.clone()))
    }

    pub(super) fn insert(
        &mut self,
        identity: &WriteIdentity,
        digest: RequestDigest,
        outcome: Arc<Outcome>,
        time: LogTime,
    ) {
        let hash = self.hash.hash_one(identity);
        let bytes = weight(identity, &outcome);
        let number = self.first + self.kept.len() as u64;
        let before = match bytes > self.most_bytes || self.most == 0 {
            true => self.places.remove(&hash),
            false => self.places.insert(hash, number),
        };
        if let Some(before) = before {
            let place = self.place(before);
            self.drop_at(place);
        }
        if bytes > self.most_bytes || self.most == 0 {
            return;
        }
        self.bytes += bytes;
        let identity = identity.clone();
        self.kept.push_back(Some(Known { hash, identity, digest, outcome, time, bytes }));
        while self.len() > self.most || self.bytes > self.most_bytes || self.kept.len() > self.most * 2 {
            self.forget_oldest();
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new(self.most, self.most_bytes);
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.drop_at(0) {
            self.places.remove(&oldest.hash);
        }
        self.kept.pop_front();
        self.first += 1;
    }

    fn drop_at(&mut self, place: usize) -> Option<Known> {
        let known = self.kept.get_mut(place)?.take()?;
        self.bytes -= known.bytes;
        Some(known)
    }

    fn place(&self, number: u64) -> usize {
        usize::try_from(number - self.first).expect("it is one of those that are kept")
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// About how much memory an outcome takes.
fn weight(identity: &WriteIdentity, outcome: &Outcome) -> usize {
    let place = 2 * size_of::<u64>();
    place + size_of::<Option<Known>>() + identity.client.as_str().len() + outcome_weight(outcome)
}

fn outcome_weight(outcome: &Outcome) -> usize {
    let parts = match outcome {
        Outcome::Committed(committed) => {
            committed.record_ids.len() * 16
                + committed.numbers.iter().map(|(name, _)| 32 + name.as_str().len()).sum::<usize>()
        }
        Outcome::Refused(refusal) => {
            let value = refusal.current_value.as_ref().map_or(0, bytes::Bytes::len);
            refusal.key.len() + value + refusal.message.len()
        }
        Outcome::Duplicate { first, .. } => outcome_weight(first),
        Outcome::Defined => 0,
        Outcome::DefinitionRefused(reasons) => reasons.iter().map(|reason| 24 + reason.len()).sum(),
    };
    size_of::<Outcome>() + parts
}
