//! `gapless log dump`: the records of a log, in order, each position shown or named.
//!
//! The files are read twice: what later frames say about earlier ones must be known before the first record is shown.
//!
//! Must not know: how a line looks.

mod gaps;
mod printer;

use std::io::Write;
use std::ops::ControlFlow;

use anyhow::Result;
use clap::CommandFactory;
use clap::error::ErrorKind;
use gapless_log::{Depth, FrameView, RecordType, RecordView, Survey};
use gapless_types::Position;

use self::gaps::{Gap, Gaps};
use self::printer::{Place, Printer, Standing};
use super::aftermath::Aftermath;
use super::survey;
use super::trouble::shell_word;
use crate::cli::{Cli, DumpArguments, DumpForm};
use crate::output::positions;
use crate::refusal::{Refusal, note};

/// Runs the command.
pub(crate) fn run(arguments: &DumpArguments, out: &mut dyn Write) -> Result<()> {
    if arguments.frames && arguments.output == DumpForm::Raw {
        let conflict = "--frames shows more than payloads, and --output raw writes nothing else";
        Cli::command().error(ErrorKind::ArgumentConflict, conflict).exit();
    }
    let dir = &arguments.dir;
    let mut aftermath = Aftermath::default();
    let (log, found) = survey(dir, Depth::EveryFrame, &mut |frame| aftermath.observe(frame))?;
    let from = start(arguments, &found)?;
    let gaps = Gaps::find(dir, log, &found, &aftermath, from)?;
    let mut dump = Dump {
        printer: Printer::new(arguments.output, arguments.frames, found.next, out),
        aftermath,
        gaps,
        first: found.first,
        from,
        everything: arguments.frames,
        left: arguments.limit.unwrap_or(u64::MAX),
        unreadable: Vec::new(),
    };
    dump.printer.begin()?;
    let mut failed = None;
    survey(dir, Depth::EveryFrame, &mut |frame| {
        if failed.is_none() && dump.left > 0 {
            failed = dump.frame(frame).err();
        }
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    dump.finish()?;
    match &dump.unreadable[..] {
        [] => Ok(()),
        unreadable => Err(Refusal::new(
            format!("{} cannot be read", positions(unreadable)),
            format!("gapless log verify {} says why, and what to do", shell_word(dir)),
        )
        .into()),
    }
}

/// Where to begin.
fn start(arguments: &DumpArguments, survey: &Survey) -> Result<Position> {
    let Some(from) = arguments.from.map(Position::new) else {
        return Ok(if arguments.frames { Position::new(0) } else { survey.first });
    };
    if from > survey.next {
        return Err(Refusal::new(
            format!("position {from} is not written yet"),
            format!("the next one will be {}; begin there or before", survey.next),
        )
        .into());
    }
    if from < survey.first && !arguments.frames {
        note(format_args!("positions below {} are released; beginning there", survey.first));
        return Ok(survey.first);
    }
    Ok(from)
}

/// Which records are shown.
struct Dump<'a> {
    printer: Printer<'a>,
    aftermath: Aftermath,
    gaps: Gaps,
    /// First position that is kept.
    first: Position,
    /// First position that is wanted.
    from: Position,
    /// Also frames, the log's own records and what no longer counts.
    everything: bool,
    /// How many more records to show.
    left: u64,
    /// Positions that should be there and cannot be shown.
    unreadable: Vec<std::ops::Range<Position>>,
}

impl Dump<'_> {
    fn frame(&mut self, frame: &FrameView<'_>) -> Result<()> {
        if !self.everything {
            return self.records(frame);
        }
        let holds_wanted =
            |record: RecordView| record.kind == RecordType::Data && record.position >= self.from;
        if frame.first_position >= self.from || frame.records().any(holds_wanted) {
            self.printer.frame(frame)?;
            self.records(frame)?;
        }
        Ok(())
    }

    fn records(&mut self, frame: &FrameView<'_>) -> Result<()> {
        let place = Place { frame: frame.number.get(), segment: frame.segment.get() };
        for record in frame.records() {
            let standing = self.standing(place.frame, &record);
            let counts = matches!(standing, Standing::Counts);
            let wanted = self.everything || (counts && record.position >= self.from);
            if !wanted {
                continue;
            }
            if counts && record.kind == RecordType::Data {
                self.gaps_before(record.position)?;
            }
            if self.left == 0 {
                break;
            }
            self.printer.record(place, &record, standing)?;
            self.left -= 1;
        }
        Ok(())
    }

    fn standing(&self, frame: u64, record: &RecordView) -> Standing {
        match record.kind {
            RecordType::Data | RecordType::Repair if self.aftermath.voids(frame, record.position) => {
                Standing::Void
            }
            RecordType::Data | RecordType::Repair if record.position < self.first => Standing::Released,
            RecordType::Data | RecordType::Repair => Standing::Counts,
            _ => Standing::OfTheLog,
        }
    }

    /// Names or shows what lies before a position and is in no good frame.
    fn gaps_before(&mut self, position: Position) -> Result<()> {
        while let Some(gap) = self.gaps.next_before(position) {
            if self.show(gap)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn show(&mut self, gap: Gap) -> Result<ControlFlow<()>> {
        if self.left == 0 {
            return Ok(ControlFlow::Break(()));
        }
        match gap {
            Gap::Unreadable(range, why) => {
                self.printer.gap("unreadable", &range, &why)?;
                self.unreadable.push(range);
            }
            Gap::Accepted(range) => self.printer.gap("lost", &range, "and the loss was accepted")?,
            Gap::Rescued(place, record) => {
                self.printer.record(place, &record, Standing::Rescued)?;
                self.left -= 1;
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn finish(&mut self) -> Result<()> {
        self.gaps_before(Position::MAX)
    }
}
