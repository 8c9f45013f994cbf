//! Folds the segments of a log into one picture: what it holds, and what is wrong with it.
//!
//! Reads footers, and the frames of the last segment; segments without a good footer are scanned. Changes nothing: what
//! follows from the findings is done by whoever opens the log for writing.
//!
//! Must not know: threads, appending.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use gapless_types::{Position, SegmentNumber};

use crate::damage::{Damage, Finding};
use crate::error::OpenError;
use crate::format::control::{Loss, Suspect};
use crate::format::footer::{Footer, TRAILER_BYTES, TRAILER_LENGTH};
use crate::format::segment::SegmentHeader;
use crate::format::{Geometry, LogId, SEGMENT_HEADER_BYTES, Salt, segment_file_name};
use crate::index::{Override, SegmentIndex, truncate_ranges};
use crate::inventory::{UsedSegment, io_error};
use crate::io::{File, read_up_to};
use crate::scan::{Ending, GoodFrame, Scan, ScanError, Witness};
use crate::segment_state::{Controls, SegmentState};

/// One segment after recovery.
#[derive(Debug)]
pub(crate) struct RecoveredSegment {
    pub(crate) number: SegmentNumber,
    pub(crate) geometry: Geometry,
    pub(crate) file: Arc<dyn File>,
    /// Runs of positions that lie in it, truncations in later segments not considered.
    pub(crate) state: SegmentState,
    /// Its good and sealed footer covers all of it and was relied upon.
    pub(crate) indexed: bool,
    /// It has a good footer that covers all of it, sealed or not.
    pub(crate) footer_covers_all: bool,
}

/// What a log holds.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) log: LogId,
    pub(crate) segments: Vec<RecoveredSegment>,
    pub(crate) controls: Controls,
    pub(crate) next_position: Position,
    pub(crate) runs: Vec<(Range<Position>, SegmentNumber)>,
    pub(crate) overrides: BTreeMap<Position, (SegmentNumber, Override)>,
    pub(crate) holes: Vec<(Range<Position>, SegmentNumber)>,
    pub(crate) damage: Vec<Damage>,
    pub(crate) missing: Vec<Damage>,
    /// Headers of which not both copies are good, as they should be.
    pub(crate) damaged_headers: Vec<SegmentHeader>,
    pub(crate) state_in_doubt: bool,
    pub(crate) bytes_read: u64,
    pub(crate) frames_scanned: u64,
}

/// Folds all segments into one picture.
pub(crate) struct Recovery<'a> {
    dir: &'a Path,
    salt: Salt,
    recovered: Recovered,
    on_frame: &'a mut dyn FnMut(&GoodFrame<'_>),
    /// Scan every frame, whatever the footers say.
    thorough: bool,
}

