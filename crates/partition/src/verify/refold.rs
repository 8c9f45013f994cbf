//! Every outcome once more, from the log alone: what an event must have been given is computed from its write and from the
//! outcomes in front of it, and compared with what stands in the log, byte by byte.
//!
//! Refused writes are not kept, so of a refusal only what it may not have is checked: numbers, and a key that was decided.
//!
//! Must not know: the store of the partition.

use gapless_store::{Batch, Maintained, Offset, Store, Synced};
use gapless_types::{
    ClientSequence, IdempotencyKey, LogIndex, NamespaceId, PartitionId, PartitionIndex, PartitionOffset,
    RecordId, SequenceId, WorkspaceId, WorkspaceOffset,
};

use super::Difference;
use crate::apply::kind_of;
use crate::codec::Malformed;
use crate::conditions::{self, Demand, Facts, NewNumber, NewRecord};
use crate::definition::Definition;
use crate::error::Fault;
use crate::idempotency::{self, Recalled, Request};
use crate::outcome::{Header, OutcomeKind, Refusal, RequestDigest};
use crate::rows;
use crate::schema::{RECORD_ID, Schema, WORKSPACE_OFFSET};
use crate::shared_store::SharedStore;
use crate::state::{Context, Reads, put_schema};
use crate::stop::Stop;
use crate::stored_numbers::values_of;
use crate::tail::Stored;
use crate::tiles::Tiles;
use crate::trust::Ends;
use crate::write::Write;

/// Bytes of merging that one step of maintenance does.
const MAINTAIN_BYTES: u64 = 8 << 20;

/// Stands in for the id of a partition that nothing names.
pub(super) const NOBODY: PartitionId =
    PartitionId { namespace: NamespaceId::new(0), index: PartitionIndex::new(0) };

/// Why an outcome is not what it should be, or nothing can be said.
pub(super) enum Wrong {
    /// It differs.
    Outcome(Difference),
    /// The scratch store failed.
    Fault(Fault),
}

impl From<Fault> for Wrong {
    fn from(fault: Fault) -> Self {
        Wrong::Fault(fault)
    }
}

/// The state that follows from the outcomes so far.
pub(super) struct Refold {
    /// Which partition it is; of a partition without a checkpoint only the namespace is made up.
    id: PartitionId,
    is_id_known: bool,
    pub(super) store: SharedStore,
    schema: Option<Schema>,
    batch: Batch,
    tiles: Tiles,
    last: Option<(LogIndex, u64)>,
    pub(super) events: u64,
}

impl Refold {
    pub(super) fn new(id: Option<PartitionId>, scratch: Store) -> Result<Self, Fault> {
        let store = SharedStore::new(scratch);
        let mut batch = Batch::new();
        batch.put(&rows::version::KEY, &rows::version::VERSION.to_le_bytes())?;
        store.apply(&batch)?;
        Ok(Self {
            id: id.unwrap_or(NOBODY),
            is_id_known: id.is_some(),
            store,
            schema: None,
            batch,
            tiles: Tiles::default(),
            last: None,
            events: 0,
        })
    }

    /// Takes the next outcome, if it is what follows from those before.
    pub(super) fn take(&mut self, header: &Header<'_>, stored: Stored<'_>) -> Result<(), Wrong> {
        self.check_order(header)?;
        let check = Check { refold: self, header, stored };
        let event = check.outcome()?;
        let schema = check.schema()?;
        self.batch.clear();
        let ends = Ends::default();
        let context = Context { partition: self.id, schema: self.schema.as_ref(), store: &self.store, ends };
        let rows = context.rows_of(header, stored.outcome, event.as_ref(), &mut self.tiles, &mut self.batch);
        rows.map_err(|fault| match fault {
            Fault::Violation(violation) => differs(header, None, format!("{} again", violation.entry)),
            other => other.into(),
        })?;
        let mut values = Vec::new();
        values_of(header, &mut values);
        for value in values {
            // An imported id may lie below the highest one: a sequence never goes back for it (NUM-1).
            if value.number > self.number(value.workspace, value.sequence)? {
                let key = rows::number::key(self.id.namespace, value.workspace, value.sequence);
                self.batch.put(&key, &value.number.to_le_bytes()).map_err(Fault::from)?;
            }
        }
        if let Some(schema) = schema {
            put_schema(self.id, &schema, &mut self.batch)?;
            self.schema = Some(schema);
        }
        self.apply_batch(header.partition_offset)?;
        self.last = Some((header.log_index, header.time));
        self.events += u64::from(header.kind == OutcomeKind::Event);
        Ok(())
    }

    /// Time and log index never go back.
    fn check_order(&self, header: &Header<'_>) -> Result<(), Wrong> {
        let Some((log_index, time)) = self.last else { return Ok(()) };
        if header.time < time {
            let what = format!("log time {}, and {time} before it", header.time);
            return Err(differs(header, Some(32), what));
        }
        if header.log_index < log_index {
            let what = format!("log index {}, and {log_index} before it", header.log_index);
            return Err(differs(header, Some(24), what));
        }
        Ok(())
    }

