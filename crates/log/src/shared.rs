//! What all handles, the writer and the readers of a log share, and the rules for getting something into its queue.
//!
//! Two locks, always taken in this order: `writer` (held while a frame is written and synced) and `state` (held for
//! moments only, never across a disk operation), so that neither readers nor appends wait for a sync.
//!
//! Must not know: how frames are written.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread::Thread;

use bytes::Bytes;
use gapless_types::limits::LAST_LOG_NUMBER;
use gapless_types::{Position, SegmentNumber};

use crate::catalog::Catalog;
use crate::chores::Chore;
use crate::damage::{Damage, Finding};
use crate::error::{AppendError, Fault};
use crate::format::{Geometry, LogId, Salt};
use crate::hot::HotTail;
use crate::io::{DirectoryLock, File, Io};
use crate::options::{DamagePolicy, Drive, Options};
use crate::queue::{Action, Queue};
use crate::reserve::{Reserve, Urgency};
use crate::segment_state::{Controls, SegmentState};
use crate::stats::{Counters, add};
use crate::ticket::{Completion, Ticket};
use crate::writer::Writer;

/// Frame numbers left over when a log takes no more: no queue ever holds as many.
const FRAMES_KEPT_FREE: u64 = 1 << 32;

/// One log, shared by everything that works on it.
pub(crate) struct Shared {
    pub(crate) io: Arc<dyn Io>,
    pub(crate) dir: PathBuf,
    pub(crate) options: Options,
    pub(crate) log: LogId,
    pub(crate) salt: Salt,
    pub(crate) counters: Counters,
    /// Bytes that are written and not synced. Changed by whoever has the writer.
    pub(crate) unsynced_bytes: AtomicU64,
    pub(crate) writer: Mutex<Writer>,
    state: Mutex<State>,
    /// One preparation at a time.
    preparing: Mutex<()>,
    /// One chore at a time.
    doing_chores: Mutex<()>,
    /// The writer thread waits here for something to write.
    pub(crate) work: Condvar,
    /// The maintenance thread waits here for something to do.
    pub(crate) upkeep: Condvar,
    /// Held until the log is closed.
    pub(crate) lock: Mutex<Option<Box<dyn DirectoryLock>>>,
}

/// What changes from append to append.
pub(crate) struct State {
    /// Where the next record goes.
    pub(crate) next: Position,
    /// Everything below this is on stable storage.
    pub(crate) durable: Position,
    /// State, releases and notices as they will be once the queue is written.
    pub(crate) controls: Controls,
    pub(crate) queue: Queue,
    pub(crate) reserve: Reserve,
    pub(crate) hot: HotTail,
    pub(crate) catalog: Catalog,
    /// The segment being written, and its file.
    pub(crate) active: SegmentState,
    pub(crate) active_file: Arc<dyn File>,
    pub(crate) next_segment: SegmentNumber,
    pub(crate) prepared: Option<Prepared>,
    /// Names of released segments' files that can be filled anew, with their lengths.
    pub(crate) spares: Vec<(String, u32)>,
    pub(crate) chores: Vec<Chore>,
    /// The last frame has records and nothing certifies it yet.
    pub(crate) uncertified: bool,
    pub(crate) fault: Option<Fault>,
    pub(crate) closed: bool,
    pub(crate) damage: Vec<Damage>,
    pub(crate) state_in_doubt: bool,
    /// Each tailing reader, and the lowest truncation it has not been told of.
    pub(crate) tails: BTreeMap<u64, Option<Position>>,
    pub(crate) next_tail: u64,
    /// Tailing readers that wait for something new.
    pub(crate) waiters: Vec<Waiter>,
}

/// A segment that is ready to be written.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) number: SegmentNumber,
    pub(crate) file: Arc<dyn File>,
    pub(crate) geometry: Geometry,
}

/// Who waits for something new in the log.
pub(crate) enum Waiter {
    Thread(Thread),
    Task(Waker),
}

impl Waiter {
    fn wake(self) {
        match self {
            Waiter::Thread(thread) => thread.unpark(),
            Waiter::Task(waker) => waker.wake(),
        }
    }
}