impl<'a> Recovery<'a> {
    pub(crate) fn new(
        dir: &'a Path,
        log: LogId,
        first_position: Position,
        thorough: bool,
        on_frame: &'a mut dyn FnMut(&GoodFrame<'_>),
    ) -> Self {
        let recovered = Recovered {
            log,
            segments: Vec::new(),
            controls: Controls::new(first_position),
            next_position: first_position,
            runs: Vec::new(),
            overrides: BTreeMap::new(),
            holes: Vec::new(),
            damage: Vec::new(),
            missing: Vec::new(),
            damaged_headers: Vec::new(),
            state_in_doubt: false,
            bytes_read: 0,
            frames_scanned: 0,
        };
        Self { dir, salt: log.salt(), recovered, on_frame, thorough }
    }

    pub(crate) fn run(mut self, used: Vec<UsedSegment>) -> Result<Recovered, OpenError> {
        if let Some(first) = used.first() {
            // A log whose first segment is there starts where that says, not where the options would start a new one.
            if first.header.number == SegmentNumber::FIRST {
                self.recovered.controls.first = first.header.first_position;
            }
            self.recovered.next_position = first.header.first_position;
        }
        let headers: Vec<SegmentHeader> = used.iter().map(|segment| segment.header).collect();
        let headless: Vec<bool> = used.iter().map(|segment| segment.headless).collect();
        for (at, mut segment) in used.into_iter().enumerate() {
            if segment.headless {
                self.find_beginning(&mut segment.header);
            }
            let successor = headers.get(at + 1).filter(|next| {
                Some(next.number) == segment.header.number.next() && headless.get(at + 1) == Some(&false)
            });
            let is_last = at + 1 == headers.len();
            self.note_gap_before(at, &headers);
            self.take(segment, successor.copied(), is_last)?;
        }
        self.finish(&headers);
        Ok(self.recovered)
    }

    /// A segment without a header goes on where the one before it ends. If something of that one is lost too, it is missed
    /// here: nothing is dropped without a word.
    fn find_beginning(&self, header: &mut SegmentHeader) {
        let Some(before) = self.recovered.segments.last().map(|segment| &segment.state) else { return };
        header.first_frame = before.next_frame;
        header.previous_checksum = before.last_checksum;
        header.first_position = before.next_position;
        header.truncations = before.truncations;
        header.lowest_truncated = before.lowest_for_next_segment();
    }

    /// Segments that should stand between two that are there.
    fn note_gap_before(&mut self, at: usize, headers: &[SegmentHeader]) {
        let next = &headers[at];
        let Some(before) = at.checked_sub(1).map(|index| &headers[index]) else { return };
        let first = before.number.next().filter(|&number| number < next.number);
        let (Some(first), Some(last)) = (first, next.number.previous()) else { return };
        let before = self.recovered.segments.last().map(|segment| &segment.state);
        if before.is_some_and(|state| state.truncations != next.truncations) {
            // A header knows of truncations in the two segments before it. What was cut off in others that are missing may
            // reach back to the beginning, and void records must not come back.
            let known = last.get() - first.get() < 2;
            let lowest = next.lowest_truncated.filter(|_| known).unwrap_or(self.recovered.controls.first);
            self.truncate(lowest);
        }
        let positions = self.recovered.next_position..next.first_position;
        self.recovered.missing.push(Damage::missing(first..=last, positions));
    }

    fn take(
        &mut self,
        segment: UsedSegment,
        successor: Option<SegmentHeader>,
        is_last: bool,
    ) -> Result<(), OpenError> {
        let UsedSegment { header, file, length, header_copies, headless } = segment;
        let number = header.number;
        if header_copies < 2 {
            self.recovered.damaged_headers.push(header);
            self.recovered.damage.push(Damage::at(Finding::BadHeader, number, 0..SEGMENT_HEADER_BYTES));
        }
        let short = length != u64::from(header.geometry.capacity);
        let footer = if short { None } else { self.load_footer(&header, &*file)? };
        let sealed = footer.as_ref().is_some_and(|footer| footer.sealed);
        let footer_end = footer.as_ref().map(|footer| footer.end_offset);
        let certificate = footer.as_ref().map(|footer| (Witness::footer(footer), footer.controls.clone()));
        // It certifies the frames of a segment that lost its header and its first frame, but it does not tell what is missing.
        let footer = footer.filter(|_| !headless);
        let mut start = self.starting_state(&header, footer);
        let before = self.recovered.segments.last().filter(|before| before.number.next() == Some(number));
        if let Some(before) = before {
            start.0.lowest_before = before.state.lowest_truncated;
        }
        let indexed_up_to = (!self.thorough && start.1).then_some(start.0.offset);
        let mut frames = 0;
        let on_frame = &mut *self.on_frame;
        let mut scan = Scan::new(&*file, self.salt, start.0, successor, length);
        if let Some((witness, controls)) = certificate {
            scan.certify(witness, controls);
        }
        let scanned = scan
            .run(&mut self.recovered.controls, &mut |frame| {
                frames += 1;
                on_frame(frame);
            })
            .map_err(|error| match error {
                ScanError::Io(source) => io_error("read", &self.dir.join(segment_file_name(number)), source),
                ScanError::UnknownRecord(offset) => OpenError::UnknownRecord { segment: number, offset },
            })?;
        self.recovered.bytes_read += scanned.bytes_read;
        self.recovered.frames_scanned += frames;
        let state = scanned.state;
        if short {
            self.note_wrong_length(&state, length);
        }
        if is_last && sealed {
            self.note_missing_end(&state);
        }
        if is_last && scanned.ending == Ending::Torn {
            // One that was lost earlier and not passed again may have reached further.
            let earlier = self.recovered.controls.suspect.map(|earlier| earlier.first_position);
            self.recovered.controls.suspect = Some(Suspect {
                first_position: earlier
                    .map_or(state.next_position, |earlier| earlier.max(state.next_position)),
                segment: number,
                offset: state.offset,
                frame: state.next_frame,
            });
        }
        self.recovered.damage.extend(scanned.damage);
        self.fold(&header, &state);
        let indexed = indexed_up_to == Some(state.offset) && sealed;
        let mut state = state;
        if indexed && !is_last {
            // Its footer has it; memory stays bounded however many segments there are.
            state.index = SegmentIndex::default();
        }
        let footer_covers_all = footer_end == Some(state.offset) && !headless;
        self.recovered.segments.push(RecoveredSegment {
            number,
            geometry: header.geometry,
            file,
            state,
            indexed,
            footer_covers_all,
        });
        Ok(())
    }

    /// Where a scan starts, and whether that is behind what a footer covers.
    fn starting_state(&mut self, header: &SegmentHeader, footer: Option<Footer>) -> (SegmentState, bool) {
        let Some(footer) = footer.filter(|_| !self.thorough) else {
            return (SegmentState::new(header), false);
        };
        let mut controls = self.recovered.controls.clone();
        let understood = controls.apply_encoded(self.salt, &footer.controls);
        match SegmentState::from_footer(header, footer).filter(|_| understood) {
            Some(state) => {
                self.recovered.controls = controls;
                (state, true)
            }
            None => (SegmentState::new(header), false),
        }
    }

    /// A good footer; one that is there and bad is damage, one that is not there is not.
    fn load_footer(&mut self, header: &SegmentHeader, file: &dyn File) -> Result<Option<Footer>, OpenError> {
        let failed = |source| io_error("read", &self.dir.join(segment_file_name(header.number)), source);
        let loaded = read_footer(self.salt, header.geometry, header.number, file).map_err(failed)?;
        self.recovered.bytes_read += loaded.bytes_read + u64::from(SEGMENT_HEADER_BYTES);
        if loaded.bad {
            let geometry = header.geometry;
            self.recovered.damage.push(Damage::at(
                Finding::BadFooter,
                header.number,
                geometry.content_end()..geometry.capacity,
            ));
        }
        Ok(loaded.footer)
    }

    fn note_wrong_length(&mut self, state: &SegmentState, length: u64) {
        let bytes = u32::try_from(length).unwrap_or(u32::MAX)..state.geometry.capacity;
        let positions = state.index.holes.clone();
        self.recovered
            .missing
            .push(Damage { positions, ..Damage::at(Finding::WrongLength, state.number, bytes) });
    }

    /// A sealed segment says that there is a next one.
    fn note_missing_end(&mut self, state: &SegmentState) {
        let Some(next) = state.number.next() else { return };
        self.recovered.missing.push(Damage::missing(next..=next, state.next_position..state.next_position));
    }

    /// Takes a segment's positions into the picture; its truncations reach into the segments before.
    fn fold(&mut self, header: &SegmentHeader, state: &SegmentState) {
        if let Some(lowest) = state.lowest_truncated {
            self.truncate(lowest);
        }
        if header.first_position < self.recovered.next_position {
            // No truncation says so, and still it begins there: what it holds counts, once.
            self.truncate(header.first_position);
        }
        let number = state.number;
        let low =
            state.lowest_truncated.map_or(header.first_position, |lowest| lowest.min(header.first_position));
        let recovered = &mut self.recovered;
        for run in state.index.runs() {
            if run.end > low {
                recovered.runs.push((run.start.max(low)..run.end, number));
            }
        }
        recovered
            .overrides
            .extend(state.index.overrides.iter().map(|entry| (entry.position, (number, *entry))));
        recovered.holes.extend(state.index.holes.iter().map(|hole| (hole.clone(), number)));
        recovered.next_position = state.next_position;
        recovered.state_in_doubt = match state.offset > Geometry::CONTENT_START {
            true => state.state_in_doubt,
            false => recovered.state_in_doubt,
        };
    }

    fn truncate(&mut self, from: Position) {
        let recovered = &mut self.recovered;
        recovered.runs.retain_mut(|(run, _)| {
            run.end = run.end.min(from);
            run.start < run.end
        });
        recovered.overrides.retain(|&position, _| position < from);
        recovered.holes.retain_mut(|(hole, _)| {
            let mut ranges = vec![hole.clone()];
            truncate_ranges(&mut ranges, from);
            ranges.pop().map(|kept| *hole = kept).is_some()
        });
        recovered.next_position = recovered.next_position.min(from);
    }

    /// Drops what was released, and notes what should be there in front of the first segment and is not.
    fn finish(&mut self, headers: &[SegmentHeader]) {
        let recovered = &mut self.recovered;
        let (first, first_segment) = (recovered.controls.first, recovered.controls.first_segment);
        let oldest = headers.first().filter(|oldest| first_segment < oldest.number);
        if let Some((oldest, last)) = oldest.and_then(|oldest| Some((oldest, oldest.number.previous()?))) {
            recovered.missing.push(Damage::missing(first_segment..=last, first..oldest.first_position));
        }
        recovered.missing = recovered
            .missing
            .drain(..)
            .filter(|damage| damage.last_segment >= first_segment)
            .map(|damage| Damage { segment: damage.segment.max(first_segment), ..damage })
            .flat_map(|damage| recovered.controls.not_accepted(damage))
            .collect();
        recovered.next_position = recovered.next_position.max(first);
        recovered.runs.retain(|(run, _)| run.end > first);
        recovered.overrides.retain(|&position, _| position >= first);
        recovered.holes.retain(|(hole, _)| hole.end > first);
        recovered.damage.retain(|damage| {
            let released = damage.segment < first_segment
                || (!damage.positions.is_empty() && damage.positions.iter().all(|range| range.end <= first));
            !released
        });
    }
}

