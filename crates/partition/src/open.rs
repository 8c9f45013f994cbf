//! Opening a partition: from the checkpoint of its store and the tail of its log, and from nothing else.
//!
//! Time to serve depends on what came after the last checkpoint, not on the length of the log or the number of workspaces. A
//! store that is damaged, missing or of another version is rebuilt from the whole log (LOG-1).

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gapless_log::io::Io;
use gapless_log::{Log, OpenError as LogOpenError, OpenReport};
use gapless_sequencer::{CacheBudget, Drive, Params, Sequencer};
use gapless_store::{Batch, Budget, OpenError as StoreOpenError, Store};
use gapless_types::{LogIndex, PartitionId, PartitionOffset, Position, RecordId, SequenceId};
use thiserror::Error;

use crate::codec::Malformed;
use crate::definition::Definition;
use crate::error::{CheckpointFailed, Fault};
use crate::outcome::{Header, OutcomeKind};
use crate::partition::{Partition, log_dir, mark, store_dir};
use crate::pending::Pending;
use crate::recent::Recent;
use crate::rows;
use crate::schema::{NO_KIND, RECORD_ID, Schema, WORKSPACE_OFFSET};
use crate::shared_store::SharedStore;
use crate::state::{Context, Reads, put_schema};
use crate::stored::StoredOutcome;
use crate::stored_numbers::StoredNumbers;
use crate::syncing;
use crate::tail::{Stored, read_tail};
use crate::tiles::Tiles;
use crate::trust::{self, Ends};
use crate::turns::Turns;
use crate::write::Write;

/// Values that may wait for the store, which is memory here: enough that writing them is worth a batch.
const MAX_UNFLUSHED: usize = 2048;

/// How a partition is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// The partition log.
    pub log: gapless_log::Options,
    /// The store.
    pub store: gapless_store::Options,
    /// Memory for memtables and blocks, shared by all partitions of a node.
    pub budget: Budget,
    /// Memory for numbers, shared by all partitions of a node.
    pub numbers: Arc<CacheBudget>,
}