/// Wakes everybody in the list.
pub(crate) fn wake_all(waiters: Vec<Waiter>) {
    waiters.into_iter().for_each(Waiter::wake);
}

/// Something for the queue.
pub(crate) struct Entry {
    pub(crate) action: Action,
    pub(crate) body: Bytes,
    pub(crate) records: u32,
    pub(crate) urgency: Urgency,
}

impl Shared {
    pub(crate) fn new(
        io: Arc<dyn Io>,
        dir: PathBuf,
        options: Options,
        log: LogId,
        state: State,
        lock: Box<dyn DirectoryLock>,
    ) -> Self {
        let writer = Writer::new(state.controls.clone(), state.active.next_frame.get() - 1);
        Self {
            io,
            dir,
            options,
            log,
            salt: log.salt(),
            counters: Counters::default(),
            unsynced_bytes: AtomicU64::new(0),
            writer: Mutex::new(writer),
            state: Mutex::new(state),
            preparing: Mutex::new(()),
            doing_chores: Mutex::new(()),
            work: Condvar::new(),
            upkeep: Condvar::new(),
            lock: Mutex::new(Some(lock)),
        }
    }

    /// The state. A panic elsewhere while it was held is a bug that already ended a thread; going on with what may be
    /// half changed would be a second one.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the state of a log")
    }

    pub(crate) fn lock_writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().expect("no thread panics while it writes a frame")
    }

    pub(crate) fn lock_preparing(&self) -> MutexGuard<'_, ()> {
        // It guards no data.
        self.preparing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lock_chores(&self) -> MutexGuard<'_, ()> {
        // It guards no data.
        self.doing_chores.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an entry into the queue. `admit` decides under the lock what it is, so that it fits the state it meets;
    /// `accepted` makes it visible. Refused before anything changes if there is no room for it.
    pub(crate) fn enqueue(
        self: &Arc<Self>,
        mut admit: impl FnMut(&State) -> Result<Option<Entry>, AppendError>,
        accepted: impl FnOnce(&mut State, u64, &Entry) -> Range<Position>,
    ) -> Result<Ticket, AppendError> {
        loop {
            let mut state = self.state();
            state.check_open()?;
            state.check_frame_numbers()?;
            let Some(entry) = admit(&state)? else { return Ok(self.settled_ticket(state.next)) };
            state.check_queue(&self.options, entry.body.len() as u64)?;
            let bytes = self.options.layout.frame_bytes(length(&entry.body));
            if !state.reserve.take(bytes, entry.urgency) {
                drop(state);
                self.make_room(bytes)?;
                continue;
            }
            let completion = Arc::<Completion>::default();
            let ordinal =
                state.queue.push(entry.action, entry.body.clone(), entry.records, completion.clone());
            let positions = accepted(&mut state, ordinal, &entry);
            let waiters = std::mem::take(&mut state.waiters);
            drop(state);
            if self.options.drive == Drive::Threads {
                self.work.notify_one();
            }
            wake_all(waiters);
            return Ok(Ticket::new(positions, completion, self.driver()));
        }
    }

    /// A ticket for something that needed no writing.
    pub(crate) fn settled_ticket(self: &Arc<Self>, at: Position) -> Ticket {
        let completion = Arc::<Completion>::default();
        completion.settle(Ok(()));
        Ticket::new(at..at, completion, None)
    }

    fn driver(self: &Arc<Self>) -> Option<Arc<Shared>> {
        (self.options.drive == Drive::Caller).then(|| self.clone())
    }

    /// Makes the log unusable until it is reopened: nothing that waits will be acknowledged, and nothing is tried again.
    pub(crate) fn poison(&self, fault: Fault, unsynced: &[Arc<Completion>]) -> AppendError {
        // Also after a panic of another thread: those who wait must be told.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let fault = state.fault.get_or_insert(fault).clone();
        let failed = state.queue.drain();
        let durable = state.durable;
        state.next = durable;
        state.hot.truncate(durable);
        let waiters = std::mem::take(&mut state.waiters);
        drop(state);
        let error = AppendError::Poisoned(fault);
        for completion in unsynced.iter().chain(failed.iter().map(|item| &item.completion)) {
            completion.settle(Err(error.clone()));
        }
        wake_all(waiters);
        self.upkeep.notify_all();
        self.work.notify_all();
        error
    }

    /// Takes nothing more, forgets what is queued and tells those who wait. The writer is waited for: a frame that it has begun
    /// is written. `false` if a thread panicked with the state in hand, so that nobody can go on anyway.
    pub(crate) fn abandon_queue(&self) -> bool {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let whole = !self.state.is_poisoned();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.closed = true;
        let queued = state.queue.drain();
        drop(state);
        let unsynced = writer.take_unsynced();
        for completion in unsynced.iter().chain(queued.iter().map(|item| &item.completion)) {
            completion.settle(Err(AppendError::Closed));
        }
        whole
    }

    /// Gives the directory back.
    pub(crate) fn let_go(&self) {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Notes damage that was found while running, and raises the alarm.
    pub(crate) fn note_damage(&self, damage: &Damage) {
        add(&self.counters.checksum_errors, 1);
        let mut state = self.state();
        let known = state.damage.contains(damage);
        if !known {
            state.damage.push(damage.clone());
        }
        drop(state);
        if let Some(alarm) = self.options.alarm.as_ref().filter(|_| !known) {
            alarm(damage);
        }
    }
}

