//! Repair of a node at rest, and of one partition while others serve (`running`): what follows from the logs is made anew, a damaged partition log out of what is left of it, a backup and the
//! replicated log. What cannot be made whole is refused, with what is lost.
//!
//! ```text
//!  verify ──▶ catalog: folded from the replicated log, or from a backup and the log behind it
//!        ├──▶ store, index, footer: discarded or scanned; the next opening folds the log
//!        ├──▶ partition log: own outcomes that are whole + those of the backup, or of another node ──▶ a new log beside it ──▶ swapped
//!        │                   what is behind them comes again from the replicated log, if that has it
//!        └──▶ domain: the image of the backup, and the entries behind it
//! ```
//!
//! Invariants
//! - LOG-1: no outcome is made up; each is one that was read with its checksums, or will be applied again from its entry.
//! - The old log stays beside the new one until somebody removes it. A swap that was interrupted is found, and finished by the next
//!   repair or opening.
//!
//! Must not know: terminals.

mod catalog;
mod log;
mod naming;
mod peer;
mod running;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gapless_consensus::{ClusterId, Inspected, NodeId, inspect_directory};
use gapless_log::io::Io;
use gapless_log::io::memory::MemoryIo;
use gapless_log::{Log, Options as LogOptions};
use gapless_partition::{Partition, Scratch};
use gapless_projection::Installing;
use gapless_types::{LogIndex, PartitionId, Position};
use thiserror::Error;

use crate::backup::{BackupError, Directory, Manifest, PieceReader, row_of};
use crate::catalog::{CatalogFile, StoredCatalog};
use crate::removal;
use crate::retention::Domain;
use crate::verify::{Depth, OnStep, Remedy, Step, VerifyNodeError, hold, verify_node};
use crate::worker::with_causes;
pub use naming::PartitionName;

pub(crate) use log::{finish_swap, is_swapping, rebuild_log};
pub(crate) use running::repair_partition;

/// It is told how far the state of a projection is when so many more bytes of it are written.
const TOLD_BYTES: u64 = 1 << 20;

/// How to repair.
#[derive(Clone, Debug)]
pub struct RepairOptions {
    /// This partition alone; everything that needs it if not given.
    pub partition: Option<PartitionName>,
    /// A directory of backups of the same cluster.
    pub from: Option<PathBuf>,
    /// Where what is computed lies; in memory if not given.
    pub scratch: Option<Scratch>,
    /// How partitions are opened.
    pub partitions: gapless_partition::Options,
}

impl Default for RepairOptions {
    fn default() -> Self {
        Self { partition: None, from: None, scratch: None, partitions: gapless_partition::Options::new() }
    }
}

/// What a partition is made anew from while the node serves, beside its own log and the replicated one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RepairSource {
    /// Nothing else.
    #[default]
    OwnLog,
    /// A directory of backups on this machine.
    Backup(PathBuf),
    /// Another member of the cluster. Whoever names it says that it is right: where its outcomes are others, they count.
    Node(NodeId),
    /// The other member that has most. If its outcomes are others, nothing is repaired.
    AnyNode,
}

/// Something that was repaired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// Where.
    pub path: PathBuf,
    /// What was done.
    pub what: String,
}

/// What a repair did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// Everything that was done; nothing if nothing was damaged.
    pub repaired: Vec<Repaired>,
}

