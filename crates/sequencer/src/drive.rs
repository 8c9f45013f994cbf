//! Who does the background work: a thread, or the caller.
//!
//! A thread does nothing that a caller could not do with [`Sequencer::run_background`](crate::Sequencer::run_background).

use std::io;
use std::sync::Arc;

use crate::background::{Background, Step};
use crate::error::Fault;
use crate::shared::{Shared, Watch};
use crate::storage::Storage;
use crate::sync::NO_PANIC;

/// Starts threads.
pub trait Spawn {
    /// Runs the work on a thread of this name.
    ///
    /// # Errors
    /// If there is no thread to be had.
    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> io::Result<()>;
}

/// The threads of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsThreads;

impl Spawn for OsThreads {
    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> io::Result<()> {
        std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
    }
}

/// Who does the background work.
#[derive(Clone, Copy)]
pub enum Drive<'a> {
    /// One thread of the sequencer's own. Needs a clock that goes by itself.
    Thread(&'a dyn Spawn),
    /// Whoever calls [`Sequencer::run_background`](crate::Sequencer::run_background). Nothing happens by itself, so that a
    /// test or a simulation decides every step.
    Caller,
}

impl Drive<'_> {
    /// A thread of the operating system.
    pub const OS_THREAD: Self = Drive::Thread(&OsThreads);
}

impl std::fmt::Debug for Drive<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Drive::Thread(_) => "Thread",
            Drive::Caller => "Caller",
        })
    }
}

/// Starts the thread.
pub(crate) fn spawn<S: Storage>(shared: &Arc<Shared<S>>, threads: &dyn Spawn) -> io::Result<()> {
    let shared = shared.clone();
    let work = move || {
        let _guard = PanicGuard(&shared);
        let mut background = Background::new(shared.clone());
        loop {
            match background.step() {
                Step::Worked => (),
                Step::Wait { until, watch } => sleep(&shared, until, watch),
                Step::Stopped => return,
            }
        }
    };
    threads.spawn("sequencer", Box::new(work))
}

/// Looks that a thread takes before it sleeps, while much comes in: some tens of microseconds. Being woken takes as long,
/// and by then the set may be full.
const LOOKS: u32 = 50;

/// Pauses of the processor between two looks, so that looking does not slow down who is being looked at.
const PAUSES_PER_LOOK: u32 = 32;

/// Whether there is much to write again, very soon after a write that was urgent.
fn comes_fast<S>(shared: &Shared<S>) -> bool {
    if cfg!(feature = "shuttle") || !shared.was_urgent() {
        return false;
    }
    (0..LOOKS).any(|_| {
        (0..PAUSES_PER_LOOK).for_each(|_| std::hint::spin_loop());
        shared.looks_urgent()
    })
}

/// Sleeps until that time or until there is a reason to look, which may have come already.
fn sleep<S>(shared: &Shared<S>, until: Option<std::time::Duration>, watch: Watch) {
    if comes_fast(shared) {
        return;
    }
    let mut state = shared.state();
    let failed = matches!(state.status, crate::shared::Status::Failed(_));
    let ordered = state.closing || (state.actualize && !failed);
    let news = match watch {
        Watch::Nothing => false,
        Watch::Much => shared.is_urgent(&state),
        Watch::Anything => state.dirty,
    };
    if ordered || news {
        return;
    }
    state.watch = watch;
    let mut state = match until {
        None => shared.work.wait(state).expect(NO_PANIC),
        Some(until) => {
            let now = shared.params.clock.now();
            shared.wait(&shared.work, state, until.saturating_sub(now))
        }
    };
    state.watch = Watch::Nothing;
}

/// A thread that dies of a panic in the storage takes the sequencer with it, so that nobody waits for ever.
struct PanicGuard<'a, S>(&'a Shared<S>);

impl<S> Drop for PanicGuard<'_, S> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(Fault::Panicked);
            self.0.state().stopped = true;
            self.0.progress.notify_all();
        }
    }
}
