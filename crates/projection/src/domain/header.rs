//! Where a domain stands: the one row that says what the others are valid at.

use bytes::BufMut;
use gapless_log::input::{Input, Malformed};
use gapless_types::LogIndex;

use crate::codec::Take;
use crate::counters::Counters;
use crate::domain::Place;

const VERSION: u8 = 1;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    /// The last input that was applied.
    pub(super) place: Option<Place>,
    /// Entries of which every input was given: all with a lower index.
    pub(super) entries: u64,
    /// Log time.
    pub(super) clock: u64,
    /// What is added to the leader's clock.
    pub(super) offset: i64,
    pub(super) watermark: u64,
    pub(super) tail: u64,
    /// The last token that was issued.
    pub(super) token: u64,
    pub(super) is_halted: bool,
    /// Keys that are parked.
    pub(super) parked: u64,
    pub(super) counters: Counters,
}

impl Header {
    /// Whether an input was applied already.
    pub(super) fn contains(&self, place: Place) -> bool {
        place.index.get() < self.entries || self.place.is_some_and(|last| place <= last)
    }

    /// Entries that are not needed again: of the one with the last input more may come.
    pub(super) fn whole_entries(&self) -> u64 {
        self.entries.max(self.place.map_or(0, |place| place.index.get()))
    }

    pub(super) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.clear();
        bytes.put_u8(VERSION);
        bytes.put_u8(u8::from(self.place.is_some()));
        bytes.put_u64_le(self.place.map_or(0, |place| place.index.get()));
        bytes.put_u32_le(self.place.map_or(0, |place| place.position));
        bytes.put_u64_le(self.entries);
        bytes.put_u64_le(self.clock);
        bytes.extend_from_slice(&self.offset.to_le_bytes());
        bytes.put_u64_le(self.watermark);
        bytes.put_u64_le(self.tail);
        bytes.put_u64_le(self.token);
        bytes.put_u8(u8::from(self.is_halted));
        bytes.put_u64_le(self.parked);
        self.counters.encode(bytes);
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Input::new(bytes);
        if input.u8()? != VERSION {
            return Err(Malformed("a header of an unknown version"));
        }
        let has_place = input.flag()?;
        let place = Place { index: LogIndex::new(input.u64()?), position: input.u32()? };
        let header = Self {
            place: has_place.then_some(place),
            entries: input.u64()?,
            clock: input.u64()?,
            offset: i64::from_le_bytes(input.array()?),
            watermark: input.u64()?,
            tail: input.u64()?,
            token: input.u64()?,
            is_halted: input.flag()?,
            parked: input.u64()?,
            counters: Counters::decode(&mut input)?,
        };
        input.end()?;
        Ok(header)
    }
}
