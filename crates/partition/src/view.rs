//! Reading: everything that a partition knows, at one moment.
//!
//! A view never changes, whatever is applied afterwards, and can be read on any thread. Entities that have expired by the log
//! time of the view do not exist in it.
//!
//! Must not know: how the state came about.

use std::sync::Arc;

use bytes::Bytes;
use gapless_log::Log;
use gapless_store::{Direction, ReadError, Snapshot, Space};
use gapless_types::limits::MAX_READ_BYTES;
use gapless_types::{
    ClientSequence, IdempotencyKey, Name, PartitionId, PartitionOffset, RecordId, SequenceId, WorkspaceId,
    WorkspaceOffset,
};

use crate::error::Fault;
use crate::idempotency::{Memory, Recalled, Request, recall};
use crate::outcome::{Outcome, RequestDigest};
use crate::read_ahead::ReadAhead;
use crate::rows;
use crate::rows::entity::EntityRow;
use crate::rows::record::RecordRow;
use crate::schema::{RECORD_ID, Schema, WORKSPACE_OFFSET};
use crate::stored::StoredOutcome;

/// A partition at one moment.
#[derive(Clone, Debug)]
pub struct View {
    pub(crate) partition: PartitionId,
    pub(crate) log: Log,
    pub(crate) rows: Arc<Snapshot>,
    schema: Option<Arc<Schema>>,
    applied: Option<PartitionOffset>,
    time: u64,
    /// Outcomes are read until they have so many bytes.
    at_once: usize,
}

/// A workspace that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    /// Which one.
    pub id: WorkspaceId,
    /// Its kind.
    pub kind: Name,
    /// Its last event.
    pub last_offset: WorkspaceOffset,
    /// The last record id that its sequence has reached; none if no record was created.
    pub last_record: Option<RecordId>,
}

/// The last number of a declared sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceState {
    /// Its name.
    pub name: Name,
    /// The first number it issues.
    pub initial_number: u64,
    /// The last number it issued; none if it issued none.
    pub last: Option<u64>,
}

/// What an idempotency key was used for before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precedent {
    /// The same request, with this outcome.
    Same(Outcome),
    /// Another one.
    Other,
}

/// A value under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entity {
    /// The key.
    pub key: Bytes,
    /// The value.
    pub value: Bytes,
    /// Workspace offset of the last change.
    pub version: u64,
    /// Log time in milliseconds from which on it does not exist.
    pub expires_at: Option<u64>,
}

/// A record as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    /// Its id.
    pub id: RecordId,
    bytes: Bytes,
}

impl StoredRecord {
    /// What it holds.
    ///
    /// # Errors
    /// If it has another form than this program writes.
    pub fn row(&self) -> Result<RecordRow<'_>, Fault> {
        RecordRow::decode(&self.bytes).map_err(Fault::Row)
    }
}

impl View {
    pub(crate) fn new(
        partition: PartitionId,
        log: Log,
        rows: Snapshot,
        schema: Option<Arc<Schema>>,
        applied: Option<PartitionOffset>,
        time: u64,
    ) -> Self {
        Self { partition, log, rows: Arc::new(rows), schema, applied, time, at_once: MAX_READ_BYTES }
    }

    /// The same, which reads fewer outcomes at once: none follows when those so far have so many bytes.
    #[must_use]
    pub fn with_bytes_at_once(mut self, bytes: usize) -> Self {
        self.at_once = bytes.min(MAX_READ_BYTES);
        self
    }

    /// Which partition it is of.
    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    /// The last outcome that it knows.
    pub fn applied(&self) -> Option<PartitionOffset> {
        self.applied
    }

    /// Log time of that outcome, in milliseconds.
    pub fn time(&self) -> u64 {
        self.time
    }

    /// The definition of the namespace; none before the first one.
    pub fn schema(&self) -> Option<&Arc<Schema>> {
        self.schema.as_ref()
    }

    /// Outcomes of the partition from `from` on, at most `limit`, upwards or downwards. Fewer if they are large: none follows when
    /// those so far have [`MAX_READ_BYTES`], or what [`View::with_bytes_at_once`] says.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn outcomes(
        &self,
        from: PartitionOffset,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<StoredOutcome>, Fault> {
        let Some(last) = self.applied else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        let mut next = match direction {
            Direction::Forward => (from <= last).then_some(from),
            Direction::Backward => Some(from.min(last)),
        };
        let (mut bytes, mut log) = (0, ReadAhead::new(&self.log, direction));
        while let Some(offset) = next.filter(|_| found.len() < limit && bytes < self.at_once) {
            let outcome = log.read(offset)?;
            bytes += outcome.bytes().len();
            found.push(outcome);
            next = match direction {
                Direction::Forward => offset.next().filter(|next| *next <= last),
                Direction::Backward => offset.previous(),
            };
        }
        Ok(found)
    }

