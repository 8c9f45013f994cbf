//! What one segment holds after its frames were folded in, one by one; and the log's own records as they stand.
//!
//! The writer keeps one for the segment it writes, recovery builds one for each segment from footer or frames, and a
//! footer is one on disk: three ways to the same value.
//!
//! Must not know: files, threads.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use bytes::Bytes;
use gapless_types::{FrameNumber, Position, SegmentNumber};

use crate::damage::Damage;
use crate::format::control::{Control, Loss, StateKey, Suspect};
use crate::format::footer::Footer;
use crate::format::frame::FrameHeader;
use crate::format::record::{RecordType, records};
use crate::format::segment::SegmentHeader;
use crate::format::{FRAME_HEADER_BYTES, Geometry, Salt};
use crate::index::{Extent, Override, SegmentIndex, advance};

/// One segment after some of its frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SegmentState {
    /// Which segment.
    pub(crate) number: SegmentNumber,
    /// Its file's parts.
    pub(crate) geometry: Geometry,
    /// Where the next frame goes.
    pub(crate) offset: u32,
    /// Number of the next frame.
    pub(crate) next_frame: FrameNumber,
    /// Checksum of the last frame, or of the one before the segment.
    pub(crate) last_checksum: u32,
    /// The next position.
    pub(crate) next_position: Position,
    /// Truncations of the log so far.
    pub(crate) truncations: u32,
    /// The lowest position truncated in this segment.
    pub(crate) lowest_truncated: Option<Position>,
    /// The lowest position truncated in the two segments before, as the header tells.
    pub(crate) inherited_lowest: Option<Position>,
    /// The lowest position truncated in the segment before; that of the two before where it is not known alone.
    pub(crate) lowest_before: Option<Position>,
    /// Where the positions are.
    pub(crate) index: SegmentIndex,
    /// Bytes behind the last frame were dropped as torn: nothing may be written there.
    pub(crate) tail_dropped: bool,
    /// A frame that may have held state records was damaged.
    pub(crate) state_in_doubt: bool,
}

/// A frame whose records make no sense together although every checksum matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Senseless;

impl SegmentState {
    /// A segment without frames.
    pub(crate) fn new(header: &SegmentHeader) -> Self {
        Self {
            number: header.number,
            geometry: header.geometry,
            offset: Geometry::CONTENT_START,
            next_frame: header.first_frame,
            last_checksum: header.previous_checksum,
            next_position: header.first_position,
            truncations: header.truncations,
            lowest_truncated: None,
            inherited_lowest: header.lowest_truncated,
            lowest_before: header.lowest_truncated,
            index: SegmentIndex::default(),
            tail_dropped: false,
            state_in_doubt: false,
        }
    }

    /// As far as a footer tells.
    pub(crate) fn from_footer(header: &SegmentHeader, footer: Footer) -> Option<Self> {
        let next_frame = FrameNumber::new(footer.last_frame.checked_add(1)?)?;
        let sound = footer.end_offset >= Geometry::CONTENT_START
            && footer.end_offset <= header.geometry.content_end()
            && footer.end_offset.is_multiple_of(header.geometry.layout.alignment())
            && next_frame >= header.first_frame;
        sound.then(|| Self {
            offset: footer.end_offset,
            next_frame,
            last_checksum: footer.last_checksum,
            next_position: footer.next_position,
            truncations: footer.truncations,
            lowest_truncated: footer.lowest_truncated,
            index: footer.index,
            tail_dropped: footer.tail_dropped,
            state_in_doubt: footer.state_in_doubt,
            ..Self::new(header)
        })
    }

    /// The footer that says so.
    pub(crate) fn footer(&self, sealed: bool, controls: Vec<u8>) -> Footer {
        Footer {
            segment: self.number,
            sealed,
            tail_dropped: self.tail_dropped,
            state_in_doubt: self.state_in_doubt,
            last_frame: self.next_frame.get() - 1,
            end_offset: self.offset,
            last_checksum: self.last_checksum,
            truncations: self.truncations,
            next_position: self.next_position,
            lowest_truncated: self.lowest_truncated,
            index: self.index.clone(),
            controls,
        }
    }

