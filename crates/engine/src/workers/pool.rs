//! Threads for work that may wait for a disk.
//!
//! So many as the pool is wide take jobs in turn, so that small jobs share threads that are awake instead of waking one each.
//! A job that waits for its disk holds up those behind it only for a moment: a watch looks after jobs while others wait, and one
//! that takes long does not count as one of those threads any more. One that is known to take long never counts as one of them.
//!
//! To wake a thread costs more than a small job. A few small ones wait for a thread that is awake and does others like them, rather
//! than have another one woken; if that one is stuck after all, the watch notices.
//!
//! ```text
//!  jobs ──────▶ queue ──┐
//!                       ├──▶ threads that are awake: at most width, and one more for each that is stuck or takes long
//!  long jobs ─▶ queue ──┘       ▲
//!                             watch: looks while jobs wait
//! ```
//!
//! Invariants
//! - ISO-1: a job is taken after two looks of the watch at the latest, unless threads that are not stuck take others, or there are
//!   as many threads as there may be.
//! - A job that was taken in runs, also if the pool is dropped meanwhile.
//! - A job that panics ends alone: whoever looks after panics is told, and the thread goes on.
//!
//! Must not know: what a job does.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

/// A job that runs as long as this is stuck; also the time between two looks.
const STUCK_AFTER: Duration = Duration::from_millis(1);
/// A thread that nobody needs for so long ends.
const IDLE_FOR: Duration = Duration::from_secs(10);
/// Most threads, stuck or not.
const MOST_THREADS: usize = 1024;

/// Small jobs that wait for one thread rather than have another woken.
const SMALL_FOR_ONE: usize = 8;

type Job = Box<dyn FnOnce() + Send>;

/// Where one thread sleeps.
#[derive(Debug, Default)]
struct Bed {
    called: Condvar,
}

/// How long a job takes, as far as whoever submits it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Less than to wake a thread, unless it has to wait for a disk.
    Small,
    /// Nobody knows.
    Any,
    /// Counts as stuck from the beginning.
    Long,
}

/// Threads that run jobs. When it is dropped, they end after the last job.
#[derive(Debug)]
pub(crate) struct Pool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    width: usize,
    state: Mutex<State>,
    /// For the watch.
    waiting: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<(Job, Kind)>,
    /// Those that are known to take long.
    long: VecDeque<Job>,
    /// Jobs that wait or run of which nobody knows how long they take.
    unknown: usize,
    /// When jobs that run began, by their numbers, and whether they are stuck.
    running: BTreeMap<u64, (Instant, bool)>,
    /// Threads that run a job or are about to look for one.
    awake: usize,
    /// Threads that sleep and were not called, the one that went to sleep last at the end. It is called first: the processor knows best
    /// what it does.
    asleep: Vec<Arc<Bed>>,
    stuck: usize,
    next_job: u64,
    /// Whether the watch looks.
    watched: bool,
    closed: bool,
}

impl Pool {
    /// A pool with this many threads for jobs that are not stuck.
    pub(super) fn new(width: usize) -> io::Result<Self> {
        let shared = Arc::new(Shared { width, state: Mutex::default(), waiting: Condvar::new() });
        let watch = shared.clone();
        thread::Builder::new().name("work-watch".to_owned()).spawn(move || watch.watch())?;
        Ok(Self(shared))
    }

    pub(super) fn submit(&self, job: impl FnOnce() + Send + 'static) {
        let mut state = self.0.lock();
        state.queue.push_back((Box::new(job), Kind::Any));
        state.unknown += 1;
        let called = self.0.call_or_watch(&mut state);
        drop(state);
        called.wake();
    }

    /// The same for a job that takes less than to wake a thread.
    pub(super) fn submit_small(&self, job: impl FnOnce() + Send + 'static) {
        let mut state = self.0.lock();
        state.queue.push_back((Box::new(job), Kind::Small));
        let called = match state.is_taken_soon() {
            true => self.0.watch_over(&mut state),
            false => self.0.call_or_watch(&mut state),
        };
        drop(state);
        called.wake();
    }

    /// The same for a job that will wait for a disk: it takes no thread away from the others.
    pub(super) fn submit_long(&self, job: impl FnOnce() + Send + 'static) {
        let mut state = self.0.lock();
        state.long.push_back(Box::new(job));
        state.stuck += 1;
        let called = self.0.call_or_watch(&mut state);
        drop(state);
        called.wake();
    }

