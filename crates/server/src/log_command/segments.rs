//! The segments of a log as a table and as JSON.
//!
//! Must not know: frames, damage.

use std::fs;
use std::path::Path;

use comfy_table::Table;
use gapless_log::format::segment_file_name;
use gapless_log::{Layout, SegmentSurvey, Survey};
use gapless_types::SegmentNumber;
use serde::Serialize;

use crate::output::{Bytes, Side, Span, table};

/// One segment file.
#[derive(Debug, Serialize)]
pub(crate) struct SegmentView {
    number: u32,
    file: String,
    state: &'static str,
    layout: Option<&'static str>,
    /// Length of the file; `null` if it cannot be measured.
    file_length: Option<u64>,
    /// Length it should have.
    capacity: Option<u32>,
    used: u32,
    first_frame: Option<u64>,
    last_frame: Option<u64>,
    first_position: Option<u64>,
    next_position: Option<u64>,
    index_ok: bool,
}

/// All segment files: those with frames, then those that are prepared.
pub(crate) fn segment_views(dir: &Path, survey: &Survey) -> Vec<SegmentView> {
    let last = survey.segments.last().map(|segment| segment.number);
    // A segment that should follow the last one says that the last one is full.
    let ends_missing = survey.missing.iter().any(|damage| Some(damage.segment) > last);
    let used = survey.segments.iter().map(|segment| {
        let active = Some(segment.number) == last && !ends_missing;
        used_view(dir, segment, if active { "active" } else { "sealed" })
    });
    used.chain(survey.prepared.iter().map(|&number| prepared_view(dir, number))).collect()
}

fn used_view(dir: &Path, segment: &SegmentSurvey, state: &'static str) -> SegmentView {
    let last_frame = segment.next_frame.checked_sub(1).filter(|&last| last >= segment.first_frame);
    SegmentView {
        state,
        layout: Some(layout_name(segment.layout)),
        capacity: Some(segment.capacity),
        used: segment.end_offset,
        first_frame: Some(segment.first_frame),
        last_frame,
        first_position: Some(segment.first_position.get()),
        next_position: Some(segment.next_position.get()),
        index_ok: segment.indexed,
        ..prepared_view(dir, segment.number)
    }
}

fn prepared_view(dir: &Path, number: SegmentNumber) -> SegmentView {
    let file = segment_file_name(number);
    SegmentView {
        number: number.get(),
        state: "prepared",
        layout: None,
        file_length: fs::metadata(dir.join(&file)).ok().map(|found| found.len()),
        file,
        capacity: None,
        used: 0,
        first_frame: None,
        last_frame: None,
        first_position: None,
        next_position: None,
        index_ok: false,
    }
}

fn layout_name(layout: Layout) -> &'static str {
    match layout {
        Layout::Aligned => "aligned",
        Layout::Packed => "packed",
    }
}

/// The segments as a table.
pub(crate) fn segments_table(views: &[SegmentView]) -> Table {
    let mut table = table([
        ("segment", Side::Right),
        ("state", Side::Left),
        ("layout", Side::Left),
        ("file", Side::Right),
        ("used", Side::Right),
        ("frames", Side::Right),
        ("positions", Side::Right),
        ("index", Side::Left),
    ]);
    table.add_rows(views.iter().map(row));
    table
}

fn row(view: &SegmentView) -> [String; 8] {
    let none = || "-".to_owned();
    let frames = view.first_frame.zip(view.last_frame).map(|(first, last)| Span(first..last + 1));
    let positions = view.first_position.zip(view.next_position).map(|(first, next)| match first > next {
        // A truncation in it reached back into the segments before.
        true => format!("to {}", next.saturating_sub(1)),
        false => Span(first..next).to_string(),
    });
    let length = match (view.file_length, view.capacity) {
        (Some(length), Some(capacity)) if length != u64::from(capacity) => {
            format!("{} of {}", Bytes(length), Bytes(u64::from(capacity)))
        }
        (Some(length), _) => Bytes(length).to_string(),
        (None, _) => none(),
    };
    [
        view.number.to_string(),
        view.state.to_owned(),
        view.layout.map_or_else(none, str::to_owned),
        length,
        if view.layout.is_some() { Bytes(u64::from(view.used)).to_string() } else { none() },
        frames.map_or_else(none, |span| span.to_string()),
        positions.unwrap_or_else(none),
        if view.index_ok { "ok".to_owned() } else { none() },
    ]
}
