//! Verification of a whole partition at rest: the log is read from its start, every number, hash and row is computed anew, and
//! whatever differs is named with the outcome it is of.
//!
//! ```text
//!  partition log ──▶ refold: each outcome from those before it ──▶ rows in a scratch store
//!                      │ differs: the log contradicts itself            │ at the offset of the checkpoint
//!                      ▼                                                ▼
//!                    first difference ◀── compare ◀────────────── rows of the partition's store
//! ```
//!
//! Invariants
//! - Nothing of the partition changes: not even what opening would tidy up.
//! - Memory does not grow with the partition: what is computed lies in a scratch store, whose memory is limited.
//!
//! Must not know: how the outcomes came about, clocks, terminals.

mod compare;
mod refold;
mod untouched;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gapless_log::io::Io;
use gapless_log::{Damage, Log, OpenError as LogOpenError, ReadError as LogReadError};
use gapless_store::{Budget, Direction, OpenError as StoreOpenError, Store};
use gapless_types::{PartitionId, PartitionOffset, Position};
use thiserror::Error;

use self::compare::{CompareError, Compared, Comparison};
use self::refold::{NOBODY, Refold, Wrong};
pub use self::untouched::Untouched;
use crate::error::Fault;
use crate::outcome::Header;
use crate::partition::{log_dir, store_dir};
use crate::rows;
use crate::tail::Stored;

/// Progress is reported each time so many outcomes or rows are done.
const PROGRESS_EVERY: u64 = 1024;
/// Records are read in pieces of about this many bytes.
const READ_BYTES: u64 = 1 << 20;
/// Memory for the scratch store: rows that are not on the disk yet, and blocks.
const SCRATCH_BYTES: u64 = 64 << 20;

/// Where verification may write: a directory that nobody else uses, and whose content nobody needs afterwards.
#[derive(Clone, Debug)]
pub struct Scratch {
    /// The disk.
    pub io: Arc<dyn Io>,
    /// The directory. What an earlier verification left in it is removed.
    pub dir: PathBuf,
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// So many outcomes of so many are done.
    Outcomes {
        /// Those that are.
        done: u64,
        /// All there are.
        of: u64,
    },
    /// So many rows of the store are compared.
    Rows {
        /// Those that are.
        done: u64,
    },
}

/// Where a difference is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the partition log, which is the truth: it contradicts itself or cannot be read.
    Log,
    /// In the store, which can be rebuilt from the log.
    Store,
}

/// Something that is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The outcome it is of.
    pub offset: PartitionOffset,
    /// The first byte that differs: in the record of the log, or in the value of the row. None where bytes say nothing.
    pub byte: Option<usize>,
    /// What was found.
    pub what: String,
    /// Where.
    pub place: Place,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.place {
            Place::Log => "partition log",
            Place::Store => "store",
        };
        write!(f, "outcome {}: {} in the {place}", self.offset, self.what)?;
        match self.byte {
            Some(byte) => write!(f, ", from byte {byte} on"),
            None => Ok(()),
        }
    }
}

/// What became of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreCheck {
    /// It has no checkpoint, and so no rows.
    Empty,
    /// Its rows were compared with what follows from the log.
    Compared {
        /// The last outcome that they are about.
        checkpoint: PartitionOffset,
        /// How many there are.
        rows: u64,
        /// How many differ.
        differing: u64,
    },
    /// It was not compared: the log differs in front of the checkpoint.
    NotReached,
    /// It cannot be read, or is of another version, for this reason. It can be rebuilt from the log.
    Unreadable(String),
}

/// What verification found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Outcomes of the log that are what they should be, from the first on.
    pub outcomes: u64,
    /// How many of them are events.
    pub events: u64,
    /// What is wrong with the files of the log, as far as opening it tells. `gapless log verify` tells everything.
    pub log_damage: Vec<Damage>,
    /// What became of the store.
    pub store: StoreCheck,
    /// The difference that is of the earliest outcome.
    pub first_difference: Option<Difference>,
}

impl Verified {
    /// Whether everything is as it should be.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.first_difference.is_none()
            && !matches!(self.store, StoreCheck::Unreadable(_))
            && !self.log_damage.iter().any(|damage| damage.finding.threatens_records())
    }
}

