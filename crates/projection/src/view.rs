//! Reading: rows at the watermark, the effect log, dead letters, what a rule matches now.
//!
//! Invariants
//! - A view shows exactly the slots up to its watermark, and never changes.
//!
//! Must not know: leases, the clock.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bytes::Bytes;
use gapless_log::input::Input;
use gapless_store::{Direction, ReadError, Snapshot, View as StoreView};
use gapless_types::{PartitionOffset, WorkspaceId};
use thiserror::Error;

use crate::effect::{Effect, Why};
use crate::error::Fault;
use crate::evaluation::{Evaluation, Failure};
use crate::event::Event;
use crate::payload::Exploded;
use crate::refusal::Refusal;
use crate::rows::{
    EFFECTS, FILLS, ROWS, decode_stored_row, parts_of_row_key, piece_key, read_effect, read_row, row_key,
    slot_key, slot_of_key, table_prefix,
};
use crate::rule::{EvaluationError, Rules};
use crate::value::{Row, hash_of, write_json_row, write_json_text};

/// A row with its id and its version, the slot of its last change.
pub type FoundRow = (Box<str>, u64, Row);

/// The read model at a watermark.
#[derive(Clone, Debug)]
pub struct View {
    rows: Snapshot,
    watermark: u64,
    rules: Rules,
    chunk: usize,
}

/// A slot that was filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Which.
    pub slot: u64,
    /// Why.
    pub why: Why,
    /// Whether an event stood behind it: then it is a dead letter.
    pub is_dead_letter: bool,
}

/// The event of an open slot, for whoever works on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenEvent(Bytes);

impl OpenEvent {
    /// An event with bytes of its own.
    pub fn of(event: &Event<'_>) -> Self {
        let mut bytes = Vec::new();
        event.encode(0, &mut bytes);
        Self(bytes.into())
    }

    /// How long it is, in bytes.
    pub fn length(&self) -> usize {
        self.0.len()
    }

    /// The event.
    pub fn event(&self) -> Event<'_> {
        Event::decode(&self.0).expect("it was decoded when it was read").0
    }
}

/// Why a rule was not evaluated.
#[derive(Clone, Debug, Error)]
pub enum ExplodeError {
    /// The slot has nothing to be evaluated.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The rule has no answer for the rows as they are.
    #[error(transparent)]
    Evaluation(#[from] EvaluationError),
    /// The store could not be read.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl View {
    pub(crate) fn new(rows: Snapshot, watermark: u64, rules: Rules, chunk: usize) -> Self {
        Self { rows, watermark, rules, chunk }
    }

    /// All rows of all tables, as they are stored.
    pub(crate) fn stored_rows(&self) -> impl Iterator<Item = Result<(Bytes, Bytes), ReadError>> + '_ {
        self.rows.prefix(ROWS, Direction::Forward)
    }

    /// The slot up to which everything is seen.
    pub fn watermark(&self) -> u64 {
        self.watermark
    }