    /// Whether jobs wait for a thread, but for those that take long.
    pub(super) fn has_jobs(&self) -> bool {
        !self.0.lock().queue.is_empty()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.closed = true;
        state.asleep.iter().for_each(|bed| bed.called.notify_one());
        drop(state);
        self.0.waiting.notify_one();
    }
}

impl State {
    fn has_jobs(&self) -> bool {
        !self.queue.is_empty() || !self.long.is_empty()
    }

    /// The next job. Those that take long come first: a thread was called for each of them.
    fn take(&mut self) -> Option<(Job, Kind)> {
        let long = self.long.pop_front().map(|job| (job, Kind::Long));
        long.or_else(|| self.queue.pop_front())
    }

    /// Where among those that sleep and were not called a bed is.
    fn place_of(&self, bed: &Arc<Bed>) -> Option<usize> {
        self.asleep.iter().rposition(|other| Arc::ptr_eq(other, bed))
    }

    /// Whether threads that are awake come to the last job that waits in a moment: there are few, and all of them are small.
    fn is_taken_soon(&self) -> bool {
        let awake = self.awake.saturating_sub(self.stuck);
        self.unknown == 0 && self.queue.len() <= awake * SMALL_FOR_ONE
    }
}

impl Bed {
    /// Until this thread is called, nobody needed it for long, or the pool is closed.
    fn sleep<'a>(self: &Arc<Self>, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let needless = |state: &mut State| state.place_of(self).is_some() && !state.closed;
        let slept = self.called.wait_timeout_while(state, IDLE_FOR, needless);
        slept.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Who is to be woken, once he finds the lock free.
#[must_use]
enum Called<'a> {
    Nobody,
    Sleeper(Arc<Bed>),
    Watch(&'a Condvar),
}

impl Called<'_> {
    fn wake(self) {
        match self {
            Called::Nobody => {}
            Called::Sleeper(bed) => bed.called.notify_one(),
            Called::Watch(waiting) => waiting.notify_one(),
        }
    }
}

