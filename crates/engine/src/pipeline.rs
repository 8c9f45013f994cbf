//! A stream of writes: the next one is handed over before the last one has its outcome.
//!
//! ```text
//!  submit ──▶ flying, by number ──▶ answers, as they come ──▶ next
//!                  └── came to nothing: walks the corridor again, by itself ──┘
//! ```
//!
//! Writes are proposed in the order in which they were submitted, unless one of them has to be proposed again after a change of
//! leader. Whoever needs their order to hold in any case says so with an expected offset.
//!
//! Thousands are in flight, and nearly all of them end well: none has a task, a timer or a future of its own.
//!
//! Must not know: how a write walks the corridor.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, Stream};
use gapless_partition::Write;
use gapless_types::IdempotencyKey;
use tokio::time::{Instant, Sleep, sleep_until, timeout, timeout_at};
use tracing::Span;

use crate::engine::Engine;
use crate::error::WriteError;
use crate::numbered::Numbered;
use crate::recall::{Answer, Arrivals};
use crate::write::{Acknowledgement, Passage, Step, WriteOptions};

/// What became of a write, under the number it was given when it was submitted.
pub type Ended = (u64, Result<Acknowledgement, WriteError>);

/// Writes of one caller that are on their way. Dropped, they go their way all the same, and retries get their outcomes.
#[derive(Debug)]
pub struct Pipeline {
    engine: Engine,
    patience: Duration,
    next: u64,
    flying: Numbered<Flying>,
    arrivals: Arc<Arrivals>,
    /// Answers that were taken from there, in their order.
    came: VecDeque<(u64, Answer)>,
    /// Known when they were submitted.
    known: VecDeque<(u64, Acknowledgement)>,
    /// Those that came to nothing once.
    again: FuturesUnordered<BoxFuture<'static, Ended>>,
    /// Not later than the first of those that fly runs out of patience.
    timer: Option<Pin<Box<Sleep>>>,
}

#[derive(Debug)]
struct Flying {
    passage: Passage,
    joined: bool,
    until: Instant,
    /// Ends with it.
    _commit_wait: Span,
}

impl Engine {
    /// A stream of writes. The options count for each of them, from when it is submitted.
    #[must_use]
    pub fn pipeline(&self, options: WriteOptions) -> Pipeline {
        Pipeline {
            engine: self.clone(),
            patience: options.patience,
            next: 0,
            flying: Numbered::default(),
            arrivals: Arc::default(),
            came: VecDeque::new(),
            known: VecDeque::new(),
            again: FuturesUnordered::new(),
            timer: None,
        }
    }
}

impl Pipeline {
    /// Hands a write over, and returns as soon as it is admitted and on its way, or known already: the number under which
    /// [`next`](Self::next) will tell what became of it.
    ///
    /// # Errors
    /// If it was not admitted; nothing was done then.
    pub async fn submit(
        &mut self,
        namespace: &str,
        key: IdempotencyKey,
        write: &Write<'_>,
    ) -> Result<u64, WriteError> {
        let passage = self.engine.check(namespace, key, write)?;
        let until = Instant::now() + self.patience;
        let step = enter(&self.engine, &passage, self.patience).await?;
        let number = self.next;
        self.next += 1;
        match step {
            Step::Known(acknowledgement) => {
                self.engine.tell(&passage, &acknowledgement);
                self.known.push_back((number, acknowledgement));
            }
            Step::Waits { waiter, joined } => {
                let commit_wait = passage.commit_wait();
                self.flying.push(number, Flying { passage, joined, until, _commit_wait: commit_wait });
                waiter.forward(&self.arrivals, number);
            }
        }
        Ok(number)
    }

    /// How many are on their way.
    #[must_use]
    pub fn len(&self) -> usize {
        self.flying.len() + self.known.len() + self.again.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits for the next outcome, whichever comes first. None if nothing is on its way. Can be dropped at any time.
    pub async fn next(&mut self) -> Option<Ended> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// One more of those that came together with the last one, without waiting.
    pub fn next_of_those(&mut self) -> Option<Ended> {
        if let Some((number, acknowledgement)) = self.known.pop_front() {
            return Some((number, Ok(acknowledgement)));
        }
        while let Some((number, answer)) = self.came.pop_front() {
            // Others ran out of patience before.
            let Some(flying) = self.flying.remove(number) else { continue };
            match self.engine.acknowledge(answer, flying.joined) {
                Some(result) => {
                    if let Ok(acknowledgement) = &result {
                        self.engine.tell(&flying.passage, acknowledgement);
                    }
                    return Some((number, result));
                }
                None => self.again.push(walk_again(self.engine.clone(), number, flying)),
            }
        }
        None
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Ended>> {
        loop {
            if let Some(ended) = self.next_of_those() {
                return Poll::Ready(Some(ended));
            }
            if self.arrivals.poll_take(context, &mut self.came).is_pending() {
                break;
            }
        }
        if let Poll::Ready(Some(ended)) = Pin::new(&mut self.again).poll_next(context) {
            return Poll::Ready(Some(ended));
        }
        if self.is_empty() {
            return Poll::Ready(None);
        }
        self.poll_deadline(context).map(Some)
    }

    /// The first that ran out of patience. All of them have the same, so it is the one that waits for longest, and the timer is set
    /// about once in that time.
    fn poll_deadline(&mut self, context: &mut Context<'_>) -> Poll<Ended> {
        loop {
            let timer = match &mut self.timer {
                Some(timer) => timer,
                none => {
                    let Some((_, first)) = self.flying.first() else { return Poll::Pending };
                    none.insert(Box::pin(sleep_until(first.until)))
                }
            };
            if timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            let now = timer.deadline();
            match self.flying.first() {
                Some((number, first)) if first.until <= now => {
                    self.flying.remove(number);
                    return Poll::Ready((number, Err(WriteError::DeadlineExceeded)));
                }
                _ => self.timer = None,
            }
        }
    }
}

/// Mostly this is done at once, and needs no timer.
async fn enter(engine: &Engine, passage: &Passage, patience: Duration) -> Result<Step, WriteError> {
    let mut entering = pin!(engine.enter(passage));
    match futures_util::poll!(entering.as_mut()) {
        Poll::Ready(step) => step,
        Poll::Pending => timeout(patience, entering).await.unwrap_or(Err(WriteError::DeadlineExceeded)),
    }
}

fn walk_again(engine: Engine, number: u64, flying: Flying) -> BoxFuture<'static, Ended> {
    Box::pin(async move {
        let walked = timeout_at(flying.until, engine.walk(&flying.passage)).await;
        (number, walked.unwrap_or(Err(WriteError::DeadlineExceeded)))
    })
}
