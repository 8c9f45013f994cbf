//! `gapless demo`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Run, TestLog, gapless, log_command, program};

/// Past the first checkpoint of the process that is killed.
const PAST_A_CHECKPOINT: &str = "800";

/// Outcomes of a first run before the process that is killed is started.
const STORY: u64 = 7;

fn dev(data: &Path, writes: &str) -> Run {
    gapless(["demo", "--data", data.to_str().unwrap(), "--writes", writes])
}

/// The value behind a name in the output.
fn fact<'a>(run: &'a Run, name: &str) -> &'a str {
    let line = run.stdout.lines().find_map(|line| line.trim_start().strip_prefix(name));
    line.unwrap_or_else(|| panic!("no {name:?} in {}", run.stdout)).trim()
}

/// The number at the beginning of a text.
fn number(text: &str) -> u64 {
    let digits = text.split([' ', '-']).next().unwrap().replace(',', "");
    digits.parse().unwrap_or_else(|_| panic!("no number in {text:?}"))
}

/// What an event was given: outcome, workspace offset, client sequence, invoice, record ids.
fn given<'a>(run: &'a Run, event: &str) -> [&'a str; 5] {
    let cells: Vec<&str> = fact(run, event).split_whitespace().collect();
    cells.try_into().unwrap_or_else(|cells| panic!("{cells:?}"))
}

/// The last numbers of workspace 1: offset, record id, invoice, sequence of the first client.
fn last_numbers(run: &Run) -> [u64; 4] {
    let (_, table) = run.stdout.split_once("  workspace  offsets").unwrap();
    let cells: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!((cells[0], cells[4]), ("1", "till-1"));
    [cells[1], cells[2], cells[3], cells[5].trim_end_matches(',')].map(|range| {
        let (_, last) = range.split_once('-').unwrap();
        last.parse().unwrap()
    })
}

#[test]
fn each_write_shows_what_it_was_given_and_a_retry_and_a_refusal_consumed_nothing() {
    let root = tempfile::tempdir().unwrap();
    let run = dev(&root.path().join("data"), "8").exits_with(0);
    assert!(run.stdout.starts_with("This is a demonstration of what Gapless promises"));
    assert_eq!(given(&run, "OrderPlaced"), ["2", "1", "1", "-", "200001-200003"]);
    assert_eq!(given(&run, "StockCounted"), ["3", "2", "2", "-", "-"]);
    assert_eq!(given(&run, "InvoiceIssued"), ["4", "3", "3", "1", "-"]);
    let (_, retry) = run.stdout.split_once("Retry").unwrap();
    let again = retry.lines().find(|line| line.contains("InvoiceIssued")).unwrap();
    assert_eq!(again.split_whitespace().collect::<Vec<_>>(), ["InvoiceIssued", "4", "3", "3", "1", "-"]);
    assert_eq!(fact(&run, "refused"), "VERSION_MISMATCH (3): the entity has another version");
    assert_eq!(fact(&run, "current"), "version 2, value \"12\"");
    assert_eq!(fact(&run, "recorded"), "as outcome 6, with no other number");
    let (_, after) = run.stdout.split_once("Be refused").unwrap();
    let next = after.lines().find(|line| line.contains("InvoiceIssued")).unwrap();
    let next: Vec<&str> = next.split_whitespace().collect();
    assert_eq!(next, ["InvoiceIssued", "7", "4", "4", "2", "-"]);
    assert_eq!(run.stderr, "");
    assert!(!run.stdout.contains('\u{1b}'), "plain where no terminal is");
}

#[test]
fn every_acknowledged_write_survives_the_kill_with_its_numbers() {
    let root = tempfile::tempdir().unwrap();
    let run = dev(&root.path().join("data"), PAST_A_CHECKPOINT).exits_with(0);
    run.says("ended by signal 9");
    let acknowledged = number(fact(&run, "acknowledged"));
    assert!(acknowledged >= 800);
    assert_eq!(number(fact(&run, "recovered")), acknowledged);
    assert_eq!(fact(&run, "lost"), "0");
    let on_their_way = number(fact(&run, "on their way"));
    let found = STORY + acknowledged + on_their_way;
    let covered = number(fact(&run, "checkpoint").strip_prefix("the state after ").unwrap());
    // How far the process came before the kill reached it is not known, only where it makes checkpoints.
    assert!(covered > STORY && (covered - STORY).is_multiple_of(768), "{covered}");
    assert_eq!(number(fact(&run, "folded")), found - covered);
    assert_eq!(number(fact(&run, "read back")), found + 1);
    assert_eq!((fact(&run, "gaps"), fact(&run, "repeats")), ("0", "0"));
}

