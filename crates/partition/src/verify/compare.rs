//! The rows that follow from the log beside those of the store: every row that differs, and the outcome it is of.
//!
//! Must not know: how either came about.

use std::cmp::Ordering;

use bytes::Bytes;
use gapless_store::{Direction, ReadError, Space, View as StoreView};
use gapless_types::{NamespaceId, PartitionId, PartitionOffset, WorkspaceId};

use super::{Difference, Place};
use crate::error::Fault;
use crate::rows;
use crate::rows::entity::EntityRow;
use crate::rows::idempotency::RememberedRow;
use crate::rows::record::RecordRow;
use crate::schema::WORKSPACE_OFFSET;

type Row = (Space, Bytes, Bytes);

/// What the store differs by.
#[derive(Debug, Default)]
pub(super) struct Compared {
    /// Rows of the store that were looked at.
    pub(super) rows: u64,
    /// How many differ.
    pub(super) differing: u64,
    /// The one that is of the earliest outcome.
    pub(super) first: Option<Difference>,
}

/// Why comparing does not go on.
#[derive(Debug)]
pub(super) enum CompareError {
    /// The store under examination cannot be read.
    Found(ReadError),
    /// The scratch store cannot.
    Expected(Fault),
}

impl From<Fault> for CompareError {
    fn from(fault: Fault) -> Self {
        CompareError::Expected(fault)
    }
}

/// Both sides, at the offset of the store's checkpoint.
pub(super) struct Comparison<'a> {
    pub(super) partition: PartitionId,
    /// As they follow from the log.
    pub(super) expected: &'a StoreView,
    /// As they are.
    pub(super) found: &'a StoreView,
    pub(super) checkpoint: PartitionOffset,
}

