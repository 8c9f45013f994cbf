//! The lines of a dump: a table that flows, lines of JSON, or nothing but payloads.
//!
//! Lines are written one by one, so that a log of any length can be dumped in little memory.
//!
//! Must not know: which records are wanted.

use std::io::Write;
use std::ops::Range;

use anyhow::Result;
use gapless_log::format::control::Control;
use gapless_log::format::record::{RawRecord, Stored};
use gapless_log::{FrameView, RecordType, RecordView};
use gapless_types::Position;
use serde::Serialize;

use crate::cli::DumpForm;
use crate::log_command::payload::{Payload, digits};
use crate::output::{Span, columns, counted, heading, write_json_line};

/// Where a record lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) frame: u64,
    pub(super) segment: u32,
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Standing {
    /// Readers get it.
    Counts,
    /// It was truncated.
    Void,
    /// It was released.
    Released,
    /// Its frame is damaged, and it is not: readers get it.
    Rescued,
    /// No reader ever gets it: a record of the log's own.
    OfTheLog,
}

/// Writes a dump.
pub(super) struct Printer<'a> {
    form: DumpForm,
    out: &'a mut dyn Write,
    position_width: usize,
    kind_width: usize,
    columns: usize,
}

const FRAME_WIDTH: usize = 8;
const LENGTH_WIDTH: usize = 8;

impl<'a> Printer<'a> {
    /// `everything` makes room for what became of each record.
    pub(super) fn new(form: DumpForm, everything: bool, next: Position, out: &'a mut dyn Write) -> Self {
        let position_width = next.to_string().len().max("position".len());
        let kind_width = if everything { "data, released".len() } else { "rescued".len() };
        Self { form, out, position_width, kind_width, columns: columns() }
    }

    /// Writes the names of the columns.
    pub(super) fn begin(&mut self) -> Result<()> {
        if self.form == DumpForm::Table {
            let line = self.row("position", "frame", "type", "length", "payload");
            writeln!(self.out, "{}", heading(&line))?;
        }
        Ok(())
    }

    /// Writes the line in front of a frame's records.
    pub(super) fn frame(&mut self, frame: &FrameView<'_>) -> Result<()> {
        let FrameView { number, segment, offset, body_length, record_count, certified, .. } = *frame;
        match self.form {
            DumpForm::Json => write_json_line(
                self.out,
                &FrameLine {
                    kind: "frame",
                    frame: number.get(),
                    segment: segment.get(),
                    offset,
                    body_length,
                    records: record_count,
                    certified,
                },
            ),
            DumpForm::Table => {
                let records = counted(u64::from(record_count), "record");
                let durable = if certified == 0 { "none".to_owned() } else { certified.to_string() };
                let place = format!("segment {segment}, byte {offset}, {records}, {body_length} bytes");
                writeln!(self.out, "frame {number}: {place}, durable before it: {durable}")?;
                Ok(())
            }
            DumpForm::Raw => Ok(()),
        }
    }

    /// Writes a record.
    pub(super) fn record(&mut self, place: Place, record: &RecordView, standing: Standing) -> Result<()> {
        match self.form {
            DumpForm::Raw => self.out.write_all(record.payload.as_deref().unwrap_or_default())?,
            DumpForm::Json => write_json_line(self.out, &RecordLine::of(place, record, standing))?,
            DumpForm::Table => {
                let says = says(record);
                let position = match &says {
                    Some(_) => "-".to_owned(),
                    None => record.position.to_string(),
                };
                let kind = match standing {
                    Standing::Counts | Standing::OfTheLog => kind_name(record.kind).to_owned(),
                    Standing::Void => format!("{}, void", kind_name(record.kind)),
                    Standing::Released => format!("{}, released", kind_name(record.kind)),
                    Standing::Rescued => "rescued".to_owned(),
                };
                let room = self.columns.saturating_sub(self.row("", "", "", "", "").len()).max(16);
                let shown = match (&says, &record.payload) {
                    (Some(says), _) => Payload::Text(says).line(room),
                    (None, Some(payload)) => Payload::of(payload).line(room),
                    (None, None) => "cannot be decompressed".to_owned(),
                };
                let (frame, length) = (place.frame.to_string(), record.stored_length.to_string());
                let line = self.row(&position, &frame, &kind, &length, &shown);
                writeln!(self.out, "{}", line.trim_end())?;
            }
        }
        Ok(())
    }

