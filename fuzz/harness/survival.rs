//! Whether a log survives what happened to its files: it opens or says why not, and it invents nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use gapless_log::io::Io;
use gapless_log::io::memory::MemoryIo;
use gapless_log::{
    AppendError, Depth, Layout, Log, OpenError, OpenReport, Options, ReadError, RecordType, StateKey, inspect,
};
use gapless_types::Position;

use super::damage::{self, Bytes, plant};
use super::history::{self, DIRECTORY, History, Write, options, payload, write_of};
use super::{reseal, salt};

/// More positions than this are not tried: a forged record may claim any number of them.
const MAX_READ: u64 = 1000;

/// Files of arbitrary bytes, next to a segment that is good or alone.
pub(super) fn of_arbitrary_files(data: &[u8]) {
    let mut data = Bytes(data);
    let choice = data.byte();
    let history = &history::all()[usize::from(choice / 4) % history::all().len()];
    let io = if choice.is_multiple_of(2) { history.io.fork() } else { MemoryIo::new() };
    io.create_dir(Path::new(DIRECTORY)).expect("a disk in memory does not fail");
    let number = 1 + data.byte() % 5;
    let mut content = data.take(usize::MAX).to_vec();
    if choice & 2 != 0 {
        content.resize(64 << 10, 0);
    }
    let path = Path::new(DIRECTORY).join(format!("{number:010}.segment"));
    plant(&io, &path, &content).expect("a disk in memory does not fail");
    open_and_use(&io, history.layout);
}

/// A valid log after damage: whatever can be read was written, and all of it was true at one moment.
pub(super) fn of_damage(data: &[u8]) {
    let mut data = Bytes(data);
    let history = &history::all()[usize::from(data.byte()) % history::all().len()];
    let io = damage::run(history, &mut data);
    check_frames(history, &io);
    let Some((log, _)) = open(&io, history.layout) else { return };
    let found = Found::by(&log);
    found.check(history);
    reopen_after_an_append(&io, history, log, &found);
}

/// The same with all checksums made right: nothing can be said about what is read, but it ends and does not panic.
pub(super) fn of_forgery(data: &[u8]) {
    let mut data = Bytes(data);
    let history = &history::all()[usize::from(data.byte()) % history::all().len()];
    let io = damage::run(history, &mut data);
    let directory = Path::new(DIRECTORY);
    for name in io.list(directory).expect("the directory is there") {
        let path = directory.join(name);
        let mut content = io.bytes_of(&path).expect("it was listed");
        reseal::segment(salt(), &mut content);
        io.overwrite(&path, 0, &content).expect("it was listed");
    }
    open_and_use(&io, history.layout);
}

/// Everything that somebody would do with a log, whatever comes of it.
fn open_and_use(io: &MemoryIo, layout: Layout) {
    for depth in [Depth::Opening, Depth::EveryFrame] {
        let _ = inspect(io, Path::new(DIRECTORY), depth, &mut |frame| {
            frame.records().for_each(drop);
        });
    }
    let Some((log, _)) = open(io, layout) else { return };
    let _ = Found::by(&log);
    let _ = log.append_next(&["one more"]).and_then(|ticket| ticket.wait());
    let _ = log.maintain();
    let mut scrub = log.scrub();
    for _ in 0..4 {
        let _ = scrub.step();
    }
    let _ = log.close();
    let _ = open(io, layout);
}

/// Opens the log; where segments are missing, as an operator would who accepts that.
fn open(io: &MemoryIo, layout: Layout) -> Option<(Log, OpenReport)> {
    let accepting = |accept_loss| {
        let options = Options { accept_loss, ..options(layout) };
        Log::open(Arc::new(io.clone()), DIRECTORY, options)
    };
    match accepting(false) {
        Ok(opened) => Some(opened),
        Err(OpenError::MissingSegments(missing)) => {
            assert!(!missing.is_empty(), "a refusal names what is missing");
            accepting(true).ok()
        }
        Err(_) => None,
    }
}

