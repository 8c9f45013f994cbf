//! What a user holds in hand.
//!
//! Invariants
//! - At most one open transaction: `start` borrows the sequencer until the transaction ends.
//! - `start` during actualization never succeeds, and never blocks.

use std::sync::Arc;
use std::time::Duration;

use gapless_types::{PartitionOffset, WorkspaceId, WorkspaceKind};

use crate::background::{Background, Step};
use crate::cache::Cache;
use crate::drive::{self, Drive};
use crate::error::{Busy, NewError, StartError};
use crate::hash::HashSeed;
use crate::kinds::Kinds;
use crate::params::Params;
use crate::shared::{Shared, Status};
use crate::statistics::{Hits, Refusals, Statistics};
use crate::storage::Storage;
use crate::transaction::{Scratch, Transaction};

/// How a sequencer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The background work has stopped. What could be written at the first try is stored.
    Stopped,
    /// A storage call did not return in time. It is left behind, with the thread it is in: when it returns, the thread
    /// ends. If it was a write, that may still happen.
    Detached,
}

/// Next numbers for the workspaces of one partition.
pub struct Sequencer<S: Storage> {
    pub(crate) shared: Arc<Shared<S>>,
    /// The background work, if the caller does it.
    background: Option<Background<S>>,
    pub(crate) cache: Cache,
    pub(crate) scratch: Scratch,
    pub(crate) hits: Hits,
    refusals: Refusals,
    ending: Option<Ending>,
}

impl<S: Storage> Sequencer<S> {
    /// Begins to read the tail of the log in the background and returns at once.
    ///
    /// # Errors
    /// If the parameters make no sense, or there is no thread.
    pub fn new(params: Params, storage: S, drive: Drive<'_>) -> Result<Self, NewError> {
        params.check_limits()?;
        let kinds = Kinds::new(&params.kinds)?;
        let cache = Cache::new(params.cache.clone(), HashSeed::new(!params.seed));
        let scratch = Scratch::new(kinds.most_sequences());
        let shared = Arc::new(Shared::new(params, kinds, storage));
        let background = match drive {
            Drive::Caller => Some(Background::new(shared.clone())),
            Drive::Thread(threads) => {
                drive::spawn(&shared, threads).map_err(NewError::Spawn)?;
                None
            }
        };
        Ok(Self {
            shared,
            background,
            cache,
            scratch,
            hits: Hits::default(),
            refusals: Refusals::default(),
            ending: None,
        })
    }

