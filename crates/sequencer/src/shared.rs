//! What the caller and the background work both see.
//!
//! Invariants
//! - Values and offset change in one critical section: whoever looks sees the values of exactly the records below the
//!   offset.
//! - Stored offset <= next offset.
//!
//! One lock, held for moments and never across a storage call. What `start` has to know is also kept in atomics, written
//! under the lock: a transaction on cached numbers takes the lock once, in `flush`.

use std::time::Duration;

use gapless_types::PartitionOffset;

use crate::error::{Busy, Fault, StartError};
use crate::hash::HashSeed;
use crate::kinds::Kinds;
use crate::params::Params;
use crate::statistics::WorkCounters;
use crate::storage::SequenceValue;
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard, NO_PANIC, wait_timeout};
use crate::unflushed::Unflushed;

/// What the sequencer is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// The tail of the log is being read, or is about to be.
    Actualizing,
    /// Numbers can be taken.
    Ready,
    /// Nothing goes on any more.
    Failed(Fault),
}

/// [`Status`] as an atomic holds it.
const ACTUALIZING: u8 = 0;
const READY: u8 = 1;
const FAILED: u8 = 2;

/// What a sleeping background wants to be woken for, besides an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    /// It is awake, or waits for a time that has to pass.
    Nothing,
    /// It waits a little for more to write: wake it if there is much.
    Much,
    /// There is nothing to write: wake it when there is.
    Anything,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) status: Status,
    pub(crate) unflushed: Unflushed,
    /// The offset that the next transaction gets.
    pub(crate) next_offset: PartitionOffset,
    /// The offset of the last write that succeeded, or the one found in the store.
    pub(crate) stored_offset: PartitionOffset,
    /// Something has changed since the last write began.
    pub(crate) dirty: bool,
    /// An order: read the log's tail again.
    pub(crate) actualize: bool,
    /// An order: stop.
    pub(crate) closing: bool,
    /// The background work has ended.
    pub(crate) stopped: bool,
    pub(crate) watch: Watch,
    /// Somebody waits for a change of what `start` looks at.
    pub(crate) waiting: bool,
    pub(crate) counters: WorkCounters,
    pub(crate) last_error: Option<String>,
}

pub(crate) struct Shared<S> {
    pub(crate) storage: S,
    pub(crate) params: Params,
    pub(crate) kinds: Kinds,
    state: Mutex<State>,
    /// The background work sleeps here.
    pub(crate) work: Condvar,
    /// Who waits for it sleeps here.
    pub(crate) progress: Condvar,
    status: AtomicU8,
    unflushed: AtomicUsize,
    next_offset: AtomicU64,
    stored_offset: AtomicU64,
    /// The last write was urgent when it began.
    was_urgent: AtomicBool,
}

