//! Work off the commit path: preparing the next segment, footers, removing what was released.
//!
//! Done by the maintenance thread, or by whoever calls [`Log::maintain`](crate::Log::maintain).
//!
//! Must not know: what is in the queue.

use std::io;
use std::path::Path;
use std::sync::Arc;

use gapless_types::SegmentNumber;
use gapless_types::limits::LAST_SEGMENT_NUMBER;

use crate::catalog::{Catalog, OpenSegment, SegmentEntry};
use crate::error::{AppendError, Fault};
use crate::format::footer::Footer;
use crate::format::{Geometry, segment_file_name};
use crate::index::SegmentIndex;
use crate::io::{File, Io, OpenMode, write_all_at};
use crate::options::SyncPolicy;
use crate::reserve::Reserve;
use crate::shared::{Prepared, Shared};
use crate::stats::add;
use crate::ticket::Settled;

/// Zeros that are written before they are synced, in bytes: whoever syncs another file of the disk meanwhile waits for no more than these.
const FILLED_AT_ONCE: usize = 1 << 20;

/// Something to be done when there is time.
#[derive(Debug)]
pub(crate) enum Chore {
    /// Write the footer of a segment that is full.
    Seal { file: Arc<dyn File>, geometry: Geometry, footer: Box<Footer> },
    /// Remove the files of segments before this one.
    Remove { before: SegmentNumber },
}

impl Shared {
    /// Does what has piled up, and prepares the next segment. A closed log is left alone.
    pub(crate) fn maintain(&self) -> Settled {
        if self.state().closed {
            return Ok(());
        }
        self.do_chores()?;
        self.prepare_ahead();
        Ok(())
    }

    /// Does what has piled up, in order and one at a time: a segment's footer is written before its file is used again.
    pub(crate) fn do_chores(&self) -> Settled {
        let _one_at_a_time = self.lock_chores();
        let chores = std::mem::take(&mut self.state().chores);
        for chore in chores {
            match chore {
                Chore::Seal { file, geometry, footer } => self.seal(&*file, geometry, &footer)?,
                Chore::Remove { before } => self.remove_before(before)?,
            }
        }
        Ok(())
    }

    /// Whether a segment should be prepared now.
    pub(crate) fn wants_preparation(&self) -> bool {
        let state = self.state();
        state.fault.is_none() && !state.closed && state.prepared.is_none()
    }

    /// Prepares the next segment if none is ready. That it fails is no fault yet: it shows when room is needed.
    pub(crate) fn prepare_ahead(&self) {
        if self.wants_preparation() {
            let _ = self.ensure_prepared(0);
        }
    }

    /// Makes room for a frame of `bytes`, or says why there is none. Nothing is queued yet.
    pub(crate) fn make_room(&self, bytes: u32) -> Settled {
        // What was promised last may fill the prepared segment itself: then that one has to be taken into use first.
        if self.state().reserve.is_in_prepared() {
            self.flush()?;
        }
        self.ensure_prepared(Reserve::content_for(bytes))
    }

    /// Prepares a segment with room for `content` bytes of frames, unless one is ready.
    fn ensure_prepared(&self, content: u32) -> Settled {
        let _one_at_a_time = self.lock_preparing();
        let (number, geometry, spare, too_small) = {
            let mut state = self.state();
            state.check_open()?;
            if state.next_segment.get() > LAST_SEGMENT_NUMBER {
                let last = u64::from(LAST_SEGMENT_NUMBER);
                return Err(AppendError::NumbersExhausted { what: "segment", last });
            }
            if state.prepared.as_ref().is_some_and(|prepared| prepared.geometry.content_bytes() >= content) {
                return Ok(());
            }
            // One that is too small is replaced; nobody may begin it meanwhile.
            let too_small = state.prepared.take();
            let doubled = state.active.geometry.capacity.saturating_mul(2);
            let usual = doubled.clamp(self.options.first_segment_bytes, self.options.segment_bytes);
            let capacity = usual.max(Geometry::capacity_for(content));
            let spare = state.spares.iter().position(|(_, length)| *length == capacity);
            let spare = spare.map(|at| state.spares.swap_remove(at).0);
            (state.next_segment, Geometry { capacity, layout: self.options.layout }, spare, too_small)
        };
        let recycled = spare.is_some();
        let unfinished = self.dir.join(spare.unwrap_or_else(|| format!("{:010}.new.tmp", number.get())));
        let blank = if recycled { Blank::Recycled } else { Blank::new(self.options.sync) };
        let file = match blank.make(&*self.io, &unfinished, geometry.capacity) {
            Ok(file) => file,
            Err(error) => {
                // Room on a full disk is wanted now; if this fails too, the name is removed at the next opening.
                let _ = self.io.remove(&unfinished);
                self.state().prepared = too_small;
                return Err(no_segment(error, geometry.capacity));
            }
        };
        self.state().reserve.set_prepared(None);
        put_in_place(&*self.io, &self.dir, &unfinished, number)
            .map_err(|error| no_segment(error, geometry.capacity))?;
        add(&self.counters.segments_prepared, 1);
        add(&self.counters.segments_recycled, u64::from(recycled));
        let mut state = self.state();
        state.reserve.set_prepared(Some(geometry.content_bytes()));
        state.prepared = Some(Prepared { number, file, geometry });
        Ok(())
    }

