//! What a reader gets out of the files of a log, as text: every frame, then every position, then the log's own records.

use std::fmt::Write as _;
use std::path::Path;

use gapless_log::io::memory::MemoryIo;
use gapless_log::{Damage, Depth, FrameView, Log, ReadError, RecordType, RecordView, Survey, inspect};
use gapless_types::Position;

use crate::dump::DIRECTORY;

/// All of it, in the words of the `.txt` files next to the golden files.
pub(crate) fn of(io: &MemoryIo, log: &Log) -> String {
    let mut text = String::new();
    let mut frames = Vec::new();
    let survey = survey(io, Depth::EveryFrame, &mut |frame| frames.push(frame_line(frame)));
    for segment in &survey.segments {
        writeln!(
            text,
            "segment {}: frames {}..{}, positions {}..{}, ends at {}{}",
            segment.number,
            segment.first_frame,
            segment.next_frame,
            segment.first_position,
            segment.next_position,
            segment.end_offset,
            if segment.indexed { ", indexed" } else { "" }
        )
        .unwrap();
        let prefix = format!("  {}/", segment.number);
        frames.iter().filter(|line| line.starts_with(&prefix)).for_each(|line| text.push_str(line));
    }
    for number in &survey.prepared {
        writeln!(text, "segment {number}: prepared").unwrap();
    }
    for name in &survey.leftovers {
        writeln!(text, "leftover {name}").unwrap();
    }
    for damage in survey.damage.iter().chain(&survey.missing) {
        writeln!(text, "{damage}").unwrap();
    }
    write_positions(&mut text, log);
    write_controls(&mut text, &survey);
    text
}

/// What the files say, and that opening by the footers says the same of everything that is not damaged.
fn survey(io: &MemoryIo, depth: Depth, on_frame: &mut dyn FnMut(&FrameView<'_>)) -> Survey {
    let survey = inspect(io, Path::new(DIRECTORY), depth, on_frame).unwrap();
    let quick = inspect(io, Path::new(DIRECTORY), Depth::Opening, &mut |_| {}).unwrap();
    assert_eq!((quick.first, quick.next), (survey.first, survey.next));
    assert_eq!((&quick.states, &quick.losses), (&survey.states, &survey.losses));
    assert_eq!(quick.suspect, survey.suspect);
    survey
}

fn frame_line(frame: &FrameView<'_>) -> String {
    let records: Vec<String> = frame.records().map(|record| record_text(&record)).collect();
    let records = if records.is_empty() { "nothing".to_owned() } else { records.join(", ") };
    format!(
        "  {}/{} at {}, certifies {}: {records}\n",
        frame.segment, frame.number, frame.offset, frame.certified
    )
}

fn record_text(record: &RecordView) -> String {
    let kind = match record.kind {
        RecordType::Data if record.compressed => "compressed data",
        RecordType::Data => "data",
        RecordType::State => "state",
        RecordType::Truncate => "truncate",
        RecordType::Release => "release",
        RecordType::Suspect if record.payload.as_ref().is_some_and(|payload| payload.is_empty()) => "settled",
        RecordType::Suspect => "suspect",
        RecordType::Loss => "loss",
        RecordType::Repair => "repair",
    };
    format!("{kind} {}", record.position)
}

fn write_positions(text: &mut String, log: &Log) {
    writeln!(text, "positions {}..{}", log.first(), log.next()).unwrap();
    let mut position = log.first();
    while position < log.next() {
        let found = match log.read(position) {
            Ok(record) => payload_text(&record.payload),
            Err(ReadError::Corrupt { segment, .. }) => format!("damaged in segment {segment}"),
            Err(ReadError::Lost { .. }) => "lost".to_owned(),
            Err(other) => panic!("position {position}: {other}"),
        };
        writeln!(text, "  {position} {found}").unwrap();
        position = position.next().unwrap();
    }
    for damage in log.unrepaired() {
        writeln!(text, "unrepaired: {}", ranges(&damage)).unwrap();
    }
}

fn write_controls(text: &mut String, survey: &Survey) {
    for (key, value) in &survey.states {
        writeln!(text, "state {} {}", key.0, payload_text(value)).unwrap();
    }
    if let Some(suspect) = survey.suspect {
        writeln!(
            text,
            "suspect from {}: frame {} at {} of segment {}",
            suspect.first_position, suspect.frame, suspect.offset, suspect.segment
        )
        .unwrap();
    }
    for loss in &survey.losses {
        writeln!(
            text,
            "lost {}..{} with segments {} to {}",
            loss.first, loss.end, loss.first_segment, loss.last_segment
        )
        .unwrap();
    }
}

/// Long payloads of the stories are a few characters and zeros, or one character many times.
fn payload_text(payload: &[u8]) -> String {
    if let [first, rest @ ..] = payload
        && rest.len() > 100
        && rest.iter().all(|byte| byte == first)
    {
        return format!("{:?} {} times", char::from(*first), payload.len());
    }
    let zeros = payload.iter().rev().take_while(|&&byte| byte == 0).count();
    let text = String::from_utf8(payload[..payload.len() - zeros].to_vec()).unwrap();
    if zeros == 0 { format!("{text:?}") } else { format!("{text:?} and {zeros} zeros") }
}

fn ranges(damage: &Damage) -> String {
    let range = |range: &std::ops::Range<Position>| format!("{}..{}", range.start, range.end);
    damage.positions.iter().map(range).collect::<Vec<_>>().join(", ")
}
