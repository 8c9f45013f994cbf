//! Which voter looks after a partition: scrubs it and backs it up.
//!
//! Every node computes the same from the membership alone (rendezvous hashing): each voter has a weight for each partition, and the
//! heaviest is the master. So a voter that leaves moves its own partitions and no others, and one that comes takes an even
//! share.
//!
//! Must not know: who is alive, what a master does.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use gapless_types::PartitionId;
use thiserror::Error;
use twox_hash::XxHash3_64;

use crate::NodeId;

/// How masters are found, as it stands in the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MasterMode {
    /// By hashing over the membership.
    #[default]
    Hash,
    /// As a table says.
    Fixed,
    /// There are none.
    Off,
}

/// A word that is no mode.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("masters are `hash`, `fixed` or `off`, not `{0}`")]
pub struct UnknownMasterMode(pub String);

impl FromStr for MasterMode {
    type Err = UnknownMasterMode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "hash" => Ok(Self::Hash),
            "fixed" => Ok(Self::Fixed),
            "off" => Ok(Self::Off),
            other => Err(UnknownMasterMode(other.to_owned())),
        }
    }
}

impl fmt::Display for MasterMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Hash => "hash",
            Self::Fixed => "fixed",
            Self::Off => "off",
        })
    }
}

/// Finds the master of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Masters {
    /// By hashing over the membership.
    Hash,
    /// As this table says, as long as that node is a voter.
    Fixed(BTreeMap<PartitionId, NodeId>),
    /// There are none.
    Off,
}

impl Masters {
    /// The master of a partition among these voters; the order of the voters does not matter.
    #[must_use]
    pub fn master_of(&self, partition: PartitionId, voters: &[NodeId]) -> Option<NodeId> {
        match self {
            Self::Hash => voters.iter().copied().max_by_key(|voter| (weight(partition, *voter), *voter)),
            Self::Fixed(table) => table.get(&partition).copied().filter(|master| voters.contains(master)),
            Self::Off => None,
        }
    }
}

/// The weight of a voter for a partition: XXH3 over namespace (4), partition (2) and node (8), little-endian. Nodes of different
/// versions must agree on it.
fn weight(partition: PartitionId, voter: NodeId) -> u64 {
    let mut bytes = [0; 14];
    bytes[..4].copy_from_slice(&partition.namespace.get().to_le_bytes());
    bytes[4..6].copy_from_slice(&partition.index.get().to_le_bytes());
    bytes[6..].copy_from_slice(&voter.get().to_le_bytes());
    XxHash3_64::oneshot(&bytes)
}

#[cfg(test)]
mod tests {
    use gapless_types::{NamespaceId, PartitionIndex};
    use proptest::prelude::*;

    use super::*;

    fn partition(namespace: u32, index: u16) -> PartitionId {
        PartitionId { namespace: NamespaceId::new(namespace), index: PartitionIndex::new(index) }
    }

    fn nodes(ids: &[u64]) -> Vec<NodeId> {
        ids.iter().copied().map(NodeId::new).collect()
    }

    /// Another value here would move masters during a rolling upgrade.
    #[test]
    fn golden_weights() {
        let weights = [
            weight(partition(0, 0), NodeId::new(0)),
            weight(partition(1, 0), NodeId::new(1)),
            weight(partition(7, 65_535), NodeId::new(u64::MAX)),
        ];
        assert_eq!(
            weights,
            [17_385_687_539_109_347_815, 15_348_012_054_588_934_781, 14_446_890_539_694_403_358]
        );
    }

    #[test]
    fn golden_masters() {
        let voters = nodes(&[1, 2, 3]);
        let masters: Vec<u64> = (0..16)
            .map(|index| Masters::Hash.master_of(partition(1, index), &voters).unwrap().get())
            .collect();
        assert_eq!(masters, [1, 2, 2, 1, 2, 3, 2, 1, 1, 2, 1, 1, 3, 3, 3, 3]);
    }

    #[test]
    fn a_fixed_master_has_to_be_a_voter_and_off_is_nobody() {
        let fixed = Masters::Fixed(BTreeMap::from([(partition(1, 0), NodeId::new(2))]));
        assert_eq!(fixed.master_of(partition(1, 0), &nodes(&[1, 2])), Some(NodeId::new(2)));
        assert_eq!(fixed.master_of(partition(1, 0), &nodes(&[1, 3])), None);
        assert_eq!(fixed.master_of(partition(1, 1), &nodes(&[1, 2])), None);
        assert_eq!(Masters::Off.master_of(partition(1, 0), &nodes(&[1])), None);
        assert_eq!(Masters::Hash.master_of(partition(1, 0), &[]), None);
    }

    #[test]
    fn modes_are_words() {
        for mode in [MasterMode::Hash, MasterMode::Fixed, MasterMode::Off] {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        assert_eq!("on".parse::<MasterMode>(), Err(UnknownMasterMode("on".to_owned())));
    }

    #[test]
    fn every_voter_gets_about_its_share() {
        let voters = nodes(&[1, 2, 3, 4, 5]);
        let mut counts = BTreeMap::new();
        for index in 0..10_000 {
            *counts.entry(Masters::Hash.master_of(partition(3, index), &voters)).or_insert(0) += 1;
        }
        assert!(counts.values().all(|count| (1800..=2200).contains(count)), "{counts:?}");
    }

    proptest! {
        /// Who leaves moves his own partitions and no others; who comes takes some and moves nothing else.
        #[test]
        fn movement_is_minimal(
            ids in proptest::collection::btree_set(any::<u64>(), 2..8),
            at in any::<prop::sample::Index>(),
            namespace in any::<u32>(),
        ) {
            let voters: Vec<NodeId> = ids.iter().copied().map(NodeId::new).collect();
            let gone = voters[at.index(voters.len())];
            let mut without: Vec<NodeId> = voters.iter().copied().filter(|voter| *voter != gone).collect();
            without.reverse();
            for index in 0..200 {
                let id = partition(namespace, index);
                let (with, without) = (Masters::Hash.master_of(id, &voters), Masters::Hash.master_of(id, &without));
                prop_assert!(with == without || with == Some(gone));
            }
        }
    }
}
