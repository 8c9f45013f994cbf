//! Writing what was checked: partition logs, states of domains, the directory of consensus, and last the catalog that names them.
//!
//! Invariants
//! - A partition gets the outcomes of entries up to the one that is restored, and no other (NUM-1: they are dense).
//! - Everything is on stable storage when this returns.
//!
//! Must not know: whether anything is there already.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use gapless_consensus::message::EntryId;
use gapless_consensus::{Identity, Refounding, Term};
use gapless_log::Log;
use gapless_partition::Header;
use gapless_projection::Installing;
use gapless_types::limits::MAX_READ_BYTES;
use gapless_types::{LogIndex, PartitionId, PartitionOffset, Position};

use super::checking::Checked;
use super::point::Plan;
use super::{RestoreOptions, RestoreProgress};
use crate::backup::{BackupError, Directory, FileEntry, PieceReader, RestoreError, entry_of, row_of};
use crate::catalog::{CatalogFile, Places, StoredCatalog};
use crate::retention::Domain;

/// Outcomes that are appended at once.
const PAGE: usize = 256;

/// What is written, and where.
pub(super) struct Writing<'a> {
    pub(super) directory: &'a Directory,
    pub(super) plan: &'a Plan,
    pub(super) to: &'a Path,
    pub(super) identity: Identity,
    pub(super) options: &'a RestoreOptions,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written {
    pub(super) partitions: usize,
    pub(super) outcomes: u64,
    pub(super) entries: u64,
    pub(super) domains: usize,
}

impl Writing<'_> {
    pub(super) fn run(
        &self,
        checked: &Checked,
        progress: &mut dyn FnMut(RestoreProgress),
    ) -> Result<Written, RestoreError> {
        let (mut written, mut done) = (Written::default(), 0);
        let mut tell = |bytes: u64| {
            done += bytes;
            progress(RestoreProgress::Writing { done, of: checked.bytes });
        };
        let (plan, mut ends) = (self.plan, BTreeMap::new());
        for (partition, _) in &plan.base.partitions {
            let newer = plan.outcomes.partitions.iter().any(|(known, _)| known == partition);
            let source = if newer { &plan.outcomes } else { &plan.base };
            let files: Vec<&FileEntry> = source.outcomes_of(*partition).collect();
            let dir = self.partition_dir(*partition);
            let options = self.options.partitions.log.clone();
            let outcomes =
                write_outcomes(self.directory, &files, plan.index, &dir.join("log"), options, &mut tell)?;
            ends.extend(PartitionOffset::new(outcomes).map(|end| (*partition, end)));
            written.outcomes += outcomes;
            written.partitions += 1;
        }
        let mut rows: BTreeMap<&Domain, Vec<&FileEntry>> = BTreeMap::new();
        for (domain, file) in plan.base.rows() {
            rows.entry(domain).or_default().push(file);
        }
        for (domain, files) in rows {
            self.write_domain(domain, &files, &mut tell)?;
            written.domains += 1;
        }
        written.entries = self.write_consensus(&mut tell)?;
        self.write_catalog(checked, ends)?;
        Ok(written)
    }

    fn catalog_file(&self) -> CatalogFile {
        CatalogFile::new(self.directory.io.clone(), self.to)
    }

    fn partition_dir(&self, partition: PartitionId) -> PathBuf {
        Places::default().partition_dir(&self.catalog_file().partitions_dir(), partition)
    }

    fn write_domain(
        &self,
        domain: &Domain,
        files: &[&FileEntry],
        tell: &mut dyn FnMut(u64),
    ) -> Result<(), RestoreError> {
        let failed = |error: gapless_projection::InstallError| writing(&domain.to_string(), &error);
        let dir = Places::default().domain_dir(&self.catalog_file().partitions_dir(), domain);
        let options = &self.options.partitions;
        let mut installing =
            Installing::begin(self.directory.io.clone(), dir, options.store, &options.budget)
                .map_err(failed)?;
        for file in files {
            each_item(self.directory, file, &mut |at, item| {
                let (key, value) = row_of(&item).ok_or_else(|| malformed(self.directory, file, at))?;
                installing.put(&key, &value).map_err(failed)?;
                Ok(true)
            })?;
            tell(file.length);
        }
        installing.finish().map_err(failed)
    }

    /// The directory of consensus, with the entries behind the state that was restored; how many they are.
    fn write_consensus(&self, tell: &mut dyn FnMut(u64)) -> Result<u64, RestoreError> {
        let Plan { base, covered, entries, index, .. } = self.plan;
        let failed = |error: std::io::Error| writing("the replicated log", &error);
        // A node may know of a later term than that of the next entry.
        let term = match entries.first() {
            Some(first) => base.term.min(first_term(self.directory, first)?),
            None => base.term,
        };
        let behind = EntryId { term, index: *covered };
        let mut refounding = Refounding::begin(
            self.directory.io.clone(),
            &self.to.join("consensus"),
            self.identity,
            &self.options.address,
            behind,
            self.options.log.clone(),
        )
        .map_err(failed)?;
        let mut count = 0;
        for file in entries {
            let mut number = file.first;
            each_item(self.directory, file, &mut |at, item| {
                if number > index.get() {
                    return Ok(false);
                }
                let (term, proposed) = entry_of(&item).ok_or_else(|| malformed(self.directory, file, at))?;
                refounding.push(term, proposed).map_err(failed)?;
                (number, count) = (number + 1, count + 1);
                Ok(true)
            })?;
            tell(file.length);
        }
        refounding.finish().map_err(failed)?;
        Ok(count)
    }

    fn write_catalog(
        &self,
        checked: &Checked,
        ends: BTreeMap<PartitionId, PartitionOffset>,
    ) -> Result<(), RestoreError> {
        let covered = self.plan.covered;
        let next = covered.next().unwrap_or(LogIndex::MAX);
        let catalog = checked.catalog.catalog.clone();
        // Everything up to there is in the states that were restored.
        let domains = catalog.domains().map(|domain| (domain, next)).collect();
        let stored = StoredCatalog {
            catalog,
            covered: Some(covered),
            time: checked.time,
            cluster: Some(self.identity.cluster),
            domains,
            ends,
            places: Places::default(),
        };
        self.catalog_file().write(&stored).map_err(|error| writing("the catalog", &error))
    }
}

