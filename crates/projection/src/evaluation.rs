//! Rules over the rows of a table: what they match now, and what they change at the head.
//!
//! A where-clause is evaluated early, at a read watermark r, while lower slots may still be open. When its slot s is drained, only
//! the rows that slots r+1 to s-1 touched can match otherwise than before: they are looked at again, and no others.
//!
//! Invariants
//! - ORD-1: what is written at the head is what a serial fold would write there, whatever r was.
//! - The cost of correcting follows the rows that were touched, not the table.
//!
//! Must not know: leases, tokens, how a slot got here.

use std::collections::BTreeSet;

use gapless_store::{Direction, View};
use gapless_types::WorkspaceId;

use crate::effect::Change;
use crate::error::Fault;
use crate::limits::{MAX_CHANGED_BYTES, MAX_CHANGED_ROWS, MAX_COLUMNS, MAX_ID_BYTES, MAX_ROW_BYTES};
use crate::payload::{Exploded, RuleKind};
use crate::rows::{decode_stored_row, parts_of_row_key, read_row, table_prefix, touched};
use crate::rule::{Action, Assignments, EvaluationError, Expression, Predicate, Rule, Scope, assigned};
use crate::value::{Row, Value, row_bytes};

/// Why there is no answer.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// The rule has none: everybody who asks gets the same.
    Evaluation(EvaluationError),
    Fault(Fault),
}

impl From<EvaluationError> for Failure {
    fn from(error: EvaluationError) -> Self {
        Self::Evaluation(error)
    }
}

impl<F: Into<Fault>> From<F> for Failure {
    fn from(fault: F) -> Self {
        Self::Fault(fault.into())
    }
}

/// A rule at work on an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evaluation<'a> {
    pub(crate) rule: &'a Rule,
    pub(crate) event: &'a Row,
    pub(crate) workspace: WorkspaceId,
}

