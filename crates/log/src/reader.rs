//! Reading by position and by range. Neither waits for an append, and no append waits for a reader.
//!
//! Every record is checked against its checksum each time it is read. A position that is damaged is an error, never
//! skipped.
//!
//! Must not know: what waits to be written, except through the hot tail.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use gapless_types::{Position, SegmentNumber};

use crate::catalog::{OpenSegment, Place};
use crate::damage::{Damage, Finding};
use crate::error::ReadError;
use crate::format::frame::{DecodedFrame, FrameHeader};
use crate::format::record::{RecordType, records};
use crate::format::segment::{DecodedHeader, SegmentHeader};
use crate::format::{
    FRAME_HEADER_BYTES, Geometry, Layout, RECORD_ALIGNMENT, SEGMENT_HEADER_BYTES, Salt, segment_file_name,
};
use crate::index::{Extent, Override, SegmentIndex, advance};
use crate::io::{File, OpenMode, read_up_to};
use crate::record::Record;
use crate::recovery::read_footer;
use crate::scan::{Scan, ScanError};
use crate::segment_state::{Controls, SegmentState};
use crate::shared::{Shared, State};

/// Frames are read from disk in pieces of about this size.
const READ_BYTES: u32 = 1 << 20;

/// Where the next records come from.
enum Source {
    /// Memory: here they are.
    Hot(Vec<Record>),
    /// Frames of a segment.
    Extents { place: SegmentPlace, file: Arc<dyn File>, extents: Vec<Extent>, end: Position },
    /// A record of its own.
    Single { segment: SegmentNumber, entry: Override },
    /// A sealed segment whose index is not in memory.
    NotLoaded(SegmentNumber, Geometry),
}

impl Shared {
    /// Records from `from` on and below `end`, in order: at least one, about `max_bytes` at most.
    pub(crate) fn read(
        &self,
        from: Position,
        end: Position,
        max_bytes: u64,
    ) -> Result<Vec<Record>, ReadError> {
        loop {
            let source = self.state().source(self.salt, from, end, max_bytes)?;
            match source {
                Source::Hot(found) => return Ok(found),
                Source::Extents { place, file, extents, end } => {
                    return self.read_extents(place, &*file, &extents, from..end);
                }
                Source::Single { segment, entry } => return self.read_single(segment, entry),
                Source::NotLoaded(segment, geometry) => self.load_index(segment, geometry)?,
            }
        }
    }

    /// The same if it is in memory.
    pub(crate) fn read_hot(&self, from: Position, end: Position, max_bytes: u64) -> Option<Vec<Record>> {
        let state = self.state();
        let is_there = (state.controls.first..state.next).contains(&from) && state.hot.holds(from);
        is_there.then(|| state.hot.read(self.salt, from, end.min(state.next), max_bytes))
    }

    fn read_extents(
        &self,
        place: SegmentPlace,
        file: &dyn File,
        extents: &[Extent],
        Range { start: from, end }: Range<Position>,
    ) -> Result<Vec<Record>, ReadError> {
        let segment = place.segment;
        let (Some(first), Some(last)) = (extents.first(), extents.last()) else { return Ok(Vec::new()) };
        let length = (last.offset + last.length - first.offset) as usize;
        let mut buffer = vec![0; length];
        let read = read_up_to(file, &mut buffer, u64::from(first.offset))
            .map_err(|source| ReadError::Io { segment, source: Arc::new(source) })?;
        // A file that ends too early has what lies in front of its end.
        buffer.truncate(read);
        let region = Bytes::from(buffer);
        let mut found = Vec::new();
        for extent in extents {
            let start = (extent.offset - first.offset) as usize;
            let frames = region.slice(start.min(read)..(start + extent.length as usize).min(read));
            let wanted = from.max(extent.first)..end.min(extent.end());
            let place = ExtentPlace { salt: self.salt, place, offset: extent.offset };
            if place.collect(&frames, extent.first, wanted.clone(), &mut found).is_none() {
                if !found.is_empty() {
                    // What is good comes first; the next call meets the damage.
                    return Ok(found);
                }
                // Damage in front of a record is no damage to it.
                let alone = place.find(&frames, wanted.start);
                return alone
                    .map(|record| vec![record])
                    .ok_or_else(|| self.corrupt(segment, extent, wanted.start));
            }
        }
        Ok(found)
    }

