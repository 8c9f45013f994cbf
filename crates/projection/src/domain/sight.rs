//! What those outside see at a glance: how far a domain is, and whether there is work.

use gapless_types::{LogIndex, PartitionOffset};

use super::Domain;
use crate::command::Held;
use crate::slot::Stage;

/// A domain at a glance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight {
    /// Every slot up to here is resolved and applied.
    pub watermark: u64,
    /// The last slot.
    pub tail: u64,
    /// Slots that a lease would be granted now.
    pub grantable: u64,
    /// When time alone changes something, in log time: a lease has run out, or a slot has rested. None if it does not.
    pub due: Option<u64>,
    /// Log time.
    pub clock: u64,
    /// What is added to the leader's clock.
    pub offset: i64,
    /// The event of the lowest slot above the watermark that has one: all before it are visible.
    pub first_waiting: Option<PartitionOffset>,
    /// The first entry whose inputs are not all applied.
    pub next_entry: LogIndex,
    /// Whether it waits for an operator.
    pub is_halted: bool,
}

impl Sight {
    /// Whether everything that follows from the event at a place of the partition log is visible, if that was consumed.
    pub fn shows(&self, source: PartitionOffset) -> bool {
        self.first_waiting.is_none_or(|first| first > source)
    }
}

impl Domain {
    /// What is seen of it now.
    pub fn sight(&self) -> Sight {
        let header = &self.header;
        let last = header.watermark.saturating_add(self.settings.window);
        let grantable =
            if header.is_halted { 0 } else { self.window.grantable(last, header.clock).count() as u64 };
        let mut due = u64::MAX;
        for (_, slot) in self.window.iter() {
            due = due.min(match slot.stage {
                // At its deadline a lease still holds.
                Stage::Leased => slot.deadline.saturating_add(1),
                Stage::Ready(_) if slot.retry_at > header.clock => slot.retry_at,
                _ => u64::MAX,
            });
        }
        let claimed = self.window.iter().find_map(|(_, slot)| slot.source);
        // Those behind the window are not looked at: as long as there are any, nothing is promised.
        let behind = (header.tail >= self.window.end()).then_some(PartitionOffset::FIRST);
        Sight {
            watermark: header.watermark,
            tail: header.tail,
            grantable,
            due: (due < u64::MAX).then_some(due),
            clock: header.clock,
            offset: header.offset,
            first_waiting: claimed.or(behind),
            next_entry: self.next_entry(),
            is_halted: header.is_halted,
        }
    }

    /// The leases that a worker of this name holds now, lowest slot first.
    pub fn leases_of(&self, worker: &str) -> Vec<Held> {
        let held =
            self.window.iter().filter(|(_, slot)| slot.stage == Stage::Leased && &*slot.holder == worker);
        held.map(|(number, slot)| Held { slot: number, token: slot.token }).collect()
    }
}
