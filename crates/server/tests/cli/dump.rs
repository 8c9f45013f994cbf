//! `gapless log dump`.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use gapless_log::StateKey;
use gapless_types::Position;
use serde_json::Value;

use crate::support::{FIRST_PAYLOAD, Run, TestLog, append, log_command, program};

/// How often each position is shown or named.
fn positions(lines: &[Value]) -> BTreeMap<u64, u32> {
    let mut seen = BTreeMap::new();
    for line in lines {
        let range = match line["position"].as_u64() {
            Some(position) => position..position + 1,
            None => line["first"].as_u64().unwrap()..line["next"].as_u64().unwrap(),
        };
        range.for_each(|position| *seen.entry(position).or_default() += 1);
    }
    seen
}

fn once_each(range: std::ops::Range<u64>) -> BTreeMap<u64, u32> {
    range.map(|position| (position, 1)).collect()
}

#[test]
fn records_are_shown_in_order_as_text_or_digits() {
    let made = TestLog::nowhere();
    let log = made.open();
    log.append_next(&[b"plain".to_vec(), vec![0, 255], "größer\n".into(), Vec::new()])
        .unwrap()
        .wait()
        .unwrap();
    log.close().unwrap();

    let run = log_command("dump", &made.dir, &[]).exits_with(0);
    let rows: Vec<Vec<&str>> = run.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["position", "frame", "type", "length", "payload"]);
    assert_eq!(rows[1], ["1", "1", "data", "5", "plain"]);
    assert_eq!(rows[2], ["2", "1", "data", "2", "0x00ff"]);
    assert_eq!(rows[3], ["3", "1", "data", "9", r"größer\n"]);
    assert_eq!(rows[4], ["4", "1", "data", "0"]);

    let lines = log_command("dump", &made.dir, &["-o", "json"]).exits_with(0).json_lines();
    assert_eq!(lines.len(), 4);
    assert_eq!((&lines[0]["text"], &lines[1]["hex"]), (&"plain".into(), &"00ff".into()));
    assert_eq!((&lines[2]["text"], &lines[3]["text"]), (&"größer\n".into(), &"".into()));
    assert_eq!(lines[3]["position"], 4);
}

#[test]
fn raw_is_the_payload_and_nothing_else() {
    let made = TestLog::with_records(20);
    let run = log_command("dump", &made.dir, &["--from", "9", "--limit", "2", "-o", "raw"]).exits_with(0);
    assert_eq!(run.stdout, "record 9record 10");
}

#[test]
fn from_and_limit_choose_across_segments() {
    let made = TestLog::with_records(40);
    let lines = log_command("dump", &made.dir, &["--from", "8", "--limit", "20", "-o", "json"])
        .exits_with(0)
        .json_lines();
    assert_eq!(positions(&lines), once_each(8..28));
    let run = log_command("dump", &made.dir, &["--from", "42"]).exits_with(1);
    run.warns("position 42 is not written yet");
    log_command("dump", &made.dir, &["--from", "41"]).exits_with(0);
}

#[test]
fn what_is_void_or_released_is_left_out_and_shown_with_frames() {
    let made = TestLog::nowhere();
    let log = made.open();
    append(&log, 1..=10);
    log.set_state(StateKey(3), b"vote").unwrap().wait().unwrap();
    log.truncate_from(Position::new(8)).unwrap().wait().unwrap();
    append(&log, 108..=109);
    log.release_to(Position::new(4)).unwrap().wait().unwrap();
    log.close().unwrap();

    let lines = log_command("dump", &made.dir, &["-o", "json"]).exits_with(0).json_lines();
    assert_eq!(positions(&lines), once_each(4..10));
    assert_eq!(lines[4]["text"], "record 108");
    let early = log_command("dump", &made.dir, &["--from", "1"]).exits_with(0);
    early.warns("positions below 4 are released");

    let all = log_command("dump", &made.dir, &["--frames", "-o", "json"]).exits_with(0).json_lines();
    let standing = |wanted: &str| all.iter().filter(|line| line["standing"] == wanted).count();
    assert_eq!((standing("counts"), standing("void"), standing("released")), (6, 3, 3));
    let says = |kind: &str| all.iter().find(|line| line["type"] == kind).unwrap()["says"].clone();
    assert_eq!(says("truncate"), "everything from 8 on is void");
    assert_eq!(says("state"), "key 3 is vote");
    let survey = made.survey();
    let frames = all.iter().filter(|line| line["type"] == "frame").count();
    assert_eq!(frames as u64, survey.frames_scanned);
    log_command("dump", &made.dir, &["--frames"]).exits_with(0).says("data, void");
}

#[test]
fn damaged_positions_are_named_and_rescued_ones_shown() {
    let made = TestLog::nowhere();
    let log = made.open();
    log.append_next(&["record 1", "record 2", "record 3"]).unwrap().wait().unwrap();
    append(&log, 4..=30);
    log.close().unwrap();
    // The second record of the first frame: a header of 24 bytes and 8 bytes lie before it.
    made.flip(1, FIRST_PAYLOAD + 32 + 2);

    let run = log_command("dump", &made.dir, &["-o", "json"]).exits_with(1);
    run.warns("position 2 cannot be read");
    run.warns("gapless log verify");
    let lines = run.json_lines();
    assert_eq!(positions(&lines), once_each(1..31));
    assert_eq!((&lines[0]["standing"], &lines[0]["text"]), (&"rescued".into(), &"record 1".into()));
    assert_eq!((&lines[1]["type"], &lines[1]["first"]), (&"unreadable".into(), &2.into()));
    assert_eq!((&lines[2]["standing"], &lines[2]["text"]), (&"rescued".into(), &"record 3".into()));

    let part = log_command("dump", &made.dir, &["--from", "3", "-o", "json"]).exits_with(0).json_lines();
    assert_eq!(positions(&part), once_each(3..31));
    let table = log_command("dump", &made.dir, &["--limit", "2"]).exits_with(1);
    table.says("unreadable: corrupt frame in segment 1");
}

#[test]
fn positions_of_a_missing_segment_are_named() {
    let made = TestLog::with_records(40);
    fs::remove_file(made.segment(2)).unwrap();
    let run = log_command("dump", &made.dir, &["-o", "json"]).exits_with(1);
    assert_eq!(positions(&run.json_lines()), once_each(1..41));
    run.warns("cannot be read");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let made = TestLog::with_records(20);
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let output = program().args(["log", "dump"]).arg(&made.dir).stdout(writer).output().unwrap();
    let run = Run::from(output).exits_with(1);
    assert_eq!(run.stderr, "");
}

#[test]
fn a_long_payload_is_cut_to_the_width_of_the_screen() {
    let made = TestLog::nowhere();
    let log = made.open();
    log.append_next(&["x".repeat(500)]).unwrap().wait().unwrap();
    log.close().unwrap();
    for (columns, width) in [("72", 72), ("nonsense", 100)] {
        let output = program().env("COLUMNS", columns).args(["log", "dump"]).arg(&made.dir).output().unwrap();
        let run = Run::from(output).exits_with(0);
        let line = run.stdout.lines().nth(1).unwrap();
        assert_eq!(line.chars().count(), width);
        assert!(line.ends_with('…'));
    }
}
