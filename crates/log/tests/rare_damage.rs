//! Damage that is rare and was once answered wrongly: found by fuzzing and by reading the code.

#![expect(clippy::unwrap_used, reason = "the first thing that does not hold ends the test")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gapless_log::format::control::Control;
use gapless_log::format::frame::FrameHeader;
use gapless_log::format::segment::SegmentHeader;
use gapless_log::format::{FRAME_HEADER_BYTES, Geometry};
use gapless_log::io::memory::MemoryIo;
use gapless_log::io::{Io, OpenMode, write_all_at};
use gapless_log::{
    AppendError, Depth, Drive, Layout, Log, LogId, OpenError, Options, ReadError, RecordType, SyncPolicy,
    inspect,
};
use gapless_types::{FrameNumber, Position, SegmentNumber};

const LOG: LogId = LogId::from_bytes([9; 16]);

fn options() -> Options {
    Options {
        drive: Drive::Caller,
        first_segment_bytes: 64 << 10,
        segment_bytes: 64 << 10,
        hot_bytes: 0,
        log_id: Some(LOG),
        ..Options::replicated()
    }
}

fn open(io: &MemoryIo) -> Log {
    Log::open(Arc::new(io.clone()), "log", options()).unwrap().0
}

fn segment(number: u32) -> PathBuf {
    Path::new("log").join(format!("{number:010}.segment"))
}

fn append(log: &Log, payload: &str) {
    log.append_next(&[payload]).unwrap().wait().unwrap();
}

fn append_until_segment(log: &Log, number: u64) {
    while log.statistics().segments < number {
        log.append_next(&[vec![7; 8000]]).unwrap().wait().unwrap();
        log.maintain().unwrap();
    }
}

fn flip(io: &MemoryIo, number: u32, offset: u32) {
    let byte = io.bytes_of(&segment(number)).unwrap()[offset as usize];
    io.overwrite(&segment(number), u64::from(offset), &[byte ^ 1]).unwrap();
}

/// Where the last frame of a segment with a record of this type starts.
fn frame_with(io: &MemoryIo, number: u32, kind: RecordType) -> u32 {
    let mut found = 0;
    inspect(io, Path::new("log"), Depth::EveryFrame, &mut |frame| {
        if frame.segment.get() == number && frame.records().any(|record| record.kind == kind) {
            found = frame.offset;
        }
    })
    .unwrap();
    found
}

// A write that went astray under a good footer: neither a frame in the wrong place nor a record in it is believed.
#[test]
fn a_block_that_went_astray_under_a_footer_does_not_bring_a_void_record_back() {
    let io = MemoryIo::new();
    let log = open(&io);
    append(&log, "first");
    append(&log, "second, void"); // block 2
    log.truncate_from(Position::new(2)).unwrap().wait().unwrap();
    append(&log, "second"); // block 4
    log.close().unwrap();
    let bytes = io.bytes_of(&segment(1)).unwrap();
    io.overwrite(&segment(1), 4 * 4096, &bytes[2 * 4096..3 * 4096]).unwrap();
    let found = open(&io).read(Position::new(2));
    assert!(matches!(found, Err(ReadError::Corrupt { .. })), "{found:?}");
}

// A truncation is known to the two segments behind it. Were it handed on for ever, one truncation long ago and one damaged
// truncation today would void everything in between.
#[test]
fn a_damaged_truncation_voids_what_truncations_nearby_may_have_reached_and_not_more() {
    let io = MemoryIo::new();
    let log = open(&io);
    append(&log, "first");
    append(&log, "second, void");
    log.truncate_from(Position::new(2)).unwrap().wait().unwrap();
    append_until_segment(&log, 6);
    append(&log, "a");
    append(&log, "b, void");
    let cut = log.next().previous().unwrap();
    log.truncate_from(cut).unwrap().wait().unwrap();
    append(&log, "b");
    append(&log, "c");
    let next = log.next().get();
    drop(log);
    flip(&io, 6, frame_with(&io, 6, RecordType::Truncate) + 64 + 16);
    let log = open(&io);
    let readable = (1..next).filter(|&position| log.read(Position::new(position)).is_ok()).count() as u64;
    assert!(readable >= next - 4, "{readable} of {} can be read", next - 1);
}

// Rot that only a reader finds is no hole in the catalog, and can be repaired all the same.
#[test]
fn damage_found_by_a_reader_can_be_repaired() {
    let io = MemoryIo::new();
    let log = open(&io);
    append(&log, "first");
    append(&log, "second");
    log.close().unwrap();
    flip(&io, 1, 4096 + 64 + 24);
    let log = open(&io);
    assert!(log.read(Position::new(1)).is_err());
    let repaired = log.repair(Position::new(1), b"first").and_then(|ticket| ticket.wait());
    assert!(repaired.is_ok(), "{repaired:?}");
    assert_eq!(&log.read(Position::new(1)).unwrap().payload[..], b"first");
}

