//! `gapless log inspect`: what the files of a log hold, as opening it would find them.
//!
//! Must not know: what is worth an alarm; whoever wants a verdict asks `verify`.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Result;
use gapless_log::{Depth, FrameView, LogId, Loss, Survey, Suspect};
use serde::Serialize;

use super::case::{Case, CaseView, RangeView, case_views, cases};
use super::segments::{SegmentView, segment_views, segments_table};
use super::survey;
use super::trouble::shell_word;
use crate::cli::DumpForm;
use crate::output::{
    Bytes, Side, Span, counted, heading, numbered, positions, spans, table, write_json, write_table,
};

/// Runs the command.
pub(crate) fn run(dir: &Path, with_frames: bool, form: DumpForm, out: &mut dyn Write) -> Result<()> {
    let mut frames = Vec::new();
    let depth = if with_frames { Depth::EveryFrame } else { Depth::Opening };
    let (log, survey) = survey(dir, depth, &mut |frame| {
        if with_frames {
            frames.push(FrameLine::of(frame));
        }
    })?;
    let cases = cases(&survey, None);
    match form {
        DumpForm::Json => {
            let frames = with_frames.then_some(frames);
            write_json(out, &Report::new(dir, log, &survey, &cases, frames))?;
        }
        DumpForm::Table => {
            write_facts(dir, log, &survey, out)?;
            writeln!(out, "\n{}", heading("segments"))?;
            write_table(out, &segments_table(&segment_views(dir, &survey)))?;
            if with_frames {
                writeln!(out, "\n{}", heading("frames"))?;
                write_frames(&frames, out)?;
            }
            write_damage(dir, &cases, out)?;
        }
        DumpForm::Raw if with_frames => {
            frames.iter().try_for_each(|line| writeln!(out, "{} {}", line.frame, line.first_position))?;
        }
        DumpForm::Raw => writeln!(out, "{} {}", survey.first, survey.next)?,
    }
    Ok(())
}

/// What the log says about itself, a line each.
fn write_facts(dir: &Path, log: LogId, survey: &Survey, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "log           {log}")?;
    writeln!(out, "directory     {}", dir.display())?;
    let kept = Span(survey.first.get()..survey.next.get());
    writeln!(out, "positions     {kept} (first {}, next {})", survey.first, survey.next)?;
    let states: Vec<String> = survey
        .states
        .iter()
        .map(|(key, value)| format!("key {}: {}", key.0, counted(value.len() as u64, "byte")))
        .collect();
    writeln!(out, "small state   {}", or_none(&states.join(", ")))?;
    let suspect = survey.suspect.as_ref().map(suspect_line);
    writeln!(out, "dropped tail  {}", or_none(suspect.as_deref().unwrap_or_default()))?;
    let losses: Vec<String> = survey.losses.iter().map(loss_line).collect();
    writeln!(out, "losses        {}", or_none(&losses.join("; ")))?;
    if !survey.leftovers.is_empty() {
        writeln!(out, "leftovers     {}", survey.leftovers.join(", "))?;
    }
    let frames = counted(survey.frames_scanned, "frame");
    writeln!(out, "read          {}, {frames} scanned", Bytes(survey.bytes_read))
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}

fn suspect_line(suspect: &Suspect) -> String {
    let Suspect { first_position, segment, offset, frame } = suspect;
    format!(
        "from position {first_position} on (frame {frame}, segment {segment}, byte {offset}), not settled"
    )
}

/// What an operator gave up.
pub(crate) fn loss_line(loss: &Loss) -> String {
    let positions = match loss.end > loss.first {
        true => positions(std::slice::from_ref(&(loss.first..loss.end))),
        false => format!("unknown positions at {}", loss.first),
    };
    let segments = u64::from(loss.first_segment.get())..u64::from(loss.last_segment.get()) + 1;
    format!("{positions} ({})", numbered("segment", segments))
}

fn write_frames(frames: &[FrameLine], out: &mut dyn Write) -> io::Result<()> {
    let mut table = table([
        ("frame", Side::Right),
        ("segment", Side::Right),
        ("byte", Side::Right),
        ("body", Side::Right),
        ("records", Side::Right),
        ("position", Side::Right),
        ("durable", Side::Right),
    ]);
    for line in frames {
        let FrameLine { frame, segment, offset, body_length, records, first_position, certified } = line;
        table.add_row([
            frame.to_string(),
            segment.to_string(),
            offset.to_string(),
            body_length.to_string(),
            records.to_string(),
            first_position.to_string(),
            certified.to_string(),
        ]);
    }
    write_table(out, &table)
}

