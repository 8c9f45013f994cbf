//! What a directory holds before any frame is folded: segments with their headers, prepared ones, leftovers.
//!
//! Must not know: what the frames say, except where a header has to be found out from them.

use std::io;
use std::path::Path;
use std::sync::Arc;

use gapless_types::SegmentNumber;

use crate::error::OpenError;
use crate::format::frame::{DecodedFrame, FrameHeader};
use crate::format::segment::{DecodedHeader, SegmentHeader};
use crate::format::{
    FRAME_HEADER_BYTES, Geometry, Layout, LogId, RECORD_ALIGNMENT, SEGMENT_HEADER_BYTES,
    parse_segment_file_name, segment_file_name,
};
use crate::io::{File, Io, OpenMode, read_up_to};
use crate::window::Window;

/// A file that goes by the name of a segment.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) number: SegmentNumber,
    pub(crate) file: Arc<dyn File>,
    pub(crate) length: u64,
    pub(crate) decoded: DecodedHeader,
}

/// A segment with frames, or at least with a header.
#[derive(Debug)]
pub(crate) struct UsedSegment {
    pub(crate) header: SegmentHeader,
    pub(crate) file: Arc<dyn File>,
    pub(crate) length: u64,
    /// How many copies of its header were good; 0 if it was found out elsewhere.
    pub(crate) header_copies: u32,
    /// Both its header and its first frame are lost: where it begins follows from the segment before.
    pub(crate) headless: bool,
}

/// What a directory holds before any frame is looked at.
#[derive(Debug)]
pub(crate) struct Inventory {
    pub(crate) log: Option<LogId>,
    pub(crate) used: Vec<UsedSegment>,
    /// Prepared and never used.
    pub(crate) blank: Vec<SegmentNumber>,
    /// Names of files to remove: unfinished preparations, a first segment that was never begun.
    pub(crate) leftovers: Vec<String>,
}

/// Looks at every file of the directory and reads the segments' headers.
pub(crate) fn take_inventory(io: &dyn Io, dir: &Path, mode: OpenMode) -> Result<Inventory, OpenError> {
    let mut names = io.list(dir).map_err(|source| io_error("list", dir, source))?;
    names.sort();
    let mut leftovers = Vec::new();
    let mut candidates = Vec::new();
    let end = names.iter().filter_map(|name| parse_segment_file_name(name)).nth_back(1);
    for name in names {
        if let Some(number) = parse_segment_file_name(&name) {
            // Only the last segment and the prepared one can hold what was never synced.
            let may_be_volatile = mode == OpenMode::Write && end.is_none_or(|end| number >= end);
            candidates.push(look_at(io, dir, number, mode, may_be_volatile)?);
        } else if name.ends_with(".tmp") {
            leftovers.push(name);
        } else {
            return Err(OpenError::ForeignFile(dir.join(name)));
        }
    }
    let log = common_log(&candidates)?;
    let layout =
        candidates.iter().find_map(|candidate| candidate.header().map(|header| header.geometry.layout));
    let (candidates, blank) = split_blank(dir, candidates, layout)?;
    let last = candidates.last().map(|candidate| candidate.number);
    let mut inventory = Inventory { log, used: Vec::new(), blank, leftovers };
    for candidate in candidates {
        inventory.sort_in(dir, candidate, layout, last)?;
    }
    Ok(inventory)
}

/// Takes the segments off the end that were prepared and never used.
fn split_blank(
    dir: &Path,
    mut candidates: Vec<Candidate>,
    layout: Option<Layout>,
) -> Result<(Vec<Candidate>, Vec<SegmentNumber>), OpenError> {
    let mut blank = Vec::new();
    while let Some(last) = candidates.last().filter(|last| last.decoded == DecodedHeader::Blank) {
        let failed = |source| io_error("read", &dir.join(segment_file_name(last.number)), source);
        if !is_blank(&*last.file, layout, last.length).map_err(failed)? {
            break;
        }
        blank.push(last.number);
        candidates.pop();
    }
    blank.reverse();
    Ok((candidates, blank))
}

impl Candidate {
    fn header(&self) -> Option<&SegmentHeader> {
        match &self.decoded {
            DecodedHeader::Valid { header, .. } => Some(header),
            _ => None,
        }
    }
}

impl Inventory {
    fn sort_in(
        &mut self,
        dir: &Path,
        candidate: Candidate,
        layout: Option<Layout>,
        last: Option<SegmentNumber>,
    ) -> Result<(), OpenError> {
        let Candidate { number, file, length, decoded } = candidate;
        let name = segment_file_name(number);
        let failed = |source| io_error("read", &dir.join(&name), source);
        match (decoded, self.log, layout) {
            (DecodedHeader::Valid { header, copies }, _, _) => {
                self.used.push(UsedSegment { header, file, length, header_copies: copies, headless: false });
            }
            (DecodedHeader::UnknownVersion(version), _, _) => {
                return Err(OpenError::UnknownVersion { segment: number, version });
            }
            (_, Some(log), Some(layout)) => match header_from_frames(&*file, log, number, layout, length) {
                Ok(Some(header)) => {
                    let headless = header.previous_checksum == UNKNOWN_CHECKSUM;
                    self.used.push(UsedSegment { header, file, length, header_copies: 0, headless });
                }
                // A header that was being written when the power went: nothing behind it was ever acknowledged.
                Ok(None) if Some(number) == last => self.leftovers.push(name),
                Ok(None) => {}
                Err(source) => return Err(failed(source)),
            },
            // The header of a log's first segment is synced before anything follows it.
            (_, _, _) => {
                if !is_blank(&*file, None, length).map_err(failed)? {
                    return Err(OpenError::HeaderLost(number));
                }
                self.leftovers.push(name);
            }
        }
        Ok(())
    }
}

