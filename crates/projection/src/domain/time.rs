//! Log time: how it passes, and what expires.
//!
//! Time decides who works, never what is right.
//!
//! Invariants
//! - The clock never goes back, whatever the leaders' clocks do.
//! - A staged slot cannot expire.
//! - Time without a leader does not count.

use super::Domain;
use crate::effect::Why;
use crate::error::Fault;
use crate::mistakes::Mistake;
use crate::settings::OnExpiry;
use crate::slot::{End, Stage};

impl Domain {
    /// Lets time pass up to the leader's: expires what is due, lowest first, and drains. What has expired.
    pub(super) fn advance(&mut self, time: u64) -> Result<Vec<u64>, Fault> {
        let now = i128::from(time) + i128::from(self.header.offset);
        let now = u64::try_from(now.clamp(0, i128::from(u64::MAX))).expect("clamped to what fits");
        self.header.clock = self.header.clock.max(now);
        let expired = self.expire()?;
        if !expired.is_empty() {
            self.drain()?;
        }
        Ok(expired)
    }

    /// Another node leads, with this time on its clock: every remaining time is what it was.
    pub(super) fn change_leader(&mut self, time: u64) {
        let offset = i128::from(self.header.clock) - i128::from(time);
        let offset = offset.clamp(i128::from(i64::MIN), i128::from(i64::MAX));
        self.header.offset = i64::try_from(offset).expect("clamped to what fits");
    }

    fn expire(&mut self) -> Result<Vec<u64>, Fault> {
        let clock = self.header.clock;
        if clock <= self.window.earliest_deadline {
            return Ok(Vec::new());
        }
        let mut expired = Vec::new();
        let mut earliest = u64::MAX;
        let waits_too = self.mistakes.makes(Mistake::ClockWhileWaiting);
        for (number, slot) in self.window.iter() {
            if slot.stage != Stage::Leased && !(waits_too && slot.stage == Stage::Staged) {
                continue;
            }
            if clock > slot.deadline {
                expired.push(number);
            } else {
                earliest = earliest.min(slot.deadline);
            }
        }
        self.window.earliest_deadline = earliest;
        // One that is exhausted may take later ones of its key along before their turn comes.
        let mut at = 0;
        while let Some(number) = expired.get(at).copied() {
            if self.slot(number).is_resolved() {
                expired.remove(at);
            } else {
                self.expire_slot(number)?;
                at += 1;
            }
        }
        if !expired.is_empty() {
            self.header.counters.expired_at_once = expired.len() as u64;
        }
        Ok(expired)
    }

    fn expire_slot(&mut self, number: u64) -> Result<(), Fault> {
        let (deadline, claimed) = {
            let slot = self.slot(number);
            (slot.deadline, slot.is_claimed())
        };
        let was_staged = self.slot(number).stage == Stage::Staged;
        self.end_lease(number, deadline);
        if was_staged {
            // Only by mistake: what was counted as waiting is counted as expired.
            self.header.counters.active += 1;
            self.header.counters.waiting -= 1;
        }
        self.header.counters.expired += 1;
        match self.settings.on_expiry {
            OnExpiry::Reclaim if claimed => {
                if self.is_exhausted(number) {
                    self.exhaust(number, End::Expired)?;
                } else {
                    self.give_back(number, End::Expired, 0)?;
                }
            }
            OnExpiry::Reclaim | OnExpiry::Fill => self.fill(number, Why::Expired),
        }
        Ok(())
    }
}
