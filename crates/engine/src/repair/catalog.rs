//! The catalog, as it was at an earlier entry: the node folds what is behind that again when it is opened.
//!
//! Invariants
//! - It is the fold of a prefix of the log (NUM-3), and not behind the entry that it calls covered.
//! - Everything up to the last snapshot is in checkpoints of partitions (TRUNC-1), so that entry is called covered, and none behind it.
//!
//! Must not know: how partitions are repaired.

use gapless_types::LogIndex;

use super::{RepairError, Repairing};
use crate::catalog::{CatalogFile, StoredCatalog};

impl Repairing<'_> {
    pub(super) fn repair_catalog(&mut self) -> Result<(), RepairError> {
        let path = self.dir.join("catalog");
        let file = CatalogFile::new(self.io.clone(), self.dir);
        let generations = file.generations().map_err(|error| RepairError::failed(&path, &error))?;
        let generation = match generations[..] {
            [] => 0,
            [one] => one,
            _ => {
                return Err(RepairError::lost(&path, "it is not known which directory of partitions counts"));
            }
        };
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
        stored.generation = generation;
        stored.domains.clear();
        self.write_catalog(&stored)?;
        self.did(path, how);
        Ok(())
    }
}