#[test]
fn a_second_demonstration_goes_on_with_the_next_numbers() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    let log = data.join("demo").join("log");
    let first = dev(&data, PAST_A_CHECKPOINT).exits_with(0);
    let identity = log_command("inspect", &log, &["-o", "json"]).exits_with(0).json()["log"].clone();
    let outcomes = number(fact(&first, "read back"));
    let [offset, record, invoice, sequence] = last_numbers(&first);

    let second = dev(&data, "50").exits_with(0);
    assert_eq!(number(fact(&second, "It holds")), outcomes);
    second.says("defined by an earlier run");
    let records = format!("{}-{}", record + 1, record + 3);
    let expected = [outcomes + 1, offset + 1, sequence + 1].map(|number| number.to_string());
    let placed = given(&second, "OrderPlaced");
    assert_eq!((&placed[..3], placed[4]), (&expected.each_ref().map(String::as_str)[..], &records[..]));
    assert_eq!(given(&second, "InvoiceIssued")[3], (invoice + 1).to_string());
    for (after, before) in last_numbers(&second).iter().zip(last_numbers(&first)) {
        assert!(*after > before);
    }

    let found = log_command("inspect", &log, &["-o", "json"]).exits_with(0).json();
    assert_eq!(found["log"], identity);
    assert_eq!(found["first"], 1);
    assert_eq!(found["next"], number(fact(&second, "read back")) + 1);
    log_command("verify", &log, &[]).exits_with(0);
}

#[test]
fn the_log_alone_is_enough_and_without_it_nothing_goes_on() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    let first = dev(&data, "50").exits_with(0);
    fs::remove_dir_all(data.join("demo").join("store")).unwrap();
    let second = dev(&data, "50").exits_with(0);
    let [offset, ..] = last_numbers(&first);
    assert_eq!(given(&second, "OrderPlaced")[1], (offset + 1).to_string());

    fs::remove_dir_all(data.join("demo").join("log")).unwrap();
    let third = dev(&data, "50").exits_with(1);
    third.warns("the checkpoint covers outcomes up to");
    third.warns("next: files of the log are gone");
}

#[test]
fn a_damaged_state_is_rebuilt_from_the_log_and_that_is_said() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    let first = dev(&data, "50").exits_with(0);
    fs::write(data.join("demo").join("store").join("CHECKPOINT"), "x").unwrap();
    let second = dev(&data, "50").exits_with(0);
    second.says("rebuilt from the whole log, because");
    let [offset, ..] = last_numbers(&first);
    assert_eq!(given(&second, "OrderPlaced")[1], (offset + 1).to_string());
}

#[test]
fn a_directory_that_cannot_be_made_is_refused_with_what_to_do() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    fs::write(&file, "").unwrap();
    let run = dev(&file, "50").exits_with(1);
    run.warns("cannot be used");
    run.warns("next: choose another directory: gapless demo --data DIR");
}

#[test]
fn the_commands_at_the_end_work_when_pasted() {
    let root = tempfile::tempdir().unwrap();
    let output = program().current_dir(root.path()).args(["demo", "--writes", "50"]).output().unwrap();
    let run = Run::from(output).exits_with(0);
    let (_, end) = run.stdout.split_once("Three commands to try\n").unwrap();
    let commands: Vec<&str> = end.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(commands.len(), 3);
    for command in commands {
        assert!(command.contains(" ./gapless-demo/demo/log"), "{command}");
        let output = Command::new("sh").arg("-c").arg(command).current_dir(root.path()).output().unwrap();
        Run::from(output).exits_with(0);
    }
}

#[test]
fn the_log_of_somebody_else_is_not_touched() {
    let made = TestLog::with_records(10);
    let before = made.files();
    let root = tempfile::tempdir().unwrap();
    let theirs = made.dir.parent().unwrap();
    symlink(theirs, root.path().join("demo")).unwrap();
    let run = dev(root.path(), "50").exits_with(1);
    run.warns("was not made by `gapless demo`");
    run.warns("--data");
    assert!(made.files() == before);
    assert_eq!(fs::read_dir(theirs).unwrap().count(), 1, "nothing was put beside it");
}

#[test]
fn a_demonstration_that_is_running_is_not_disturbed() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    dev(&data, "50").exits_with(0);
    let held = gapless_log::Log::open(
        std::sync::Arc::new(gapless_log::io::real::RealIo),
        data.join("demo").join("log"),
        crate::support::options(),
    );
    let run = dev(&data, "50").exits_with(1);
    run.warns("is in use by another process");
    drop(held.unwrap());
    dev(&data, "50").exits_with(0);
}

#[test]
fn the_writer_ends_when_nobody_listens() {
    let root = tempfile::tempdir().unwrap();
    let mut child = program()
        .arg("demo-writer")
        .arg(root.path().join("demo"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let run = Run::from(child.wait_with_output().unwrap()).exits_with(1);
    assert_eq!(run.stderr, "");
}