impl Comparison<'_> {
    /// Compares every row; `each` is called now and then with the rows so far.
    pub(super) fn everything(
        &self,
        compared: &mut Compared,
        each: &mut dyn FnMut(u64),
    ) -> Result<(), CompareError> {
        self.numbers_are_not_ahead(compared)?;
        self.rows(compared, each)?;
        self.buckets(compared);
        Ok(())
    }

    fn rows(&self, compared: &mut Compared, each: &mut dyn FnMut(u64)) -> Result<(), CompareError> {
        let mut expected = self.expected.everything().filter(is_no_number);
        let mut found = self.found.everything().filter(is_no_number);
        let mut expected = || expected.next().transpose().map_err(Fault::from);
        let mut found = || found.next().transpose().map_err(CompareError::Found);
        let (mut left, mut right) = (expected()?, found()?);
        loop {
            let order = match (&left, &right) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(left), Some(right)) => (left.0, &left.1).cmp(&(right.0, &right.1)),
            };
            let (missing, extra) = match order {
                Ordering::Less => (left.take(), None),
                Ordering::Greater => (None, right.take()),
                Ordering::Equal => (left.take(), right.take()),
            };
            if missing.is_some() {
                left = expected()?;
            }
            if extra.is_some() {
                right = found()?;
                compared.rows += 1;
                if compared.rows.is_multiple_of(super::PROGRESS_EVERY) {
                    each(compared.rows);
                }
            }
            if missing.as_ref().map(|row| &row.2) != extra.as_ref().map(|row| &row.2) {
                self.note(compared, missing.as_ref(), extra.as_ref())?;
            }
        }
        Ok(())
    }

    /// Which buckets there are and how many rows each counts decides when the next one begins.
    fn buckets(&self, compared: &mut Compared) {
        if !self.expected.buckets().eq(self.found.buckets()) {
            let what = "idempotency buckets with other counts".to_owned();
            compared.add(Difference { offset: self.checkpoint, byte: None, what, place: Place::Store });
        }
    }

    /// Numbers reach the store now and then: they are not behind the offset that stands beside them.
    pub(super) fn numbers_are_not_behind(&self, compared: &mut Compared) -> Result<(), CompareError> {
        for row in self.expected.prefix(&rows::number::PREFIX, Direction::Forward) {
            let (key, expected) = row.map_err(Fault::from)?;
            let found = self
                .found
                .get(&key)
                .map_err(CompareError::Found)?
                .and_then(|found| rows::number::decode(&found))
                .unwrap_or(0);
            if found < rows::number::decode(&expected).unwrap_or(0) {
                self.note_number(compared, &key, found)?;
            }
        }
        Ok(())
    }

    /// And never ahead of the log.
    fn numbers_are_not_ahead(&self, compared: &mut Compared) -> Result<(), CompareError> {
        for row in self.found.prefix(&rows::number::PREFIX, Direction::Forward) {
            let (key, found) = row.map_err(CompareError::Found)?;
            compared.rows += 1;
            let expected = self
                .expected
                .get(&key)
                .map_err(Fault::from)?
                .and_then(|row| rows::number::decode(&row))
                .unwrap_or(0);
            let found = rows::number::decode(&found).unwrap_or(u64::MAX);
            if found > expected {
                self.note_number(compared, &key, found)?;
            }
        }
        Ok(())
    }

    fn note_number(&self, compared: &mut Compared, key: &Bytes, found: u64) -> Result<(), Fault> {
        let (what, offset) = match rows::number::decode_key(key) {
            Some((workspace, sequence)) => {
                let what = format!("number {found} of sequence {sequence} of workspace {workspace}");
                (what, self.last_event(workspace)?)
            }
            None => ("a number under no key".to_owned(), None),
        };
        let offset = offset.unwrap_or(self.checkpoint);
        compared.add(Difference { offset, byte: None, what, place: Place::Store });
        Ok(())
    }

    fn note(
        &self,
        compared: &mut Compared,
        expected: Option<&Row>,
        found: Option<&Row>,
    ) -> Result<(), Fault> {
        let Some(row) = expected.or(found) else { return Ok(()) };
        let owner = self.owner(row)?.unwrap_or(self.checkpoint);
        let kind = name(row);
        let what = match (expected, found) {
            (Some(_), None) => format!("{kind} missing"),
            (None, _) => format!("{kind} that should not be there"),
            (Some(_), Some(_)) => format!("{kind} with another value"),
        };
        let byte = match (expected, found) {
            (Some((_, _, expected)), Some((_, _, found))) => {
                (0..expected.len().max(found.len())).find(|at| expected.get(*at) != found.get(*at))
            }
            _ => None,
        };
        compared.add(Difference { offset: owner, byte, what, place: Place::Store });
        Ok(())
    }

    /// The outcome that wrote a row, as far as the row tells.
    fn owner(&self, (space, key, value): &Row) -> Result<Option<PartitionOffset>, Fault> {
        if let Space::Bucket(_) = space {
            return Ok(RememberedRow::decode(value).ok().map(|row| row.offset));
        }
        let Some(workspace) = rows::workspace::decode_key(key) else { return Ok(None) };
        match key.first() {
            Some(4) => self.event(workspace, 1),
            Some(5) => Ok(rows::index::decode(value).map(|(offset, _)| offset)),
            Some(6) => match RecordRow::decode(value) {
                Ok(row) => self.event(workspace, row.changed),
                Err(_) => Ok(None),
            },
            Some(7) => match EntityRow::decode(value) {
                Ok(row) => self.event(workspace, row.version),
                Err(_) => Ok(None),
            },
            Some(8) => self.last_event(workspace),
            Some(9) => Ok(rows::outcome::decode_key(key)),
            Some(10) => match rows::subtree::last_event(key) {
                Some(offset) => self.event(workspace, offset),
                None => Ok(None),
            },
            _ => Ok(None),
        }
    }

    fn event(&self, workspace: WorkspaceId, offset: u64) -> Result<Option<PartitionOffset>, Fault> {
        let row = self.expected.get(&rows::index::key(self.namespace(), workspace, offset))?;
        Ok(row.and_then(|row| rows::index::decode(&row)).map(|(offset, _)| offset))
    }

    fn last_event(&self, workspace: WorkspaceId) -> Result<Option<PartitionOffset>, Fault> {
        let row = self.expected.get(&rows::number::key(self.namespace(), workspace, WORKSPACE_OFFSET))?;
        match row.and_then(|row| rows::number::decode(&row)) {
            Some(offset) => self.event(workspace, offset),
            None => Ok(None),
        }
    }

    fn namespace(&self) -> NamespaceId {
        self.partition.namespace
    }
}

impl Compared {
    fn add(&mut self, difference: Difference) {
        self.differing += 1;
        if self.first.as_ref().is_none_or(|first| difference.offset < first.offset) {
            self.first = Some(difference);
        }
    }
}

/// Numbers and the offset beside them come from the sequencer, when it sees fit.
fn is_no_number(row: &Result<Row, ReadError>) -> bool {
    !matches!(row, Ok((Space::Main, key, _)) if matches!(key.first(), Some(2 | 3)))
}

/// What a row is, for people.
fn name((space, key, _): &Row) -> String {
    if let Space::Bucket(bucket) = space {
        return format!("a row of idempotency bucket {bucket}");
    }
    let workspace = || rows::workspace::decode_key(key).map_or(0, WorkspaceId::get);
    match key.first() {
        Some(0) => "the version of the rows".to_owned(),
        Some(1) => "the schema".to_owned(),
        Some(4) => format!("the kind of workspace {}", workspace()),
        Some(5) => format!("the index row of an event of workspace {}", workspace()),
        Some(6) => format!("a record of workspace {}", workspace()),
        Some(7) => format!("an entity of workspace {}", workspace()),
        Some(8) => format!("a client's sequence in workspace {}", workspace()),
        Some(9) => "the row of an outcome".to_owned(),
        Some(10) => format!("the root of a subtree of workspace {}", workspace()),
        _ => "a row of no known kind".to_owned(),
    }
}
