//! What can be told of a domain: where its slots stand, what blocks, what it counted.

use std::sync::Arc;

use super::Domain;
use crate::effect::Why;
use crate::error::Fault;
use crate::slot::{Slot, Stage as SlotStage};
use crate::view::View;

/// Where an open slot stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It can be granted, or rests until it can.
    Ready,
    /// Somebody works on it.
    Leased,
    /// Its effect waits for lower slots.
    Staged,
    /// It was filled and waits for lower slots.
    Filled(Why),
}

/// A slot above the watermark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenSlot {
    /// Which.
    pub slot: u64,
    /// Where it stands.
    pub stage: Stage,
    /// Whether an event stands behind it.
    pub is_claimed: bool,
}

/// Where a domain stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Every slot up to here is resolved and applied.
    pub watermark: u64,
    /// The last slot.
    pub tail: u64,
    /// Log time, in milliseconds.
    pub clock: u64,
    /// Whether it waits for an operator.
    pub is_halted: bool,
    /// The slot that everything above it waits for.
    pub blocking: Option<Blocking>,
}

/// The lowest unresolved slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocking {
    /// Which.
    pub slot: u64,
    /// Where it stands.
    pub stage: Stage,
    /// The newest token: the id of the operation. 0 before the first grant.
    pub token: u64,
    /// Who held it last.
    pub holder: Arc<str>,
    /// When it was opened, in log time.
    pub opened_at: u64,
    /// When it was granted last.
    pub leased_at: u64,
    /// Until when that grant holds.
    pub expires_at: u64,
    /// When it was staged.
    pub committed_at: u64,
    /// Which attempt it is.
    pub attempt: u32,
}

impl Status {
    /// How many slots are not resolved.
    pub fn lag(&self) -> u64 {
        self.tail - self.watermark
    }

    /// How old the lowest unresolved slot is, in milliseconds of log time.
    pub fn lag_ms(&self) -> u64 {
        self.blocking.as_ref().map_or(0, |slot| self.clock.saturating_sub(slot.opened_at))
    }
}

impl Domain {
    /// Where the domain stands.
    pub fn status(&self) -> Status {
        let slot = self.window.front();
        Status {
            watermark: self.header.watermark,
            tail: self.header.tail,
            clock: self.header.clock,
            is_halted: self.header.is_halted,
            blocking: slot.map(|slot| blocking(self.header.watermark + 1, slot)),
        }
    }

    /// Where slots above `after` and above the watermark stand, at most so many.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn open_slots(&mut self, after: u64, limit: usize) -> Result<Vec<OpenSlot>, Fault> {
        let first = after.max(self.header.watermark) + 1;
        (first..=self.header.tail).take(limit).map(|number| self.open_slot_at(number)).collect()
    }

    /// Unresolved slots below a slot, at most so many: none if it has nothing to wait for.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn blocking(&mut self, slot: u64, limit: usize) -> Result<Vec<u64>, Fault> {
        let mut blocking = Vec::new();
        for number in self.header.watermark + 1..slot.min(self.header.tail + 1) {
            if blocking.len() >= limit {
                break;
            }
            if !matches!(self.open_slot_at(number)?.stage, Stage::Filled(_)) {
                blocking.push(number);
            }
        }
        Ok(blocking)
    }

    /// Slots that are in memory: at most as many as the window has, whatever waits behind it.
    pub fn slots_in_memory(&self) -> usize {
        self.window.iter().count()
    }

    fn open_slot_at(&mut self, number: u64) -> Result<OpenSlot, Fault> {
        let (stage, is_claimed) = match self.window.get(number) {
            Some(slot) => (slot.stage, slot.is_claimed()),
            None => (self.stage_behind_the_window(number)?, true),
        };
        Ok(OpenSlot { slot: number, stage: stage_of(stage), is_claimed })
    }

    /// Everything that can be read, as it is now. It stays as it is, and can be read on any thread.
    pub fn view(&self) -> View {
        View::new(self.rows.store.snapshot(), self.header.watermark, self.rules.clone(), self.settings.chunk)
    }

    fn stage_behind_the_window(&mut self, number: u64) -> Result<SlotStage, Fault> {
        // Looking is not coming near: nothing is counted.
        let counters = self.header.counters;
        let slot = self.read_slot(number);
        self.header.counters = counters;
        Ok(slot?.stage)
    }
}

fn blocking(number: u64, slot: &Slot) -> Blocking {
    Blocking {
        slot: number,
        stage: stage_of(slot.stage),
        token: slot.token,
        holder: Arc::clone(&slot.holder),
        opened_at: slot.opened_at,
        leased_at: slot.leased_at,
        expires_at: slot.deadline,
        committed_at: slot.staged_at,
        attempt: slot.attempts,
    }
}

fn stage_of(stage: SlotStage) -> Stage {
    match stage {
        SlotStage::Ready(_) => Stage::Ready,
        SlotStage::Leased => Stage::Leased,
        SlotStage::Staged => Stage::Staged,
        SlotStage::Filled(why) => Stage::Filled(why),
    }
}
