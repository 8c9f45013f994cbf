//! Damage as a case for people and programs: where it is, what it takes away, what it means, what to do next.
//!
//! Must not know: how damage is found.

use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

use gapless_log::{Damage, Finding, Survey};
use gapless_types::Position;
use serde::Serialize;

use super::aftermath::Aftermath;
use super::trouble::shell_word;
use crate::output::{counted, numbered, positions};

/// One damage.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) damage: Damage,
    /// Positions that are wanted and cannot be read.
    pub(crate) unreadable: Vec<Range<Position>>,
    /// Someone must act.
    pub(crate) threatens: bool,
}

/// All damage of a survey, missing segments first. `aftermath` is what all frames tell, if all were read.
pub(crate) fn cases(survey: &Survey, aftermath: Option<&Aftermath>) -> Vec<Case> {
    let found = survey.damage.iter().map(|damage| {
        let unreadable = match aftermath {
            Some(aftermath) => aftermath.still_wanted(damage, &survey.losses),
            None => damage.positions.clone(),
        };
        let settled = unreadable.is_empty() && !damage.positions.is_empty();
        let threatens = damage.finding.threatens_records() && !settled;
        Case { damage: damage.clone(), unreadable, threatens }
    });
    missing_cases(survey).into_iter().chain(found).collect()
}

/// What keeps a log from opening. Of segments that are missing next to each other, the first names the positions of all.
pub(crate) fn missing_cases(survey: &Survey) -> Vec<Case> {
    let case = |damage: &Damage| Case {
        damage: damage.clone(),
        unreadable: damage.positions.clone(),
        threatens: true,
    };
    survey.missing.iter().map(case).collect()
}

impl Case {
    /// What it is and where, on one line.
    pub(crate) fn headline(&self) -> String {
        let Damage { finding, segment, bytes, frames, .. } = &self.damage;
        let mut line = match finding {
            Finding::MissingSegment => format!("missing {}", numbered("segment", self.segments())),
            _ => format!("{finding} in segment {segment}"),
        };
        if !bytes.is_empty() {
            line += ", ";
            line += &numbered("byte", u64::from(bytes.start)..u64::from(bytes.end));
        }
        if !frames.is_empty() {
            line += ", ";
            line += &numbered("frame", frames.clone());
        }
        line
    }

    /// The segments it concerns.
    pub(crate) fn segments(&self) -> Range<u64> {
        u64::from(self.damage.segment.get())..u64::from(self.damage.last_segment.get()) + 1
    }

    /// What it takes away.
    pub(crate) fn effect(&self) -> String {
        let lost = match (&self.unreadable[..], self.damage.finding) {
            ([], Finding::MissingSegment | Finding::WrongLength) if self.damage.positions.is_empty() => {
                "which positions it held is not known".to_owned()
            }
            ([], _) if !self.damage.positions.is_empty() => {
                format!("{}: restored, truncated or given up since", positions(&self.damage.positions))
            }
            ([], _) => "no position is unreadable".to_owned(),
            (unreadable, _) => format!("{} cannot be read", positions(unreadable)),
        };
        match self.damage.rescued {
            0 => lost,
            rescued => format!("{lost}; {} of it rescued", counted(rescued, "record")),
        }
    }

    /// What it means.
    pub(crate) fn meaning(&self) -> &'static str {
        match self.damage.finding {
            Finding::TornTail => "the last write is incomplete, and nothing says that it was acknowledged",
            Finding::CorruptFrame => "bytes that were on stable storage have changed",
            Finding::LostWrite => "a frame that was on stable storage is not where it was written",
            Finding::BrokenChain => "a frame is not the one that the next was written behind",
            Finding::MissingSegment => "a file is gone, and the log does not open without it",
            Finding::WrongLength => "a file was cut or grew, and the log does not open with it",
            Finding::BadFooter => "the index of a segment is bad; its frames are scanned instead",
            Finding::BadHeader => "a copy of a segment's header is bad; what it said is known from elsewhere",
            Finding::BadRecord => "a record did not match its checksum when it was read",
        }
    }

    /// What to do next.
    pub(crate) fn next_step(&self, dir: &Path) -> String {
        match self.damage.finding {
            Finding::TornTail => {
                "nothing: the next opening drops it. Is a process writing right now? Then look \
                                  again when it has stopped"
                    .to_owned()
            }
            Finding::BadFooter | Finding::BadHeader => "nothing: the next opening heals it".to_owned(),
            Finding::MissingSegment | Finding::WrongLength => format!(
                "put the file back from another node or a backup; if there is no copy: gapless log accept-loss {}",
                shell_word(dir)
            ),
            _ if !self.threatens => "nothing".to_owned(),
            _ if self.unreadable.is_empty() => {
                "look at the disk: no record of yours is lost, but it changes what it was given".to_owned()
            }
            _ => "restore these positions from another node or a backup; until then reading them fails"
                .to_owned(),
        }
    }

    /// Writes it as a paragraph.
    pub(crate) fn write(&self, dir: &Path, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "  {}", self.headline())?;
        writeln!(out, "    effect  {}", self.effect())?;
        writeln!(out, "    means   {}", self.meaning())?;
        writeln!(out, "    next    {}", self.next_step(dir))
    }
}

/// A damage as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct CaseView {
    finding: String,
    threatens_records: bool,
    segment: u32,
    last_segment: u32,
    bytes: BytesView,
    frames: Option<RangeView>,
    unreadable: Vec<RangeView>,
    rescued: u64,
    means: &'static str,
    next_step: String,
}

/// A half-open range of bytes as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct BytesView {
    start: u32,
    end: u32,
}

/// A half-open range of positions or frames as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct RangeView {
    pub(crate) first: u64,
    pub(crate) next: u64,
}

impl RangeView {
    pub(crate) fn of(range: &Range<Position>) -> Self {
        Self { first: range.start.get(), next: range.end.get() }
    }
}

/// Cases as JSON.
pub(crate) fn case_views(cases: &[Case], dir: &Path) -> Vec<CaseView> {
    let view = |case: &Case| {
        let Damage { finding, segment, bytes, frames, rescued, .. } = &case.damage;
        CaseView {
            finding: finding.to_string().replace(' ', "_"),
            threatens_records: case.threatens,
            segment: segment.get(),
            last_segment: case.damage.last_segment.get(),
            bytes: BytesView { start: bytes.start, end: bytes.end },
            frames: (!frames.is_empty()).then_some(RangeView { first: frames.start, next: frames.end }),
            unreadable: case.unreadable.iter().map(RangeView::of).collect(),
            rescued: *rescued,
            means: case.meaning(),
            next_step: case.next_step(dir),
        }
    };
    cases.iter().map(view).collect()
}
