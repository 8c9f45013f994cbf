//! Commands that give rights: lease, allocate, renew.
//!
//! Invariants
//! - NUM-1: every token is higher than any before it.
//! - key-serial: a slot is not granted while a lower unresolved one has its key.

use gapless_types::WorkspaceId;

use super::{Domain, Trouble};
use crate::answer::{Done, Grant};
use crate::command::Held;
use crate::error::Fault;
use crate::limits::MAX_GRANTS;
use crate::refusal::Refusal;
use crate::slot::{Slot, Stage};

impl Domain {
    pub(super) fn lease(&mut self, worker: &str, ttl_ms: i64, max: u32) -> Result<Done, Trouble> {
        let ttl_ms = self.granted_ttl(ttl_ms)?;
        if self.header.is_halted {
            return Err(Refusal::DomainHalted.into());
        }
        let last = self.header.watermark.saturating_add(self.settings.window);
        let max = usize::try_from(max.min(MAX_GRANTS)).unwrap_or(usize::MAX);
        // Among the slots of one key only the first is grantable, so that none of those granted here keeps another from it.
        let numbers: Vec<u64> = self.window.grantable(last, self.header.clock).take(max).collect();
        let worker = worker.into();
        let mut grants = Vec::with_capacity(numbers.len());
        for number in numbers {
            grants.push(self.grant(number, &worker, ttl_ms)?);
        }
        Ok(Done::Granted(grants))
    }

    pub(super) fn allocate(
        &mut self,
        worker: &str,
        ttl_ms: i64,
        workspace: WorkspaceId,
    ) -> Result<Done, Trouble> {
        let ttl_ms = self.granted_ttl(ttl_ms)?;
        if self.header.is_halted {
            return Err(Refusal::DomainHalted.into());
        }
        if self.header.tail - self.header.watermark >= self.settings.window {
            return Err(Refusal::WindowFull.into());
        }
        let number = self.open_allocated(workspace);
        let grant = self.grant(number, &worker.into(), ttl_ms)?;
        Ok(Done::Granted(vec![grant]))
    }

    pub(super) fn renew(&mut self, held: Held, ttl_ms: i64) -> Result<Done, Trouble> {
        let ttl_ms = self.granted_ttl(ttl_ms)?;
        self.check_leased(held)?;
        let (clock, most) = (self.header.clock, self.settings.max_renewals);
        let slot = self.slot_mut(held.slot);
        if slot.renewals >= most {
            return Err(Refusal::RenewalLimit.into());
        }
        slot.renewals += 1;
        let before = slot.deadline;
        slot.deadline = before.max(clock.saturating_add(ttl_ms));
        let (expires_at, renewals) = (slot.deadline, slot.renewals);
        self.header.counters.granted_ms += expires_at - before;
        Ok(Done::Renewed { expires_at, renewals })
    }

    /// A duration as it is granted: at most the longest there is.
    fn granted_ttl(&self, ttl_ms: i64) -> Result<u64, Refusal> {
        let ttl_ms = u64::try_from(ttl_ms).ok().filter(|ttl_ms| *ttl_ms > 0).ok_or(Refusal::InvalidTtl)?;
        Ok(ttl_ms.min(self.settings.max_ttl_ms))
    }

    fn grant(&mut self, number: u64, worker: &std::sync::Arc<str>, ttl_ms: u64) -> Result<Grant, Fault> {
        self.drop_parts(number)?;
        self.header.token += 1;
        let (token, clock) = (self.header.token, self.header.clock);
        self.window.set_stage(number, Stage::Leased);
        let slot = self.slot_mut(number);
        assert!(token > slot.token, "FENCE-1: a grant has a higher token than any before it");
        slot.token = token;
        slot.attempts += 1;
        slot.renewals = 0;
        slot.holder = std::sync::Arc::clone(worker);
        slot.leased_at = clock;
        slot.deadline = clock.saturating_add(ttl_ms);
        let Slot { deadline, attempts, source, .. } = *slot;
        self.window.earliest_deadline = self.window.earliest_deadline.min(deadline);
        let counters = &mut self.header.counters;
        counters.granted += 1;
        counters.active += 1;
        counters.granted_ms += deadline - clock;
        Ok(Grant { slot: number, token, expires_at: deadline, attempt: attempts, source })
    }
}