    /// Applies the batch; what was applied before goes to the disk when there is much of it.
    fn apply_batch(&mut self, offset: PartitionOffset) -> Result<(), Fault> {
        if self.store.lock().wants_checkpoint() {
            let before = Offset::new(offset.get() - 1);
            let mut store = self.store.lock();
            while store.maintain(MAINTAIN_BYTES).map_err(|error| Fault::Checkpoint(error.to_string()))?
                != Maintained::Idle
            {}
            store
                .checkpoint(before, Synced::by_a_sync_up_to(before))
                .map_err(|error| Fault::Checkpoint(error.to_string()))?;
        }
        self.store.apply(&self.batch)
    }

    fn number(&self, workspace: WorkspaceId, sequence: SequenceId) -> Result<u64, Fault> {
        let row = self.store.get(&rows::number::key(self.id.namespace, workspace, sequence))?;
        Ok(row.and_then(|row| rows::number::decode(&row)).unwrap_or(0))
    }

    fn client(&self, workspace: WorkspaceId, client: &str) -> Result<u64, Fault> {
        let mut key = Vec::new();
        rows::client::key(self.id.namespace, workspace, client, &mut key);
        let row = self.store.get(&key)?.and_then(|row| rows::client::decode(&row));
        Ok(row.map_or(0, ClientSequence::get))
    }
}

/// One outcome under examination.
struct Check<'r, 'a> {
    refold: &'r Refold,
    header: &'a Header<'a>,
    stored: Stored<'a>,
}

