//! The background work: the flusher and the actualizer, as one state machine that is stepped.
//!
//! Invariants
//! - Values and offset are taken together and written in one call; they are forgotten only after it succeeded.
//! - What is written for a value that came from the log's tail is never less than what is stored: a tail may hold an
//!   imported id below the last number.
//! - One write or scan at a time: actualization begins when no write is going on, and what was on its way is forgotten
//!   with the rest.
//! - The log is at its end when a scan says so, was not broken off, and delivered every offset.
//!
//! Each step makes at most one write or scan. A step that would have to wait says until when, so that a thread can sleep
//! and a simulation can go on with something else. That a scan breaks off when the set is full, and goes on from where it
//! was, is what lets one thread do both: a callback that waits for a flusher would need a second one.
//!
//! Must not know: threads, where time comes from.

use std::error::Error;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use gapless_types::PartitionOffset;

use crate::error::Fault;
use crate::shared::{Shared, State, Status, Watch};
use crate::storage::Storage;
use crate::time::Backoff;
use crate::unflushed::NumberSet;

/// Records after which a scan comes up for air, so that progress is written during a long one too.
const RECORDS_PER_SCAN: u64 = 16_384;

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Something was done; there may be more.
    Worked,
    /// There is nothing to do until that time, or until something happens.
    Wait { until: Option<Duration>, watch: Watch },
    /// Ended for good.
    Stopped,
}

/// What is done next.
enum Task {
    Stop,
    BeginActualization,
    Write,
    Actualize,
    Wait { until: Option<Duration>, watch: Watch },
}

pub(crate) struct Background<S> {
    shared: Arc<Shared<S>>,
    /// What is on its way to the storage.
    in_flight: Option<Batch>,
    /// Values from the log's tail came in since the last write began.
    from_the_tail: bool,
    /// When a write that failed is tried again.
    retry_write_at: Duration,
    /// Until when something small waits for more.
    linger_until: Option<Duration>,
    write_backoff: Backoff,
    actualization: Option<Actualization>,
    actualize_backoff: Backoff,
}

/// Values and the offset that goes with them.
struct Batch {
    values: Arc<NumberSet>,
    offset: PartitionOffset,
    /// Some of the values come from the log's tail, and nobody has compared them with what is stored.
    from_the_tail: bool,
}

struct Actualization {
    began: Duration,
    /// The stored offset has been read, and the scan has begun.
    scanning: bool,
    /// When to go on, after a failure or when the set was full.
    not_before: Duration,
}

/// Why a scan was broken off.
enum Break {
    Pause,
    Fault(Fault),
}

impl<S: Storage> Background<S> {
    pub(crate) fn new(shared: Arc<Shared<S>>) -> Self {
        let (delay, seed) = (shared.params.retry_delay, shared.params.seed);
        Self {
            shared,
            in_flight: None,
            from_the_tail: false,
            retry_write_at: Duration::ZERO,
            linger_until: None,
            write_backoff: Backoff::new(delay, seed),
            actualization: None,
            actualize_backoff: Backoff::new(delay, !seed),
        }
    }

    /// Does the next thing that is due.
    pub(crate) fn step(&mut self) -> Step {
        match self.next_task() {
            Task::Stop => {
                self.stop();
                return Step::Stopped;
            }
            Task::BeginActualization => self.begin_actualization(),
            Task::Write => self.write(),
            Task::Actualize => self.actualize(),
            Task::Wait { until, watch } => return Step::Wait { until, watch },
        }
        Step::Worked
    }

    fn now(&self) -> Duration {
        self.shared.params.clock.now()
    }

    fn next_task(&mut self) -> Task {
        let now = self.now();
        let shared = self.shared.clone();
        let mut state = shared.state();
        if state.closing {
            return Task::Stop;
        }
        if let Status::Failed(_) = state.status {
            return Task::Wait { until: None, watch: Watch::Nothing };
        }
        if state.actualize {
            return Task::BeginActualization;
        }
        let write_at = self.write_due(&state, now);
        if write_at.is_some_and(|at| at <= now) {
            return Task::Write;
        }
        let watch = match write_at {
            None => Watch::Anything,
            Some(_) if self.in_flight.is_none() => Watch::Much,
            Some(_) => Watch::Nothing,
        };
        let Some(actualization) = &mut self.actualization else {
            return Task::Wait { until: write_at, watch };
        };
        if actualization.not_before <= now {
            if !shared.is_full(&state) {
                return Task::Actualize;
            }
            actualization.not_before = now + shared.params.full_delay;
            state.counters.throttled += 1;
        }
        let go_on = actualization.not_before;
        Task::Wait { until: Some(write_at.map_or(go_on, |at| at.min(go_on))), watch }
    }

    /// When something has to be written; none if there is nothing to write.
    fn write_due(&mut self, state: &State, now: Duration) -> Option<Duration> {
        if self.in_flight.is_some() {
            return Some(self.retry_write_at);
        }
        if !state.dirty {
            return None;
        }
        if self.shared.is_urgent(state) {
            return Some(now);
        }
        Some(*self.linger_until.get_or_insert(now + self.shared.params.flush_delay))
    }

    /// Writes what came in, or what could not be written before.
    fn write(&mut self) {
        let shared = self.shared.clone();
        let batch = self.in_flight.get_or_insert_with(|| {
            let mut state = shared.state();
            state.dirty = false;
            shared.set_was_urgent(shared.is_urgent(&state));
            let from_the_tail = std::mem::take(&mut self.from_the_tail);
            Batch { values: state.unflushed.begin_write(), offset: state.next_offset, from_the_tail }
        });
        self.linger_until = None;
        let (written, offset) = (batch.values.values().len(), batch.offset);
        let result = batch.write(&shared.storage);
        match result {
            Ok(()) => {
                self.write_backoff.succeeded();
                // Handed back before it is forgotten.
                self.in_flight = None;
                let mut state = shared.state();
                state.unflushed.end_write();
                state.stored_offset = offset;
                state.counters.flushes += 1;
                state.counters.written_values += written as u64;
                shared.publish(&state);
            }
            Err(error) => {
                self.retry_write_at = self.now() + self.write_backoff.failed();
                let mut state = shared.state();
                state.counters.write_retries += 1;
                state.last_error = Some(chain(&error));
            }
        }
    }

