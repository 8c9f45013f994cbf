//! One file of the memory disk, apart from its names: what reads see, what a power cut leaves, and what is between.
//!
//! ```text
//!              write, reserve                    sync: all of pending, in order
//!  caller ───────┬──────────▶ current             ┌──────────▶ durable
//!                └──────────▶ pending ────────────┤
//!                                                 └──────────▶ nowhere: power cut, failed sync
//! ```
//!
//! Invariants
//! - Applied to `durable` in order, all of `pending` yields `current`, unless a sync failed: what that one dropped
//!   stays visible in `current`, and no later sync carries it over.
//! - A change of the length stands in `pending` on its own, before the write that caused it, because a file system
//!   keeps lengths and contents in different places and can lose either.
//!
//! Must not know: names of other files, locks, what decides about survival.

use std::ops::Range;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::content::Content;

/// Something done to a file that its next sync makes durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::io) enum Change {
    Write { offset: u64, bytes: Bytes },
    Length(u64),
}

#[derive(Clone, Debug)]
pub(in crate::io) struct Inode {
    current: Content,
    durable: Content,
    pending: Vec<Change>,
    /// The name it has or had last, for those who report on it.
    path: PathBuf,
    /// How many handles are open; an inode without a name lives as long as one is.
    pub(super) handles: usize,
}

impl Inode {
    pub(super) fn new(path: PathBuf) -> Self {
        let (current, durable) = Default::default();
        Self { current, durable, pending: Vec::new(), path, handles: 0 }
    }

    pub(in crate::io) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn set_path(&mut self, path: PathBuf) {
        self.path = path;
    }

    pub(in crate::io) fn current(&self) -> &Content {
        &self.current
    }

    pub(in crate::io) fn write(&mut self, bytes: &[u8], offset: u64) {
        if bytes.is_empty() {
            return;
        }
        self.grow(offset + bytes.len() as u64);
        self.current.write(bytes, offset);
        self.pending.push(Change::Write { offset, bytes: Bytes::copy_from_slice(bytes) });
    }

    /// Makes the file at least `length` bytes long.
    pub(in crate::io) fn grow(&mut self, length: u64) {
        if length > self.current.length() {
            self.set_length(length);
        }
    }

    pub(super) fn empty(&mut self) {
        if self.current.length() > 0 {
            self.set_length(0);
        }
    }

    fn set_length(&mut self, length: u64) {
        self.current.set_length(length);
        self.pending.push(Change::Length(length));
    }

    pub(super) fn sync(&mut self) {
        for change in self.pending.drain(..) {
            match change {
                // It grows the file where the change of the length was dropped by a sync that failed before.
                Change::Write { offset, bytes } => self.durable.write(&bytes, offset),
                Change::Length(length) => self.durable.set_length(length),
            }
        }
    }

    /// Leaves it to `survivors` which of the pending changes get to the disk, and forgets the others. What reads
    /// see stays: a kernel that failed to write a page back calls the page clean.
    pub(super) fn settle(&mut self, survivors: impl FnOnce(Vec<Change>) -> Vec<Change>) {
        for change in survivors(std::mem::take(&mut self.pending)) {
            match change {
                Change::Write { offset, bytes } => self.durable.write_inside(&bytes, offset),
                Change::Length(length) => self.durable.set_length(length),
            }
        }
    }

    /// Reads see what is durable and what is pending, and no longer what a failed sync dropped.
    pub(super) fn forget_cache(&mut self) {
        self.current = self.durable.clone();
        for change in &self.pending {
            match change {
                Change::Write { offset, bytes } => self.current.write(bytes, *offset),
                Change::Length(length) => self.current.set_length(*length),
            }
        }
    }

    /// What was volatile is gone: reads see what is durable, and no handle is open.
    pub(super) fn reload(&mut self) {
        self.pending.clear();
        self.current = self.durable.clone();
        self.handles = 0;
    }

