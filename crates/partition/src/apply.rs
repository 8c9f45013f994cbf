//! Step 7 of the corridor: a record becomes an outcome.
//!
//! Invariants
//! - NUM-2: what is refused or fails consumes no number.
//! - NUM-3: the same records give the same outcomes, numbers and rows; nothing here reads a clock, a random number or an order
//!   that is not the log's.
//! - LOG-1: state changes only behind the outcome that says so in the partition log.

use std::borrow::Cow;

use gapless_sequencer::{Sequencer, StartError, Transaction};
use gapless_types::mistakes::{Mistake, makes};
use gapless_types::{
    ClientSequence, IdempotencyKey, PartitionId, PartitionOffset, WorkspaceId, WorkspaceKind,
};

use crate::command::{Command, Record};
use crate::conditions::{self, Demand, Facts};
use crate::definition::Definition;
use crate::error::{ApplyError, Fault};
use crate::idempotency::{self, Recalled, Request};
use crate::numbers::{self, Numbers};
use crate::outcome::{
    Committed, Header, Outcome, OutcomeKind, Refusal, RefusalCode, RequestDigest, TransactionId,
};
use crate::partition::Partition;
use crate::recent::Lately;
use crate::rows;
use crate::schema::{Kind, NO_KIND, Schema, WORKSPACE_OFFSET};
use crate::state::{Context, Reads, put_schema};
use crate::stop::Stop;
use crate::stored::StoredOutcome;
use crate::stored_numbers::StoredNumbers;
use crate::write::Write;

/// Reasons that the refusal of a definition gives at most.
const MAX_REASONS: usize = 100;

impl Partition {
    /// Applies the next record. A record that has an outcome already is compared with it and gets it again.
    ///
    /// # Errors
    /// If the record is not the next one, or the world failed; then nothing is applied any more until the partition is opened
    /// again.
    pub fn apply(&mut self, record: &Record<'_>) -> Result<Outcome, ApplyError> {
        self.apply_digested(record, None)
    }

