//! Who a node is, and what tells terms apart.
//!
//! Must not know: addresses, files, how leaders are found.

use std::fmt;

use gapless_types::GroupId;

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

/// Defines a 64-bit number that is shown as its bare value.
macro_rules! plain_number {
    ($(#[$attribute:meta])* $name:ident) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u64);

        impl $name {
            /// The one with this value.
            #[must_use]
            pub const fn new(value: u64) -> Self {
                Self(value)
            }

            /// The value.
            #[must_use]
            pub const fn get(self) -> u64 {
                self.0
            }
        }

        impl From<u64> for $name {
            fn from(value: u64) -> Self {
                Self(value)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, formatter)
            }
        }
    };
}

plain_number! {
    /// A node of a cluster. It stands for one disk: a node that lost its disk, or was removed, comes back under another id,
    /// or two quorums could count it twice.
    NodeId
}

plain_number! {
    /// A term: a number that has at most one leader, and never falls. The first leader's is 1.
    Term
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
