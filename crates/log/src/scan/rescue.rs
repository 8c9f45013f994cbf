//! Saves the records that are good among the bytes of damaged frames.
//!
//! What keeps strangers out: a record's checksum starts with the log's id, so that no payload passes for a record;
//! positions must ascend within the gap; and frames that lie where they do not belong are stepped over with all their
//! records.
//!
//! Once a log has truncated, there are void records with positions that others have now, and a misdirected block may bring
//! one here without its frame. Then only the records in front of the first bad one are believed, in a frame whose header
//! is good and in its place: they follow each other from where they must begin.

use std::io;

use super::{Scan, Witness};
use crate::format::control::Control;
use crate::format::frame::FrameHeader;
use crate::format::record::{RawRecord, RecordType};
use crate::format::{FRAME_HEADER_LENGTH, RECORD_HEADER_BYTES, RECORD_HEADER_LENGTH};
use crate::index::{Override, advance};
use crate::segment_state::Controls;

/// What was saved.
#[derive(Debug, Default)]
pub(super) struct Rescued {
    /// Data records, in order of their positions.
    pub(super) data: Vec<Override>,
    /// How many records were good, those of the log's own included.
    pub(super) count: u64,
}

impl Scan<'_> {
    /// Looks through everything from the current place to the witness. `header` is that of the first damaged frame, if it
    /// is good: only inside its body are records of the log's own believed.
    pub(super) fn rescue(
        &mut self,
        header: Option<&FrameHeader>,
        witness: &Witness,
        controls: &mut Controls,
    ) -> io::Result<Rescued> {
        if self.state.truncations != 0 || witness.truncations != 0 {
            return self.rescue_in_front(header, witness, controls);
        }
        let mut rescued = Rescued::default();
        let mut expected = self.state.next_position;
        let believed_until = header.map_or(0, |header| {
            header.offset.saturating_add(FRAME_HEADER_LENGTH).saturating_add(header.body_length)
        });
        let mut offset = self.state.offset;
        while offset + 8 <= witness.offset {
            if let Some(end) = self.end_of_displaced_frame(offset)? {
                offset = end;
                continue;
            }
            let Some((kind, position, length)) =
                self.record_at(offset, witness.offset, believed_until, controls)?
            else {
                offset += 8;
                continue;
            };
            let entry = Override { position, offset, length };
            match kind {
                RecordType::Data if position >= expected && position < witness.first_position => {
                    expected = advance(position, 1);
                    rescued.data.push(entry);
                    rescued.count += 1;
                }
                RecordType::Data => {}
                RecordType::Repair if offset < believed_until => {
                    self.state.index.overrides.push(entry);
                    rescued.count += 1;
                }
                _ => rescued.count += u64::from(offset < believed_until),
            }
            offset += length;
        }
        Ok(rescued)
    }

    /// Takes the records of a frame up to the first bad one.
    fn rescue_in_front(
        &mut self,
        header: Option<&FrameHeader>,
        witness: &Witness,
        controls: &mut Controls,
    ) -> io::Result<Rescued> {
        let mut rescued = Rescued::default();
        let Some(header) = header else { return Ok(rescued) };
        let mut offset = header.offset.saturating_add(FRAME_HEADER_LENGTH);
        let end = offset.saturating_add(header.body_length).min(witness.offset);
        let mut expected = self.state.next_position;
        while offset < end {
            let Some((kind, position, length)) = self.record_at(offset, end, end, controls)? else { break };
            let entry = Override { position, offset, length };
            match kind {
                RecordType::Data if position == expected && position < witness.first_position => {
                    expected = advance(position, 1);
                    rescued.data.push(entry);
                }
                RecordType::Data => break,
                RecordType::Repair => self.state.index.overrides.push(entry),
                _ => {}
            }
            rescued.count += 1;
            offset += length;
        }
        Ok(rescued)
    }

    /// Where a good frame ends that says it belongs elsewhere.
    fn end_of_displaced_frame(&mut self, offset: u32) -> io::Result<Option<u32>> {
        let (segment, layout) = (self.state.number, self.state.geometry.layout);
        let bytes = self.window.bytes(offset, FRAME_HEADER_LENGTH)?;
        Ok(FrameHeader::end_of_stray(self.salt, bytes, segment, offset, layout))
    }

    /// The record at a place, if there is a good one; those of the log's own are applied where they are believed.
    fn record_at(
        &mut self,
        offset: u32,
        end: u32,
        believed_until: u32,
        controls: &mut Controls,
    ) -> io::Result<Option<(RecordType, gapless_types::Position, u32)>> {
        let available = end - offset;
        let head = self.window.bytes(offset, RECORD_HEADER_LENGTH.min(available))?;
        let Some(length) = plausible_length(head, available) else { return Ok(None) };
        let bytes = self.window.bytes(offset, length)?;
        let Ok((record, taken)) = RawRecord::decode(self.salt, bytes) else { return Ok(None) };
        if offset < believed_until
            && let Some(control) = Control::decode(&record)
        {
            controls.apply(&control);
        }
        let taken = u32::try_from(taken).expect("a record is smaller than a segment");
        Ok(Some((record.kind, record.position, taken)))
    }
}

/// The stored length of a record with its header, if the header could be one. Random bytes almost never get past type,
/// flags and the zeros, so that no time goes into their checksums.
fn plausible_length(head: &[u8], available: u32) -> Option<u32> {
    if head.len() < RECORD_HEADER_BYTES
        || !(1..=7).contains(&head[8])
        || head[9] > 1
        || head[10..12] != [0, 0]
    {
        return None;
    }
    let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    let total = length.checked_add(RECORD_HEADER_LENGTH)?;
    (total <= available).then_some(total)
}
