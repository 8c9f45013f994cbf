//! The read model made again: from effects alone, or from events through the rules. And both beside each other.
//!
//! - *Physical*: effects are written as they are; no rule is needed.
//! - *Serial*: events meet their rules one by one, in slot order. Slots that no rule made keep their stored effect in place, and
//!   filled ones stay without.
//! - *Audit*: the serial one, with each change held against the stored effect; the first rule slot that differs is named.
//!
//! Invariants
//! - ORD-1: all three give the state that workers made in parallel.

use std::sync::Arc;

use gapless_log::io::memory::MemoryIo;
use gapless_store::{Budget, Direction, Options, Store};
use gapless_types::{PartitionOffset, WorkspaceId};
use thiserror::Error;

use crate::effect::{Change, Effect};
use crate::error::Fault;
use crate::evaluation::{Evaluation, Failure};
use crate::event::Event;
use crate::rows::{ROWS, Rows, encode_stored_row, parts_of_row_key, row_key};
use crate::rule::{EvaluationError, Rules};
use crate::value::hash_of;
use crate::view::{OpenEvent, View, state_json};

/// Memory for a read model that is made again beside the one that serves.
const BUDGET_BYTES: u64 = 1 << 30;

/// Why a read model could not be made again.
#[derive(Clone, Debug, Error)]
pub enum ReplayError {
    /// The event of a slot that a rule made is not there any more.
    #[error("slot {slot} stands for the event at {offset}, which is missing")]
    EventMissing {
        /// The slot.
        slot: u64,
        /// Where the event should be.
        offset: PartitionOffset,
    },
    /// A rule that once had an answer has none now.
    #[error("the rule of slot {slot} has no answer: {error}")]
    Evaluation {
        /// The slot.
        slot: u64,
        /// Why.
        error: EvaluationError,
    },
    /// The store could not be read, or takes no more.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// A read model that was made again, in memory.
#[derive(Debug)]
pub struct Rebuilt {
    rows: Rows,
    bytes: Vec<u8>,
}

/// What an audit found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Audit {
    /// Every rule slot changed what its rule says.
    Same,
    /// The first that did not.
    Differs {
        /// Which.
        slot: u64,
        /// What is stored, as canonical JSON.
        stored: String,
        /// What the rule says.
        computed: String,
    },
}

/// Something that has an event: the event itself, or bytes of its own.
pub trait HasEvent {
    /// The event.
    fn event(&self) -> Event<'_>;
}

impl HasEvent for Event<'_> {
    fn event(&self) -> Event<'_> {
        *self
    }
}

impl HasEvent for OpenEvent {
    fn event(&self) -> Event<'_> {
        Self::event(self)
    }
}

impl Rebuilt {
    fn new() -> Result<Self, Fault> {
        let budget = Budget::new(BUDGET_BYTES, 1 << 20);
        let (store, _) = Store::open(Arc::new(MemoryIo::new()), "rebuilt", Options::default(), &budget)
            .map_err(|_| Fault::Malformed("a new store in memory"))?;
        Ok(Self { rows: Rows::new(store), bytes: Vec::new() })
    }

    fn write(&mut self, effect: &Effect) -> Result<(), Fault> {
        for (table, id, row) in effect.writes() {
            encode_stored_row(effect.slot, row, &mut self.bytes);
            self.rows.put(&row_key(table, effect.workspace, id), &self.bytes)?;
        }
        self.rows.apply()
    }

    /// Its rows of a workspace as canonical JSON.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn state_json(&self, workspace: WorkspaceId) -> Result<String, Fault> {
        state_json(&self.rows.store, workspace)
    }

    /// The SHA-256 of its rows of a workspace, in hexadecimal.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn state_hash(&self, workspace: WorkspaceId) -> Result<String, Fault> {
        self.state_json(workspace).map(|json| hash_of(&json))
    }
}