impl<S> Shared<S> {
    pub(crate) fn new(params: Params, kinds: Kinds, storage: S) -> Self {
        let state = State {
            status: Status::Actualizing,
            unflushed: Unflushed::new(HashSeed::new(params.seed)),
            next_offset: PartitionOffset::FIRST,
            stored_offset: PartitionOffset::FIRST,
            dirty: false,
            actualize: true,
            closing: false,
            stopped: false,
            watch: Watch::Nothing,
            waiting: false,
            counters: WorkCounters::default(),
            last_error: None,
        };
        Self {
            storage,
            params,
            kinds,
            state: Mutex::new(state),
            work: Condvar::new(),
            progress: Condvar::new(),
            status: AtomicU8::new(ACTUALIZING),
            unflushed: AtomicUsize::new(0),
            next_offset: AtomicU64::new(1),
            stored_offset: AtomicU64::new(1),
            was_urgent: AtomicBool::new(false),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(NO_PANIC)
    }

    /// Waits until that is notified, at most so long.
    pub(crate) fn wait<'a>(
        &'a self,
        condvar: &Condvar,
        state: MutexGuard<'a, State>,
        timeout: Duration,
    ) -> MutexGuard<'a, State> {
        wait_timeout(&self.state, condvar, state, timeout)
    }

    /// Ends a critical section that changed something `start` looks at.
    pub(crate) fn publish(&self, state: &State) {
        assert!(state.stored_offset <= state.next_offset, "stored offset <= last offset + 1");
        let status = match state.status {
            Status::Actualizing => ACTUALIZING,
            Status::Ready => READY,
            Status::Failed(_) => FAILED,
        };
        self.unflushed.store(state.unflushed.len(), Ordering::Relaxed);
        self.next_offset.store(state.next_offset.get(), Ordering::Relaxed);
        self.stored_offset.store(state.stored_offset.get(), Ordering::Relaxed);
        // Whoever sees `READY` sees the offsets above as well.
        self.status.store(status, Ordering::Release);
        if state.waiting {
            self.progress.notify_all();
        }
    }

    /// The offset of a transaction that would start now, or why none can. Takes no lock unless something has failed.
    #[inline]
    pub(crate) fn admit(&self) -> Result<PartitionOffset, StartError> {
        match self.status.load(Ordering::Acquire) {
            READY => (),
            ACTUALIZING => return Err(Busy::Actualizing.into()),
            _ => return self.admit_locked(&self.state()),
        }
        self.admit_levels(
            self.unflushed.load(Ordering::Relaxed),
            self.next_offset.load(Ordering::Relaxed),
            self.stored_offset.load(Ordering::Relaxed),
        )
    }

    /// The same, for who holds the lock.
    pub(crate) fn admit_locked(&self, state: &State) -> Result<PartitionOffset, StartError> {
        match &state.status {
            Status::Ready => (),
            Status::Actualizing => return Err(Busy::Actualizing.into()),
            Status::Failed(fault) => return Err(fault.clone().into()),
        }
        self.admit_levels(state.unflushed.len(), state.next_offset.get(), state.stored_offset.get())
    }

    #[inline]
    fn admit_levels(&self, unflushed: usize, next: u64, stored: u64) -> Result<PartitionOffset, StartError> {
        if unflushed > self.params.max_unflushed {
            return Err(Busy::TooManyUnflushed.into());
        }
        // Read one after the other without the lock, the stored offset may be the newer of the two.
        if next.saturating_sub(stored) > self.params.max_lag {
            return Err(Busy::TooFarBehind.into());
        }
        match PartitionOffset::new(next) {
            // The last one is never given, so that there is always a next one to advance to.
            Some(offset) if offset < PartitionOffset::MAX => Ok(offset),
            _ => Err(Fault::OffsetsExhausted.into()),
        }
    }

    /// An event is in the log: its numbers and the offset after it become known together.
    #[inline]
    pub(crate) fn commit(&self, offset: PartitionOffset, values: impl Iterator<Item = SequenceValue>) {
        let mut state = self.state();
        assert!(state.next_offset == offset, "offsets: exactly last + 1");
        for value in values {
            state.unflushed.merge(value);
        }
        state.next_offset = offset.next().expect("the last offset is never given to a transaction");
        state.dirty = true;
        self.publish(&state);
        self.wake_writer(state);
    }

    /// Nobody knows what is in the log: read it again.
    pub(crate) fn order_actualization(&self) {
        let mut state = self.state();
        if let Status::Failed(_) = state.status {
            return;
        }
        state.actualize = true;
        state.status = Status::Actualizing;
        self.publish(&state);
        drop(state);
        self.work.notify_all();
    }

    pub(crate) fn order_stop(&self) {
        self.state().closing = true;
        self.work.notify_all();
    }

    pub(crate) fn fail(&self, fault: Fault) {
        let mut state = self.state();
        state.last_error = Some(fault.to_string());
        state.status = Status::Failed(fault);
        self.publish(&state);
    }

    /// Whether enough has come together that writing should not wait: a quarter of the way to a limit, so that a healthy
    /// storage is done before the limit refuses anybody.
    pub(crate) fn is_urgent(&self, state: &State) -> bool {
        state.unflushed.len() > self.params.max_unflushed / 4
            || state.next_offset.get() - state.stored_offset.get() > self.params.max_lag / 4
    }

    /// The same without the lock, and so only nearly.
    pub(crate) fn looks_urgent(&self) -> bool {
        self.unflushed.load(Ordering::Relaxed) > self.params.max_unflushed / 4
    }

    pub(crate) fn set_was_urgent(&self, urgent: bool) {
        self.was_urgent.store(urgent, Ordering::Relaxed);
    }

    pub(crate) fn was_urgent(&self) -> bool {
        self.was_urgent.load(Ordering::Relaxed)
    }

    /// Whether the set is so full that actualization has to wait.
    pub(crate) fn is_full(&self, state: &State) -> bool {
        state.unflushed.len() > self.params.max_unflushed
    }

    /// Waking costs a system call, so that only who sleeps, and only for what he waits for, is woken.
    #[inline]
    fn wake_writer(&self, mut state: MutexGuard<'_, State>) {
        let wake = match state.watch {
            Watch::Nothing => false,
            Watch::Much => self.is_urgent(&state),
            Watch::Anything => true,
        };
        if wake {
            state.watch = Watch::Nothing;
            drop(state);
            self.work.notify_one();
        }
    }
}
