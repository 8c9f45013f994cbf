//! The log with its own threads, on real files and in memory: many writers, readers that follow, graceful ends.

#![allow(
    clippy::unwrap_used,
    clippy::let_underscore_future,
    reason = "the first thing that does not hold ends the test"
)]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use gapless_log::io::faulty::{FaultyIo, OperationKind};
use gapless_log::io::memory::MemoryIo;
use gapless_log::io::real::RealIo;
use gapless_log::io::{DirectoryLock, File, Io, OpenMode};
use gapless_log::{
    AppendError, Depth, Drive, Follow, Log, Options, ReadError, TailError, TailEvent, inspect,
};
use gapless_types::Position;

fn options() -> Options {
    Options { first_segment_bytes: 256 << 10, segment_bytes: 256 << 10, ..Options::replicated() }
}

fn at(position: u64) -> Position {
    Position::new(position)
}

#[test]
fn many_writers_on_real_files_share_syncs_and_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (log, _) = Log::open(Arc::new(RealIo), dir.path(), options()).unwrap();
    let mut positions = BTreeSet::new();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8u8)
            .map(|writer| {
                let log = &log;
                scope.spawn(move || {
                    let append = |n: u32| {
                        let payload = [&[writer][..], &n.to_le_bytes(), &[b'.'; 700]].concat();
                        let ticket = log.append_next(&[payload]).unwrap();
                        let position = ticket.positions().start;
                        ticket.wait().unwrap();
                        assert!(log.durable() > position, "acknowledged means durable");
                        position.get()
                    };
                    (0..150).map(append).collect::<Vec<u64>>()
                })
            })
            .collect();
        for writer in writers {
            let own = writer.join().unwrap();
            assert!(own.is_sorted());
            positions.extend(own);
        }
    });
    assert_eq!(positions, (1..=1200).collect(), "dense, each position once");
    let statistics = log.statistics();
    assert_eq!(statistics.records, 1200);
    assert!(statistics.syncs <= statistics.frames, "one sync for a frame, never more");
    log.close().unwrap();
    let (log, report) = Log::open(Arc::new(RealIo), dir.path(), options()).unwrap();
    assert_eq!((report.damage, log.next()), (vec![], at(1201)));
    let mut counts = [0u32; 8];
    for position in 1..=1200 {
        let payload = log.read(at(position)).unwrap().payload;
        let writer = usize::from(payload[0]);
        assert_eq!(payload[1..5], counts[writer].to_le_bytes(), "a writer's records keep their order");
        counts[writer] += 1;
    }
}

#[test]
fn tailing_readers_see_every_record_once_while_writers_write() {
    const RECORDS: u64 = 3000;
    let (log, _) =
        Log::open(Arc::new(MemoryIo::new()), "log", Options { hot_bytes: 20_000, ..options() }).unwrap();
    std::thread::scope(|scope| {
        for follow in [Follow::Appended, Follow::Durable, Follow::Durable] {
            let mut tail = log.tail(at(1), follow);
            scope.spawn(move || {
                let mut next = 1;
                while next <= RECORDS {
                    let TailEvent::Records(records) = tail.next(5000).unwrap() else {
                        panic!("nothing is truncated")
                    };
                    for record in records {
                        assert_eq!(record.position, at(next));
                        assert_eq!(&record.payload[..8], next.to_le_bytes());
                        next += 1;
                    }
                }
            });
        }
        for position in 1..=RECORDS {
            let payload = [&position.to_le_bytes()[..], &[0; 300]].concat();
            let ticket = log.append(at(position), &[payload]).unwrap();
            if position % 7 == 0 {
                ticket.wait().unwrap();
            }
        }
    });
}

#[test]
fn a_tail_is_told_of_truncations_and_of_the_end() {
    let caller = Options { drive: Drive::Caller, ..options() };
    let (log, _) = Log::open(Arc::new(MemoryIo::new()), "log", caller).unwrap();
    let _ = log.append_next(&[b"1", b"2", b"3"]).unwrap();
    let mut appended = log.tail(at(1), Follow::Appended);
    let mut durable = log.tail(at(1), Follow::Durable);
    let positions = |event: Option<TailEvent>| match event {
        Some(TailEvent::Records(records)) => records.iter().map(|record| record.position.get()).collect(),
        Some(TailEvent::Truncated(from)) => vec![1000 + from.get()],
        None => vec![],
    };
    assert_eq!(positions(appended.try_next(1000).unwrap()), [1, 2, 3]);
    assert_eq!(positions(durable.try_next(1000).unwrap()), [] as [u64; 0]);
    log.sync().unwrap();
    assert_eq!(positions(durable.try_next(0).unwrap()), [1]);
    let _ = log.truncate_from(at(2)).unwrap();
    let _ = log.append_next(&[b"new 2"]).unwrap();
    assert_eq!(positions(appended.try_next(1000).unwrap()), [1002], "told first");
    assert_eq!(positions(appended.try_next(1000).unwrap()), [2]);
    assert_eq!(positions(durable.try_next(1000).unwrap()), [] as [u64; 0], "it had not read 2");
    log.sync().unwrap();
    assert_eq!(positions(durable.try_next(1000).unwrap()), [2]);
    log.release_to(at(3)).unwrap().wait().unwrap();
    let mut late = log.tail(at(1), Follow::Durable);
    assert!(matches!(late.try_next(1000), Ok(None) | Err(TailError::Read(_))));
    log.close().unwrap();
    assert!(matches!(durable.try_next(1000), Err(TailError::Closed)));
}

