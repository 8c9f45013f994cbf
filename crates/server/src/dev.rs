//! `gapless dev`: until there is a server, a demonstration of what exists, the log.
//!
//! The outcome does not depend on timing: either every acknowledged record is there after the kill, or the command fails
//! and says which one is not.
//!
//! Must not know: how the log keeps its promise.

mod check;
mod demo_log;
mod demo_record;
mod kill;
mod show;
pub(crate) mod writer;

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use gapless_log::{Depth, Finding, Log, OpenReport, Ticket};
use gapless_types::Position;

use self::demo_log::{WRITERS, append_failed, open};
use self::show::{Acts, invocation};
use crate::cli::DevArguments;
use crate::log_command::segments::{segment_views, segments_table};
use crate::log_command::survey;
use crate::log_command::trouble::shell_word;
use crate::output::{Bytes, Count, Span, counted, time};
use crate::refusal::Refusal;

/// Most rows of the table of segments.
const MOST_SEGMENTS: usize = 8;
/// Records each writer appends in the burst.
const BURST: u64 = 100;
/// Records cut off by the truncation; fewer than the burst has, so that they are there.
const CUT: u64 = 50;

/// Runs the command.
pub(crate) fn run(arguments: &DevArguments, out: &mut dyn Write) -> Result<()> {
    let dir = arguments.data.join("log");
    let dir = dir.as_path();
    let mut acts = Acts::begin(dir, out)?;
    demo_log::refuse_others(dir)?;

    let killed = write_and_kill(dir, arguments.records, &mut acts)?;
    let (log, report) = open_again(dir, &mut acts)?;
    check_everything(&log, &report, killed, &mut acts)?;
    close(log)?;
    show_segments(dir, &mut acts)?;

    let (log, _) = open(dir)?;
    burst(&log, &mut acts)?;
    if arguments.keep {
        close(log)?;
    } else {
        truncate(&log, &mut acts)?;
        release_and_reopen(log, dir, &mut acts)?;
    }
    acts.end(&invocation(), &shell_word(dir))
}

fn write_and_kill(dir: &Path, records: u64, acts: &mut Acts<'_>) -> Result<kill::Killed> {
    acts.title("Write, and kill the writer")?;
    acts.line(format_args!(
        "A child process appends with {WRITERS} writers and reports each record once it is on stable storage."
    ))?;
    let killed = kill::write_and_kill(dir, records)?;
    acts.line(format_args!(
        "{} acknowledged in {}; then SIGKILL in the middle of the next (it ended by signal {}).",
        counted(killed.acknowledged.len() as u64, "record"),
        time(killed.took),
        killed.signal,
    ))?;
    Ok(killed)
}

fn open_again(dir: &Path, acts: &mut Acts<'_>) -> Result<(Log, OpenReport)> {
    acts.title("Open the log again")?;
    let began = Instant::now();
    let (log, report) = open(dir)?;
    describe_opening(&report, began.elapsed(), acts)?;
    let torn = report.damage.iter().any(|damage| damage.finding == Finding::TornTail);
    let end = if torn { "torn: a half-written frame was dropped" } else { "clean: no frame is half written" };
    acts.fact("end of the log", end)?;
    Ok((log, report))
}

fn describe_opening(report: &OpenReport, took: Duration, acts: &mut Acts<'_>) -> Result<()> {
    let (segments, frames) = (counted(report.segments, "segment"), counted(report.frames_scanned, "frame"));
    acts.fact("opened in", format!("{}: {segments}, {frames} scanned", time(took)))?;
    let read = Bytes(report.bytes_read);
    let positions = Span(report.first.get()..report.next.get());
    acts.fact("positions", format!("{positions}, next {} ({read} read)", report.next))
}