/// Why a partition could not be verified.
#[derive(Debug, Error)]
pub enum VerifyError {
    /// There is no partition log in the directory.
    #[error("there is no partition log")]
    NoLog,
    /// Its log does not open.
    #[error("the partition log cannot be opened")]
    Log(#[source] LogOpenError),
    /// Its store does not open, for another reason than damage.
    #[error("the store cannot be opened")]
    Store(#[source] StoreOpenError),
    /// Outcomes were released from the log: there is no start to begin from.
    #[error("the partition log begins with outcome {0}; only a whole log can be verified")]
    Released(u64),
    /// The checkpoint covers more than the log has.
    #[error("the checkpoint covers outcomes up to {checkpoint}, but the partition log ends before {next}")]
    LogTooShort {
        /// The last outcome that the checkpoint covers.
        checkpoint: u64,
        /// The first one that the log does not have.
        next: u64,
    },
    /// The scratch store does not open.
    #[error("the scratch store cannot be opened")]
    Scratch(#[source] StoreOpenError),
    /// The disk failed, under the partition or under the scratch store.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Verifies the partition in a directory, which nobody may have open. Nothing in it changes.
///
/// # Errors
/// If it cannot be verified. What is found wrong is no error.
pub fn verify(
    io: &Arc<dyn Io>,
    dir: impl AsRef<Path>,
    scratch: &Scratch,
    progress: &mut dyn FnMut(Phase),
) -> Result<Verified, VerifyError> {
    let dir = dir.as_ref();
    let untouched: Arc<dyn Io> = Arc::new(Untouched::over(io.clone()));
    let (log, report) = Log::open(untouched.clone(), log_dir(dir), gapless_log::Options::partition())
        .map_err(VerifyError::Log)?;
    if report.created {
        return Err(VerifyError::NoLog);
    }
    let budget = Budget::new(SCRATCH_BYTES, SCRATCH_BYTES);
    let store = OpenedStore::open(&untouched, dir, &budget)?;
    let checkpoint = store.checkpoint();
    let (first, next) = (log.first().get(), log.next().get());
    if first > Position::FIRST.get() {
        return Err(VerifyError::Released(first));
    }
    if checkpoint >= next && checkpoint > 0 {
        return Err(VerifyError::LogTooShort { checkpoint, next });
    }
    Store::discard(scratch.io.clone(), &scratch.dir).map_err(VerifyError::Scratch)?;
    let (computed, _) =
        Store::open(scratch.io.clone(), &scratch.dir, gapless_store::Options::default(), &budget)
            .map_err(VerifyError::Scratch)?;
    let partition = store.partition();
    let mut run = Run {
        partition: partition.unwrap_or(NOBODY),
        refold: Refold::new(partition, computed)?,
        store,
        compared: Compared::default(),
        is_compared: false,
        progress,
    };
    let read = run.read(&log);
    log.abandon();
    Ok(run.verified(report.damage, read?))
}

/// Reads every row of the store of a partition, which nobody may have open, and so checks every checksum; how many rows there are.
/// Nothing in it changes.
///
/// # Errors
/// If something cannot be read; what it is.
pub fn read_store(io: &Arc<dyn Io>, dir: impl AsRef<Path>) -> Result<u64, String> {
    let untouched: Arc<dyn Io> = Arc::new(Untouched::over(io.clone()));
    let budget = Budget::new(SCRATCH_BYTES, SCRATCH_BYTES);
    let opened = OpenedStore::open(&untouched, dir.as_ref(), &budget).map_err(|error| match &error {
        VerifyError::Store(cause) => cause.to_string(),
        _ => error.to_string(),
    })?;
    if let Some(reason) = opened.unreadable {
        return Err(reason);
    }
    let mut rows = 0;
    for row in opened.store.iter().flat_map(|store| store.everything()) {
        row.map_err(|error| error.to_string())?;
        rows += 1;
    }
    Ok(rows)
}

/// The store of the partition, as far as it can be read.
struct OpenedStore {
    store: Option<Store>,
    /// Why there is none, if there should be one.
    unreadable: Option<String>,
}

impl OpenedStore {
    fn open(io: &Arc<dyn Io>, dir: &Path, budget: &Budget) -> Result<Self, VerifyError> {
        let dir = store_dir(dir);
        if io.list(&dir).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
            return Ok(Self { store: None, unreadable: None });
        }
        let store = match Store::open(io.clone(), dir, gapless_store::Options::default(), budget) {
            Ok((store, _)) => store,
            Err(StoreOpenError::Damaged(damage)) => return Ok(Self::unreadable(damage.to_string())),
            Err(error) => return Err(VerifyError::Store(error)),
        };
        if store.checkpoint_offset().get() > 0 {
            let version = match store.get(&rows::version::KEY) {
                Ok(row) => row.as_deref().and_then(rows::version::decode),
                Err(error) => return Ok(Self::unreadable(error.to_string())),
            };
            if version != Some(rows::version::VERSION) {
                let version = version.map_or("none".to_owned(), |version| version.to_string());
                return Ok(Self::unreadable(format!("its rows have another version: {version}")));
            }
        }
        Ok(Self { store: Some(store), unreadable: None })
    }

    fn unreadable(reason: String) -> Self {
        Self { store: None, unreadable: Some(reason) }
    }

    /// The last outcome that its rows are about; 0 if it has none that can be read.
    fn checkpoint(&self) -> u64 {
        self.store.as_ref().map_or(0, |store| store.checkpoint_offset().get())
    }

    /// Which partition it is, if it has rows that tell.
    fn partition(&self) -> Option<PartitionId> {
        let store = self.store.as_ref()?;
        // What cannot be read is found again, and named, when rows are compared.
        let (key, _) = store.prefix(&rows::outcome::PREFIX, Direction::Forward).next()?.ok()?;
        rows::outcome::decode_partition(&key)
    }

    /// The last outcome that is in its numbers; 0 if none is, or it cannot be read.
    fn numbers_up_to(&self, partition: PartitionId) -> u64 {
        let row = self.store.as_ref().and_then(|store| store.get(&rows::offset::key(partition)).ok());
        row.flatten().and_then(|row| rows::offset::decode(&row)).map_or(0, |next| next.get() - 1)
    }
}

/// A verification under way.
struct Run<'a> {
    partition: PartitionId,
    refold: Refold,
    store: OpenedStore,
    compared: Compared,
    is_compared: bool,
    progress: &'a mut dyn FnMut(Phase),
}

impl Run<'_> {
    /// Reads the whole log; how many outcomes are good, and what is wrong with the next one, if something is.
    fn read(&mut self, log: &Log) -> Result<(u64, Option<Difference>), Fault> {
        let (mut position, end) = (Position::FIRST, log.next());
        let checkpoint = self.store.checkpoint();
        let numbers_up_to = self.store.numbers_up_to(self.partition).min(checkpoint);
        let of = end.get().saturating_sub(Position::FIRST.get());
        while position < end {
            let records = match log.read_range(position, end, READ_BYTES) {
                Ok(records) => records,
                Err(error) => return Ok((position.get() - 1, Some(unread(position, &error)))),
            };
            for record in records {
                let done = position.get() - 1;
                if done.is_multiple_of(PROGRESS_EVERY) {
                    (self.progress)(Phase::Outcomes { done, of });
                }
                if let Some(difference) = self.take(position, &record.payload)? {
                    return Ok((done, Some(difference)));
                }
                if position.get() == numbers_up_to {
                    self.compare(checkpoint, |comparison, compared, _| {
                        comparison.numbers_are_not_behind(compared)
                    })?;
                }
                if position.get() == checkpoint {
                    self.is_compared = true;
                    self.compare(checkpoint, |comparison, compared, each| {
                        comparison.everything(compared, each)
                    })?;
                }
                position = position.next().ok_or(Fault::Log("more records than can be counted"))?;
            }
        }
        (self.progress)(Phase::Outcomes { done: of, of });
        Ok((of, None))
    }

    /// Takes one record; what is wrong with it, if something is.
    fn take(&mut self, position: Position, outcome: &[u8]) -> Result<Option<Difference>, Fault> {
        let difference = |byte, what: String| log_difference(position, Some(byte), what);
        let (header, body) = match Header::decode(outcome) {
            Ok(decoded) => decoded,
            Err(malformed) => {
                return Ok(Some(difference(malformed.at, format!("a malformed {}", malformed.what))));
            }
        };
        if header.partition_offset.get() != position.get() {
            return Ok(Some(difference(16, format!("the outcome with offset {}", header.partition_offset))));
        }
        match self.refold.take(&header, Stored { outcome, body }) {
            Ok(()) => Ok(None),
            Err(Wrong::Outcome(difference)) => Ok(Some(difference)),
            Err(Wrong::Fault(fault)) => Err(fault),
        }
    }

    /// Compares rows of the store, if it can be read.
    fn compare(
        &mut self,
        checkpoint: u64,
        how: impl FnOnce(&Comparison<'_>, &mut Compared, &mut dyn FnMut(u64)) -> Result<(), CompareError>,
    ) -> Result<(), Fault> {
        let Self { partition, refold, store, compared, progress, .. } = self;
        let (Some(checkpoint), Some(found)) = (PartitionOffset::new(checkpoint), &store.store) else {
            return Ok(());
        };
        let expected = refold.store.lock();
        let comparison = Comparison { partition: *partition, expected: &expected, found, checkpoint };
        match how(&comparison, compared, &mut |done| progress(Phase::Rows { done })) {
            Ok(()) => Ok(()),
            Err(CompareError::Found(error)) => {
                *store = OpenedStore::unreadable(error.to_string());
                Ok(())
            }
            Err(CompareError::Expected(fault)) => Err(fault),
        }
    }

    fn verified(
        self,
        log_damage: Vec<Damage>,
        (outcomes, difference): (u64, Option<Difference>),
    ) -> Verified {
        let checkpoint = PartitionOffset::new(self.store.checkpoint());
        let store = match (self.store.unreadable, checkpoint) {
            (Some(reason), _) => StoreCheck::Unreadable(reason),
            (None, None) => StoreCheck::Empty,
            (None, Some(_)) if !self.is_compared => StoreCheck::NotReached,
            (None, Some(checkpoint)) => StoreCheck::Compared {
                checkpoint,
                rows: self.compared.rows,
                differing: self.compared.differing,
            },
        };
        let differences = self.compared.first.into_iter().chain(difference);
        let first_difference = differences.min_by_key(|difference| difference.offset);
        Verified { outcomes, events: self.refold.events, log_damage, store, first_difference }
    }
}

/// A record that the log cannot give.
fn unread(position: Position, error: &LogReadError) -> Difference {
    log_difference(position, None, format!("an outcome that cannot be read ({error})"))
}

fn log_difference(position: Position, byte: Option<usize>, what: String) -> Difference {
    let offset = PartitionOffset::new(position.get()).expect("a log begins with position 1");
    Difference { offset, byte, what, place: Place::Log }
}