    /// Bytes left for frames.
    pub(crate) fn room(&self) -> u32 {
        if self.tail_dropped { 0 } else { self.geometry.content_end().saturating_sub(self.offset) }
    }

    /// The lowest position truncated here or in the two segments before: what a frame tells.
    pub(crate) fn lowest_truncated_nearby(&self) -> Option<Position> {
        lower(self.lowest_truncated, self.inherited_lowest)
    }

    /// The lowest position truncated here or in the segment before: what the header of the next segment tells. Older ones
    /// are not handed on, or one truncation long ago would make a lost one void all that came since.
    pub(crate) fn lowest_for_next_segment(&self) -> Option<Position> {
        lower(self.lowest_truncated, self.lowest_before)
    }

    /// Cuts off everything from `from` on.
    pub(crate) fn truncate(&mut self, from: Position) {
        self.index.truncate(from);
        self.lowest_truncated = Some(self.lowest_truncated.map_or(from, |lowest| lowest.min(from)));
        self.truncations = self.truncations.wrapping_add(1);
        self.next_position = from;
    }

    /// Takes in data records that follow the next position.
    pub(crate) fn add_data(&mut self, frame: Extent, repositioned: bool) {
        self.index.add_frame(frame, repositioned);
        self.next_position = self.next_position.max(frame.end());
    }

    /// Moves behind a frame.
    pub(crate) fn advance(&mut self, header: &FrameHeader, checksum: u32) {
        self.offset = header.offset + self.geometry.layout.frame_bytes(header.body_length);
        self.next_frame = header.number.next().expect("frame numbers end long before 64 bits do");
        self.last_checksum = checksum;
    }

    /// Folds in a frame that was read back, whose checksums all match. Unknown records are the caller's to refuse first.
    pub(crate) fn fold(
        &mut self,
        salt: Salt,
        header: &FrameHeader,
        checksum: u32,
        body: &[u8],
        controls: &mut Controls,
    ) -> Result<(), Senseless> {
        let length = self.geometry.layout.frame_bytes(header.body_length);
        let mut data = Extent { first: self.next_position, count: 0, offset: header.offset, length };
        let mut repositioned = false;
        for record in records(salt, body) {
            let (at, record, taken) = record.map_err(|_| Senseless)?;
            let offset = header.offset + to_u32(FRAME_HEADER_BYTES + at);
            match record.kind {
                RecordType::Data => {
                    if record.position != data.end() {
                        return Err(Senseless);
                    }
                    data.count += 1;
                }
                RecordType::Repair => self.index.overrides.push(Override {
                    position: record.position,
                    offset,
                    length: to_u32(taken),
                }),
                _ => {
                    let control = Control::decode(&record).ok_or(Senseless)?;
                    if let Some(next) = self.reposition(&control, data.end()) {
                        if data.count > 0 {
                            return Err(Senseless);
                        }
                        data.first = next;
                        repositioned = true;
                    }
                    controls.apply(&control);
                }
            }
        }
        self.add_data(data, repositioned);
        self.advance(header, checksum);
        Ok(())
    }

    /// Follows a record that moves the end of the log, which is at `end`; the next position then.
    fn reposition(&mut self, control: &Control<'_>, end: Position) -> Option<Position> {
        match *control {
            Control::Truncate(from) => self.truncate(from),
            Control::Release(first, _) if first > end => self.next_position = first,
            _ => return None,
        }
        Some(self.next_position)
    }
}

fn lower(one: Option<Position>, other: Option<Position>) -> Option<Position> {
    one.into_iter().chain(other).min()
}

fn to_u32(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a frame is smaller than 4 GiB")
}

/// The log's own records as they stand: repeated at the start of each segment, so that no segment before is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Controls {
    /// The small state.
    pub(crate) states: BTreeMap<StateKey, Bytes>,
    /// First position that is kept.
    pub(crate) first: Position,
    /// First segment that is kept.
    pub(crate) first_segment: SegmentNumber,
    /// A dropped tail that nobody settled yet.
    pub(crate) suspect: Option<Suspect>,
    /// Losses that an operator accepted.
    pub(crate) losses: Vec<Loss>,
}