    /// The same, for whoever knows the digest of the write in the record already and need not have it computed again.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn apply_digested(
        &mut self,
        record: &Record<'_>,
        digest: Option<RequestDigest>,
    ) -> Result<Outcome, ApplyError> {
        if let Some(known) = self.recorded(record)? {
            return Ok(known);
        }
        self.check_running()?;
        let outcome = self.decide(record, digest);
        outcome.map_err(|fault| {
            if fault.is_quarantine() {
                // What was applied before stays readable.
                let _ = self.hand_over().and_then(|()| self.flush_numbers());
            }
            ApplyError::Stopped(self.stop(fault))
        })
    }

    fn decide(&mut self, record: &Record<'_>, digest: Option<RequestDigest>) -> Result<Outcome, Fault> {
        self.batch.clear();
        match Command::decode(record.command) {
            Ok(Command::Write(key, bytes)) => {
                let digest = digest.unwrap_or_else(|| RequestDigest::of(bytes));
                debug_assert_eq!(digest, RequestDigest::of(bytes), "NUM-3: a digest follows from the record");
                self.apply_write(record, key, bytes, digest)
            }
            Ok(Command::Define(bytes)) => self.apply_definition(record, bytes),
            Err(malformed) => self.apply_malformed(record, &malformed.to_string()),
        }
    }

    /// The steps a to f of the corridor.
    fn apply_write(
        &mut self,
        record: &Record<'_>,
        key: IdempotencyKey,
        bytes: &[u8],
        digest: RequestDigest,
    ) -> Result<Outcome, Fault> {
        let time = self.log_time(record);
        let write = match Write::decode(bytes) {
            Ok(write) => write,
            Err(malformed) => return self.apply_malformed(record, &malformed.to_string()),
        };
        self.make_ready()?;
        let lately = self.recent.workspace(write.workspace);
        let place = Place::of(&write, self.schema.as_deref(), self.id, lately, &self.store)?;
        let schema = self.schema.as_deref();
        let mut context = Context { partition: self.id, schema, store: &self.store, ends: self.ends };
        let mut transaction = begin(&mut self.sequencer, place.kind_id(), write.workspace)?;
        let draft =
            Draft { record, time, key: Some(key), digest, write: Some(&write), kind: place.kind_id() };

        // a. Idempotency decides.
        let decision = recall(&context, time, &draft.request(key))
            // b. Conditions.
            .and_then(|()| place.check(&write, self.id, time, &mut transaction, &self.store))
            // c. Numbers.
            .and_then(|demand| {
                let known = self.recent.last_sequence(write.workspace, write.client);
                let last = last_sequence(self.id, &write, known, &self.store)?;
                numbers::take(&mut transaction, demand, last)
            });
        let verdict = Verdict::of(decision)?;
        // d. The outcome. Its rows are checked before it is kept.
        let header = draft.header(&verdict);
        if let (Some(lately), Some(numbers)) = (lately, verdict.event()) {
            // Looked for when it comes for the second time: most of those that do not come again are spared it.
            context.ends.events =
                lately.ends_there || context.end_before(write.workspace, numbers.workspace_offset);
        }
        let ends_there = context.ends.events;
        let outcome = self.pending.draft(&header, &verdict.body(bytes));
        let event = verdict.event().map(|_| &write);
        context.rows_of(&header, outcome, event, &mut self.tiles, &mut self.batch)?;
        self.pending.keep(&self.log)?;
        transaction.flush();
        // e. State.
        self.change_state(record, time)?;
        // f. Answer.
        if let (Some(kind), Some(numbers)) = (draft.kind, verdict.event()) {
            let lately = Lately { kind, ends_there };
            self.recent.learn(write.workspace, lately, write.client, numbers.client_sequence);
        }
        self.answer(&draft, verdict)
    }

    /// What the caller is told.
    fn answer(&mut self, draft: &Draft<'_>, verdict: Verdict) -> Result<Outcome, Fault> {
        match verdict {
            Verdict::Commit(numbers) => Ok(Outcome::Committed(draft.committed(self.id, numbers))),
            Verdict::Refuse(refusal) | Verdict::RefuseReuse(refusal) => Ok(Outcome::Refused(*refusal)),
            Verdict::Repeat(first_offset) => {
                self.pending.hand_over(&self.log)?;
                let first = StoredOutcome::read(&self.log, first_offset)?.outcome(self.id, &self.log)?;
                Ok(Outcome::Duplicate { first_offset, first: Box::new(first) })
            }
        }
    }

    /// A record that should never have become part of the log still gets an outcome.
    fn apply_malformed(&mut self, record: &Record<'_>, problem: &str) -> Result<Outcome, Fault> {
        let time = self.log_time(record);
        let refusal = Refusal::new(RefusalCode::Malformed, problem);
        let mut body = Vec::new();
        refusal.encode(&mut body);
        let digest = RequestDigest::of(canonical(record.command));
        let key = match Command::decode(record.command) {
            Ok(Command::Write(key, _)) => Some(key),
            _ => None,
        };
        let draft = Draft { record, time, key, digest, write: None, kind: None };
        self.record_without_numbers(&draft, OutcomeKind::Refusal, &body)?;
        Ok(Outcome::Refused(refusal))
    }

    fn apply_definition(&mut self, record: &Record<'_>, bytes: &[u8]) -> Result<Outcome, Fault> {
        let time = self.log_time(record);
        let schema = match Definition::decode(bytes) {
            Ok(definition) => Schema::after(self.schema.as_deref(), definition, time),
            Err(malformed) => Err(vec![malformed.to_string()]),
        };
        let draft =
            Draft { record, time, key: None, digest: RequestDigest::of(bytes), write: None, kind: None };
        match schema {
            Ok(schema) => {
                put_schema(self.id, &schema, &mut self.batch)?;
                self.record_without_numbers(&draft, OutcomeKind::Definition, bytes)?;
                self.use_schema(schema)?;
                Ok(Outcome::Defined)
            }
            Err(mut reasons) => {
                reasons.truncate(MAX_REASONS);
                let body = reasons.join("\n");
                self.record_without_numbers(&draft, OutcomeKind::DefinitionRefusal, body.as_bytes())?;
                Ok(Outcome::DefinitionRefused(reasons))
            }
        }
    }

    fn record_without_numbers(
        &mut self,
        draft: &Draft<'_>,
        kind: OutcomeKind,
        body: &[u8],
    ) -> Result<(), Fault> {
        self.make_ready()?;
        let header = draft.without_numbers(kind);
        let schema = self.schema.as_deref();
        let context = Context { partition: self.id, schema, store: &self.store, ends: self.ends };
        let outcome = self.pending.draft(&header, body);
        context.rows_of(&header, outcome, None, &mut self.tiles, &mut self.batch)?;
        let transaction = begin(&mut self.sequencer, None, WorkspaceId::NAMESPACE)?;
        self.pending.keep(&self.log)?;
        transaction.flush();
        self.change_state(draft.record, draft.time)
    }

    /// Log time never goes back, whatever a record says.
    fn log_time(&self, record: &Record<'_>) -> u64 {
        record.time.max(self.time)
    }
}

/// Step a.
fn recall(context: &Context<'_>, time: u64, request: &Request<'_>) -> Result<(), Stop> {
    match idempotency::recall(&context.store.lock(), &context.memory(), time, request)? {
        Recalled::New => Ok(()),
        Recalled::Decided(row) => Err(Stop::Decided(row.offset)),
        Recalled::Reused(row) => {
            let message =
                format!("the idempotency key was used for another request, at offset {}", row.offset);
            Err(Stop::Reused(Box::new(Refusal::new(RefusalCode::IdempotencyKeyReused, message))))
        }
    }
}

