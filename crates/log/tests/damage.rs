//! Every line of the damage table, each with a test that plants the damage and looks at what follows.

#![allow(clippy::unwrap_used, reason = "the first thing that does not hold ends the test")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use gapless_log::io::memory::MemoryIo;
use gapless_log::{
    AppendError, Damage, DamagePolicy, Depth, Drive, Finding, Log, LogId, OpenError, OpenReport, Options,
    ReadError, StateKey, inspect,
};
use gapless_types::{Position, SegmentNumber};

const SEGMENT: u32 = 64 << 10;

fn options() -> Options {
    Options {
        drive: Drive::Caller,
        first_segment_bytes: SEGMENT,
        segment_bytes: SEGMENT,
        hot_bytes: 0,
        log_id: Some(LogId::from_bytes([9; 16])),
        ..Options::replicated()
    }
}

fn open(io: &MemoryIo) -> (Log, OpenReport) {
    Log::open(Arc::new(io.clone()), "log", options()).unwrap()
}

fn segment(number: u32) -> PathBuf {
    Path::new("log").join(format!("{number:010}.segment"))
}

fn payload(position: u64) -> Vec<u8> {
    format!("record {position} ").repeat(40).into_bytes()
}

/// A log with `frames` frames of two records each; every frame is one block.
fn log_with(frames: u64) -> MemoryIo {
    let io = MemoryIo::new();
    let (log, _) = open(&io);
    for frame in 0..frames {
        let (first, second) = (2 * frame + 1, 2 * frame + 2);
        log.append(Position::new(first), &[payload(first), payload(second)]).unwrap().wait().unwrap();
        log.maintain().unwrap();
    }
    io
}

/// Where the frame with these two records starts, in which segment.
fn frame_of(io: &MemoryIo, position: u64) -> (u32, u32) {
    let mut found = None;
    inspect(io, Path::new("log"), Depth::EveryFrame, &mut |frame| {
        if frame.records().any(|record| record.position.get() == position && record.kind as u8 == 1) {
            found = Some((frame.segment.get(), frame.offset));
        }
    })
    .unwrap();
    found.unwrap()
}

fn flip(io: &MemoryIo, number: u32, offset: u32) {
    let path = segment(number);
    let bytes = io.bytes_of(&path).unwrap();
    io.overwrite(&path, u64::from(offset), &[bytes[offset as usize] ^ 0x10]).unwrap();
}

fn zero(io: &MemoryIo, number: u32, offset: u32, length: usize) {
    io.overwrite(&segment(number), u64::from(offset), &vec![0; length]).unwrap();
}

fn assert_reads(log: &Log, positions: impl IntoIterator<Item = u64>) {
    for position in positions {
        assert_eq!(
            log.read(Position::new(position)).unwrap().payload,
            payload(position),
            "position {position}"
        );
    }
}

fn findings(report: &OpenReport) -> Vec<Finding> {
    report.damage.iter().map(|damage| damage.finding).collect()
}

fn at(position: u64) -> Position {
    Position::new(position)
}

#[test]
fn a_second_torn_tail_does_not_make_the_first_forgotten() {
    let io = log_with(5);
    let (number, offset) = frame_of(&io, 9);
    flip(&io, number, offset + 300);
    let (log, _) = open(&io);
    log.truncate_from(at(3)).unwrap().wait().unwrap();
    log.append(at(3), &[payload(3)]).unwrap().wait().unwrap();
    drop(log);
    let (number, offset) = frame_of(&io, 3);
    flip(&io, number, offset + 300);
    let (log, report) = open(&io);
    assert_eq!(log.next(), at(3));
    assert_eq!(report.suspect.unwrap().first_position, at(9), "9 was lost, too, and not passed again");
}

