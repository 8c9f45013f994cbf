//! `gapless dev`.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Run, TestLog, gapless, log_command, program};

fn dev(data: &Path, more: &[&str]) -> Run {
    gapless(["dev", "--data", data.to_str().unwrap(), "--records", "200"].iter().chain(more))
}

/// The value behind a name in the output.
fn fact<'a>(run: &'a Run, name: &str) -> &'a str {
    let line = run.stdout.lines().find_map(|line| line.trim_start().strip_prefix(name));
    line.unwrap_or_else(|| panic!("no {name:?} in {}", run.stdout)).trim()
}

#[test]
fn every_acknowledged_record_survives_the_kill() {
    let root = tempfile::tempdir().unwrap();
    let run = dev(&root.path().join("data"), &[]).exits_with(0);
    assert!(run.stdout.starts_with("There is no server yet."));
    run.says("ended by signal 9");
    let acknowledged: u64 = fact(&run, "acknowledged").replace(',', "").parse().unwrap();
    assert!(acknowledged >= 200);
    assert!(fact(&run, "recovered").starts_with(fact(&run, "acknowledged")));
    assert_eq!(fact(&run, "lost"), "0");
    run.says("records per sync");
    assert_eq!(run.stderr, "");
}

#[test]
fn the_commands_at_the_end_work_when_pasted() {
    let root = tempfile::tempdir().unwrap();
    let output = program().current_dir(root.path()).args(["dev", "--records", "50"]).output().unwrap();
    let run = Run::from(output).exits_with(0);
    let (_, end) = run.stdout.split_once("Three commands to try\n").unwrap();
    let commands: Vec<&str> = end.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(commands.len(), 3);
    for command in commands {
        assert!(command.contains(" ./gapless-data/log"), "{command}");
        let output = Command::new("sh").arg("-c").arg(command).current_dir(root.path()).output().unwrap();
        Run::from(output).exits_with(0);
    }
}

#[test]
fn a_second_demonstration_goes_on_where_the_first_ended() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    dev(&data, &["--keep"]).exits_with(0);
    let first = log_command("inspect", &data.join("log"), &["-o", "json"]).exits_with(0).json();
    dev(&data, &[]).exits_with(0);
    let second = log_command("inspect", &data.join("log"), &["-o", "json"]).exits_with(0).json();
    assert_eq!(first["first"], 1);
    assert_eq!(first["log"], second["log"]);
    assert!(second["first"].as_u64() > first["first"].as_u64(), "a prefix was released");
    assert!(second["next"].as_u64() > first["next"].as_u64());
    log_command("verify", &data.join("log"), &[]).exits_with(0);
}

#[test]
fn the_log_of_somebody_else_is_not_touched() {
    let made = TestLog::with_records(10);
    let before = made.files();
    let run = dev(made.dir.parent().unwrap(), &[]).exits_with(1);
    run.warns("was not made by `gapless dev`");
    run.warns("--data");
    assert!(made.files() == before);
}

#[test]
fn a_demonstration_that_is_running_is_not_disturbed() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    dev(&data, &[]).exits_with(0);
    let held = gapless_log::Log::open(
        std::sync::Arc::new(gapless_log::io::real::RealIo),
        data.join("log"),
        crate::support::options(),
    );
    let run = dev(&data, &[]).exits_with(1);
    run.warns("is in use by another process");
    drop(held.unwrap());
    dev(&data, &[]).exits_with(0);
}

#[test]
fn the_writer_ends_when_nobody_listens() {
    let made = TestLog::nowhere();
    let mut child = program()
        .arg("dev-writer")
        .arg(&made.dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let run = Run::from(child.wait_with_output().unwrap()).exits_with(1);
    assert_eq!(run.stderr, "");
}