impl State {
    pub(crate) fn check_open(&self) -> Result<(), AppendError> {
        match (&self.fault, self.closed) {
            (Some(fault), _) => Err(AppendError::Poisoned(fault.clone())),
            (None, true) => Err(AppendError::Closed),
            (None, false) => Ok(()),
        }
    }

    /// Refuses more frames where their numbers end, with room for those that are queued or that an idle log writes.
    fn check_frame_numbers(&self) -> Result<(), AppendError> {
        match LAST_LOG_NUMBER - FRAMES_KEPT_FREE {
            last if self.active.next_frame.get() > last => {
                Err(AppendError::NumbersExhausted { what: "frame", last })
            }
            _ => Ok(()),
        }
    }

    fn check_queue(&self, options: &Options, bytes: u64) -> Result<(), AppendError> {
        let (queued, limit) = (self.queue.bytes(), options.max_queued_bytes);
        if !self.queue.is_empty() && queued + bytes > limit {
            return Err(AppendError::QueueFull { queued, limit });
        }
        Ok(())
    }

    /// Refuses to append to a log with damage, unless its owner wants to.
    pub(crate) fn check_writable(&self, options: &Options) -> Result<(), AppendError> {
        if options.damage == DamagePolicy::KeepAppending {
            return Ok(());
        }
        match self.unrepaired().into_iter().next() {
            Some(damage) => Err(AppendError::ReadOnly(Box::new(damage))),
            None => Ok(()),
        }
    }

    /// Damage that takes positions away and that nobody repaired.
    pub(crate) fn unrepaired(&self) -> Vec<Damage> {
        let holes = self.catalog.unrepaired();
        let accepted = |positions: &Range<Position>| {
            self.controls.losses.iter().any(|loss| loss.first <= positions.start && positions.end <= loss.end)
        };
        holes
            .into_iter()
            .filter(|(positions, _)| !accepted(positions))
            .map(|(positions, segment)| {
                let known = self.damage.iter().find(|damage| {
                    damage.segment == segment
                        && damage.positions.iter().any(|range| range.contains(&positions.start))
                });
                let known = known.cloned().unwrap_or(Damage::at(Finding::CorruptFrame, segment, 0..0));
                Damage { positions: vec![positions], rescued: 0, ..known }
            })
            .collect()
    }
}

/// Length of encoded records; they were checked against the frame limit.
pub(crate) fn length(body: &Bytes) -> u32 {
    u32::try_from(body.len()).expect("a batch is checked against the frame limit before it is queued")
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("dir", &self.dir).field("log", &self.log).finish_non_exhaustive()
    }
}