#[test]
fn a_bad_last_frame_is_torn_dropped_and_reported_and_its_range_stays_suspect() {
    let io = log_with(5);
    let (number, offset) = frame_of(&io, 9);
    flip(&io, number, offset + 300);
    let (log, report) = open(&io);
    assert_eq!(findings(&report), [Finding::TornTail]);
    assert_eq!(log.next(), at(9));
    assert_reads(&log, 1..=8);
    let suspect = report.suspect.unwrap();
    assert_eq!((suspect.first_position, suspect.offset), (at(9), offset));

    // It is not forgotten by writing on, nor by reopening, nor by releasing: only by settling it.
    log.append(at(9), &[payload(9)]).unwrap().wait().unwrap();
    drop(log);
    let (log, report) = open(&io);
    assert_eq!((findings(&report), report.suspect), (vec![], Some(suspect)));
    log.release_to(at(9)).unwrap().wait().unwrap();
    log.maintain().unwrap();
    drop(log);
    let (log, report) = open(&io);
    assert_eq!(report.suspect, Some(suspect));
    log.settle_suspect().unwrap().wait().unwrap();
    drop(log);
    let (log, report) = open(&io);
    assert_eq!((report.suspect, log.suspect()), (None, None));
    assert_reads(&log, [9]);
}

#[test]
fn the_bytes_of_a_torn_tail_are_never_written_again() {
    let io = log_with(5);
    let (number, offset) = frame_of(&io, 9);
    flip(&io, number, offset + 300);
    let torn = io.bytes_of(&segment(number)).unwrap();
    let (log, _) = open(&io);
    log.append(at(9), &[payload(9)]).unwrap().wait().unwrap();
    let now = io.bytes_of(&segment(number)).unwrap();
    let frame = offset as usize..offset as usize + 4096;
    assert_eq!(torn[frame.clone()], now[frame]);
    let survey = inspect(&io, Path::new("log"), Depth::EveryFrame, &mut |_| {}).unwrap();
    assert_eq!(survey.segments.len(), 2, "what follows a torn tail goes to a segment of its own");
}

#[test]
fn a_last_frame_that_an_idle_log_certified_is_corrupt_and_not_torn() {
    let io = log_with(5);
    let (log, _) = open(&io);
    log.certify().unwrap();
    drop(log);
    let (number, offset) = frame_of(&io, 9);
    flip(&io, number, offset + 300);
    let (log, report) = open(&io);
    assert_eq!(findings(&report), [Finding::CorruptFrame]);
    assert_eq!(log.next(), at(11), "nothing certified is dropped");
    assert!(matches!(log.read(at(9)), Err(ReadError::Corrupt { position, .. }) if position == at(9)));
    assert_reads(&log, [10]);
}

#[test]
fn a_bad_frame_with_a_later_one_is_corrupt_its_good_records_are_rescued_and_the_log_is_read_only() {
    let io = log_with(5);
    let (number, offset) = frame_of(&io, 5);
    // In the payload of position 5, the first of two records.
    flip(&io, number, offset + 64 + 24 + 5);
    let (log, report) = open(&io);
    let [damage] = &report.damage[..] else { panic!("{:?}", report.damage) };
    assert_eq!(damage.finding, Finding::CorruptFrame);
    assert_eq!((damage.positions.clone(), damage.rescued), (vec![at(5)..at(6)], 1));
    assert_eq!(damage.frames.end - damage.frames.start, 1);
    assert!(!report.state_in_doubt, "the frame's header tells that only data is missing");
    assert_reads(&log, (1..=4).chain(6..=10));
    for _ in 0..2 {
        assert!(matches!(log.read(at(5)), Err(ReadError::Corrupt { position, .. }) if position == at(5)));
    }
    let read_only = log.append(at(11), &[payload(11)]).unwrap_err();
    assert!(
        matches!(&read_only, AppendError::ReadOnly(damage) if damage.positions == [at(5)..at(6)]),
        "{read_only}"
    );
}

