//! Outcomes that are known, in the order in which they were decided: the oldest goes first.
//!
//! Retries come soon or never, so neither how often nor how recently a key was asked for says anything about the next time. A
//! cache that keeps what is popular would drop the newest keys first, which are the ones that are retried.

use std::collections::{HashMap, VecDeque};
use std::mem::size_of;
use std::sync::Arc;

use gapless_partition::{Outcome, RequestDigest};

use super::{Window, WriteIdentity};
use crate::log_time::LogTime;

#[derive(Debug)]
pub(super) struct Cache {
    most: usize,
    most_bytes: usize,
    bytes: usize,
    known: HashMap<WriteIdentity, Known>,
    /// Every insertion, oldest first; those that were replaced since have another number by now.
    order: VecDeque<(WriteIdentity, u64)>,
    next: u64,
}

#[derive(Debug)]
struct Known {
    number: u64,
    digest: RequestDigest,
    outcome: Arc<Outcome>,
    time: LogTime,
    bytes: usize,
}

impl Cache {
    pub(super) fn new(most: usize, most_bytes: usize) -> Self {
        Self { most, most_bytes, bytes: 0, known: HashMap::new(), order: VecDeque::new(), next: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    pub(super) fn get(
        &self,
        identity: &WriteIdentity,
        window: Window,
    ) -> Option<(RequestDigest, Arc<Outcome>)> {
        let known = self.known.get(identity)?;
        let age = window.now.as_millis().saturating_sub(known.time.as_millis());
        (age < window.millis).then(|| (known.digest, known.outcome.clone()))
    }

    pub(super) fn insert(
        &mut self,
        identity: WriteIdentity,
        digest: RequestDigest,
        outcome: Arc<Outcome>,
        time: LogTime,
    ) {
        self.remove(&identity);
        let bytes = weight(&identity, &outcome);
        if bytes > self.most_bytes || self.most == 0 {
            return;
        }
        let number = self.next;
        self.next += 1;
        self.bytes += bytes;
        self.order.push_back((identity.clone(), number));
        self.known.insert(identity, Known { number, digest, outcome, time, bytes });
        while self.known.len() > self.most || self.bytes > self.most_bytes || self.order.len() > self.most * 2
        {
            let Some((oldest, number)) = self.order.pop_front() else { break };
            if self.known.get(&oldest).is_some_and(|known| known.number == number) {
                self.remove(&oldest);
            }
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new(self.most, self.most_bytes);
    }

    fn remove(&mut self, identity: &WriteIdentity) {
        if let Some(known) = self.known.remove(identity) {
            self.bytes -= known.bytes;
        }
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// About how much memory an outcome takes. The key is there twice.
fn weight(identity: &WriteIdentity, outcome: &Outcome) -> usize {
    let key = 2 * size_of::<WriteIdentity>() + identity.client.as_str().len();
    key + size_of::<Known>() + outcome_weight(outcome)
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