// Segments of one log may have different layouts, and a header that is found out from frames must not guess.
#[test]
fn a_lost_header_is_not_reconstructed_with_the_layout_of_another_segment() {
    let io = MemoryIo::new();
    let log = open(&io);
    append(&log, "first");
    log.close().unwrap();
    let packed = || Options { layout: Layout::Packed, ..options() };
    let log = Log::open(Arc::new(io.clone()), "log", packed()).unwrap().0;
    append_until_segment(&log, 2);
    append(&log, "in the packed segment");
    append(&log, "in the packed segment");
    let next = log.next();
    drop(log);
    for at in [0, 2048] {
        io.overwrite(&segment(2), at, &[0xee; 128]).unwrap();
    }
    if let Ok((log, report)) = Log::open(Arc::new(io), "log", packed()) {
        assert_eq!(log.next(), next, "{:?}", report.damage);
    }
}

// A release whose first segment lies behind positions that are still kept. (Forged.)
#[test]
fn a_release_that_contradicts_itself_does_not_hang_a_reader() {
    let io = MemoryIo::new();
    let log = open(&io);
    append_until_segment(&log, 2);
    drop(log);
    let survey = inspect(&io, Path::new("log"), Depth::EveryFrame, &mut |_| {}).unwrap();
    let last = survey.segments.last().unwrap();
    let mut body = Vec::new();
    Control::Release(Position::new(1), SegmentNumber::new(2).unwrap()).encode(LOG.salt(), &mut body);
    let bytes = io.bytes_of(&segment(2)).unwrap();
    let before = bytes[..last.end_offset as usize].windows(4).rposition(|magic| magic == b"GLFR").unwrap();
    let mut frame = vec![0; FRAME_HEADER_BYTES];
    frame.extend_from_slice(&body);
    let header = FrameHeader {
        number: FrameNumber::new(last.next_frame).unwrap(),
        segment: last.number,
        offset: last.end_offset,
        body_length: u32::try_from(body.len()).unwrap(),
        record_count: 1,
        body_checksum: LOG.salt().checksum(&[&body]),
        previous_checksum: u32::from_le_bytes(bytes[before + 4..before + 8].try_into().unwrap()),
        durable_distance: 1,
        truncations: 0,
        first_position: last.next_position,
        lowest_truncated: None,
    };
    header.encode(LOG.salt(), &mut frame);
    io.overwrite(&segment(2), u64::from(last.end_offset), &frame).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(open(&io).read(Position::new(1)).is_err()));
    assert_eq!(receiver.recv_timeout(std::time::Duration::from_secs(60)), Ok(true));
}

// The footer of a segment that lost its header and its first frame still says that the segment was sealed.
#[test]
fn a_sealed_segment_without_a_header_still_says_that_there_is_a_next_one() {
    let io = MemoryIo::new();
    let log = open(&io);
    append_until_segment(&log, 3);
    append(&log, "in the last segment");
    log.maintain().unwrap();
    drop(log);
    io.overwrite(&segment(2), 0, &[0xee; 4096 + 64]).unwrap();
    io.remove(&segment(3)).unwrap();
    let _ = io.remove(&segment(4));
    let opened = Log::open(Arc::new(io), "log", options());
    assert!(matches!(opened, Err(OpenError::MissingSegments(_))), "{:?}", opened.map(|(_, report)| report));
}

// A frame that went astray is passed over, up to where one lies in its place again.
#[test]
fn a_frame_that_went_astray_does_not_hide_the_one_behind_it() {
    let io = MemoryIo::new();
    let log = open(&io);
    append(&log, &"two blocks ".repeat(500));
    append(&log, "one block");
    log.close().unwrap();
    let bytes = io.bytes_of(&segment(1)).unwrap();
    io.overwrite(&segment(1), 3 * 4096, &bytes[4096..2 * 4096]).unwrap();
    let log = open(&io);
    append(&log, "acknowledged");
    let found = log.read(Position::new(3)).map(|record| record.payload);
    assert_eq!(found.ok().as_deref(), Some(&b"acknowledged"[..]));
}

// Numbers end at half of what 64 bits hold, long before arithmetic overflows while the state is locked.
#[test]
fn the_last_positions_are_refused_and_do_not_panic() {
    let io = MemoryIo::new();
    let log = open(&io);
    let released = log.release_to(Position::MAX).and_then(|ticket| ticket.wait());
    let appended = log.append_next(&["one too many"]).and_then(|ticket| ticket.wait());
    assert!(released.is_err() || appended.is_err());
}

