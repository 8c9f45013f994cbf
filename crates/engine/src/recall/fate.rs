//! The fate of a key in flight: told once, to everybody who waits for it.
//!
//! Whoever waits for one write is a task that is woken. Whoever waits for many gets their answers in one queue, each under the number
//! that he gave it, and is woken once for all that came together.
//!
//! Invariants
//! - Nobody is woken while a lock is held.
//! - A fate that nobody will tell any more is told as that: whoever waits is not left alone.
//!
//! Must not know: which key it is.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use gapless_partition::{Outcome, RequestDigest};

use super::{Answer, uses_its_key};

/// What became of a flight.
#[derive(Clone, Debug)]
pub(super) enum Fate {
    /// The request with this digest got this outcome.
    Decided { digest: RequestDigest, outcome: Arc<Outcome> },
    /// It was not committed and never will be.
    Vanished,
    /// Nobody here will know.
    NotLeading,
}

impl Fate {
    /// What it means for somebody who asked for the request with this digest.
    pub(super) fn answer(&self, asked: RequestDigest) -> Answer {
        match self {
            Self::Decided { digest, outcome } if *digest == asked => Answer::Outcome(outcome.clone()),
            Self::Decided { outcome, .. } if uses_its_key(outcome) => Answer::Reused,
            // The first one was refused because the key had been used before, perhaps for this very request.
            Self::Decided { .. } | Self::Vanished => Answer::Again,
            Self::NotLeading => Answer::NotLeading,
        }
    }
}

/// Who tells. Dropped without a word, it says that nobody will know.
#[derive(Debug, Default)]
pub(super) struct Teller(Arc<Awaited>);

impl Teller {
    /// What it tells.
    pub(super) fn awaited(&self) -> Arc<Awaited> {
        self.0.clone()
    }

    /// Tells everybody who waits; who is to be woken is for the caller, once he holds no lock.
    pub(super) fn tell(&self, fate: &Fate, wakes: &mut Vec<Waker>) {
        let (first, others) = {
            let mut state = self.0.lock();
            state.fate = Some(fate.clone());
            (state.first.take(), std::mem::take(&mut state.others))
        };
        for listener in first.into_iter().chain(others) {
            match listener {
                Listener::Task(waker) => wakes.push(waker),
                Listener::Queue { arrivals, number, digest } => {
                    wakes.extend(arrivals.push(number, fate.answer(digest)));
                }
            }
        }
    }

    /// The same for one alone.
    pub(super) fn tell_now(&self, fate: &Fate) {
        let mut wakes = Vec::new();
        self.tell(fate, &mut wakes);
        wakes.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        let is_told = self.0.lock().fate.is_some();
        if !is_told {
            self.tell_now(&Fate::NotLeading);
        }
    }
}

/// A fate that is waited for.
#[derive(Debug, Default)]
pub(super) struct Awaited(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    fate: Option<Fate>,
    /// Mostly there is one.
    first: Option<Listener>,
    others: Vec<Listener>,
}

#[derive(Debug)]
enum Listener {
    Task(Waker),
    Queue { arrivals: Arc<Arrivals>, number: u64, digest: RequestDigest },
}

impl State {
    /// Keeps one more; where it stands.
    fn add(&mut self, listener: Listener) -> usize {
        if self.first.is_none() {
            self.first = Some(listener);
            return 0;
        }
        self.others.push(listener);
        self.others.len()
    }

    fn at(&mut self, place: usize) -> Option<&mut Listener> {
        match place.checked_sub(1) {
            None => self.first.as_mut(),
            Some(place) => self.others.get_mut(place),
        }
    }
}

impl Awaited {
    /// The answer, if the fate is known.
    pub(super) fn get(&self, asked: RequestDigest) -> Option<Answer> {
        self.lock().fate.as_ref().map(|fate| fate.answer(asked))
    }

    /// The answer, or the task is woken when there is one. Its place is kept from one time to the next.
    pub(super) fn poll(
        &self,
        asked: RequestDigest,
        place: &mut Option<usize>,
        context: &Context<'_>,
    ) -> Poll<Answer> {
        let mut state = self.lock();
        if let Some(fate) = &state.fate {
            return Poll::Ready(fate.answer(asked));
        }
        match place.and_then(|place| state.at(place)) {
            Some(Listener::Task(waker)) => waker.clone_from(context.waker()),
            _ => *place = Some(state.add(Listener::Task(context.waker().clone()))),
        }
        Poll::Pending
    }

    /// The answer comes into a queue, under a number; or at once, if the fate is known.
    pub(super) fn forward(&self, asked: RequestDigest, arrivals: &Arc<Arrivals>, number: u64) {
        let known = {
            let mut state = self.lock();
            if state.fate.is_none() {
                state.add(Listener::Queue { arrivals: arrivals.clone(), number, digest: asked });
            }
            state.fate.as_ref().map(|fate| fate.answer(asked))
        };
        if let Some(waker) = known.and_then(|answer| arrivals.push(number, answer)) {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while this lock is held leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers on their way to one who waits for many, in the order in which they came.
#[derive(Debug, Default)]
pub struct Arrivals(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    came: VecDeque<(u64, Answer)>,
    waker: Option<Waker>,
}

impl Arrivals {
    /// Everything that came, appended to `into`; or the task is woken when something comes.
    pub fn poll_take(&self, context: &Context<'_>, into: &mut VecDeque<(u64, Answer)>) -> Poll<()> {
        let mut queue = self.lock();
        if queue.came.is_empty() {
            match &mut queue.waker {
                Some(waker) => waker.clone_from(context.waker()),
                none => *none = Some(context.waker().clone()),
            }
            return Poll::Pending;
        }
        if into.is_empty() {
            std::mem::swap(into, &mut queue.came);
        } else {
            into.append(&mut queue.came);
        }
        Poll::Ready(())
    }

    /// Who is to be woken, if somebody waits.
    fn push(&self, number: u64, answer: Answer) -> Option<Waker> {
        let mut queue = self.lock();
        queue.came.push_back((number, answer));
        queue.waker.take()
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
