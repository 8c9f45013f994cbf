//! Commands that end leases: commit, release, fail, skip. And what slots become when leases end.
//!
//! Invariants
//! - FENCE-1: only the newest token of a slot can commit.
//! - A refusal changes nothing.
//! - Submitting ends the lease: a staged slot cannot expire.

use gapless_types::mistakes::{Mistake as Classic, makes};
use sha2::{Digest, Sha256};

use super::{Domain, Trouble};
use crate::answer::{CommitStatus, Done, Next};
use crate::command::Held;
use crate::effect::{CommitDigest, Effect, Why};
use crate::error::Fault;
use crate::limits::{INLINE_BYTES, MAX_PARTS};
use crate::mistakes::Mistake;
use crate::payload::Payload;
use crate::refusal::Refusal;
use crate::rows::{EFFECTS, parked_key, piece_key, slot_key};
use crate::settings::OnExhausted;
use crate::slot::{End, Slot, Stage};

/// What a good token finds.
enum Standing {
    Leased,
    Staged(CommitDigest),
    Committed(CommitDigest),
}

/// Commits.
impl Domain {
    pub(super) fn commit(
        &mut self,
        held: Held,
        part: u32,
        is_last: bool,
        bytes: &[u8],
    ) -> Result<Done, Trouble> {
        let digest = match self.standing(held)? {
            Standing::Leased => return self.submit(held.slot, part, is_last, bytes),
            Standing::Staged(digest) | Standing::Committed(digest) => digest,
        };
        if !is_last {
            return Ok(Done::PartReceived { parts: part });
        }
        if chained(&digest.before_last, bytes) != digest.whole {
            return Err(Refusal::PayloadMismatch.into());
        }
        self.given_up.clear();
        Ok(Done::Committed { status: self.commit_status(held.slot), is_duplicate: true })
    }

    /// The newest holder brings a part, or all there is.
    fn submit(&mut self, number: u64, part: u32, is_last: bool, bytes: &[u8]) -> Result<Done, Trouble> {
        let slot = self.slot(number);
        let (received, so_far) = (slot.parts, slot.digest.whole);
        if part == 0 || part > MAX_PARTS {
            return Err(Refusal::InvalidPart.into());
        }
        if part <= received && !is_last {
            return self.repeat_part(number, part, bytes);
        }
        if part != received + 1 {
            return Err(Refusal::InvalidPart.into());
        }
        let whole = chained(&so_far, bytes);
        if !is_last {
            self.keep_part(number, part, bytes)?;
            self.slot_mut(number).digest.whole = whole;
            return Ok(Done::PartReceived { parts: part });
        }
        if received == 0 {
            self.check_payload(number, bytes)?;
        } else {
            let mut all = self.stored_parts(number, received)?;
            all.extend_from_slice(bytes);
            self.check_payload(number, &all)?;
        }
        if received > 0 || bytes.len() > INLINE_BYTES {
            self.keep_part(number, part, bytes)?;
        } else {
            self.slot_mut(number).inline = bytes.into();
        }
        self.slot_mut(number).digest = CommitDigest { whole, before_last: so_far };
        self.stage(number);
        self.given_up.clear();
        self.drain()?;
        Ok(Done::Committed { status: self.commit_status(number), is_duplicate: false })
    }

    fn stage(&mut self, number: u64) {
        let clock = self.header.clock;
        self.end_lease(number, clock);
        self.window.set_stage(number, Stage::Staged);
        self.slot_mut(number).staged_at = clock;
        self.header.counters.waiting += 1;
    }

    /// Whether the payload fits its slot: only then it can be drained.
    fn check_payload(&self, number: u64, bytes: &[u8]) -> Result<(), Refusal> {
        let payload = Payload::decode(bytes).map_err(|_| Refusal::InvalidPayload)?;
        let Payload::Exploded { read_watermark, exploded } = payload else { return Ok(()) };
        let rule = self.slot(number).rule.ok_or(Refusal::NoRule)?;
        let fits = *self.rules.at(rule).table == *exploded.table && read_watermark <= self.header.watermark;
        if fits { Ok(()) } else { Err(Refusal::InvalidPayload) }
    }