    /// Damages a range in every version of the file that may ever be read, so that the damage neither heals by a
    /// sync nor by a crash. Nothing behind the end of a version is touched.
    pub(in crate::io) fn damage(&mut self, range: Range<u64>, mut damage: impl FnMut(u64, &mut u8)) {
        self.current.change_bytes(range.clone(), &mut damage);
        self.durable.change_bytes(range.clone(), &mut damage);
        for change in &mut self.pending {
            let Change::Write { offset, bytes } = change else { continue };
            let end = *offset + bytes.len() as u64;
            if *offset >= range.end || end <= range.start {
                continue;
            }
            let mut damaged = bytes.to_vec();
            for (position, byte) in (*offset..).zip(&mut damaged).filter(|(at, _)| range.contains(at)) {
                damage(position, byte);
            }
            *bytes = damaged.into();
        }
    }

    /// Puts `bytes` into every version of the file; versions that are too short grow.
    pub(super) fn overwrite(&mut self, bytes: &[u8], offset: u64) {
        let end = offset + bytes.len() as u64;
        if end > self.current.length() {
            self.damage_length(end);
        }
        if end > self.durable.length() {
            self.durable.set_length(end);
        }
        self.damage(offset..end, |position, byte| {
            let place = usize::try_from(position - offset).expect("a place in a slice");
            *byte = bytes[place];
        });
    }

    /// Gives every version of the file this length.
    pub(in crate::io) fn damage_length(&mut self, length: u64) {
        self.current.set_length(length);
        self.durable.set_length(length);
        self.pending.retain_mut(|change| match change {
            Change::Length(_) => false,
            Change::Write { offset, bytes } => {
                let room = usize::try_from(length.saturating_sub(*offset)).unwrap_or(usize::MAX);
                bytes.truncate(room);
                !bytes.is_empty()
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inode_with(bytes: &[u8]) -> Inode {
        let mut inode = Inode::new("file".into());
        inode.write(bytes, 0);
        inode
    }

    fn durable(inode: &Inode) -> Vec<u8> {
        inode.durable.to_vec()
    }

    #[test]
    fn a_sync_makes_durable_what_reads_see() {
        let mut inode = inode_with(b"abcdef");
        inode.write(b"XY", 8);
        assert_eq!(durable(&inode), b"");
        inode.sync();
        assert_eq!(durable(&inode), b"abcdef\0\0XY");
        assert_eq!(inode.current.to_vec(), durable(&inode));
    }

    #[test]
    fn a_surviving_write_without_its_length_is_cut_off_at_the_end_of_the_file() {
        let mut inode = inode_with(b"abc");
        inode.sync();
        inode.write(b"XYZ", 2);
        inode.settle(|pending| {
            pending.into_iter().filter(|change| matches!(change, Change::Write { .. })).collect()
        });
        assert_eq!(durable(&inode), b"abX");
    }

    #[test]
    fn what_a_failed_sync_dropped_is_seen_but_never_carried_over() {
        let mut inode = inode_with(b"abc");
        inode.sync();
        inode.write(b"X", 0);
        inode.settle(|_| Vec::new());
        inode.write(b"Z", 2);
        inode.sync();
        assert_eq!(inode.current.to_vec(), b"XbZ");
        assert_eq!(durable(&inode), b"abZ");
    }

    #[test]
    fn what_a_failed_sync_dropped_is_gone_once_memory_forgets_it() {
        let mut inode = inode_with(b"abc");
        inode.sync();
        inode.write(b"X", 0);
        inode.settle(|_| Vec::new());
        inode.write(b"Z", 2);
        inode.forget_cache();
        assert_eq!(inode.current.to_vec(), b"abZ");
    }

    #[test]
    fn damage_reaches_pending_writes_too() {
        let mut inode = inode_with(b"abc");
        inode.sync();
        inode.write(b"xyz", 0);
        inode.damage(1..2, |_, byte| *byte ^= 0x80);
        assert_eq!(durable(&inode), [b'a', b'b' ^ 0x80, b'c']);
        inode.sync();
        assert_eq!(durable(&inode), [b'x', b'y' ^ 0x80, b'z']);
        assert_eq!(inode.current.to_vec(), durable(&inode));
    }

    #[test]
    fn a_length_that_was_damaged_is_not_mended_by_a_sync() {
        let mut inode = inode_with(b"abcdef");
        inode.damage_length(2);
        inode.sync();
        assert_eq!(durable(&inode), b"ab");
    }
}
