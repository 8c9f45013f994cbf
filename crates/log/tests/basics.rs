//! What a user of the log sees: limits, refusals, group commit, state, truncation, release, statistics.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::let_underscore_future,
    reason = "the first thing that does not hold ends the test"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gapless_log::io::faulty::{FaultyIo, OperationKind};
use gapless_log::io::memory::MemoryIo;
use gapless_log::{
    AppendError, Drive, Layout, Log, LogId, OpenError, Options, ReadError, StateKey, SyncPolicy,
};
use gapless_types::Position;
use gapless_types::limits::{
    MAX_FRAME_BYTES, MAX_RECORD_BYTES, MAX_RECORDS_PER_BATCH, MAX_STATE_KEYS, MAX_STATE_VALUE_BYTES,
};

fn options() -> Options {
    Options {
        drive: Drive::Caller,
        first_segment_bytes: 64 << 10,
        segment_bytes: 64 << 10,
        ..Options::replicated()
    }
}

fn open(io: &MemoryIo, options: Options) -> Log {
    Log::open(Arc::new(io.clone()), "log", options).unwrap().0
}

fn at(position: u64) -> Position {
    Position::new(position)
}

#[test]
fn records_come_back_in_order_after_reopening_over_many_segments() {
    for (layout, hot_bytes) in [(Layout::Aligned, 0), (Layout::Packed, 0), (Layout::Aligned, 8 << 20)] {
        let io = MemoryIo::new();
        let log = open(&io, Options { layout, hot_bytes, ..options() });
        let payload = |n: u64| vec![(n % 251) as u8; 500 + (n % 7) as usize];
        for n in 1..=900 {
            log.append(at(n), &[payload(n)]).unwrap().wait().unwrap();
            log.maintain().unwrap();
        }
        assert!(log.statistics().segments > 5);
        let read = |log: &Log| {
            for n in 1..=900 {
                assert_eq!(log.read(at(n)).unwrap().payload, payload(n));
            }
            let mut next = 1;
            while next <= 900 {
                for record in log.read_range(at(next), at(901), 10_000).unwrap() {
                    assert_eq!((record.position, &record.payload[..]), (at(next), &payload(next)[..]));
                    next += 1;
                }
            }
        };
        read(&log);
        drop(log);
        let (log, report) = Log::open(Arc::new(io), "log", options()).unwrap();
        assert_eq!((report.damage, log.next()), (vec![], at(901)));
        read(&log);
    }
}

#[test]
fn an_empty_batch_is_refused_and_an_empty_record_is_not() {
    let log = open(&MemoryIo::new(), options());
    assert!(matches!(log.append_next::<&[u8]>(&[]), Err(AppendError::EmptyBatch)));
    let ticket = log.append_next(&[b"" as &[u8], b"x", b""]).unwrap();
    assert_eq!(ticket.positions(), at(1)..at(4));
    ticket.wait().unwrap();
    assert_eq!(log.read(at(1)).unwrap().payload, b"" as &[u8]);
    assert_eq!(log.read(at(2)).unwrap().payload, b"x" as &[u8]);
}

#[test]
fn a_record_of_8_mib_fits_and_one_byte_more_is_refused() {
    let io = MemoryIo::new();
    let log = open(&io, options());
    let largest = vec![7; MAX_RECORD_BYTES as usize];
    log.append_next(&[&largest]).unwrap().wait().unwrap();
    let beyond = vec![7; MAX_RECORD_BYTES as usize + 1];
    let error = log.append_next(&[&beyond]).unwrap_err();
    assert!(matches!(error, AppendError::RecordTooLarge { bytes, .. } if bytes == beyond.len()));
    assert_eq!(log.next(), at(2));
    drop(log);
    assert_eq!(open(&io, options()).read(at(1)).unwrap().payload, largest);
}

#[test]
fn a_batch_as_large_as_a_frame_fits_and_a_larger_one_is_refused() {
    let log = open(&MemoryIo::new(), Options { max_queued_bytes: 64 << 20, ..options() });
    let half = vec![1; MAX_FRAME_BYTES as usize / 2 - 24];
    log.append_next(&[&half, &half]).unwrap().wait().unwrap();
    let more = vec![1; half.len() + 8];
    let error = log.append_next(&[&half, &more]).unwrap_err();
    assert!(
        matches!(error, AppendError::BatchTooLarge { limit, .. } if limit == MAX_FRAME_BYTES as usize),
        "{error}"
    );
    let many = vec![b""; MAX_RECORDS_PER_BATCH];
    log.append_next(&many).unwrap().wait().unwrap();
    let too_many = vec![b""; MAX_RECORDS_PER_BATCH + 1];
    assert!(matches!(log.append_next(&too_many), Err(AppendError::TooManyRecords { .. })));
}