#[test]
fn a_repaired_position_reads_again_for_ever_and_the_log_takes_appends() {
    let io = log_with(30);
    let (number, offset) = frame_of(&io, 5);
    flip(&io, number, offset + 64 + 24 + 5);
    flip(&io, number, offset + 64 + 24 + 700);
    let scan = Options { damage: DamagePolicy::ReadOnly, ..options() };
    // The sealed segment has a footer: the damage shows when it is read, or when the footer is gone.
    zero(&io, number, SEGMENT - 72, 72);
    let (log, _) = Log::open(Arc::new(io.clone()), "log", scan).unwrap();
    let lost: Vec<u64> = (1..=60).filter(|&position| log.read(at(position)).is_err()).collect();
    assert_eq!(lost, [5, 6]);
    assert!(matches!(log.repair(at(7), b"no"), Err(AppendError::NotDamaged(position)) if position == at(7)));
    log.repair(at(5), &payload(5)).unwrap().wait().unwrap();
    assert_eq!(log.unrepaired()[0].positions, [at(6)..at(7)]);
    assert!(log.append(at(61), &[payload(61)]).is_err());
    log.repair(at(6), &payload(6)).unwrap().wait().unwrap();
    assert_eq!(log.unrepaired(), []);
    log.append(at(61), &[payload(61)]).unwrap().wait().unwrap();
    assert_reads(&log, 1..=61);
    drop(log);
    let (log, _) = open(&io);
    assert_reads(&log, 1..=61);
    assert_eq!(log.unrepaired(), []);
}

#[test]
fn a_frame_with_a_bad_header_is_corrupt_and_its_records_are_rescued() {
    let io = log_with(5);
    let (number, offset) = frame_of(&io, 5);
    flip(&io, number, offset + 9);
    let (log, report) = open(&io);
    assert_eq!(findings(&report), [Finding::CorruptFrame]);
    assert_eq!((report.damage[0].positions.len(), report.damage[0].rescued), (0, 2));
    assert!(report.state_in_doubt, "nobody knows whether the frame held state");
    assert_reads(&log, 1..=10);
}

#[test]
fn a_frame_that_never_got_to_the_disk_is_a_lost_write_with_its_exact_range() {
    let io = log_with(6);
    let (number, offset) = frame_of(&io, 5);
    zero(&io, number, offset, 8192);
    let (log, report) = open(&io);
    let [damage] = &report.damage[..] else { panic!("{:?}", report.damage) };
    assert_eq!(damage.finding, Finding::LostWrite);
    assert_eq!(damage.positions, [at(5)..at(9)]);
    assert_eq!(damage.frames.end - damage.frames.start, 2);
    assert_eq!(damage.bytes, offset..offset + 8192);
    assert_reads(&log, (1..=4).chain(9..=12));
    assert!(matches!(log.append(at(13), &[b"x"]), Err(AppendError::ReadOnly(_))));
}

#[test]
fn a_misdirected_frame_gives_itself_away() {
    let io = log_with(6);
    let (number, offset) = frame_of(&io, 11);
    let frame = io.bytes_of(&segment(number)).unwrap()[offset as usize..offset as usize + 4096].to_vec();
    // It landed two blocks further on, and the frame before it never was written.
    zero(&io, number, offset - 4096, 8192);
    io.overwrite(&segment(number), u64::from(offset) + 8192, &frame).unwrap();
    let (log, report) = open(&io);
    assert_eq!(findings(&report), [Finding::LostWrite], "the stray frame certifies the one that is gone");
    assert_eq!(report.damage[0].positions, [at(9)..at(11)]);
    assert_eq!(log.next(), at(11), "the stray one itself was the last, and is dropped");
    assert!(report.suspect.is_some());
    assert_reads(&log, 1..=8);
}

#[test]
fn a_lost_truncation_does_not_bring_old_records_back() {
    let io = MemoryIo::new();
    let (log, _) = open(&io);
    log.append(at(1), &[payload(1), b"old 2".to_vec(), b"old 3".to_vec()]).unwrap().wait().unwrap();
    log.truncate_from(at(2)).unwrap().wait().unwrap();
    log.append(at(2), &[payload(2)]).unwrap().wait().unwrap();
    log.append(at(3), &[payload(3)]).unwrap().wait().unwrap();
    let (number, third) = frame_of(&io, 3);
    // The truncation and the new 2 vanish; 3 is there.
    zero(&io, number, third - 8192, 8192);
    drop(log);
    let (log, report) = open(&io);
    assert_eq!(findings(&report), [Finding::LostWrite]);
    assert_eq!(report.damage[0].positions, [at(2)..at(3)]);
    assert!(matches!(log.read(at(2)), Err(ReadError::Corrupt { .. })), "the old 2 is void");
    assert_reads(&log, [1, 3]);
}

