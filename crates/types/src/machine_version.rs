//! Which version of the state machine applies an entry.
//!
//! Must not know: what a version changes, who raises it.

use std::fmt;

/// A version of everything that applies entries: partitions, domains of projections, the catalog. Every entry of the replicated log has
/// one. It never falls along the log; what an entry does may depend on its own, so that newer and older programs do the same with it
/// during an upgrade (NUM-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineVersion(pub u32);

impl MachineVersion {
    /// The first one.
    pub const FIRST: Self = Self(1);
    /// The newest one that this program knows. It knows all before.
    pub const NEWEST: Self = Self::FIRST;
}

impl fmt::Display for MachineVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}
