//! Reads the frames of one segment in order and decides what is torn, what is corrupt and what is missing.
//!
//! The rules of `docs/format.md`, "What damage means":
//! - a bad frame is *corruption* if something later certifies that it was durable: a later frame that says so in its
//!   header, or a later segment, which is only begun once the one before is durable;
//! - otherwise it is the *torn* end of the log, and nothing behind it counts;
//! - nothing certified is ever dropped: good records are rescued, the positions of bad ones become holes.
//!
//! Must not know: threads, what the records mean to the user.

use std::io;

use gapless_types::{FrameNumber, Position};

use crate::damage::{Damage, Finding};
use crate::format::footer::Footer;
use crate::format::frame::{DecodedFrame, FrameHeader};
use crate::format::segment::SegmentHeader;
use crate::format::{FRAME_HEADER_BYTES, FRAME_HEADER_LENGTH, Geometry, Layout, Salt};
use crate::io::File;
use crate::segment_state::{Controls, SegmentState, holes_between};
use crate::window::Window;

mod rescue;

use rescue::Rescued;

/// How the frames of a segment end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Behind the last frame there is nothing, or the next segment goes on.
    Clean,
    /// Something lies behind the last frame that is no frame.
    Torn,
}

/// A frame that was read and found good.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GoodFrame<'a> {
    /// Its header.
    pub(crate) header: FrameHeader,
    /// Its records.
    pub(crate) body: &'a [u8],
}

/// Why a scan stopped early.
#[derive(Debug)]
pub(crate) enum ScanError {
    /// The disk failed.
    Io(io::Error),
    /// An intact record that this program does not understand, in the frame at this offset.
    UnknownRecord(u32),
}

impl From<io::Error> for ScanError {
    fn from(error: io::Error) -> Self {
        ScanError::Io(error)
    }
}

/// What a scan found.
#[derive(Debug)]
pub(crate) struct Scanned {
    /// The segment behind its last frame.
    pub(crate) state: SegmentState,
    /// How the frames end.
    pub(crate) ending: Ending,
    /// What is wrong.
    pub(crate) damage: Vec<Damage>,
    /// Bytes read for it.
    pub(crate) bytes_read: u64,
}

/// Something behind a bad frame that speaks about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Witness {
    /// Where frames go on; the end of the content if they do not.
    offset: u32,
    /// Its frame number: everything before it is concerned.
    number: u64,
    first_position: Position,
    truncations: u32,
    lowest_truncated: Option<Position>,
    /// Checksum that the frame before it should have.
    previous_checksum: u32,
    /// Whether frames go on at `offset`.
    in_place: bool,
}

/// A scan of one segment.
#[derive(Debug)]
pub(crate) struct Scan<'a> {
    salt: Salt,
    window: Window<'a>,
    state: SegmentState,
    /// End of what can be read of the content.
    end: u32,
    /// The header of the next segment, if there is one.
    successor: Option<SegmentHeader>,
    /// A footer, which is written only behind frames that are durable.
    footer: Option<Witness>,
    /// What that footer says about the log itself, until the scan has passed its end.
    footer_controls: Option<Vec<u8>>,
    damage: Vec<Damage>,
    /// Positions of the last frame folded in, for a broken chain.
    last_positions: std::ops::Range<Position>,
}

impl<'a> Scan<'a> {
    /// A scan that goes on where `state` ends. `file_length` may be less than the segment should have.
    pub(crate) fn new(
        file: &'a dyn File,
        salt: Salt,
        state: SegmentState,
        successor: Option<SegmentHeader>,
        file_length: u64,
    ) -> Self {
        let end = u32::try_from(file_length).unwrap_or(u32::MAX).min(state.geometry.content_end());
        let last_positions = state.next_position..state.next_position;
        Self {
            salt,
            window: Window::new(file, end),
            state,
            end,
            successor,
            footer: None,
            footer_controls: None,
            damage: Vec::new(),
            last_positions,
        }
    }

    /// Takes a footer's word for what it covers, where frames are read again in spite of it.
    pub(crate) fn certify(&mut self, footer: Witness, controls: Vec<u8>) {
        self.footer = Some(footer);
        self.footer_controls = Some(controls);
    }