    /// A row with its version, the slot of its last change; version 0 if it never was there.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn row(&self, table: &str, workspace: WorkspaceId, id: &str) -> Result<(u64, Option<Row>), Fault> {
        read_row(&self.rows, table, workspace, id)
    }

    /// Rows of a table whose ids begin with `prefix`, in the order of ids.
    pub fn rows<'a>(
        &'a self,
        table: &str,
        workspace: WorkspaceId,
        prefix: &str,
        direction: Direction,
    ) -> impl Iterator<Item = Result<FoundRow, Fault>> + 'a {
        let key = row_key(table, workspace, prefix);
        self.rows.prefix(&key, direction).filter_map(decode_row)
    }

    /// The same upwards, from behind an id on: what is in front of it costs nothing.
    pub fn rows_behind<'a>(
        &'a self,
        table: &str,
        workspace: WorkspaceId,
        prefix: &str,
        after: &[u8],
    ) -> impl Iterator<Item = Result<FoundRow, Fault>> + 'a {
        let prefix = row_key(table, workspace, prefix);
        let mut from = table_prefix(b'r', table, workspace);
        from.extend_from_slice(after);
        // The next key there can be.
        from.push(0);
        let from = from.max(prefix.clone());
        let is_inside = move |stored: &Result<(Bytes, Bytes), ReadError>| match stored {
            Ok((key, _)) => key.starts_with(&prefix),
            Err(_) => true,
        };
        self.rows.range(from.., Direction::Forward).take_while(is_inside).filter_map(decode_row)
    }

    /// The effect of a slot, if it is resolved.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn effect(&self, slot: u64) -> Result<Option<Effect>, Fault> {
        read_effect(&self.rows, slot)
    }

    /// Effects behind a slot, in order.
    pub fn effects(&self, after: u64) -> impl Iterator<Item = Result<Effect, Fault>> + '_ {
        (after.saturating_add(1)..=self.watermark)
            .map(|slot| self.effect(slot)?.ok_or(Fault::Malformed("a resolved slot without an effect")))
    }

    /// Slots behind a slot that changed a table, in order.
    pub fn slots_of_table(
        &self,
        table: &str,
        workspace: WorkspaceId,
        after: u64,
    ) -> impl Iterator<Item = Result<u64, Fault>> + '_ {
        let prefix = table_prefix(b't', table, workspace);
        let at = prefix.len();
        let (mut from, mut to) = (prefix.clone(), prefix);
        from.extend_from_slice(&after.saturating_add(1).to_be_bytes());
        to.extend_from_slice(&u64::MAX.to_be_bytes());
        let mut last = 0;
        self.rows.range(from..to, Direction::Forward).filter_map(move |row| {
            let slot = row.map_err(Fault::from).and_then(|(key, _)| {
                let bytes = key.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
                bytes.map(u64::from_be_bytes).ok_or(Fault::Malformed("a touched row without a slot"))
            });
            match slot {
                // A large effect has several pieces.
                Ok(slot) if slot == last => None,
                Ok(slot) => {
                    last = slot;
                    Some(Ok(slot))
                }
                Err(fault) => Some(Err(fault)),
            }
        })
    }

    /// The effect of the event at a place of the partition log, if it is resolved. Sources only grow with slots, so it is searched
    /// for by halves.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn effect_of_source(&self, source: PartitionOffset) -> Result<Option<Effect>, Fault> {
        let (mut low, mut high) = (1, self.watermark);
        while low <= high {
            let middle = low + (high - low) / 2;
            // Allocated slots have no source: the nearest claimed one below decides.
            let mut at = middle;
            let found = loop {
                match self.source_of(at)? {
                    Some(found) => break Some(found),
                    None if at == low => break None,
                    None => at -= 1,
                }
            };
            match found {
                Some(found) if found == source => return self.effect(at),
                Some(found) if found > source => high = at - 1,
                _ => low = middle + 1,
            }
        }
        Ok(None)
    }

    fn source_of(&self, slot: u64) -> Result<Option<PartitionOffset>, Fault> {
        let first = self.rows.get(&piece_key(EFFECTS, slot, 0))?;
        let first = first.ok_or(Fault::Malformed("a resolved slot without an effect"))?;
        Ok(Effect::decode_head(&mut Input::new(&first))?.0.source)
    }

    /// Filled slots behind a slot, up to the watermark, in order.
    pub fn fills(&self, after: u64) -> impl Iterator<Item = Result<Fill, Fault>> + '_ {
        let (from, to) = (slot_key(FILLS, after.saturating_add(1)), slot_key(FILLS, u64::MAX));
        self.rows.range(from..to, Direction::Forward).map(|row| {
            let (key, value) = row?;
            let mut input = Input::new(&value);
            let (why, is_dead_letter) = (Why::of_number(input.u8()?)?, input.u8()? == 1);
            Ok(Fill { slot: slot_of_key(&key)?, why, is_dead_letter })
        })
    }

    /// The event of an open slot; none if the slot is resolved, or was allocated.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn event(&self, slot: u64) -> Result<Option<OpenEvent>, Fault> {
        let Some(bytes) = self.rows.get(&slot_key(b'v', slot))? else { return Ok(None) };
        Event::decode(&bytes)?;
        Ok(Some(OpenEvent(bytes)))
    }

    /// What the rule of a slot's event matches in this view: to be committed with its watermark.
    ///
    /// # Errors
    /// If the slot has no rule, the rule no answer, or the store cannot be read.
    pub fn explode(&self, slot: u64) -> Result<Exploded, ExplodeError> {
        if slot <= self.watermark {
            return Err(Refusal::AlreadyResolved.into());
        }
        let event = self.event(slot)?.ok_or(Refusal::UnknownSlot)?;
        let event = event.event();
        let rule = self.rules.get(event.event_type).ok_or(Refusal::NoRule)?;
        let evaluation = Evaluation { rule, event: &event.fields(), workspace: event.workspace };
        evaluation.explode(&self.rows).map_err(|failure| match failure {
            Failure::Evaluation(error) => error.into(),
            Failure::Fault(fault) => fault.into(),
        })
    }

    /// The rows of a workspace as canonical JSON.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn state_json(&self, workspace: WorkspaceId) -> Result<String, Fault> {
        state_json(&self.rows, workspace)
    }

    /// The SHA-256 of the rows of a workspace, in hexadecimal.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn state_hash(&self, workspace: WorkspaceId) -> Result<String, Fault> {
        self.state_json(workspace).map(|json| hash_of(&json))
    }

    /// The effect log as canonical JSON.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn effects_json(&self) -> Result<String, Fault> {
        let mut text = String::from("[");
        for (at, effect) in self.effects(0).enumerate() {
            if at > 0 {
                text.push(',');
            }
            effect?.write_json(self.chunk, &mut text);
        }
        text.push(']');
        Ok(text)
    }

    /// The SHA-256 of the effect log, in hexadecimal.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn effects_hash(&self) -> Result<String, Fault> {
        self.effects_json().map(|json| hash_of(&json))
    }

    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }
}

/// A row as it is read; none if it is gone.
fn decode_row(stored: Result<(Bytes, Bytes), ReadError>) -> Option<Result<FoundRow, Fault>> {
    let row = stored.map_err(Fault::from).and_then(|(key, value)| {
        let (version, row) = decode_stored_row(&value)?;
        Ok((Box::from(parts_of_row_key(&key)?.2), version, row))
    });
    match row {
        Ok((id, version, row)) => row.map(|row| Ok((id, version, row))),
        Err(fault) => Some(Err(fault)),
    }
}

/// The rows of a workspace by table and id. Tables without rows are left out.
pub(crate) fn state_json(view: &StoreView, workspace: WorkspaceId) -> Result<String, Fault> {
    let mut tables: BTreeMap<String, String> = BTreeMap::new();
    for stored in view.prefix(b"r", Direction::Forward) {
        let (key, value) = stored?;
        let (table, of, id) = parts_of_row_key(&key)?;
        let (_, row) = decode_stored_row(&value)?;
        if of != workspace || row.is_none() {
            continue;
        }
        let rows = tables.entry(table.to_owned()).or_default();
        if !rows.is_empty() {
            rows.push(',');
        }
        write_json_text(id, rows);
        rows.push(':');
        write_json_row(row.as_ref(), rows);
    }
    let mut text = String::from("{");
    for (at, (table, rows)) in tables.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        write_json_text(table, &mut text);
        write!(text, ":{{{rows}}}").expect("a string takes everything");
    }
    text.push('}');
    Ok(text)
}
