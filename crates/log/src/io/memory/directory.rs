//! The names of one directory of the memory disk: those that are seen, those that a power cut leaves, and the changes
//! between the two.
//!
//! Must not know: contents of files; what decides about survival.

use std::collections::BTreeMap;

use super::disk::InodeNumber;

/// Something done to the names of a directory that its next sync makes durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::io) enum NameChange {
    Link { name: String, inode: InodeNumber },
    Rename { to: String, inode: InodeNumber },
    Unlink { name: String, inode: InodeNumber },
    RemoveDirectory { name: String },
}

impl NameChange {
    fn inode(&self) -> Option<InodeNumber> {
        match self {
            Self::Link { inode, .. } | Self::Rename { inode, .. } | Self::Unlink { inode, .. } => {
                Some(*inode)
            }
            Self::RemoveDirectory { .. } => None,
        }
    }
}

type Names = BTreeMap<String, InodeNumber>;

#[derive(Clone, Debug, Default)]
pub(in crate::io) struct Directory {
    current: Names,
    durable: Names,
    pending: Vec<NameChange>,
    /// It was removed, and a power cut would bring it back.
    is_removed: bool,
}

impl Directory {
    pub(super) fn is_removed(&self) -> bool {
        self.is_removed
    }

    pub(super) fn set_removed(&mut self) {
        self.is_removed = true;
    }

    /// A directory in it that was removed was created anew.
    pub(super) fn keep_directory(&mut self, name: &str) {
        self.pending.retain(
            |change| !matches!(change, NameChange::RemoveDirectory { name: removed } if removed == name),
        );
    }

    pub(in crate::io) fn current(&self) -> &Names {
        &self.current
    }

    /// The inode of a name; of one that is seen, or else of one that a power cut would bring back.
    pub(super) fn inode_of_any(&self, name: &str) -> Option<InodeNumber> {
        self.current.get(name).or_else(|| self.durable.get(name)).copied()
    }

    pub(super) fn change(&mut self, change: NameChange) {
        apply(&mut self.current, &change);
        self.pending.push(change);
    }

    /// Leaves it to `survivors` which of the pending changes get to the disk, and forgets the others. Returns the
    /// names of the directories in it that are gone for good.
    #[must_use = "directories that are gone take with them what is in them"]
    pub(super) fn settle(
        &mut self,
        survivors: impl FnOnce(Vec<NameChange>) -> Vec<NameChange>,
    ) -> Vec<String> {
        let mut gone = Vec::new();
        for change in survivors(std::mem::take(&mut self.pending)) {
            apply(&mut self.durable, &change);
            if let NameChange::RemoveDirectory { name } = change {
                gone.push(name);
            }
        }
        gone
    }

    /// What was volatile is gone.
    pub(super) fn reload(&mut self) {
        self.pending.clear();
        self.current = self.durable.clone();
        self.is_removed = false;
    }

    /// Forgets a name as if it had never been there.
    pub(super) fn forget(&mut self, name: &str, inode: InodeNumber) {
        self.current.remove(name);
        self.durable.retain(|_, named| *named != inode);
        self.pending.retain(|change| change.inode() != Some(inode));
    }

    /// Inodes that this directory still leads to, now or after a power cut.
    pub(super) fn inodes(&self) -> impl Iterator<Item = InodeNumber> + '_ {
        let named = self.current.values().chain(self.durable.values()).copied();
        named.chain(self.pending.iter().filter_map(NameChange::inode))
    }
}

/// Every change is whole by itself, whichever of its predecessors survived: a rename takes its inode away from
/// whatever name it has, so that no inode ever gets two; an unlink only removes what it was meant for.
fn apply(names: &mut Names, change: &NameChange) {
    match change {
        NameChange::Link { name, inode } => {
            names.insert(name.clone(), *inode);
        }
        NameChange::Rename { to, inode } => {
            names.retain(|_, named| named != inode);
            names.insert(to.clone(), *inode);
        }
        NameChange::Unlink { name, inode } => {
            if names.get(name) == Some(inode) {
                names.remove(name);
            }
        }
        // Names are those of files.
        NameChange::RemoveDirectory { .. } => {}
    }
}