/// What becomes of a write.
enum Verdict {
    Commit(Numbers),
    Refuse(Box<Refusal>),
    RefuseReuse(Box<Refusal>),
    /// What became of it before, at this offset.
    Repeat(PartitionOffset),
}

impl Verdict {
    fn of(decision: Result<Numbers, Stop>) -> Result<Self, Fault> {
        match decision {
            Ok(numbers) => Ok(Verdict::Commit(numbers)),
            Err(Stop::Refused(refusal)) => Ok(Verdict::Refuse(refusal)),
            Err(Stop::Reused(refusal)) => Ok(Verdict::RefuseReuse(refusal)),
            Err(Stop::Decided(offset)) => Ok(Verdict::Repeat(offset)),
            Err(Stop::Fault(fault)) => Err(fault),
        }
    }

    fn event(&self) -> Option<&Numbers> {
        match self {
            Verdict::Commit(numbers) => Some(numbers),
            Verdict::Refuse(_) | Verdict::RefuseReuse(_) | Verdict::Repeat(_) => None,
        }
    }

    /// What stands behind the header in the partition log: the write itself, why it was refused, or where it was decided.
    fn body<'a>(&self, write: &'a [u8]) -> Cow<'a, [u8]> {
        match self {
            Verdict::Commit(_) => Cow::Borrowed(write),
            Verdict::Refuse(refusal) | Verdict::RefuseReuse(refusal) => {
                let mut body = Vec::new();
                refusal.encode(&mut body);
                Cow::Owned(body)
            }
            Verdict::Repeat(offset) => Cow::Owned(offset.get().to_le_bytes().to_vec()),
        }
    }
}

/// The bytes that the digest of a command covers; of one that cannot be taken apart, all of it.
pub(crate) fn canonical(command: &[u8]) -> &[u8] {
    Command::decode(command).map_or(command, |command| command.canonical())
}

/// Where a write goes: its workspace's kind, if it has the right to one.
struct Place<'a> {
    schema: Option<&'a Schema>,
    kind: Result<&'a Kind, Refusal>,
}

impl<'a> Place<'a> {
    fn of(
        write: &Write<'_>,
        schema: Option<&'a Schema>,
        partition: PartitionId,
        lately: Option<Lately>,
        reads: &impl Reads,
    ) -> Result<Self, Fault> {
        let kind = match schema {
            None => Err(Refusal::new(RefusalCode::WrongKind, "the namespace is not defined")),
            Some(schema) => kind_of(write, schema, partition, lately.map(|lately| lately.kind), reads)?,
        };
        Ok(Self { schema, kind })
    }

    fn kind_id(&self) -> Option<WorkspaceKind> {
        self.kind.as_ref().ok().map(|kind| kind.id)
    }

    /// Step b.
    fn check(
        &self,
        write: &Write<'_>,
        partition: PartitionId,
        time: u64,
        transaction: &mut Transaction<'_, StoredNumbers>,
        reads: &impl Reads,
    ) -> Result<Demand, Stop> {
        let (kind, schema) = match (&self.kind, self.schema) {
            (Ok(kind), Some(schema)) => (*kind, schema),
            (Err(refusal), _) => return Err(refusal.clone().into()),
            (Ok(_), None) => return Err(Fault::Log("a kind without a schema").into()),
        };
        let last_offset = transaction.last(WORKSPACE_OFFSET).map_err(numbers::fault)?;
        let facts = Facts { namespace: partition.namespace, schema, kind, last_offset, time };
        conditions::check(write, &facts, reads)
    }
}

/// The kind that a workspace has, or gets by this write. `known` if it is.
pub(crate) fn kind_of<'a>(
    write: &Write<'_>,
    schema: &'a Schema,
    partition: PartitionId,
    known: Option<WorkspaceKind>,
    reads: &impl Reads,
) -> Result<Result<&'a Kind, Refusal>, Fault> {
    if let Some(violation) = write.violations().into_iter().next() {
        return Ok(Err(Refusal::new(RefusalCode::Malformed, violation.to_string())));
    }
    let home = write.workspace.partition(schema.definition().partitions);
    if home != partition.index {
        let message = format!("workspace {} belongs to partition {home}", write.workspace);
        return Ok(Err(Refusal::new(RefusalCode::Malformed, message)));
    }
    let Some(asked) = schema.kind(write.kind) else {
        let message = format!("the namespace has no kind {}", write.kind);
        return Ok(Err(Refusal::new(RefusalCode::WrongKind, message)));
    };
    let has = match known {
        Some(kind) => kind,
        None => {
            let row = reads.get(&rows::workspace::key(partition.namespace, write.workspace))?;
            let Some(row) = row else { return Ok(Ok(asked)) };
            rows::workspace::decode(&row).ok_or(Fault::row("a workspace without a kind"))?
        }
    };
    if has == asked.id {
        return Ok(Ok(asked));
    }
    let name = schema.kind_of(has).map_or("another one", |(name, _)| name.as_str());
    let message = format!("workspace {} is of kind {name}, not {}", write.workspace, write.kind);
    Ok(Err(Refusal::new(RefusalCode::WrongKind, message)))
}

