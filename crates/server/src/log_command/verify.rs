//! `gapless log verify`: reads everything, and says whether anybody must act.
//!
//! Must not know: how damage is told apart; that is the log's own business.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use gapless_log::{Depth, Finding, FrameView, LogId, RecordType, Survey};
use gapless_types::SegmentNumber;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::aftermath::Aftermath;
use super::case::{Case, CaseView, case_views, cases};
use super::inspect::{LossView, SuspectView, loss_line};
use super::survey;
use crate::cli::DumpForm;
use crate::output::{Bytes, Span, counted, rate, time, write_json};
use crate::refusal::Refusal;

/// Runs the command.
pub(crate) fn run(dir: &Path, form: DumpForm, out: &mut dyn Write) -> Result<()> {
    let (_, outline) = survey(dir, Depth::Opening, &mut |_| {})?;
    let mut reading = Reading::new(&outline);
    let began = Instant::now();
    let surveyed = survey(dir, Depth::EveryFrame, &mut |frame| reading.take(frame));
    let took = began.elapsed();
    reading.bar.finish_and_clear();
    let (log, survey) = surveyed?;
    let cases = cases(&survey, Some(&reading.aftermath));
    let result = Verified { dir, log, survey: &survey, cases: &cases, reading: &reading, took };
    match form {
        DumpForm::Json => write_json(out, &result.report())?,
        DumpForm::Table => result.write(out)?,
        DumpForm::Raw => writeln!(out, "{}", if result.is_sound() { "sound" } else { "damaged" })?,
    }
    result.verdict()
}

/// What is counted while frames are read, and the bar that shows it on a terminal.
struct Reading {
    bar: ProgressBar,
    /// Bytes of the segments before each one.
    bytes_before: BTreeMap<SegmentNumber, u64>,
    records: u64,
    /// Records whose checksum matches and that do not decompress.
    undecodable: u64,
    aftermath: Aftermath,
}

impl Reading {
    fn new(outline: &Survey) -> Self {
        let mut total = 0;
        let mut bytes_before = BTreeMap::new();
        for segment in &outline.segments {
            bytes_before.insert(segment.number, total);
            total += u64::from(segment.end_offset);
        }
        // Drawn on stderr, and only if that is a terminal.
        let style = ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta}");
        let bar = ProgressBar::new(total).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar, bytes_before, records: 0, undecodable: 0, aftermath: Aftermath::default() }
    }

    fn take(&mut self, frame: &FrameView<'_>) {
        for record in frame.records() {
            self.records += u64::from(record.kind == RecordType::Data);
            self.undecodable += u64::from(record.payload.is_none());
            self.aftermath.observe_record(frame.number.get(), record.kind, record.position);
        }
        let before = self.bytes_before.get(&frame.segment).copied().unwrap_or_default();
        self.bar.set_position(before + u64::from(frame.offset));
    }
}

/// Everything that was found.
struct Verified<'a> {
    dir: &'a Path,
    log: LogId,
    survey: &'a Survey,
    cases: &'a [Case],
    reading: &'a Reading,
    took: Duration,
}

impl Verified<'_> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { survey, reading, .. } = self;
        let segments = counted(survey.segments.len() as u64, "segment");
        let frames = counted(survey.frames_scanned, "frame");
        let records = counted(reading.records, "record");
        let (bytes, rate) = (Bytes(survey.bytes_read), rate(survey.bytes_read, self.took));
        writeln!(out, "log        {} in {}", self.log, self.dir.display())?;
        writeln!(out, "verified   {segments}, {frames}, {records}")?;
        writeln!(out, "read       {bytes} in {} ({rate})", time(self.took))?;
        let kept = Span(survey.first.get()..survey.next.get());
        writeln!(out, "positions  {kept} (first {}, next {})", survey.first, survey.next)?;
        for loss in &survey.losses {
            writeln!(out, "accepted   {}", loss_line(loss))?;
        }
        self.write_cases(out, "\nRecords are threatened:", |case| case.threatens)?;
        self.write_cases(out, "\nNo record is threatened by:", |case| !case.threatens)?;
        writeln!(out, "\n{}", self.summary())
    }

    fn write_cases(&self, out: &mut dyn Write, title: &str, which: fn(&Case) -> bool) -> io::Result<()> {
        let mut cases = self.cases.iter().filter(|case| which(case)).peekable();
        if cases.peek().is_some() {
            writeln!(out, "{title}")?;
        }
        cases.try_for_each(|case| case.write(self.dir, out))
    }

    fn threats(&self) -> u64 {
        self.cases.iter().filter(|case| case.threatens).count() as u64
    }

    fn is_sound(&self) -> bool {
        self.threats() == 0 && self.reading.undecodable == 0
    }

    fn summary(&self) -> String {
        let torn = self.cases.iter().any(|case| case.damage.finding == Finding::TornTail);
        match (self.threats(), self.reading.undecodable) {
            (0, 0) if torn => {
                "Sound, with the torn end that a crash leaves. No acknowledged record is threatened."
                    .to_owned()
            }
            (0, 0) => "Sound.".to_owned(),
            (threats, 0) => format!("Not sound: {}.", counted(threats, "threat")),
            (threats, broken) => {
                let broken = counted(broken, "record");
                format!("Not sound: {}, {broken} cannot be decompressed.", counted(threats, "threat"))
            }
        }
    }

    /// Bad news if somebody must act.
    fn verdict(&self) -> Result<()> {
        match (self.threats(), self.reading.undecodable) {
            (0, 0) => Ok(()),
            (0, broken) => Err(Refusal::new(
                format!("{} in {} cannot be decompressed", counted(broken, "record"), self.dir.display()),
                "restore them from another node or a backup, and report this as a bug",
            )
            .into()),
            (threats, _) => Err(Refusal::new(
                format!("{} to records in {}", counted(threats, "threat"), self.dir.display()),
                "do what stands behind `next` above, for each of them",
            )
            .into()),
        }
    }

    fn report(&self) -> Report {
        Report {
            directory: self.dir.display().to_string(),
            log: self.log.to_string(),
            sound: self.is_sound(),
            first: self.survey.first.get(),
            next: self.survey.next.get(),
            segments: self.survey.segments.len(),
            frames: self.survey.frames_scanned,
            records: self.reading.records,
            undecodable_records: self.reading.undecodable,
            bytes_read: self.survey.bytes_read,
            seconds: self.took.as_secs_f64(),
            suspect: self.survey.suspect.as_ref().map(SuspectView::of),
            losses: self.survey.losses.iter().map(LossView::of).collect(),
            damage: case_views(self.cases, self.dir),
        }
    }
}

/// The whole answer as JSON.
#[derive(Debug, Serialize)]
struct Report {
    directory: String,
    log: String,
    sound: bool,
    first: u64,
    next: u64,
    segments: usize,
    frames: u64,
    /// Records of users in good frames, those that were truncated or released included.
    records: u64,
    undecodable_records: u64,
    bytes_read: u64,
    seconds: f64,
    suspect: Option<SuspectView>,
    losses: Vec<LossView>,
    damage: Vec<CaseView>,
}
