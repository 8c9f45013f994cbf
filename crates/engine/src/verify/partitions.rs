//! The partitions of a node, and the domains over them.
//!
//! Must not know: how outcomes and rows are computed; that is the partition's own business.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gapless_log::Depth as LogDepth;
use gapless_log::io::Io;
use gapless_partition::{Phase, Place, Scratch, StoreCheck, Untouched, VerifyError};
use gapless_types::{LogIndex, PartitionId};

use super::{Depth, OnStep, Remedy, SAMPLED_BYTES, Step, Verified};
use crate::catalog::{CatalogFile, StoredCatalog, number_in, partition_in};
use crate::repair;
use crate::worker::with_causes;

/// Where is looked, and how closely.
pub(super) struct Looking<'a> {
    pub(super) io: &'a Arc<dyn Io>,
    pub(super) dir: &'a Path,
    pub(super) scratch: &'a Scratch,
    pub(super) depth: Depth,
    /// The entry behind the last one of the replicated log.
    pub(super) last: Option<LogIndex>,
}

const FROM_LOG: &str = "rows are not what follows from the partition log, which is whole";
const LOST: &str = "outcomes cannot be read, or are not what they were";

impl Looking<'_> {
    /// All that the catalog names; all that are found if it cannot be read.
    pub(super) fn all(&self, stored: Option<&StoredCatalog>, verified: &mut Verified, step: OnStep<'_>) {
        let root = CatalogFile::new(self.io.clone(), self.dir).partitions_dir();
        let partitions = match stored {
            Some(stored) => {
                let named = |partition| (partition, stored.places.partition_dir(&root, partition));
                stored.catalog.partitions().map(named).collect()
            }
            None => self.found(&root),
        };
        for (partition, dir) in partitions {
            verified.partitions += 1;
            self.partition(partition, &dir, stored, verified, step);
        }
        let Some(stored) = stored else { return };
        for name in self.io.list_dirs(&root).unwrap_or_default() {
            let number = number_in(&name).1;
            if stored.places.is_replaced(&name) || number > stored.places.installs {
                verified.left_behind(root.join(name), "a directory that a snapshot left behind");
            }
        }
        for (domain, plan) in stored.catalog.planned_domains() {
            verified.domains += 1;
            let partition_dir = stored.places.partition_dir(&root, domain.partition);
            let dir = stored.places.domain_dir(&root, &domain);
            self.domain(&domain, &plan, &partition_dir, dir, verified, step);
        }
    }

    /// Directories that look like partitions.
    fn found(&self, root: &Path) -> Vec<(PartitionId, PathBuf)> {
        let names = self.io.list_dirs(root).unwrap_or_default();
        let partition = |name: &String| Some((partition_in(name)?.0, root.join(name)));
        names.iter().filter_map(partition).collect()
    }

    fn partition(
        &self,
        partition: PartitionId,
        dir: &Path,
        stored: Option<&StoredCatalog>,
        verified: &mut Verified,
        step: OnStep<'_>,
    ) {
        let (log, from_backup) = (dir.join("log"), Remedy::PartitionFromBackup(partition));
        if repair::is_swapping(&**self.io, dir) {
            let means = "a repair was not finished: the partition must not be opened";
            verified.damaged(dir, "it is marked as being repaired", means, Remedy::Repair);
            return;
        }
        let is_covered = stored.is_some_and(|stored| stored.catalog.at() <= stored.covered);
        if self.io.list(&log).is_err() {
            if is_covered {
                verified.damaged(log, "the partition log is gone", LOST, from_backup);
            }
            return;
        }
        let mut bytes = 0;
        let surveyed = gapless_log::inspect(&**self.io, &log, LogDepth::EveryFrame, &mut |frame| {
            bytes += u64::from(frame.body_length);
        });
        match surveyed {
            Ok(survey) => {
                let missing: Vec<_> = survey.missing.iter().chain(&survey.damage).cloned().collect();
                verified.log_damage(&log, &missing, survey.first.get(), from_backup);
                if survey.log.is_none() && is_covered {
                    verified.damaged(&log, "the partition log is gone", LOST, from_backup);
                }
                if survey.log.is_none() || !survey.missing.is_empty() {
                    return;
                }
                verified.outcomes += survey.next.get() - survey.first.get();
                let end = stored.and_then(|stored| stored.ends.get(&partition));
                if let Some(end) = end.filter(|end| end.get() >= survey.next.get()) {
                    let what = format!("its log ends before outcome {}, and had {end}", survey.next);
                    verified.damaged(&log, what, LOST, from_backup);
                }
            }
            Err(error) => {
                verified.damaged(log, with_causes(&error), LOST, from_backup);
                return;
            }
        }
        match self.depth == Depth::Full || bytes <= SAMPLED_BYTES {
            true => self.compute(partition, dir, verified, step),
            false => self.read_store(dir, verified),
        }
    }

    /// Computes everything anew.
    fn compute(&self, partition: PartitionId, dir: &Path, verified: &mut Verified, step: OnStep<'_>) {
        let from_backup = Remedy::PartitionFromBackup(partition);
        let mut show = |phase| {
            let (done, of) = match phase {
                Phase::Outcomes { done, of } => (done, of),
                Phase::Rows { .. } => return,
            };
            step(&Step { what: format!("partition {partition}"), done, of });
        };
        let found = match gapless_partition::verify(self.io, dir, self.scratch, &mut show) {
            Ok(found) => found,
            Err(error) => {
                let (path, remedy) = match &error {
                    VerifyError::Store(_) => (dir.join("store"), Remedy::Repair),
                    VerifyError::Scratch(_) => (self.scratch.dir.clone(), Remedy::NextOpening),
                    _ => (dir.join("log"), from_backup),
                };
                verified.damaged(path, with_causes(&error), LOST, remedy);
                return;
            }
        };
        verified.computed += 1;
        verified.events += found.events;
        let mut store_is_named = false;
        if let Some(difference) = &found.first_difference {
            let (path, means, remedy) = match difference.place {
                Place::Log => (dir.join("log"), LOST, from_backup),
                Place::Store => (dir.join("store"), FROM_LOG, Remedy::Repair),
            };
            store_is_named = difference.place == Place::Store;
            verified.damaged(path, difference.to_string(), means, remedy);
        }
        match &found.store {
            StoreCheck::Unreadable(reason) => {
                verified.damaged(dir.join("store"), reason.clone(), FROM_LOG, Remedy::Repair);
            }
            StoreCheck::Compared { rows, differing, .. } => {
                verified.rows += rows;
                if *differing > 0 && !store_is_named {
                    let what = format!("{differing} rows differ");
                    verified.damaged(dir.join("store"), what, FROM_LOG, Remedy::Repair);
                }
                // What no comparison needs to read is read as well.
                if *differing == 0 {
                    self.read_store(dir, verified);
                    verified.rows -= rows;
                }
            }
            StoreCheck::Empty | StoreCheck::NotReached => {}
        }
        self.check_end(partition, dir, verified);
    }

    fn read_store(&self, dir: &Path, verified: &mut Verified) {
        match gapless_partition::read_store(self.io, dir) {
            Ok(rows) => verified.rows += rows,
            Err(reason) => verified.damaged(dir.join("store"), reason, FROM_LOG, Remedy::Repair),
        }
    }

    /// No outcome is of an entry that the replicated log never had.
    fn check_end(&self, partition: PartitionId, dir: &Path, verified: &mut Verified) {
        let untouched: Arc<dyn Io> = Arc::new(Untouched::over(self.io.clone()));
        let options = gapless_partition::Options::new();
        let begun = gapless_partition::Partition::begin(&untouched, dir, partition, &options);
        let last = begun.ok().and_then(|opening| opening.last().ok().flatten());
        if let (Some((_, index)), Some(next)) = (last, self.last)
            && index >= next
        {
            let what =
                format!("its last outcome is of entry {index}, and the replicated log ends before {next}");
            verified.damaged(dir.join("log"), what, "the replicated log has lost its end", Remedy::WholeNode);
        }
    }
}
