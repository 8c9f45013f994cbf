//! What tells the nodes of a cluster apart.
//!
//! Must not know: addresses, roles, who is alive.

use std::fmt;

/// A node. Never used again, also not after the node was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u64);

impl NodeId {
    /// The node with this id.
    #[must_use]
    pub const fn new(id: u64) -> Self {
        Self(id)
    }

    /// The id.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}