fn last_sequence(
    partition: PartitionId,
    write: &Write<'_>,
    known: Option<ClientSequence>,
    reads: &impl Reads,
) -> Result<Option<ClientSequence>, Fault> {
    if known.is_some() && !makes(Mistake::CounterEvictedWithKey) {
        return Ok(known);
    }
    let mut key = Vec::with_capacity(rows::CLIENT_KEY_BYTES);
    rows::client::key(partition.namespace, write.workspace, write.client, &mut key);
    let Some(row) = reads.get(&key)? else { return Ok(None) };
    rows::client::decode(&row).map(Some).ok_or(Fault::row("a client sequence that is none"))
}

/// Opens the transaction of an outcome.
fn begin(
    sequencer: &mut Sequencer<StoredNumbers>,
    kind: Option<WorkspaceKind>,
    workspace: WorkspaceId,
) -> Result<Transaction<'_, StoredNumbers>, Fault> {
    sequencer
        .start(kind.unwrap_or(NO_KIND), workspace)
        .map_err(|error: StartError| Fault::Sequencer(error.to_string()))
}

/// What a record of the partition log says besides its numbers.
struct Draft<'a> {
    record: &'a Record<'a>,
    time: u64,
    key: Option<IdempotencyKey>,
    digest: RequestDigest,
    write: Option<&'a Write<'a>>,
    kind: Option<WorkspaceKind>,
}

impl<'a> Draft<'a> {
    fn without_numbers(&self, kind: OutcomeKind) -> Header<'a> {
        Header {
            kind,
            partition_offset: self.record.offset,
            log_index: self.record.log_index,
            time: self.time,
            workspace: self.write.map_or(WorkspaceId::NAMESPACE, |write| write.workspace),
            workspace_kind: self.kind,
            workspace_offset: None,
            client_sequence: None,
            highest_record: None,
            key: self.key,
            digest: self.digest,
            client: self.write.map_or("", |write| client_of(write)),
            record_ids: Vec::new(),
            numbers: Vec::new(),
        }
    }

    fn header(&self, verdict: &Verdict) -> Header<'a> {
        match verdict {
            Verdict::Commit(numbers) => self.event(numbers),
            Verdict::Refuse(_) => self.without_numbers(OutcomeKind::Refusal),
            Verdict::RefuseReuse(_) => self.without_numbers(OutcomeKind::KeyReuse),
            Verdict::Repeat(_) => self.without_numbers(OutcomeKind::Duplicate),
        }
    }

    fn request(&self, key: IdempotencyKey) -> Request<'_> {
        Request {
            workspace: self.write.map_or(WorkspaceId::NAMESPACE, |write| write.workspace),
            client: self.write.map_or("", |write| write.client),
            key,
            digest: &self.digest,
        }
    }

    fn event(&self, numbers: &Numbers) -> Header<'a> {
        Header {
            workspace_offset: Some(numbers.workspace_offset),
            client_sequence: Some(numbers.client_sequence),
            highest_record: numbers.highest_record,
            record_ids: numbers.record_ids.clone(),
            numbers: numbers.declared.clone(),
            ..self.without_numbers(OutcomeKind::Event)
        }
    }

    fn committed(&self, partition: PartitionId, numbers: Numbers) -> Committed {
        let taken = numbers.declared.iter().map(|(_, number)| *number);
        Committed {
            transaction: TransactionId::new(
                partition,
                self.record.offset,
                self.record.log_index,
                &self.digest,
            ),
            log_index: self.record.log_index,
            partition,
            partition_offset: self.record.offset,
            workspace_offset: numbers.workspace_offset,
            client_sequence: numbers.client_sequence,
            numbers: numbers.names.into_iter().zip(taken).collect(),
            record_ids: numbers.record_ids,
            committed_at: self.time,
        }
    }
}

/// The client of a write; a refused write may name one that is longer than any client.
fn client_of<'a>(write: &Write<'a>) -> &'a str {
    let most = gapless_types::limits::MAX_CLIENT_ID_BYTES;
    if write.client.len() <= most { write.client } else { "" }
}
