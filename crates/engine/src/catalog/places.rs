//! Where partitions and domains are on disk.
//!
//! ```text
//!  partitions/16-0                       a partition that was created here
//!  partitions/16-0.3                     one that came whole with the third snapshot that was installed here
//!  partitions/16-0/projections/sold-1    a domain, inside the directory of its partition
//!  partitions/16-0/projections/sold-1.3  one whose state came with the third snapshot
//! ```
//!
//! What a snapshot brings is written beside what there is, under the next number, and counts once the catalog on disk names that. What
//! it replaced is found by its number, and removed.
//!
//! Must not know: what is in the directories.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gapless_types::{Name, NamespaceId, PartitionId, PartitionIndex};

use super::Catalog;
use crate::node::partition_name;
use crate::retention::Domain;

/// Directory of the domains inside that of their partition.
pub(crate) const DOMAINS: &str = "projections";

/// Which directories count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    /// Snapshots that were installed: the highest number that a directory has.
    pub(crate) installs: u64,
    /// Partitions that came whole with a snapshot, and with which one.
    pub(crate) partitions: BTreeMap<PartitionId, u64>,
    /// Domains whose state came with a snapshot, and with which one.
    pub(crate) domains: BTreeMap<Domain, u64>,
}

impl Places {
    /// The directory of a partition.
    pub(crate) fn partition_dir(&self, partitions: &Path, partition: PartitionId) -> PathBuf {
        partitions.join(numbered(partition_name(partition), self.number_of(partition)))
    }

    /// The directory of a domain.
    pub(crate) fn domain_dir(&self, partitions: &Path, domain: &Domain) -> PathBuf {
        self.partition_dir(partitions, domain.partition).join(DOMAINS).join(self.domain_name(domain))
    }

    /// The name of a domain's directory, inside that of its partition's domains.
    pub(crate) fn domain_name(&self, domain: &Domain) -> String {
        let number = self.domains.get(domain).copied().unwrap_or(0);
        numbered(format!("{}-{}", domain.projection, domain.version), number)
    }

    pub(crate) fn number_of(&self, partition: PartitionId) -> u64 {
        self.partitions.get(&partition).copied().unwrap_or(0)
    }

    /// Whether a directory of a partition was replaced. What has a higher number than any that counts may be on its way.
    pub(crate) fn is_replaced(&self, name: &str) -> bool {
        let known = partition_in(name);
        known
            .is_some_and(|(partition, number)| number <= self.installs && number != self.number_of(partition))
    }

    /// Without partitions and domains that there are no more, and of which nothing is on disk.
    pub(crate) fn of(&self, catalog: &Catalog) -> Self {
        let garbage = catalog.garbage();
        let is_there = |partition: &PartitionId| {
            catalog.by_id(partition.namespace).is_some() || garbage.contains(&partition.namespace)
        };
        let mut places = self.clone();
        places.partitions.retain(|partition, _| is_there(partition));
        places.domains.retain(|domain, _| catalog.has_domain(domain));
        places
    }
}

fn numbered(name: String, number: u64) -> String {
    if number == 0 { name } else { format!("{name}.{number}") }
}

/// A name without its number, and the number. No name has one of its own: they end with a dash and digits.
pub(crate) fn number_in(name: &str) -> (&str, u64) {
    let split = name.rsplit_once('.').and_then(|(name, number)| Some((name, number.parse().ok()?)));
    split.unwrap_or((name, 0))
}

/// The partition whose directory has this name, and its number.
pub(crate) fn partition_in(name: &str) -> Option<(PartitionId, u64)> {
    let (name, number) = number_in(name);
    let (namespace, index) = name.split_once('-')?;
    let namespace = NamespaceId::new(namespace.parse().ok()?);
    let partition = PartitionId { namespace, index: PartitionIndex::new(index.parse().ok()?) };
    Some((partition, number))
}

/// The domain over a partition whose directory has this name, and its number.
pub(crate) fn domain_in(partition: PartitionId, name: &str) -> Option<(Domain, u64)> {
    let (name, number) = number_in(name);
    let (projection, version) = name.rsplit_once('-')?;
    let (projection, version) = (Name::new(projection).ok()?, version.parse().ok()?);
    Some((Domain { projection, version, partition }, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(namespace: u32, index: u16) -> PartitionId {
        PartitionId { namespace: NamespaceId::new(namespace), index: PartitionIndex::new(index) }
    }

    fn domain(projection: &str) -> Domain {
        Domain { projection: Name::new(projection).unwrap(), version: 2, partition: partition(16, 1) }
    }

    #[test]
    fn names_of_directories_say_whose_they_are_and_with_which_snapshot_they_came() {
        let places = Places {
            installs: 7,
            partitions: BTreeMap::from([(partition(16, 1), 7)]),
            domains: BTreeMap::from([(domain("sold"), 5)]),
        };
        let dir = Path::new("partitions");
        assert_eq!(places.partition_dir(dir, partition(16, 0)), dir.join("16-0"));
        assert_eq!(places.partition_dir(dir, partition(16, 1)), dir.join("16-1.7"));
        assert_eq!(places.domain_dir(dir, &domain("sold")), dir.join("16-1.7/projections/sold-2.5"));
        assert_eq!(places.domain_dir(dir, &domain("other")), dir.join("16-1.7/projections/other-2"));
        assert_eq!(partition_in("16-0"), Some((partition(16, 0), 0)));
        assert_eq!(partition_in("16-1.7"), Some((partition(16, 1), 7)));
        assert_eq!(domain_in(partition(16, 1), "sold-2.5"), Some((domain("sold"), 5)));
        assert_eq!(domain_in(partition(16, 1), "other-2"), Some((domain("other"), 0)));
        assert_eq!(partition_in("lost+found"), None);
        assert_eq!(domain_in(partition(16, 1), "notes.txt"), None);
    }

    #[test]
    fn what_was_replaced_is_told_by_its_number_and_what_is_on_its_way_is_left_alone() {
        let places =
            Places { installs: 7, partitions: BTreeMap::from([(partition(16, 1), 5)]), ..Places::default() };
        assert_eq!(["16-1.5", "16-0", "16-1.8", "others"].map(|name| places.is_replaced(name)), [false; 4]);
        assert_eq!(["16-1", "16-1.7", "16-0.3"].map(|name| places.is_replaced(name)), [true; 3]);
    }
}