fn write_damage(dir: &Path, cases: &[Case], out: &mut dyn Write) -> io::Result<()> {
    let word = shell_word(dir);
    if cases.is_empty() {
        return writeln!(out, "\nNo damage was met. To read every frame: gapless log verify {word}");
    }
    let mut table = table([
        ("finding", Side::Left),
        ("segment", Side::Right),
        ("bytes", Side::Right),
        ("frames", Side::Right),
        ("rescued", Side::Right),
        ("unreadable positions", Side::Left),
    ]);
    for case in cases {
        let (damage, unreadable) = (&case.damage, spans(&case.unreadable));
        table.add_row([
            damage.finding.to_string(),
            Span(case.segments()).to_string(),
            Span(u64::from(damage.bytes.start)..u64::from(damage.bytes.end)).to_string(),
            Span(damage.frames.clone()).to_string(),
            damage.rescued.to_string(),
            if unreadable.is_empty() { "-".to_owned() } else { unreadable },
        ]);
    }
    writeln!(out, "\n{}", heading("damage"))?;
    write_table(out, &table)?;
    writeln!(out, "\nWhat it means and what to do next: gapless log verify {word}")
}

/// A frame as JSON, and as it is kept for the table.
#[derive(Debug, Serialize)]
struct FrameLine {
    frame: u64,
    segment: u32,
    offset: u32,
    body_length: u32,
    records: u32,
    first_position: u64,
    /// The last frame known durable when it was written; 0 if none.
    certified: u64,
}

impl FrameLine {
    fn of(frame: &FrameView<'_>) -> Self {
        Self {
            frame: frame.number.get(),
            segment: frame.segment.get(),
            offset: frame.offset,
            body_length: frame.body_length,
            records: frame.record_count,
            first_position: frame.first_position.get(),
            certified: frame.certified,
        }
    }
}

/// The whole answer as JSON.
#[derive(Debug, Serialize)]
struct Report<'a> {
    directory: String,
    log: String,
    first: u64,
    next: u64,
    states: Vec<StateView>,
    suspect: Option<SuspectView>,
    losses: Vec<LossView>,
    segments: Vec<SegmentView>,
    leftovers: &'a [String],
    damage: Vec<CaseView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frames: Option<Vec<FrameLine>>,
    bytes_read: u64,
    frames_scanned: u64,
}

impl<'a> Report<'a> {
    fn new(
        dir: &Path,
        log: LogId,
        survey: &'a Survey,
        cases: &[Case],
        frames: Option<Vec<FrameLine>>,
    ) -> Self {
        let state = |(key, value): (&gapless_log::StateKey, _)| StateView { key: key.0, length: len(value) };
        Self {
            directory: dir.display().to_string(),
            log: log.to_string(),
            first: survey.first.get(),
            next: survey.next.get(),
            states: survey.states.iter().map(state).collect(),
            suspect: survey.suspect.as_ref().map(SuspectView::of),
            losses: survey.losses.iter().map(LossView::of).collect(),
            segments: segment_views(dir, survey),
            leftovers: &survey.leftovers,
            damage: case_views(cases, dir),
            frames,
            bytes_read: survey.bytes_read,
            frames_scanned: survey.frames_scanned,
        }
    }
}

fn len(value: &impl AsRef<[u8]>) -> usize {
    value.as_ref().len()
}

#[derive(Debug, Serialize)]
struct StateView {
    key: u16,
    length: usize,
}

/// A dropped tail as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct SuspectView {
    first_position: u64,
    segment: u32,
    offset: u32,
    frame: u64,
}

impl SuspectView {
    pub(crate) fn of(suspect: &Suspect) -> Self {
        Self {
            first_position: suspect.first_position.get(),
            segment: suspect.segment.get(),
            offset: suspect.offset,
            frame: suspect.frame.get(),
        }
    }
}

/// An accepted loss as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct LossView {
    #[serde(flatten)]
    positions: RangeView,
    first_segment: u32,
    last_segment: u32,
}

impl LossView {
    pub(crate) fn of(loss: &Loss) -> Self {
        Self {
            positions: RangeView::of(&(loss.first..loss.end)),
            first_segment: loss.first_segment.get(),
            last_segment: loss.last_segment.get(),
        }
    }
}