impl Shared {
    fn call_or_watch(self: &Arc<Self>, state: &mut State) -> Called<'_> {
        self.call(state).unwrap_or_else(|| self.watch_over(state))
    }

    /// Has the watch look after what waits.
    fn watch_over(&self, state: &mut State) -> Called<'_> {
        match std::mem::replace(&mut state.watched, true) {
            true => Called::Nobody,
            false => Called::Watch(&self.waiting),
        }
    }

    /// Has one more thread look for jobs, if it may. None if it does not.
    fn call(self: &Arc<Self>, state: &mut State) -> Option<Called<'static>> {
        if state.awake >= (self.width + state.stuck).min(MOST_THREADS) {
            return None;
        }
        let called = match state.asleep.pop() {
            Some(bed) => Called::Sleeper(bed),
            None => {
                let shared = self.clone();
                let started = thread::Builder::new().name("work".to_owned()).spawn(move || shared.work());
                // If there cannot be one more, the watch tries again.
                started.is_ok().then_some(Called::Nobody)?
            }
        };
        state.awake += 1;
        Some(called)
    }

    /// What a thread does.
    fn work(self: Arc<Self>) {
        let bed = Arc::new(Bed::default());
        let mut state = self.lock();
        loop {
            // One that comes back from being stuck may be one too many.
            let may_take = state.awake <= self.width + state.stuck;
            if let Some((job, kind)) = may_take.then(|| state.take()).flatten() {
                let number = state.next_job;
                state.next_job += 1;
                state.running.insert(number, (Instant::now(), kind == Kind::Long));
                drop(state);
                let _ = catch_unwind(AssertUnwindSafe(job));
                state = self.lock();
                let (_, was_stuck) = state.running.remove(&number).expect("a job runs until it ends");
                state.stuck -= usize::from(was_stuck);
                state.unknown -= usize::from(kind == Kind::Any);
                continue;
            }
            state.awake -= 1;
            if state.closed && !state.has_jobs() {
                return;
            }
            state.asleep.push(bed.clone());
            state = bed.sleep(state);
            if let Some(place) = state.place_of(&bed) {
                state.asleep.remove(place);
                if !state.closed {
                    return;
                }
                state.awake += 1;
            }
        }
    }

    /// What the watch does.
    fn watch(self: Arc<Self>) {
        let mut state = self.lock();
        loop {
            if !state.has_jobs() {
                if state.closed {
                    return;
                }
                state.watched = false;
                let rests = |state: &mut State| !state.watched && !state.closed;
                state = self.waiting.wait_while(state, rests).unwrap_or_else(PoisonError::into_inner);
            }
            drop(state);
            // Nothing else tells that a job is stuck. This thread sleeps only while jobs wait, and holds nothing meanwhile.
            thread::sleep(STUCK_AFTER);
            state = self.lock();
            let mut stuck = 0;
            for (began, is_stuck) in state.running.values_mut().filter(|(_, is_stuck)| !is_stuck) {
                *is_stuck = began.elapsed() >= STUCK_AFTER;
                stuck += usize::from(*is_stuck);
            }
            state.stuck += stuck;
            let jobs = state.queue.len() + state.long.len();
            let called: Vec<_> = (0..jobs).map_while(|_| self.call(&mut state)).collect();
            drop(state);
            called.into_iter().for_each(Called::wake);
            state = self.lock();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Jobs run without it, so that nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("State")
            .field("queued", &self.queue.len())
            .field("long", &self.long.len())
            .field("awake", &self.awake)
            .field("stuck", &self.stuck)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Far more than anything here takes; only a pool that hangs meets it.
    const LIMIT: Duration = Duration::from_secs(60);

    #[test]
    fn every_job_runs_once_whoever_submits_it() {
        let pool = Arc::new(Pool::new(2).unwrap());
        let (done, results) = mpsc::channel();
        let submitters: Vec<_> = (0..4)
            .map(|submitter| {
                let (pool, done) = (pool.clone(), done.clone());
                thread::spawn(move || {
                    for job in 0..1000 {
                        let done = done.clone();
                        pool.submit(move || done.send(submitter * 1000 + job).unwrap());
                    }
                })
            })
            .collect();
        for submitter in submitters {
            submitter.join().unwrap();
        }
        let mut ran: Vec<u32> = (0..4000).map(|_| results.recv_timeout(LIMIT).unwrap()).collect();
        ran.sort_unstable();
        assert_eq!(ran, (0..4000).collect::<Vec<_>>());
    }

    #[test]
    fn stuck_jobs_hold_up_nobody() {
        let pool = Pool::new(2).unwrap();
        let (done, results) = mpsc::channel();
        let mut gates = Vec::new();
        for stuck in 0..20 {
            let (open, gate) = mpsc::channel::<()>();
            gates.push(open);
            pool.submit(move || assert!(gate.recv().is_err()));
            let done = done.clone();
            pool.submit(move || done.send(stuck).unwrap());
            assert_eq!(results.recv_timeout(LIMIT), Ok(stuck));
        }
        assert!(pool.0.lock().awake >= 20);
        drop(gates);
        let mut looks = 0;
        while pool.0.lock().stuck > 0 {
            looks += 1;
            assert!(looks < 1_000_000, "those that are not stuck any more are not counted as such");
            thread::yield_now();
        }
        pool.submit(move || done.send(100).unwrap());
        assert_eq!(results.recv_timeout(LIMIT), Ok(100));
    }

    #[test]
    fn long_jobs_take_no_thread_away_from_others() {
        let pool = Pool::new(1).unwrap();
        let (done, results) = mpsc::channel();
        let (open, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        for long in 0..10 {
            let (done, gate) = (done.clone(), gate.clone());
            pool.submit_long(move || {
                // Whoever has the gate waits for it, and all the others for him.
                assert!(gate.lock().unwrap().recv().is_err());
                done.send(100 + long).unwrap();
            });
        }
        assert!(!pool.has_jobs(), "nobody gives his thread up for them");
        pool.submit(move || done.send(1).unwrap());
        assert_eq!(results.recv_timeout(LIMIT), Ok(1));
        drop(open);
        let mut ran: Vec<u32> = (0..10).map(|_| results.recv_timeout(LIMIT).unwrap()).collect();
        ran.sort_unstable();
        assert_eq!(ran, (100..110).collect::<Vec<_>>());
        let mut looks = 0;
        while pool.0.lock().stuck > 0 {
            looks += 1;
            assert!(looks < 1_000_000, "those that ended are not counted any more");
            thread::yield_now();
        }
    }

    #[test]
    fn who_went_to_sleep_last_is_called_first() {
        let pool = Pool::new(2).unwrap();
        let only_these_are_awake = |count: usize| {
            let mut looks = 0;
            while pool.0.lock().awake != count {
                looks += 1;
                assert!(looks < 1_000_000, "threads without a job sleep");
                thread::yield_now();
            }
        };
        let (tell, told) = mpsc::channel();
        let gates: Vec<_> = (0..2)
            .map(|_| {
                let (open, gate) = mpsc::channel::<()>();
                let tell = tell.clone();
                pool.submit(move || {
                    tell.send(thread::current().id()).unwrap();
                    assert!(gate.recv().is_err());
                });
                (told.recv_timeout(LIMIT).unwrap(), open)
            })
            .collect();
        let last = gates[1].0;
        assert_ne!(gates[0].0, last);
        for (asleep, (_, open)) in (1..).zip(gates) {
            drop(open);
            only_these_are_awake(2 - asleep);
        }
        for _ in 0..3 {
            let tell = tell.clone();
            pool.submit(move || tell.send(thread::current().id()).unwrap());
            assert_eq!(told.recv_timeout(LIMIT), Ok(last));
            only_these_are_awake(0);
        }
    }

    #[test]
    fn few_small_jobs_wait_for_a_thread_that_is_awake_and_no_longer_than_that() {
        let pool = Pool::new(4).unwrap();
        let (done, results) = mpsc::channel();
        let (go, gate) = mpsc::channel::<()>();
        // So that nothing is submitted while the pool looks for jobs.
        let submit = |state: &mut MutexGuard<'_, State>, job: u32| {
            let done = done.clone();
            state.queue.push_back((Box::new(move || done.send(job).unwrap()), Kind::Small));
            state.is_taken_soon()
        };
        {
            let mut state = pool.0.lock();
            assert!(!submit(&mut state, 0), "nobody is awake");
            state.awake = 1;
            assert!((1..8).all(|job| submit(&mut state, job)));
            assert!(!submit(&mut state, 8), "too many for one thread");
            state.stuck = 1;
            assert!(!state.is_taken_soon(), "whoever is awake is stuck");
            (state.awake, state.stuck) = (0, 0);
        }
        // A small job that is stuck after all holds nobody up, nor does one of which nobody knows how long it takes.
        pool.submit_small(move || assert!(gate.recv().is_err()));
        pool.submit_small({
            let done = done.clone();
            move || done.send(9).unwrap()
        });
        let mut ran: Vec<u32> = (0..10).map(|_| results.recv_timeout(LIMIT).unwrap()).collect();
        ran.sort_unstable();
        assert_eq!(ran, (0..10).collect::<Vec<_>>());
        drop(go);
        pool.submit(move || done.send(10).unwrap());
        assert_eq!(results.recv_timeout(LIMIT), Ok(10));
        let mut looks = 0;
        while pool.0.lock().unknown > 0 {
            looks += 1;
            assert!(looks < 1_000_000, "what ended does not count any more");
            thread::yield_now();
        }
    }

    #[test]
    fn a_job_that_panics_takes_nobody_along() {
        let pool = Pool::new(1).unwrap();
        let (done, results) = mpsc::channel();
        for job in 0..3 {
            pool.submit(|| panic!("this job panics, as it should"));
            pool.submit_long(|| panic!("and this one"));
            let done = done.clone();
            pool.submit(move || done.send(job).unwrap());
            assert_eq!(results.recv_timeout(LIMIT), Ok(job));
        }
    }

    #[test]
    fn what_was_submitted_runs_also_if_the_pool_is_dropped() {
        let (done, results) = mpsc::channel();
        let (open, gate) = mpsc::channel::<()>();
        let pool = Pool::new(1).unwrap();
        pool.submit(move || assert!(gate.recv().is_err()));
        for job in 0..10 {
            let done = done.clone();
            pool.submit(move || done.send(job).unwrap());
        }
        drop((pool, open, done));
        assert_eq!(results.iter().collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    }
}