/// Every record of a good frame was written, at its position.
fn check_frames(history: &History, io: &MemoryIo) {
    for depth in [Depth::Opening, Depth::EveryFrame] {
        let _ = inspect(io, Path::new(DIRECTORY), depth, &mut |frame| {
            for record in frame.records().filter(|record| record.kind == RecordType::Data) {
                let position = record.position.get();
                let bytes = record.payload.expect("a good frame has payloads that unpack");
                assert!(
                    write_of(position, &bytes).is_some(),
                    "a record at {position} that nobody wrote, in a log that is {:?}",
                    history.layout
                );
            }
        });
    }
}

/// What a reader gets.
#[derive(Debug)]
struct Found {
    next: u64,
    records: BTreeMap<u64, Vec<u8>>,
    states: BTreeMap<u16, Vec<u8>>,
}

impl Found {
    fn by(log: &Log) -> Self {
        let (first, next) = (log.first().get(), log.next().get());
        let mut records = BTreeMap::new();
        let mut position = first;
        while position < next.min(first.saturating_add(MAX_READ)) {
            let run = log.read_range(Position::new(position), Position::new(next), u64::MAX);
            if position.is_multiple_of(16) {
                let alone = log.read(Position::new(position)).ok();
                let of_run = run.as_ref().ok().and_then(|records| records.first());
                assert!(
                    of_run.is_none() || of_run == alone.as_ref(),
                    "a record is the same alone and in a run"
                );
            }
            match run {
                Ok(run) => {
                    assert!(!run.is_empty(), "position {position} is in {first}..{next}");
                    for record in run {
                        assert_eq!(record.position.get(), position, "a reader gets what it asked for");
                        records.insert(position, record.payload.to_vec());
                        position += 1;
                    }
                }
                Err(ReadError::Corrupt { .. } | ReadError::Lost { .. } | ReadError::Io { .. }) => {
                    position += 1;
                }
                Err(
                    ReadError::Released { .. } | ReadError::NotAppended { .. } | ReadError::InDoubt { .. },
                ) => {
                    panic!("position {position} is in {first}..{next}")
                }
            }
        }
        let states = (1..=2).filter_map(|key| Some((key, log.state(StateKey(key))?.to_vec())));
        Self { next, records, states: states.collect() }
    }

    /// Nothing was invented, and all of it was true at one moment.
    fn check(&self, history: &History) {
        let writes: BTreeMap<u64, Write> = self
            .records
            .iter()
            .map(|(&position, bytes)| {
                let write = write_of(position, bytes);
                (position, write.unwrap_or_else(|| panic!("position {position} was invented: {bytes:?}")))
            })
            .collect();
        let agrees = |moment: &history::Moment| {
            self.next <= moment.next
                && writes.iter().all(|(position, write)| moment.records.get(position) == Some(write))
        };
        assert!(
            history.moments.iter().any(agrees),
            "no moment of the log had these records and ended at {}: {writes:?}",
            self.next
        );
        for (key, value) in &self.states {
            let known = history.moments.iter().any(|moment| moment.states.get(key) == Some(value));
            assert!(known, "state {key} was invented: {value:?}");
        }
    }
}

/// What was found once is found again, and one more record can be appended and read back.
fn reopen_after_an_append(io: &MemoryIo, history: &History, log: Log, found: &Found) {
    let position = log.next().get();
    let bytes = payload(position, Write::MAX);
    let appended = match log.append_next(&[&bytes]).and_then(|ticket| ticket.wait()) {
        Ok(()) => true,
        // A file that somebody put in the way of the next segment.
        Err(AppendError::NoSegment(_)) => false,
        Err(other) => panic!("one more record could not be appended: {other}"),
    };
    log.maintain().expect("a disk in memory does not fail");
    if position.is_multiple_of(2) {
        log.close().expect("a disk in memory does not fail");
    } else {
        drop(log);
    }
    let (log, report) = Log::open(Arc::new(io.clone()), DIRECTORY, options(history.layout))
        .expect("a log that could be opened and written can be opened again");
    let again = Found::by(&log);
    for (position, bytes) in &found.records {
        assert_eq!(again.records.get(position), Some(bytes), "position {position} is gone, {report:?}");
    }
    assert_eq!(again.states, found.states);
    if appended {
        assert_eq!(again.next, position + 1, "{report:?}");
        assert_eq!(log.read(Position::new(position)).ok().map(|record| record.payload.to_vec()), Some(bytes));
    }
}
