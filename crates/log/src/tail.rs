//! A reader that follows the log: first what is there, then what comes, without a seam.
//!
//! It cannot miss a record: it looks and registers to be woken under the same lock under which appends become visible.
//! It does not block appends: it holds that lock for a moment and reads on its own time. When a suffix that it has read
//! is truncated it is told so, and goes on from there.

use std::sync::Arc;
use std::task::{Context, Poll};

use gapless_types::Position;
use thiserror::Error;

use crate::error::{Fault, ReadError};
use crate::index::advance;
use crate::record::Record;
use crate::shared::{Shared, Waiter};

/// What a tailing reader follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// Everything that was appended, durable or not.
    Appended,
    /// Only what is on stable storage.
    Durable,
}

/// What a tailing reader gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TailEvent {
    /// The next records, at least one.
    Records(Vec<Record>),
    /// What it had read from this position on is void; it goes on from there.
    Truncated(Position),
}

/// Why a tailing reader cannot go on.
#[derive(Clone, Debug, Error)]
pub enum TailError {
    /// The next record cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The log failed; what is durable can be read after it was reopened.
    #[error(transparent)]
    Poisoned(Fault),
    /// The log was closed, and everything was read.
    #[error("the log is closed")]
    Closed,
}

/// A reader that follows the log.
#[derive(Debug)]
pub struct Tail {
    shared: Arc<Shared>,
    id: u64,
    next: Position,
    follow: Follow,
}

impl Tail {
    pub(crate) fn new(shared: Arc<Shared>, from: Position, follow: Follow) -> Self {
        let mut state = shared.state();
        let id = state.next_tail;
        state.next_tail += 1;
        state.tails.insert(id, None);
        drop(state);
        Self { shared, id, next: from, follow }
    }

    /// The position it reads next.
    pub fn position(&self) -> Position {
        self.next
    }

    /// What is there, at once: about `max_bytes` of it at most. `None` if there is nothing new.
    pub fn try_next(&mut self, max_bytes: u64) -> Result<Option<TailEvent>, TailError> {
        self.step(max_bytes, None)
    }

    /// Blocks until there is something.
    pub fn next(&mut self, max_bytes: u64) -> Result<TailEvent, TailError> {
        loop {
            let waiter = || Waiter::Thread(std::thread::current());
            if let Some(event) = self.step(max_bytes, Some(&waiter))? {
                return Ok(event);
            }
            std::thread::park();
        }
    }

    /// For tasks of any runtime: ready when there is something.
    pub fn poll_next(
        &mut self,
        context: &mut Context<'_>,
        max_bytes: u64,
    ) -> Poll<Result<TailEvent, TailError>> {
        let waiter = || Waiter::Task(context.waker().clone());
        match self.step(max_bytes, Some(&waiter)) {
            Ok(Some(event)) => Poll::Ready(Ok(event)),
            Ok(None) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn step(
        &mut self,
        max_bytes: u64,
        waiter: Option<&dyn Fn() -> Waiter>,
    ) -> Result<Option<TailEvent>, TailError> {
        let end = {
            let mut state = self.shared.state();
            let cut = state.tails.get_mut(&self.id).and_then(Option::take);
            if let Some(from) = cut.filter(|&from| from < self.next) {
                self.next = from;
                return Ok(Some(TailEvent::Truncated(from)));
            }
            let end = match self.follow {
                Follow::Appended => state.next,
                Follow::Durable => state.durable,
            };
            if self.next >= end {
                match (&state.fault, state.closed) {
                    (Some(fault), _) => return Err(TailError::Poisoned(fault.clone())),
                    (None, true) if state.queue.is_empty() => return Err(TailError::Closed),
                    _ => {}
                }
                if let Some(waiter) = waiter {
                    state.waiters.push(waiter());
                }
                return Ok(None);
            }
            end
        };
        let records = match self.shared.read(self.next, end, max_bytes) {
            Ok(records) => records,
            // Truncated between the look and the read: the next step tells.
            Err(ReadError::NotAppended { .. } | ReadError::InDoubt { .. }) => {
                return self.step(max_bytes, waiter);
            }
            Err(error) => return Err(TailError::Read(error)),
        };
        self.next = advance(self.next, records.len() as u64);
        Ok(Some(TailEvent::Records(records)))
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.shared.state().tails.remove(&self.id);
    }
}