fn check_everything(log: &Log, report: &OpenReport, killed: kill::Killed, acts: &mut Acts<'_>) -> Result<()> {
    let acknowledged = killed.acknowledged.len() as u64;
    let found = check::check(log, killed.run, report.next, killed.acknowledged)?;
    // A torn end has taken nothing that was acknowledged, as was just seen: it need not be remembered.
    log.settle_suspect().and_then(Ticket::wait).map_err(|error| append_failed(&error))?;
    acts.fact("acknowledged", Count(acknowledged))?;
    acts.fact("recovered", format!("{}, each with the right bytes in the right order", Count(acknowledged)))?;
    acts.fact("lost", "0")?;
    let more = found - acknowledged;
    acts.fact("on their way", format!("{more} more had reached the disk before they were reported"))?;
    acts.line(format_args!(
        "A kill takes the process, not the machine. Power cuts and failing disks are simulated in the tests."
    ))
}

fn show_segments(dir: &Path, acts: &mut Acts<'_>) -> Result<()> {
    acts.title("What is on disk")?;
    let (_, survey) = survey(dir, Depth::Opening, &mut |_| {})?;
    acts.table(&segments_table(&segment_views(dir, &survey), MOST_SEGMENTS))
}

fn burst(log: &Log, acts: &mut Acts<'_>) -> Result<()> {
    acts.title("A burst, and what it cost")?;
    let before = log.statistics();
    let began = Instant::now();
    demo_log::append_with_all_writers(log, BURST)?;
    let took = began.elapsed();
    let after = log.statistics();

    let records = after.records - before.records;
    let syncs = after.syncs - before.syncs;
    let per_sync = records as f64 / syncs.max(1) as f64;
    acts.fact("appended", format!("{} by {WRITERS} writers in {}", counted(records, "record"), time(took)))?;
    acts.fact("frames", Count(after.frames - before.frames))?;
    acts.fact("syncs", format!("{} ({per_sync:.1} records per sync)", Count(syncs)))?;
    let quantile = |share| after.sync_latency.quantile(share).map_or("-".to_owned(), time);
    acts.fact("sync latency", format!("p50 below {}, p99 below {}", quantile(0.5), quantile(0.99)))?;
    let (payload, written) =
        (after.payload_bytes - before.payload_bytes, after.bytes_written - before.bytes_written);
    acts.fact("bytes", format!("{} of payload, {} written", Bytes(payload), Bytes(written)))
}

fn truncate(log: &Log, acts: &mut Acts<'_>) -> Result<()> {
    acts.title("Truncate: a suffix is void")?;
    let next = log.next();
    let from = next.get().checked_sub(CUT).map_or(next, Position::new);
    log.truncate_from(from).and_then(Ticket::wait).map_err(|error| append_failed(&error))?;
    acts.fact("truncated", format!("{}, next {}", Span::of(&(from..next)), log.next()))?;
    let refused = log.read(from).err();
    acts.fact("reading", refused.map_or("still possible".to_owned(), |error| error.to_string()))?;
    demo_log::append_with_all_writers(log, 1)?;
    acts.fact("appended", format!("{}, next {}", counted(WRITERS, "record"), log.next()))?;
    let expected = from.checked_add(WRITERS);
    require(Some(log.next()) == expected, "the log did not go on where it was truncated")
}

fn release_and_reopen(log: Log, dir: &Path, acts: &mut Acts<'_>) -> Result<()> {
    acts.title("Release a prefix, close, reopen")?;
    let (first, next) = (log.first(), log.next());
    let keep_from = first.checked_add((next.get() - first.get()) / 2).unwrap_or(first);
    log.release_to(keep_from).and_then(Ticket::wait).map_err(|error| append_failed(&error))?;
    acts.fact("released", Span::of(&(first..keep_from)))?;
    let refused = log.read(first).err();
    acts.fact("reading", refused.map_or("still possible".to_owned(), |error| error.to_string()))?;
    close(log)?;

    let began = Instant::now();
    let (log, report) = open(dir)?;
    describe_opening(&report, began.elapsed(), acts)?;
    require(report.first == keep_from && report.next == next, "the log opened with other positions")?;
    close(log)
}

fn close(log: Log) -> Result<()> {
    log.close().map_err(|error| append_failed(&error))
}

fn require(holds: bool, otherwise: &str) -> Result<()> {
    match holds {
        true => Ok(()),
        false => Err(Refusal::new(otherwise, "this is a bug; please report it with this output").into()),
    }
}
