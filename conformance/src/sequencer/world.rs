//! A sequencer, its storage and its time, and the steps of a scenario done to them.
//!
//! What the types make impossible (a second transaction beside an open one, a number without a transaction) is counted as
//! the misuse it is expected to be.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use gapless_sequencer::memory::{Call, Disturbance, MemoryStorage};
use gapless_sequencer::{
    Drive, ManualClock, NextError, Params, SequenceValue, Sequencer, StartError, Transaction,
};
use gapless_types::{PartitionOffset, SequenceId, WorkspaceId, WorkspaceKind};
use serde_json::Value;

use super::scenario::{MISUSE, REJECTED, Scenario, Step, Triple};
use crate::report::Failure;

/// How long an expectation may take to come true, in milliseconds, by the clock that is used.
const START_WITHIN: u32 = 500;
const STORED_WITHIN: u32 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Driver {
    Thread,
    Caller,
}

pub(crate) struct World<'a> {
    scenario: &'a Scenario,
    storage: MemoryStorage,
    params: Params,
    clock: Option<Arc<ManualClock>>,
}

/// A step was done; go on with the step of this index.
type Done = Result<usize, Failure>;

impl<'a> World<'a> {
    pub(crate) fn new(scenario: &'a Scenario, driver: Driver) -> Result<Self> {
        let storage = MemoryStorage::new();
        // In these files an event is flushed first and added to the log afterwards, or never.
        storage.let_log_trail();
        storage.set_stored_offset(scenario.storage.next_offset);
        for (offset, values) in &scenario.storage.plog {
            let offset = PartitionOffset::new(*offset).context("the log has a record with offset 0")?;
            storage.append(offset, values_of(values));
        }
        values_of(&scenario.storage.numbers).into_iter().for_each(|value| storage.set_stored_number(value));

        let size =
            |value: Option<i64>, default| value.map_or(default, |value| usize::try_from(value).unwrap_or(0));
        let mut params = Params::new().with_cache_entries(size(scenario.params.lru, Params::CACHE_ENTRIES));
        params.max_unflushed = size(scenario.params.max_unflushed, Params::MAX_UNFLUSHED);
        // Within what the files allow for an answer.
        params.retry_delay = Duration::from_millis(20);
        params.close_timeout = Duration::from_millis(300);
        for (kind, sequences) in &scenario.params.seq_types {
            let sequences =
                sequences.iter().map(|(sequence, initial)| (SequenceId::new(*sequence), *initial));
            params = params.with_kind(WorkspaceKind::new(*kind), sequences);
        }
        let clock = (driver == Driver::Caller).then(|| Arc::new(ManualClock::default()));
        if let Some(clock) = &clock {
            params.clock = clock.clone();
        }
        Ok(Self { scenario, storage, params, clock })
    }

    pub(crate) fn run(&self) -> Result<(), Failure> {
        // Faults that are there from the beginning are there before the first storage call.
        for step in self.scenario.steps.iter().take_while(|step| is_fault(step)) {
            self.disturb(step);
        }
        let refused = self.scenario.expect_new.is_some();
        let mut sequencer = match (self.open(), refused) {
            (Ok(sequencer), false) => sequencer,
            (Err(_), true) => return Ok(()),
            (Ok(_), true) => return Err(failure(0, "a refusal", "a sequencer")),
            (Err(error), false) => return Err(failure(0, "a sequencer", &error.to_string())),
        };
        let mut at = 0;
        while at < self.scenario.steps.len() {
            at = self.step(&mut sequencer, at)?;
        }
        // What a failing scenario left blocked must not keep anybody.
        self.storage.heal_all();
        Ok(())
    }

    fn open(&self) -> Result<Sequencer<MemoryStorage>, gapless_sequencer::NewError> {
        let drive = if self.clock.is_some() { Drive::Caller } else { Drive::OS_THREAD };
        Sequencer::new(self.params.clone(), self.storage.successor(), drive)
    }