#[test]
fn a_misdirected_frame_does_not_bring_void_records_back() {
    let io = MemoryIo::new();
    let (log, _) = open(&io);
    log.append(at(1), &[payload(1)]).unwrap().wait().unwrap();
    log.append(at(2), &[b"old 2"]).unwrap().wait().unwrap();
    let (number, old) = frame_of(&io, 2);
    log.truncate_from(at(2)).unwrap().wait().unwrap();
    log.append(at(2), &[payload(2)]).unwrap().wait().unwrap();
    log.append(at(3), &[payload(3)]).unwrap().wait().unwrap();
    drop(log);
    let (_, new) = frame_of(&io, 2);
    let stray = io.bytes_of(&segment(number)).unwrap()[old as usize..old as usize + 4096].to_vec();
    assert!(new > old);
    io.overwrite(&segment(number), u64::from(new), &stray).unwrap();
    let (log, report) = open(&io);
    assert_eq!(report.damage[0].positions, [at(2)..at(3)], "{:?}", report.damage);
    assert!(matches!(log.read(at(2)), Err(ReadError::Corrupt { .. })), "the old 2 is void");
    assert_reads(&log, [1, 3]);
}

#[test]
fn a_frame_with_another_content_than_the_one_that_was_followed_breaks_the_chain() {
    let write = |third: &[u8]| {
        let io = MemoryIo::new();
        let (log, _) = open(&io);
        for (position, payload) in [(1, &payload(1)[..]), (2, &payload(2)), (3, third), (4, &payload(4))] {
            log.append(at(position), &[payload]).unwrap().wait().unwrap();
        }
        io
    };
    let (io, other) = (write(&payload(3)), write(b"another 3"));
    let (number, offset) = frame_of(&io, 3);
    let foreign = other.bytes_of(&segment(number)).unwrap()[offset as usize..offset as usize + 4096].to_vec();
    io.overwrite(&segment(number), u64::from(offset), &foreign).unwrap();
    let (log, report) = open(&io);
    assert_eq!(findings(&report), [Finding::BrokenChain]);
    assert_eq!(report.damage[0].positions, [at(3)..at(4)]);
    assert!(matches!(log.read(at(3)), Err(ReadError::Corrupt { .. })));
    assert_reads(&log, [1, 2, 4]);
}

#[test]
fn a_chain_that_does_not_fit_is_named() {
    let io = log_with(30);
    // The first segment is replaced by one of the same log with another history (an old copy that was restored).
    let restored = MemoryIo::new();
    let (log, _) = open(&restored);
    for frame in 0..30 {
        let (first, second) = (2 * frame + 1, 2 * frame + 2);
        log.append(at(first), &[b"other".to_vec(), payload(second)]).unwrap().wait().unwrap();
        log.maintain().unwrap();
    }
    let foreign = restored.bytes_of(&segment(1)).unwrap();
    io.overwrite(&segment(1), 0, &foreign).unwrap();
    let (log, report) = open(&io);
    assert_eq!(findings(&report), [Finding::BrokenChain]);
    assert!(matches!(log.append(at(61), &[b"x"]), Err(AppendError::ReadOnly(_))));
}

#[test]
fn a_missing_segment_refuses_to_open_and_lists_the_range() {
    let io = log_with(40);
    let survey = inspect(&io, Path::new("log"), Depth::Opening, &mut |_| {}).unwrap();
    assert!(survey.segments.len() >= 4);
    let (second, third) = (&survey.segments[1], &survey.segments[2]);
    gapless_log::io::Io::remove(&io, &segment(2)).unwrap();
    let error = Log::open(Arc::new(io), "log", options()).unwrap_err();
    let OpenError::MissingSegments(missing) = error else { panic!("{error}") };
    assert_eq!(missing.len(), 1);
    assert_eq!(
        (missing[0].finding, missing[0].segment),
        (Finding::MissingSegment, SegmentNumber::new(2).unwrap())
    );
    assert_eq!(missing[0].positions, [second.first_position..third.first_position]);
}

