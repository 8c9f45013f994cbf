//! A domain: the deterministic state machine of one projection, version and partition.
//!
//! ```text
//!             grant                    commit                 drain (in order)
//!   READY ───────────▶ LEASED(token) ───────────▶ STAGED ───────────▶ COMMITTED   final
//!     ▲                  │   │                       │ evaluation error, read conflict
//!     └── release/fail ──┘   │ expiry                └──▶ READY
//!     └──── expiry ◀─────────┘ (claimed)
//!   READY/LEASED/STAGED ── fill ──▶ FILLED(why)   final
//! ```
//!
//! Invariants
//! - NUM-1: slots are dense; tokens only grow.
//! - NUM-3: the same inputs give the same answers and the same state, on every replica and after every restart.
//! - ORD-1: effects are applied in slot order, once each; the result equals the serial fold of the events.
//! - FENCE-1: only the newest token of a slot can commit.
//! - The watermark never passes an unresolved slot and never falls.
//!
//! Must not know: clocks, threads, sockets, Raft, partitions. Time comes with the inputs.

mod draining;
mod granting;
mod header;
mod persistence;
mod settling;
mod sight;
mod status;
mod time;
mod window;

use gapless_log::input::Malformed;
use gapless_types::{LogIndex, MachineVersion};

use crate::answer::{Answer, Done};
use crate::command::Command;
use crate::counters::Counters;
use crate::error::Fault;
use crate::event::Event;
use crate::mistakes::Mistakes;
use crate::refusal::Refusal;
use crate::rows::Rows;
use crate::rule::Rules;
use crate::settings::Settings;
use header::Header;
use window::Window;

pub use persistence::{Definition, Image, Installing, read_domain};
pub use sight::Sight;
pub use status::{Blocking, OpenSlot, Stage, Status};

/// The state machine, over a store of its own.
#[derive(Debug)]
pub struct Domain {
    settings: Settings,
    rules: Rules,
    rows: Rows,
    header: Header,
    window: Window,
    /// Staged slots that were filled by the last drain because their attempts were used up.
    given_up: Vec<u64>,
    /// Kept so that a command allocates nothing for its rows.
    scratch: Vec<u8>,
    mistakes: Mistakes,
    stopped: Option<Fault>,
}

/// Place of an input: its entry in the replicated log, and its position there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The entry.
    pub index: LogIndex,
    /// Which of its records, from 0 on.
    pub position: u32,
}

/// How an input is applied, whenever and wherever it is: what its entry in the replicated log was stamped with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Time of the leader's clock, in milliseconds.
    pub time: u64,
    /// The machine version. A newer version branches on it; there is one so far.
    pub machine_version: MachineVersion,
}

impl Stamp {
    /// A time in the first machine version.
    pub const fn first(time: u64) -> Self {
        Self { time, machine_version: MachineVersion::FIRST }
    }
}

/// What a domain consumes, in the order of places.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// An event that is routed to the projection: it opens a slot.
    Outcome(Event<'a>),
    /// Bytes of a [`Command`].
    Command(&'a [u8]),
}

/// What became of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It was applied before: its place is not above the last one.
    Again,
    /// A slot was opened.
    Opened(u64),
    /// A command was answered.
    Answered(Answer),
    /// The bytes are no command. Nothing changed.
    Malformed(Malformed),
}

/// Why a command goes no further.
#[derive(Debug)]
enum Trouble {
    Refused(Refusal),
    Fault(Fault),
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl<F: Into<Fault>> From<F> for Trouble {
    fn from(fault: F) -> Self {
        Self::Fault(fault.into())
    }
}

impl Domain {
    /// Applies the next input, which has this place and this stamp.
    ///
    /// Inputs come in the order of their places. Those that were applied before the checkpoint may come again, and change nothing.
    ///
    /// # Errors
    /// If the store fails, which stops the domain: opened again, it goes on from its checkpoint.
    pub fn apply(&mut self, place: Place, stamp: Stamp, input: Input<'_>) -> Result<Applied, Fault> {
        if let Some(fault) = &self.stopped {
            return Err(fault.clone());
        }
        if self.header.contains(place) {
            return Ok(Applied::Again);
        }
        let applied = self.step(stamp.time, input).inspect_err(|fault| self.stopped = Some(fault.clone()))?;
        self.header.place = Some(place);
        debug_assert!(
            self.header.counters.is_balanced(),
            "every grant has one end: {:?}",
            self.header.counters
        );
        Ok(applied)
    }

    /// Every input of entries up to this one was given: the domain needs none of them again once it has made a checkpoint.
    pub fn passed(&mut self, index: LogIndex) {
        self.header.entries = self.header.entries.max(index.get().saturating_add(1));
    }

    fn step(&mut self, time: u64, input: Input<'_>) -> Result<Applied, Fault> {
        let applied = match input {
            Input::Outcome(event) => {
                self.advance(time)?;
                let slot = self.open_slot(event)?;
                self.drain()?;
                Applied::Opened(slot)
            }
            Input::Command(bytes) => match Command::decode(bytes) {
                Ok(command) => Applied::Answered(self.answer(time, command)?),
                Err(malformed) => Applied::Malformed(malformed),
            },
        };
        self.rows.apply()?;
        Ok(applied)
    }

    fn answer(&mut self, time: u64, command: Command<'_>) -> Result<Answer, Fault> {
        let done = match self.obey(time, command) {
            Ok(done) => done,
            Err(Trouble::Refused(refusal)) => {
                self.count_refusal(refusal);
                Done::Refused(refusal)
            }
            Err(Trouble::Fault(fault)) => return Err(fault),
        };
        Ok(Answer { watermark: self.header.watermark, done })
    }

    fn obey(&mut self, time: u64, command: Command<'_>) -> Result<Done, Trouble> {
        if command == Command::LeaderChange {
            self.change_leader(time);
            return Ok(Done::LeaderChanged);
        }
        let expired = self.advance(time)?;
        match command {
            Command::Lease { worker, ttl_ms, max } => self.lease(worker, ttl_ms, max),
            Command::Allocate { worker, ttl_ms, workspace } => self.allocate(worker, ttl_ms, workspace),
            Command::Renew { held, ttl_ms } => self.renew(held, ttl_ms),
            Command::Commit { held, part, is_last, bytes } => self.commit(held, part, is_last, bytes),
            Command::Release { held } => self.release(held),
            Command::Fail { held, .. } => self.fail(held),
            Command::Skip { slot } => self.skip(slot),
            Command::Tick | Command::LeaderChange => Ok(Done::Ticked { expired }),
        }
    }

    fn count_refusal(&mut self, refusal: Refusal) {
        match refusal {
            Refusal::StaleToken => self.header.counters.fenced += 1,
            Refusal::WindowFull => self.header.counters.window_refusals += 1,
            _ => {}
        }
    }

    /// Every slot up to here is resolved and applied.
    pub fn watermark(&self) -> u64 {
        self.header.watermark
    }

    /// The last slot.
    pub fn tail(&self) -> u64 {
        self.header.tail
    }

    /// The log time of the domain, in milliseconds.
    pub fn clock(&self) -> u64 {
        self.header.clock
    }

    /// What happened so far.
    pub fn counters(&self) -> &Counters {
        &self.header.counters
    }

    /// The rules it was opened with.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The settings it was opened with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What it stopped with, if it has.
    pub fn fault(&self) -> Option<&Fault> {
        self.stopped.as_ref()
    }
}
