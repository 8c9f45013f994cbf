//! Trust levels: how suspicious the writing of derived state is.
//!
//! | level | events: offset index, workspace index, subtrees | records that are created |
//! |---|---|---|
//! | 0 | must not exist yet | must not exist yet |
//! | 1 | must not exist yet | written as is |
//! | 2 | written as is | written as is |
//!
//! An entry that is there and different is a violation: nothing is overwritten, nothing is appended, the partition stops on this
//! node alone. Equal content is none. Updates are never checked, and log bytes are never overwritten at any level.
//!
//! Offsets ascend, and nobody but the partition writes to its store. So of outcomes, and of a workspace that is written to often, it is
//! enough to have seen once that nothing lies ahead.

use std::fmt;

use bytes::Bytes;
use gapless_proof::Subtree;
use gapless_store::{Direction, View};
use gapless_types::{PartitionId, PartitionOffset, WorkspaceId};
use thiserror::Error;

use crate::definition::TrustLevel;
use crate::error::Fault;
use crate::rows;
use crate::state::Reads;

/// An entry of the store that must be written once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Which record the outcome at a partition offset is of.
    Outcome(PartitionOffset),
    /// Where the event at an offset of a workspace is, and its leaf hash.
    Event(WorkspaceId, u64),
    /// Root of a full subtree over the events of a workspace.
    Subtree(WorkspaceId, Subtree),
    /// A record of a workspace.
    Record(WorkspaceId, u64),
}

impl Entry {
    /// The key under which the store of a partition has it.
    #[must_use]
    pub fn key(&self, partition: PartitionId) -> Vec<u8> {
        match *self {
            Entry::Outcome(offset) => rows::outcome::key(partition, offset).to_vec(),
            Entry::Event(workspace, offset) => {
                rows::index::key(partition.namespace, workspace, offset).to_vec()
            }
            Entry::Subtree(workspace, subtree) => {
                rows::subtree::key(partition.namespace, workspace, subtree).to_vec()
            }
            Entry::Record(workspace, id) => rows::record::key(partition.namespace, workspace, id).to_vec(),
        }
    }

    /// Whether a level checks it.
    fn is_checked(&self, level: TrustLevel) -> bool {
        match self {
            Entry::Outcome(_) | Entry::Event(..) | Entry::Subtree(..) => level <= TrustLevel::CheckEvents,
            Entry::Record(..) => level == TrustLevel::CheckAll,
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Entry::Outcome(offset) => write!(f, "outcome {offset}"),
            Entry::Event(workspace, offset) => write!(f, "event {offset} of workspace {workspace}"),
            Entry::Subtree(workspace, subtree) => write!(f, "{subtree} of workspace {workspace}"),
            Entry::Record(workspace, id) => write!(f, "record {id} of workspace {workspace}"),
        }
    }
}

/// An entry that must not exist yet, and does, with another content.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "the store has {entry} already, and it is another one ({found} bytes instead of {expected}, different from byte {first} on); \
     nothing was changed. Rebuild the store from the partition log, or the partition from a peer",
    found = .found.len(), expected = .expected.len(), first = self.first_difference()
)]
pub struct SequenceViolation {
    /// Which entry.
    pub entry: Entry,
    /// What is there.
    pub found: Bytes,
    /// What was to be written.
    pub expected: Bytes,
}

impl SequenceViolation {
    /// The first byte that differs.
    #[must_use]
    pub fn first_difference(&self) -> usize {
        self.found.iter().zip(&self.expected).take_while(|(found, expected)| found == expected).count()
    }
}

/// Where the store was seen to have nothing at the place that is next, and nothing behind it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ends {
    pub(crate) outcomes: bool,
    /// Of the workspace at hand.
    pub(crate) events: bool,
}

impl Ends {
    /// Whether there is nothing under an entry, as is known without a look.
    fn lack(self, entry: Entry) -> bool {
        match entry {
            Entry::Outcome(_) => self.outcomes,
            Entry::Event(..) => self.events,
            Entry::Subtree(..) | Entry::Record(..) => false,
        }
    }
}

/// Whether the store has nothing from a key of an outcome or an event on, among keys of that kind and workspace. What cannot be read
/// is found by whoever checks the entry itself.
pub(crate) fn ends_before(store: &View, key: &[u8]) -> bool {
    let (prefix, _) = key.split_at(key.len() - size_of::<u64>());
    let last = [prefix, &[u8::MAX; size_of::<u64>()]].concat();
    store.range(key..=&last[..], Direction::Forward).next().is_none()
}

/// Refuses to write over an entry that a level checks. `key` is that of the entry, which whoever writes it has at hand.
pub(crate) fn check(
    level: TrustLevel,
    ends: Ends,
    entry: Entry,
    key: &[u8],
    expected: &[u8],
    reads: &impl Reads,
) -> Result<(), Fault> {
    if !entry.is_checked(level) || ends.lack(entry) {
        return Ok(());
    }
    match reads.get(key)? {
        Some(found) if found[..] != *expected => {
            let expected = Bytes::copy_from_slice(expected);
            Err(Fault::Violation(Box::new(SequenceViolation { entry, found, expected })))
        }
        _ => Ok(()),
    }
}
