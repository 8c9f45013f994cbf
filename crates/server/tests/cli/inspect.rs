//! `gapless log inspect`.

use std::fs;

use gapless_log::StateKey;
use gapless_types::Position;

use crate::support::{TestLog, append, log_command};

#[test]
fn json_tells_what_the_log_holds() {
    let made = TestLog::nowhere();
    let log = made.open();
    append(&log, 1..=30);
    log.set_state(StateKey(7), b"vote").unwrap().wait().unwrap();
    log.release_to(Position::new(3)).unwrap().wait().unwrap();
    let id = log.id().to_string();
    log.close().unwrap();

    let report = log_command("inspect", &made.dir, &["-o", "json"]).exits_with(0).json();
    assert_eq!(report["log"], id);
    assert_eq!((&report["first"], &report["next"]), (&3.into(), &31.into()));
    assert_eq!(report["states"], serde_json::json!([{ "key": 7, "length": 4 }]));
    assert_eq!(report["damage"], serde_json::json!([]));
    let segments = report["segments"].as_array().unwrap();
    let used: Vec<_> = segments.iter().filter(|segment| segment["state"] != "prepared").collect();
    assert!(used.len() >= 3, "{segments:?}");
    assert_eq!(used[0]["first_position"], 1);
    assert_eq!(used[0]["file_length"], 64 << 10);
    assert_eq!(used[0]["layout"], "aligned");
    for pair in used.windows(2) {
        assert_eq!(pair[0]["state"], "sealed");
        assert_eq!(pair[0]["index_ok"], true);
        assert_eq!(pair[0]["next_position"], pair[1]["first_position"]);
        let last = pair[0]["last_frame"].as_u64().unwrap();
        assert_eq!(pair[1]["first_frame"], last + 1);
    }
    let last = used.last().unwrap();
    assert_eq!((&last["state"], &last["next_position"]), (&"active".into(), &31.into()));
    assert!(report.get("frames").is_none());
}

#[test]
fn the_table_is_for_people() {
    let made = TestLog::with_records(3);
    let run = log_command("inspect", &made.dir, &[]).exits_with(0);
    run.says("positions     1-3 (first 1, next 4)");
    run.says("aligned  64.00 KiB  16.00 KiB");
    run.says("No damage was met.");
    assert_eq!(run.stderr, "");
    assert!(!run.stdout.contains('\u{1b}'), "no colours where there is no terminal");
}

#[test]
fn frames_are_listed_on_request() {
    let made = TestLog::with_records(20);
    let report = log_command("inspect", &made.dir, &["--frames", "-o", "json"]).exits_with(0).json();
    let frames = report["frames"].as_array().unwrap();
    assert_eq!(frames.len() as u64, report["frames_scanned"].as_u64().unwrap());
    let numbers: Vec<u64> = frames.iter().map(|frame| frame["frame"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=frames.len() as u64).collect::<Vec<_>>());
    assert_eq!(frames[0]["offset"], 4096);
    assert_eq!(frames[1]["first_position"], 2);
    log_command("inspect", &made.dir, &["--frames"]).exits_with(0).says("durable");
}

#[test]
fn a_missing_segment_is_listed_with_its_positions() {
    let made = TestLog::with_records(40);
    let lost = made.survey().segments[1].clone();
    fs::remove_file(made.segment(2)).unwrap();
    let run = log_command("inspect", &made.dir, &[]).exits_with(0);
    run.says("missing segment");
    run.says(&format!("{}-{}", lost.first_position, lost.next_position.get() - 1));

    let report = log_command("inspect", &made.dir, &["-o", "json"]).exits_with(0).json();
    let damage = &report["damage"][0];
    assert_eq!((&damage["finding"], &damage["segment"]), (&"missing_segment".into(), &2.into()));
    let range = serde_json::json!([
        { "first": lost.first_position.get(), "next": lost.next_position.get() }
    ]);
    assert_eq!(damage["unreadable"], range);
    assert_eq!(damage["threatens_records"], true);
}

#[test]
fn a_log_in_use_can_be_looked_at_and_nothing_is_changed() {
    let made = TestLog::nowhere();
    let log = made.open();
    append(&log, 1..=5);
    let before = made.files();
    for command in ["inspect", "verify", "dump"] {
        log_command(command, &made.dir, &[]).exits_with(0);
    }
    assert!(made.files() == before);
    append(&log, 6..=6);
    log.close().unwrap();
}