#[test]
fn a_reader_never_waits_for_a_sync() {
    // The disk's sync blocks until the reader has read what is being synced.
    let gate = Arc::new(Gate::default());
    let io = GatedIo { inner: MemoryIo::new(), gate: gate.clone(), at: GateAt::Sync };
    let (log, _) = Log::open(Arc::new(io), "log", options()).unwrap();
    log.maintain().unwrap();
    let _opens = gate.close();
    let ticket = log.append_next(&[b"under way"]).unwrap();
    gate.wait_until_someone_waits();
    assert_eq!(log.read(at(1)).unwrap().payload, b"under way" as &[u8]);
    let second = log.append_next(&[b"queued behind it"]).unwrap();
    assert_eq!(log.read(at(2)).unwrap().payload, b"queued behind it" as &[u8]);
    assert!(ticket.settled().is_none() && second.settled().is_none());
    gate.open();
    ticket.wait().unwrap();
    second.wait().unwrap();
    log.close().unwrap();
}

#[test]
fn maintenance_while_a_segment_is_begun_never_gives_its_number_out_again() {
    let gate = Arc::new(Gate::default());
    let disk = MemoryIo::new();
    let io = GatedIo { inner: disk.clone(), gate: gate.clone(), at: GateAt::BeginningOfSegment };
    let (log, _) = Log::open(Arc::new(io), "log", options()).unwrap();
    log.maintain().unwrap();
    let _opens = gate.close();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for _ in 0..60 {
                log.append_next(&vec![[7; 1000]; 20]).unwrap().wait().unwrap();
            }
        });
        // The writer has taken the prepared segment and is about to write its first block.
        gate.wait_until_someone_waits();
        log.maintain().unwrap();
        gate.open();
        writer.join().unwrap();
    });
    log.close().unwrap();
    let survey = inspect(&disk, Path::new("log"), Depth::EveryFrame, &mut |_| {}).unwrap();
    assert_eq!((survey.damage, survey.missing), (vec![], vec![]));
    assert_eq!(survey.next, at(60 * 20 + 1));
}

#[test]
fn what_a_truncation_on_its_way_cuts_off_is_not_durable_when_an_earlier_frame_is() {
    let gate = Arc::new(Gate::default());
    let io = GatedIo { inner: MemoryIo::new(), gate: gate.clone(), at: GateAt::Sync };
    let (log, _) = Log::open(Arc::new(io), "log", options()).unwrap();
    log.maintain().unwrap();
    let _opens = gate.close();
    let old = log.append_next(&["1", "2", "old 3", "old 4"]).unwrap();
    gate.wait_until_someone_waits();
    let cut = log.truncate_from(at(3)).unwrap();
    let new = log.append(at(3), &[b"new 3"]).unwrap();
    gate.let_one_pass();
    old.wait().unwrap();
    assert_eq!((log.next(), log.durable()), (at(4), at(3)), "1 and 2 are durable, the new 3 is not");
    assert!(new.settled().is_none());
    gate.open();
    cut.wait().unwrap();
    new.wait().unwrap();
    assert_eq!(log.durable(), at(4));
    log.close().unwrap();
}

#[test]
fn a_read_that_a_release_overtakes_is_told_so_and_not_of_damage() {
    let gate = Arc::new(Gate::default());
    let io = GatedIo { inner: MemoryIo::new(), gate: gate.clone(), at: GateAt::Read };
    let small = Options { hot_bytes: 0, drive: Drive::Caller, ..options() };
    let (log, _) = Log::open(Arc::new(io), "log", small).unwrap();
    for _ in 0..20 {
        log.append_next(&vec![[5; 4000]; 10]).unwrap().wait().unwrap();
        log.maintain().unwrap();
    }
    assert_eq!(log.read(at(1)).unwrap().payload.len(), 4000, "its index is in memory now");
    let _opens = gate.close();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| log.read(at(2)));
        gate.wait_until_someone_waits();
        log.release_to(at(150)).unwrap().wait().unwrap();
        log.maintain().unwrap();
        for _ in 0..10 {
            // The released file is filled with zeros and used again.
            log.append_next(&vec![[5; 4000]; 10]).unwrap().wait().unwrap();
            log.maintain().unwrap();
        }
        gate.open();
        let read = reader.join().unwrap();
        assert!(matches!(read, Err(ReadError::Released { .. })), "{read:?}");
    });
    assert!(log.statistics().segments_recycled > 0);
    assert_eq!((log.damage(), log.statistics().checksum_errors), (vec![], 0));
}

