//! The slots above the watermark that are in memory: as many as the window has. Those behind it are rows of the store until the
//! watermark comes near.
//!
//! Invariants
//! - Memory is proportional to the window, neither to history nor to the backlog.
//! - What is behind the window was never leased: it is ready, or filled.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use gapless_types::WorkspaceId;

use super::Domain;
use crate::effect::Why;
use crate::error::Fault;
use crate::event::Event;
use crate::rows::{parked_key, slot_key};
use crate::slot::{Slot, Stage};

/// Slots in memory, the lowest first.
#[derive(Debug)]
pub(super) struct Window {
    /// The number of the first one.
    first: u64,
    slots: VecDeque<Slot>,
    /// Those that are ready.
    ready: BTreeSet<u64>,
    /// Unresolved ones by key, where keys are kept in order.
    keys: Option<BTreeMap<Arc<str>, BTreeSet<u64>>>,
    /// No lease ends before this time: the earliest deadline, or an earlier one.
    pub(super) earliest_deadline: u64,
}

impl Window {
    pub(super) fn new(first: u64, key_serial: bool) -> Self {
        Self {
            first,
            slots: VecDeque::new(),
            ready: BTreeSet::new(),
            keys: key_serial.then(BTreeMap::new),
            earliest_deadline: u64::MAX,
        }
    }

    /// Behind the last one in memory.
    pub(super) fn end(&self) -> u64 {
        self.first + self.slots.len() as u64
    }

    pub(super) fn get(&self, slot: u64) -> Option<&Slot> {
        self.slots.get(usize::try_from(slot.checked_sub(self.first)?).ok()?)
    }

    /// A slot to be changed. Its stage is changed by [`set_stage`](Self::set_stage) only.
    pub(super) fn get_mut(&mut self, slot: u64) -> Option<&mut Slot> {
        let found = self.slots.get_mut(usize::try_from(slot.checked_sub(self.first)?).ok()?)?;
        found.is_dirty = true;
        Some(found)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Slot)> {
        (self.first..).zip(&self.slots)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut Slot)> {
        (self.first..).zip(&mut self.slots)
    }

    pub(super) fn front(&self) -> Option<&Slot> {
        self.slots.front()
    }

    pub(super) fn push(&mut self, slot: Slot) {
        let number = self.end();
        if matches!(slot.stage, Stage::Ready(_)) {
            self.ready.insert(number);
        }
        if slot.stage == Stage::Leased {
            self.earliest_deadline = self.earliest_deadline.min(slot.deadline);
        }
        if let (Some(keys), Some(key), false) = (&mut self.keys, &slot.key, slot.is_resolved()) {
            keys.entry(Arc::clone(key)).or_default().insert(number);
        }
        self.slots.push_back(slot);
    }

    pub(super) fn set_stage(&mut self, number: u64, stage: Stage) {
        match stage {
            Stage::Ready(_) => self.ready.insert(number),
            _ => self.ready.remove(&number),
        };
        if let Some(slot) = self.get_mut(number) {
            slot.stage = stage;
        }
        if matches!(stage, Stage::Filled(_)) {
            self.forget_key(number);
        }
    }

    /// Takes the first one out: it is resolved.
    pub(super) fn pop(&mut self) -> Option<Slot> {
        self.forget_key(self.first);
        self.ready.remove(&self.first);
        let slot = self.slots.pop_front()?;
        self.first += 1;
        Some(slot)
    }

    fn forget_key(&mut self, number: u64) {
        let Some(keys) = &mut self.keys else { return };
        let index = usize::try_from(number - self.first).unwrap_or(usize::MAX);
        let Some(key) = self.slots.get(index).and_then(|slot| slot.key.as_ref()) else { return };
        if let Some(numbers) = keys.get_mut(key) {
            numbers.remove(&number);
            if numbers.is_empty() {
                keys.remove(key);
            }
        }
    }