    fn read_single(&self, segment: SegmentNumber, entry: Override) -> Result<Vec<Record>, ReadError> {
        let failed = |source| ReadError::Io { segment, source: Arc::new(source) };
        let file = self.file_of(segment).map_err(failed)?;
        let mut buffer = vec![0; entry.length as usize];
        let read = read_up_to(&*file, &mut buffer, u64::from(entry.offset)).map_err(failed)?;
        buffer.truncate(read);
        match Record::decode(self.salt, &Bytes::from(buffer), 0, entry.position) {
            Some(record) => Ok(vec![record]),
            None => {
                let place =
                    Extent { first: entry.position, count: 1, offset: entry.offset, length: entry.length };
                Err(self.corrupt(segment, &place, entry.position))
            }
        }
    }

    /// Notes that a position does not match its checksum, unless it was released meanwhile and its file filled anew.
    fn corrupt(&self, segment: SegmentNumber, extent: &Extent, position: Position) -> ReadError {
        let first = self.state().controls.first;
        if position < first {
            return ReadError::Released { position, first };
        }
        let bytes = extent.offset..extent.offset + extent.length;
        self.note_damage(&Damage {
            positions: vec![position..advance(position, 1)],
            ..Damage::at(Finding::BadRecord, segment, bytes)
        });
        ReadError::Corrupt { position, segment }
    }

    fn file_of(&self, segment: SegmentNumber) -> io::Result<Arc<dyn File>> {
        let mut state = self.state();
        if segment == state.active.number {
            return Ok(state.active_file.clone());
        }
        if let Some(open) = state.catalog.open_segment(segment) {
            return Ok(open.file.clone());
        }
        drop(state);
        self.io.open(&self.dir.join(segment_file_name(segment)), OpenMode::Read)
    }

    /// Brings the index of a sealed segment into memory: from its footer, or by scanning if that is bad.
    fn load_index(&self, number: SegmentNumber, geometry: Geometry) -> Result<(), ReadError> {
        let opened = self.open_segment(number, geometry);
        let mut state = self.state();
        match opened {
            Ok(segment) => state.catalog.keep(Arc::new(segment)),
            // Released meanwhile: who asks again is told so.
            Err(_) if !state.catalog.segments.contains_key(&number) => {}
            Err(source) => return Err(ReadError::Io { segment: number, source: Arc::new(source) }),
        }
        Ok(())
    }

    fn open_segment(&self, number: SegmentNumber, geometry: Geometry) -> io::Result<OpenSegment> {
        let file = self.io.open(&self.dir.join(segment_file_name(number)), OpenMode::Read)?;
        let footer = read_footer(self.salt, geometry, number, &*file)?.footer;
        let index = match footer.filter(|footer| footer.sealed) {
            Some(footer) => footer.index,
            None => self.scan_index(number, &*file)?,
        };
        Ok(OpenSegment { number, file, index })
    }

    fn scan_index(&self, number: SegmentNumber, file: &dyn File) -> io::Result<SegmentIndex> {
        let start = self.segment_start(number, file)?;
        let length = file.len()?;
        let mut controls = Controls::new(start.0.next_position);
        match Scan::new(file, self.salt, start.0, start.1, length).run(&mut controls, &mut |_| {}) {
            Ok(scanned) => Ok(scanned.state.index),
            Err(ScanError::Io(error)) => Err(error),
            Err(ScanError::UnknownRecord(offset)) => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("unknown record in the frame at {offset}"),
            )),
        }
    }

    /// Where a scan of a sealed segment starts, and the header of the segment behind it.
    pub(crate) fn segment_start(
        &self,
        number: SegmentNumber,
        file: &dyn File,
    ) -> io::Result<(SegmentState, Option<SegmentHeader>)> {
        let header = read_header(file)?;
        let header = header.filter(|header| header.number == number && header.log == self.log);
        let header =
            header.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "its header is damaged"))?;
        let successor = match number.next() {
            Some(next) => self.file_of(next).ok().map(|file| read_header(&*file)).transpose()?.flatten(),
            None => None,
        };
        Ok((SegmentState::new(&header), successor.filter(|next| next.log == self.log)))
    }
}