impl Evaluation<'_> {
    /// What the rule matches in a state.
    pub(crate) fn explode(&self, view: &View) -> Result<Exploded, Failure> {
        let (kind, ids) = match &self.rule.action {
            Action::Upsert { id, .. } => (RuleKind::Upsert, vec![self.id(id)?]),
            Action::Update { filter, .. } => (RuleKind::Update, self.matches(view, filter)?),
            Action::Delete { filter } => (RuleKind::Delete, self.matches(view, filter)?),
        };
        let kind = if ids.is_empty() { RuleKind::NoOp } else { kind };
        Ok(Exploded { kind, table: self.rule.table.clone(), ids })
    }

    /// What the rule changes in the state right below a slot, given what it matched at a read watermark. Whether the match had to
    /// be corrected.
    pub(crate) fn at_head(
        &self,
        view: &View,
        matched: &[Box<str>],
        read_watermark: u64,
        slot: u64,
    ) -> Result<(Change, bool), Failure> {
        let table = &self.rule.table;
        let between =
            read_watermark.saturating_add(1) < slot && !matches!(self.rule.action, Action::Upsert { .. });
        let touched = match between {
            true => touched(view, table, self.workspace, read_watermark, slot)?,
            false => BTreeSet::new(),
        };
        self.change(view, matched, &touched)
    }

    /// Only by mistake: what was matched early is taken for what matches.
    pub(crate) fn without_correction(
        &self,
        view: &View,
        matched: &[Box<str>],
    ) -> Result<(Change, bool), Failure> {
        self.change(view, matched, &BTreeSet::new())
    }

    fn change(
        &self,
        view: &View,
        matched: &[Box<str>],
        touched: &BTreeSet<Box<str>>,
    ) -> Result<(Change, bool), Failure> {
        let mut writes = Writes::default();
        let mut corrected = false;
        let kind = match &self.rule.action {
            Action::Upsert { id, set } => {
                let id = self.id(id)?;
                let (_, row) = self.read(view, &id)?;
                writes.push(id, Some(self.assigned(set, row.as_ref())?))?;
                RuleKind::Upsert
            }
            Action::Update { filter, set } => {
                corrected = self.each_match(view, filter, matched, touched, |id, row| {
                    let row = self.assigned(set, Some(&row))?;
                    Ok(writes.push(id, Some(row))?)
                })?;
                RuleKind::Update
            }
            Action::Delete { filter } => {
                corrected =
                    self.each_match(view, filter, matched, touched, |id, _| Ok(writes.push(id, None)?))?;
                RuleKind::Delete
            }
        };
        let kind = if writes.rows.is_empty() { RuleKind::NoOp } else { kind };
        Ok((Change::Rule { kind, table: self.rule.table.clone(), writes: writes.rows }, corrected))
    }

    /// Every row that matches at the head, in the order of ids: those that matched before and were not touched since, and those
    /// touched that match now. Whether anything was touched that matters.
    fn each_match(
        &self,
        view: &View,
        filter: &Predicate,
        matched: &[Box<str>],
        touched: &BTreeSet<Box<str>>,
        mut each: impl FnMut(Box<str>, Row) -> Result<(), Failure>,
    ) -> Result<bool, Failure> {
        let candidates: BTreeSet<Box<str>> = matched.iter().chain(touched).cloned().collect();
        let mut corrected = false;
        for id in candidates {
            // A row that was not touched is as it was, and matches as it did; looking again is cheap, since it is read anyway, and
            // keeps out what never matched.
            let (_, row) = self.read(view, &id)?;
            let takes = match &row {
                Some(row) => filter.takes(Scope { event: self.event, row: Some(row) })?,
                None => false,
            };
            corrected |= takes != matched.binary_search(&id).is_ok();
            if let (Some(row), true) = (row, takes) {
                each(id, row)?;
            }
        }
        Ok(corrected)
    }

    fn matches(&self, view: &View, filter: &Predicate) -> Result<Vec<Box<str>>, Failure> {
        let mut ids = Vec::new();
        for stored in view.prefix(&table_prefix(b'r', &self.rule.table, self.workspace), Direction::Forward) {
            let (key, value) = stored?;
            let (_, row) = decode_stored_row(&value)?;
            let Some(row) = row else { continue };
            if filter.takes(Scope { event: self.event, row: Some(&row) })? {
                if ids.len() >= MAX_CHANGED_ROWS {
                    return Err(EvaluationError::TooManyRows.into());
                }
                ids.push(parts_of_row_key(&key)?.2.into());
            }
        }
        Ok(ids)
    }

    fn read(&self, view: &View, id: &str) -> Result<(u64, Option<Row>), Fault> {
        read_row(view, &self.rule.table, self.workspace, id)
    }

    fn assigned(&self, set: &Assignments, row: Option<&Row>) -> Result<Row, EvaluationError> {
        assigned(set, Scope { event: self.event, row })
    }

    fn id(&self, id: &Expression) -> Result<Box<str>, EvaluationError> {
        match id.value(Scope { event: self.event, row: None })? {
            Value::Text(id) if id.len() <= MAX_ID_BYTES => Ok(id),
            Value::Text(_) => Err(EvaluationError::RowTooLarge),
            _ => Err(EvaluationError::TypeError),
        }
    }
}

/// After-images within the limits.
#[derive(Debug, Default)]
struct Writes {
    rows: Vec<(Box<str>, Option<Row>)>,
    bytes: usize,
}

impl Writes {
    fn push(&mut self, id: Box<str>, row: Option<Row>) -> Result<(), EvaluationError> {
        let bytes = row.as_ref().map_or(0, row_bytes);
        if bytes > MAX_ROW_BYTES || row.as_ref().is_some_and(|row| row.len() > MAX_COLUMNS) {
            return Err(EvaluationError::RowTooLarge);
        }
        self.bytes += bytes;
        if self.rows.len() >= MAX_CHANGED_ROWS || self.bytes > MAX_CHANGED_BYTES {
            return Err(EvaluationError::TooManyRows);
        }
        self.rows.push((id, row));
        Ok(())
    }
}