fn look_at(
    io: &dyn Io,
    dir: &Path,
    number: SegmentNumber,
    mode: OpenMode,
    may_be_volatile: bool,
) -> Result<Candidate, OpenError> {
    let path = dir.join(segment_file_name(number));
    let file = io.open(&path, mode).map_err(|source| io_error("open", &path, source))?;
    if may_be_volatile {
        // A killed process leaves frames that only memory has: they become durable. A sync that failed leaves frames that
        // memory shows and the disk never got: they must not be read as if they were there.
        file.sync().map_err(|source| io_error("sync", &path, source))?;
        file.forget_cache().map_err(|source| io_error("reread", &path, source))?;
    }
    let mut block = vec![0; SEGMENT_HEADER_BYTES as usize];
    let read = read_up_to(&*file, &mut block, 0).map_err(|source| io_error("read", &path, source))?;
    block.truncate(read);
    let length = file.len().map_err(|source| io_error("measure", &path, source))?;
    match SegmentHeader::decode(&block) {
        DecodedHeader::Valid { header, .. } if header.number != number => Err(OpenError::ForeignFile(path)),
        decoded => Ok(Candidate { number, file, length, decoded }),
    }
}

/// The log that all readable headers belong to.
fn common_log(candidates: &[Candidate]) -> Result<Option<LogId>, OpenError> {
    let mut log = None;
    for header in candidates.iter().filter_map(Candidate::header) {
        match log {
            Some(expected) if expected != header.log => {
                return Err(OpenError::ForeignSegment {
                    segment: header.number,
                    found: header.log,
                    expected,
                });
            }
            _ => log = Some(header.log),
        }
    }
    Ok(log)
}

/// Stands for the checksum of a frame that nobody knows.
const UNKNOWN_CHECKSUM: u32 = 0;

/// What a lost header said, as far as the frames tell; `None` if the segment has no good one. The layout is that of the
/// other segments, unless the frames lie as only another one lets them.
fn header_from_frames(
    file: &dyn File,
    log: LogId,
    number: SegmentNumber,
    usual: Layout,
    length: u64,
) -> io::Result<Option<SegmentHeader>> {
    let capacity = u32::try_from(length).unwrap_or(0);
    let content_end = Geometry { capacity, layout: usual }.content_end();
    let frames = frames_of(file, log, number, content_end)?;
    let Some((offset, first)) = frames.first() else { return Ok(None) };
    let is_first = *offset == Geometry::CONTENT_START && first.offset == *offset;
    let layout = layout_from_frames(&frames).unwrap_or(usual);
    Ok(Some(SegmentHeader {
        log,
        number,
        geometry: Geometry { capacity, layout },
        first_frame: first.number,
        previous_checksum: if is_first { first.previous_checksum } else { UNKNOWN_CHECKSUM },
        first_position: first.first_position,
        truncations: first.truncations,
        lowest_truncated: first.lowest_truncated,
    }))
}

/// Every frame header of this segment, wherever it lies, with its place.
fn frames_of(
    file: &dyn File,
    log: LogId,
    number: SegmentNumber,
    content_end: u32,
) -> io::Result<Vec<(u32, FrameHeader)>> {
    let mut window = Window::new(file, content_end);
    let mut found = Vec::new();
    for offset in (Geometry::CONTENT_START..content_end).step_by(RECORD_ALIGNMENT) {
        let bytes: [u8; FRAME_HEADER_BYTES] = window.fixed(offset)?;
        match FrameHeader::decode(log.salt(), &bytes) {
            DecodedFrame::Valid(frame, _) if frame.segment == number => found.push((offset, frame)),
            _ => {}
        }
    }
    Ok(found)
}

/// The layout that frames show; `None` if they would lie the same way in both.
fn layout_from_frames(frames: &[(u32, FrameHeader)]) -> Option<Layout> {
    let in_place: Vec<&FrameHeader> =
        frames.iter().filter(|(offset, frame)| frame.offset == *offset).map(|(_, frame)| frame).collect();
    if in_place.iter().any(|frame| !frame.offset.is_multiple_of(Layout::Aligned.alignment())) {
        return Some(Layout::Packed);
    }
    let aligned_only = |pair: &[&FrameHeader]| {
        let packed_end = pair[0].offset.saturating_add(Layout::Packed.frame_bytes(pair[0].body_length));
        pair[0].number.next() == Some(pair[1].number) && pair[1].offset != packed_end
    };
    in_place.windows(2).any(aligned_only).then_some(Layout::Aligned)
}

/// Whether there is nothing behind the header block. Aligned frames begin at blocks, so that a glance at each will do.
fn is_blank(file: &dyn File, layout: Option<Layout>, length: u64) -> io::Result<bool> {
    let end = u32::try_from(length).unwrap_or(u32::MAX);
    let mut window = Window::new(file, end);
    let mut offset = SEGMENT_HEADER_BYTES;
    while offset < end {
        let step = if layout == Some(Layout::Aligned) { 4096 } else { 64 };
        let bytes: [u8; 64] = match layout {
            Some(Layout::Aligned) => window.glance(offset)?,
            _ => window.fixed(offset)?,
        };
        if bytes.iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
        offset = offset.saturating_add(step);
    }
    Ok(true)
}

pub(crate) fn io_error(action: &'static str, path: &Path, source: io::Error) -> OpenError {
    OpenError::Io { action, path: path.to_path_buf(), source }
}
