//! Which machine version a leader may raise the log to, and what becomes of a program that does not know one.
//!
//! ```text
//!  members tell in their reports what they know ──▶ all of them know more than is in force ──▶ one entry raises it, and does nothing else
//!  entries behind it are stamped with it ──▶ whoever applies them branches on that, whenever he does (NUM-3)
//! ```
//!
//! What is in force is a fold of the log, and belongs to the catalog.
//!
//! Invariants
//! - NUM-3: whoever does not know the version of an entry stops in front of it.
//! - Nothing is raised to what some member does not know, as far as the members have told.
//!
//! Must not know: what a version changes.

use gapless_types::MachineVersion;
use thiserror::Error;

use crate::node::Node;

/// The state machine has a version here that this program does not have. It has to be a newer program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("machine version {needed} is needed, and this program knows those up to {known}")]
pub struct UnknownMachineVersion {
    /// The one that is needed.
    pub needed: MachineVersion,
    /// The newest that this program knows.
    pub known: MachineVersion,
}

impl UnknownMachineVersion {
    /// Whether a program that knows the versions up to `known` can apply what needs this one.
    pub(crate) fn check(needed: MachineVersion, known: MachineVersion) -> Result<(), Self> {
        if needed <= known { Ok(()) } else { Err(Self { needed, known }) }
    }
}

impl Node {
    /// To which version this node may raise the log now; none if it does not lead, or there is nothing to raise.
    pub(crate) fn may_raise_to(&self) -> Option<MachineVersion> {
        let in_force = self.catalog.borrow().machine_version();
        let core = self.core();
        core.leader_clock.as_ref()?;
        match &core.others {
            Some(others) => may_raise(in_force, others.known_versions(self.known_version)),
            None => may_raise(in_force, [Some(self.known_version)]),
        }
    }
}

/// The newest version that every member knows, if that is newer than the one in force. `known` is what each member has told, none for
/// one that has told nothing.
fn may_raise(
    in_force: MachineVersion,
    known: impl IntoIterator<Item = Option<MachineVersion>>,
) -> Option<MachineVersion> {
    let lowest = known.into_iter().map(|known| known.unwrap_or(MachineVersion::FIRST)).min();
    lowest.filter(|lowest| *lowest > in_force)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn version(version: u32) -> MachineVersion {
        MachineVersion(version)
    }

    #[test]
    fn the_version_is_raised_to_what_all_know() {
        let raised = |in_force, known: &[Option<u32>]| {
            may_raise(version(in_force), known.iter().map(|known| known.map(version))).map(|raised| raised.0)
        };
        assert_eq!(raised(1, &[Some(1)]), None);
        assert_eq!(raised(1, &[Some(2)]), Some(2), "whoever is alone raises at once");
        assert_eq!(raised(2, &[Some(2)]), None, "it is in force");
        assert_eq!(raised(1, &[Some(2), Some(2), Some(1)]), None);
        assert_eq!(raised(1, &[Some(2), Some(2), None]), None, "one has told nothing");
        assert_eq!(raised(1, &[Some(4), Some(2), Some(3)]), Some(2));
        assert_eq!(raised(3, &[Some(4), Some(2)]), None, "it never falls");
        assert_eq!(raised(1, &[]), None);
    }

    proptest! {
        #[test]
        fn nothing_is_raised_to_what_somebody_does_not_know(
            in_force in 1..5_u32,
            known in proptest::collection::vec(proptest::option::of(1..5_u32), 0..6),
        ) {
            let known: Vec<_> = known.into_iter().map(|known| known.map(version)).collect();
            if let Some(raised) = may_raise(version(in_force), known.clone()) {
                prop_assert!(raised > version(in_force));
                prop_assert!(known.iter().all(|known| known.is_some_and(|known| known >= raised)));
            }
        }
    }
}
