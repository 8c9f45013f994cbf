//! The log itself: append, read, follow, truncate, release.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use gapless_types::Position;
use gapless_types::limits::{LAST_LOG_NUMBER, MAX_STATE_KEYS, MAX_STATE_VALUE_BYTES};

use crate::damage::Damage;
use crate::encode::{EncodedBatch, Payloads};
use crate::error::{AppendError, OpenError, ReadError};
use crate::format::LogId;
use crate::format::control::{Control, StateKey, Suspect};
use crate::io::Io;
use crate::open::{OpenReport, open};
use crate::options::{Drive, Options};
use crate::queue::Action;
use crate::record::Record;
use crate::reserve::Urgency;
use crate::scrub::Scrub;
use crate::shared::{Entry, Shared, State};
use crate::stats::Statistics;
use crate::tail::{Follow, Tail};
use crate::threads;
use crate::ticket::{Settled, Ticket};

/// An append-only log in segment files. Clones are handles to the same log.
#[derive(Clone, Debug)]
pub struct Log(Arc<Handle>);

/// Stops the threads when the last handle goes.
#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Log {
    /// Opens the log in a directory, or creates one where there is none.
    pub fn open(
        io: Arc<dyn Io>,
        dir: impl AsRef<Path>,
        options: Options,
    ) -> Result<(Log, OpenReport), OpenError> {
        let accept_loss = options.accept_loss;
        let (shared, report) = open(io, dir.as_ref(), options)?;
        let shared = Arc::new(shared);
        let record_loss = accept_loss && !shared.state().controls.losses.is_empty();
        let threads = match shared.options.drive {
            Drive::Threads => threads::spawn(&shared).map_err(|source| OpenError::Io {
                action: "start a thread for",
                path: dir.as_ref().to_path_buf(),
                source,
            })?,
            Drive::Caller => Vec::new(),
        };
        let log = Log(Arc::new(Handle { shared, threads: Mutex::new(threads) }));
        if record_loss {
            log.record_losses().map_err(|error| OpenError::Io {
                action: "record the accepted loss in",
                path: dir.as_ref().to_path_buf(),
                source: io::Error::other(error.to_string()),
            })?;
        }
        Ok((log, report))
    }

    /// Which log this is.
    pub fn id(&self) -> LogId {
        self.0.shared.log
    }

    /// Appends a batch at `first`, which must be the next position. All of it becomes durable, or nothing.
    ///
    /// Returns at once: the records can be read, and the ticket tells when they are on stable storage.
    pub fn append<P: AsRef<[u8]>>(&self, first: Position, payloads: &[P]) -> Result<Ticket, AppendError> {
        let shared = &self.0.shared;
        check_position(first)?;
        let payloads = Payloads::check(payloads, &shared.options)?;
        let batch = payloads.encode(shared.salt, first);
        shared.enqueue(
            |state| {
                state.check_writable(&shared.options)?;
                if first != state.next {
                    return Err(AppendError::NotNext { next: state.next, given: first });
                }
                state.check_numbers(payloads.count())?;
                Ok(Some(data_entry(&batch)))
            },
            |state, ordinal, entry| state.take_in_data(ordinal, entry, batch.starts.clone()),
        )
    }

    /// Appends a batch at whatever the next position is; the ticket says which.
    pub fn append_next<P: AsRef<[u8]>>(&self, payloads: &[P]) -> Result<Ticket, AppendError> {
        let shared = &self.0.shared;
        let payloads = Payloads::check(payloads, &shared.options)?;
        let starts = payloads.starts();
        shared.enqueue(
            |state| {
                state.check_writable(&shared.options)?;
                state.check_numbers(payloads.count())?;
                Ok(Some(data_entry(&payloads.encode(shared.salt, state.next))))
            },
            |state, ordinal, entry| state.take_in_data(ordinal, entry, starts),
        )
    }

    /// Makes everything from `from` on void: a suffix that conflicts with what others agreed on.
    pub fn truncate_from(&self, from: Position) -> Result<Ticket, AppendError> {
        let shared = &self.0.shared;
        shared.enqueue(
            |state| {
                if from < state.controls.first {
                    return Err(AppendError::Released { first: state.controls.first, given: from });
                }
                if from > state.next {
                    return Err(AppendError::NotNext { next: state.next, given: from });
                }
                let entry = control_entry(shared, Action::Truncate { from }, &Control::Truncate(from));
                Ok((from < state.next).then_some(entry))
            },
            |state, _, _| {
                state.next = from;
                state.durable = state.durable.min(from);
                state.hot.truncate(from);
                state.controls.apply(&Control::Truncate(from));
                for cut in state.tails.values_mut() {
                    *cut = Some(cut.map_or(from, |earlier| earlier.min(from)));
                }
                from..from
            },
        )
    }

    /// Lets go of everything below `first`: whole segments are deleted once that is durable. If `first` lies behind the
    /// end, the log is empty and goes on there.
    pub fn release_to(&self, first: Position) -> Result<Ticket, AppendError> {
        let shared = &self.0.shared;
        check_position(first)?;
        shared.enqueue(
            |state| {
                let kept = state.catalog.first_segment_for(first).unwrap_or(state.active.number);
                let first_segment = kept.min(state.active.number).max(state.controls.first_segment);
                let action = Action::Release { first, first_segment, moves: first > state.next };
                let entry = control_entry(shared, action, &Control::Release(first, first_segment));
                Ok((first > state.controls.first).then_some(entry))
            },
            |state, _, entry| {
                if let Action::Release { first_segment, .. } = entry.action {
                    state.controls.apply(&Control::Release(first, first_segment));
                }
                state.hot.release(first);
                state.next = state.next.max(first);
                state.durable = state.durable.max(first);
                first..first
            },
        )
    }

    /// Sets a value of the small state: it survives [`Log::release_to`], and the last one counts.
    pub fn set_state(&self, key: StateKey, value: &[u8]) -> Result<Ticket, AppendError> {
        let shared = &self.0.shared;
        shared.enqueue(
            |state| {
                let states = &state.controls.states;
                let too_many = !states.contains_key(&key) && states.len() >= MAX_STATE_KEYS;
                if too_many || value.len() > MAX_STATE_VALUE_BYTES {
                    return Err(AppendError::StateTooLarge { key, bytes: value.len() });
                }
                Ok(Some(control_entry(shared, Action::Control, &Control::State(key, value))))
            },
            |state, _, _| {
                state.controls.apply(&Control::State(key, value));
                state.next..state.next
            },
        )
    }

    /// A value of the small state as last set, durable or not.
    pub fn state(&self, key: StateKey) -> Option<Bytes> {
        self.0.shared.state().controls.states.get(&key).cloned()
    }

    /// Restores a damaged position with a payload that the caller vouches for, from a peer or a backup.
    pub fn repair(&self, position: Position, payload: &[u8]) -> Result<Ticket, AppendError> {
        let shared = &self.0.shared;
        let payload = [payload];
        let payloads = Payloads::check(&payload, &shared.options)?;
        let body = payloads.encode_repair(shared.salt, position);
        // Rot in a sealed segment shows when it is read, and is no hole in the catalog.
        let rotten = matches!(self.read(position), Err(ReadError::Corrupt { .. }));
        shared.enqueue(
            |state| {
                let damaged = state.catalog.unrepaired();
                if !rotten && !damaged.iter().any(|(hole, _)| hole.contains(&position)) {
                    return Err(AppendError::NotDamaged(position));
                }
                let action = Action::Repair { position };
                Ok(Some(Entry { action, body: body.clone(), records: 1, urgency: Urgency::Control }))
            },
            |_, _, _| position..position,
        )
    }

    /// A tail that was dropped when the log was opened, now or earlier, and that nobody settled.
    pub fn suspect(&self) -> Option<Suspect> {
        self.0.shared.state().controls.suspect
    }

    /// The range of the dropped tail has been passed again; it no longer matters.
    pub fn settle_suspect(&self) -> Result<Ticket, AppendError> {
        let shared = &self.0.shared;
        shared.enqueue(
            |state| {
                let entry = control_entry(shared, Action::Control, &Control::Settled);
                Ok(state.controls.suspect.is_some().then_some(entry))
            },
            |state, _, _| {
                state.controls.apply(&Control::Settled);
                state.next..state.next
            },
        )
    }

    /// First position that is kept.
    pub fn first(&self) -> Position {
        self.0.shared.state().controls.first
    }

    /// Where the next record goes.
    pub fn next(&self) -> Position {
        self.0.shared.state().next
    }

    /// Everything below this is on stable storage.
    pub fn durable(&self) -> Position {
        self.0.shared.state().durable
    }

    /// Bytes that are written and not synced.
    pub fn unsynced_bytes(&self) -> u64 {
        self.0.shared.unsynced_bytes.load(Relaxed)
    }

    /// The record at a position, durable or not.
    pub fn read(&self, position: Position) -> Result<Record, ReadError> {
        let end = position.next().unwrap_or(position);
        let mut found = self.0.shared.read(position, end, 0)?;
        found.pop().ok_or(ReadError::NotAppended { position, next: self.next() })
    }

    /// Records from `from` on and below `end`, in order: at least one if `from` is there, about `max_bytes` at most.
    /// The caller goes on behind the last one.
    pub fn read_range(
        &self,
        from: Position,
        end: Position,
        max_bytes: u64,
    ) -> Result<Vec<Record>, ReadError> {
        if from >= end {
            return Ok(Vec::new());
        }
        self.0.shared.read(from, end, max_bytes)
    }

    /// The same as [`Log::read_range`] if memory holds it; `None` if a disk has to be waited for, or nothing is there.
    pub fn read_from_memory(&self, from: Position, end: Position, max_bytes: u64) -> Option<Vec<Record>> {
        if from >= end {
            return Some(Vec::new());
        }
        self.0.shared.read_hot(from, end, max_bytes)
    }

    /// A reader that starts at `from` and then follows.
    pub fn tail(&self, from: Position, follow: Follow) -> Tail {
        Tail::new(self.0.shared.clone(), from, follow)
    }

    /// How long whoever drives the log waits before a write, by the log's clock: nothing outside of a simulation.
    pub fn write_takes(&self) -> Duration {
        self.0.shared.options.clock.write_takes()
    }

    /// Writes everything that is queued, without waiting for a sync that the policy does not ask for.
    pub fn flush(&self) -> Settled {
        self.0.shared.flush()
    }

    /// The same, unless somebody is writing or syncing: then what is queued stays until the next time, as long as it is not more than
    /// `most_queued` bytes. Whoever appends without waiting for anything does not have to wait for a sync of others.
    pub fn flush_unless_busy(&self, most_queued: u64) -> Settled {
        self.0.shared.flush_unless_busy(most_queued)
    }

    /// Writes everything that is queued and makes it durable.
    pub fn sync(&self) -> Settled {
        self.0.shared.sync_all()
    }

    /// Does what has piled up off the commit path: footers, removal of released segments, the next segment.
    pub fn maintain(&self) -> Settled {
        self.0.shared.maintain()
    }

    /// Certifies the last frame if nothing else is queued; a log with threads does so when it is idle.
    pub fn certify(&self) -> Settled {
        self.0.shared.certify()
    }

    /// A scrub that starts with the oldest sealed segment.
    pub fn scrub(&self) -> Scrub {
        Scrub::new(self.0.shared.clone())
    }

    /// Everything that is known to be wrong, healed or not.
    pub fn damage(&self) -> Vec<Damage> {
        self.0.shared.state().damage.clone()
    }

    /// Damage that takes positions away and that nobody repaired: the log is read-only because of it.
    pub fn unrepaired(&self) -> Vec<Damage> {
        self.0.shared.state().unrepaired()
    }

    /// Counters since the log was opened.
    pub fn statistics(&self) -> Statistics {
        let state = self.0.shared.state();
        Statistics {
            queued_items: state.queue.len() as u64,
            queued_bytes: state.queue.bytes(),
            segments: state.catalog.segments.len() as u64,
            ..self.0.shared.counters.snapshot()
        }
    }

    /// Writes and syncs what is queued, leaves an index for the next opening, and gives the directory back. Other handles
    /// get [`AppendError::Closed`].
    pub fn close(self) -> Settled {
        self.0.stop();
        let shared = &self.0.shared;
        let result =
            shared.sync_all().and_then(|()| shared.do_chores()).and_then(|()| shared.write_closing_footer());
        shared.let_go();
        result
    }

    /// Gives the directory back without a word: what is queued is not written, as if the process had died. Other handles can
    /// still read; nothing is appended through them any more.
    pub fn abandon(&self) {
        if self.0.shared.abandon_queue() {
            self.0.stop();
        }
        self.0.shared.let_go();
    }

    fn record_losses(&self) -> Settled {
        let shared = &self.0.shared;
        let losses = shared.state().controls.losses.clone();
        for loss in losses {
            let ticket = shared.enqueue(
                |_| Ok(Some(control_entry(shared, Action::Control, &Control::Loss(loss)))),
                |state, _, _| state.next..state.next,
            )?;
            ticket.wait()?;
        }
        Ok(())
    }
}

