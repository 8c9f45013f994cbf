//! Stories: what a partition does, told as text and compared line by line.
//!
//! A file in `stories/` holds stories of one topic; `stories/README.md` explains the language. Each story begins with an empty
//! partition. With `GAPLESS_WRITE_STORIES=1` the answers are written anew, so that the difference can be reviewed.

#![allow(clippy::unwrap_used, reason = "the first thing that does not hold ends the test")]

mod harness;
#[path = "stories/parse.rs"]
mod parse;
#[path = "stories/run.rs"]
mod run;
#[path = "stories/show.rs"]
mod show;

use std::fs;
use std::path::{Path, PathBuf};

use run::Stage;

const RULE: &str = "----";

/// A command and what is expected of it; or text between stories, which is kept as it is.
enum Part {
    Text(String),
    Story(String),
    Block { command: Vec<String>, expected: Vec<String> },
}

#[test]
fn every_story_goes_as_it_is_told() {
    let rewrite = std::env::var_os("GAPLESS_WRITE_STORIES").is_some();
    let mut wrong = Vec::new();
    let files = story_files();
    assert!(files.len() >= 8, "the stories are not where they should be: {files:?}");
    for path in files {
        let told = fs::read_to_string(&path).unwrap();
        let seen = retell(&path, &told);
        if told == seen {
            continue;
        }
        if rewrite {
            fs::write(&path, seen).unwrap();
        } else {
            wrong.push(difference(&path, &told, &seen));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn story_files() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stories");
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = paths.filter(|path| path.extension().is_some_and(|ext| ext == "story")).collect();
    files.sort();
    files
}

/// The text of a file with the answers that the partition gives.
fn retell(path: &Path, told: &str) -> String {
    let mut out = String::new();
    let mut stage: Option<Stage> = None;
    for part in parts(told) {
        match part {
            Part::Text(line) => out += &format!("{line}\n"),
            Part::Story(line) => {
                out += &format!("{line}\n");
                stage = Some(Stage::new());
            }
            Part::Block { command, expected: _ } => {
                let stage = stage.as_mut().unwrap_or_else(|| panic!("{}: no story yet", path.display()));
                let answer = stage.run(&command).unwrap_or_else(|problem| {
                    panic!("{}: {problem}\n{}", path.display(), command.join("\n"))
                });
                out += &format!("{}\n{RULE}\n{answer}\n", command.join("\n"));
            }
        }
    }
    out
}

fn parts(told: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut lines = told.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("story: ") {
            parts.push(Part::Story(line.to_owned()));
        } else if line.is_empty() || line.starts_with('#') {
            parts.push(Part::Text(line.to_owned()));
        } else {
            let mut command = vec![line.to_owned()];
            command.extend(lines.by_ref().take_while(|line| *line != RULE).map(str::to_owned));
            let mut expected = Vec::new();
            while let Some(line) = lines.next_if(|line| !line.is_empty()) {
                expected.push(line.to_owned());
            }
            parts.push(Part::Block { command, expected });
        }
    }
    parts
}

/// The first answer that differs, with the story and the command it belongs to.
fn difference(path: &Path, told: &str, seen: &str) -> String {
    let mut story = String::new();
    for (told, seen) in parts(told).iter().zip(parts(seen)) {
        match (told, seen) {
            (Part::Story(name), _) => story.clone_from(name),
            (Part::Block { command, expected }, Part::Block { command: _, expected: found })
                if *expected != found =>
            {
                return format!(
                    "{}\n{story}\n{}\nexpected\n{}\nfound\n{}",
                    path.display(),
                    command.join("\n"),
                    expected.join("\n"),
                    found.join("\n")
                );
            }
            _ => {}
        }
    }
    format!("{}: the form differs; write it anew with GAPLESS_WRITE_STORIES=1", path.display())
}