    /// An outcome as it was given when its record was applied.
    ///
    /// # Errors
    /// If it contradicts itself, or the outcome that a duplicate is of cannot be read from the log.
    pub fn outcome(&self, stored: &StoredOutcome) -> Result<Outcome, Fault> {
        stored.outcome(self.partition, &self.log)
    }

    /// What a key of a client was used for before, if that counts at a log time in milliseconds. None says nothing: it may have been
    /// used behind what this view knows.
    ///
    /// # Errors
    /// If rows or the log cannot be read.
    pub fn precedent(
        &self,
        workspace: WorkspaceId,
        client: &str,
        key: IdempotencyKey,
        digest: RequestDigest,
        now: u64,
    ) -> Result<Option<Precedent>, Fault> {
        let Some(schema) = &self.schema else { return Ok(None) };
        let window_ms = schema.definition().idempotency.window_ms;
        let memory = Memory { window_ms, forgotten_before: schema.forgotten_before() };
        let request = Request { workspace, client, key, digest: &digest };
        Ok(match recall(&self.rows, &memory, now.max(self.time), &request)? {
            Recalled::New => None,
            Recalled::Decided(row) => {
                let first = StoredOutcome::read(&self.log, row.offset)?;
                Some(Precedent::Same(first.outcome(self.partition, &self.log)?))
            }
            Recalled::Reused(_) => Some(Precedent::Other),
        })
    }

    /// Events of a workspace from `from` on, at most `limit`, upwards or downwards. Fewer if they are large: none follows when those
    /// so far have [`MAX_READ_BYTES`], or what [`View::with_bytes_at_once`] says.
    ///
    /// # Errors
    /// If store or log cannot be read.
    pub fn events(
        &self,
        workspace: WorkspaceId,
        from: WorkspaceOffset,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<StoredOutcome>, Fault> {
        let key = |offset| rows::index::key(self.partition.namespace, workspace, offset);
        let range = match direction {
            Direction::Forward => key(from.get())..=key(u64::MAX),
            Direction::Backward => key(0)..=key(from.get()),
        };
        let (mut found, mut bytes) = (Vec::new(), 0);
        let mut log = ReadAhead::new(&self.log, direction);
        for row in self.rows.range(range, direction).take(limit) {
            let (_, value) = row?;
            let (offset, _) =
                rows::index::decode(&value).ok_or(Fault::row("an index row without an offset"))?;
            let outcome = log.read(offset)?;
            bytes += outcome.bytes().len();
            found.push(outcome);
            if bytes >= self.at_once {
                break;
            }
        }
        Ok(found)
    }

    /// A workspace, if it exists.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn workspace(&self, id: WorkspaceId) -> Result<Option<Workspace>, Fault> {
        let row = self.rows.get(&rows::workspace::key(self.partition.namespace, id))?;
        row.map(|row| self.workspace_of(id, &row)).transpose()
    }

