//! Partitions as people name them.
//!
//! Must not know: what is done with them.

use std::fmt;
use std::str::FromStr;

use gapless_types::{NamespaceId, PartitionId, PartitionIndex};

use super::RepairError;
use crate::catalog::Catalog;

/// A partition as people name it: `shop/3`, by the name of its namespace or, if none has that name, by its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionName {
    namespace: String,
    index: PartitionIndex,
}

impl FromStr for PartitionName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            "a partition is written as the name or the id of its namespace and its index, such as shop/3";
        let (namespace, index) = text.split_once('/').ok_or(wrong)?;
        let index = PartitionIndex::new(index.parse().map_err(|_| wrong)?);
        Ok(Self { namespace: namespace.to_owned(), index })
    }
}

impl fmt::Display for PartitionName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.namespace, self.index)
    }
}

impl PartitionName {
    pub(super) fn find(&self, catalog: &Catalog) -> Result<PartitionId, RepairError> {
        let by_id = || self.namespace.parse().ok().map(NamespaceId::new);
        let namespace = catalog.by_name(&self.namespace).map(|namespace| namespace.id).or_else(by_id);
        let found = namespace.map(|namespace| PartitionId { namespace, index: self.index });
        found
            .filter(|found| catalog.partitions().any(|known| known == *found))
            .ok_or_else(|| RepairError::UnknownPartition(self.clone()))
    }
}
