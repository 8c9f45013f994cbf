//! `gapless restore`: makes a directory that a node can open out of a backup.
//!
//! Must not know: what is in a backup.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use gapless_engine::types::LogIndex;
use gapless_engine::{
    BackupError, NodeId, RestoreError, RestoreOptions, RestorePoint, RestoreProgress, RestoreReport, restore,
};
use gapless_log::io::Io;
use gapless_log::io::real::RealIo;
use serde::Serialize;

use crate::cli::{DumpForm, RestoreArguments};
use crate::log_command::trouble::shell_word;
use crate::output::{Bytes, counted, rate, time, write_json};
use crate::progress::{Progress, Unit};
use crate::refusal::Refusal;

/// Runs the command.
pub(crate) fn run(arguments: &RestoreArguments, out: &mut dyn Write) -> Result<()> {
    let began = Instant::now();
    let io: Arc<dyn Io> = Arc::new(RealIo);
    let mut progress = Progress::new(Unit::Bytes);
    let mut options = RestoreOptions::new(NodeId::new(arguments.node), &arguments.address, chance());
    options.point = match (arguments.at_index, arguments.at_time) {
        (Some(index), _) => RestorePoint::Index(LogIndex::new(index)),
        (None, Some(time)) => RestorePoint::Time(time),
        (None, None) => RestorePoint::Latest,
    };
    let restored = restore(&io, &arguments.from, &arguments.data, &options, &mut |now| match now {
        RestoreProgress::Checking { done, of } => progress.show("checking", done, of),
        RestoreProgress::Writing { done, of } => progress.show("writing", done, of),
    });
    progress.end();
    let report = restored.map_err(|error| refused(&error, arguments))?;
    show(&report, began.elapsed(), arguments, out)
}

/// Makes the id of the new cluster another one each time.
fn chance() -> u128 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() ^ (u128::from(fastrand::u64(..)) << 64)
}

fn refused(error: &RestoreError, arguments: &RestoreArguments) -> Refusal {
    let from = shell_word(&arguments.from);
    let next = match error {
        RestoreError::Backup(BackupError::Damaged { .. }) => {
            format!("see everything that is wrong: gapless verify {from}; then restore another copy of it")
        }
        RestoreError::Backup(_) | RestoreError::Writing { .. } => {
            "see that both directories can be used, and that the disk has room; then run it again".to_owned()
        }
        RestoreError::NoBackup(_) => "name the directory that `gapless backup` was given".to_owned(),
        RestoreError::NotEmpty(_) => "name an empty one, or one that does not exist: --data DIR".to_owned(),
        RestoreError::Busy(_) => "wait until that is done".to_owned(),
        RestoreError::NoSuchPoint { .. } => {
            "choose one of these with --at-index or --at-time, or neither for the newest backup".to_owned()
        }
    };
    Refusal::new(error.to_string(), next)
}

#[derive(Serialize)]
struct Report<'a> {
    directory: &'a Path,
    backup: u64,
    log_index: u64,
    from_cluster: String,
    cluster: String,
    node: u64,
    partitions: usize,
    outcomes: u64,
    entries: u64,
    domains: usize,
    bytes_read: u64,
    seconds: f64,
}

fn show(
    report: &RestoreReport,
    took: Duration,
    arguments: &RestoreArguments,
    out: &mut dyn Write,
) -> Result<()> {
    if arguments.output == DumpForm::Raw {
        return Ok(writeln!(out, "{}", report.index)?);
    }
    if arguments.output == DumpForm::Json {
        return write_json(
            out,
            &Report {
                directory: &report.dir,
                backup: report.backup,
                log_index: report.index.get(),
                from_cluster: report.from_cluster.to_string(),
                cluster: report.cluster.to_string(),
                node: arguments.node,
                partitions: report.partitions,
                outcomes: report.outcomes,
                entries: report.entries,
                domains: report.domains,
                bytes_read: report.bytes,
                seconds: took.as_secs_f64(),
            },
        );
    }
    let data = shell_word(&report.dir);
    writeln!(out, "restored    {} out of backup {}", report.dir.display(), report.backup)?;
    writeln!(
        out,
        "has         {} in {}, up to entry {}",
        counted(report.outcomes, "outcome"),
        counted(report.partitions as u64, "partition"),
        report.index
    )?;
    if report.entries > 0 {
        writeln!(out, "to apply    {} of the log, when it is opened", counted(report.entries, "record"))?;
    }
    writeln!(out, "cluster     {}, the only voter is node {}", report.cluster, arguments.node)?;
    writeln!(out, "read        {} at {}, in {}", Bytes(report.bytes), rate(report.bytes, took), time(took))?;
    writeln!(out, "\nnext: gapless verify {data} && gapless serve --data {data}")?;
    Ok(())
}
