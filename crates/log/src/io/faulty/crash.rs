//! What is left of pending changes when the power comes back.
//!
//! Must not know: files, handles, when a crash happens.

use std::path::Path;

use bytes::Bytes;
use fastrand::Rng;

use super::controls::Interrupted;
use crate::io::memory::directory::NameChange;
use crate::io::memory::disk::{Fate, InodeNumber};
use crate::io::memory::inode::Change;

/// What a disk writes at once or not at all.
const SECTOR_BYTES: u64 = 512;

/// What a crash leaves of that which was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// Nothing, except what a sync that was cut had already carried over.
    LoseAll,
    /// Everything, as when only the process dies. Of the operation that was cut, what it had done.
    KeepAll,
    /// Of each write all, nothing, or any of its sectors, whatever was written before or after; of the names any
    /// changes, in their order.
    Torn,
    /// For each file and directory the first so many changes; the write after them up to some sector.
    Ordered,
}

impl Crash {
    /// All styles, for tests that try each.
    pub const ALL: [Self; 4] = [Self::LoseAll, Self::KeepAll, Self::Torn, Self::Ordered];
}

pub(super) struct CrashFate<'a> {
    pub(super) style: Crash,
    pub(super) interrupted: Option<Interrupted>,
    pub(super) rng: &'a mut Rng,
}

impl Fate for CrashFate<'_> {
    fn of_content(&mut self, inode: InodeNumber, pending: Vec<Change>) -> Vec<Change> {
        let in_sync = self.interrupted == Some(Interrupted::Content(inode));
        match self.style {
            Crash::LoseAll if in_sync => partly(pending, self.rng, torn),
            Crash::LoseAll => Vec::new(),
            Crash::KeepAll => pending,
            Crash::Torn => torn(pending, self.rng),
            Crash::Ordered => first(pending, self.rng),
        }
    }

    fn of_names(&mut self, dir: &Path, pending: Vec<NameChange>) -> Vec<NameChange> {
        let in_sync = matches!(&self.interrupted, Some(Interrupted::Names(synced)) if synced == dir);
        match self.style {
            Crash::LoseAll if in_sync => partly(pending, self.rng, some_in_order),
            Crash::LoseAll => Vec::new(),
            Crash::KeepAll => pending,
            Crash::Torn => some_in_order(pending, self.rng),
            Crash::Ordered => {
                let mut kept = pending;
                kept.truncate(self.rng.usize(0..=kept.len()));
                kept
            }
        }
    }
}

/// All, none, or what `choose` leaves, with equal chances: long lists would hardly ever survive as a whole.
fn partly<T>(pending: Vec<T>, rng: &mut Rng, choose: fn(Vec<T>, &mut Rng) -> Vec<T>) -> Vec<T> {
    match rng.u8(0..3) {
        0 => Vec::new(),
        1 => pending,
        _ => choose(pending, rng),
    }
}

/// Each change with equal chances, in order.
pub(super) fn some_in_order<T>(mut pending: Vec<T>, rng: &mut Rng) -> Vec<T> {
    pending.retain(|_| rng.bool());
    pending
}

/// Of each write all, nothing or any of its sectors; each change of the length or not.
pub(super) fn torn(pending: Vec<Change>, rng: &mut Rng) -> Vec<Change> {
    let mut kept = Vec::new();
    for change in pending {
        match (rng.u8(0..3), change) {
            (0, _) => {}
            (1, change) => kept.push(change),
            (_, Change::Write { offset, bytes }) => {
                kept.extend(sectors(offset, &bytes).filter(|_| rng.bool()));
            }
            (_, length) => kept.extend(rng.bool().then_some(length)),
        }
    }
    kept
}

/// The first so many changes, and the beginning of the one after them if it is a write.
fn first(pending: Vec<Change>, rng: &mut Rng) -> Vec<Change> {
    let count = rng.usize(0..=pending.len());
    let mut rest = pending.into_iter();
    let mut kept: Vec<_> = rest.by_ref().take(count).collect();
    if let Some(Change::Write { offset, bytes }) = rest.next() {
        let total = sectors(offset, &bytes).count();
        kept.extend(sectors(offset, &bytes).take(rng.usize(0..total)));
    }
    kept
}

/// A write cut at the boundaries of sectors.
fn sectors(offset: u64, bytes: &Bytes) -> impl Iterator<Item = Change> {
    let end = offset + bytes.len() as u64;
    let mut start = offset;
    std::iter::from_fn(move || {
        let next = end.min((start / SECTOR_BYTES + 1) * SECTOR_BYTES);
        let place = |position: u64| usize::try_from(position - offset).expect("a place in a slice");
        let sector = Change::Write { offset: start, bytes: bytes.slice(place(start)..place(next)) };
        let more = start < end;
        start = next;
        more.then_some(sector)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_cut_where_sectors_begin_on_the_disk() {
        let bytes = Bytes::from(vec![1; 1000]);
        let cut: Vec<_> = sectors(500, &bytes)
            .map(|change| match change {
                Change::Write { offset, bytes } => (offset, bytes.len()),
                Change::Length(_) => panic!("a write has no length"),
            })
            .collect();
        assert_eq!(cut, [(500, 12), (512, 512), (1024, 476)]);
    }

    #[test]
    fn an_ordered_crash_keeps_a_prefix_up_to_some_sector() {
        let write = |offset| Change::Write { offset, bytes: Bytes::from(vec![1; 2048]) };
        let pending: Vec<_> = (0..4).map(|index| write(index * 2048)).collect();
        for seed in 0..200 {
            let kept = first(pending.clone(), &mut Rng::with_seed(seed));
            let mut end = 0;
            for change in kept {
                let Change::Write { offset, bytes } = change else { panic!("only writes were pending") };
                assert_eq!(offset, end);
                end += bytes.len() as u64;
            }
            assert_eq!(end % SECTOR_BYTES, 0);
        }
    }

    #[test]
    fn a_torn_crash_can_keep_a_later_write_without_an_earlier_one() {
        let write = |offset| Change::Write { offset, bytes: Bytes::from(vec![1; 512]) };
        let pending = vec![write(0), write(512)];
        let reordered = (0..100).any(|seed| torn(pending.clone(), &mut Rng::with_seed(seed)) == [write(512)]);
        assert!(reordered);
    }
}