impl Handle {
    /// Refuses what comes from now on, and waits until the threads have written what came before.
    fn stop(&self) {
        self.shared.state().closed = true;
        self.shared.work.notify_all();
        self.shared.upkeep.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // A thread that panicked has poisoned the state; whoever touches it next says so.
            let _ = thread.join();
        }
        let waiters = std::mem::take(&mut self.shared.state().waiters);
        crate::shared::wake_all(waiters);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.shared.options.drive == Drive::Threads {
            self.stop();
        }
        self.shared.let_go();
    }
}

fn data_entry(batch: &EncodedBatch) -> Entry {
    let action = Action::Data { first: batch.first, count: batch.count, payload_bytes: batch.payload_bytes };
    Entry { action, body: batch.body.clone(), records: batch.count, urgency: Urgency::Data }
}

fn control_entry(shared: &Shared, action: Action, control: &Control<'_>) -> Entry {
    let mut body = Vec::new();
    control.encode(shared.salt, &mut body);
    Entry { action, body: body.into(), records: 1, urgency: Urgency::Control }
}

/// Refuses a position behind the last one that a log can have.
fn check_position(position: Position) -> Settled {
    match position.get() {
        0..=LAST_LOG_NUMBER => Ok(()),
        _ => Err(AppendError::NumbersExhausted { what: "position", last: LAST_LOG_NUMBER }),
    }
}

