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
//! If the format changes on purpose, `GAPLESS_WRITE_GOLDEN=1 cargo test -p gapless-log --test golden` writes the `.hex`
//! files anew, and the difference is part of the review. The `.txt` files are nobody's to generate: they say what must
//! come out. Files that a released version wrote must never change: a new version of the format gets files of its own.

#[path = "golden/dump.rs"]
mod dump;
#[path = "golden/reading.rs"]
mod reading;
#[path = "golden/stories.rs"]
mod stories;

use std::fs;
use std::path::{Path, PathBuf};

use gapless_log::io::memory::MemoryIo;
use gapless_log::{Layout, Log};

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
            let path = path_of(story, name, "txt");
            let reading = read(&io, layout);
            if std::env::var_os("WRITE_READING").is_some() {
                fs::write(&path, &reading).unwrap();
            }
            assert_eq!(reading, text_of(&path), "{}", path.display());
        }
    }
}

/// Opens a copy of a disk, so that looking changes nothing.
fn read(io: &MemoryIo, layout: Layout) -> String {
    let (log, _): (Log, _) = open(&io.fork(), options(layout));
    reading::of(io, &log)
}