impl View {
    /// The read model made again from effects alone.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn physical_replay(&self) -> Result<Rebuilt, ReplayError> {
        let mut rebuilt = Rebuilt::new()?;
        for effect in self.effects(0) {
            rebuilt.write(&effect?)?;
        }
        Ok(rebuilt)
    }

    /// Holds every row against the effects, which say what it has to be: the first that is another one.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn first_wrong_row(&self) -> Result<Option<String>, ReplayError> {
        let rebuilt = self.physical_replay()?;
        let computed = rebuilt.rows.store.snapshot();
        let (mut stored, mut computed) = (self.stored_rows(), computed.prefix(ROWS, Direction::Forward));
        loop {
            let pair = (stored.next().transpose(), computed.next().transpose());
            let (stored, computed) = (pair.0.map_err(Fault::from)?, pair.1.map_err(Fault::from)?);
            let key = match (&stored, &computed) {
                (None, None) => return Ok(None),
                (Some(stored), Some(computed)) if stored == computed => continue,
                (Some((stored, _)), Some((computed, _))) => stored.min(computed).clone(),
                (Some((key, _)), None) | (None, Some((key, _))) => key.clone(),
            };
            let (table, workspace, id) = parts_of_row_key(&key)?;
            return Ok(Some(format!("row {id} of table {table} in workspace {workspace}")));
        }
    }

    /// The read model made again from events, which `event` reads by their place, through these rules.
    ///
    /// # Errors
    /// If an event is missing, a rule has no answer, or the store cannot be read.
    pub fn serial_rebuild<E: HasEvent>(
        &self,
        rules: &Rules,
        event: impl FnMut(PartitionOffset) -> Option<E>,
    ) -> Result<Rebuilt, ReplayError> {
        let mut rebuilt = Rebuilt::new()?;
        self.each_serially(rules, event, &mut rebuilt, |_, _| true)?;
        Ok(rebuilt)
    }

    /// Holds the serial fold against the effect log.
    ///
    /// # Errors
    /// If an event is missing, a rule has no answer, or the store cannot be read.
    pub fn audit<E: HasEvent>(
        &self,
        event: impl FnMut(PartitionOffset) -> Option<E>,
    ) -> Result<Audit, ReplayError> {
        let mut audit = Audit::Same;
        self.each_serially(self.rules(), event, &mut Rebuilt::new()?, |stored, computed| {
            if stored.change != computed.change {
                let (stored_json, computed) = (stored.to_json(usize::MAX), computed.to_json(usize::MAX));
                audit = Audit::Differs { slot: stored.slot, stored: stored_json, computed };
            }
            audit == Audit::Same
        })?;
        Ok(audit)
    }

    /// Folds slots in order; `each` sees every rule slot as stored and as computed, and says whether to go on.
    fn each_serially<E: HasEvent>(
        &self,
        rules: &Rules,
        mut event: impl FnMut(PartitionOffset) -> Option<E>,
        rebuilt: &mut Rebuilt,
        mut each: impl FnMut(&Effect, &Effect) -> bool,
    ) -> Result<(), ReplayError> {
        for stored in self.effects(0) {
            let stored = stored?;
            let computed = match (&stored.change, stored.source) {
                (Change::Rule { .. }, Some(source)) => {
                    let missing = ReplayError::EventMissing { slot: stored.slot, offset: source };
                    let event = event(source).ok_or(missing)?;
                    let change = change_of(rules, &event.event(), rebuilt, stored.slot)?;
                    Effect { change, ..stored.clone() }
                }
                _ => stored.clone(),
            };
            if !each(&stored, &computed) {
                break;
            }
            rebuilt.write(&computed)?;
        }
        Ok(())
    }
}

/// What the rule of an event changes in a state.
fn change_of(rules: &Rules, event: &Event<'_>, rebuilt: &Rebuilt, slot: u64) -> Result<Change, ReplayError> {
    let Some(rule) = rules.get(event.event_type) else {
        return Err(Fault::Malformed("an effect of a rule that is no more").into());
    };
    let evaluation = Evaluation { rule, event: &event.fields(), workspace: event.workspace };
    let serial = || {
        let matched = evaluation.explode(&rebuilt.rows.store)?.ids;
        evaluation.at_head(&rebuilt.rows.store, &matched, slot, slot)
    };
    match serial() {
        Ok((change, _)) => Ok(change),
        Err(Failure::Evaluation(error)) => Err(ReplayError::Evaluation { slot, error }),
        Err(Failure::Fault(fault)) => Err(fault.into()),
    }
}
