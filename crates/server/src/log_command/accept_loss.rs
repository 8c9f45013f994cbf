//! `gapless log accept-loss`: the operator's word that what is missing is gone.
//!
//! The only command here that writes. It opens the log as its owner would, so that a running process keeps it out.
//!
//! Must not know: how a loss is stored.

use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use gapless_log::io::real::RealIo;
use gapless_log::{Depth, Drive, Layout, Log, Loss, Options, Survey};
use gapless_types::Position;
use serde::Serialize;

use super::case::{Case, CaseView, case_views, missing_cases};
use super::inspect::{LossView, loss_line};
use super::survey;
use super::trouble::{explained, shell_word};
use crate::cli::DumpForm;
use crate::output::{Span, counted, positions, write_json};
use crate::refusal::Refusal;

/// Runs the command.
pub(crate) fn run(dir: &Path, yes: bool, form: DumpForm, out: &mut dyn Write) -> Result<()> {
    let (_, before) = survey(dir, Depth::Opening, &mut |_| {})?;
    if before.missing.is_empty() {
        return nothing_missing(dir, &before, form, out);
    }
    if !yes {
        return listed_only(dir, &before, form, out);
    }
    let unrepaired = accept(dir, &before)?;
    let (_, after) = survey(dir, Depth::Opening, &mut |_| {})?;
    let accepted: Vec<Loss> =
        after.losses.iter().filter(|loss| !before.losses.contains(loss)).copied().collect();
    match form {
        DumpForm::Json => write_json(out, &Report::new(dir, &[], &accepted, &after))?,
        DumpForm::Raw => accepted.iter().try_for_each(|loss| write_span(loss.first..loss.end, out))?,
        DumpForm::Table => {
            writeln!(out, "Accepted and recorded in the log:")?;
            accepted.iter().try_for_each(|loss| writeln!(out, "  {}", loss_line(loss)))?;
            let kept = Span(after.first.get()..after.next.get());
            writeln!(out, "The log opens again: positions {kept}, next {}.", after.next)?;
            if !unrepaired.is_empty() {
                let holes = positions(&unrepaired);
                writeln!(out, "It takes no appends until these are repaired: {holes}.")?;
            }
        }
    }
    Ok(())
}

fn nothing_missing(dir: &Path, survey: &Survey, form: DumpForm, out: &mut dyn Write) -> Result<()> {
    match form {
        DumpForm::Json => write_json(out, &Report::new(dir, &[], &[], survey))?,
        DumpForm::Raw => {}
        DumpForm::Table => {
            writeln!(out, "No segment is missing or short: there is nothing to accept.")?;
            let threats = survey.damage.iter().filter(|damage| damage.finding.threatens_records()).count();
            if threats > 0 {
                let findings = counted(threats as u64, "finding");
                writeln!(out, "Other damage ({findings}): gapless log verify {}", shell_word(dir))?;
            }
        }
    }
    Ok(())
}

fn listed_only(dir: &Path, survey: &Survey, form: DumpForm, out: &mut dyn Write) -> Result<()> {
    let missing = missing_cases(survey);
    match form {
        DumpForm::Json => write_json(out, &Report::new(dir, &missing, &[], survey))?,
        DumpForm::Table => write_missing(&missing, out)?,
        DumpForm::Raw => {
            let mut spans = missing.iter().flat_map(|case| case.unreadable.iter().cloned());
            spans.try_for_each(|positions| write_span(positions, out))?;
        }
    }
    let next = format!(
        "look for a copy of the files; if there is none: gapless log accept-loss {} --yes",
        shell_word(dir)
    );
    Err(Refusal::new("nothing was changed, because --yes was not given", next).into())
}

fn write_span(positions: Range<Position>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", Span::of(&positions))
}

fn write_missing(missing: &[Case], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "The log does not open. This would be lost for good:")?;
    for case in missing {
        writeln!(out, "  {}: {}", case.headline(), case.effect())?;
    }
    writeln!(out, "Everything else stays, and the log records what was lost.")
}

/// Opens the log in spite of what is missing; that records the loss. New segments are like those that are there.
/// Returns the positions that keep the log read-only all the same.
fn accept(dir: &Path, survey: &Survey) -> Result<Vec<Range<Position>>> {
    let defaults = Options::replicated();
    let like = survey.segments.last();
    let segment_bytes = like.map_or(defaults.segment_bytes, |segment| segment.capacity);
    let options = Options {
        layout: survey.segments.first().map_or(Layout::Aligned, |segment| segment.layout),
        drive: Drive::Caller,
        first_segment_bytes: segment_bytes,
        segment_bytes,
        accept_loss: true,
        ..defaults
    };
    let (log, _) = Log::open(Arc::new(RealIo), dir, options).map_err(|error| explained(&error, dir))?;
    let unrepaired = log.unrepaired().into_iter().flat_map(|damage| damage.positions).collect();
    log.close().with_context(|| format!("cannot close the log in {}", dir.display()))?;
    Ok(unrepaired)
}

/// The whole answer as JSON.
#[derive(Debug, Serialize)]
struct Report {
    directory: String,
    first: u64,
    next: u64,
    missing: Vec<CaseView>,
    accepted: Vec<LossView>,
}

impl Report {
    fn new(dir: &Path, missing: &[Case], accepted: &[Loss], survey: &Survey) -> Self {
        Self {
            directory: dir.display().to_string(),
            first: survey.first.get(),
            next: survey.next.get(),
            missing: case_views(missing, dir),
            accepted: accepted.iter().map(LossView::of).collect(),
        }
    }
}