    /// The prepared segment, for the writer to begin.
    pub(crate) fn take_prepared(&self) -> Result<Prepared, AppendError> {
        loop {
            let mut state = self.state();
            if let Some(prepared) = state.prepared.take() {
                // In the same moment its number is given out and its room counts as that of the active segment: whoever
                // prepares the next one from now on must do so behind it.
                state.next_segment =
                    prepared.number.next().expect("segment numbers end long before 32 bits do");
                state.reserve.rotated(prepared.geometry.content_bytes());
                return Ok(prepared);
            }
            drop(state);
            self.ensure_prepared(0)?;
        }
    }

    /// Writes the footer of a full segment and makes it durable; then its index need not stay in memory.
    fn seal(&self, file: &dyn File, geometry: Geometry, footer: &Footer) -> Settled {
        let bytes = footer.encode(self.salt);
        let room = (geometry.capacity - geometry.content_end()) as usize;
        if bytes.len() <= room {
            let at = u64::from(geometry.capacity) - bytes.len() as u64;
            let written = write_all_at(file, &bytes, at).and_then(|()| file.sync());
            written.map_err(|source| {
                self.poison(Fault { action: "write a footer", source: Arc::new(source) }, &[])
            })?;
            add(&self.counters.footers, 1);
            self.state().catalog.unpin(footer.segment);
        }
        Ok(())
    }

    /// Removes files of segments that are no longer needed, or keeps one to be filled anew.
    fn remove_before(&self, before: SegmentNumber) -> Settled {
        let (removed, wants_spare) = {
            let mut state = self.state();
            let wants_spare = state.spares.is_empty();
            (state.catalog.remove_before(before), wants_spare)
        };
        if removed.is_empty() {
            return Ok(());
        }
        let mut spare = None;
        let outcome = removed.iter().try_for_each(|&(number, capacity)| {
            let path = self.dir.join(segment_file_name(number));
            if wants_spare && spare.is_none() && capacity == self.options.segment_bytes {
                let name = format!("{:010}.spare.tmp", number.get());
                self.io.rename(&path, &self.dir.join(&name))?;
                spare = Some((name, capacity));
                return Ok(());
            }
            add(&self.counters.segments_removed, 1);
            self.io.remove(&path)
        });
        outcome.and_then(|()| self.io.sync_dir(&self.dir)).map_err(|source| {
            self.poison(Fault { action: "remove released segments", source: Arc::new(source) }, &[])
        })?;
        self.state().spares.extend(spare);
        Ok(())
    }
}

impl Catalog {
    /// Takes in a segment that was just begun.
    pub(crate) fn add_segment(&mut self, number: SegmentNumber, geometry: Geometry) {
        self.segments.insert(number, SegmentEntry { geometry, pinned: None });
    }

    /// Keeps the index of a full segment in memory until its footer is written.
    pub(crate) fn pin(&mut self, number: SegmentNumber, file: Arc<dyn File>, index: SegmentIndex) {
        if let Some(entry) = self.segments.get_mut(&number) {
            entry.pinned = Some(Arc::new(OpenSegment { number, file, index }));
        }
    }

