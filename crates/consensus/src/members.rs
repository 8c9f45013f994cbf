//! Who belongs to a group: voters decide, learners follow.
//!
//! Must not know: what members are asked, how they are reached.

use std::collections::{BTreeMap, BTreeSet};

use crate::identity::NodeId;
use crate::limits::{MAX_ADDRESS_BYTES, MAX_MEMBERS};

/// The members of a group at one index of its log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Sets of voters. A quorum is a majority of each of them: one set usually, two while the members change.
    pub voters: Vec<BTreeSet<NodeId>>,
    /// Every member and its address, learners included.
    pub addresses: BTreeMap<NodeId, String>,
}

/// Why members cannot be such.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MembersError {
    /// A group without a voter decides nothing.
    #[error("a group needs at least one voter")]
    NoVoter,
    /// A voter that nobody can reach.
    #[error("voter {0} has no address")]
    NoAddress(NodeId),
    /// More members than a group may have.
    #[error("{count} members exceed the limit of {MAX_MEMBERS}")]
    TooMany {
        /// How many there are.
        count: usize,
    },
    /// An address that is too long.
    #[error("the address of node {node} has {bytes} bytes; the limit is {MAX_ADDRESS_BYTES}")]
    AddressTooLong {
        /// Whose it is.
        node: NodeId,
        /// Its length.
        bytes: usize,
    },
}

impl Members {
    /// Members that all vote.
    pub fn voting(members: impl IntoIterator<Item = (NodeId, String)>) -> Result<Self, MembersError> {
        let addresses: BTreeMap<NodeId, String> = members.into_iter().collect();
        let members = Self { voters: vec![addresses.keys().copied().collect()], addresses };
        members.check()?;
        Ok(members)
    }

    /// A group of one.
    pub fn alone(node: NodeId, address: impl Into<String>) -> Result<Self, MembersError> {
        Self::voting([(node, address.into())])
    }

    /// Everybody who votes, in any of the sets.
    pub fn all_voters(&self) -> BTreeSet<NodeId> {
        self.voters.iter().flatten().copied().collect()
    }

    /// Everybody who follows without a vote.
    pub fn learners(&self) -> BTreeSet<NodeId> {
        let voters = self.all_voters();
        self.addresses.keys().copied().filter(|node| !voters.contains(node)).collect()
    }

    /// Where a member is reached.
    pub fn address(&self, node: NodeId) -> Option<&str> {
        self.addresses.get(&node).map(String::as_str)
    }

    /// Refuses what no group can be.
    pub(crate) fn check(&self) -> Result<(), MembersError> {
        if self.voters.is_empty() || self.voters.iter().any(BTreeSet::is_empty) {
            return Err(MembersError::NoVoter);
        }
        if self.addresses.len() > MAX_MEMBERS {
            return Err(MembersError::TooMany { count: self.addresses.len() });
        }
        if let Some(node) = self.all_voters().into_iter().find(|node| !self.addresses.contains_key(node)) {
            return Err(MembersError::NoAddress(node));
        }
        match self.addresses.iter().find(|(_, address)| address.len() > MAX_ADDRESS_BYTES) {
            Some((&node, address)) => Err(MembersError::AddressTooLong { node, bytes: address.len() }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_an_address_and_no_vote_is_a_learner() {
        let mut members = Members::alone(NodeId::new(1), "one").unwrap();
        members.addresses.insert(NodeId::new(2), "two".to_owned());
        assert_eq!(members.learners(), BTreeSet::from([NodeId::new(2)]));
        assert_eq!(members.address(NodeId::new(2)), Some("two"));
        assert_eq!(members.check(), Ok(()));
    }

    #[test]
    fn impossible_members_are_refused_by_name() {
        assert_eq!(Members::voting([]), Err(MembersError::NoVoter));
        let many = (0..=MAX_MEMBERS as u64).map(|node| (NodeId::new(node), String::new()));
        assert_eq!(Members::voting(many), Err(MembersError::TooMany { count: MAX_MEMBERS + 1 }));
        let long = Members::alone(NodeId::new(7), "x".repeat(MAX_ADDRESS_BYTES + 1));
        assert_eq!(
            long,
            Err(MembersError::AddressTooLong { node: NodeId::new(7), bytes: MAX_ADDRESS_BYTES + 1 })
        );
        let nowhere = Members { voters: vec![BTreeSet::from([NodeId::new(3)])], ..Members::default() };
        assert_eq!(nowhere.check(), Err(MembersError::NoAddress(NodeId::new(3))));
    }
}