    fn commit_status(&self, number: u64) -> CommitStatus {
        // What was drained as a fill was refused before, unless it was this very commit that used the attempts up.
        match self.window.get(number).map(|slot| slot.stage) {
            Some(Stage::Staged) => CommitStatus::Staged,
            Some(Stage::Filled(_)) => CommitStatus::Filled,
            Some(Stage::Ready(_) | Stage::Leased) => CommitStatus::Returned,
            None if self.given_up.contains(&number) => CommitStatus::Filled,
            None => CommitStatus::Applied,
        }
    }

    fn keep_part(&mut self, number: u64, part: u32, bytes: &[u8]) -> Result<(), Fault> {
        self.rows.put(&piece_key(b'p', number, part), bytes)?;
        self.slot_mut(number).parts = part;
        Ok(())
    }

    fn repeat_part(&mut self, number: u64, part: u32, bytes: &[u8]) -> Result<Done, Trouble> {
        let parts = self.slot(number).parts;
        let stored = self.rows.view()?.get(&piece_key(b'p', number, part))?;
        if stored.is_some_and(|stored| stored == bytes) {
            Ok(Done::PartReceived { parts })
        } else {
            Err(Refusal::InvalidPart.into())
        }
    }

    /// The parts that are in the store, one behind the other.
    pub(super) fn stored_parts(&mut self, number: u64, parts: u32) -> Result<Vec<u8>, Fault> {
        let view = self.rows.view()?;
        let mut all = Vec::new();
        for part in 1..=parts {
            let bytes = view.get(&piece_key(b'p', number, part))?;
            all.extend_from_slice(&bytes.ok_or(Fault::Malformed("a commit without one of its parts"))?);
        }
        Ok(all)
    }

    /// Forgets what an earlier holder brought.
    pub(super) fn drop_parts(&mut self, number: u64) -> Result<(), Fault> {
        let parts = self.slot(number).parts;
        for part in 1..=parts {
            self.rows.delete(&piece_key(b'p', number, part))?;
        }
        let slot = self.slot_mut(number);
        slot.parts = 0;
        slot.digest = CommitDigest::default();
        slot.inline = Box::default();
        Ok(())
    }
}

/// The other ends of a lease.
impl Domain {
    pub(super) fn release(&mut self, held: Held) -> Result<Done, Trouble> {
        self.check_leased(held)?;
        self.end_lease(held.slot, self.header.clock);
        self.header.counters.released += 1;
        if self.slot(held.slot).is_claimed() {
            self.slot_mut(held.slot).attempts -= 1;
            self.give_back(held.slot, End::Released, 0)?;
        } else {
            self.fill(held.slot, Why::Released);
        }
        self.drain()?;
        Ok(Done::Released)
    }

    pub(super) fn fail(&mut self, held: Held) -> Result<Done, Trouble> {
        self.check_leased(held)?;
        self.end_lease(held.slot, self.header.clock);
        let attempts = self.slot(held.slot).attempts;
        let next = self.retry_or_give_up(held.slot, End::Released)?;
        self.drain()?;
        Ok(Done::Failed { attempts, next })
    }

    pub(super) fn skip(&mut self, number: u64) -> Result<Done, Trouble> {
        if number == 0 || number > self.header.tail {
            return Err(Refusal::UnknownSlot.into());
        }
        if number <= self.header.watermark {
            return Err(Refusal::AlreadyResolved.into());
        }
        if number >= self.window.end() {
            self.skip_behind_the_window(number)?;
        } else {
            if self.slot(number).is_resolved() {
                return Err(Refusal::AlreadyResolved.into());
            }
            self.void(number, Why::Skipped);
        }
        self.header.is_halted = false;
        self.drain()?;
        Ok(Done::Skipped)
    }