    /// A step without an open transaction.
    fn step(&self, sequencer: &mut Sequencer<MemoryStorage>, at: usize) -> Done {
        match &self.scenario.steps[at] {
            Step::Start { kind, ws, expect } => {
                let place = (WorkspaceKind::new(*kind), WorkspaceId::new(*ws));
                let ended = self.start(sequencer, at, place, expect.as_ref())?;
                self.after_transaction(sequencer, ended);
                return Ok(ended);
            }
            Step::Next { expect: Some(expect), .. } if expect == MISUSE => (),
            Step::Flush { expect } | Step::Actualize { expect } if expect.as_deref() == Some(MISUSE) => (),
            Step::Next { .. } | Step::Flush { .. } | Step::Actualize { .. } => {
                return Err(failure(at + 1, "an open transaction", "none"));
            }
            Step::Close {} => _ = sequencer.close(),
            Step::Reopen {} => {
                sequencer.close();
                *sequencer =
                    self.open().map_err(|error| failure(at + 1, "a sequencer", &error.to_string()))?;
            }
            Step::DropCache {} => sequencer.drop_cache(),
            step => self.storage_step(step, at, &mut || self.pass_time(sequencer))?,
        }
        Ok(at + 1)
    }

    fn start(
        &self,
        sequencer: &mut Sequencer<MemoryStorage>,
        at: usize,
        (kind, workspace): (WorkspaceKind, WorkspaceId),
        expect: Option<&Value>,
    ) -> Done {
        let expected = expect.map_or_else(|| "a transaction".to_owned(), shown);
        let fails = |got: &str| Err(failure(at + 1, &expected, got));
        let rejected_for = if self.writes_fail(at) { START_WITHIN } else { 0 };
        for waited in 0..=START_WITHIN {
            let refusal = match sequencer.start(kind, workspace) {
                Ok(transaction) => {
                    let offset = transaction.offset().get();
                    if expect.is_some_and(|expect| expect.as_u64() != Some(offset)) {
                        return fails(&offset.to_string());
                    }
                    return self.transaction(transaction, at + 1);
                }
                Err(refusal) => refusal,
            };
            match refusal {
                StartError::Busy(_) if expected == REJECTED && waited >= rejected_for => return Ok(at + 1),
                StartError::Busy(_) if expected == REJECTED || expect.is_none_or(Value::is_u64) => (),
                StartError::UnknownKind { .. } | StartError::Closed if expected == MISUSE => {
                    return Ok(at + 1);
                }
                refusal => return fails(&refusal.to_string()),
            }
            self.pass_time(sequencer);
        }
        fails("busy all the time")
    }

    /// The steps from here on, until the transaction ends.
    fn transaction(&self, transaction: Transaction<'_, MemoryStorage>, from: usize) -> Done {
        let mut transaction = transaction;
        for (at, step) in self.scenario.steps.iter().enumerate().skip(from) {
            match step {
                Step::Next { seq, expect, expect_err } => {
                    let got = transaction.next(SequenceId::new(*seq));
                    compare_number(at, &got, expect.as_ref(), expect_err.as_deref())?;
                }
                Step::Flush { expect: None } => {
                    transaction.flush();
                    return Ok(at + 1);
                }
                Step::Actualize { expect: None } => {
                    transaction.actualize();
                    return Ok(at + 1);
                }
                Step::Flush { expect: Some(expect) } | Step::Actualize { expect: Some(expect) } => {
                    return Err(failure(at + 1, expect, "an open transaction"));
                }
                Step::Start { expect, .. } => {
                    let expected = expect.as_ref().map_or_else(|| "a transaction".to_owned(), shown);
                    if expected != MISUSE {
                        return Err(failure(at + 1, &expected, "misuse: one is open"));
                    }
                }
                // Both end it unfinished, which is what the borrow demands.
                Step::Close {} | Step::Reopen {} => return Ok(at),
                // Done when it has ended: the transaction holds the sequencer.
                Step::DropCache {} => (),
                step => self.storage_step(step, at, &mut || self.pass_time_beside())?,
            }
        }
        Ok(self.scenario.steps.len())
    }

    fn after_transaction(&self, sequencer: &mut Sequencer<MemoryStorage>, at: usize) {
        let steps = &self.scenario.steps[..at];
        let since = steps.iter().rposition(|step| matches!(step, Step::Start { .. })).unwrap_or(0);
        if steps[since..].iter().any(|step| matches!(step, Step::DropCache {})) {
            sequencer.drop_cache();
        }
        let writes_block = steps
            .iter()
            .rev()
            .find_map(|step| if let Step::BlockWrites { on } = step { Some(*on) } else { None });
        if writes_block == Some(true) && matches!(steps.last(), Some(Step::Flush { .. })) {
            for _ in 0..STORED_WITHIN {
                if self.storage.blocked(Call::Write) > 0 {
                    break;
                }
                self.pass_time(sequencer);
            }
        } else {
            // What a thread does by itself.
            sequencer.run_background();
        }
    }

