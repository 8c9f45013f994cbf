//! The ledger of a demonstration: one partition of the namespace `demo`, on real files.
//!
//! It stands in for what is still missing around a partition. There is no replicated log yet, so the place of a command in
//! it is made up from the partition offset, and [`Ledger::sync`] makes the partition log durable before anything is
//! reported.
//!
//! Must not know: what is written, what is shown.

use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Result;
use gapless_log::io::Io;
use gapless_log::io::real::RealIo;
use gapless_log::{Depth, StateKey, Ticket};
use gapless_partition::{
    Command, Committed, DEFAULT_KIND, Definition, Opened, Options, Outcome, Partition, Record, Refusal as No,
    View, Write,
};
use gapless_types::{
    IdempotencyKey, LogIndex, MachineVersion, Name, NamespaceId, PartitionId, PartitionIndex, PartitionOffset,
};

use super::trouble::{apply_failed, checkpoint_failed, fault, log_refused, must_not_happen, not_opened};
use crate::log_command::trouble::explained;
use crate::refusal::Refusal;

/// The namespace.
pub(super) const NAMESPACE: &str = "demo";
/// Its gap-free sequence.
pub(super) const INVOICE: &str = "invoice";
/// The first number of that.
pub(super) const FIRST_INVOICE: u64 = 1;
/// Its only partition.
const PARTITION: PartitionId = PartitionId { namespace: NamespaceId::new(1), index: PartitionIndex::new(0) };
/// What the small state of a demonstration's log says, so that nobody else's ledger is written to for show.
const MARK: (StateKey, &[u8]) = (StateKey(1), b"gapless dev: ledger");

/// A partition, and what the rest of a node would do for it.
#[derive(Debug)]
pub(super) struct Ledger(Partition);

/// The directory of the partition log in a ledger's directory.
pub(super) fn log_dir(dir: &Path) -> PathBuf {
    dir.join("log")
}

impl Ledger {
    /// Opens the ledger in a directory, or creates it there.
    pub(super) fn open(dir: &Path) -> Result<(Self, Opened)> {
        let io: Arc<dyn Io> = Arc::new(RealIo);
        let (partition, opened) =
            Partition::open(&io, dir, PARTITION, &Options::new()).map_err(|error| not_opened(&error, dir))?;
        Ok((Self(partition), opened))
    }

    /// How many outcomes there are.
    pub(super) fn outcomes(&self) -> u64 {
        self.0.applied().map_or(0, |last| last.get())
    }

    /// Marks a new ledger as one of a demonstration, and defines the namespace; whether that was to be done.
    pub(super) fn prepare(&mut self) -> Result<bool> {
        if self.0.schema().is_some() {
            return Ok(false);
        }
        let (key, value) = MARK;
        let marked = self.0.log().set_state(key, value).and_then(Ticket::wait);
        marked.map_err(|error| log_refused(&error))?;
        self.define()?;
        self.sync()?;
        Ok(true)
    }