    /// Names positions that cannot be shown.
    pub(super) fn gap(&mut self, kind: &'static str, range: &Range<Position>, why: &str) -> Result<()> {
        match self.form {
            DumpForm::Raw => Ok(()),
            DumpForm::Json => {
                let (first, next) = (range.start.get(), range.end.get());
                write_json_line(self.out, &GapLine { kind, first, next, why })
            }
            DumpForm::Table => {
                let (span, width) = (Span::of(range), self.position_width);
                writeln!(self.out, "{span:>width$}  {kind}: {why}")?;
                Ok(())
            }
        }
    }

    fn row(&self, position: &str, frame: &str, kind: &str, length: &str, payload: &str) -> String {
        let (wide, kind_wide) = (self.position_width, self.kind_width);
        format!(
            "{position:>wide$}  {frame:>FRAME_WIDTH$}  {kind:<kind_wide$}  {length:>LENGTH_WIDTH$}  {payload}"
        )
    }
}

fn kind_name(kind: RecordType) -> &'static str {
    match kind {
        RecordType::Data => "data",
        RecordType::State => "state",
        RecordType::Truncate => "truncate",
        RecordType::Release => "release",
        RecordType::Suspect => "suspect",
        RecordType::Loss => "loss",
        RecordType::Repair => "repair",
    }
}

/// What a record of the log's own says.
fn says(record: &RecordView) -> Option<String> {
    let payload = record.payload.as_deref()?;
    let raw = RawRecord { kind: record.kind, position: record.position, payload: Stored::Plain(payload) };
    Some(match Control::decode(&raw)? {
        Control::State(key, value) => {
            format!("key {} is {}", key.0, Payload::of(value).line(value.len() * 2 + 2))
        }
        Control::Truncate(from) => format!("everything from {from} on is void"),
        Control::Release(first, segment) => {
            format!("everything below {first} may go, and segments before {segment}")
        }
        Control::Suspect(suspect) => format!("a torn tail was dropped at {}", suspect.first_position),
        Control::Settled => "no dropped tail is unsettled".to_owned(),
        Control::Loss(loss) => {
            format!("the loss of {} was accepted", Span::of(&(loss.first..loss.end)))
        }
    })
}

/// A record as a line of JSON.
#[derive(Debug, Serialize)]
struct RecordLine<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    position: u64,
    frame: u64,
    segment: u32,
    stored_length: u32,
    compressed: bool,
    standing: Standing,
    #[serde(skip_serializing_if = "Option::is_none")]
    says: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
}

impl<'a> RecordLine<'a> {
    fn of(place: Place, record: &'a RecordView, standing: Standing) -> Self {
        let (text, hex) = match record.payload.as_deref().map(Payload::of) {
            Some(Payload::Text(text)) => (Some(text), None),
            Some(Payload::Binary(bytes)) => (None, Some(digits(bytes))),
            None => (None, None),
        };
        Self {
            kind: kind_name(record.kind),
            position: record.position.get(),
            frame: place.frame,
            segment: place.segment,
            stored_length: record.stored_length,
            compressed: record.compressed,
            standing,
            says: says(record),
            text,
            hex,
        }
    }
}

/// A frame as a line of JSON.
#[derive(Debug, Serialize)]
struct FrameLine {
    #[serde(rename = "type")]
    kind: &'static str,
    frame: u64,
    segment: u32,
    offset: u32,
    body_length: u32,
    records: u32,
    certified: u64,
}

/// Positions that cannot be shown, as a line of JSON.
#[derive(Debug, Serialize)]
struct GapLine<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    first: u64,
    next: u64,
    why: &'a str,
}