#[test]
fn readers_and_the_scrub_take_a_released_segment_for_released_and_not_for_damaged() {
    let recycling = Options { hot_bytes: 0, cached_indexes: 1, ..options() };
    let (log, _) = Log::open(Arc::new(MemoryIo::new()), "log", recycling).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seed = 1u64;
            while !done.load(Ordering::SeqCst) {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let (first, next) = (log.first().get(), log.next().get());
                let position = first.saturating_sub(20) + (seed >> 33) % (next - first + 40);
                match log.read(at(position)) {
                    Ok(record) => assert_eq!(record.payload[..8], position.to_le_bytes()),
                    Err(ReadError::Released { .. } | ReadError::NotAppended { .. }) => {}
                    Err(error) => panic!("{position}: {error}"),
                }
            }
        });
        let scrubber = scope.spawn(|| {
            let mut scrub = log.scrub();
            while !done.load(Ordering::SeqCst) {
                if let Some(step) = scrub.step().unwrap() {
                    assert_eq!(step.damage, []);
                }
            }
        });
        for batch in 0..400u64 {
            let payload = |n: u64| [&(batch * 10 + n + 1).to_le_bytes()[..], &[3; 2000]].concat();
            let payloads: Vec<_> = (0..10).map(payload).collect();
            log.append_next(&payloads).unwrap().wait().unwrap();
            if batch % 20 == 19 {
                log.release_to(at(batch * 10 - 50)).unwrap().wait().unwrap();
                log.maintain().unwrap();
            }
        }
        done.store(true, Ordering::SeqCst);
        reader.join().unwrap();
        scrubber.join().unwrap();
    });
    assert!(log.statistics().segments_recycled > 0);
    assert_eq!((log.damage(), log.statistics().checksum_errors), (vec![], 0));
}

#[test]
fn a_failing_sync_fails_every_waiter_of_a_log_with_threads() {
    let io = FaultyIo::new(3);
    let (log, _) = Log::open(Arc::new(io.clone()), "log", options()).unwrap();
    log.append_next(&[b"safe"]).unwrap().wait().unwrap();
    // The next segment is prepared: the next sync is a frame's.
    log.maintain().unwrap();
    io.fail_at(io.operations() + 1, OperationKind::Sync);
    let failed = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    (0..100).find_map(|_| log.append_next(&[b"x"]).and_then(gapless_log::Ticket::wait).err())
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(failed.iter().all(|error| matches!(error, Some(AppendError::Poisoned(_)))), "{failed:?}");
    let mut tail = log.tail(log.next(), Follow::Appended);
    assert!(matches!(tail.next(10), Err(TailError::Poisoned(_))));
}

#[test]
fn dropping_the_last_handle_writes_what_was_accepted() {
    let io = MemoryIo::new();
    let (log, _) = Log::open(Arc::new(io.clone()), "log", options()).unwrap();
    let tickets: Vec<_> = (0..100).map(|_| log.append_next(&[b"x"]).unwrap()).collect();
    drop(log);
    assert!(tickets.iter().all(|ticket| matches!(ticket.settled(), Some(Ok(())))));
    let (log, _) = Log::open(Arc::new(io), "log", options()).unwrap();
    assert_eq!(log.next(), at(101));
}

#[test]
fn an_idle_log_certifies_its_last_frame_by_itself() {
    let io = MemoryIo::new();
    let (log, _) = Log::open(Arc::new(io.clone()), "log", options()).unwrap();
    log.append_next(&[b"x"]).unwrap().wait().unwrap();
    let mut polls = 0u64;
    while log.statistics().certifying_frames == 0 {
        polls += 1;
        assert!(polls < 10_000_000_000, "never certified");
        std::thread::yield_now();
    }
    drop(log);
    let (_, report) = Log::open(Arc::new(io), "log", Options { drive: Drive::Caller, ..options() }).unwrap();
    assert_eq!(report.next, at(2));
}

