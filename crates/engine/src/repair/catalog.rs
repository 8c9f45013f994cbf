//! The catalog, as it was at an earlier entry: the node folds what is behind that again when it is opened.
//!
//! Invariants
//! - It is the fold of a prefix of the log (NUM-3), and not behind the entry that it calls covered.
//! - Everything up to the last snapshot is in checkpoints of partitions (TRUNC-1), so that entry is called covered, and none behind it.
//!
//! Must not know: how partitions are repaired.

use std::path::Path;

use gapless_types::LogIndex;

use super::{RepairError, Repairing};
use crate::catalog::{CatalogFile, DOMAINS, Places, StoredCatalog, domain_in, partition_in};

impl Repairing<'_> {
    pub(super) fn repair_catalog(&mut self) -> Result<(), RepairError> {
        let path = self.dir.join("catalog");
        let file = CatalogFile::new(self.io.clone(), self.dir);
        let places = self.places(&file.partitions_dir())?;
        let (first, snapshot) = (self.consensus.first, self.consensus.snapshot);
        let (mut stored, how) = match &self.source {
            Some(source)
                if Some(source.manifest.index) >= snapshot && source.manifest.index < self.consensus.next =>
            {
                let index = source.manifest.index;
                let stored = source.manifest.stored_catalog();
                let stored = stored.map_err(|malformed| RepairError::failed(&path, &malformed.0))?;
                (
                    stored,
                    format!(
                        "that of the backup at entry {index}; the entries behind it are folded at the next start"
                    ),
                )
            }
            _ if first == LogIndex::FIRST && snapshot.is_none() => (
                StoredCatalog::default(),
                "folded from the whole replicated log at the next start".to_owned(),
            ),
            Some(source) => {
                let lost = format!(
                    "the backup has it at entry {}, and the replicated log has entries {first} to {}",
                    source.manifest.index, self.consensus.next
                );
                return Err(RepairError::lost(&path, lost));
            }
            None => {
                let lost =
                    format!("the replicated log begins with entry {first}; give a backup: --from BACKUP");
                return Err(RepairError::lost(&path, lost));
            }
        };
        stored.covered = snapshot;
        stored.cluster = self.consensus.identity.map(|identity| identity.cluster);
        stored.places = places;
        stored.domains.clear();
        self.write_catalog(&stored)?;
        self.did(path, how);
        Ok(())
    }

    /// Where partitions and domains are, by the names of their directories. Of one that a snapshot replaced there are two for a while.
    fn places(&self, partitions: &Path) -> Result<Places, RepairError> {
        let mut places = Places::default();
        let twice = |dir: &Path| {
            let lost = "it is not known whether this directory counts, or another one of the same partition or projection";
            RepairError::lost(dir, lost)
        };
        for name in self.directories(partitions)? {
            let Some((partition, number)) = partition_in(&name) else { continue };
            let dir = partitions.join(&name);
            if places.partitions.insert(partition, number).is_some() {
                return Err(twice(&dir));
            }
            for name in self.directories(&dir.join(DOMAINS))? {
                let Some((domain, number)) = domain_in(partition, &name) else { continue };
                if places.domains.insert(domain, number).is_some() {
                    return Err(twice(&dir.join(DOMAINS).join(name)));
                }
            }
        }
        places.installs =
            places.partitions.values().chain(places.domains.values()).copied().max().unwrap_or(0);
        places.partitions.retain(|_, number| *number > 0);
        places.domains.retain(|_, number| *number > 0);
        Ok(places)
    }

    fn directories(&self, dir: &Path) -> Result<Vec<String>, RepairError> {
        match self.io.list_dirs(dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            found => found.map_err(|error| RepairError::failed(dir, &error)),
        }
    }
}
