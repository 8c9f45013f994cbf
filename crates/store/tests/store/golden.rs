//! The bytes of format version 1, pinned as text under `tests/golden`.
//!
//! If the format changes on purpose, `GAPLESS_WRITE_GOLDEN=1 cargo test -p gapless-store golden` writes the files anew,
//! and the difference is part of the review. What a released version wrote stays and is only read.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use gapless_log::io::memory::MemoryIo;
use gapless_log::io::{Io, OpenMode, write_all_at};
use gapless_store::Offset;

use crate::model::{DIR, Model, batch_of, delete, drop_bucket, open_on, put, put_in, synced};

/// Two runs of the main space, the newer one with a deletion, one of a bucket, and a bucket that is gone.
fn story() -> (MemoryIo, Model) {
    let io = MemoryIo::new();
    let (mut store, _) = open_on(&io).unwrap();
    let mut model = Model::default();
    let first = vec![put("apple", "red"), put("pear", ""), put_in(7, "k", "v"), put_in(8, "k", "v")];
    let second = vec![delete("apple"), put("plum", "blue"), drop_bucket(8)];
    for (offset, changes) in [(3, first), (5, second)] {
        store.apply(&batch_of(&changes)).unwrap();
        model.apply(&changes);
        let (offset, proof) = synced(offset);
        store.checkpoint(offset, proof).unwrap();
    }
    (io, model)
}

fn golden_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn hex_of(bytes: &[u8]) -> String {
    bytes.chunks(16).fold(String::new(), |mut text, line| {
        for byte in line {
            write!(text, "{byte:02x} ").unwrap();
        }
        text.pop();
        text.push('\n');
        text
    })
}

fn bytes_of(hex: &str) -> Vec<u8> {
    hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

#[test]
fn what_is_written_today_equals_the_golden_files() {
    let (io, _) = story();
    let mut names = io.list(Path::new(DIR)).unwrap();
    names.sort_unstable();
    let write = std::env::var_os("GAPLESS_WRITE_GOLDEN").is_some_and(|value| value == "1");
    let mut expected: Vec<_> = Vec::new();
    for name in &names {
        let path = golden_directory().join(format!("{name}.hex"));
        let found = hex_of(&io.bytes_of(&Path::new(DIR).join(name)).unwrap());
        if write {
            fs::create_dir_all(golden_directory()).unwrap();
            fs::write(&path, &found).unwrap();
        }
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(found, text, "{name}");
        expected.push(format!("{name}.hex"));
    }
    let mut there: Vec<_> = fs::read_dir(golden_directory())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    there.sort_unstable();
    expected.sort_unstable();
    assert_eq!(there, expected);
}

#[test]
fn the_golden_files_are_read() {
    let io = MemoryIo::new();
    io.create_dir(Path::new(DIR)).unwrap();
    for entry in fs::read_dir(golden_directory()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap();
        let file = io.open(&Path::new(DIR).join(name), OpenMode::Create).unwrap();
        write_all_at(&*file, &bytes_of(&fs::read_to_string(&path).unwrap()), 0).unwrap();
    }
    let (store, opened) = open_on(&io).unwrap();
    assert_eq!((opened.offset, opened.removed_files), (Offset::new(5), 0));
    story().1.check(&store).unwrap();
}
