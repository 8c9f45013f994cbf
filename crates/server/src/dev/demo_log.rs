//! The log of a demonstration: how it is opened, how it is told from other logs, how it is appended to.
//!
//! Must not know: what is shown.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use anyhow::Result;
use gapless_log::io::real::RealIo;
use gapless_log::{AppendError, Depth, Log, OpenReport, Options, StateKey};

use super::demo_record::DemoRecord;
use crate::log_command::trouble::explained;
use crate::refusal::Refusal;

/// Writers that append at the same time, so that group commit shows.
pub(super) const WRITERS: u64 = 8;
/// Small, so that a few seconds fill several.
const SEGMENT_BYTES: u32 = 512 << 10;
/// What the small state of a demonstration's log says, so that no other log is truncated for show.
const MARK: (StateKey, &[u8]) = (StateKey(1), b"gapless dev");

/// Opens the log of a demonstration, or creates it.
pub(super) fn open(dir: &Path) -> Result<(Log, OpenReport)> {
    let options =
        Options { first_segment_bytes: SEGMENT_BYTES, segment_bytes: SEGMENT_BYTES, ..Options::replicated() };
    Log::open(Arc::new(RealIo), dir, options).map_err(|error| explained(&error, dir))
}

/// Marks a log as one of a demonstration.
pub(super) fn mark(log: &Log) -> Result<(), AppendError> {
    let (key, value) = MARK;
    log.set_state(key, value)?.wait()
}

/// Refuses a directory whose log is not of a demonstration, or is damaged. One without a log is fine.
pub(super) fn refuse_others(dir: &Path) -> Result<()> {
    if !dir.exists() {
        return Ok(());
    }
    let survey = gapless_log::inspect(&RealIo, dir, Depth::Opening, &mut |_| {})
        .map_err(|error| explained(&error, dir))?;
    let (key, value) = MARK;
    let marked = survey.states.get(&key).is_some_and(|found| found == value);
    // A demonstration that was stopped before it could mark its log has written nothing else either.
    let untouched = survey.first == survey.next && survey.states.is_empty();
    if survey.log.is_some() && !marked && !untouched {
        return Err(Refusal::new(
            format!("the log in {} was not made by `gapless dev`", dir.display()),
            "choose another directory: gapless dev --data DIR",
        )
        .into());
    }
    let threatened = survey.damage.iter().any(|damage| damage.finding.threatens_records());
    if threatened || !survey.missing.is_empty() {
        return Err(Refusal::new(
            format!("the log in {} is damaged", dir.display()),
            "`gapless log verify` says how; for a demonstration, choose another directory with --data",
        )
        .into());
    }
    Ok(())
}

/// Appends `each` records with every writer, each of them waiting for one record before the next.
pub(super) fn append_with_all_writers(log: &Log, each: u64) -> Result<()> {
    let run = log.next().get();
    let write = |writer: u64| {
        (1..=each).try_for_each(|count| {
            let record = DemoRecord { run, writer, count };
            log.append_next(&[record.encode()])?.wait()
        })
    };
    let outcomes: Vec<_> = thread::scope(|scope| {
        let writers: Vec<_> = (1..=WRITERS).map(|writer| scope.spawn(move || write(writer))).collect();
        writers.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    for outcome in outcomes {
        outcome.expect("a writer does nothing that panics").map_err(|error| append_failed(&error))?;
    }
    Ok(())
}

/// What a failed append means for whoever typed the command.
pub(super) fn append_failed(error: &AppendError) -> anyhow::Error {
    let next = match error {
        AppendError::DiskFull { .. } => "free some space, or choose another disk: gapless dev --data DIR",
        AppendError::ReadOnly(_) => "choose another directory: gapless dev --data DIR",
        _ => "check the disk and the messages of the system, then run it again",
    };
    Refusal::new(format!("the log refused: {error}"), next).into()
}