/// The losses that an operator accepts by opening a log although these are missing.
pub(crate) fn losses(missing: &[Damage], next: Position) -> Vec<Loss> {
    let nothing = [next..next];
    let of_one = |damage: &Damage| {
        let ranges = if damage.positions.is_empty() { &nothing[..] } else { &damage.positions };
        let loss = |range: &Range<Position>| Loss {
            first: range.start,
            end: range.end,
            first_segment: damage.segment,
            last_segment: damage.last_segment,
        };
        ranges.iter().map(loss).collect::<Vec<_>>()
    };
    missing.iter().flat_map(of_one).collect()
}

/// A footer as it was found.
#[derive(Debug)]
pub(crate) struct LoadedFooter {
    pub(crate) footer: Option<Footer>,
    /// There is something, and it is not a good footer.
    pub(crate) bad: bool,
    pub(crate) bytes_read: u64,
}

/// Reads the footer of a segment.
pub(crate) fn read_footer(
    salt: Salt,
    geometry: Geometry,
    number: SegmentNumber,
    file: &dyn File,
) -> io::Result<LoadedFooter> {
    let mut trailer = [0; TRAILER_BYTES];
    let trailer_at = u64::from(geometry.capacity) - TRAILER_BYTES as u64;
    let mut bytes_read = read_up_to(file, &mut trailer, trailer_at)? as u64;
    let room = geometry.capacity - geometry.content_end();
    let length = Footer::index_bytes(&trailer, number).filter(|&length| length + TRAILER_LENGTH <= room);
    let Some(length) = length else {
        let bad = trailer.iter().any(|&byte| byte != 0);
        return Ok(LoadedFooter { footer: None, bad, bytes_read });
    };
    let mut index = vec![0; length as usize];
    bytes_read += read_up_to(file, &mut index, trailer_at - u64::from(length))? as u64;
    // It must not speak of frames where none can be.
    let fits = |footer: &Footer| {
        footer.end_offset <= geometry.content_end()
            && footer.end_offset.is_multiple_of(geometry.layout.alignment())
    };
    let footer = Footer::decode(salt, &index, &trailer).filter(fits);
    Ok(LoadedFooter { bad: footer.is_none(), footer, bytes_read })
}