impl Controls {
    /// Those of a log that starts at `first`.
    pub(crate) fn new(first: Position) -> Self {
        Self {
            states: BTreeMap::new(),
            first,
            first_segment: SegmentNumber::FIRST,
            suspect: None,
            losses: Vec::new(),
        }
    }

    /// Takes in one record.
    pub(crate) fn apply(&mut self, control: &Control<'_>) {
        match *control {
            Control::State(key, value) => {
                self.states.insert(key, Bytes::copy_from_slice(value));
            }
            Control::Truncate(from) => {
                self.losses.retain_mut(|loss| {
                    loss.end = loss.end.min(from.max(loss.first));
                    true
                });
            }
            Control::Release(first, segment) => {
                self.first = self.first.max(first);
                self.first_segment = self.first_segment.max(segment);
                let first_segment = self.first_segment;
                self.losses.retain(|loss| loss.end > first || loss.last_segment >= first_segment);
            }
            Control::Suspect(suspect) => self.suspect = Some(suspect),
            Control::Settled => self.suspect = None,
            Control::Loss(loss) => {
                if !self.losses.contains(&loss) {
                    self.losses.push(loss);
                }
            }
        }
    }

    /// Takes in the controls of a footer; `false` if they are not of this version's form.
    pub(crate) fn apply_encoded(&mut self, salt: Salt, encoded: &[u8]) -> bool {
        records(salt, encoded).all(|record| {
            let control =
                record.ok().and_then(|(_, record, _)| Control::decode(&record).map(|c| self.apply(&c)));
            control.is_some()
        })
    }

    /// All of them as records of a body; also how many there are.
    pub(crate) fn encode(&self, salt: Salt) -> (Vec<u8>, u32) {
        let mut body = Vec::new();
        let mut count = 0;
        let mut put = |control: Control<'_>| {
            control.encode(salt, &mut body);
            count += 1;
        };
        put(Control::Release(self.first, self.first_segment));
        for (key, value) in &self.states {
            put(Control::State(*key, value));
        }
        put(self.suspect.map_or(Control::Settled, Control::Suspect));
        for loss in &self.losses {
            put(Control::Loss(*loss));
        }
        (body, count)
    }

    /// Whether a position was lost with an operator's consent.
    pub(crate) fn is_lost(&self, position: Position) -> bool {
        self.losses.iter().any(|loss| loss.first <= position && position < loss.end)
    }

    /// What is left of missing or short segments without those whose loss was accepted. The positions stay with the first
    /// segment.
    pub(crate) fn not_accepted(&self, damage: Damage) -> Vec<Damage> {
        let first = damage.segment;
        let mut open = vec![damage];
        for loss in &self.losses {
            let cut = |damage: Damage| {
                let Damage { segment, last_segment, .. } = damage;
                let in_front = loss.first_segment.previous().map(|last| segment..=last.min(last_segment));
                let behind = loss.last_segment.next().map(|first| first.max(segment)..=last_segment);
                let pieces = in_front.into_iter().chain(behind).filter(|piece| !piece.is_empty());
                let piece = |segments: RangeInclusive<SegmentNumber>| {
                    let keeps = *segments.start() == first;
                    Damage {
                        segment: *segments.start(),
                        last_segment: *segments.end(),
                        positions: if keeps { damage.positions.clone() } else { Vec::new() },
                        ..damage.clone()
                    }
                };
                pieces.map(piece).collect::<Vec<_>>()
            };
            open = open.into_iter().flat_map(cut).collect();
        }
        open
    }
}

/// The extent that a damaged range of positions leaves behind is a hole; what was rescued is not part of it.
pub(crate) fn holes_between(
    start: Position,
    end: Position,
    rescued: &[Override],
) -> Vec<std::ops::Range<Position>> {
    let mut holes = Vec::new();
    let mut at = start;
    for entry in rescued {
        if at < entry.position {
            holes.push(at..entry.position);
        }
        at = advance(entry.position, 1);
    }
    if at < end {
        holes.push(at..end);
    }
    holes
}