/// Why something was not repaired.
#[derive(Debug, Error)]
pub enum RepairError {
    /// It cannot be looked at.
    #[error(transparent)]
    Verify(#[from] VerifyNodeError),
    /// The backup cannot be used, or the disk failed.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// The backup is of another cluster, or there is none.
    #[error("{0} holds no backup of this cluster")]
    NoBackup(PathBuf),
    /// The newest backup was made without the partition.
    #[error("the newest backup in {dir} does not have partition {partition}")]
    NotInBackup {
        /// Which one.
        partition: PartitionId,
        /// Where the backup is.
        dir: PathBuf,
    },
    /// There is no such partition on this node.
    #[error("there is no partition {0}")]
    NoPartition(PartitionId),
    /// The node has no such partition, or its catalog does not know the namespace.
    #[error("there is no partition {0}")]
    UnknownPartition(PartitionName),
    /// No other node can give the partition.
    #[error("no other node can give partition {partition}{}{reasons}", if reasons.is_empty() { "" } else { ": " })]
    NoPeer {
        /// Which one.
        partition: PartitionId,
        /// What each of them said.
        reasons: String,
    },
    /// Another node broke off, or does not have enough.
    #[error("node {node}: {reason}")]
    Peer {
        /// Which one.
        node: NodeId,
        /// What happened.
        reason: String,
    },
    /// Another node has something else: one of the two is wrong, and nobody here knows which.
    #[error(
        "node {node} has another outcome {offset} than this one; whoever names the node says that it is right"
    )]
    Differs {
        /// Which one.
        node: NodeId,
        /// The first outcome that is another one.
        offset: u64,
    },
    /// Something is lost that nothing here can bring back.
    #[error("{path}: {lost}")]
    Lost {
        /// Where.
        path: PathBuf,
        /// What is lost, and why it cannot be brought back.
        lost: String,
    },
    /// It could not be done.
    #[error("cannot repair {path}: {reason}")]
    Failed {
        /// What.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

impl RepairError {
    fn lost(path: impl Into<PathBuf>, lost: impl Into<String>) -> Self {
        Self::Lost { path: path.into(), lost: lost.into() }
    }

    pub(crate) fn failed(path: impl Into<PathBuf>, reason: &impl ToString) -> Self {
        Self::Failed { path: path.into(), reason: reason.to_string() }
    }
}

/// A backup to take things from.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) directory: Directory,
    pub(crate) manifest: Manifest,
}

impl Source {
    /// The newest backup of a directory.
    pub(crate) fn open(io: &Arc<dyn Io>, dir: &Path) -> Result<Self, RepairError> {
        let directory = Directory::new(io.clone(), dir);
        let manifest = directory.manifests()?.pop();
        let manifest = manifest.ok_or_else(|| RepairError::NoBackup(dir.to_path_buf()))?;
        Ok(Self { directory, manifest })
    }

    /// The newest backup of a directory, if it is of this cluster and has this partition.
    pub(crate) fn of_partition(
        io: &Arc<dyn Io>,
        dir: &Path,
        cluster: ClusterId,
        partition: PartitionId,
    ) -> Result<Self, RepairError> {
        let source = Self::open(io, dir)?;
        if source.manifest.cluster != cluster {
            return Err(RepairError::NoBackup(dir.to_path_buf()));
        }
        match source.manifest.partitions.iter().any(|(known, _)| *known == partition) {
            true => Ok(source),
            false => Err(RepairError::NotInBackup { partition, dir: dir.to_path_buf() }),
        }
    }
}

