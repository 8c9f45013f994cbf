//! Positions that no good frame holds: unreadable, lost with consent, or rescued out of a damaged frame.
//!
//! Must not know: how they are shown.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result};
use gapless_log::format::record::{RawRecord, Stored, unpack};
use gapless_log::format::{RECORD_ALIGNMENT, segment_file_name};
use gapless_log::{Damage, LogId, RecordType, RecordView, Survey};
use gapless_types::Position;

use super::printer::Place;
use crate::log_command::aftermath::Aftermath;
use crate::log_command::case::cases;

/// What stands where no good frame does.
#[derive(Debug)]
pub(super) enum Gap {
    /// It should be there and cannot be read, for this reason.
    Unreadable(Range<Position>, String),
    /// It is gone, and an operator accepted that.
    Accepted(Range<Position>),
    /// A good record of a bad frame: readers get it.
    Rescued(Place, RecordView),
}

/// All gaps that have not been shown yet, in order.
#[derive(Debug, Default)]
pub(super) struct Gaps(BTreeMap<Position, Gap>);

impl Gaps {
    /// The gaps of a log from a position on.
    pub(super) fn find(
        dir: &Path,
        log: LogId,
        survey: &Survey,
        aftermath: &Aftermath,
        from: Position,
    ) -> Result<Self> {
        let mut gaps = Self::default();
        let wanted_from = from.max(survey.first);
        let clip = |range: &Range<Position>| range.start.max(wanted_from)..range.end;
        for loss in &survey.losses {
            let range = clip(&(loss.first..loss.end));
            gaps.insert(range.clone(), Gap::Accepted(range));
        }
        for case in cases(survey, Some(aftermath)) {
            for range in case.unreadable.iter().map(clip) {
                gaps.insert(range.clone(), Gap::Unreadable(range, case.headline()));
            }
        }
        for damage in survey.damage.iter().filter(|damage| damage.rescued > 0) {
            for record in rescued(dir, log, damage)? {
                let at = record.position;
                let place = Place { frame: damage.frames.start, segment: damage.segment.get() };
                if at >= wanted_from && !aftermath.voids(damage.frames.end.saturating_sub(1), at) {
                    gaps.insert(at..Position::MAX, Gap::Rescued(place, record));
                }
            }
        }
        Ok(gaps)
    }

    fn insert(&mut self, range: Range<Position>, gap: Gap) {
        if range.start < range.end {
            self.0.insert(range.start, gap);
        }
    }

    /// Takes the next one that begins before a position.
    pub(super) fn next_before(&mut self, position: Position) -> Option<Gap> {
        let entry = self.0.first_entry()?;
        (*entry.key() < position).then(|| entry.remove())
    }
}

/// The good records among the bytes of a damaged frame, found as opening the log finds them: they ascend, and none of
/// them has a position that is counted as unreadable.
fn rescued(dir: &Path, log: LogId, damage: &Damage) -> Result<Vec<RecordView>> {
    let path = dir.join(segment_file_name(damage.segment));
    let mut bytes = vec![0; damage.bytes.len()];
    let read =
        File::open(&path).and_then(|file| file.read_exact_at(&mut bytes, u64::from(damage.bytes.start)));
    read.with_context(|| format!("cannot read {}", path.display()))?;

    let mut found: Vec<RecordView> = Vec::new();
    let mut at = 0;
    while at < bytes.len() && (found.len() as u64) < damage.rescued {
        match RawRecord::decode(log.salt(), &bytes[at..]) {
            Ok((record, taken)) => {
                let ascends = found.last().is_none_or(|last| last.position < record.position);
                let readable = !damage.positions.iter().any(|range| range.contains(&record.position));
                if record.kind == RecordType::Data && ascends && readable {
                    found.push(view(&record));
                }
                at += taken;
            }
            Err(_) => at += RECORD_ALIGNMENT,
        }
    }
    Ok(found)
}

fn view(record: &RawRecord<'_>) -> RecordView {
    let (stored, compressed, payload) = match record.payload {
        Stored::Plain(stored) => (stored, false, Some(stored.to_vec())),
        Stored::Compressed(stored, length) => (stored, true, unpack(stored, length)),
    };
    RecordView {
        kind: record.kind,
        position: record.position,
        stored_length: u32::try_from(stored.len()).unwrap_or(u32::MAX),
        compressed,
        payload: payload.map(Into::into),
    }
}
