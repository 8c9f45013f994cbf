//! Logs to look at, made with the library, and a way to run the program on them.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use gapless_log::format::segment_file_name;
use gapless_log::io::real::RealIo;
use gapless_log::{Depth, Drive, Log, Options, Survey};
use gapless_types::SegmentNumber;
use serde_json::Value;
use tempfile::TempDir;

/// Where the first frame of a segment begins, and the first payload of that frame.
pub(crate) const FIRST_FRAME: u64 = 4096;
pub(crate) const FIRST_PAYLOAD: u64 = FIRST_FRAME + 64 + 24;

/// What a run of the program left behind.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in {}", self.stdout))
    }

    pub(crate) fn json_lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Fails with everything that was said if the exit code is another one.
    #[track_caller]
    pub(crate) fn exits_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    #[track_caller]
    pub(crate) fn says(&self, text: &str) {
        assert!(self.stdout.contains(text), "no {text:?} in stdout:\n{}", self.stdout);
    }

    #[track_caller]
    pub(crate) fn warns(&self, text: &str) {
        assert!(self.stderr.contains(text), "no {text:?} in stderr:\n{}", self.stderr);
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// The program, with an environment that does not depend on who runs the tests.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gapless"));
    command.env_remove("COLUMNS").env_remove("CARGO_MANIFEST_DIR");
    command
}

pub(crate) fn gapless<A: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = A>) -> Run {
    program().args(arguments).output().unwrap().into()
}

/// Runs `gapless log COMMAND DIR ...`.
pub(crate) fn log_command(command: &str, dir: &Path, more: &[&str]) -> Run {
    let dir = dir.to_str().unwrap();
    gapless(["log", command, dir].iter().chain(more))
}

/// Nothing happens by itself, and segments are as short as they may be.
pub(crate) fn options() -> Options {
    Options {
        drive: Drive::Caller,
        first_segment_bytes: 64 << 10,
        segment_bytes: 64 << 10,
        ..Options::replicated()
    }
}

/// A log in a directory of its own.
pub(crate) struct TestLog {
    _root: TempDir,
    pub(crate) dir: PathBuf,
}

impl TestLog {
    /// A log that does not exist yet.
    pub(crate) fn nowhere() -> Self {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("log");
        Self { _root: root, dir }
    }

    /// A log with this many records `record N`, each in a frame of its own, closed cleanly.
    pub(crate) fn with_records(count: u64) -> Self {
        let made = Self::nowhere();
        let log = made.open();
        append(&log, 1..=count);
        log.close().unwrap();
        made
    }

    pub(crate) fn open(&self) -> Log {
        Log::open(Arc::new(RealIo), &self.dir, options()).unwrap().0
    }

    pub(crate) fn survey(&self) -> Survey {
        gapless_log::inspect(&RealIo, &self.dir, Depth::EveryFrame, &mut |_| {}).unwrap()
    }

    pub(crate) fn segment(&self, number: u32) -> PathBuf {
        self.dir.join(segment_file_name(SegmentNumber::new(number).unwrap()))
    }

    /// Flips a bit of a segment's file.
    pub(crate) fn flip(&self, segment: u32, offset: u64) {
        let file = self.file(segment);
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).unwrap();
        file.write_all_at(&[byte[0] ^ 0x10], offset).unwrap();
    }

    pub(crate) fn file(&self, segment: u32) -> File {
        File::options().read(true).write(true).open(self.segment(segment)).unwrap()
    }

    /// Names and lengths of its files, and what is in them.
    pub(crate) fn files(&self) -> Vec<(String, Vec<u8>)> {
        let mut files: Vec<_> = fs::read_dir(&self.dir)
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
            .collect();
        files.sort();
        files
    }
}

/// Appends `record N` for each number, each in a frame of its own.
pub(crate) fn append(log: &Log, numbers: impl Iterator<Item = u64>) {
    for number in numbers {
        log.append_next(&[format!("record {number}")]).unwrap().wait().unwrap();
        log.maintain().unwrap();
    }
}
