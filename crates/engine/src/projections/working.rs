//! What a leader knows of the work on a domain: how many slots are promised to leases on their way, and how long work takes.
//!
//! Nothing here is replicated, and nothing depends on it but how much is asked for and for how long.
//!
//! Must not know: tasks, clocks.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gapless_projection::limits::MAX_GRANTS;
use gapless_projection::{Answer, Command, Done, Durations, Grant, OpenEvent};

/// Event types whose durations are kept.
const MOST_TYPES: usize = 256;

/// What is known of the work on a domain.
#[derive(Debug, Default)]
pub(crate) struct Working(Mutex<Known>);

#[derive(Debug)]
struct Known {
    promised: u64,
    /// So many are promised to one lease: as many as fitted lately, and once more as many.
    fitting: u64,
    durations: BTreeMap<Box<str>, Durations>,
    /// Slots that were granted here and not ended, each with its event type, the time it was granted and the length of its lease.
    granted: BTreeMap<u64, Granted>,
}

impl Default for Known {
    fn default() -> Self {
        let (durations, granted) = (BTreeMap::new(), BTreeMap::new());
        Self { promised: 0, fitting: u64::from(MAX_GRANTS), durations, granted }
    }
}

#[derive(Debug)]
struct Granted {
    event_type: Box<str>,
    token: u64,
    at: u64,
    lease_ms: u64,
}

impl Working {
    /// Promises slots to somebody who will ask for them: at most so many, of those that can be granted and are nobody's yet.
    pub(crate) fn promise(&self, grantable: u64, most: u64) -> u64 {
        let mut known = self.lock();
        let promised = grantable.saturating_sub(known.promised).min(most).min(known.fitting);
        known.promised += promised;
        promised
    }

    /// They were granted, or will not be.
    pub(crate) fn end_promise(&self, promised: u64) {
        self.lock().promised -= promised;
    }

    /// How long a lease should last, whatever the type of its event is.
    pub(crate) fn lease_ms(&self) -> u64 {
        let known = self.lock();
        known
            .durations
            .values()
            .map(Durations::lease_ms)
            .max()
            .unwrap_or_else(|| Durations::default().lease_ms())
    }

    /// Slots were granted to somebody here, of which the first ones fit one answer.
    pub(crate) fn granted(&self, clock: u64, grants: &[Grant], events: &[Option<OpenEvent>]) {
        let mut known = self.lock();
        let fitted = events.len() as u64;
        if events.len() < grants.len() {
            known.fitting = fitted.max(1);
        } else if fitted >= known.fitting {
            known.fitting = (known.fitting * 2).min(u64::from(MAX_GRANTS));
        }
        for (grant, event) in grants.iter().zip(events) {
            let Some(event) = event else { continue };
            let granted = Granted {
                event_type: event.event().event_type.into(),
                token: grant.token,
                at: clock,
                lease_ms: grant.expires_at.saturating_sub(clock),
            };
            // Granted again without an end: work that expired counts as long as its lease.
            if let Some(expired) = known.granted.insert(grant.slot, granted) {
                known.record(expired.event_type, expired.lease_ms);
            }
        }
    }

    /// A command was answered at this time: if it ends a lease, that took so long.
    pub(crate) fn answered(&self, clock: u64, command: &Command<'_>, answer: &Answer) {
        let (held, counts) = match (command, &answer.done) {
            (Command::Commit { held, .. }, Done::Committed { is_duplicate: false, .. }) => (held, true),
            (
                Command::Release { held } | Command::Fail { held, .. },
                Done::Released | Done::Failed { .. },
            ) => (held, false),
            _ => return,
        };
        let mut known = self.lock();
        if known.granted.get(&held.slot).is_some_and(|granted| granted.token == held.token)
            && let Some(granted) = known.granted.remove(&held.slot)
            && counts
        {
            known.record(granted.event_type, clock.saturating_sub(granted.at));
        }
    }

    /// Everything up to here is resolved, however that came about.
    pub(crate) fn resolved(&self, watermark: u64) {
        let mut known = self.lock();
        while known.granted.first_key_value().is_some_and(|(slot, _)| *slot <= watermark) {
            known.granted.pop_first();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn record(&mut self, event_type: Box<str>, milliseconds: u64) {
        if self.durations.len() < MOST_TYPES || self.durations.contains_key(&event_type) {
            self.durations.entry(event_type).or_default().record(milliseconds);
        }
    }
}

#[cfg(test)]
mod tests {
    use gapless_projection::{CommitStatus, Held};

    use super::*;

    #[test]
    fn no_slot_is_promised_twice() {
        let working = Working::default();
        assert_eq!((working.promise(5, 3), working.promise(5, 3), working.promise(5, 3)), (3, 2, 0));
        working.end_promise(3);
        assert_eq!(working.promise(2, 9), 0, "two of five were granted, and two are promised");
        working.end_promise(2);
        assert_eq!(working.promise(2, 9), 2);
    }

    #[test]
    fn a_lease_is_promised_what_fitted_lately_and_more_as_long_as_it_fits() {
        let working = Working::default();
        let grant = Grant { slot: 1, token: 1, expires_at: 1, attempt: 1, source: None };
        let grants = vec![grant; 8];
        let promised = |working: &Working| {
            let promised = working.promise(5000, 5000);
            working.end_promise(promised);
            promised
        };
        assert_eq!(promised(&working), u64::from(MAX_GRANTS));
        working.granted(1, &grants, &[None, None]);
        assert_eq!(promised(&working), 2, "two of eight fitted");
        working.granted(1, &grants[..2], &[None, None]);
        working.granted(1, &grants[..1], &[None]);
        assert_eq!(promised(&working), 4, "two did, and whether four do is to be seen");
        for fits in [4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024] {
            working.granted(1, &vec![grant; fits], &vec![None; fits]);
        }
        assert_eq!(promised(&working), u64::from(MAX_GRANTS));
    }

    #[test]
    fn only_what_was_granted_here_is_counted_when_it_ends() {
        let working = Working::default();
        assert_eq!(working.lease_ms(), 30_000, "nothing is known");
        let commit = Command::commit(Held { slot: 1, token: 1 }, b"");
        let done = Done::Committed { status: CommitStatus::Applied, is_duplicate: false };
        working.answered(50, &commit, &Answer { watermark: 1, done });
        assert_eq!(working.lease_ms(), 30_000);
    }
}
