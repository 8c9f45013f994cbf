//! Which moments a directory of backups can be restored to, and what of it is needed for one of them.
//!
//! ```text
//!  backup 1 ─────────── entries ─────────▶ backup 2 ──── the log was cut ────▶ backup 3
//!  exact    any entry: state of 1, entries up to there     exact: if nothing but partitions changed,
//!           and the outcomes that 2 has of them            any entry, by the outcomes that 3 has
//! ```
//!
//! Invariants
//! - Partitions, catalog and projections are all of the same entry, or nothing is restored.
//!
//! Must not know: where anything is restored to.

use gapless_partition::Header;
use gapless_types::LogIndex;

use super::RestorePoint;
use crate::backup::{BackupError, Directory, FileEntry, Manifest, PieceReader, RestoreError, entry_of};
use crate::catalog::StoredCatalog;
use crate::entry::Entry;
use crate::log_time::LogTime;

/// What is needed to restore a moment.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The state to begin with: catalog and domains.
    pub(crate) base: Manifest,
    /// Where that state is.
    pub(crate) covered: LogIndex,
    /// Who has the outcomes, up to `index`.
    pub(crate) outcomes: Manifest,
    /// Entries behind `covered`, up to `index` and perhaps more.
    pub(crate) entries: Vec<FileEntry>,
    /// The last entry that is restored.
    pub(crate) index: LogIndex,
}

impl Plan {
    fn exactly(manifest: &Manifest) -> Self {
        let (base, outcomes) = (manifest.clone(), manifest.clone());
        Self { base, covered: manifest.index, outcomes, entries: Vec::new(), index: manifest.index }
    }

    /// Files that are read.
    pub(crate) fn files(&self) -> Vec<&FileEntry> {
        let rows = self.base.rows().map(|(_, file)| file);
        let outcomes = self.base.partitions.iter().flat_map(|(partition, _)| {
            let newer = self.outcomes.partitions.iter().any(|(known, _)| known == partition);
            if newer { self.outcomes.outcomes_of(*partition) } else { self.base.outcomes_of(*partition) }
        });
        outcomes.chain(rows).chain(&self.entries).collect()
    }
}

/// What is needed for a moment.
pub(crate) fn plan(directory: &Directory, point: RestorePoint) -> Result<Plan, RestoreError> {
    let manifests = directory.manifests()?;
    let Some(newest) = manifests.last() else {
        return Err(RestoreError::NoBackup(directory.root.clone()));
    };
    let points = Points { directory, manifests: &manifests };
    match point {
        RestorePoint::Latest => Ok(Plan::exactly(newest)),
        RestorePoint::Index(index) => points.at_index(index),
        RestorePoint::Time(time) => points.at_time(time),
    }
}

struct Points<'a> {
    directory: &'a Directory,
    manifests: &'a [Manifest],
}

