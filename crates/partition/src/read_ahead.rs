//! Reads outcomes one after another from the partition log, which has them in frames: whoever asks for neighbours gets them from one
//! reading, and whoever asks for distant ones pays for no more than these.
//!
//! Must not know: who asks, and in which order the log keeps them.

use gapless_log::{Log, Record};
use gapless_store::Direction;
use gapless_types::{PartitionOffset, Position};

use crate::error::Fault;
use crate::stored::StoredOutcome;

/// Offsets that count as near: about as many as one frame holds.
const NEAR: u64 = 256;
/// Bytes that are read ahead, about.
const AHEAD_BYTES: u64 = 64 << 10;

/// A reader that goes in one direction.
#[derive(Debug)]
pub(crate) struct ReadAhead<'a> {
    log: &'a Log,
    direction: Direction,
    last: Option<PartitionOffset>,
    /// By ascending position.
    held: Vec<Record>,
    gave_up: bool,
}

impl<'a> ReadAhead<'a> {
    pub(crate) fn new(log: &'a Log, direction: Direction) -> Self {
        Self { log, direction, last: None, held: Vec::new(), gave_up: false }
    }

    pub(crate) fn read(&mut self, offset: PartitionOffset) -> Result<StoredOutcome, Fault> {
        if self.held(offset).is_none() && self.is_near(offset) && !self.gave_up {
            // What cannot be read ahead may not be what was asked for: that is read alone, and says what is wrong with it.
            self.held = self.ahead(offset).unwrap_or_default();
            // Outcomes so large that those in front of it fill a reading, or damage: one by one from here on.
            self.gave_up = self.held(offset).is_none();
        }
        self.last = Some(offset);
        match self.held(offset) {
            Some(record) => StoredOutcome::new(offset, record.payload.clone()),
            None => StoredOutcome::read(self.log, offset),
        }
    }

    fn held(&self, offset: PartitionOffset) -> Option<&Record> {
        let found = self.held.binary_search_by_key(&offset.get(), |record| record.position.get());
        found.ok().map(|at| &self.held[at])
    }

    fn is_near(&self, offset: PartitionOffset) -> bool {
        self.last.is_some_and(|last| last.get().abs_diff(offset.get()) < NEAR)
    }

    fn ahead(&self, offset: PartitionOffset) -> Option<Vec<Record>> {
        let (from, end) = match self.direction {
            Direction::Forward => (offset.get(), offset.get().saturating_add(NEAR)),
            Direction::Backward => {
                (offset.get().saturating_sub(NEAR - 1).max(1), offset.get().saturating_add(1))
            }
        };
        self.log.read_range(Position::new(from), Position::new(end), AHEAD_BYTES).ok()
    }
}