    fn skip_behind_the_window(&mut self, number: u64) -> Result<(), Trouble> {
        let counters = self.header.counters;
        let mut slot = self.read_slot(number)?;
        self.header.counters = counters;
        if slot.is_resolved() {
            return Err(Refusal::AlreadyResolved.into());
        }
        slot.stage = Stage::Filled(Why::Skipped);
        self.count_fill(true);
        self.scratch.clear();
        slot.encode(&mut self.scratch);
        self.rows.put(&slot_key(b's', number), &self.scratch)?;
        Ok(())
    }

    /// Fills a slot whoever holds it.
    fn void(&mut self, number: u64, why: Why) {
        match self.slot(number).stage {
            Stage::Leased => {
                self.end_lease(number, self.header.clock);
                self.header.counters.voided += 1;
            }
            Stage::Staged => {
                self.header.counters.waiting -= 1;
                self.header.counters.voided += 1;
            }
            Stage::Ready(_) | Stage::Filled(_) => {}
        }
        self.fill(number, why);
    }

    /// Counts an error against a slot: it is tried again, filled, or halts the domain.
    pub(super) fn retry_or_give_up(&mut self, number: u64, end: End) -> Result<Next, Fault> {
        self.header.counters.failed += 1;
        if !self.slot(number).is_claimed() {
            self.fill(number, Why::Failed);
            return Ok(Next::Filled);
        }
        if self.is_exhausted(number) {
            return self.exhaust(number, end);
        }
        let rest = self.settings.backoff_after(self.slot(number).attempts);
        let retry_at = self.header.clock.saturating_add(rest);
        self.give_back(number, end, retry_at)?;
        Ok(Next::Retry(retry_at))
    }

    pub(super) fn is_exhausted(&self, number: u64) -> bool {
        self.slot(number).attempts >= self.settings.max_attempts
    }

    pub(super) fn exhaust(&mut self, number: u64, end: End) -> Result<Next, Fault> {
        match self.settings.on_exhausted {
            OnExhausted::Halt => {
                self.header.is_halted = true;
                self.window.set_stage(number, Stage::Ready(Some(end)));
                Ok(Next::Halted)
            }
            OnExhausted::Fill => {
                self.fill(number, Why::Exhausted);
                if self.settings.park_key {
                    self.park(number)?;
                }
                Ok(Next::Filled)
            }
        }
    }

    /// The key of an exhausted slot takes its later slots along. Those behind the window are found parked when they come near.
    fn park(&mut self, exhausted: u64) -> Result<(), Fault> {
        let Some(key) = self.slot(exhausted).key.clone() else { return Ok(()) };
        if !self.is_parked(Some(&key))? {
            self.rows.put(&parked_key(&key), b"")?;
            self.header.parked += 1;
        }
        let later = self.window.iter().filter(|(number, slot)| {
            *number > exhausted && !slot.is_resolved() && slot.key.as_ref() == Some(&key)
        });
        let later: Vec<u64> = later.map(|(number, _)| number).collect();
        for number in later {
            self.void(number, Why::Parked);
        }
        Ok(())
    }

    /// Makes a slot ready again, from this time on.
    pub(super) fn give_back(&mut self, number: u64, end: End, retry_at: u64) -> Result<(), Fault> {
        if self.mistakes.makes(Mistake::LeaseOrder) && self.slot(number).is_claimed() {
            return self.open_anew(number);
        }
        self.window.set_stage(number, Stage::Ready(Some(end)));
        self.slot_mut(number).retry_at = retry_at;
        Ok(())
    }

    /// Only by mistake: the event gets another place, behind all others.
    fn open_anew(&mut self, number: u64) -> Result<(), Fault> {
        let bytes = self.rows.view()?.get(&slot_key(b'v', number))?;
        let bytes = bytes.ok_or(Fault::Malformed("an open slot without an event"))?;
        let (event, _) = crate::event::Event::decode(&bytes)?;
        self.open_slot(event)?;
        self.fill(number, Why::Released);
        Ok(())
    }