fn read_header(file: &dyn File) -> io::Result<Option<SegmentHeader>> {
    let mut block = vec![0; SEGMENT_HEADER_BYTES as usize];
    read_up_to(file, &mut block, 0)?;
    Ok(match SegmentHeader::decode(&block) {
        DecodedHeader::Valid { header, .. } => Some(header),
        _ => None,
    })
}

impl State {
    /// Where the record at `from` is, and those behind it.
    fn source(
        &mut self,
        salt: Salt,
        from: Position,
        end: Position,
        max_bytes: u64,
    ) -> Result<Source, ReadError> {
        if from < self.controls.first {
            return Err(ReadError::Released { position: from, first: self.controls.first });
        }
        if from >= self.next {
            return Err(match &self.fault {
                Some(fault) => ReadError::InDoubt { position: from, fault: fault.clone() },
                None => ReadError::NotAppended { position: from, next: self.next },
            });
        }
        let end = end.min(self.next);
        if self.hot.holds(from) {
            return Ok(Source::Hot(self.hot.read(salt, from, end, max_bytes)));
        }
        // What lies in segments ends where memory begins: behind that, a truncation may be on its way to the disk.
        let end = self.hot.first().map_or(end, |hot| end.min(hot));
        match self.catalog.place_of(from) {
            Place::Single(segment, entry) => Ok(Source::Single { segment, entry }),
            Place::Hole(_) | Place::Nowhere if self.controls.is_lost(from) => {
                Err(ReadError::Lost { position: from })
            }
            Place::Hole(segment) => Err(ReadError::Corrupt { position: from, segment }),
            Place::Nowhere => Err(ReadError::Corrupt { position: from, segment: self.active.number }),
            // Only a release that contradicts itself leaves positions in a segment that it let go.
            Place::Segment(segment, _) if !self.catalog.segments.contains_key(&segment) => {
                Err(ReadError::Corrupt { position: from, segment })
            }
            Place::Segment(segment, run_end) => Ok(self.extents(segment, from, end.min(run_end), max_bytes)),
        }
    }

    fn extents(&mut self, segment: SegmentNumber, from: Position, end: Position, max_bytes: u64) -> Source {
        let pick = |index: &SegmentIndex| {
            let start = index.extent_of(from).unwrap_or(index.extents.len());
            let limit = u32::try_from(max_bytes).unwrap_or(u32::MAX).min(READ_BYTES);
            let mut picked: Vec<Extent> = Vec::new();
            for extent in index.extents[start..].iter().take_while(|extent| extent.first < end) {
                // One read covers them all, and what lies between them: frames without data, void records.
                let start = picked.first().map_or(extent.offset, |first| first.offset);
                if !picked.is_empty() && extent.offset + extent.length - start > limit {
                    break;
                }
                picked.push(*extent);
            }
            picked
        };
        let truncated = self.active.truncations != 0;
        if segment == self.active.number {
            let extents = pick(&self.active.index);
            let place = SegmentPlace { segment, layout: self.active.geometry.layout, truncated };
            return Source::Extents { place, file: self.active_file.clone(), extents, end };
        }
        let geometry =
            self.catalog.segments.get(&segment).map_or(self.active.geometry, |entry| entry.geometry);
        match self.catalog.open_segment(segment) {
            Some(open) => {
                let (file, extents) = (open.file.clone(), pick(&open.index));
                let place = SegmentPlace { segment, layout: geometry.layout, truncated };
                Source::Extents { place, file, extents, end }
            }
            None => Source::NotLoaded(segment, geometry),
        }
    }
}