    /// The footer is on disk; the index may go when nobody needs it.
    pub(crate) fn unpin(&mut self, number: SegmentNumber) {
        let pinned = self.segments.get_mut(&number).and_then(|entry| entry.pinned.take());
        if let Some(segment) = pinned {
            self.keep(segment);
        }
    }
}

fn no_segment(error: io::Error, capacity: u32) -> AppendError {
    match error.kind() {
        io::ErrorKind::StorageFull => AppendError::DiskFull { needed: u64::from(capacity) },
        _ => AppendError::NoSegment(Arc::new(error)),
    }
}

/// Gives a filled file its segment's name, durably.
pub(crate) fn put_in_place(
    io: &dyn Io,
    dir: &Path,
    unfinished: &Path,
    number: SegmentNumber,
) -> io::Result<()> {
    io.rename(unfinished, &dir.join(segment_file_name(number)))?;
    io.sync_dir(dir)
}

/// How a durable file of zeros is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blank {
    /// Zeros are written even though the room is reserved: only then does a later sync not have to change metadata. For logs whose
    /// sync somebody waits for.
    Written,
    /// The room is reserved, and reads as zeros. For logs that are synced in the background: writing zeros first would double what
    /// their disk has to do, and whoever waits for another log on it waits for that, too.
    Reserved,
    /// Zeros are written over what a released segment held.
    Recycled,
}

impl Blank {
    /// How a new one is made for a log with this policy.
    pub(crate) fn new(policy: SyncPolicy) -> Self {
        match policy {
            SyncPolicy::EveryFrame => Self::Written,
            SyncPolicy::OnRequest => Self::Reserved,
        }
    }

    pub(crate) fn make(self, io: &dyn Io, path: &Path, capacity: u32) -> io::Result<Arc<dyn File>> {
        let mode = if self == Self::Recycled { OpenMode::Write } else { OpenMode::Create };
        let file = io.open(path, mode)?;
        if self != Self::Recycled {
            file.reserve(u64::from(capacity))?;
        }
        if self == Self::Reserved {
            file.sync()?;
            return Ok(file);
        }
        for start in (0..u64::from(capacity)).step_by(FILLED_AT_ONCE) {
            file.fill(start..(start + FILLED_AT_ONCE as u64).min(u64::from(capacity)))?;
            file.sync()?;
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::faulty::{FaultyIo, OperationKind};

    /// Two pieces and a half.
    const CAPACITY: u32 = 5 << 19;

    /// What is asked of the disk to make a file, and the file.
    fn made(blank: Blank, io: &FaultyIo) -> Vec<(OperationKind, u64)> {
        io.reset_operations();
        let before = io.trace().len();
        let path = Path::new("blank");
        blank.make(io, path, CAPACITY).unwrap();
        assert!(io.memory().bytes_of(path).unwrap() == vec![0; CAPACITY as usize], "{blank:?}");
        io.trace()[before..].iter().map(|operation| (operation.kind, operation.length)).collect()
    }

    #[test]
    fn the_replicated_log_is_filled_in_pieces_each_synced_before_the_next() {
        assert_eq!(Blank::new(SyncPolicy::EveryFrame), Blank::Written);
        let io = FaultyIo::new(1);
        for blank in [Blank::Written, Blank::Recycled] {
            if blank == Blank::Recycled {
                io.memory().overwrite(Path::new("blank"), 0, &[7; CAPACITY as usize]).unwrap();
            }
            let (mut unsynced, mut written) = (0, 0);
            for (kind, length) in made(blank, &io) {
                match kind {
                    OperationKind::Write => {
                        unsynced += length;
                        written += length;
                        assert!(unsynced <= FILLED_AT_ONCE as u64, "{blank:?}: {unsynced} bytes at once");
                    }
                    OperationKind::Sync => unsynced = 0,
                    _ => {}
                }
            }
            assert_eq!((unsynced, written), (0, u64::from(CAPACITY)), "{blank:?}");
        }
    }

    #[test]
    fn a_partition_log_has_its_room_reserved_and_no_zeros_written() {
        assert_eq!(Blank::new(SyncPolicy::OnRequest), Blank::Reserved);
        let done = made(Blank::Reserved, &FaultyIo::new(1));
        let expected = [
            (OperationKind::Create, 0),
            (OperationKind::Reserve, u64::from(CAPACITY)),
            (OperationKind::Sync, 0),
        ];
        assert_eq!(done, expected);
    }
}
