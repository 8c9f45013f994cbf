//! `gapless repair`: makes a node whole that nobody serves, as far as that is possible.
//!
//! Must not know: how anything is repaired.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use gapless_engine::verify::{Depth, Step, VerifyNodeError, verify_node};
use gapless_engine::{RepairError, RepairOptions, RepairReport, repair_node};
use gapless_log::io::Io;
use gapless_log::io::real::RealIo;
use gapless_partition::Scratch;
use serde::Serialize;

use crate::cli::{DumpForm, RepairArguments};
use crate::log_command::trouble::shell_word;
use crate::output::write_json;
use crate::progress::{Progress, Unit};
use crate::refusal::Refusal;
use crate::verify_command::scratch_dir;

/// Runs the command.
pub(crate) fn run(arguments: &RepairArguments, out: &mut dyn Write) -> Result<()> {
    let io: Arc<dyn Io> = Arc::new(RealIo);
    let scratch_dir = scratch_dir(arguments.scratch.as_deref())?;
    let scratch = Scratch { io: io.clone(), dir: scratch_dir.path().to_path_buf() };
    let options = RepairOptions {
        partition: arguments.partition.clone(),
        from: arguments.from.clone(),
        scratch: Some(scratch.clone()),
        ..RepairOptions::default()
    };
    let mut progress = Progress::new(Unit::Items);
    let mut tell = |step: &Step| progress.show(&step.what, step.done, step.of);
    let report = repair_node(&io, &arguments.dir, &options, &mut tell);
    progress.end();
    show(&report.map_err(|error| refused(&error, arguments))?, arguments, out)?;
    // With one partition alone, others may be left.
    let mut progress = Progress::new(Unit::Items);
    let mut tell = |step: &Step| progress.show(&format!("again: {}", step.what), step.done, step.of);
    let left = verify_node(&io, &arguments.dir, &scratch, Depth::Sample, &mut tell);
    progress.end();
    let left = left.map_err(|error| refused(&RepairError::Verify(error), arguments))?;
    match left.findings.iter().find(|finding| finding.is_damage) {
        None => Ok(()),
        Some(finding) => {
            let problem = format!("still damaged: {}: {}", finding.path.display(), finding.what);
            let next = format!("see everything: gapless verify {}", shell_word(&arguments.dir));
            Err(Refusal::new(problem, next).into())
        }
    }
}

fn refused(error: &RepairError, arguments: &RepairArguments) -> Refusal {
    let next = match error {
        RepairError::Verify(VerifyNodeError::InUse(_)) => "stop the process that serves it".to_owned(),
        RepairError::UnknownPartition(_) => format!(
            "name it as `gapless verify {}` does, by the name or the id of its namespace: shop/3",
            shell_word(&arguments.dir)
        ),
        RepairError::Verify(_) | RepairError::NoPartition(_) => "name the directory that `gapless serve --data` was given".to_owned(),
        RepairError::Backup(_) | RepairError::NoBackup(_) | RepairError::NotInBackup { .. } => {
            "name another one: --from BACKUP; `gapless verify BACKUP` says whether it is whole".to_owned()
        }
        RepairError::Lost { .. } if arguments.from.is_none() => format!(
            "with a backup: gapless repair {} --from BACKUP; in a cluster remove the node and let it join again with an empty directory",
            shell_word(&arguments.dir)
        ),
        RepairError::Lost { .. } => {
            "in a cluster remove the node and let it join again with an empty directory; alone: gapless restore BACKUP --data OTHER"
                .to_owned()
        }
        // Nodes are asked by those that serve.
        RepairError::NoPeer { .. } | RepairError::Peer { .. } | RepairError::Differs { .. } => {
            "see that the other nodes serve".to_owned()
        }
        RepairError::Failed { .. } => "see that the disk works and has room; then run it again".to_owned(),
    };
    Refusal::new(error.to_string(), next)
}

#[derive(Serialize)]
struct Line<'a> {
    path: &'a Path,
    what: &'a str,
}

fn show(report: &RepairReport, arguments: &RepairArguments, out: &mut dyn Write) -> Result<()> {
    let lines: Vec<Line<'_>> =
        report.repaired.iter().map(|repaired| Line { path: &repaired.path, what: &repaired.what }).collect();
    match arguments.output {
        DumpForm::Json => write_json(out, &serde_json::json!({ "repaired": lines })),
        DumpForm::Raw => Ok(lines.iter().try_for_each(|line| writeln!(out, "{}", line.path.display()))?),
        DumpForm::Table if lines.is_empty() => Ok(writeln!(out, "nothing to repair")?),
        DumpForm::Table => {
            Ok(lines.iter().try_for_each(|line| writeln!(out, "{}\n  {}", line.path.display(), line.what))?)
        }
    }
}