/// Writes a partition log of outcomes up to an entry; how many they are.
fn write_outcomes(
    directory: &Directory,
    files: &[&FileEntry],
    until: LogIndex,
    dir: &Path,
    options: gapless_log::Options,
    tell: &mut dyn FnMut(u64),
) -> Result<u64, RestoreError> {
    let io = &directory.io;
    io.create_dir(dir).map_err(BackupError::io("create", dir))?;
    let shown = dir.display().to_string();
    let (log, _) = Log::open(io.clone(), dir, options).map_err(|error| writing(&shown, &error))?;
    let mut appending = Appending::to(&log);
    for file in files {
        each_item(directory, file, &mut |at, item| {
            let (header, ..) = Header::decode_alone(&item).map_err(|_| malformed(directory, file, at))?;
            if header.log_index > until {
                return Ok(false);
            }
            appending.push(item).map_err(|reason| writing(&shown, &*reason))?;
            Ok(true)
        })?;
        tell(file.length);
    }
    appending.append().map_err(|reason| writing(&shown, &*reason))?;
    let outcomes = appending.next.get() - Position::FIRST.get();
    log.sync().map_err(|error| writing(&shown, &error))?;
    log.close().map_err(|error| writing(&shown, &error))?;
    Ok(outcomes)
}

/// Outcomes on their way into a log.
pub(crate) struct Appending<'a> {
    log: &'a Log,
    pub(crate) next: Position,
    records: Vec<Bytes>,
    bytes: usize,
}

pub(crate) type Reason = Box<dyn std::error::Error + Send + Sync>;

impl<'a> Appending<'a> {
    pub(crate) fn to(log: &'a Log) -> Self {
        Self { log, next: Position::FIRST, records: Vec::new(), bytes: 0 }
    }

    pub(crate) fn push(&mut self, record: Bytes) -> Result<(), Reason> {
        self.bytes += record.len();
        self.records.push(record);
        if self.records.len() >= PAGE || self.bytes >= MAX_READ_BYTES { self.append() } else { Ok(()) }
    }

    /// Appends what was pushed.
    pub(crate) fn append(&mut self) -> Result<(), Reason> {
        let records = std::mem::take(&mut self.records);
        self.bytes = 0;
        if records.is_empty() {
            return Ok(());
        }
        let _synced_at_the_end = self.log.append(self.next, &records)?;
        self.log.flush()?;
        self.next = Position::new(self.next.get() + records.len() as u64);
        Ok(())
    }
}

/// Hands out items of a file until `take` wants no more. Where all are taken, the whole file is checked again.
fn each_item(
    directory: &Directory,
    file: &FileEntry,
    take: &mut dyn FnMut(u64, Bytes) -> Result<bool, RestoreError>,
) -> Result<(), RestoreError> {
    let mut reader = PieceReader::open(&*directory.io, &directory.root, file)?;
    loop {
        let at = reader.position();
        let Some(item) = reader.next()? else { return Ok(()) };
        if !take(at, item)? {
            return Ok(());
        }
    }
}

fn first_term(directory: &Directory, file: &FileEntry) -> Result<Term, RestoreError> {
    let mut reader = PieceReader::open(&*directory.io, &directory.root, file)?;
    let first = reader.next()?.as_ref().and_then(entry_of);
    first.map(|(term, _)| term).ok_or_else(|| malformed(directory, file, 0))
}

fn malformed(directory: &Directory, file: &FileEntry, at: u64) -> RestoreError {
    let path = directory.root.join(file.path());
    BackupError::damaged(&path, format!("an item is none, at byte {at}")).into()
}

fn writing(what: &str, reason: &(dyn std::error::Error + '_)) -> RestoreError {
    RestoreError::Writing { what: what.to_owned(), reason: crate::worker::with_causes(reason) }
}