    /// Forgets everything that is known: the log will tell.
    fn begin_actualization(&mut self) {
        let began = self.now();
        self.in_flight = None;
        self.from_the_tail = false;
        self.linger_until = None;
        self.write_backoff.succeeded();
        self.actualize_backoff.succeeded();
        self.actualization = Some(Actualization { began, scanning: false, not_before: began });
        let mut state = self.shared.state();
        state.actualize = false;
        state.dirty = false;
        state.unflushed.clear();
        // The store is asked anew how far it is; until then it is as far as we are.
        state.stored_offset = state.next_offset;
        self.shared.publish(&state);
    }

    fn actualize(&mut self) {
        let actualization = self.actualization.as_mut().expect("only called during one");
        if actualization.scanning {
            self.scan();
            return;
        }
        match self.shared.storage.read_next_offset() {
            Ok(stored) => {
                actualization.scanning = true;
                let stored = stored.unwrap_or(PartitionOffset::FIRST);
                let mut state = self.shared.state();
                (state.next_offset, state.stored_offset) = (stored, stored);
                self.shared.publish(&state);
            }
            Err(error) => self.actualization_failed(&error),
        }
    }

    /// Reads on in the log, until its end, until the set is full, or for a while.
    fn scan(&mut self) {
        let shared = &self.shared;
        let from = shared.state().next_offset;
        let mut expected = from;
        let mut broken = None;
        let mut records = 0;
        let result = shared.storage.scan(from, &mut |offset, values| {
            if broken.is_none() {
                records += 1;
                broken = take_in(shared, expected, offset, values).err();
                if broken.is_none() && records >= RECORDS_PER_SCAN {
                    broken = Some(Break::Pause);
                }
                expected = offset.next().unwrap_or(offset);
            }
            if broken.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        shared.state().counters.scanned_records += records;
        self.from_the_tail |= records > 0;
        // A scan that we broke off is no end of the log, whatever it says.
        match (broken, result) {
            (Some(Break::Pause), _) => self.actualize_backoff.succeeded(),
            (Some(Break::Fault(fault)), _) => shared.fail(fault),
            (None, Err(error)) => self.actualization_failed(&error),
            (None, Ok(log_end)) if log_end < expected => {
                shared.fail(Fault::StoredAheadOfLog { stored: expected, log_end });
            }
            (None, Ok(log_end)) if log_end > expected => {
                shared.fail(Fault::ScanStoppedShort { reached: expected, log_end });
            }
            (None, Ok(_)) => self.end_actualization(),
        }
    }

    fn end_actualization(&mut self) {
        let actualization = self.actualization.take().expect("only called during one");
        let took = self.now().saturating_sub(actualization.began);
        let mut state = self.shared.state();
        state.counters.actualizations += 1;
        state.counters.last_actualization = took;
        state.counters.total_actualization += took;
        state.status = Status::Ready;
        self.shared.publish(&state);
    }

    fn actualization_failed(&mut self, error: &S::Error) {
        let not_before = self.now() + self.actualize_backoff.failed();
        self.actualization.as_mut().expect("only called during one").not_before = not_before;
        let mut state = self.shared.state();
        state.counters.actualization_retries += 1;
        state.last_error = Some(chain(error));
    }

    /// Writes what there is, so that the next start has little to read: once, without insisting.
    fn stop(&mut self) {
        if self.in_flight.is_some() {
            self.write();
        }
        let state = self.shared.state();
        let more = state.dirty && self.in_flight.is_none() && !matches!(state.status, Status::Failed(_));
        drop(state);
        if more {
            self.write();
        }
        self.shared.state().stopped = true;
        self.shared.progress.notify_all();
    }
}

impl Batch {
    fn write<S: Storage>(&self, storage: &S) -> Result<(), S::Error> {
        if !self.from_the_tail {
            return storage.write(self.values.values(), self.offset);
        }
        let mut raised = self.values.values().to_vec();
        for value in &mut raised {
            let mut stored = [0];
            storage.read_numbers(value.workspace, &[value.sequence], &mut stored)?;
            value.number = value.number.max(stored[0]);
        }
        storage.write(&raised, self.offset)
    }
}

/// Takes one record of the log in: its numbers and the offset after it, together.
fn take_in<S>(
    shared: &Shared<S>,
    expected: PartitionOffset,
    offset: PartitionOffset,
    values: &[crate::storage::SequenceValue],
) -> Result<(), Break> {
    if offset != expected {
        return Err(Break::Fault(Fault::NotDense { expected, delivered: offset }));
    }
    let Some(next_offset) = offset.next() else {
        return Err(Break::Fault(Fault::OffsetsExhausted));
    };
    let mut state = shared.state();
    if state.closing {
        return Err(Break::Pause);
    }
    for value in values {
        // Singletons, reserved ids and the like do not move a sequence that begins above them.
        if value.number >= shared.kinds.floor(value.sequence) {
            state.unflushed.merge(*value);
        }
    }
    state.next_offset = next_offset;
    state.dirty = true;
    shared.publish(&state);
    if shared.is_full(&state) { Err(Break::Pause) } else { Ok(()) }
}

/// An error with everything that caused it.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}
