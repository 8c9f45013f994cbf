//! A checkpoint on its way: what is frozen is written out beside the partition, which goes on applying.
//!
//! ```text
//!  begin                        write out, on any thread                          end
//!  outcomes into the log,  ──▶  log synced; rows and a step of merging  ──▶  published, as far as the log is synced
//!  state frozen                 written, and synced
//! ```
//!
//! Whoever needs it sooner does not wait for a thread: what nobody has begun to write he writes himself.
//!
//! Invariants
//! - LOG-2: a checkpoint is published only with the proof that the log is synced up to it.
//! - Nobody writes files of a partition that is gone.
//!
//! Must not know: threads, clocks, how much there is to do elsewhere.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use gapless_log::{AppendError, Log};
use gapless_store::{
    Compaction, DiskError, FrozenCheckpoint, MaintainError, Maintained, Offset, Synced, WrittenCheckpoint,
};
use gapless_types::Position;
use gapless_types::mistakes::{Mistake, makes};

/// Bytes of merging that one step of maintenance does.
pub(crate) const MAINTAIN_BYTES: u64 = 8 << 20;

/// A checkpoint that was begun. Clones are the same one; whoever comes first writes it out.
#[derive(Clone, Debug)]
pub struct Checkpointing(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    stage: Mutex<Stage>,
    written: Condvar,
}

#[derive(Debug)]
enum Stage {
    /// Nobody has begun to write it.
    Frozen(Box<Work>),
    /// Somebody writes it.
    Writing,
    /// It is written, or could not be.
    Written(Box<Result<Made, NotMade>>),
    /// It was ended, or given up.
    Over,
}

/// What there is to do.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) log: Log,
    pub(crate) frozen: FrozenCheckpoint,
    /// A merge that is due: a step of it, so that merging never falls far behind.
    pub(crate) merge: Option<Compaction>,
}

/// What was done.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) written: WrittenCheckpoint,
    pub(crate) synced: Synced,
    pub(crate) merged: Option<Result<(Compaction, Maintained), MaintainError>>,
}

/// Why it was not.
#[derive(Debug)]
pub(crate) enum NotMade {
    /// The partition log could not be synced, or looked after.
    Log(AppendError),
    /// The store could not be written; what is frozen is taken along by the next one.
    Store(DiskError),
    /// It was given up, or whoever wrote it panicked.
    Nobody,
}

impl Checkpointing {
    pub(crate) fn new(work: Work) -> Self {
        let stage = Mutex::new(Stage::Frozen(Box::new(work)));
        Self(Arc::new(Shared { stage, written: Condvar::new() }))
    }

    /// Syncs the log and writes what is frozen, unless somebody else does or did. It may take as long as a disk does.
    pub fn write_out(&self) {
        let mut stage = self.0.lock();
        if !matches!(*stage, Stage::Frozen(_)) {
            return;
        }
        let Stage::Frozen(work) = std::mem::replace(&mut *stage, Stage::Writing) else {
            unreachable!("it was looked at a moment ago");
        };
        drop(stage);
        // If this panics, nobody waits for ever.
        let mut writing = Writing { shared: &self.0, made: Err(NotMade::Nobody) };
        writing.made = work.done();
    }

    /// What became of it; once. Writes it, if nobody has begun to.
    pub(crate) fn made(&self) -> Result<Made, NotMade> {
        self.write_out();
        match self.0.over() {
            Stage::Written(made) => *made,
            _ => Err(NotMade::Nobody),
        }
    }

    /// Nobody wants it any more. Afterwards nobody writes it, either.
    pub(crate) fn give_up(&self) {
        drop(self.0.over());
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Stage> {
        // A stage is exchanged as a whole.
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends it, once nobody writes it: the stage that it was in.
    fn over(&self) -> Stage {
        let is_written = |stage: &mut Stage| matches!(stage, Stage::Writing);
        let waited = self.written.wait_while(self.lock(), is_written);
        std::mem::replace(&mut *waited.unwrap_or_else(PoisonError::into_inner), Stage::Over)
    }
}

/// Somebody who writes it. When he is done, everybody is told.
struct Writing<'a> {
    shared: &'a Shared,
    made: Result<Made, NotMade>,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let made = std::mem::replace(&mut self.made, Err(NotMade::Nobody));
        *self.shared.lock() = Stage::Written(Box::new(made));
        self.shared.written.notify_all();
    }
}

impl Work {
    fn done(self) -> Result<Made, NotMade> {
        let Self { log, frozen, merge } = self;
        let synced = sync(&log, frozen.offset())?;
        let written = frozen.write_out().map_err(NotMade::Store)?;
        log.maintain().map_err(NotMade::Log)?;
        let merged = merge.map(|mut merge| {
            let maintained = merge.step(MAINTAIN_BYTES)?;
            Ok((merge, maintained))
        });
        Ok(Made { written, synced, merged })
    }
}

/// The proof that the log is durable up to an offset.
fn sync(log: &Log, offset: Offset) -> Result<Synced, NotMade> {
    if makes(Mistake::CheckpointBeforeSync) {
        log.flush().map_err(NotMade::Log)?;
        return Ok(Synced::by_a_sync_up_to(offset));
    }
    log.sync().map_err(NotMade::Log)?;
    assert!(
        log.durable() > Position::new(offset.get()),
        "WM-1: what is applied is in the log, and that is synced"
    );
    Ok(Synced::by_a_sync_up_to(offset))
}