// Missing segments next to each other are one finding, however many they are.
#[test]
fn segments_that_are_far_apart_take_no_time_to_list() {
    let io = MemoryIo::new();
    let log = open(&io);
    append(&log, "first");
    log.close().unwrap();
    let number = SegmentNumber::new(50_000_000).unwrap();
    let header = SegmentHeader {
        log: LOG,
        number,
        geometry: Geometry { capacity: 64 << 10, layout: Layout::Aligned },
        first_frame: FrameNumber::new(1000).unwrap(),
        previous_checksum: 1,
        first_position: Position::new(500),
        truncations: 0,
        lowest_truncated: None,
    };
    let mut bytes = header.encode();
    bytes.resize(64 << 10, 0);
    let file = io.open(&segment(number.get()), OpenMode::Create).unwrap();
    write_all_at(&*file, &bytes, 0).unwrap();
    let survey = inspect(&io, Path::new("log"), Depth::Opening, &mut |_| {}).unwrap();
    assert!(survey.missing.len() < 1000, "{} entries", survey.missing.len());
}

// One read covers several extents; a file that ends inside the last of them has the others.
#[test]
fn a_short_file_does_not_make_good_positions_unreadable_in_a_range() {
    let io = MemoryIo::new();
    let log = open(&io);
    append_until_segment(&log, 3);
    drop(log);
    io.set_len(&segment(1), 28_622).unwrap();
    let log = Log::open(Arc::new(io), "log", Options { accept_loss: true, ..options() }).unwrap().0;
    let first = Position::new(1);
    assert!(log.read(first).is_ok());
    let range = log.read_range(first, log.next(), u64::MAX);
    assert!(range.is_ok(), "{range:?}");
}

// The release that let the oldest segments go is the only word on them. It stands twice before their files go.
#[test]
fn a_bad_bit_in_the_last_release_does_not_keep_the_log_from_opening() {
    let io = MemoryIo::new();
    let log = open(&io);
    append_until_segment(&log, 3);
    append(&log, "kept");
    log.release_to(log.next().previous().unwrap()).unwrap().wait().unwrap();
    log.maintain().unwrap();
    append(&log, "certifies the release");
    drop(log);
    flip(&io, 3, frame_with(&io, 3, RecordType::Release) + 64 + 24);
    let survey = inspect(&io, Path::new("log"), Depth::EveryFrame, &mut |_| {}).unwrap();
    assert_eq!(survey.missing, [], "a thorough look comes to the same result");
    let opened = Log::open(Arc::new(io), "log", options());
    assert!(opened.is_ok(), "{}", opened.err().map_or_else(String::new, |error| error.to_string()));
}

// A header knows of truncations in the two segments before it. If more are missing, and something was truncated in them, nobody
// knows how far back that reached: nothing from before may come back.
#[test]
fn truncations_in_many_missing_segments_bring_no_void_record_back() {
    let io = MemoryIo::new();
    let log = open(&io);
    append(&log, "first");
    append(&log, "second, void");
    append_until_segment(&log, 2);
    log.truncate_from(Position::new(2)).unwrap().wait().unwrap();
    append(&log, "second");
    append_until_segment(&log, 6);
    append(&log, "last");
    let last = log.next().previous().unwrap();
    drop(log);
    for number in 2..=4 {
        io.remove(&segment(number)).unwrap();
    }
    let missing = match Log::open(Arc::new(io.clone()), "log", options()) {
        Err(OpenError::MissingSegments(missing)) => missing,
        other => panic!("{other:?}"),
    };
    assert_eq!(missing.len(), 1, "{missing:?}");
    assert_eq!((missing[0].segment.get(), missing[0].last_segment.get()), (2, 4));
    let log = Log::open(Arc::new(io.clone()), "log", Options { accept_loss: true, ..options() }).unwrap().0;
    assert!(
        matches!(log.read(Position::new(2)), Err(ReadError::Lost { .. })),
        "{:?}",
        log.read(Position::new(2))
    );
    assert_eq!(&log.read(last).unwrap().payload[..], b"last");
    drop(log);
    let log = open(&io);
    assert!(matches!(log.read(Position::new(2)), Err(ReadError::Lost { .. })), "the loss stays accepted");
}

