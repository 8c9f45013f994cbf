//! Payloads of the log's own records, and what they mean.
//!
//! ```text
//! State     position = key           payload = value
//! Truncate  position = first void    payload empty
//! Release   position = first kept    payload = first segment kept (4)
//! Suspect   position = first dropped payload = segment (4), offset (4), frame (8); empty once settled
//! Loss      position = first lost    payload = first position kept behind (8), first (4) and last (4) segment
//! Repair    position = what it heals payload = the record's payload
//! ```

use gapless_types::{FrameNumber, Position, SegmentNumber};

use super::record::{RawRecord, RecordType, Stored};
use super::{Salt, get, put};

/// A key of the log's small state, such as a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateKey(pub u16);

/// A tail that was dropped when the log was opened. It may have been acknowledged before the disk damaged it, so whoever
/// votes must have passed `first_position` again before its word counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// The next position once the tail was dropped.
    pub first_position: Position,
    /// Where it lay.
    pub segment: SegmentNumber,
    /// Where in the segment it began.
    pub offset: u32,
    /// The number its frame had or would have had.
    pub frame: FrameNumber,
}

/// A loss that an operator accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// First position that is gone.
    pub first: Position,
    /// First position behind it that is there again.
    pub end: Position,
    /// First segment that was missing or short.
    pub first_segment: SegmentNumber,
    /// Last segment that was missing or short.
    pub last_segment: SegmentNumber,
}

/// A record of the log's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control<'a> {
    /// A value of the small state.
    State(StateKey, &'a [u8]),
    /// Everything from here on is void.
    Truncate(Position),
    /// Everything below is no longer needed; segments before this one are deleted.
    Release(Position, SegmentNumber),
    /// A tail was dropped.
    Suspect(Suspect),
    /// The suspicion is settled.
    Settled,
    /// An operator accepted a loss.
    Loss(Loss),
}

impl<'a> Control<'a> {
    /// What a record of the log's own says; `None` if its payload is not of this version's form.
    /// `Data` and `Repair` carry a user's payload and are not control records.
    pub fn decode(record: &RawRecord<'a>) -> Option<Self> {
        let Stored::Plain(payload) = record.payload else { return None };
        let position = record.position;
        match record.kind {
            RecordType::State => {
                u16::try_from(position.get()).ok().map(|key| Control::State(StateKey(key), payload))
            }
            RecordType::Truncate => payload.is_empty().then_some(Control::Truncate(position)),
            RecordType::Release => {
                let segment =
                    (payload.len() == 4).then(|| get::u32(payload, 0)).and_then(SegmentNumber::new)?;
                Some(Control::Release(position, segment))
            }
            RecordType::Suspect if payload.is_empty() => Some(Control::Settled),
            RecordType::Suspect => {
                let payload = (payload.len() == 16).then_some(payload)?;
                Some(Control::Suspect(Suspect {
                    first_position: position,
                    segment: SegmentNumber::new(get::u32(payload, 0))?,
                    offset: get::u32(payload, 4),
                    frame: FrameNumber::new(get::u64(payload, 8))?,
                }))
            }
            RecordType::Loss => {
                let payload = (payload.len() == 16).then_some(payload)?;
                Some(Control::Loss(Loss {
                    first: position,
                    end: get::position(payload, 0)?,
                    first_segment: SegmentNumber::new(get::u32(payload, 8))?,
                    last_segment: SegmentNumber::new(get::u32(payload, 12))?,
                }))
            }
            RecordType::Data | RecordType::Repair => None,
        }
    }

    /// Appends the record to `body`.
    pub fn encode(&self, salt: Salt, body: &mut Vec<u8>) {
        let mut payload = [0; 16];
        let (kind, position, payload): (_, _, &[u8]) = match *self {
            Control::State(key, value) => (RecordType::State, Position::new(u64::from(key.0)), value),
            Control::Truncate(from) => (RecordType::Truncate, from, &[]),
            Control::Release(first, segment) => {
                put::u32(&mut payload, 0, segment.get());
                (RecordType::Release, first, &payload[..4])
            }
            Control::Suspect(suspect) => {
                put::u32(&mut payload, 0, suspect.segment.get());
                put::u32(&mut payload, 4, suspect.offset);
                put::u64(&mut payload, 8, suspect.frame.get());
                (RecordType::Suspect, suspect.first_position, &payload)
            }
            Control::Settled => (RecordType::Suspect, Position::new(0), &[]),
            Control::Loss(loss) => {
                put::u64(&mut payload, 0, loss.end.get());
                put::u32(&mut payload, 8, loss.first_segment.get());
                put::u32(&mut payload, 12, loss.last_segment.get());
                (RecordType::Loss, loss.first, &payload)
            }
        };
        RawRecord { kind, position, payload: Stored::Plain(payload) }.encode(salt, body);
    }
}

#[cfg(test)]
mod tests {
    use super::super::LogId;
    use super::*;

    #[test]
    fn every_control_record_comes_back_as_it_was() {
        let salt = LogId::from_bytes([1; 16]).salt();
        let segment = SegmentNumber::new(9).unwrap();
        let controls = [
            Control::State(StateKey(7), b"vote"),
            Control::Truncate(Position::new(5)),
            Control::Release(Position::new(6), segment),
            Control::Suspect(Suspect {
                first_position: Position::new(8),
                segment,
                offset: 4096,
                frame: FrameNumber::new(3).unwrap(),
            }),
            Control::Settled,
            Control::Loss(Loss {
                first: Position::new(1),
                end: Position::new(4),
                first_segment: segment,
                last_segment: segment,
            }),
        ];
        for control in controls {
            let mut body = Vec::new();
            control.encode(salt, &mut body);
            let (record, taken) = RawRecord::decode(salt, &body).unwrap();
            assert_eq!(taken, body.len());
            assert_eq!(Control::decode(&record), Some(control));
        }
    }
}