#[test]
fn an_append_elsewhere_than_at_the_end_is_refused() {
    let log = open(&MemoryIo::new(), options());
    let error = log.append(at(2), &[b"x"]).unwrap_err();
    assert!(matches!(error, AppendError::NotNext { next, given } if next == at(1) && given == at(2)));
    let _ = log.append(at(1), &[b"x"]).unwrap();
    assert!(matches!(log.append(at(1), &[b"x"]), Err(AppendError::NotNext { .. })));
}

#[test]
fn a_full_queue_refuses_and_takes_appends_again_once_it_is_written() {
    let log = open(&MemoryIo::new(), Options { max_queued_bytes: 10_000, ..options() });
    let payload = vec![0; 6000];
    let _ = log.append_next(&[&payload]).unwrap();
    let error = log.append_next(&[&payload]).unwrap_err();
    assert!(matches!(error, AppendError::QueueFull { limit: 10_000, .. }));
    log.flush().unwrap();
    let _ = log.append_next(&[&payload]).unwrap();
}

#[test]
fn what_queued_up_during_a_sync_is_one_frame_with_one_sync() {
    let log =
        open(&MemoryIo::new(), Options { first_segment_bytes: 1 << 20, segment_bytes: 1 << 20, ..options() });
    let tickets: Vec<_> = (0..50).map(|_| log.append_next(&[b"payload"]).unwrap()).collect();
    assert!(tickets.iter().all(|ticket| ticket.settled().is_none()));
    assert_eq!((log.next(), log.durable()), (at(51), at(1)), "readable, not durable");
    assert_eq!(log.read(at(50)).unwrap().payload, b"payload" as &[u8]);
    log.flush().unwrap();
    assert!(tickets.into_iter().all(|ticket| matches!(ticket.settled(), Some(Ok(())))));
    assert_eq!(log.durable(), at(51));
    let statistics = log.statistics();
    assert_eq!((statistics.frames, statistics.syncs, statistics.records), (1, 1, 50));
    assert_eq!(statistics.sync_latency.count(), 1);
    assert_eq!(statistics.payload_bytes, 350);
}

#[test]
fn queue_depth_is_part_of_the_statistics() {
    let log = open(&MemoryIo::new(), options());
    let _ = log.append_next(&[[0; 100]]).unwrap();
    let _ = log.append_next(&[[0; 100]]).unwrap();
    let statistics = log.statistics();
    assert_eq!((statistics.queued_items, statistics.queued_bytes), (2, 2 * 128));
    log.flush().unwrap();
    assert_eq!(log.statistics().queued_items, 0);
}

#[test]
fn a_log_that_is_synced_on_request_settles_tickets_with_the_sync() {
    let log =
        open(&MemoryIo::new(), Options { layout: Layout::Packed, sync: SyncPolicy::OnRequest, ..options() });
    let ticket = log.append_next(&[b"a"]).unwrap();
    log.flush().unwrap();
    assert!(ticket.settled().is_none());
    assert_eq!((log.statistics().frames, log.statistics().syncs, log.durable()), (1, 0, at(1)));
    log.sync().unwrap();
    assert!(matches!(ticket.settled(), Some(Ok(()))));
    assert_eq!((log.statistics().syncs, log.durable()), (1, at(2)));
}

#[test]
fn a_ticket_calls_back_and_can_be_awaited() {
    use std::future::Future;
    use std::task::{Context, Poll, Waker};
    let log = open(&MemoryIo::new(), options());
    let (sender, receiver) = std::sync::mpsc::channel();
    log.append_next(&[b"a"]).unwrap().on_settled(move |settled| sender.send(settled.is_ok()).unwrap());
    let mut ticket = std::pin::pin!(log.append_next(&[b"b"]).unwrap());
    let mut context = Context::from_waker(Waker::noop());
    assert!(ticket.as_mut().poll(&mut context).is_pending());
    assert!(receiver.try_recv().is_err());
    log.flush().unwrap();
    assert!(receiver.recv().unwrap());
    assert!(matches!(ticket.as_mut().poll(&mut context), Poll::Ready(Ok(()))));
}