impl State {
    /// Refuses a batch that would reach behind the last position that a log can have.
    fn check_numbers(&self, count: u64) -> Settled {
        match self.next.checked_add(count) {
            Some(end) if end.get() <= LAST_LOG_NUMBER + 1 => Ok(()),
            _ => Err(AppendError::NumbersExhausted { what: "position", last: LAST_LOG_NUMBER }),
        }
    }

    /// Makes a batch that was just queued visible to readers.
    fn take_in_data(&mut self, ordinal: u64, entry: &Entry, starts: Vec<u32>) -> std::ops::Range<Position> {
        let first = self.next;
        let end = crate::index::advance(first, u64::from(entry.records));
        self.hot.push(ordinal, first, starts, entry.body.clone());
        self.next = end;
        first..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::memory::MemoryIo;
    use crate::options::Drive;

    #[test]
    fn whoever_flushes_unless_busy_waits_for_nobody_until_too_much_is_queued() {
        let options = Options { drive: Drive::Caller, ..Options::partition() };
        let (log, _) = Log::open(Arc::new(MemoryIo::new()), "log", options).unwrap();
        let shared = &log.0.shared;
        let queued = || shared.state().queue.bytes();
        // Nobody has the writer: everything is written.
        let _later = log.append_next(&[[1; 100]]).unwrap();
        log.flush_unless_busy(0).unwrap();
        assert_eq!(queued(), 0);
        // Somebody has it: what is queued is left to him, as long as that is no more than is allowed.
        let busy = shared.lock_writer();
        let _later = log.append_next(&[[2; 100]]).unwrap();
        let most = queued();
        assert!(most > 0);
        log.flush_unless_busy(most).unwrap();
        assert_eq!(queued(), most, "it returned, and nothing was written");
        // One byte more than that, and he is waited for.
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| log.flush_unless_busy(most - 1));
            assert_eq!(queued(), most, "nobody writes without the writer");
            assert!(!waiting.is_finished(), "he still has it");
            drop(busy);
            waiting.join().unwrap().unwrap();
        });
        assert_eq!(queued(), 0);
    }
}
