//! From opening a log on disk to the first number, with a checkpoint a thousand records before the log's end.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use gapless_log::io::real::RealIo;
use gapless_log::{Log, Options};
use gapless_sequencer::{Drive, SequenceValue, Sequencer};
use gapless_types::{WorkspaceId, WorkspaceKind};
use serde::Serialize;

use crate::flat_storage::SEQUENCES;
use crate::log_storage::{LogStorage, event_bytes};
use crate::samples::Spread;
use crate::transactions;

/// Records that the checkpoint does not cover.
const TAIL: u64 = 1000;
/// Few, because the checkpoint here is a file that is written as a whole.
const WORKSPACES: u64 = 100;
/// Records that were appended together: many, to build the log soon; few at its end, as where an event is an append.
const BATCH: u64 = 10_000;
const BATCH_AT_THE_END: u64 = 10;

/// How long it took over logs of one length.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct FirstNumber {
    pub(crate) records: u64,
    pub(crate) log_bytes: u64,
    /// Opening the log, which the log answers for.
    pub(crate) log_microseconds: Spread,
    /// From there to the first number.
    pub(crate) sequencer_microseconds: Spread,
}

pub(crate) fn measure(directory: &Path, records: u64, rounds: usize) -> Result<FirstNumber> {
    let folder = tempfile::tempdir_in(directory)?;
    let log_folder = folder.path().join("log");
    let checkpoint = folder.path().join("numbers");
    build(&log_folder, records)?;
    let mut times = Vec::new();
    for _ in 0..rounds {
        // As it was left: the round before has moved it forward.
        fs::write(&checkpoint, checkpoint_text(records))?;
        times.push(open(&log_folder, &checkpoint, records)?);
    }
    let microseconds = |pick: fn(&(Duration, Duration)) -> Duration| {
        Spread::of(times.iter().map(|times| pick(times).as_secs_f64() * 1e6))
    };
    Ok(FirstNumber {
        records,
        log_bytes: bytes_in(&log_folder)?,
        log_microseconds: microseconds(|times| times.0),
        sequencer_microseconds: microseconds(|times| times.1),
    })
}

/// Two numbers of one of the workspaces in each record: the numbers are those of a real history.
fn values(offset: u64) -> [SequenceValue; 2] {
    let (workspace, number) = (WorkspaceId::new(offset % WORKSPACES), offset / WORKSPACES + 1);
    SEQUENCES.map(|sequence| SequenceValue { workspace, sequence, number })
}

fn build(folder: &Path, records: u64) -> Result<()> {
    let (log, _) = Log::open(Arc::new(RealIo), folder, Options::partition())?;
    let mut offset = 1;
    while offset <= records {
        let many = records.saturating_sub(2 * TAIL);
        let end = if offset <= many { (offset + BATCH).min(many + 1) } else { offset + BATCH_AT_THE_END };
        let end = end.min(records + 1);
        let payloads: Vec<Vec<u8>> = (offset..end).map(|offset| event_bytes(&values(offset))).collect();
        // Durable when the log is closed, which is early enough.
        let _ticket = log.append_next(&payloads)?;
        log.flush()?;
        log.maintain()?;
        offset = end;
    }
    Ok(log.close()?)
}

fn checkpoint_text(records: u64) -> String {
    let covered = records.saturating_sub(TAIL);
    let mut text = format!("{}\n", covered + 1);
    for offset in covered.saturating_sub(WORKSPACES - 1).max(1)..=covered {
        for value in values(offset) {
            text += &format!("{} {} {}\n", value.workspace, value.sequence, value.number);
        }
    }
    text
}

fn open(folder: &Path, checkpoint: &Path, records: u64) -> Result<(Duration, Duration)> {
    let began = Instant::now();
    let (log, _) = Log::open(Arc::new(RealIo), folder, Options::partition())?;
    let log_open = began.elapsed();
    let storage = LogStorage::open(log.clone(), checkpoint)?;
    let params = transactions::params(500);
    // Without a thread: how soon the machine gives it a processor is not the question.
    let mut sequencer = Sequencer::new(params, storage, Drive::Caller)?;
    while sequencer.next_offset().is_none() {
        sequencer.step_background();
    }
    let mut transaction = sequencer.start(WorkspaceKind::new(1), WorkspaceId::new(records % WORKSPACES))?;
    let number = transaction.next(SEQUENCES[0])?;
    let first_number = began.elapsed() - log_open;
    anyhow::ensure!(transaction.offset().get() == records + 1, "a wrong offset");
    anyhow::ensure!(number == records / WORKSPACES + 2, "a wrong number");
    transaction.flush();
    drop(sequencer);
    log.close()?;
    Ok((log_open, first_number))
}

fn bytes_in(folder: &Path) -> Result<u64> {
    let files: Vec<PathBuf> = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.iter().map(|file| Ok(fs::metadata(file)?.len())).sum()
}
