//! Who a node is.
//!
//! Must not know: addresses, files, how leaders are found.

use std::fmt;

use gapless_types::GroupId;
pub use gapless_types::{NodeId, Term};

/// A cluster, told apart from all others. Chosen once, at random, by whoever founds it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId([u8; 16]);

impl ClusterId {
    /// The id with these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for ClusterId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ClusterId({self})")
    }
}

/// Who a node is. Fixed when its directory is made; a directory that says otherwise is not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster it belongs to.
    pub cluster: ClusterId,
    /// The group of nodes that share its log.
    pub group: GroupId,
    /// Which of them it is.
    pub node: NodeId,
}

impl fmt::Display for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "node {} of group {} of cluster {}", self.node, self.group, self.cluster)
    }
}