    /// Opens a transaction at the next offset of the log. Never blocks.
    ///
    /// # Errors
    /// [`StartError::Busy`] while the log is being read or too much is unflushed: try again later, or
    /// [`wait_ready`](Self::wait_ready). All others are misuse or final.
    #[inline]
    pub fn start(
        &mut self,
        kind: WorkspaceKind,
        workspace: WorkspaceId,
    ) -> Result<Transaction<'_, S>, StartError> {
        if self.ending.is_some() {
            return Err(StartError::Closed);
        }
        let Some(kind) = self.shared.kinds.position(kind) else {
            return Err(StartError::UnknownKind { kind });
        };
        match self.shared.admit() {
            Ok(offset) => Ok(Transaction::new(self, kind, workspace, offset)),
            Err(refusal) => Err(self.counted(refusal)),
        }
    }

    #[cold]
    fn counted(&mut self, refusal: StartError) -> StartError {
        match refusal {
            StartError::Busy(Busy::Actualizing) => self.refusals.actualizing += 1,
            StartError::Busy(Busy::TooManyUnflushed) => self.refusals.too_many_unflushed += 1,
            StartError::Busy(Busy::TooFarBehind) => self.refusals.too_far_behind += 1,
            _ => (),
        }
        refusal
    }

    /// Whether a transaction could start now.
    ///
    /// # Errors
    /// What [`start`](Self::start) would say.
    pub fn check_ready(&self) -> Result<(), StartError> {
        if self.ending.is_some() { Err(StartError::Closed) } else { self.shared.admit().map(drop) }
    }

    /// Waits until a transaction can start, at most so long. Where the caller does the background work, does it; and does
    /// not wait for time to pass.
    ///
    /// # Errors
    /// What `start` would say at the end of that time.
    pub fn wait_ready(&mut self, limit: Duration) -> Result<(), StartError> {
        if self.ending.is_some() {
            return Err(StartError::Closed);
        }
        if self.background.is_some() {
            self.run_background();
            return self.shared.admit().map(drop);
        }
        let shared = &self.shared;
        let deadline = shared.params.clock.now() + limit;
        let mut state = shared.state();
        let result = loop {
            let now = shared.params.clock.now();
            match shared.admit_locked(&state).map(drop) {
                Err(StartError::Busy(_)) if now < deadline => {
                    state.waiting = true;
                    state = shared.wait(&shared.progress, state, deadline - now);
                }
                result => break result,
            }
        };
        state.waiting = false;
        result
    }

    /// Does the background work that is due, if the caller is to do it. Gives the time at which there will be more to do,
    /// by the clock of the parameters; none if nothing is to do until the next call.
    pub fn run_background(&mut self) -> Option<Duration> {
        loop {
            match self.step_background() {
                BackgroundStep::Worked => (),
                BackgroundStep::Waiting { until } => return until,
                BackgroundStep::Stopped => return None,
            }
        }
    }

    /// Does at most one write or scan of the background work, if the caller is to do it.
    pub fn step_background(&mut self) -> BackgroundStep {
        let Some(background) = &mut self.background else { return BackgroundStep::Waiting { until: None } };
        match background.step() {
            Step::Worked => BackgroundStep::Worked,
            Step::Wait { until, .. } => BackgroundStep::Waiting { until },
            Step::Stopped => {
                self.background = None;
                BackgroundStep::Stopped
            }
        }
    }

    /// Empties the cache and gives its room back to the budget. Changes no result.
    pub fn drop_cache(&mut self) {
        self.cache.release();
    }

    /// The offset that the next transaction gets, unless the log is being read.
    #[must_use]
    pub fn next_offset(&self) -> Option<PartitionOffset> {
        let state = self.shared.state();
        (state.status == Status::Ready).then_some(state.next_offset)
    }

    /// The storage.
    #[must_use]
    pub fn storage(&self) -> &S {
        &self.shared.storage
    }

    /// What has happened so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let state = self.shared.state();
        Statistics {
            hits: self.hits,
            refusals: self.refusals,
            work: state.counters,
            unflushed_values: state.unflushed.len(),
            lag: state.next_offset.get() - state.stored_offset.get(),
            cache_entries: self.cache.len(),
            cache_bytes: self.cache.bytes(),
            last_error: state.last_error.clone(),
        }
    }

    /// Stops the background work, after one try to write what is unflushed. Returns in bounded time, also when the storage
    /// fails for ever or does not answer. May be called twice.
    pub fn close(&mut self) -> Ending {
        if let Some(ending) = self.ending {
            return ending;
        }
        self.shared.order_stop();
        let ending = match &mut self.background {
            Some(_) => {
                while self.step_background() != BackgroundStep::Stopped {}
                Ending::Stopped
            }
            None => self.wait_stopped(),
        };
        self.ending = Some(ending);
        self.cache.release();
        ending
    }

    fn wait_stopped(&self) -> Ending {
        let clock = &self.shared.params.clock;
        let deadline = clock.now() + self.shared.params.close_timeout;
        let mut state = self.shared.state();
        while !state.stopped {
            let now = clock.now();
            if now >= deadline {
                return Ending::Detached;
            }
            state = self.shared.wait(&self.shared.progress, state, deadline - now);
        }
        Ending::Stopped
    }
}

/// What came of a step of the background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackgroundStep {
    /// Something was done; there may be more.
    Worked,
    /// Nothing is to do before that time; if there is none, before the next call.
    Waiting {
        /// By the clock of the parameters.
        until: Option<Duration>,
    },
    /// The sequencer is closed.
    Stopped,
}

impl<S: Storage> Drop for Sequencer<S> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<S: Storage> std::fmt::Debug for Sequencer<S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Sequencer").field("statistics", &self.statistics()).finish_non_exhaustive()
    }
}