impl<'a> Check<'_, 'a> {
    /// Compares the outcome with what it should be; the write, if it is an event.
    fn outcome(&self) -> Result<Option<Write<'a>>, Wrong> {
        let header = self.header;
        let (expected, event) = match header.kind {
            OutcomeKind::Event => {
                let write = Write::decode(self.stored.body).map_err(|malformed| self.malformed(malformed))?;
                (self.event(&write)?, Some(write))
            }
            OutcomeKind::Refusal => {
                Refusal::decode(self.stored.body).map_err(|malformed| self.malformed(malformed))?;
                self.expect_recall(Recall::New)?;
                (self.without_numbers(), None)
            }
            OutcomeKind::Duplicate => {
                let first = self.stored.body.try_into().map(u64::from_le_bytes).unwrap_or(0);
                self.expect_recall(Recall::Decided(first))?;
                (self.without_numbers(), None)
            }
            OutcomeKind::KeyReuse => {
                Refusal::decode(self.stored.body).map_err(|malformed| self.malformed(malformed))?;
                self.expect_recall(Recall::Reused)?;
                (self.without_numbers(), None)
            }
            OutcomeKind::Definition => {
                let digest = RequestDigest::of(self.stored.body);
                (Header { digest, key: None, client: "", ..self.without_numbers() }, None)
            }
            OutcomeKind::DefinitionRefusal => {
                (Header { key: None, client: "", ..self.without_numbers() }, None)
            }
        };
        let mut bytes = Vec::with_capacity(self.stored.outcome.len());
        expected.encode(self.stored.body, &mut bytes);
        self.expect_bytes(&bytes)?;
        Ok(event)
    }

    fn expect_bytes(&self, expected: &[u8]) -> Result<(), Wrong> {
        let found = self.stored.outcome;
        if found == expected {
            return Ok(());
        }
        // The checksum differs whenever something else does: it is named only if nothing else is.
        let same = |at: &usize| found.get(*at) == expected.get(*at);
        let longest = found.len().max(expected.len());
        let at = (0..longest).find(|at| !same(at) && !(4..8).contains(at));
        Err(self.differs(at, "numbers that do not follow from the outcomes before it".to_owned()))
    }

    fn without_numbers(&self) -> Header<'a> {
        Header {
            workspace_offset: None,
            client_sequence: None,
            highest_record: None,
            record_ids: Vec::new(),
            numbers: Vec::new(),
            ..self.header.clone()
        }
    }

    /// What an event must have been given.
    fn event(&self, write: &Write<'a>) -> Result<Header<'a>, Wrong> {
        self.expect_recall(Recall::New)?;
        let refold = self.refold;
        let Some(schema) = &refold.schema else {
            return Err(self.differs(None, "an event before the first definition".to_owned()));
        };
        let index = match refold.is_id_known {
            true => refold.id.index,
            false => write.workspace.partition(schema.definition().partitions),
        };
        let partition = PartitionId { index, ..refold.id };
        let kind = kind_of(write, schema, partition, None, &refold.store)?
            .map_err(|refusal| self.not_refused(&refusal))?;
        let last_offset = refold.number(write.workspace, WORKSPACE_OFFSET)?;
        let facts =
            Facts { namespace: partition.namespace, schema, kind, last_offset, time: self.header.time };
        let demand = conditions::check(write, &facts, &refold.store).map_err(|stop| match stop {
            Stop::Refused(refusal) | Stop::Reused(refusal) => self.not_refused(&refusal),
            Stop::Decided(_) => self.differs(None, "an event that was decided before".to_owned()),
            Stop::Fault(fault) => fault.into(),
        })?;
        let sequence = refold.client(write.workspace, write.client)?.checked_add(1);
        let header = Header {
            workspace: write.workspace,
            workspace_kind: Some(kind.id),
            workspace_offset: last_offset.checked_add(1).and_then(WorkspaceOffset::new),
            client_sequence: sequence.and_then(ClientSequence::new),
            digest: RequestDigest::of(self.stored.body),
            client: write.client,
            ..self.without_numbers()
        };
        self.numbered(header, demand)
    }

    /// Record ids and declared numbers, each the next of its sequence.
    fn numbered(&self, mut header: Header<'a>, demand: Demand) -> Result<Header<'a>, Wrong> {
        let refold = self.refold;
        let first = RecordId::FIRST_USER.get();
        let explicit = demand.highest_explicit.unwrap_or(0);
        let mut last = refold.number(header.workspace, RECORD_ID)?.max(explicit).max(first - 1);
        let mut highest = explicit;
        let mut record_ids = Vec::with_capacity(demand.records.len());
        for NewRecord { raw, fixed, .. } in demand.records {
            let id = match fixed {
                Some(singleton) => Some(singleton),
                None => {
                    last = last.saturating_add(1);
                    highest = highest.max(last);
                    RecordId::new(last)
                }
            };
            let id = id.ok_or_else(|| self.differs(None, "a record without an id".to_owned()))?;
            record_ids.push((raw, id));
        }
        let mut numbers: Vec<(SequenceId, u64)> = Vec::with_capacity(demand.numbers.len());
        for NewNumber { sequence, .. } in demand.numbers {
            let taken = numbers.iter().rev().find(|(id, _)| *id == sequence.id).map(|(_, number)| *number);
            let last = match taken {
                Some(last) => last,
                None => refold.number(header.workspace, sequence.id)?.max(sequence.initial_number - 1),
            };
            numbers.push((sequence.id, last.saturating_add(1)));
        }
        header.highest_record = RecordId::new(highest);
        (header.record_ids, header.numbers) = (record_ids, numbers);
        Ok(header)
    }

    /// IDEM-1: what the outcomes so far say about the key.
    fn expect_recall(&self, expected: Recall) -> Result<(), Wrong> {
        let header = self.header;
        let Some(key) = header.key.filter(|_| !header.client.is_empty()) else {
            // Only what cannot be taken apart has no key or no client.
            return match (expected, header.kind) {
                (Recall::New, OutcomeKind::Refusal) => Ok(()),
                _ => Err(self.differs(None, "an outcome without a key or a client".to_owned())),
            };
        };
        let found = self.recall(key)?;
        if found == expected {
            return Ok(());
        }
        let what = match found {
            Recall::New => "a key that was not decided before",
            Recall::Decided(_) => "a key that was decided before, elsewhere",
            Recall::Reused => "a key that was used for another request before",
        };
        Err(self.differs(Some(72), what.to_owned()))
    }

    fn recall(&self, key: IdempotencyKey) -> Result<Recall, Wrong> {
        let (refold, header) = (self.refold, self.header);
        let (schema, ends) = (refold.schema.as_ref(), Ends::default());
        let context = Context { partition: refold.id, schema, store: &refold.store, ends };
        let request =
            Request { workspace: header.workspace, client: header.client, key, digest: &header.digest };
        let store = refold.store.lock();
        Ok(match idempotency::recall(&store, &context.memory(), header.time, &request)? {
            Recalled::New => Recall::New,
            Recalled::Decided(row) => Recall::Decided(row.offset.get()),
            Recalled::Reused(_) => Recall::Reused,
        })
    }

    /// The schema from here on, if it is a definition.
    fn schema(&self) -> Result<Option<Schema>, Wrong> {
        if self.header.kind != OutcomeKind::Definition {
            return Ok(None);
        }
        let definition =
            Definition::decode(self.stored.body).map_err(|malformed| self.malformed(malformed))?;
        let schema = Schema::after(self.refold.schema.as_ref(), definition, self.header.time);
        schema.map(Some).map_err(|reasons| {
            let reasons = reasons.join("; ");
            self.differs(None, format!("a definition that should have been refused: {reasons}"))
        })
    }

    fn not_refused(&self, refusal: &Refusal) -> Wrong {
        self.differs(None, format!("an event that should have been refused: {}", refusal.message))
    }

    fn malformed(&self, malformed: Malformed) -> Wrong {
        let at = self.stored.outcome.len() - self.stored.body.len() + malformed.at;
        self.differs(Some(at), format!("a malformed {}", malformed.what))
    }

    fn differs(&self, byte: Option<usize>, what: String) -> Wrong {
        differs(self.header, byte, what)
    }
}

/// What is known of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Recall {
    New,
    Decided(u64),
    Reused,
}

fn differs(header: &Header<'_>, byte: Option<usize>, what: String) -> Wrong {
    Wrong::Outcome(Difference { offset: header.partition_offset, byte, what, place: super::Place::Log })
}
