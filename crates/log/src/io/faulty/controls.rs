//! Everything of a faulty disk that is not its content: generator, plan, power, capacity, journals.
//!
//! Must not know: how a fault changes the content.

use std::io;
use std::path::PathBuf;

use fastrand::Rng;

use super::journal::{Injected, InjectedKind, Operation};
use super::plan::{Lie, Plan};
use crate::io::memory::disk::{Disk, InodeNumber};
use crate::io::memory::power_cut_error;

/// The sync that was under way when the power went: part of what it was to carry over may have arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Interrupted {
    Content(InodeNumber),
    Names(PathBuf),
}

/// What becomes of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Proceed,
    Fail,
    Cut,
}

#[derive(Clone, Debug)]
enum Power {
    On,
    Off { during: Option<Interrupted> },
}

pub(super) struct Controls {
    pub(super) rng: Rng,
    /// Draws for reads alone: how many there are depends on other threads.
    read_rng: Rng,
    pub(super) plan: Plan,
    power: Power,
    pub(super) capacity: Option<u64>,
    pub(super) short_writes: u8,
    pub(super) short_reads: u8,
    pub(super) interrupts: u8,
    operations: u64,
    pub(super) trace: Vec<Operation>,
    pub(super) injected: Vec<Injected>,
}

impl Controls {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let read_rng = rng.fork();
        Self {
            rng,
            read_rng,
            plan: Plan::default(),
            power: Power::On,
            capacity: None,
            short_writes: 0,
            short_reads: 0,
            interrupts: 0,
            operations: 0,
            trace: Vec::new(),
            injected: Vec::new(),
        }
    }

    pub(super) fn fork(&self, seed: u64) -> Self {
        Self {
            power: self.power.clone(),
            capacity: self.capacity,
            short_writes: self.short_writes,
            short_reads: self.short_reads,
            interrupts: self.interrupts,
            ..Self::new(seed)
        }
    }

    pub(super) fn check_power(&self) -> io::Result<()> {
        match self.power {
            Power::On => Ok(()),
            Power::Off { .. } => Err(power_cut_error()),
        }
    }

    /// Counts and traces an operation and says what becomes of it. After [`Verdict::Cut`] the power is off.
    pub(super) fn begin(&mut self, operation: Operation) -> Verdict {
        self.operations += 1;
        let operation = Operation { number: self.operations, ..operation };
        let verdict = if self.plan.take_cut(operation.number) {
            self.power = Power::Off { during: None };
            self.injected.push(Injected::during(InjectedKind::PowerCut, &operation));
            Verdict::Cut
        } else if self.plan.take_failure(operation.number, operation.kind) {
            self.injected.push(Injected::during(InjectedKind::Failure(operation.kind), &operation));
            Verdict::Fail
        } else {
            Verdict::Proceed
        };
        self.trace.push(operation);
        verdict
    }

    /// How the write that just began lies, if it does.
    pub(super) fn take_lie(&mut self) -> Option<Lie> {
        self.plan.take_lie(self.operations)
    }

    /// Journals what was done wrong in the operation that just began.
    pub(super) fn journal_last(&mut self, injected: impl FnOnce(&Operation) -> Injected) {
        let operation = self.trace.last().expect("an operation has begun");
        self.injected.push(injected(operation));
    }

    /// Notes that the operation in which the power went was a sync.
    pub(super) fn interrupt(&mut self, sync: Interrupted) {
        self.power = Power::Off { during: Some(sync) };
    }

    /// Returns the sync that was under way when the power went, if one was.
    pub(super) fn restore_power(&mut self) -> Option<Interrupted> {
        match std::mem::replace(&mut self.power, Power::On) {
            Power::On => None,
            Power::Off { during } => during,
        }
    }

    pub(super) fn operations(&self) -> u64 {
        self.operations
    }

    pub(super) fn reset_operations(&mut self) {
        self.operations = 0;
        self.trace.clear();
    }

    /// Whether a file of length `before` may become `after` bytes long.
    pub(super) fn has_room(&self, disk: &Disk, before: u64, after: u64) -> bool {
        let growth = after.saturating_sub(before);
        self.capacity.is_none_or(|capacity| {
            growth == 0 || disk.used_bytes().checked_add(growth).is_some_and(|needed| needed <= capacity)
        })
    }

    /// How many of `length` bytes a write takes this time, or that it is interrupted.
    pub(super) fn write_portion(&mut self, length: usize) -> io::Result<usize> {
        portion(&mut self.rng, self.interrupts, self.short_writes, length)
    }

    /// The same for a read.
    pub(super) fn read_portion(&mut self, length: usize) -> io::Result<usize> {
        portion(&mut self.read_rng, self.interrupts, self.short_reads, length)
    }
}

fn portion(rng: &mut Rng, interrupts: u8, shorts: u8, length: usize) -> io::Result<usize> {
    if happens(rng, interrupts) {
        return Err(io::ErrorKind::Interrupted.into());
    }
    if length > 1 && happens(rng, shorts) {
        return Ok(rng.usize(1..length));
    }
    Ok(length)
}

fn happens(rng: &mut Rng, percent: u8) -> bool {
    percent > 0 && rng.u8(0..100) < percent
}