    /// Slots up to `last` that are ready at this time and whose turn it is, the lowest first.
    pub(super) fn grantable(&self, last: u64, clock: u64) -> impl Iterator<Item = u64> {
        self.ready.range(..=last).copied().filter(move |number| {
            self.get(*number)
                .is_some_and(|slot| slot.retry_at <= clock && self.is_first_of_its_key(*number, slot))
        })
    }

    /// Whether no lower unresolved slot has its key, where keys are kept in order.
    fn is_first_of_its_key(&self, number: u64, slot: &Slot) -> bool {
        let (Some(keys), Some(key)) = (&self.keys, &slot.key) else { return true };
        keys.get(key).and_then(BTreeSet::first).is_none_or(|first| *first >= number)
    }
}

impl Domain {
    /// Opens a slot for an event.
    pub(super) fn open_slot(&mut self, event: Event<'_>) -> Result<u64, Fault> {
        if !event.is_within_limits() {
            return Err(Fault::Event);
        }
        let number = self.header.tail + 1;
        self.scratch.clear();
        event.encode(self.header.clock, &mut self.scratch);
        self.rows.put(&slot_key(b'v', number), &self.scratch)?;
        self.header.tail = number;
        if self.window.end() == number && number - self.header.watermark <= self.settings.window {
            let slot = self.fresh_slot(&event, self.header.clock)?;
            self.window.push(slot);
        }
        Ok(number)
    }

    /// A slot as its event makes it: ready, or filled if its key is parked.
    fn fresh_slot(&mut self, event: &Event<'_>, opened_at: u64) -> Result<Slot, Fault> {
        let mut slot = Slot::new(Some(event.source), event.workspace, opened_at);
        slot.key = event.key.map(Into::into);
        slot.rule = self.rules.number_of(event.event_type);
        if self.is_parked(event.key)? {
            slot.stage = Stage::Filled(Why::Parked);
            slot.is_dirty = true;
            self.count_fill(true);
        }
        Ok(slot)
    }

    pub(super) fn is_parked(&mut self, key: Option<&str>) -> Result<bool, Fault> {
        let Some(key) = key else { return Ok(false) };
        if !self.settings.park_key || self.header.parked == 0 {
            return Ok(false);
        }
        Ok(self.rows.view()?.get(&parked_key(key))?.is_some())
    }

    pub(super) fn count_fill(&mut self, claimed: bool) {
        self.header.counters.filled += 1;
        self.header.counters.dead_letters += u64::from(claimed);
    }

    /// Brings slots into memory for which the window has room.
    pub(super) fn load(&mut self) -> Result<(), Fault> {
        let last = self.header.tail.min(self.header.watermark.saturating_add(self.settings.window));
        while self.window.end() <= last {
            let slot = self.read_slot(self.window.end())?;
            self.window.push(slot);
        }
        Ok(())
    }

    /// A slot above the watermark, from the store.
    pub(super) fn read_slot(&mut self, number: u64) -> Result<Slot, Fault> {
        let view = self.rows.view()?;
        if let Some(bytes) = view.get(&slot_key(b's', number))? {
            return Ok(Slot::decode(&bytes)?);
        }
        let bytes = view.get(&slot_key(b'v', number))?;
        let bytes = bytes.ok_or(Fault::Malformed("an open slot without an event"))?;
        let (event, opened_at) = Event::decode(&bytes)?;
        self.fresh_slot(&event, opened_at)
    }

    /// Opens a slot that stands for no event.
    pub(super) fn open_allocated(&mut self, workspace: WorkspaceId) -> u64 {
        self.header.tail += 1;
        let number = self.header.tail;
        assert!(
            self.window.end() == number,
            "NUM-1: an allocated slot lies in the window, behind all others"
        );
        let slot = Slot { is_dirty: true, ..Slot::new(None, workspace, self.header.clock) };
        self.window.push(slot);
        number
    }
}
