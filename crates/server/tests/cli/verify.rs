//! `gapless log verify`.

use std::os::unix::fs::FileExt;

use gapless_types::Position;

use crate::support::{FIRST_FRAME, FIRST_PAYLOAD, TestLog, append, log_command};

#[test]
fn a_sound_log_is_called_sound() {
    let made = TestLog::with_records(30);
    let run = log_command("verify", &made.dir, &[]).exits_with(0);
    run.says("30 records");
    run.says("\nSound.\n");
    assert_eq!(run.stderr, "", "no progress bar where there is no terminal");

    let report = log_command("verify", &made.dir, &["-o", "json"]).exits_with(0).json();
    let survey = made.survey();
    assert_eq!(report["sound"], true);
    assert_eq!(report["records"], 30);
    assert_eq!(report["segments"], survey.segments.len());
    assert_eq!(report["frames"], survey.frames_scanned);
    assert_eq!((&report["first"], &report["next"]), (&1.into(), &31.into()));
}

#[test]
fn a_flipped_bit_in_an_early_frame_is_named() {
    let made = TestLog::with_records(30);
    made.flip(1, FIRST_PAYLOAD + 2);
    let run = log_command("verify", &made.dir, &[]).exits_with(1);
    run.says("corrupt frame in segment 1, bytes 4096-8191, frame 1");
    run.says("position 1 cannot be read");
    run.says("restore these positions");
    run.warns("1 threat to records");
    run.warns("next:");

    let report = log_command("verify", &made.dir, &["-o", "json"]).exits_with(1).json();
    assert_eq!(report["sound"], false);
    let damage = &report["damage"][0];
    assert_eq!((&damage["finding"], &damage["segment"]), (&"corrupt_frame".into(), &1.into()));
    assert_eq!(damage["unreadable"], serde_json::json!([{ "first": 1, "next": 2 }]));
    assert_eq!(damage["bytes"], serde_json::json!({ "start": 4096, "end": 8192 }));
}

#[test]
fn a_torn_tail_alone_is_no_bad_news() {
    let made = TestLog::nowhere();
    let log = made.open();
    append(&log, 1..=5);
    drop(log);
    let end = made.survey().segments[0].end_offset;
    made.file(1).write_all_at(b"half a frame", u64::from(end)).unwrap();
    let run = log_command("verify", &made.dir, &[]).exits_with(0);
    run.says("torn tail in segment 1");
    run.says("the next opening drops it");
    run.says("No acknowledged record is threatened.");
    assert_eq!(run.stderr, "");

    let report = log_command("verify", &made.dir, &["-o", "json"]).exits_with(0).json();
    assert_eq!(report["sound"], true);
    assert_eq!(report["damage"][0]["finding"], "torn_tail");
    assert_eq!(report["suspect"]["first_position"], 6);
}

#[test]
fn a_bad_footer_and_one_bad_copy_of_a_header_threaten_nothing() {
    let made = TestLog::with_records(30);
    made.flip(1, (64 << 10) - 4);
    made.flip(2, 50);
    let run = log_command("verify", &made.dir, &[]).exits_with(0);
    run.says("bad footer in segment 1");
    run.says("bad header in segment 2");
    run.says("\nSound.\n");
}

#[test]
fn what_was_repaired_is_no_threat_any_more() {
    let made = TestLog::nowhere();
    let log = made.open();
    append(&log, 1..=5);
    drop(log);
    made.flip(1, FIRST_PAYLOAD + 2);
    log_command("verify", &made.dir, &[]).exits_with(1);

    let log = made.open();
    log.repair(Position::new(1), b"record 1").unwrap().wait().unwrap();
    log.close().unwrap();
    let run = log_command("verify", &made.dir, &[]).exits_with(0);
    run.says("position 1: restored, truncated or given up since");
}

#[test]
fn what_was_truncated_is_no_threat_any_more() {
    let made = TestLog::nowhere();
    let log = made.open();
    append(&log, 1..=5);
    log.truncate_from(Position::new(3)).unwrap().wait().unwrap();
    append(&log, 3..=4);
    drop(log);
    made.flip(1, FIRST_FRAME + 3 * 4096 + 64 + 24);
    log_command("verify", &made.dir, &[]).exits_with(0).says("corrupt frame in segment 1");
}

#[test]
fn every_frame_of_every_segment_is_read() {
    let made = TestLog::with_records(40);
    let segments = made.survey().segments;
    for segment in &segments {
        let last_block = u64::from(segment.end_offset) - 4096;
        made.flip(segment.number.get(), last_block + 64 + 4);
    }
    let report = log_command("verify", &made.dir, &["-o", "json"]).json();
    let found = report["damage"].as_array().unwrap();
    assert_eq!(found.len(), segments.len(), "{found:#?}");
}

#[test]
fn a_last_frame_that_rotted_after_a_clean_close_is_not_called_torn() {
    let made = TestLog::with_records(5);
    made.flip(1, FIRST_FRAME + 4 * 4096 + 64 + 24 + 2);
    let run = log_command("verify", &made.dir, &[]).exits_with(1);
    run.says("corrupt frame in segment 1");
    run.says("position 5 cannot be read");
    run.says("positions  1-5 (first 1, next 6)");
    let dump = log_command("dump", &made.dir, &[]).exits_with(1);
    dump.warns("position 5 cannot be read");
}

#[test]
fn missing_segments_next_to_each_other_are_one_threat() {
    let made = TestLog::with_records(60);
    let segments = made.survey().segments;
    for number in [2, 3] {
        std::fs::remove_file(made.segment(number)).unwrap();
    }
    let run = log_command("verify", &made.dir, &[]).exits_with(1);
    run.says("missing segments 2-3");
    let (first, last) = (segments[1].first_position, segments[2].next_position.get() - 1);
    run.says(&format!("positions {first}-{last} cannot be read"));
    run.says("Not sound: 1 threat.");
}