#[test]
fn small_state_survives_release_and_reopening_and_has_limits() {
    let io = MemoryIo::new();
    let log = open(&io, options());
    log.set_state(StateKey(1), b"vote for 3").unwrap().wait().unwrap();
    for _ in 0..6 {
        log.append_next(&vec![[1; 4000]; 10]).unwrap().wait().unwrap();
        log.set_state(StateKey(2), log.next().to_string().as_bytes()).unwrap().wait().unwrap();
        log.release_to(log.next()).unwrap().wait().unwrap();
        log.maintain().unwrap();
    }
    assert!(log.statistics().segments <= 2, "released segments are gone");
    assert!(log.statistics().segments_recycled > 0, "one of them is filled anew");
    drop(log);
    let log = open(&io, options());
    assert_eq!(log.state(StateKey(1)).unwrap(), b"vote for 3" as &[u8]);
    assert_eq!(log.state(StateKey(2)).unwrap(), log.next().to_string().as_bytes());
    assert_eq!(log.state(StateKey(3)), None);
    let too_long = vec![0; MAX_STATE_VALUE_BYTES + 1];
    assert!(matches!(log.set_state(StateKey(1), &too_long), Err(AppendError::StateTooLarge { .. })));
    for key in 2..MAX_STATE_KEYS as u16 {
        log.set_state(StateKey(key + 100), &too_long[1..]).unwrap().wait().unwrap();
    }
    assert!(matches!(log.set_state(StateKey(999), b""), Err(AppendError::StateTooLarge { .. })));
}

#[test]
fn truncation_replaces_a_suffix_at_once_and_after_reopening() {
    let io = MemoryIo::new();
    let log = open(&io, Options { hot_bytes: 0, ..options() });
    log.append_next(&[b"1", b"2", b"3", b"4"]).unwrap().wait().unwrap();
    let ticket = log.truncate_from(at(3)).unwrap();
    assert_eq!((log.next(), log.durable()), (at(3), at(3)));
    assert!(matches!(log.read(at(3)), Err(ReadError::NotAppended { .. })));
    let _ = log.append(at(3), &[b"new 3"]).unwrap();
    assert_eq!(log.read(at(3)).unwrap().payload, b"new 3" as &[u8]);
    assert_eq!(log.durable(), at(3), "the new 3 is not durable because the old one was");
    ticket.wait().unwrap();
    assert!(matches!(log.truncate_from(at(9)), Err(AppendError::NotNext { .. })));
    drop(log);
    let log = open(&io, Options { hot_bytes: 0, ..options() });
    assert_eq!(log.next(), at(4));
    assert_eq!(log.read(at(2)).unwrap().payload, b"2" as &[u8]);
    assert_eq!(log.read(at(3)).unwrap().payload, b"new 3" as &[u8]);
}

#[test]
fn a_release_refuses_what_is_gone_and_may_move_the_end() {
    let io = MemoryIo::new();
    let log = open(&io, options());
    log.append_next(&[b"1", b"2", b"3"]).unwrap().wait().unwrap();
    log.release_to(at(3)).unwrap().wait().unwrap();
    assert!(matches!(log.read(at(2)), Err(ReadError::Released { first, .. }) if first == at(3)));
    assert!(matches!(log.truncate_from(at(2)), Err(AppendError::Released { .. })));
    log.release_to(at(100)).unwrap().wait().unwrap();
    assert_eq!((log.first(), log.next(), log.durable()), (at(100), at(100), at(100)));
    log.append(at(100), &[b"100"]).unwrap().wait().unwrap();
    log.release_to(at(50)).unwrap().wait().unwrap();
    drop(log);
    let log = open(&io, options());
    assert_eq!((log.first(), log.next()), (at(100), at(101)));
    assert_eq!(log.read(at(100)).unwrap().payload, b"100" as &[u8]);
}