#[test]
fn a_log_with_threads_scrubs_its_sealed_segments_by_itself() {
    /// Each look at it is two seconds later.
    #[derive(Debug, Default)]
    struct Hasty(AtomicU64);
    impl gapless_log::Clock for Hasty {
        fn now(&self) -> Duration {
            Duration::from_secs(2 * self.0.fetch_add(1, Ordering::SeqCst))
        }
    }
    let hasty = Options { clock: Arc::new(Hasty::default()), ..options() };
    let (log, _) = Log::open(Arc::new(MemoryIo::new()), "log", hasty).unwrap();
    // Several segments, of which all but the last are sealed.
    for _ in 0..100 {
        log.append_next(&vec![[1; 1000]; 50]).unwrap().wait().unwrap();
    }
    let mut polls = 0u64;
    while log.statistics().scrubbed_bytes == 0 {
        polls += 1;
        assert!(polls < 10_000_000_000, "never scrubbed");
        std::thread::yield_now();
    }
    assert_eq!(log.damage(), []);
}

/// Lets a test hold a sync.
#[derive(Debug, Default)]
struct Gate {
    closed: AtomicBool,
    waiting: AtomicBool,
    passes: AtomicU64,
}

/// Opens a gate also when the test fails, so that no thread waits at it for ever.
struct Opens(Arc<Gate>);

impl Drop for Opens {
    fn drop(&mut self) {
        self.0.open();
    }
}

impl Gate {
    fn close(self: &Arc<Self>) -> Opens {
        self.closed.store(true, Ordering::SeqCst);
        Opens(self.clone())
    }

    fn pass(&self) {
        let one_fewer = |passes: u64| passes.checked_sub(1);
        while self.closed.load(Ordering::SeqCst)
            && self.passes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_fewer).is_err()
        {
            self.waiting.store(true, Ordering::SeqCst);
            std::thread::yield_now();
        }
        self.waiting.store(false, Ordering::SeqCst);
    }

    fn wait_until_someone_waits(&self) {
        while !self.waiting.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    }

    fn let_one_pass(&self) {
        self.passes.fetch_add(1, Ordering::SeqCst);
        while self.passes.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
    }

    fn open(&self) {
        self.closed.store(false, Ordering::SeqCst);
    }
}

/// What has to pass the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GateAt {
    Sync,
    /// The first write to a segment that is no filling.
    BeginningOfSegment,
    Read,
}

/// A disk with a gate.
#[derive(Debug)]
struct GatedIo {
    inner: MemoryIo,
    gate: Arc<Gate>,
    at: GateAt,
}

#[derive(Debug)]
struct GatedFile {
    inner: Arc<dyn File>,
    gate: Arc<Gate>,
    at: GateAt,
}

impl Io for GatedIo {
    fn open(&self, path: &Path, mode: OpenMode) -> std::io::Result<Arc<dyn File>> {
        Ok(Arc::new(GatedFile { inner: self.inner.open(path, mode)?, gate: self.gate.clone(), at: self.at }))
    }
    fn rename(&self, from: &Path, to: &Path) -> std::io::Result<()> {
        self.inner.rename(from, to)
    }
    fn remove(&self, path: &Path) -> std::io::Result<()> {
        self.inner.remove(path)
    }
    fn list(&self, dir: &Path) -> std::io::Result<Vec<String>> {
        self.inner.list(dir)
    }
    fn list_dirs(&self, dir: &Path) -> std::io::Result<Vec<String>> {
        self.inner.list_dirs(dir)
    }
    fn create_dir(&self, dir: &Path) -> std::io::Result<()> {
        self.inner.create_dir(dir)
    }
    fn remove_dir(&self, dir: &Path) -> std::io::Result<()> {
        self.inner.remove_dir(dir)
    }
    fn sync_dir(&self, dir: &Path) -> std::io::Result<()> {
        self.inner.sync_dir(dir)
    }
    fn lock(&self, dir: &Path) -> std::io::Result<Box<dyn DirectoryLock>> {
        self.inner.lock(dir)
    }
}

impl File for GatedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
        if self.at == GateAt::Read {
            self.gate.pass();
        }
        self.inner.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> std::io::Result<usize> {
        if self.at == GateAt::BeginningOfSegment && offset == 0 && bytes[0] != 0 {
            self.gate.pass();
        }
        self.inner.write_at(bytes, offset)
    }
    fn reserve(&self, length: u64) -> std::io::Result<()> {
        self.inner.reserve(length)
    }
    fn sync(&self) -> std::io::Result<()> {
        if self.at == GateAt::Sync {
            self.gate.pass();
        }
        self.inner.sync()
    }
    fn forget_cache(&self) -> std::io::Result<()> {
        self.inner.forget_cache()
    }
    fn len(&self) -> std::io::Result<u64> {
        self.inner.len()
    }
}