    pub(super) fn fill(&mut self, number: u64, why: Why) {
        let claimed = self.slot(number).is_claimed();
        self.window.set_stage(number, Stage::Filled(why));
        self.count_fill(claimed);
    }

    /// The time of a lease is over: it was held until then.
    pub(super) fn end_lease(&mut self, number: u64, until: u64) {
        let held = until.saturating_sub(self.slot(number).leased_at);
        self.header.counters.active -= 1;
        self.header.counters.held_ms += held;
    }
}

/// Who holds what.
impl Domain {
    /// A slot in memory.
    pub(super) fn slot(&self, number: u64) -> &Slot {
        self.window.get(number).expect("slots that leases are about lie in the window")
    }

    pub(super) fn slot_mut(&mut self, number: u64) -> &mut Slot {
        self.window.get_mut(number).expect("slots that leases are about lie in the window")
    }

    /// Refuses unless the slot is leased with this token.
    pub(super) fn check_leased(&mut self, held: Held) -> Result<(), Trouble> {
        match self.standing(held)? {
            Standing::Leased => Ok(()),
            Standing::Staged(_) | Standing::Committed(_) => Err(Refusal::AlreadyCommitted.into()),
        }
    }

    fn standing(&mut self, held: Held) -> Result<Standing, Trouble> {
        let Held { slot: number, token } = held;
        if number == 0 || number > self.header.tail {
            return Err(Refusal::UnknownSlot.into());
        }
        if number <= self.header.watermark {
            return self.standing_of_resolved(held);
        }
        let Some(slot) = self.window.get(number) else { return Err(Refusal::UnknownToken.into()) };
        let no_fencing = self.mistakes.makes(Mistake::NoFencing) || makes(Classic::ExpiredTokenCommits);
        let unfenced = no_fencing && token > 0 && slot.stage == Stage::Leased;
        if !(unfenced && token < slot.token) {
            check_token(token, slot.token)?;
        }
        match slot.stage {
            Stage::Leased => Ok(Standing::Leased),
            Stage::Staged => Ok(Standing::Staged(slot.digest)),
            Stage::Filled(_) => Err(Refusal::SlotFilled.into()),
            Stage::Ready(end) => Err(end.map_or(Refusal::UnknownToken, End::refusal).into()),
        }
    }

    /// What is known of a slot at or below the watermark is its effect.
    fn standing_of_resolved(&mut self, held: Held) -> Result<Standing, Trouble> {
        let first = self.rows.view()?.get(&piece_key(EFFECTS, held.slot, 0))?;
        let first = first.ok_or(Fault::Malformed("a resolved slot without an effect"))?;
        let (head, kind, _) =
            Effect::decode_head(&mut gapless_log::input::Input::new(&first)).map_err(Fault::from)?;
        check_token(held.token, head.token)?;
        if Effect::is_fill(kind) {
            Err(Refusal::SlotFilled.into())
        } else {
            Ok(Standing::Committed(head.digest))
        }
    }
}

fn check_token(token: u64, newest: u64) -> Result<(), Refusal> {
    match token.cmp(&newest) {
        std::cmp::Ordering::Less => Err(Refusal::StaleToken),
        std::cmp::Ordering::Greater => Err(Refusal::UnknownToken),
        std::cmp::Ordering::Equal if newest == 0 => Err(Refusal::UnknownToken),
        std::cmp::Ordering::Equal => Ok(()),
    }
}

/// The fingerprint of parts up to this one.
fn chained(before: &[u8; 16], part: &[u8]) -> [u8; 16] {
    let mut hash = Sha256::new();
    hash.update(before);
    hash.update(part);
    let whole: [u8; 32] = hash.finalize().into();
    let mut digest = [0; 16];
    digest.copy_from_slice(&whole[..16]);
    digest
}