    /// One partition, and one gap-free sequence in every workspace.
    fn define(&mut self) -> Result<()> {
        let name = |text| Name::new(text).expect("the names of the demonstration are names");
        let mut definition = Definition::new(name(NAMESPACE), NonZeroU16::MIN);
        definition.kinds.insert(name(DEFAULT_KIND), [(name(INVOICE), FIRST_INVOICE)].into());
        let mut command = Vec::new();
        Command::encode_definition(&definition, &mut command);
        match self.apply(&command)? {
            Outcome::Defined => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Applies a write that must become an event. It is durable after the next [`Ledger::sync`].
    pub(super) fn commit(&mut self, write: &Write<'_>) -> Result<Committed> {
        match self.write(write)? {
            Outcome::Committed(committed) => Ok(committed),
            other => Err(unexpected(&other)),
        }
    }

    /// Applies the write whose outcome stands at this offset once more, under its key; the answer it gets.
    pub(super) fn retry(&mut self, write: &Write<'_>, first: PartitionOffset) -> Result<Committed> {
        match self.write_with_key(write, key(first))? {
            Outcome::Duplicate { first: outcome, .. } => match *outcome {
                Outcome::Committed(committed) => Ok(committed),
                other => Err(unexpected(&other)),
            },
            other => Err(unexpected(&other)),
        }
    }

    /// Applies a write that must be refused.
    pub(super) fn refuse(&mut self, write: &Write<'_>) -> Result<No> {
        match self.write(write)? {
            Outcome::Refused(refusal) => Ok(refusal),
            other => Err(unexpected(&other)),
        }
    }

    fn write(&mut self, write: &Write<'_>) -> Result<Outcome> {
        self.write_with_key(write, key(self.0.next_offset()))
    }

    fn write_with_key(&mut self, write: &Write<'_>, key: IdempotencyKey) -> Result<Outcome> {
        let mut command = Vec::new();
        Command::encode_write(key, write, &mut command);
        self.apply(&command)
    }

    fn apply(&mut self, command: &[u8]) -> Result<Outcome> {
        let offset = self.0.next_offset();
        let (log_index, machine_version) = (LogIndex::new(offset.get()), MachineVersion::NEWEST);
        let record = Record { offset, log_index, time: now(), machine_version, command };
        self.0.apply(&record).map_err(|error| apply_failed(&error))
    }

    /// Writes every outcome to the log, which does not make it durable.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.0.flush().map_err(|error| fault(&error))
    }

    /// Makes every outcome durable.
    pub(super) fn sync(&mut self) -> Result<()> {
        self.0.sync().map_err(|error| fault(&error))
    }

    /// Makes the state durable as well, so that the next opening folds less, and clears up.
    pub(super) fn checkpoint(&mut self) -> Result<()> {
        self.0.checkpoint().map_err(|error| checkpoint_failed(&error))?;
        while self.0.maintain().map_err(|error| checkpoint_failed(&error))? {}
        Ok(())
    }

    /// Everything as it is now. As long as a view lives, nobody else can open the ledger.
    pub(super) fn view(&mut self) -> Result<View> {
        self.0.view().map_err(|error| apply_failed(&error))
    }

    /// Forgets a torn end that turned out to have taken nothing that was acknowledged.
    pub(super) fn settle_torn_end(&self) -> Result<()> {
        let log = self.0.log();
        match log.suspect() {
            None => Ok(()),
            Some(_) => log.settle_suspect().and_then(Ticket::wait).map_err(|error| log_refused(&error)),
        }
    }

    /// Closes it.
    pub(super) fn close(self) -> Result<()> {
        self.0.close().map_err(|error| fault(&error))
    }
}

/// A client would choose it at random; one for each place in the log is as unique, and repeatable.
fn key(offset: PartitionOffset) -> IdempotencyKey {
    let mut key = *b"demo-key--------";
    key[8..].copy_from_slice(&offset.get().to_be_bytes());
    IdempotencyKey::new(key).expect("not all of it is zero")
}

/// Refuses a directory whose log is not of a demonstration, or is damaged. One without a log is fine.
pub(super) fn refuse_others(dir: &Path) -> Result<()> {
    let dir = log_dir(dir);
    if !dir.exists() {
        return Ok(());
    }
    let survey = gapless_log::inspect(&RealIo, &dir, Depth::Opening, &mut |_| {})
        .map_err(|error| explained(&error, &dir))?;
    let (key, value) = MARK;
    let marked = survey.states.get(&key).is_some_and(|found| found == value);
    // A demonstration that was stopped before it could mark its log has written nothing else either.
    let untouched = survey.first == survey.next && survey.states.is_empty();
    if survey.log.is_some() && !marked && !untouched {
        return Err(Refusal::new(
            format!("the log in {} was not made by `gapless demo`", dir.display()),
            "choose another directory: gapless demo --data DIR",
        )
        .into());
    }
    let threatened = survey.damage.iter().any(|damage| damage.finding.threatens_records());
    if threatened || !survey.missing.is_empty() {
        return Err(Refusal::new(
            format!("the log in {} is damaged", dir.display()),
            "`gapless log verify` says how; for a demonstration, choose another directory with --data",
        )
        .into());
    }
    Ok(())
}

/// Log time comes from whoever feeds a partition. It may stand still; the partition sees to it that it never goes back.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn unexpected(outcome: &Outcome) -> anyhow::Error {
    must_not_happen(&format!("an outcome that nothing in the demonstration leads to: {outcome:?}"))
}
