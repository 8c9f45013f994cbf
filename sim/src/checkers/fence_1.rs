//! FENCE-1: only the newest token of a slot can commit.
//!
//! A token that somebody was told of was granted. Whoever asks with an older one after that comes too late, and is refused.
//!
//! Must not know: what is committed.

use std::collections::BTreeMap;

use gapless_engine::retention::Domain;

/// The newest token of each slot that anybody was told of.
#[derive(Debug, Default)]
pub(crate) struct Fence1(BTreeMap<(Domain, u64), u64>);

impl Fence1 {
    /// Somebody was granted a slot. A token is never granted twice, but may be told again.
    pub(crate) fn granted(&mut self, domain: &Domain, slot: u64, token: u64) {
        let newest = self.0.entry((domain.clone(), slot)).or_insert(token);
        *newest = token.max(*newest);
    }

    /// Whether somebody was told of a newer token.
    pub(crate) fn is_outdated(&self, domain: &Domain, slot: u64, token: u64) -> bool {
        self.0.get(&(domain.clone(), slot)).is_some_and(|newest| token < *newest)
    }

    /// Somebody was told that his commit counts; `was_outdated` when he asked for it.
    pub(crate) fn committed(
        domain: &Domain,
        slot: u64,
        token: u64,
        was_outdated: bool,
    ) -> Result<(), String> {
        match was_outdated {
            true => {
                Err(format!("{domain:?}: token {token} committed slot {slot} after a newer one was granted"))
            }
            false => Ok(()),
        }
    }
}