#[test]
fn a_release_removes_nothing_before_it_is_durable() {
    let io = MemoryIo::new();
    let lazy = Options { layout: Layout::Packed, sync: SyncPolicy::OnRequest, ..options() };
    let log = open(&io, lazy.clone());
    for _ in 0..6 {
        log.append_next(&vec![[1; 4000]; 10]).unwrap().wait().unwrap();
        log.maintain().unwrap();
    }
    let segments = log.statistics().segments;
    let _ = log.release_to(at(51)).unwrap();
    log.flush().unwrap();
    log.maintain().unwrap();
    assert_eq!(log.statistics().segments, segments, "a power cut may still undo it");
    drop(log);
    io.power_cut();
    let log = open(&io, lazy);
    assert_eq!((log.first(), log.read(at(1)).unwrap().payload.len()), (at(1), 4000));
    log.release_to(at(51)).unwrap().wait().unwrap();
    log.maintain().unwrap();
    assert!(log.statistics().segments < segments);
}

#[test]
fn what_a_killed_process_left_in_memory_is_durable_once_the_log_is_open() {
    let io = MemoryIo::new();
    let lazy = Options { layout: Layout::Packed, sync: SyncPolicy::OnRequest, ..options() };
    let log = open(&io, lazy.clone());
    let _ = log.append_next(&[b"written, not synced"]).unwrap();
    log.flush().unwrap();
    drop(log);
    let log = open(&io, lazy.clone());
    assert_eq!(log.durable(), at(2), "so it says");
    drop(log);
    io.power_cut();
    assert_eq!(open(&io, lazy).read(at(1)).unwrap().payload, b"written, not synced" as &[u8]);
}

#[test]
fn a_log_may_start_at_any_position() {
    let io = MemoryIo::new();
    for first in [0, 17] {
        let io = io.fork();
        let log = open(&io, Options { first_position: at(first), ..options() });
        let _ = log.append(at(first), &[b"x"]).unwrap();
        log.flush().unwrap();
        drop(log);
        let log = open(&io, options());
        assert_eq!((log.first(), log.next()), (at(first), at(first + 1)));
    }
}

