//! Reads every frame of a log without taking a damaged end for a torn one.
//!
//! Read without its footer, a log whose last frame rotted looks like one whose last write was cut off. The footer that a
//! clean close leaves is written only after every frame it covers is durable: where a good one covers more than the frames
//! give, the rest was acknowledged, and is damaged.
//!
//! Must not know: how anything is shown.

use std::path::Path;

use anyhow::Result;
use gapless_log::{Damage, Depth, Finding, FrameView, LogId, SegmentSurvey, Survey};

use super::survey;

/// Looks at every frame. `outline` is what opening finds, which relies on footers.
pub(crate) fn survey_every_frame(
    dir: &Path,
    outline: &Survey,
    on_frame: &mut dyn FnMut(&FrameView<'_>),
) -> Result<(LogId, Survey)> {
    let (log, survey) = survey(dir, Depth::EveryFrame, on_frame)?;
    Ok((log, corrected(outline, survey)))
}

/// The segment whose footer covers more than its frames give, and which damage says that its end is torn.
fn corrupt_end<'a>(outline: &'a Survey, survey: &Survey) -> Option<(&'a SegmentSurvey, usize)> {
    let torn = |survey: &Survey| survey.damage.iter().position(|it| it.finding == Finding::TornTail);
    let (covered, read) = (outline.segments.last()?, survey.segments.last()?);
    let certified = covered.number == read.number && covered.end_offset > read.end_offset;
    torn(survey).filter(|_| certified && torn(outline).is_none()).map(|at| (covered, at))
}

/// The survey, with a certified end that is bad called corrupt.
fn corrected(outline: &Survey, mut survey: Survey) -> Survey {
    let Some((covered, at)) = corrupt_end(outline, &survey) else { return survey };
    let torn = survey.damage.remove(at);
    let lost = survey.next..outline.next;
    survey.damage.push(Damage {
        finding: Finding::CorruptFrame,
        bytes: torn.bytes.start..covered.end_offset,
        frames: torn.frames.start..covered.next_frame,
        positions: if lost.is_empty() { Vec::new() } else { vec![lost] },
        ..torn
    });
    // The footer also knows what the lost frames said about the log itself.
    let Survey { damage, bytes_read, frames_scanned, .. } = survey;
    Survey { damage, bytes_read, frames_scanned, ..outline.clone() }
}
