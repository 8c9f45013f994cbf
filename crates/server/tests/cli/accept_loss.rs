//! `gapless log accept-loss`.

use std::fs;
use std::sync::Arc;

use gapless_log::io::real::RealIo;
use gapless_log::{Layout, Log, OpenError, Options, ReadError};
use gapless_types::Position;

use crate::support::{TestLog, append, log_command, options};

#[test]
fn nothing_is_accepted_where_nothing_is_missing() {
    let made = TestLog::with_records(20);
    let before = made.files();
    for more in [&[][..], &["--yes"]] {
        log_command("accept-loss", &made.dir, more).exits_with(0).says("nothing to accept");
    }
    assert!(made.files() == before);
}

#[test]
fn without_yes_the_loss_is_listed_and_nothing_changes() {
    let made = TestLog::with_records(40);
    let lost = made.survey().segments[1].clone();
    fs::remove_file(made.segment(2)).unwrap();
    let before = made.files();
    let run = log_command("accept-loss", &made.dir, &[]).exits_with(1);
    run.says("missing segment 2");
    run.says(&format!("positions {}-{}", lost.first_position, lost.next_position.get() - 1));
    run.warns("--yes was not given");
    assert!(made.files() == before);

    let report = log_command("accept-loss", &made.dir, &["-o", "json"]).exits_with(1).json();
    assert_eq!(report["missing"][0]["segment"], 2);
    assert_eq!(report["accepted"], serde_json::json!([]));
}

#[test]
fn with_yes_the_loss_is_recorded_and_the_log_goes_on() {
    let made = TestLog::with_records(40);
    let lost = made.survey().segments[1].clone();
    fs::remove_file(made.segment(2)).unwrap();
    let refused = Log::open(Arc::new(RealIo), &made.dir, options()).unwrap_err();
    assert!(matches!(refused, OpenError::MissingSegments(_)), "{refused}");

    let report = log_command("accept-loss", &made.dir, &["--yes", "-o", "json"]).exits_with(0).json();
    let accepted = &report["accepted"][0];
    assert_eq!(accepted["first"], lost.first_position.get());
    assert_eq!(accepted["next"], lost.next_position.get());
    assert_eq!((&accepted["first_segment"], &accepted["last_segment"]), (&2.into(), &2.into()));
    log_command("accept-loss", &made.dir, &["--yes"]).exits_with(0).says("nothing to accept");
    log_command("verify", &made.dir, &[]).exits_with(0).says("accepted ");
    log_command("dump", &made.dir, &[]).exits_with(0).says("lost: and the loss was accepted");

    let log = made.open();
    assert_eq!(log.next(), Position::new(41));
    assert!(matches!(log.read(lost.first_position), Err(ReadError::Lost { .. })));
    assert_eq!(&log.read(lost.next_position).unwrap().payload[..7], b"record ");
    append(&log, 41..=41);
    log.close().unwrap();
}

#[test]
fn segments_keep_their_layout_and_their_length() {
    let packed =
        || Options { first_segment_bytes: 64 << 10, segment_bytes: 64 << 10, ..Options::partition() };
    let made = TestLog::nowhere();
    let (log, _) = Log::open(Arc::new(RealIo), &made.dir, packed()).unwrap();
    for number in 0..200 {
        log.append_next(&[vec![number; 1000]]).unwrap().wait().unwrap();
        log.maintain().unwrap();
    }
    log.close().unwrap();
    let last = made.survey().segments.last().unwrap().number.get();
    assert!(last >= 4);
    fs::remove_file(made.segment(last)).unwrap();

    log_command("accept-loss", &made.dir, &["--yes"]).exits_with(0).says("unknown positions");
    let survey = made.survey();
    for segment in &survey.segments {
        assert_eq!((segment.layout, segment.capacity), (Layout::Packed, 64 << 10));
    }
    assert_eq!(survey.missing, []);
    log_command("verify", &made.dir, &[]).exits_with(0);
}

#[test]
fn a_log_in_use_is_left_alone() {
    let made = TestLog::with_records(40);
    let log = made.open();
    fs::remove_file(made.segment(2)).unwrap();
    let before = made.files();
    let run = log_command("accept-loss", &made.dir, &["--yes"]).exits_with(1);
    run.warns("is in use by another process");
    run.warns("stop the process");
    assert!(made.files() == before);
    drop(log);
}

#[test]
fn a_segment_that_was_cut_short_is_a_loss_like_a_missing_one() {
    let made = TestLog::with_records(40);
    made.file(2).set_len(20 << 10).unwrap();
    let run = log_command("accept-loss", &made.dir, &[]).exits_with(1);
    run.says("wrong length in segment 2");
    log_command("verify", &made.dir, &[]).exits_with(1).says("wrong length in segment 2");
    log_command("accept-loss", &made.dir, &["--yes"]).exits_with(0);
    log_command("verify", &made.dir, &[]).exits_with(0).says("accepted ");
    let log = made.open();
    assert_eq!(log.next(), Position::new(41));
    log.append_next(&[b"goes on"]).unwrap().wait().unwrap();
}