    /// Reads to the end. `on_frame` sees each good frame before it is folded in.
    pub(crate) fn run(
        mut self,
        controls: &mut Controls,
        on_frame: &mut dyn FnMut(&GoodFrame<'_>),
    ) -> Result<Scanned, ScanError> {
        let ending = loop {
            self.take_word_of_footer(controls);
            if self.is_complete() {
                break Ending::Clean;
            }
            match self.frame_at(self.state.offset)? {
                Some((header, checksum)) if header.number >= self.state.next_frame => {
                    self.accept(&header, checksum, controls, on_frame)?;
                }
                _ => match self.witness()? {
                    Some(witness) => {
                        self.skip_damage(&witness, controls)?;
                        if !witness.in_place {
                            break if self.successor.is_some() { Ending::Clean } else { Ending::Torn };
                        }
                    }
                    None => break self.ending_without_witness()?,
                },
            }
        };
        self.check_successor();
        let bytes_read = self.window.bytes_read();
        Ok(Scanned { state: self.state, ending, damage: self.damage, bytes_read })
    }

    /// At the end of what the footer covers: it knows what damaged frames said about the log itself.
    fn take_word_of_footer(&mut self, controls: &mut Controls) {
        if self.footer.is_some_and(|footer| footer.offset == self.state.offset)
            && let Some(encoded) = self.footer_controls.take()
            && !self.damage.is_empty()
        {
            controls.apply_encoded(self.salt, &encoded);
        }
    }

    /// Whether the frames reach up to the next segment's first.
    fn is_complete(&self) -> bool {
        self.successor.is_some_and(|successor| successor.first_frame <= self.state.next_frame)
    }

    /// A whole and good frame of this segment at its own place.
    fn frame_at(&mut self, offset: u32) -> io::Result<Option<(FrameHeader, u32)>> {
        let Some((header, checksum)) = self.header_at(offset)? else { return Ok(None) };
        if header.offset != offset {
            return Ok(None);
        }
        let salt = self.salt;
        let body = self.body_of(&header)?;
        let whole = body.len() == header.body_length as usize;
        Ok((whole && salt.checksum(&[body]) == header.body_checksum).then_some((header, checksum)))
    }

    /// The header at a place, if it is one of this segment's; it may name another place.
    fn header_at(&mut self, offset: u32) -> io::Result<Option<(FrameHeader, u32)>> {
        let bytes = self.window.bytes(offset, FRAME_HEADER_LENGTH)?;
        match FrameHeader::decode(self.salt, bytes) {
            DecodedFrame::Valid(header, checksum) if header.segment == self.state.number => {
                Ok(Some((header, checksum)))
            }
            _ => Ok(None),
        }
    }

    fn body_of(&mut self, header: &FrameHeader) -> io::Result<&[u8]> {
        self.window.bytes(header.offset.saturating_add(FRAME_HEADER_LENGTH), header.body_length)
    }

    /// Takes in a good frame; notes a gap in front of it or a chain that does not reach it.
    fn accept(
        &mut self,
        header: &FrameHeader,
        checksum: u32,
        controls: &mut Controls,
        on_frame: &mut dyn FnMut(&GoodFrame<'_>),
    ) -> Result<(), ScanError> {
        let salt = self.salt;
        if header.number > self.state.next_frame {
            self.note_gap(&Witness::of(header, header.offset, true));
        } else if header.previous_checksum != self.state.last_checksum {
            self.note_broken_chain(header.offset, header.number.get());
        }
        // A segment begins with all state repeated, so that doubts about what came before it are settled.
        let (offset, body_length) = (header.offset, header.body_length);
        let first = offset == Geometry::CONTENT_START;
        let body = self.window.bytes(offset + FRAME_HEADER_LENGTH, body_length)?;
        on_frame(&GoodFrame { header: *header, body });
        let before = self.state.next_position;
        self.state
            .fold(salt, header, checksum, body, controls)
            .map_err(|_| ScanError::UnknownRecord(offset))?;
        if first {
            self.state.state_in_doubt = false;
        }
        self.last_positions = before.min(self.state.next_position)..self.state.next_position;
        Ok(())
    }

    /// Looks behind the bad frame at the current place for something that certifies it.
    fn witness(&mut self) -> io::Result<Option<Witness>> {
        let expected = self.state.next_frame.get();
        let mut in_place: Option<Witness> = None;
        let mut displaced: Option<Witness> = None;
        let mut certified = 0;
        let step = self.state.geometry.layout.alignment();
        let mut offset = self.state.offset + step;
        while offset + FRAME_HEADER_LENGTH <= self.end {
            if let Some((header, _)) = self.later_header_at(offset)? {
                certified = certified.max(header.certified());
                if header.offset == offset && header.number.get() > expected {
                    in_place.get_or_insert(Witness::of(&header, offset, true));
                    offset += self.state.geometry.layout.frame_bytes(header.body_length).max(step);
                    continue;
                }
                displaced = Some(Witness::of(&header, self.end, false));
            }
            offset += step;
        }
        if let Some(footer) = self.footer.filter(|footer| footer.number > expected) {
            certified = certified.max(footer.number - 1);
            in_place = in_place.or(Some(footer));
        }
        if let Some(successor) = &self.successor {
            certified = certified.max(successor.first_frame.get() - 1);
            in_place = in_place.or(Some(Witness::successor(successor, self.end)));
        }
        Ok(if certified >= expected { in_place.or(displaced) } else { None })
    }

    /// A header of a frame that should come later, wherever it lies.
    fn later_header_at(&mut self, offset: u32) -> io::Result<Option<(FrameHeader, u32)>> {
        let bytes: [u8; FRAME_HEADER_BYTES] = match self.state.geometry.layout {
            Layout::Aligned => self.window.glance(offset)?,
            Layout::Packed => self.window.fixed(offset)?,
        };
        match FrameHeader::decode(self.salt, &bytes) {
            DecodedFrame::Valid(header, checksum)
                if header.segment == self.state.number && header.number >= self.state.next_frame =>
            {
                Ok(Some((header, checksum)))
            }
            _ => Ok(None),
        }
    }

    /// Goes over damaged frames to the witness that certifies them.
    fn skip_damage(&mut self, witness: &Witness, controls: &mut Controls) -> Result<(), ScanError> {
        let start = self.state.offset;
        let header = self.header_at(start)?.map(|(header, _)| header).filter(|header| header.offset == start);
        let truncated = self.is_cut_by(witness);
        let rescued =
            if truncated { Rescued::default() } else { self.rescue(header.as_ref(), witness, controls)? };
        let blank = rescued.data.is_empty() && header.is_none() && self.is_blank(start)?;
        let finding = if blank { Finding::LostWrite } else { Finding::CorruptFrame };

        self.cut_by(witness);
        let holes = holes_between(self.state.next_position, witness.first_position, &rescued.data);
        let missing: u64 = holes.iter().map(|hole| hole.end.get() - hole.start.get()).sum();
        // What is missing is certainly data only where the header tells how many records there were.
        let accounted = header.is_some_and(|header| {
            header.number.get() + 1 == witness.number
                && u64::from(header.record_count) == rescued.count + missing
        });
        self.state.state_in_doubt |= !accounted;
        self.damage.push(Damage {
            finding,
            segment: self.state.number,
            last_segment: self.state.number,
            bytes: start..witness.offset,
            frames: self.state.next_frame.get()..witness.number,
            positions: holes.clone(),
            rescued: rescued.data.len() as u64,
        });
        self.state.index.overrides.extend(rescued.data);
        self.state.index.holes.extend(holes);
        self.move_to(witness);
        Ok(())
    }

    fn is_blank(&mut self, offset: u32) -> io::Result<bool> {
        let bytes: [u8; FRAME_HEADER_BYTES] = self.window.glance(offset)?;
        Ok(bytes.iter().all(|&byte| byte == 0))
    }

    /// Frames that left no trace in front of a good one.
    fn note_gap(&mut self, witness: &Witness) {
        self.cut_by(witness);
        let holes = holes_between(self.state.next_position, witness.first_position, &[]);
        self.state.state_in_doubt = true;
        self.damage.push(Damage {
            finding: Finding::LostWrite,
            segment: self.state.number,
            last_segment: self.state.number,
            bytes: witness.offset..witness.offset,
            frames: self.state.next_frame.get()..witness.number,
            positions: holes.clone(),
            rescued: 0,
        });
        self.state.index.holes.extend(holes);
        self.move_to(witness);
    }

    /// Whether a truncation is among what was lost in front of the witness. That positions go back shows it as well.
    fn is_cut_by(&self, witness: &Witness) -> bool {
        witness.truncations != self.state.truncations || witness.first_position < self.state.next_position
    }

    /// The truncations themselves are lost: everything they may have reached is void.
    fn cut_by(&mut self, witness: &Witness) {
        let back = (witness.first_position < self.state.next_position).then_some(witness.first_position);
        let told = witness.lowest_truncated.filter(|_| witness.truncations != self.state.truncations);
        if let Some(lowest) = back.into_iter().chain(told).min() {
            self.state.truncate(lowest.min(self.state.next_position));
            self.state.truncations = witness.truncations;
        }
    }

    fn move_to(&mut self, witness: &Witness) {
        self.state.offset = witness.offset;
        self.state.next_position = witness.first_position;
        self.state.next_frame = FrameNumber::new(witness.number).unwrap_or(self.state.next_frame);
        self.state.last_checksum = witness.previous_checksum;
    }

    /// The frame before `offset` is another one than its successor was written behind.
    fn note_broken_chain(&mut self, offset: u32, number: u64) {
        // Behind a footer only the last extent is known, and the frame in question is in it.
        let last_extent = self.state.index.extents.last().map(|extent| extent.first..extent.end());
        let frame = Some(self.last_positions.clone()).filter(|positions| !positions.is_empty());
        let holes: Vec<_> = frame.or(last_extent).into_iter().collect();
        self.state.state_in_doubt = true;
        self.damage.push(Damage {
            finding: Finding::BrokenChain,
            segment: self.state.number,
            last_segment: self.state.number,
            bytes: offset..offset,
            frames: number.saturating_sub(1)..number,
            positions: holes.clone(),
            rescued: 0,
        });
        self.state.index.holes.extend(holes);
    }

    /// Nothing certifies what should be at the current place: the log ends here, cleanly or torn.
    fn ending_without_witness(&mut self) -> io::Result<Ending> {
        let start = self.state.offset;
        let Some(trace) = self.last_trace()? else { return Ok(Ending::Clean) };
        self.state.tail_dropped = true;
        let frame = self.state.next_frame.get();
        self.damage.push(Damage {
            frames: frame..frame + 1,
            ..Damage::at(Finding::TornTail, self.state.number, start..trace)
        });
        Ok(Ending::Torn)
    }

    /// Where the last bytes behind the current place lie that are not zero. Aligned segments are looked at once per
    /// block: a block that was written begins with bytes that are not all zero, unless it is in the middle of a payload
    /// of zeros.
    fn last_trace(&mut self) -> io::Result<Option<u32>> {
        let mut trace = None;
        let mut offset = self.state.offset;
        while offset < self.end {
            match self.state.geometry.layout {
                Layout::Aligned => {
                    if !self.is_blank(offset)? {
                        trace = Some((offset + 4096).min(self.end));
                    }
                    offset += 4096;
                }
                Layout::Packed => {
                    let bytes = self.window.bytes(offset, 64 * 1024)?;
                    if bytes.is_empty() {
                        break;
                    }
                    if let Some(at) = bytes.iter().rposition(|&byte| byte != 0) {
                        trace = Some(offset + u32::try_from(at).unwrap_or(0) + 1);
                    }
                    offset += u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                }
            }
        }
        Ok(trace)
    }

    /// The next segment names the last frame before it; another one there is a broken chain.
    fn check_successor(&mut self) {
        let Some(successor) = self.successor else { return };
        if successor.first_frame == self.state.next_frame
            && successor.previous_checksum != self.state.last_checksum
        {
            self.note_broken_chain(self.state.offset, successor.first_frame.get());
        }
    }
}

impl Witness {
    fn of(header: &FrameHeader, offset: u32, in_place: bool) -> Self {
        Self {
            offset,
            number: header.number.get(),
            first_position: header.first_position,
            truncations: header.truncations,
            lowest_truncated: header.lowest_truncated,
            previous_checksum: header.previous_checksum,
            in_place,
        }
    }

    /// What a footer tells about the frames it covers; behind it they may go on.
    pub(crate) fn footer(footer: &Footer) -> Self {
        Self {
            offset: footer.end_offset,
            number: footer.last_frame + 1,
            first_position: footer.next_position,
            truncations: footer.truncations,
            lowest_truncated: footer.lowest_truncated,
            previous_checksum: footer.last_checksum,
            in_place: true,
        }
    }

    fn successor(header: &SegmentHeader, end: u32) -> Self {
        Self {
            offset: end,
            number: header.first_frame.get(),
            first_position: header.first_position,
            truncations: header.truncations,
            lowest_truncated: header.lowest_truncated,
            previous_checksum: header.previous_checksum,
            in_place: false,
        }
    }
}
