//! Flush, flusher, actualizer and close in many orders, chosen by a scheduler that runs one thread at a time.
//!
//! `cargo test -p gapless-sequencer --features shuttle --test interleavings -- --nocapture` prints how many schedules were
//! tried. A failing one is printed by the scheduler, and can be replayed.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test that cannot go on has failed")]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gapless_sequencer::memory::{Call, Disturbance, MemoryStorage};
use gapless_sequencer::{Clock, Drive, Ending, Params, SequenceValue, Sequencer, Spawn, StartError};
use gapless_types::{SequenceId, WorkspaceId, WorkspaceKind};

const KIND: WorkspaceKind = WorkspaceKind::new(1);
const SEQUENCE: SequenceId = SequenceId::new(1);

/// The scheduler's threads.
struct Threads;

impl Spawn for Threads {
    fn spawn(&self, _: &str, work: Box<dyn FnOnce() + Send>) -> io::Result<()> {
        shuttle::thread::spawn(work);
        Ok(())
    }
}

/// A clock that goes on by a millisecond whenever somebody looks, so that every delay passes.
#[derive(Debug, Default)]
struct Ticking(AtomicU64);

impl Clock for Ticking {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

fn params() -> Params {
    Params {
        max_unflushed: 1,
        max_lag: 3,
        flush_delay: Duration::from_millis(2),
        retry_delay: Duration::from_millis(4),
        close_timeout: Duration::from_secs(3600),
        clock: Arc::new(Ticking::default()),
        ..Params::new()
    }
    .with_kind(KIND, [(SEQUENCE, 1)])
    .with_cache_entries(1)
}

/// What the log holds: the last number of each of two workspaces, and the next offset.
struct Log {
    storage: MemoryStorage,
    last: [u64; 2],
    next_offset: u64,
}

impl Log {
    fn new() -> Self {
        Self { storage: MemoryStorage::new(), last: [0; 2], next_offset: 1 }
    }

    fn open(&self) -> Sequencer<MemoryStorage> {
        Sequencer::new(params(), self.storage.successor(), Drive::Thread(&Threads)).unwrap()
    }

    /// One event, as soon as it is let in: numbers and offset are those that follow from the log.
    fn event(&mut self, sequencer: &mut Sequencer<MemoryStorage>, workspace: u64, commit: bool) {
        loop {
            match sequencer.start(KIND, WorkspaceId::new(workspace)) {
                Ok(mut transaction) => {
                    assert_eq!(transaction.offset().get(), self.next_offset, "offsets: exactly last + 1");
                    let number = transaction.next(SEQUENCE).unwrap();
                    let last = &mut self.last[usize::try_from(workspace).unwrap()];
                    assert_eq!(number, *last + 1, "numbers go up by exactly 1");
                    if commit {
                        *last = number;
                        self.next_offset += 1;
                        let value = SequenceValue {
                            workspace: WorkspaceId::new(workspace),
                            sequence: SEQUENCE,
                            number,
                        };
                        self.storage.append(transaction.offset(), [value]);
                        transaction.flush();
                    }
                    return;
                }
                Err(StartError::Busy(_)) => shuttle::thread::yield_now(),
                Err(other) => panic!("{other}"),
            }
        }
    }

    /// Stored values are never behind the stored offset. Each event takes one number of one of two workspaces, so that
    /// the numbers of both add up to the events below the offset.
    fn check_store(&self) {
        let (offset, values) = self.storage.stored();
        let numbers: u64 = values.iter().map(|value| value.number).sum();
        assert_eq!(numbers, offset.max(1) - 1, "values and offset together");
    }
}

fn explore(name: &str, schedules: usize, story: fn()) {
    let tried = Arc::new(AtomicU64::new(0));
    let counted = tried.clone();
    let story = move || {
        counted.fetch_add(1, Ordering::Relaxed);
        story();
    };
    shuttle::check_random(story.clone(), schedules / 2);
    // Few changes of thread, at the worst places.
    shuttle::check_pct(story, schedules / 2, 4);
    println!("{name}: {} schedules tried", tried.load(Ordering::Relaxed));
}

#[test]
fn flush_and_flusher() {
    explore("flush and flusher", 20_000, || {
        let mut log = Log::new();
        let mut sequencer = log.open();
        for workspace in [0, 1, 0, 0] {
            log.event(&mut sequencer, workspace, true);
            log.check_store();
        }
        assert_eq!(sequencer.close(), Ending::Stopped);
        log.check_store();
        assert_eq!(log.storage.stored_offset(), 5);
    });
}

#[test]
fn flush_flusher_and_actualizer() {
    explore("flush, flusher and actualizer", 20_000, || {
        let mut log = Log::new();
        let mut sequencer = log.open();
        for (workspace, commit) in [(0, true), (1, true), (0, false), (0, true), (1, false), (1, true)] {
            log.event(&mut sequencer, workspace, commit);
            log.check_store();
        }
        drop(sequencer);
        let mut sequencer = log.open();
        log.event(&mut sequencer, 0, true);
        log.check_store();
    });
}

#[test]
fn failing_writes_and_actualizer() {
    explore("failing writes and actualizer", 20_000, || {
        let mut log = Log::new();
        log.storage.disturb_nth(Call::Write, 1, Disturbance::Fail);
        log.storage.disturb_nth(Call::Write, 2, Disturbance::FailAfter);
        log.storage.disturb_nth(Call::Scan, 2, Disturbance::Fail);
        let mut sequencer = log.open();
        for (workspace, commit) in [(0, true), (1, false), (1, true), (0, true), (0, false), (0, true)] {
            log.event(&mut sequencer, workspace, commit);
            log.check_store();
        }
        drop(sequencer);
        log.check_store();
    });
}

#[test]
fn close_at_any_moment() {
    explore("close at any moment", 20_000, || {
        let mut log = Log::new();
        for events in [0, 1, 2] {
            let mut sequencer = log.open();
            for workspace in 0..events {
                log.event(&mut sequencer, workspace % 2, true);
            }
            assert_eq!(sequencer.close(), Ending::Stopped);
            assert_eq!(sequencer.close(), Ending::Stopped);
            log.check_store();
        }
        // And while writes fail for ever.
        log.storage.disturb(Call::Write, Disturbance::Fail);
        let mut sequencer = log.open();
        log.event(&mut sequencer, 0, true);
        assert_eq!(sequencer.close(), Ending::Stopped);
        log.check_store();
    });
}