    /// Workspaces behind `after`, at most `limit`, by ascending id.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn workspaces(&self, after: Option<WorkspaceId>, limit: usize) -> Result<Vec<Workspace>, Fault> {
        let namespace = self.partition.namespace;
        let first = after.map_or(Some(0), |after| after.get().checked_add(1));
        let Some(first) = first else { return Ok(Vec::new()) };
        let range = rows::workspace::key(namespace, WorkspaceId::new(first))
            ..=rows::workspace::key(namespace, WorkspaceId::new(u64::MAX));
        let workspace = |row: Result<(Bytes, Bytes), ReadError>| {
            let (key, value) = row?;
            let id = rows::workspace::decode_key(&key).ok_or(Fault::row("a workspace row without an id"))?;
            self.workspace_of(id, &value)
        };
        self.rows.range(range, Direction::Forward).take(limit).map(workspace).collect()
    }

    fn workspace_of(&self, id: WorkspaceId, row: &[u8]) -> Result<Workspace, Fault> {
        let kind = rows::workspace::decode(row).ok_or(Fault::row("a workspace without a kind"))?;
        let known = self.schema.as_ref().and_then(|schema| schema.kind_of(kind));
        let (kind, _) = known.ok_or(Fault::row("a workspace of a kind that nobody defined"))?;
        let last = self.number(id, WORKSPACE_OFFSET)?.and_then(WorkspaceOffset::new);
        Ok(Workspace {
            id,
            kind: kind.clone(),
            last_offset: last.ok_or(Fault::row("a workspace without events"))?,
            last_record: self.number(id, RECORD_ID)?.and_then(RecordId::new),
        })
    }

    /// The declared sequences of a workspace with their last numbers, by name; empty if it does not exist.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn sequences(&self, workspace: WorkspaceId) -> Result<Vec<SequenceState>, Fault> {
        let Some(found) = self.workspace(workspace)? else { return Ok(Vec::new()) };
        let kind = self.schema.as_ref().and_then(|schema| schema.kind(found.kind.as_str()));
        let state = |(name, sequence): (&Name, &crate::schema::Sequence)| {
            let last = self.number(workspace, sequence.id)?;
            Ok(SequenceState { name: name.clone(), initial_number: sequence.initial_number, last })
        };
        kind.into_iter().flat_map(|kind| &kind.sequences).map(state).collect()
    }

    pub(crate) fn number(&self, workspace: WorkspaceId, sequence: SequenceId) -> Result<Option<u64>, Fault> {
        let row = self.rows.get(&rows::number::key(self.partition.namespace, workspace, sequence))?;
        row.map(|row| rows::number::decode(&row).ok_or(Fault::row("a number that is none"))).transpose()
    }

    /// The last sequence that a client has in a workspace; none if it never wrote there.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn client_sequence(
        &self,
        workspace: WorkspaceId,
        client: &str,
    ) -> Result<Option<ClientSequence>, Fault> {
        let mut key = Vec::new();
        rows::client::key(self.partition.namespace, workspace, client, &mut key);
        let row = self.rows.get(&key)?;
        row.map(|row| rows::client::decode(&row).ok_or(Fault::row("a client sequence that is none")))
            .transpose()
    }

    /// A record, active or not.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn record(&self, workspace: WorkspaceId, id: RecordId) -> Result<Option<StoredRecord>, Fault> {
        let row = self.rows.get(&rows::record::key(self.partition.namespace, workspace, id.get()))?;
        Ok(row.map(|bytes| StoredRecord { id, bytes }))
    }

    /// Records of a workspace behind `after`, at most `limit`, by ascending id.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn records(
        &self,
        workspace: WorkspaceId,
        after: Option<RecordId>,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, Fault> {
        let key = |id| rows::record::key(self.partition.namespace, workspace, id);
        let first = after.map_or(0, |after| after.get().saturating_add(1));
        let record = |row: Result<(Bytes, Bytes), ReadError>| {
            let (key, bytes) = row?;
            let id = rows::record::decode_key(&key).ok_or(Fault::row("a record without an id"))?;
            Ok(StoredRecord { id, bytes })
        };
        self.rows.range(key(first)..=key(u64::MAX), Direction::Forward).take(limit).map(record).collect()
    }

    /// An entity, if it exists at the time of this view.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn entity(&self, workspace: WorkspaceId, key: &[u8]) -> Result<Option<Entity>, Fault> {
        let mut row_key = Vec::new();
        rows::entity::key(self.partition.namespace, workspace, key, &mut row_key);
        match self.rows.get(&row_key)? {
            Some(value) => self.entity_of(Bytes::copy_from_slice(key), &value),
            None => Ok(None),
        }
    }

    /// Entities whose keys begin with `prefix` and lie behind `after`, at most `limit`, by ascending key.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn entities(
        &self,
        workspace: WorkspaceId,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Entity>, Fault> {
        let mut row_prefix = Vec::new();
        rows::entity::key(self.partition.namespace, workspace, prefix, &mut row_prefix);
        let mut start = row_prefix.clone();
        if let Some(after) = after.filter(|after| *after >= prefix) {
            rows::entity::key(self.partition.namespace, workspace, after, &mut start);
            start.push(0);
        }
        let mut found = Vec::new();
        for row in self.rows.range(start.., Direction::Forward) {
            let (key, value) = row?;
            if found.len() == limit || !key.starts_with(&row_prefix) {
                break;
            }
            found.extend(self.entity_of(key.slice_ref(rows::entity::decode_key(&key)), &value)?);
        }
        Ok(found)
    }

    fn entity_of(&self, key: Bytes, value: &Bytes) -> Result<Option<Entity>, Fault> {
        let row = EntityRow::decode(value).map_err(Fault::Row)?;
        Ok(row.exists_at(self.time).then(|| Entity {
            key,
            value: value.slice_ref(row.value),
            version: row.version,
            expires_at: row.expires_at,
        }))
    }

    /// Every row there is, in order: for export and for digests.
    pub fn rows(&self) -> impl Iterator<Item = Result<(Space, Bytes, Bytes), ReadError>> {
        self.rows.everything()
    }
}
