//! What an append hands back: a claim that is settled when its frame is on stable storage, or never will be.
//!
//! A ticket can be waited for by a thread, awaited by a task of any runtime, or given a callback. There is one completion
//! per append, so that the writer wakes those whose frame is done and nobody else.

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::Thread;

use gapless_types::Position;

use crate::error::AppendError;
use crate::shared::Shared;

/// How an append ended.
pub type Settled = Result<(), AppendError>;

type Callback = Box<dyn FnOnce(Settled) + Send>;

/// The writer's end of a ticket.
#[derive(Default)]
pub(crate) struct Completion(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    settled: Option<Settled>,
    thread: Option<Thread>,
    waker: Option<Waker>,
    callback: Option<Callback>,
}

impl Completion {
    /// Settles the ticket and wakes whoever waits for it. Only the first call counts.
    pub(crate) fn settle(&self, result: Settled) {
        let mut waiting = self.lock();
        if waiting.settled.is_some() {
            return;
        }
        waiting.settled = Some(result.clone());
        let (thread, waker, callback) =
            (waiting.thread.take(), waiting.waker.take(), waiting.callback.take());
        drop(waiting);
        if let Some(thread) = thread {
            thread.unpark();
        }
        if let Some(waker) = waker {
            waker.wake();
        }
        if let Some(callback) = callback {
            callback(result);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        // A panic while this lock is held leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Completion({:?})", self.lock().settled)
    }
}

/// A claim on durability. Dropping it takes nothing back.
#[must_use = "nothing is known to be durable before the ticket is settled"]
pub struct Ticket {
    positions: Range<Position>,
    completion: Arc<Completion>,
    /// Where nobody else drives the log, waiting does.
    driver: Option<Arc<Shared>>,
}

impl Ticket {
    pub(crate) fn new(
        positions: Range<Position>,
        completion: Arc<Completion>,
        driver: Option<Arc<Shared>>,
    ) -> Self {
        Self { positions, completion, driver }
    }

    /// The positions of the batch; empty for what has none.
    pub fn positions(&self) -> Range<Position> {
        self.positions.clone()
    }

    /// How it ended, if it did.
    pub fn settled(&self) -> Option<Settled> {
        self.completion.lock().settled.clone()
    }

    /// Blocks until the frame is on stable storage or failed.
    ///
    /// With [`Drive::Caller`](crate::Drive::Caller) the calling thread does the writing and the syncing itself.
    pub fn wait(self) -> Settled {
        if let Some(shared) = &self.driver {
            shared.sync_all()?;
        }
        loop {
            let mut waiting = self.completion.lock();
            if let Some(settled) = &waiting.settled {
                return settled.clone();
            }
            waiting.thread = Some(std::thread::current());
            drop(waiting);
            std::thread::park();
        }
    }

    /// Calls `callback` once the ticket is settled, on the thread that settles it, or now if it is.
    pub fn on_settled(self, callback: impl FnOnce(Settled) + Send + 'static) {
        let mut waiting = self.completion.lock();
        match waiting.settled.clone() {
            None => waiting.callback = Some(Box::new(callback)),
            Some(settled) => {
                drop(waiting);
                callback(settled);
            }
        }
    }
}

impl Future for Ticket {
    type Output = Settled;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Settled> {
        let mut waiting = self.completion.lock();
        match &waiting.settled {
            Some(settled) => Poll::Ready(settled.clone()),
            None => {
                waiting.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("positions", &self.positions)
            .field("completion", &self.completion)
            .finish()
    }
}