/// Repairs the directory of a node that nobody has open.
///
/// # Errors
/// If something is left damaged; what was repaired before that stays so.
pub fn repair_node(
    io: &Arc<dyn Io>,
    dir: &Path,
    options: &RepairOptions,
    step: OnStep<'_>,
) -> Result<RepairReport, RepairError> {
    let memory = || Scratch { io: Arc::new(MemoryIo::new()), dir: PathBuf::from("scratch") };
    let scratch = options.scratch.clone().unwrap_or_else(memory);
    let found = verify_node(io, dir, &scratch, Depth::Full, step)?;
    let held = hold(io, &dir.join("consensus").join("log"))?;
    let consensus = inspect_directory(io, &dir.join("consensus"), &mut |_| None);
    let source = options.from.as_deref().map(|from| Source::open(io, from)).transpose()?;
    let mut repairing =
        Repairing { io, dir, options, source, consensus, report: RepairReport::default(), covered: None };
    repairing.check_cluster()?;
    for finding in found.findings.iter().filter(|finding| finding.is_damage) {
        if matches!(finding.remedy, Remedy::WholeNode | Remedy::RestoreAgain | Remedy::OtherCopy) {
            return Err(RepairError::lost(&finding.path, format!("{}: {}", finding.what, finding.means)));
        }
    }
    let catalog_path = dir.join("catalog");
    if found.findings.iter().any(|finding| finding.is_damage && finding.path == catalog_path) {
        repairing.repair_catalog()?;
    }
    let stored = repairing.stored()?;
    let only = options.partition.as_ref().map(|name| name.find(&stored.catalog)).transpose()?;
    let partitions = CatalogFile::new(io.clone(), dir).partitions_dir();
    for partition in stored.catalog.partitions().filter(|id| only.is_none_or(|only| only == *id)) {
        let dir = stored.places.partition_dir(&partitions, partition);
        let of_it: Vec<_> = found
            .findings
            .iter()
            .filter(|finding| finding.is_damage && finding.path.starts_with(&dir))
            .collect();
        let in_log = of_it.iter().any(|finding| {
            !finding.path.starts_with(dir.join("store"))
                && !finding.path.starts_with(dir.join("projections"))
                && finding.remedy != Remedy::NextOpening
        });
        let in_store = of_it.iter().any(|finding| finding.path.starts_with(dir.join("store")));
        let heals = of_it.iter().any(|finding| finding.remedy == Remedy::NextOpening);
        if in_log {
            repairing.rebuild_partition(partition, &dir, step)?;
        } else if in_store {
            Partition::rebuild(io, &dir).map_err(|error| RepairError::failed(&dir, &with_causes(&error)))?;
            repairing.did(
                dir.join("store"),
                "discarded; it is made anew from the partition log at the next start",
            );
        }
        if heals && !in_log {
            repairing.heal(&dir.join("log"), options.partitions.log.clone())?;
        }
        for domain in stored.catalog.domains().filter(|domain| domain.partition == partition) {
            let domain_dir = stored.places.domain_dir(&partitions, &domain);
            if of_it.iter().any(|finding| finding.path.starts_with(&domain_dir)) {
                repairing.repair_domain(&domain, &domain_dir, step)?;
            }
        }
    }
    // The log takes it itself.
    drop(held);
    let log = dir.join("consensus").join("log");
    if found.findings.iter().any(|finding| finding.is_damage && finding.path == log) {
        let options =
            LogOptions { first_position: Position::new(LogIndex::FIRST.get()), ..LogOptions::replicated() };
        repairing.heal(&log, options)?;
    }
    repairing.lower_covered()?;
    Ok(repairing.report)
}

/// A repair under way.
struct Repairing<'a> {
    io: &'a Arc<dyn Io>,
    dir: &'a Path,
    options: &'a RepairOptions,
    source: Option<Source>,
    consensus: Inspected,
    report: RepairReport,
    /// Entries behind this one have to come again.
    covered: Option<LogIndex>,
}