impl Points<'_> {
    fn at_index(&self, index: LogIndex) -> Result<Plan, RestoreError> {
        if let Some(exact) = self.manifests.iter().find(|manifest| manifest.index == index) {
            return Ok(Plan::exactly(exact));
        }
        let Some(upper) = self.manifests.iter().find(|manifest| manifest.index > index) else {
            return Err(self.refused(format!("entry {index}"), "no backup has got that far"));
        };
        if let Some(base) = self.base_of(upper).filter(|base| base.index < index) {
            let entries = upper.entries().filter(|file| file.first <= index.get()).cloned().collect();
            let (outcomes, covered) = (upper.clone(), base.index);
            return Ok(Plan { base: base.clone(), covered, outcomes, entries, index });
        }
        if self.unchanged_since(upper)?.is_some_and(|since| since <= index) {
            let (base, outcomes) = (upper.clone(), upper.clone());
            return Ok(Plan { base, covered: index, outcomes, entries: Vec::new(), index });
        }
        Err(self.refused(format!("entry {index}"), "no backup has the entries between"))
    }

    fn at_time(&self, time: u64) -> Result<Plan, RestoreError> {
        let wanted = || format!("log time {time} ms");
        let upper = self.manifests.iter().position(|manifest| manifest.time.as_millis() > time);
        let Some(upper) = upper else {
            return match self.manifests.iter().rfind(|manifest| manifest.time.as_millis() == time) {
                Some(exact) => Ok(Plan::exactly(exact)),
                None => Err(self.refused(wanted(), "no backup has got that far")),
            };
        };
        let upper = &self.manifests[upper];
        let index = match self.base_of(upper) {
            Some(base) if base.time.as_millis() <= time => self.last_entry_by(base, upper, time)?,
            _ => self.last_outcome_by(upper, time)?,
        };
        match index {
            Some(index) => self.at_index(index),
            None => Err(self.refused(wanted(), "nothing is known to have happened until then")),
        }
    }

    /// The backup before one, if all entries between them are there.
    fn base_of(&self, upper: &Manifest) -> Option<&Manifest> {
        let previous = upper.previous.filter(|_| upper.entries().next().is_some())?;
        self.manifests.iter().find(|manifest| manifest.index == previous)
    }

    /// The entry from which on nothing but partitions changed: outcomes alone then say everything.
    fn unchanged_since(&self, manifest: &Manifest) -> Result<Option<LogIndex>, BackupError> {
        let stored = catalog_of(self.directory, manifest)?;
        let alone = stored.catalog.domains().next().is_none();
        Ok(stored.catalog.at().filter(|_| alone))
    }

    /// The last entry that is not later.
    fn last_entry_by(
        &self,
        base: &Manifest,
        upper: &Manifest,
        time: u64,
    ) -> Result<Option<LogIndex>, BackupError> {
        let mut last = base.index;
        for file in upper.entries() {
            let mut reader = PieceReader::open(&*self.directory.io, &self.directory.root, file)?;
            let mut number = file.first;
            while let Some(item) = reader.next()? {
                let (_, proposed) =
                    entry_of(&item).ok_or_else(|| reader.damaged(number, "an entry is none"))?;
                let entry = proposed.and_then(|bytes| Entry::decode(&bytes).ok());
                if entry.is_some_and(|entry| entry.time.as_millis() > time) {
                    return Ok(Some(last));
                }
                last = LogIndex::new(number);
                number += 1;
            }
        }
        Ok(Some(last))
    }

    /// The last entry with an outcome that is not later.
    fn last_outcome_by(&self, upper: &Manifest, time: u64) -> Result<Option<LogIndex>, BackupError> {
        let mut last = None;
        for (partition, _) in &upper.partitions {
            for file in upper.outcomes_of(*partition) {
                let mut reader = PieceReader::open(&*self.directory.io, &self.directory.root, file)?;
                while let Some(item) = reader.next()? {
                    let header = Header::decode_alone(&item);
                    let (header, ..) =
                        header.map_err(|_| reader.damaged(file.first, "an outcome is none"))?;
                    if header.time <= time {
                        last = last.max(Some(header.log_index));
                    }
                }
            }
        }
        Ok(last)
    }

    fn refused(&self, wanted: String, reason: &str) -> RestoreError {
        let ranges = self.ranges().into_iter().map(|(first, last)| match first == last {
            true => format!("{first}"),
            false => format!("{first} to {last}"),
        });
        let times = self.manifests.iter().map(|manifest| manifest.time.as_millis().to_string());
        let nearest = format!(
            "Possible are entries {}; log times of the backups are {}",
            ranges.collect::<Vec<_>>().join(", "),
            times.collect::<Vec<_>>().join(", ")
        );
        RestoreError::NoSuchPoint { wanted, reason: reason.to_owned(), nearest }
    }

    /// Entries that can be restored to, first and last of each range.
    fn ranges(&self) -> Vec<(u64, u64)> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for manifest in self.manifests {
            let (last, base) = (manifest.index.get(), self.base_of(manifest));
            let unchanged = self.unchanged_since(manifest).ok().flatten();
            let firsts = [base.map(|base| base.index), unchanged].into_iter().flatten();
            let first = firsts.map(LogIndex::get).min().unwrap_or(last).min(last);
            match ranges.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => ranges.push((first, last)),
            }
        }
        ranges
    }
}

pub(crate) fn catalog_of(directory: &Directory, manifest: &Manifest) -> Result<StoredCatalog, BackupError> {
    manifest.stored_catalog().map_err(|malformed| {
        BackupError::damaged(
            &directory.root,
            format!("catalog of backup {}: {}", manifest.number, malformed.0),
        )
    })
}

/// The later one of two times.
pub(crate) fn later(one: LogTime, millis: u64) -> LogTime {
    LogTime::from_millis(millis).map_or(one, |other| one.max(other))
}
