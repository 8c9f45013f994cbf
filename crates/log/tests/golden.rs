//! Golden files: the bytes of format version 1, pinned.
//!
//! Each story of `golden/stories.rs` is told in both layouts; what then lies on the disk is checked in under
//! `golden/aligned` and `golden/packed`, as text that can be reviewed: a `.hex` file with the bytes (see
//! `golden/dump.rs`), and a `.txt` file with what a reader gets out of them (see `golden/reading.rs`).
//!
//! - What is written today equals the `.hex` files byte for byte: a change of the format shows as a change of a file.
//! - The `.hex` files themselves are opened and read: what an older program wrote stays readable.
//! - The worked example of `docs/format.md` is a real log.
//!
//! If the format or the habits of the writer change on purpose, `GAPLESS_WRITE_GOLDEN=1 cargo test -p gapless-log --test
//! golden` writes the `.hex` files anew, and the difference is part of the review. The `.txt` files were made once and read:
//! they say what must come out. What a released version wrote stays here in a folder of its own and is only read.

#![expect(clippy::unwrap_used, reason = "the first thing that does not hold ends the test")]

#[path = "golden/dump.rs"]
mod dump;
#[path = "golden/reading.rs"]
mod reading;
#[path = "golden/stories.rs"]
mod stories;

use std::fs;
use std::path::{Path, PathBuf};

use gapless_log::io::memory::MemoryIo;
use gapless_log::{Layout, LogId, Options};

use dump::Files;
use stories::{STORIES, Story, open, options};

const LAYOUTS: [(Layout, &str); 2] = [(Layout::Aligned, "aligned"), (Layout::Packed, "packed")];

fn path_of(story: &Story, layout: &str, extension: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(layout);
    directory.join(format!("{}.{extension}", story.name))
}

fn text_of(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The first place where two sets of files differ, in words.
fn difference(found: &Files, expected: &Files) -> Option<String> {
    if !found.keys().eq(expected.keys()) {
        return Some(format!("files {:?}, not {:?}", found.keys(), expected.keys()));
    }
    found.iter().zip(expected.values()).find_map(|((name, found), expected)| {
        if found.len() != expected.len() {
            return Some(format!("{name} has {} bytes, not {}", found.len(), expected.len()));
        }
        let at = found.iter().zip(expected).position(|(found, expected)| found != expected)?;
        Some(format!("{name} has {:02x} at {at:08x}, not {:02x}", found[at], expected[at]))
    })
}

#[test]
fn what_is_written_today_equals_the_golden_files() {
    let write = std::env::var_os("GAPLESS_WRITE_GOLDEN").is_some_and(|value| value == "1");
    for story in &STORIES {
        for (layout, name) in LAYOUTS {
            let path = path_of(story, name, "hex");
            let files = dump::files_of(&(story.tell)(layout));
            if write {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, dump::write(&files)).unwrap();
            } else if story.reproducible
                && let Some(difference) = difference(&files, &dump::parse(&text_of(&path)))
            {
                panic!("{}: {difference}", path.display());
            }
        }
    }
}

#[test]
fn the_golden_files_say_to_a_reader_what_they_always_said() {
    for story in &STORIES {
        for (layout, name) in LAYOUTS {
            let io = dump::disk_with(&dump::parse(&text_of(&path_of(story, name, "hex"))));
            // A copy is opened, so that looking changes nothing.
            let (log, _) = open(&io.fork(), options(layout));
            let path = path_of(story, name, "txt");
            assert_eq!(reading::of(&io, &log), text_of(&path), "{}", path.display());
        }
    }
}

#[test]
fn the_golden_files_hold_every_type_of_record_and_every_kind_of_footer() {
    let texts: Vec<String> = STORIES
        .iter()
        .flat_map(|story| LAYOUTS.map(|(_, layout)| text_of(&path_of(story, layout, "txt"))))
        .collect();
    for part in [
        ": data 1",
        ", compressed data 2",
        ", state 7",
        ": truncate 4",
        ": release 100",
        ", suspect 2",
        ": settled 0",
        ": loss ",
        ": repair 2",
        ": nothing",
        ", indexed",
        ": prepared",
        "leftover ",
        "damaged in segment",
    ] {
        assert!(texts.iter().any(|text| text.contains(part)), "no golden file has {part:?}");
    }
}

/// The log of the worked example: two records in one frame, a frame that certifies it, a clean close.
fn worked_example() -> Files {
    let io = MemoryIo::new();
    let id = std::array::from_fn(|index| u8::try_from(index).unwrap());
    let options = Options { log_id: Some(LogId::from_bytes(id)), ..options(Layout::Packed) };
    let (log, _) = open(&io, options);
    log.append_next(&["hello", ""]).unwrap().wait().unwrap();
    log.certify().unwrap();
    log.close().unwrap();
    dump::files_of(&io)
}

#[test]
fn the_worked_example_in_the_document_is_a_real_log() {
    let document = text_of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/format.md"));
    let (_, example) = document.split_once("```hex\n").expect("the document has a worked example");
    let (example, _) = example.split_once("\n```").expect("it ends");
    let content = dump::parse_annotated(example, worked_example()["0000000001.segment"].len());
    let files = Files::from([("0000000001.segment".to_owned(), content)]);
    assert_eq!(difference(&worked_example(), &files), None);
}