#[test]
fn an_accepted_loss_is_recorded_and_never_silent() {
    let io = log_with(40);
    let survey = inspect(&io, Path::new("log"), Depth::Opening, &mut |_| {}).unwrap();
    let lost = survey.segments[1].first_position.get()..survey.segments[2].first_position.get();
    gapless_log::io::Io::remove(&io, &segment(2)).unwrap();
    let accepting = Options { accept_loss: true, ..options() };
    let (log, report) = Log::open(Arc::new(io.clone()), "log", accepting).unwrap();
    assert_eq!(findings(&report), [Finding::MissingSegment]);
    drop(log);
    // From now on it opens without being asked to accept anything, and still says what is gone.
    for _ in 0..2 {
        let (log, report) = open(&io);
        assert_eq!(findings(&report), []);
        for position in lost.clone() {
            assert!(matches!(log.read(at(position)), Err(ReadError::Lost { .. })));
        }
        assert_reads(&log, (1..lost.start).chain(lost.end..=80));
        log.append(log.next(), &[b"on"]).unwrap().wait().unwrap();
    }
    let survey = inspect(&io, Path::new("log"), Depth::EveryFrame, &mut |_| {}).unwrap();
    assert_eq!(survey.losses.len(), 1);
    assert_eq!((survey.losses[0].first.get(), survey.losses[0].end.get()), (lost.start, lost.end));
}

#[test]
fn the_last_segment_is_missed_when_a_sealed_one_stands_at_the_end() {
    let io = log_with(40);
    let survey = inspect(&io, Path::new("log"), Depth::Opening, &mut |_| {}).unwrap();
    let last = survey.segments.last().unwrap().number.get();
    for number in [last, last + 1] {
        let _ = gapless_log::io::Io::remove(&io, &segment(number));
    }
    let error = Log::open(Arc::new(io.clone()), "log", options()).unwrap_err();
    let OpenError::MissingSegments(missing) = error else { panic!("{error}") };
    assert_eq!(missing[0].segment.get(), last);
    let accepting = Options { accept_loss: true, ..options() };
    let (log, _) = Log::open(Arc::new(io.clone()), "log", accepting).unwrap();
    log.append(log.next(), &[b"on"]).unwrap().wait().unwrap();
    drop(log);
    let (_, report) = open(&io);
    assert_eq!(findings(&report), []);
}

#[test]
fn a_short_segment_refuses_to_open_and_lists_the_range() {
    let io = log_with(40);
    let survey = inspect(&io, Path::new("log"), Depth::Opening, &mut |_| {}).unwrap();
    let third = survey.segments[2].first_position;
    let (_, cut) = frame_of(&io, third.get() - 2);
    io.set_len(&segment(2), u64::from(cut)).unwrap();
    let error = Log::open(Arc::new(io.clone()), "log", options()).unwrap_err();
    let OpenError::MissingSegments(missing) = error else { panic!("{error}") };
    assert_eq!((missing[0].finding, missing[0].segment.get()), (Finding::WrongLength, 2));
    assert_eq!(missing[0].positions, [at(third.get() - 2)..third]);
    let accepting = Options { accept_loss: true, ..options() };
    let (log, _) = Log::open(Arc::new(io.clone()), "log", accepting).unwrap();
    assert_reads(&log, (1..third.get() - 2).chain(third.get()..=80));
    drop(log);
    let (log, _) = open(&io);
    assert!(matches!(log.read(at(third.get() - 1)), Err(ReadError::Lost { .. })));
    log.append(log.next(), &[b"goes on"]).unwrap().wait().unwrap();
}

