//! What the program tells whoever started it: 0 all passed, 1 something failed, 2 the file is of no use.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::process::Command;

/// Exit code and standard output of a run over this file.
fn run(suite: &str, text: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("vectors.json");
    fs::write(&file, text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_conformance")).arg(suite).arg(&file).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

fn scenarios(steps: &str) -> String {
    format!(
        r#"{{"suite": "sequencer", "scenarios": [{{"id": "one", "params": {{"seq_types": {{"1": {{"1": 5}}}}}},
            "storage": {{"next_offset": 1, "plog": {{}}}}, "steps": [{steps}]}}]}}"#
    )
}

#[test]
fn all_passed_is_0() {
    let steps = r#"{"op": "start", "kind": 1, "ws": 1, "expect": 1}, {"op": "next", "seq": 1, "expect": 5}"#;
    assert_eq!(run("sequencer", &scenarios(steps)), (Some(0), "1 passed, 0 failed\n".to_owned()));
}

#[test]
fn a_failure_is_1_and_named() {
    let steps = r#"{"op": "start", "kind": 1, "ws": 1, "expect": 1}, {"op": "next", "seq": 1, "expect": 6}"#;
    let expected = "one step 2: expected 6, got 5\n0 passed, 1 failed\n".to_owned();
    assert_eq!(run("sequencer", &scenarios(steps)), (Some(1), expected));
}

#[test]
fn what_cannot_be_understood_is_2() {
    assert_eq!(run("sequencer", &scenarios(r#"{"op": "dance"}"#)), (Some(2), String::new()));
    assert_eq!(run("sequencer", "not json"), (Some(2), String::new()));
    assert_eq!(run("no-such-suite", "{}"), (Some(2), String::new()));
    let missing =
        Command::new(env!("CARGO_BIN_EXE_conformance")).args(["sequencer", "/no/such/file"]).output();
    assert_eq!(missing.unwrap().status.code(), Some(2));
    let nothing = Command::new(env!("CARGO_BIN_EXE_conformance")).output();
    assert_eq!(nothing.unwrap().status.code(), Some(2));
}

#[test]
fn ids_are_checked_part_by_part() {
    let right = r#"{"record_ids": {"MinRaw": 1}, "id_generator": [{"op": "sync", "id": 200009}, {"op": "next", "expect": 200010}],
        "recovery": {"setup": "", "steps": [{"do": "W3 in 1", "workspace_offset": 2, "ids": [200001, 200002, 200003]},
        {"do": "restart"}, {"do": "W3 in 1", "workspace_offset": 3}]}}"#;
    assert_eq!(run("ids", right), (Some(0), "3 passed, 0 failed\n".to_owned()));
    let wrong = r#"{"partition_of": [{"wsid": 21, "num_partitions": 10, "expect": 2}], "record_ids": {"MaxRaw": 65535}}"#;
    let expected = "partition_of step 1: expected 2, got 1\n1 passed, 1 failed\n".to_owned();
    assert_eq!(run("ids", wrong), (Some(1), expected));
    let stale = r#"{"recovery": {"setup": "", "steps": [{"do": "restart"}, {"do": "W3 in 2", "ids": [200001, 200002, 200004]}]}}"#;
    assert_eq!(run("ids", stale).0, Some(1));
    for unknown in [
        r#"{"record_ids": {"Nobody": 1}}"#,
        r#"{"recovery": {"setup": "", "steps": [{"do": "dance"}]}}"#,
        r#"{"id_generator": [{"op": "dance"}]}"#,
        r#"{"something": 1}"#,
    ] {
        assert_eq!(run("ids", unknown), (Some(2), String::new()), "{unknown}");
    }
}
