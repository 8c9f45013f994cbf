//! How much all caches of a node may hold together.
//!
//! Invariants
//! - The entries granted to all members together never exceed the budget.
//!
//! A cache takes what is free, in pieces, as it fills up. When nothing is free it evicts its own oldest entries instead.
//! A member that has less than its fair share (the budget divided by the members) and finds nothing free says so, and
//! members with more than theirs give a piece back the next time they would take a new entry in. A member that is never
//! used gives nothing back by itself: its owner lets it go with [`Sequencer::drop_cache`](crate::Sequencer::drop_cache).

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::ParamsError;

/// Most entries of one budget: slots are counted in 32 bits, and one value of those means "none".
pub const MAX_CACHE_ENTRIES: usize = u32::MAX as usize - 1;

/// Most entries that change hands at once: few enough not to matter, enough to be rare.
const PIECE: usize = 256;

/// A number of cache entries, shared by sequencers: the memory bound of a node.
#[derive(Debug)]
pub struct CacheBudget {
    entries: usize,
    free: AtomicUsize,
    members: AtomicUsize,
    /// Members that have less than their fair share and found nothing free.
    waiting: AtomicUsize,
}

impl CacheBudget {
    /// A budget of this many entries. Fewer than 1, or more than [`MAX_CACHE_ENTRIES`], is refused by the sequencer that
    /// gets it.
    #[must_use]
    pub const fn new(entries: usize) -> Self {
        Self {
            entries,
            free: AtomicUsize::new(entries),
            members: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
        }
    }

    /// How many there are.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// How many nobody has taken.
    #[must_use]
    pub fn free(&self) -> usize {
        self.free.load(Ordering::Relaxed)
    }

    pub(crate) fn check(&self) -> Result<(), ParamsError> {
        match self.entries {
            1..=MAX_CACHE_ENTRIES => Ok(()),
            entries => Err(ParamsError::CacheSize { entries }),
        }
    }

    fn fair_share(&self) -> usize {
        self.entries / self.members.load(Ordering::Relaxed).max(1)
    }

    /// What changes hands at once: small budgets in small pieces, so that no member takes all at its first entry.
    fn piece(&self) -> usize {
        (self.entries / 64).clamp(1, PIECE)
    }

    fn take(&self, wanted: usize) -> usize {
        let mut taken = 0;
        let _ = self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| {
            taken = free.min(wanted);
            free.checked_sub(taken)
        });
        taken
    }
}

/// One cache's part of a budget.
#[derive(Debug)]
pub(crate) struct Grant {
    budget: std::sync::Arc<CacheBudget>,
    entries: usize,
    waiting: bool,
}

impl Grant {
    pub(crate) fn new(budget: std::sync::Arc<CacheBudget>) -> Self {
        budget.members.fetch_add(1, Ordering::Relaxed);
        Self { budget, entries: 0, waiting: false }
    }

    pub(crate) fn entries(&self) -> usize {
        self.entries
    }

    /// The most this grant can become.
    pub(crate) fn most(&self) -> usize {
        self.budget.entries
    }

    /// Tries to get more. False if there is nothing to get.
    pub(crate) fn grow(&mut self) -> bool {
        let fair_share = self.budget.fair_share();
        // What is free while somebody waits is for him.
        if self.entries >= fair_share && self.others_wait() {
            return false;
        }
        let taken = self.budget.take(self.budget.piece());
        self.entries += taken;
        self.set_waiting(taken == 0 && self.entries < fair_share);
        taken > 0
    }

    /// How many entries should be given back now, because somebody waits and this is more than a fair share.
    pub(crate) fn surplus(&self) -> usize {
        if !self.others_wait() {
            return 0;
        }
        self.entries.saturating_sub(self.budget.fair_share()).min(self.budget.piece())
    }

    /// Gives entries back that the cache has evicted.
    pub(crate) fn shrink(&mut self, by: usize) {
        let by = by.min(self.entries);
        self.entries -= by;
        self.budget.free.fetch_add(by, Ordering::Relaxed);
    }

    fn others_wait(&self) -> bool {
        self.budget.waiting.load(Ordering::Relaxed) > usize::from(self.waiting)
    }

    fn set_waiting(&mut self, waiting: bool) {
        match (self.waiting, waiting) {
            (false, true) => _ = self.budget.waiting.fetch_add(1, Ordering::Relaxed),
            (true, false) => _ = self.budget.waiting.fetch_sub(1, Ordering::Relaxed),
            _ => return,
        }
        self.waiting = waiting;
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.shrink(self.entries);
        self.set_waiting(false);
        self.budget.members.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_single_member_gets_everything_and_returns_it() {
        let budget = Arc::new(CacheBudget::new(1000));
        let mut grant = Grant::new(budget.clone());
        while grant.grow() {}
        assert_eq!((grant.entries(), budget.free()), (1000, 0));
        drop(grant);
        assert_eq!(budget.free(), 1000);
    }

    #[test]
    fn who_came_late_gets_a_fair_share_from_who_has_more() {
        let budget = Arc::new(CacheBudget::new(1000));
        let (mut first, mut second) = (Grant::new(budget.clone()), Grant::new(budget.clone()));
        while first.grow() {}
        assert_eq!(first.surplus(), 0, "nobody waits");
        for _ in 0..1000 {
            if !second.grow() {
                let surplus = first.surplus();
                first.shrink(surplus);
            }
            assert!(first.entries() + second.entries() + budget.free() == 1000);
        }
        assert_eq!((first.entries(), second.entries()), (500, 500));
        assert_eq!((first.surplus(), second.surplus()), (0, 0));
    }

    #[test]
    fn a_member_that_leaves_no_longer_waits() {
        let budget = Arc::new(CacheBudget::new(10));
        let (mut first, mut second) = (Grant::new(budget.clone()), Grant::new(budget));
        while first.grow() {}
        assert!(!second.grow());
        assert!(first.surplus() > 0);
        drop(second);
        assert_eq!(first.surplus(), 0);
    }

    #[test]
    fn a_budget_of_nothing_is_refused() {
        assert_eq!(CacheBudget::new(0).check(), Err(ParamsError::CacheSize { entries: 0 }));
        assert!(CacheBudget::new(usize::MAX).check().is_err());
        assert_eq!(CacheBudget::new(1).check(), Ok(()));
    }
}