#[test]
fn a_bad_footer_is_rebuilt_by_scanning() {
    let io = log_with(40);
    flip(&io, 1, SEGMENT - 100);
    let (log, report) = open(&io);
    assert_eq!(findings(&report), [Finding::BadFooter]);
    assert_reads(&log, 1..=80);
    log.maintain().unwrap();
    drop(log);
    let (log, report) = open(&io);
    assert_eq!(findings(&report), [], "written anew");
    assert_reads(&log, 1..=80);
}

#[test]
fn one_bad_copy_of_a_header_is_healed_and_two_are_found_out_from_the_frames() {
    for (damaged, copies) in [(vec![5], 1), (vec![5, 2048 + 5], 0)] {
        let io = log_with(40);
        for offset in damaged {
            flip(&io, 2, offset);
        }
        let (log, report) = open(&io);
        assert_eq!(findings(&report), [Finding::BadHeader], "{copies} copies");
        assert_reads(&log, 1..=80);
        drop(log);
        let (_, report) = open(&io);
        assert_eq!(findings(&report), [], "healed");
    }
}

#[test]
fn a_checksum_error_while_reading_is_an_error_a_metric_and_an_alarm_and_never_skipped() {
    let io = log_with(40);
    let (number, offset) = frame_of(&io, 5);
    assert_eq!(number, 1, "in a sealed segment, which opening does not read");
    flip(&io, number, offset + 64 + 24 + 5);
    let alarms: Arc<Mutex<Vec<Damage>>> = Arc::default();
    let heard = alarms.clone();
    let alarmed = Options {
        alarm: Some(Arc::new(move |damage| heard.lock().unwrap().push(damage.clone()))),
        ..options()
    };
    let (log, report) = Log::open(Arc::new(io), "log", alarmed).unwrap();
    assert_eq!(findings(&report), []);
    let before = log.read_range(at(1), at(81), 1 << 20).unwrap();
    assert_eq!(before.last().unwrap().position, at(4), "what is good comes first");
    for _ in 0..2 {
        let error = log.read_range(at(5), at(81), 1 << 20).unwrap_err();
        assert!(matches!(error, ReadError::Corrupt { position, .. } if position == at(5)));
    }
    assert_reads(&log, 6..=80);
    assert_eq!(log.statistics().checksum_errors, 2);
    let alarms = alarms.lock().unwrap();
    assert_eq!(alarms.len(), 1, "the same damage is an alarm once");
    assert_eq!((alarms[0].finding, alarms[0].positions.clone()), (Finding::BadRecord, vec![at(5)..at(6)]));
}

#[test]
fn the_scrub_finds_rot_in_sealed_segments_before_a_reader_does() {
    let io = log_with(60);
    let (log, _) = open(&io);
    let mut scrub = log.scrub();
    let mut read = 0;
    loop {
        let step = scrub.step().unwrap().unwrap();
        assert_eq!(step.damage, []);
        read += 1;
        if step.round_complete {
            break;
        }
    }
    assert_eq!(read, log.statistics().segments - 1, "every segment but the one being written");
    let (number, offset) = frame_of(&io, 5);
    flip(&io, number, offset + 64 + 24 + 5);
    let step = scrub.step().unwrap().unwrap();
    assert_eq!(step.segment.get(), number);
    assert_eq!(step.damage[0].finding, Finding::CorruptFrame);
    assert_eq!(step.damage[0].positions, [at(5)..at(6)]);
    assert_eq!(log.damage(), step.damage);
    assert!(log.statistics().scrubbed_bytes > 0);
}