#[test]
fn a_loss_that_was_accepted_covers_its_own_segments_and_no_others() {
    let io = MemoryIo::new();
    let log = open(&io);
    append_until_segment(&log, 8);
    drop(log);
    let missing = |io: &MemoryIo| match Log::open(Arc::new(io.clone()), "log", options()) {
        Err(OpenError::MissingSegments(missing)) => {
            missing.iter().map(|damage| (damage.segment.get(), damage.last_segment.get())).collect()
        }
        Err(error) => panic!("{error}"),
        Ok(_) => Vec::new(),
    };
    io.remove(&segment(4)).unwrap();
    assert_eq!(missing(&io), [(4, 4)]);
    Log::open(Arc::new(io.clone()), "log", Options { accept_loss: true, ..options() }).unwrap();
    assert_eq!(missing(&io), []);
    for number in [2, 3, 5] {
        io.remove(&segment(number)).unwrap();
    }
    assert_eq!(missing(&io), [(2, 3), (5, 5)]);
}

#[test]
fn a_log_cannot_start_or_go_on_behind_the_last_position() {
    let io = MemoryIo::new();
    let last = Position::new(gapless_types::limits::LAST_LOG_NUMBER);
    let behind = last.next().unwrap();
    let opened = Log::open(Arc::new(io.clone()), "log", Options { first_position: behind, ..options() });
    assert!(matches!(opened, Err(OpenError::FirstPosition(_))), "{opened:?}");
    let log =
        Log::open(Arc::new(io.clone()), "log", Options { first_position: last, ..options() }).unwrap().0;
    assert!(matches!(log.append_next(&["a", "b"]), Err(AppendError::NumbersExhausted { .. })));
    append(&log, "the last one");
    assert!(matches!(log.append_next(&["a"]), Err(AppendError::NumbersExhausted { .. })));
    assert!(matches!(log.append(Position::MAX, &["a"]), Err(AppendError::NumbersExhausted { .. })));
    assert!(matches!(log.release_to(Position::MAX), Err(AppendError::NumbersExhausted { .. })));
    drop(log);
    let log = open(&io);
    assert_eq!((log.next(), &log.read(last).unwrap().payload[..]), (behind, &b"the last one"[..]));
    log.truncate_from(last).unwrap().wait().unwrap();
    append(&log, "another last one");
}

#[test]
fn a_log_whose_segment_numbers_end_refuses_and_keeps_what_it_has() {
    let io = MemoryIo::new();
    let number = SegmentNumber::new(gapless_types::limits::LAST_SEGMENT_NUMBER).unwrap();
    let header = SegmentHeader {
        log: LOG,
        number,
        geometry: Geometry { capacity: 64 << 10, layout: Layout::Aligned },
        first_frame: FrameNumber::FIRST,
        previous_checksum: 0,
        first_position: Position::FIRST,
        truncations: 0,
        lowest_truncated: None,
    };
    let mut bytes = header.encode();
    bytes.resize(64 << 10, 0);
    io.create_dir(Path::new("log")).unwrap();
    let file = io.open(&segment(number.get()), OpenMode::Create).unwrap();
    write_all_at(&*file, &bytes, 0).unwrap();
    let log = Log::open(Arc::new(io), "log", Options { accept_loss: true, ..options() });
    assert!(matches!(log, Err(OpenError::Io { .. })), "there is no segment to record the loss in: {log:?}");
}

// Frames that are synced now and then do not certify each other, but a footer certifies all it covers, also in a segment that
// lost its header and its first frame. Were it believed only once the header is healed, records would come back from the dead.
#[test]
fn a_footer_certifies_the_frames_of_a_segment_without_a_header() {
    let io = MemoryIo::new();
    let lazy = || Options { sync: SyncPolicy::OnRequest, ..options() };
    let log = Log::open(Arc::new(io.clone()), "log", lazy()).unwrap().0;
    let append = |payload: &[u8]| {
        let _later = log.append_next(&[payload]).unwrap();
        log.flush().unwrap();
    };
    while log.statistics().segments < 2 {
        append(&[7; 8000]);
    }
    let first = log.next();
    for payload in ["a", "b", "c"] {
        append(payload.as_bytes());
    }
    log.close().unwrap();
    io.overwrite(&segment(2), 0, &[0xee; 4096 + 64]).unwrap();
    let readable =
        |log: &Log| (first.get()..log.next().get()).filter(|&at| log.read(Position::new(at)).is_ok()).count();
    let log = Log::open(Arc::new(io.clone()), "log", lazy()).unwrap().0;
    let (next, found) = (log.next(), readable(&log));
    assert_eq!((next.get() - first.get(), found), (3, 3));
    drop(log);
    let log = Log::open(Arc::new(io), "log", lazy()).unwrap().0;
    assert_eq!((log.next(), readable(&log)), (next, found), "a second opening finds the same");
}
