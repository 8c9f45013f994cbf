//! What tells namespaces, workspaces, partitions, sequences, consensus groups, nodes and terms apart.
//!
//! Must not know: their names, their contents, who may see them.

use std::fmt;
use std::num::NonZeroU16;

use crate::number::identity_number;

identity_number! {
    /// A namespace. Never reused, also not after the namespace was dropped.
    NamespaceId(u32)
}

identity_number! {
    /// A workspace inside its namespace: the unit of order and of ids.
    WorkspaceId(u64)
}

identity_number! {
    /// What a workspace is for; decides which sequences it has. Fixed by the first write to the workspace.
    WorkspaceKind(u16)
}

identity_number! {
    /// A partition inside its namespace; the first is 0.
    PartitionIndex(u16)
}

identity_number! {
    /// A declared sequence inside its namespace.
    SequenceId(u16)
}

identity_number! {
    /// A consensus group: a set of nodes that share one replicated log.
    GroupId(u32)
}

identity_number! {
    /// A node of a cluster. It stands for one disk: a node that lost its disk, or was removed, comes back under another id,
    /// or two quorums could count it twice.
    #[derive(Default)]
    NodeId(u64)
}

identity_number! {
    /// A term of a consensus group: a number that has at most one leader, and never falls. The first leader's is 1.
    #[derive(Default)]
    Term(u64)
}

impl From<u64> for NodeId {
    fn from(value: u64) -> Self {
        Self::new(value)
    }
}

impl WorkspaceId {
    /// The workspace that belongs to the namespace itself.
    pub const NAMESPACE: Self = Self::new(0);

    /// The partition that applies this workspace's writes when its namespace has `partition_count` of them.
    #[must_use]
    pub fn partition(self, partition_count: NonZeroU16) -> PartitionIndex {
        let index = self.get() % u64::from(partition_count.get());
        PartitionIndex::new(u16::try_from(index).expect("a remainder is smaller than its 16-bit divisor"))
    }
}

impl GroupId {
    /// The group that exists from the start and knows where all others are.
    pub const FIRST: Self = Self::new(0);
}

/// A partition, told apart from those of all namespaces: the unit of apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId {
    /// The namespace it belongs to.
    pub namespace: NamespaceId,
    /// Which of that namespace's partitions it is.
    pub index: PartitionIndex,
}

impl fmt::Display for PartitionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.namespace, self.index)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_partition_of_a_workspace_matches_the_vectors() {
        for (workspace, count, expected) in
            [(1, 10, 1), (11, 10, 1), (140_737_488_486_399, 10, 9), (140_737_488_420_864, 1, 0)]
        {
            let count = NonZeroU16::new(count).unwrap();
            assert_eq!(WorkspaceId::new(workspace).partition(count), PartitionIndex::new(expected));
        }
    }

    #[test]
    fn the_namespace_s_own_workspace_is_in_the_first_partition() {
        assert_eq!(WorkspaceId::NAMESPACE.partition(NonZeroU16::MAX), PartitionIndex::new(0));
    }

    #[test]
    fn partitions_sort_by_namespace_then_index() {
        let id = |namespace, index| PartitionId {
            namespace: NamespaceId::new(namespace),
            index: PartitionIndex::new(index),
        };
        assert!(id(1, 9) < id(2, 0));
        assert!(id(2, 0) < id(2, 1));
        assert_eq!(id(2, 1).to_string(), "2/1");
    }

    proptest! {
        #[test]
        fn every_workspace_has_a_partition_that_exists(workspace: u64, count in 1..=u16::MAX) {
            let partition = WorkspaceId::new(workspace).partition(NonZeroU16::new(count).unwrap());
            prop_assert!(partition.get() < count);
        }
    }
}