impl Repairing<'_> {
    fn did(&mut self, path: PathBuf, what: impl Into<String>) {
        self.report.repaired.push(Repaired { path, what: what.into() });
    }

    fn stored(&self) -> Result<StoredCatalog, RepairError> {
        CatalogFile::new(self.io.clone(), self.dir)
            .read()
            .map_err(|error| RepairError::failed(self.dir.join("catalog"), &error))
    }

    fn check_cluster(&self) -> Result<(), RepairError> {
        let (Some(source), Some(own)) = (&self.source, self.consensus.identity) else { return Ok(()) };
        match source.manifest.cluster == own.cluster {
            true => Ok(()),
            false => Err(RepairError::NoBackup(source.directory.root.clone())),
        }
    }

    /// Opens a log and closes it: what opening puts right is right then.
    fn heal(&mut self, dir: &Path, options: LogOptions) -> Result<(), RepairError> {
        let (log, _) = Log::open(self.io.clone(), dir, options)
            .map_err(|error| RepairError::failed(dir, &with_causes(&error)))?;
        log.maintain().and_then(|()| log.close()).map_err(|error| RepairError::failed(dir, &error))?;
        self.did(dir.to_path_buf(), "headers and footers written anew");
        Ok(())
    }

    fn rebuild_partition(
        &mut self,
        partition: PartitionId,
        dir: &Path,
        step: OnStep<'_>,
    ) -> Result<(), RepairError> {
        let options = &self.options.partitions;
        let rebuilt = rebuild_log(self.io, dir, partition, self.source.as_ref(), options, step)?;
        if let Some(lost) = &rebuilt.lost {
            // Outcomes of entries that the log still has are made again from them.
            let from = rebuilt.last.and_then(LogIndex::next).unwrap_or(LogIndex::FIRST);
            let snapshot = self.consensus.snapshot;
            let is_kept = from >= self.consensus.first && rebuilt.last >= snapshot && rebuilt.last.is_some();
            if !is_kept {
                return Err(RepairError::lost(
                    dir.join("log"),
                    format!(
                        "outcomes {} to {} cannot be read; the replicated log begins with entry {}, and {}",
                        lost.start,
                        lost.end - 1,
                        self.consensus.first,
                        match &self.source {
                            Some(_) => "the backup does not have them",
                            None => "no backup was given: --from BACKUP",
                        }
                    ),
                ));
            }
            self.covered = [self.covered, rebuilt.last].into_iter().flatten().min();
        }
        log::swap(self.io, dir)?;
        Partition::rebuild(self.io, dir).map_err(|error| RepairError::failed(dir, &with_causes(&error)))?;
        let again = match &rebuilt.lost {
            Some(lost) => format!("; those from {} on come again from the replicated log", lost.start),
            None => String::new(),
        };
        let (own, backup) = (rebuilt.own, rebuilt.from_backup);
        self.did(
            dir.join("log"),
            format!("written anew: {own} outcomes of its own, {backup} of the backup{again}; the old files are in log.damaged"),
        );
        Ok(())
    }

    /// The state of a domain as the backup has it; what is behind it comes again from the replicated log.
    fn repair_domain(&mut self, domain: &Domain, dir: &Path, step: OnStep<'_>) -> Result<(), RepairError> {
        let Some(Source { directory, manifest }) = &self.source else {
            let lost = format!("the state of {domain} cannot be read; give a backup: --from BACKUP");
            return Err(RepairError::lost(dir, lost));
        };
        let next = manifest.index.next().unwrap_or(LogIndex::MAX);
        let files: Vec<_> =
            manifest.rows().filter(|(known, _)| *known == domain).map(|(_, file)| file).collect();
        if files.is_empty() || next < self.consensus.first || Some(manifest.index) < self.consensus.snapshot {
            let first = self.consensus.first;
            let lost = format!(
                "the backup has {domain} at entry {}, and the replicated log begins with {first}",
                manifest.index
            );
            return Err(RepairError::lost(dir, lost));
        }
        let failed = |error: &dyn std::error::Error| RepairError::failed(dir, &with_causes(error));
        removal::remove(&**self.io, dir).map_err(|error| failed(&error))?;
        let options = &self.options.partitions;
        let begun = Installing::begin(self.io.clone(), dir, options.store, &options.budget);
        let mut installing = begun.map_err(|error| failed(&error))?;
        let of = files.iter().map(|file| file.length).sum();
        let (mut done, mut told) = (0, 0);
        for file in files {
            let mut reader = PieceReader::open(&*directory.io, &directory.root, file)?;
            while let Some(item) = reader.next()? {
                let (key, value) =
                    row_of(&item).ok_or_else(|| reader.damaged(reader.position(), "a row is none"))?;
                installing.put(&key, &value).map_err(|error| failed(&error))?;
                if done + reader.position() >= told + TOLD_BYTES || told == 0 {
                    told = done + reader.position();
                    step(&Step { what: format!("writing {domain}"), done: told, of });
                }
            }
            done += file.length;
        }
        installing.finish().map_err(|error| failed(&error))?;
        // What the catalog says that it does not need, it would never ask for.
        let mut stored = self.stored()?;
        stored.domains.insert(domain.clone(), next);
        self.write_catalog(&stored)?;
        let what =
            format!("{domain} as of entry {}, out of the backup; the rest comes again", manifest.index);
        self.did(dir.to_path_buf(), what);
        Ok(())
    }

    /// A partition that was cut back gets the entries behind it again.
    fn lower_covered(&mut self) -> Result<(), RepairError> {
        let Some(covered) = self.covered else { return Ok(()) };
        let mut stored = self.stored()?;
        if stored.covered > Some(covered) {
            stored.covered = Some(covered);
            self.write_catalog(&stored)?;
        }
        Ok(())
    }

    fn write_catalog(&self, stored: &StoredCatalog) -> Result<(), RepairError> {
        CatalogFile::new(self.io.clone(), self.dir)
            .write(stored)
            .map_err(|error| RepairError::failed(self.dir.join("catalog"), &error))
    }
}