    /// A step that is about the storage alone. While it waits, time passes.
    fn storage_step(&self, step: &Step, at: usize, pass_time: &mut dyn FnMut()) -> Result<(), Failure> {
        let mut within = |expected: &str, got: &dyn Fn() -> (bool, String)| {
            for _ in 0..STORED_WITHIN {
                if got().0 {
                    return Ok(());
                }
                pass_time();
            }
            Err(failure(at + 1, expected, &got().1))
        };
        match step {
            Step::PlogAdd { offset, values } => {
                let offset = PartitionOffset::new(*offset)
                    .ok_or_else(|| failure(at + 1, "an offset of at least 1", "0"))?;
                self.storage.append(offset, values_of(values));
            }
            Step::SetStoredOffset { value } => self.storage.set_stored_offset(*value),
            Step::Stored { ws, seq, value } => {
                let stored = || self.storage.stored_number(WorkspaceId::new(*ws), SequenceId::new(*seq));
                within(&value.to_string(), &|| (stored() == *value, stored().to_string()))?;
            }
            Step::StoredOffset { min, max } => {
                // An empty store means the first offset.
                let stored = || self.storage.stored_offset().max(1);
                within(&format!("{min} to {max}"), &|| {
                    ((*min..=*max).contains(&stored()), stored().to_string())
                })?;
            }
            step => self.disturb(step),
        }
        Ok(())
    }

    fn disturb(&self, step: &Step) {
        let (call, how, on) = match step {
            Step::FailWrites { on } => (Call::Write, Disturbance::Fail, *on),
            Step::BlockWrites { on } => (Call::Write, Disturbance::Block, *on),
            Step::BlockActualize { on } => (Call::Scan, Disturbance::Block, *on),
            _ => return,
        };
        if on { self.storage.disturb(call, how) } else { self.storage.heal(call) }
    }

    /// Whether writes fail before this step.
    fn writes_fail(&self, at: usize) -> bool {
        let before = self.scenario.steps[..at].iter().rev();
        before.filter_map(|step| if let Step::FailWrites { on } = step { Some(*on) } else { None }).next()
            == Some(true)
    }

    /// A millisecond.
    fn pass_time(&self, sequencer: &mut Sequencer<MemoryStorage>) {
        self.pass_time_beside();
        sequencer.run_background();
    }

    /// The same while a transaction holds the sequencer: a thread works on, a caller cannot.
    fn pass_time_beside(&self) {
        match &self.clock {
            Some(clock) => clock.advance(Duration::from_millis(1)),
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

impl Drop for World<'_> {
    fn drop(&mut self) {
        self.storage.heal_all();
    }
}

fn compare_number(
    at: usize,
    got: &Result<u64, NextError<gapless_sequencer::memory::MemoryError>>,
    expect: Option<&Value>,
    expect_err: Option<&str>,
) -> Result<(), Failure> {
    let name = match got {
        Ok(number) => number.to_string(),
        Err(NextError::UnknownSequence { .. }) => "UnknownSeqID".to_owned(),
        Err(error) => error.to_string(),
    };
    let expected = match (expect, expect_err) {
        (Some(expect), _) => shown(expect),
        (None, Some(error)) => error.to_owned(),
        (None, None) if got.is_ok() => return Ok(()),
        (None, None) => "a number".to_owned(),
    };
    if name == expected { Ok(()) } else { Err(failure(at + 1, &expected, &name)) }
}

fn is_fault(step: &Step) -> bool {
    matches!(step, Step::FailWrites { .. } | Step::BlockWrites { .. } | Step::BlockActualize { .. })
}

fn shown(expect: &Value) -> String {
    expect.as_str().map_or_else(|| expect.to_string(), str::to_owned)
}

fn failure(step: usize, expected: &str, got: &str) -> Failure {
    Failure { step, expected: expected.to_owned(), got: got.to_owned() }
}

fn values_of(triples: &[Triple]) -> Vec<SequenceValue> {
    let value = |&(workspace, sequence, number)| SequenceValue {
        workspace: WorkspaceId::new(workspace),
        sequence: SequenceId::new(sequence),
        number,
    };
    triples.iter().map(value).collect()
}
