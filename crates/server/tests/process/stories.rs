//! Commands and what they say, as one sees them in a terminal. A story is a file in `stories/`:
//!
//! ```text
//!  # said to the reader
//!  $ gapless read shop/42        a command for the shell, with a server of its own behind it
//!  what it writes to stdout      [..] stands for anything within a line, a line of ... for any lines
//!  ! what it writes to stderr
//!  ? 1                           what it exits with, unless that is 0
//! ```

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::Process;

/// One command, and what it should say.
struct Step {
    command: String,
    expected: Vec<String>,
}

fn steps(story: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in story.lines().filter(|line| !line.starts_with('#')) {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push(Step { command: command.to_owned(), expected: Vec::new() }),
            (None, Some(step)) => step.expected.push(line.to_owned()),
            (None, None) => assert_eq!(line, "", "a story begins with a command"),
        }
    }
    for step in &mut steps {
        // An empty line before the next command is for the reader.
        if step.expected.last().is_some_and(String::is_empty) {
            step.expected.pop();
        }
    }
    steps
}

fn told(command: &str, dir: &Path, server: &str) -> Vec<String> {
    let program = Path::new(env!("CARGO_BIN_EXE_gapless")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell
        .args(["-c", command])
        .current_dir(dir)
        .env("PATH", path)
        .env("GAPLESS_SERVER", server)
        .env("COLUMNS", "100");
    let output = shell.env_remove("CARGO_MANIFEST_DIR").output().unwrap();
    let lines = |bytes| String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect::<Vec<_>>();
    let mut told = lines(output.stdout);
    told.extend(lines(output.stderr).into_iter().map(|line| format!("! {line}")));
    if !output.status.success() {
        told.push(format!("? {}", output.status.code().unwrap()));
    }
    told
}

/// Whether lines are as expected.
fn are_as(expected: &[String], told: &[String]) -> bool {
    match (expected, told) {
        ([], []) => true,
        ([any, rest @ ..], _) if any == "..." => {
            (0..=told.len()).any(|skipped| are_as(rest, &told[skipped..]))
        }
        ([line, rest @ ..], [first, others @ ..]) => is_as(line, first) && are_as(rest, others),
        _ => false,
    }
}

/// Whether one line is.
fn is_as(expected: &str, told: &str) -> bool {
    match expected.trim_end().split_once("[..]") {
        None => expected.trim_end() == told.trim_end(),
        Some((before, after)) => told.strip_prefix(before).is_some_and(|rest| {
            let places = rest.char_indices().map(|(place, _)| place).chain([rest.len()]);
            places.into_iter().any(|place| is_as(after, &rest[place..]))
        }),
    }
}

fn check(name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/process/stories");
    let dir = tempfile::tempdir().unwrap();
    fs::copy(folder.join("shop.toml"), dir.path().join("shop.toml")).unwrap();
    let process = Process::serve(&dir.path().join("data"));
    let story = fs::read_to_string(folder.join(name)).unwrap();
    for step in steps(&story) {
        let told = told(&step.command, dir.path(), &process.address);
        assert!(
            are_as(&step.expected, &told),
            "{name}: $ {}\n--- expected\n{}\n--- said\n{}",
            step.command,
            step.expected.join("\n"),
            told.join("\n")
        );
    }
}

#[test]
fn a_shop_sells_reads_and_proves() {
    check("shop.story");
}

#[test]
fn what_cannot_be_says_why_and_what_to_do_next() {
    check("refusals.story");
}

#[test]
fn operators_see_what_there_is() {
    check("operators.story");
}

#[test]
fn wildcards_stand_for_what_they_should_and_nothing_else() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(are_as(&lines("a\n...\nd[..]f"), &lines("a\nb\nc\ndeef")));
    assert!(are_as(&lines("...\na"), &lines("a")) && is_as("[..]", ""));
    assert!(!are_as(&lines("a"), &lines("a\nb")) && !are_as(&lines("a\nb"), &lines("a")));
    assert!(!is_as("a[..]c", "abcd") && !is_as("a", "b"));
}
