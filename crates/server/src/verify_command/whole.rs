//! The whole of a node, or a directory of backups.
//!
//! Must not know: how damage is found.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use gapless_engine::verify::{
    Depth, Finding, Remedy, Step, Verified, VerifyNodeError, verify_backup, verify_node,
};
use gapless_log::io::Io;
use gapless_partition::Scratch;
use serde::Serialize;

use crate::cli::{DumpForm, VerifyArguments};
use crate::log_command::trouble::shell_word;
use crate::output::{counted, time, write_json};
use crate::progress::{Progress, Unit};
use crate::refusal::Refusal;

/// What a directory is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Node,
    Backups,
}

/// Verifies a node or backups; none if the directory is neither.
pub(super) fn run(
    arguments: &VerifyArguments,
    io: &Arc<dyn Io>,
    scratch: &Scratch,
    out: &mut dyn Write,
) -> Option<Result<()>> {
    let (dir, began, mut progress) = (&arguments.dir, Instant::now(), Progress::new(Unit::Items));
    let mut show = |step: &Step| progress.show(&step.what, step.done, step.of);
    if let Some(verified) = verify_backup(io, dir, &mut show) {
        progress.end();
        return Some(answer(&verified, Kind::Backups, arguments, began.elapsed(), out));
    }
    let depth = if arguments.full { Depth::Full } else { Depth::Sample };
    let verified = verify_node(io, dir, scratch, depth, &mut show);
    progress.end();
    match verified {
        Ok(verified) => Some(answer(&verified, Kind::Node, arguments, began.elapsed(), out)),
        // Perhaps it is a partition; if it is nothing, that says so.
        Err(VerifyNodeError::NoNode(_)) => None,
        Err(VerifyNodeError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => None,
        Err(error @ VerifyNodeError::InUse(_)) => {
            let next = "stop the process that serves it, or verify a backup of it: gapless backup TO";
            Some(Err(Refusal::new(error.to_string(), next).into()))
        }
        Err(error) => Some(Err(Refusal::new(error.to_string(), "see that it can be read").into())),
    }
}

fn answer(
    verified: &Verified,
    kind: Kind,
    arguments: &VerifyArguments,
    took: Duration,
    out: &mut dyn Write,
) -> Result<()> {
    let dir = &arguments.dir;
    match arguments.output {
        DumpForm::Json => write_json(out, &report(verified, kind, dir, took))?,
        DumpForm::Table => write(verified, kind, dir, took, out)?,
        DumpForm::Raw => writeln!(out, "{}", super::word(verified.is_sound()))?,
    }
    if verified.is_sound() {
        return Ok(());
    }
    let damaged: Vec<&Finding> = verified.findings.iter().filter(|finding| finding.is_damage).collect();
    let problem = format!("{} in {}", counted(damaged.len() as u64, "damage"), dir.display());
    Err(Refusal::new(problem, remedy(damaged[0].remedy, dir)).into())
}

fn write(
    verified: &Verified,
    kind: Kind,
    dir: &Path,
    took: Duration,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let count = |count: usize, noun| counted(count as u64, noun);
    match kind {
        Kind::Node => {
            writeln!(out, "node        {}", dir.display())?;
            writeln!(out, "log         {} read", counted(verified.entries, "record"))?;
            writeln!(
                out,
                "partitions  {}, {} computed anew",
                count(verified.partitions, "partition"),
                verified.computed
            )?;
            writeln!(
                out,
                "outcomes    {}, {}",
                counted(verified.outcomes, "outcome"),
                counted(verified.rows, "row")
            )?;
            let domains = count(verified.domains, "domain");
            writeln!(out, "projections {domains}, {} computed anew", verified.computed_domains)?;
        }
        Kind::Backups => {
            writeln!(out, "backups     {} in {}", verified.entries, dir.display())?;
            writeln!(out, "files       {}", count(verified.computed, "file"))?;
            writeln!(
                out,
                "newest      {} in {}",
                counted(verified.outcomes, "outcome"),
                count(verified.partitions, "partition")
            )?;
        }
    }
    writeln!(out, "verified    in {}", time(took))?;
    for finding in &verified.findings {
        writeln!(out, "\n{}", finding.path.display())?;
        writeln!(out, "  {}   {}", if finding.is_damage { "damage" } else { "note  " }, finding.what)?;
        writeln!(out, "  means    {}", finding.means)?;
        writeln!(out, "  next     {}", remedy(finding.remedy, dir))?;
    }
    writeln!(out, "\n{}", if verified.is_sound() { "Sound." } else { "Damaged." })
}

/// What helps, as a command where there is one.
fn remedy(remedy: Remedy, dir: &Path) -> String {
    let dir = shell_word(dir);
    match remedy {
        Remedy::NextOpening => "nothing: the next start puts it right".to_owned(),
        Remedy::Repair => format!("gapless repair {dir}"),
        Remedy::PartitionFromBackup(partition) => format!(
            "gapless repair {dir} --partition {}/{} --from BACKUP",
            partition.namespace.get(),
            partition.index.get()
        ),
        Remedy::WholeNode => {
            "in a cluster, remove the node and let it join again with an empty directory; alone: gapless restore BACKUP --data OTHER"
                .to_owned()
        }
        Remedy::RestoreAgain => format!("gapless restore BACKUP --data {dir}"),
        Remedy::OtherCopy => "put another copy of the file in its place, or make a new backup elsewhere: gapless backup TO".to_owned(),
    }
}

#[derive(Serialize)]
struct Report<'a> {
    directory: &'a Path,
    kind: &'static str,
    sound: bool,
    records: u64,
    partitions: usize,
    computed: usize,
    outcomes: u64,
    events: u64,
    rows: u64,
    domains: usize,
    computed_domains: usize,
    seconds: f64,
    findings: Vec<FindingView<'a>>,
}

#[derive(Serialize)]
struct FindingView<'a> {
    path: &'a Path,
    damage: bool,
    what: &'a str,
    means: &'static str,
    next: String,
}

fn report<'a>(verified: &'a Verified, kind: Kind, dir: &'a Path, took: Duration) -> Report<'a> {
    let view = |finding: &'a Finding| FindingView {
        path: &finding.path,
        damage: finding.is_damage,
        what: &finding.what,
        means: finding.means,
        next: remedy(finding.remedy, dir),
    };
    Report {
        directory: dir,
        kind: if kind == Kind::Node { "node" } else { "backups" },
        sound: verified.is_sound(),
        records: verified.entries,
        partitions: verified.partitions,
        computed: verified.computed,
        outcomes: verified.outcomes,
        events: verified.events,
        rows: verified.rows,
        domains: verified.domains,
        computed_domains: verified.computed_domains,
        seconds: took.as_secs_f64(),
        findings: verified.findings.iter().map(view).collect(),
    }
}