impl Options {
    /// Defaults, with budgets of their own.
    #[must_use]
    pub fn new() -> Self {
        Self {
            log: gapless_log::Options::partition(),
            store: gapless_store::Options::default(),
            budget: Budget::new(256 << 20, 256 << 20),
            numbers: Arc::new(CacheBudget::new(Params::CACHE_ENTRIES)),
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

/// Why a partition could not be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Its log.
    #[error("the partition log cannot be opened")]
    Log(#[source] LogOpenError),
    /// Its store, for another reason than damage.
    #[error("the store cannot be opened")]
    Store(#[source] StoreOpenError),
    /// The store has rows of a newer version.
    #[error("the rows of the store have version {0}; this program knows version {known}", known = rows::version::VERSION)]
    UnknownRows(u32),
    /// The log ends in front of what the checkpoint covers: it has lost its end, or they do not belong together.
    #[error("the checkpoint covers outcomes up to {checkpoint}, but the partition log ends before {next}")]
    LogTooShort {
        /// The last outcome that the checkpoint covers.
        checkpoint: u64,
        /// The first one that the log does not have.
        next: u64,
    },
    /// The tail could not be folded.
    #[error("the tail of the partition log cannot be folded")]
    Fold(#[source] Fault),
}

impl OpenError {
    /// Whether discarding the store helps.
    fn is_worth_a_rebuild(&self) -> bool {
        match self {
            OpenError::Fold(fault) => fault.is_store_damage(),
            OpenError::UnknownRows(version) => *version < rows::version::VERSION,
            OpenError::Log(_) | OpenError::Store(_) | OpenError::LogTooShort { .. } => false,
        }
    }

    fn to_string_with_cause(&self) -> String {
        match self {
            OpenError::Fold(fault) => fault.to_string(),
            other => other.to_string(),
        }
    }
}

/// What opening found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The last outcome that the checkpoint covered.
    pub checkpoint: Option<PartitionOffset>,
    /// Outcomes that were folded into the state.
    pub folded: u64,
    /// Why the store had to be rebuilt from the whole log, if it had to.
    pub rebuilt: Option<String>,
    /// What opening the log found.
    pub log: OpenReport,
}

impl Partition {
    /// Opens the partition in a directory, or creates it there.
    ///
    /// # Errors
    /// If the log or the store cannot be opened, or the tail cannot be folded. A store that is only damaged is rebuilt.
    pub fn open(
        io: &Arc<dyn Io>,
        dir: impl AsRef<Path>,
        id: PartitionId,
        options: &Options,
    ) -> Result<(Self, Opened), OpenError> {
        Self::begin(io, dir, id, options)?.finish()
    }

    /// The first half of opening: the log, which says where the partition stands. That takes a moment, however much there is to
    /// fold afterwards.
    ///
    /// # Errors
    /// If the log cannot be opened.
    pub fn begin(
        io: &Arc<dyn Io>,
        dir: impl AsRef<Path>,
        id: PartitionId,
        options: &Options,
    ) -> Result<Opening, OpenError> {
        let dir = dir.as_ref().to_path_buf();
        io.create_dir(&dir).map_err(|source| {
            OpenError::Log(LogOpenError::Io { action: "create", path: dir.clone(), source })
        })?;
        let (log, report) =
            Log::open(io.clone(), log_dir(&dir), options.log.clone()).map_err(OpenError::Log)?;
        Ok(Opening { io: io.clone(), dir, id, options: options.clone(), log, report })
    }
}

/// A partition whose log is open, and whose state is not up to it yet.
#[derive(Debug)]
pub struct Opening {
    io: Arc<dyn Io>,
    dir: PathBuf,
    id: PartitionId,
    options: Options,
    log: Log,
    report: OpenReport,
}

impl Opening {
    /// The last outcome in the log, and where its record stands in the replicated log.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn last(&self) -> Result<Option<(PartitionOffset, LogIndex)>, OpenError> {
        let last = self.log.next().previous().and_then(|last| PartitionOffset::new(last.get()));
        let Some(offset) = last else { return Ok(None) };
        let stored = StoredOutcome::read(&self.log, offset).map_err(OpenError::Fold)?;
        Ok(Some((offset, stored.header().log_index)))
    }

    /// The second half: opens the store and folds the tail of the log into it.
    ///
    /// # Errors
    /// If the store cannot be opened, or the tail cannot be folded. A store that is only damaged is rebuilt.
    pub fn finish(self) -> Result<(Partition, Opened), OpenError> {
        let Self { io, dir, id, options, mut log, mut report } = self;
        let mut rebuilt = None;
        loop {
            let opened = open_store(&io, &dir, &options, &mut rebuilt)
                .and_then(|store| fold(id, log.clone(), store, &options));
            let error = match opened {
                Ok((partition, checkpoint, folded)) => {
                    return Ok((partition, Opened { checkpoint, folded, rebuilt, log: report }));
                }
                Err(error) => error,
            };
            // What was half put together has let go of the log already, or does so now.
            log.abandon();
            if !error.is_worth_a_rebuild() || rebuilt.is_some() {
                return Err(error);
            }
            // Found only when its rows were read: once more from nothing.
            Store::discard(io.clone(), store_dir(&dir)).map_err(OpenError::Store)?;
            rebuilt = Some(error.to_string_with_cause());
            (log, report) =
                Log::open(io.clone(), log_dir(&dir), options.log.clone()).map_err(OpenError::Log)?;
        }
    }
}

impl Partition {
    /// Opens a partition that has stopped again: it reads its tail and continues, or stops with the fault. A store that was
    /// found damaged is rebuilt. Views of it stay readable.
    ///
    /// # Errors
    /// As [`Partition::open`].
    pub fn reopen(
        self,
        io: &Arc<dyn Io>,
        dir: impl AsRef<Path>,
        options: &Options,
    ) -> Result<(Self, Opened), OpenError> {
        let id = self.id;
        let damaged = self.stopped.as_ref().is_some_and(Fault::is_store_damage);
        drop(self);
        if damaged {
            Self::rebuild(io, &dir)?;
        }
        Self::open(io, dir, id, options)
    }

    /// Discards the store of a partition that is not open, because it is damaged: the next opening folds the whole log.
    ///
    /// # Errors
    /// If its files cannot be removed.
    pub fn rebuild(io: &Arc<dyn Io>, dir: impl AsRef<Path>) -> Result<(), OpenError> {
        Store::discard(io.clone(), store_dir(dir.as_ref())).map_err(OpenError::Store)
    }
}

fn open_store(
    io: &Arc<dyn Io>,
    dir: &Path,
    options: &Options,
    rebuilt: &mut Option<String>,
) -> Result<Store, OpenError> {
    let open =
        || Store::open(io.clone(), store_dir(dir), options.store, &options.budget).map(|(store, _)| store);
    match open() {
        Err(StoreOpenError::Damaged(damage)) if rebuilt.is_none() => {
            *rebuilt = Some(damage.to_string());
            Store::discard(io.clone(), store_dir(dir)).map_err(OpenError::Store)?;
            open().map_err(OpenError::Store)
        }
        other => other.map_err(OpenError::Store),
    }
}

/// Folds the tail of the log into the store, and puts the partition together.
fn fold(
    id: PartitionId,
    log: Log,
    store: Store,
    options: &Options,
) -> Result<(Partition, Option<PartitionOffset>, u64), OpenError> {
    let checkpoint = store.checkpoint_offset().get();
    let next = log.next().get();
    if checkpoint >= next && checkpoint > 0 {
        return Err(OpenError::LogTooShort { checkpoint, next });
    }
    let store = SharedStore::new(store);
    check_version(&store, checkpoint)?;
    let schema = load_schema(id, &store).map_err(OpenError::Fold)?;
    let turns = Turns::default();
    let numbers = options.numbers.clone();
    let sequencer =
        sequencer(id, &log, &store, schema.as_ref(), &turns, &numbers).map_err(OpenError::Fold)?;
    let mut partition = Partition {
        id,
        sequencer,
        schema: schema.map(Arc::new),
        applied: None,
        log_index: None,
        time: 0,
        batch: Batch::new(),
        pending: Pending::default(),
        recent: Recent::default(),
        ends: Ends::default(),
        tiles: Tiles::default(),
        stopped: None,
        underway: None,
        syncing: syncing::Underway::default(),
        covered: None,
        turns,
        numbers,
        store,
        log,
    };
    let folded = partition.fold_tail(checkpoint).map_err(OpenError::Fold)?;
    Ok((partition, PartitionOffset::new(checkpoint), folded))
}

impl Partition {
    fn fold_tail(&mut self, checkpoint: u64) -> Result<u64, Fault> {
        if let Some(offset) = PartitionOffset::new(checkpoint) {
            let last = StoredOutcome::read(&self.log, offset)?;
            self.move_to(&last.header());
        } else {
            self.batch.clear();
            self.batch.put(&rows::version::KEY, &rows::version::VERSION.to_le_bytes())?;
            self.store.apply(&self.batch)?;
        }
        self.ends.outcomes = {
            let next = rows::outcome::key(self.id, self.next_offset());
            trust::ends_before(&self.store.lock(), &next)
        };
        let log = self.log.clone();
        let mut folded = 0;
        let mut redefined = false;
        read_tail(&log, Position::new(checkpoint + 1), |header, stored| {
            redefined |= header.kind == OutcomeKind::Definition;
            match self.fold_one(header, stored) {
                Err(fault) if fault.is_quarantine() => {
                    self.stop(fault);
                    return Ok(ControlFlow::Break(()));
                }
                other => other?,
            }
            folded += 1;
            if self.store.lock().wants_checkpoint() {
                // Only memory is short: what cannot be written now is tried again when it is full.
                match self.checkpoint_state() {
                    Err(CheckpointFailed::Stopped(fault)) => return Err(fault),
                    Ok(()) | Err(CheckpointFailed::Store(_) | CheckpointFailed::Maintain(_)) => {}
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        if redefined {
            self.open_sequencer()?;
        }
        self.make_ready()?;
        if self.stopped.is_none() {
            let next = self.sequencer.next_offset();
            assert_eq!(
                next,
                Some(self.next_offset()),
                "NUM-1: the sequencer goes on where the partition log ends"
            );
        }
        Ok(folded)
    }

    /// Folds one outcome into the state.
    fn fold_one(&mut self, header: &Header<'_>, stored: Stored<'_>) -> Result<(), Fault> {
        let malformed = |malformed: Malformed| Fault::Record { offset: header.partition_offset, malformed };
        self.batch.clear();
        let write = match header.kind {
            OutcomeKind::Event => Some(Write::decode(stored.body).map_err(malformed)?),
            _ => None,
        };
        let schema = self.schema.as_deref();
        let context = Context { partition: self.id, schema, store: &self.store, ends: self.ends };
        context.rows_of(header, stored.outcome, write.as_ref(), &mut self.tiles, &mut self.batch)?;
        match header.kind {
            OutcomeKind::Definition => {
                let definition = Definition::decode(stored.body).map_err(malformed)?;
                let schema = Schema::after(self.schema.as_deref(), definition, header.time);
                let schema = schema.map_err(|_| Fault::Log("a definition that should have been refused"))?;
                put_schema(self.id, &schema, &mut self.batch)?;
                self.schema = Some(Arc::new(schema));
            }
            OutcomeKind::Event
            | OutcomeKind::Refusal
            | OutcomeKind::Duplicate
            | OutcomeKind::KeyReuse
            | OutcomeKind::DefinitionRefusal => {}
        }
        self.apply_batch()?;
        self.move_to(header);
        Ok(())
    }

    fn move_to(&mut self, header: &Header<'_>) {
        let (offset, log_index, time) = mark(header);
        (self.applied, self.log_index, self.time) = (Some(offset), Some(log_index), time);
    }

    /// Opens the sequencer anew, with the sequences that the schema has now.
    pub(crate) fn open_sequencer(&mut self) -> Result<(), Fault> {
        self.sequencer =
            sequencer(self.id, &self.log, &self.store, self.schema.as_deref(), &self.turns, &self.numbers)?;
        Ok(())
    }
}

fn check_version(store: &SharedStore, checkpoint: u64) -> Result<(), OpenError> {
    let row = store.get(&rows::version::KEY).map_err(OpenError::Fold)?;
    match row.as_deref().and_then(rows::version::decode) {
        Some(rows::version::VERSION) => Ok(()),
        Some(version) => Err(OpenError::UnknownRows(version)),
        None if checkpoint == 0 => Ok(()),
        None => Err(OpenError::Fold(Fault::Row(Malformed { what: "version of the rows", at: 0 }))),
    }
}

fn load_schema(id: PartitionId, store: &SharedStore) -> Result<Option<Schema>, Fault> {
    let row = store.get(&rows::schema::key(id.namespace))?;
    row.map(|row| Schema::decode(&row).map_err(Fault::Row)).transpose()
}

/// A sequencer for all kinds of a schema.
fn sequencer(
    id: PartitionId,
    log: &Log,
    store: &SharedStore,
    schema: Option<&Schema>,
    turns: &Turns,
    numbers: &Arc<CacheBudget>,
) -> Result<Sequencer<StoredNumbers>, Fault> {
    let mut params = Params { max_unflushed: MAX_UNFLUSHED, ..Params::new() }.with_kind(NO_KIND, []);
    params.clock = Arc::new(turns.clone());
    params.cache = numbers.clone();
    for (_, kind) in schema.into_iter().flat_map(Schema::kinds) {
        let own = [(WORKSPACE_OFFSET, 1), (RECORD_ID, RecordId::FIRST_USER.get())];
        let declared = kind.sequences.values().map(|sequence| (sequence.id, sequence.initial_number));
        let sequences: Vec<(SequenceId, u64)> = own.into_iter().chain(declared).collect();
        params = params.with_kind(kind.id, sequences);
    }
    let storage = StoredNumbers { partition: id, store: store.clone(), log: log.clone() };
    Sequencer::new(params, storage, Drive::Caller).map_err(|error| Fault::Sequencer(error.to_string()))
}