#[test]
fn compressed_records_come_back_as_they_were() {
    let io = MemoryIo::new();
    let packing = Options { compress_from: Some(100), hot_bytes: 0, ..options() };
    let log = open(&io, packing);
    let long = vec![b'a'; 50_000];
    let noise: Vec<u8> = (0..5000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    log.append_next(&[&long[..], &noise, b"short"]).unwrap().wait().unwrap();
    assert!(log.statistics().bytes_written < 20_000);
    let check = |log: &Log| {
        assert_eq!(log.read(at(1)).unwrap().payload, long);
        assert_eq!(log.read(at(2)).unwrap().payload, noise);
        assert_eq!(log.read(at(3)).unwrap().payload, b"short" as &[u8]);
    };
    check(&log);
    drop(log);
    check(&open(&io, options()));
}

#[test]
fn any_failing_write_or_sync_poisons_the_log_until_it_is_reopened() {
    for fault in [OperationKind::Write, OperationKind::Sync] {
        let io = FaultyIo::new(1);
        let (log, _) = Log::open(Arc::new(io.clone()), "log", options()).unwrap();
        log.append_next(&[b"safe"]).unwrap().wait().unwrap();
        io.reset_operations();
        io.fail_at(1, fault);
        let (first, second) =
            (log.append_next(&[b"lost"]).unwrap(), log.append_next(&[b"lost too"]).unwrap());
        assert!(matches!(log.sync(), Err(AppendError::Poisoned(_))));
        for ticket in [first, second] {
            assert!(matches!(ticket.settled(), Some(Err(AppendError::Poisoned(_)))), "all waiters fail");
        }
        let operations = io.operations();
        assert!(matches!(log.append_next(&[b"x"]), Err(AppendError::Poisoned(_))));
        assert!(matches!(log.sync(), Err(AppendError::Poisoned(_))));
        assert!(matches!(log.set_state(StateKey(0), b""), Err(AppendError::Poisoned(_))));
        assert_eq!(io.operations(), operations, "the sync is not tried again");
        assert_eq!((log.next(), log.durable()), (at(2), at(2)));
        assert_eq!(log.read(at(1)).unwrap().payload, b"safe" as &[u8]);
        assert!(matches!(log.read(at(2)), Err(ReadError::InDoubt { .. })), "it was there a moment ago");
        drop(log);
        let (log, _) = Log::open(Arc::new(io), "log", options()).unwrap();
        log.append_next(&[b"again"]).unwrap().wait().unwrap();
    }
}

#[test]
fn a_full_disk_is_refused_before_the_commit_path_and_heals() {
    let io = FaultyIo::new(1);
    let (log, _) = Log::open(Arc::new(io.clone()), "log", options()).unwrap();
    log.append_next(&[b"safe"]).unwrap().wait().unwrap();
    io.set_capacity(Some(0));
    let payload = [3; 4000];
    let mut accepted = 0;
    let refusal = loop {
        match log.append_next(&[payload]) {
            Ok(ticket) => ticket.wait().unwrap(),
            Err(error) => break error,
        }
        accepted += 1;
    };
    assert!(accepted > 0, "what was prepared is used");
    assert!(matches!(refusal, AppendError::DiskFull { needed } if needed >= 64 << 10), "{refusal}");
    // Reading, releasing and setting state go on.
    assert_eq!(log.read(at(1)).unwrap().payload, b"safe" as &[u8]);
    log.set_state(StateKey(1), b"still").unwrap().wait().unwrap();
    log.release_to(log.next()).unwrap().wait().unwrap();
    assert!(matches!(log.append_next(&[payload]), Err(AppendError::DiskFull { .. })));
    io.set_capacity(None);
    log.append_next(&[payload]).unwrap().wait().unwrap();
    assert_eq!(log.next(), at(accepted + 3));
}

#[test]
fn a_released_segment_is_room_on_a_full_disk() {
    let io = FaultyIo::new(1);
    let (log, _) = Log::open(Arc::new(io.clone()), "log", options()).unwrap();
    for _ in 0..30 {
        log.append_next(&[[3; 4000]]).unwrap().wait().unwrap();
        log.maintain().unwrap();
    }
    io.set_capacity(Some(0));
    while let Ok(ticket) = log.append_next(&[[3; 4000]]) {
        ticket.wait().unwrap();
    }
    log.release_to(log.next()).unwrap().wait().unwrap();
    log.maintain().unwrap();
    log.append_next(&[[3; 4000]]).unwrap().wait().unwrap();
    assert!(log.statistics().segments_recycled > 0);
}

#[test]
fn a_log_that_cannot_prepare_a_segment_is_whole_and_tries_again() {
    let io = FaultyIo::new(1);
    let (log, _) = Log::open(Arc::new(io.clone()), "log", options()).unwrap();
    for fault in
        [OperationKind::Create, OperationKind::Reserve, OperationKind::Rename, OperationKind::SyncDir]
    {
        io.reset_operations();
        io.fail_at(1, fault);
        let mut refused = 0;
        for _ in 0..30 {
            match log.append_next(&[[3; 4000]]) {
                Ok(ticket) => ticket.wait().unwrap(),
                Err(error) => {
                    assert!(matches!(error, AppendError::NoSegment(_)), "{fault:?}: {error}");
                    refused += 1;
                }
            }
        }
        assert_eq!(refused, 1, "{fault:?}");
    }
}

#[test]
fn a_directory_in_use_foreign_files_and_foreign_segments_are_refused() {
    use gapless_log::io::{Io, OpenMode, write_all_at};
    let io = MemoryIo::new();
    let log = open(&io, options());
    assert!(matches!(Log::open(Arc::new(io.clone()), "log", options()), Err(OpenError::InUse(_))));
    log.append_next(&[b"x"]).unwrap().wait().unwrap();
    log.close().unwrap();

    let foreign = io.fork();
    let file = foreign.open(Path::new("log/notes.txt"), OpenMode::Create).unwrap();
    write_all_at(&*file, b"hello", 0).unwrap();
    let error = Log::open(Arc::new(foreign), "log", options()).unwrap_err();
    assert!(matches!(&error, OpenError::ForeignFile(path) if path.ends_with("notes.txt")), "{error}");

    let other = MemoryIo::new();
    open(&other, Options { log_id: Some(LogId::from_bytes([1; 16])), ..options() }).close().unwrap();
    let mixed = io.fork();
    let bytes = other.bytes_of(Path::new("log/0000000001.segment")).unwrap();
    let file = mixed.open(Path::new("log/0000000002.segment"), OpenMode::Create).unwrap();
    write_all_at(&*file, &bytes, 0).unwrap();
    let error = Log::open(Arc::new(mixed), "log", options()).unwrap_err();
    assert!(matches!(error, OpenError::ForeignFile(_) | OpenError::ForeignSegment { .. }), "{error}");
}

#[test]
fn a_newer_version_is_refused_and_left_alone() {
    let io = MemoryIo::new();
    open(&io, options()).close().unwrap();
    let path = Path::new("log/0000000001.segment");
    let mut block = io.bytes_of(path).unwrap()[..4096].to_vec();
    for copy in [0, 2048] {
        block[copy + 8] = 2;
        let covered = [&block[copy..copy + 12], &block[copy + 16..copy + 128]].concat();
        let checksum = crc32c::crc32c(&covered);
        block[copy + 12..copy + 16].copy_from_slice(&checksum.to_le_bytes());
    }
    io.overwrite(path, 0, &block).unwrap();
    let before = io.bytes_of(path).unwrap();
    let error = Log::open(Arc::new(io.clone()), "log", options()).unwrap_err();
    assert!(matches!(error, OpenError::UnknownVersion { version: 2, .. }), "{error}");
    assert_eq!(io.bytes_of(path).unwrap(), before);
}

#[test]
fn a_clean_close_leaves_an_index_and_other_handles_are_told() {
    let io = MemoryIo::new();
    let log = open(&io, options());
    for _ in 0..10 {
        log.append_next(&[[1; 3000]]).unwrap().wait().unwrap();
    }
    let other = log.clone();
    log.close().unwrap();
    assert!(matches!(other.append_next(&[b"x"]), Err(AppendError::Closed)));
    let (log, report) = Log::open(Arc::new(io.clone()), "log", options()).unwrap();
    assert_eq!(report.frames_scanned, 0, "the index tells it all");
    log.append_next(&[b"more"]).unwrap().wait().unwrap();
    drop(log);
    let (log, report) = Log::open(Arc::new(io), "log", options()).unwrap();
    assert_eq!((report.frames_scanned, log.next()), (1, at(12)), "only what came after the index is read");
}

#[test]
fn opening_reads_headers_and_footers_but_not_the_sealed_frames() {
    let io = MemoryIo::new();
    let wide = Options { first_segment_bytes: 1 << 20, segment_bytes: 1 << 20, ..options() };
    let log = open(&io, wide.clone());
    for _ in 0..20 {
        log.append_next(&vec![[9; 4000]; 250]).unwrap().wait().unwrap();
        log.maintain().unwrap();
    }
    assert!(log.statistics().segments >= 19);
    drop(log);
    let (_, report) = Log::open(Arc::new(io), "log", wide).unwrap();
    assert!(report.bytes_read < (20 << 20) / 10, "{} bytes", report.bytes_read);
    assert!(report.frames_scanned <= 4, "{} frames", report.frames_scanned);
}

#[test]
fn two_handles_of_time_are_enough_to_measure_syncs() {
    #[derive(Debug, Default)]
    struct Steps(std::sync::atomic::AtomicU64);
    impl gapless_log::Clock for Steps {
        fn now(&self) -> Duration {
            Duration::from_micros(self.0.fetch_add(100, std::sync::atomic::Ordering::Relaxed))
        }
    }
    let log = open(&MemoryIo::new(), Options { clock: Arc::new(Steps::default()), ..options() });
    for _ in 0..5 {
        log.append_next(&[b"x"]).unwrap().wait().unwrap();
    }
    let latency = log.statistics().sync_latency;
    assert_eq!((latency.count(), latency.quantile(1.0)), (5, Some(Duration::from_micros(128))));
}

#[test]
fn an_abandoned_log_can_be_opened_again_while_others_still_read_from_it() {
    for drive in [Drive::Caller, Drive::Threads] {
        let io = MemoryIo::new();
        let options = Options { drive, ..Options::partition() };
        let (log, _) = Log::open(Arc::new(io.clone()), "log", options.clone()).unwrap();
        let _durable = log.append_next(&["kept"]).unwrap();
        log.sync().unwrap();
        let reader = log.clone();
        assert!(matches!(
            Log::open(Arc::new(io.clone()), "log", options.clone()),
            Err(gapless_log::OpenError::InUse(_))
        ));
        log.abandon();
        let (again, _) = Log::open(Arc::new(io), "log", options).unwrap();
        assert_eq!(&reader.read(Position::FIRST).unwrap().payload[..], b"kept");
        assert!(matches!(reader.append_next(&["late"]), Err(AppendError::Closed)));
        assert_eq!(again.append_next(&["next"]).unwrap().positions().start, Position::new(2));
    }
}