/// Where frames are read from.
#[derive(Clone, Copy)]
struct SegmentPlace {
    segment: SegmentNumber,
    layout: Layout,
    /// The log has truncated: there are void records with positions that others have now.
    truncated: bool,
}

/// Where the frames of an extent were read from. A frame that says it belongs elsewhere is not believed: a misdirected write
/// may have brought an old one here.
struct ExtentPlace {
    salt: Salt,
    place: SegmentPlace,
    offset: u32,
}

impl ExtentPlace {
    fn offset_of(&self, at: usize) -> u32 {
        self.offset.saturating_add(u32::try_from(at).unwrap_or(u32::MAX))
    }

    /// Walks the frames and appends the records of the `wanted` positions; `None` where one is damaged.
    fn collect(
        &self,
        frames: &Bytes,
        first: Position,
        wanted: Range<Position>,
        found: &mut Vec<Record>,
    ) -> Option<()> {
        let mut at = 0;
        let mut expected = first;
        while expected < wanted.end {
            let DecodedFrame::Valid(header, _) = FrameHeader::decode(self.salt, frames.get(at..)?) else {
                return None;
            };
            if !header.is_at(self.place.segment, self.offset_of(at)) {
                return None;
            }
            let body_at = at + FRAME_HEADER_BYTES;
            let body = frames.get(body_at..body_at.checked_add(header.body_length as usize)?)?;
            for record in records(self.salt, body) {
                let (_, raw, _) = record.ok()?;
                if raw.kind != RecordType::Data {
                    continue;
                }
                if raw.position != expected {
                    return None;
                }
                if wanted.contains(&expected) {
                    found.push(Record::from_raw(frames, &raw)?);
                }
                expected = advance(expected, 1);
                if expected >= wanted.end {
                    return Some(());
                }
            }
            at += self.place.layout.frame_bytes(header.body_length) as usize;
        }
        Some(())
    }

    /// The record of a position although something in the extent is damaged.
    fn find(&self, frames: &Bytes, position: Position) -> Option<Record> {
        if self.place.truncated {
            self.find_in_frame(frames, position)
        } else {
            self.find_anywhere(frames, position)
        }
    }

    /// In a log that has truncated, a record is believed only where it follows from the start of a frame in its place.
    fn find_in_frame(&self, frames: &Bytes, position: Position) -> Option<Record> {
        let SegmentPlace { segment, layout, .. } = self.place;
        let mut at = 0;
        while at < frames.len() {
            let header = match FrameHeader::decode(self.salt, &frames[at..]) {
                DecodedFrame::Valid(header, _) if header.is_at(segment, self.offset_of(at)) => header,
                _ => {
                    at += layout.alignment() as usize;
                    continue;
                }
            };
            let body_at = at + FRAME_HEADER_BYTES;
            let body = frames.get(body_at..body_at.checked_add(header.body_length as usize)?)?;
            let good = records(self.salt, body).map_while(Result::ok).map(|(_, raw, _)| raw);
            let mut data = good.filter(|raw| raw.kind == RecordType::Data);
            if let Some(raw) = data.find(|raw| raw.position == position) {
                return Record::from_raw(frames, &raw);
            }
            at += layout.frame_bytes(header.body_length) as usize;
        }
        None
    }

    /// In a log that never truncated there is one record of a position, wherever it lies. What a frame that went astray
    /// covers is passed over, up to where one lies in its place again.
    fn find_anywhere(&self, frames: &Bytes, position: Position) -> Option<Record> {
        let mut stray_until = 0;
        for at in (0..frames.len()).step_by(RECORD_ALIGNMENT) {
            if let DecodedFrame::Valid(header, _) = FrameHeader::decode(self.salt, &frames[at..]) {
                let in_place = header.is_at(self.place.segment, self.offset_of(at));
                stray_until =
                    if in_place { at } else { at + FRAME_HEADER_BYTES + header.body_length as usize };
            }
            if at >= stray_until
                && let Some(record) = Record::decode(self.salt, frames, at, position)
            {
                return Some(record);
            }
        }
        None
    }
}