#[test]
fn any_flipped_bit_is_found_or_harmless_and_never_changes_a_record() {
    let pristine = log_with(22);
    let files: Vec<PathBuf> = (1..=2).map(segment).collect();
    let (mut tried, mut opened) = (0, 0);
    for file in &files {
        let bytes = pristine.bytes_of(file).unwrap();
        for offset in (0..bytes.len()).filter(|&offset| bytes[offset] != 0).step_by(37) {
            let io = pristine.fork();
            io.overwrite(file, offset as u64, &[bytes[offset] ^ (1 << (offset % 8))]).unwrap();
            tried += 1;
            let Ok((log, report)) = Log::open(Arc::new(io), "log", options()) else { continue };
            opened += 1;
            let end = log.next().get();
            assert!(
                end == 45 || findings(&report).contains(&Finding::TornTail),
                "{file:?} {offset}: {report:?}"
            );
            for position in 1..end {
                match log.read(at(position)) {
                    Ok(record) => {
                        assert_eq!(record.payload, payload(position), "{file:?} {offset} {position}");
                    }
                    Err(ReadError::Corrupt { position: bad, .. }) => {
                        assert_eq!(bad, at(position));
                        let told = log.damage();
                        assert!(
                            told.iter()
                                .flat_map(|damage| &damage.positions)
                                .any(|range| range.contains(&bad)),
                            "{file:?} {offset} {position}: nobody was told: {told:?}"
                        );
                    }
                    Err(error) => panic!("{file:?} {offset} {position}: {error}"),
                }
            }
        }
    }
    assert!(tried > 500);
    assert!(
        opened > tried * 9 / 10,
        "{opened} of {tried}: few bits are so dear that nothing opens without them"
    );
}

#[test]
fn a_footer_certifies_the_frames_it_covers() {
    let io = log_with(5);
    open(&io).0.close().unwrap();
    let (number, offset) = frame_of(&io, 9);
    flip(&io, number, offset + 64 + 24 + 5);
    let survey = inspect(&io, Path::new("log"), Depth::EveryFrame, &mut |_| {}).unwrap();
    assert_eq!(survey.damage[0].finding, Finding::CorruptFrame, "a clean close stands behind it: not torn");
    assert_eq!((survey.damage[0].positions.clone(), survey.next), (vec![at(9)..at(10)], at(11)));
}

#[test]
fn a_segment_whose_first_frame_never_came_is_not_continued_without_the_state() {
    let io = log_with(20);
    let (log, _) = open(&io);
    log.set_state(StateKey(1), b"vote").unwrap().wait().unwrap();
    drop(log);
    // The power went when segment 3 was begun: its header is there, its first frame is not.
    let (log, _) = open(&io);
    while log.statistics().segments < 3 {
        log.append(log.next(), &[payload(1)]).unwrap().wait().unwrap();
    }
    drop(log);
    zero(&io, 3, 4096, SEGMENT as usize - 4096);
    let (log, _) = open(&io);
    for _ in 0..2 {
        log.append(log.next(), &[payload(1)]).unwrap().wait().unwrap();
        log.release_to(log.next()).unwrap().wait().unwrap();
        log.maintain().unwrap();
    }
    drop(log);
    let (log, _) = open(&io);
    assert_eq!(log.state(StateKey(1)).unwrap(), b"vote" as &[u8]);
}

#[test]
fn a_segment_of_another_log_is_refused() {
    let io = log_with(40);
    let other = MemoryIo::new();
    let stranger = Options { log_id: Some(LogId::from_bytes([8; 16])), ..options() };
    let (log, _) = Log::open(Arc::new(other.clone()), "log", stranger).unwrap();
    while log.statistics().segments < 3 {
        log.append(log.next(), &[payload(1)]).unwrap().wait().unwrap();
    }
    io.overwrite(&segment(2), 0, &other.bytes_of(&segment(2)).unwrap()).unwrap();
    let error = Log::open(Arc::new(io), "log", options()).unwrap_err();
    assert!(matches!(error, OpenError::ForeignSegment { segment, .. } if segment.get() == 2), "{error}");
}

#[test]
fn rot_that_a_reader_found_can_be_repaired() {
    let io = log_with(40);
    let (number, offset) = frame_of(&io, 5);
    flip(&io, number, offset + 64 + 24 + 5);
    let (log, _) = open(&io);
    assert!(matches!(log.read(at(5)), Err(ReadError::Corrupt { .. })));
    log.repair(at(5), &payload(5)).unwrap().wait().unwrap();
    assert!(matches!(log.repair(at(5), &payload(5)), Err(AppendError::NotDamaged(_))));
    assert_reads(&log, 1..=80);
    drop(log);
    assert_reads(&open(&io).0, 1..=80);
}
