//! A record: a header of 24 bytes and its payload, padded with zeros to a multiple of 8.
//!
//! ```text
//!   0  4  length of the payload as stored     10  2  zero
//!   4  4  CRC32C                              12  4  length of the payload as appended
//!   8  1  type                                16  8  position
//!   9  1  flags: bit 0, compressed (zstd)     24     payload
//! ```
//! The CRC starts with the log's id and covers header and stored payload without itself and the padding.

use gapless_types::Position;
use gapless_types::limits::MAX_RECORD_BYTES;

use super::{RECORD_ALIGNMENT, RECORD_HEADER_BYTES, Salt, get, put};

/// What a record is. Types other than `Data` are the log's own and never reach a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordType {
    /// Appended by the user.
    Data = 1,
    /// A value of the small state that is repeated in every segment; its position is the key.
    State = 2,
    /// Everything from its position on is void.
    Truncate = 3,
    /// Everything below its position is no longer needed.
    Release = 4,
    /// A tail was dropped at its position when the log was opened, or that is settled.
    Suspect = 5,
    /// An operator accepted the loss of what stood from its position on.
    Loss = 6,
    /// What stood at its position, restored after damage.
    Repair = 7,
}

impl RecordType {
    fn from_code(code: u8) -> Option<Self> {
        [Self::Data, Self::State, Self::Truncate, Self::Release, Self::Suspect, Self::Loss, Self::Repair]
            .into_iter()
            .find(|&kind| kind as u8 == code)
    }
}

const COMPRESSED: u8 = 1;

/// The payload of a record as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored<'a> {
    /// As it was appended.
    Plain(&'a [u8]),
    /// A zstd frame of a payload of this length.
    Compressed(&'a [u8], u32),
}

/// A record in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawRecord<'a> {
    /// What it is.
    pub kind: RecordType,
    /// Its position, or what its type makes of it.
    pub position: Position,
    /// What it holds.
    pub payload: Stored<'a>,
}

/// Why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotARecord {
    /// Fewer bytes than the record says, or than a header has.
    Short,
    /// The checksum does not match.
    Damaged,
    /// The checksum matches, and the type is one that this program does not know.
    UnknownType(u8),
    /// The checksum matches, and the flags, lengths or position are not those of this version.
    UnknownForm,
}

impl<'a> RawRecord<'a> {
    /// Reads the record at the start of `bytes`; also returns how many bytes it takes with its padding.
    pub fn decode(salt: Salt, bytes: &'a [u8]) -> Result<(Self, usize), NotARecord> {
        let header = bytes.get(..RECORD_HEADER_BYTES).ok_or(NotARecord::Short)?;
        let length = get::u32(header, 0);
        if length > MAX_RECORD_BYTES {
            return Err(NotARecord::Damaged);
        }
        let end = RECORD_HEADER_BYTES + length as usize;
        let covered = bytes.get(8..end).ok_or(NotARecord::Short)?;
        if get::u32(header, 4) != salt.checksum(&[&header[..4], covered]) {
            return Err(NotARecord::Damaged);
        }
        let kind = RecordType::from_code(header[8]).ok_or(NotARecord::UnknownType(header[8]))?;
        let plain_length = get::u32(header, 12);
        let stored = &bytes[RECORD_HEADER_BYTES..end];
        let payload = match header[9] {
            0 if plain_length == length => Stored::Plain(stored),
            COMPRESSED if plain_length <= MAX_RECORD_BYTES => Stored::Compressed(stored, plain_length),
            _ => return Err(NotARecord::UnknownForm),
        };
        if header[10..12] != [0, 0] {
            return Err(NotARecord::UnknownForm);
        }
        let position = get::position(header, 16).ok_or(NotARecord::UnknownForm)?;
        Ok((RawRecord { kind, position, payload }, end.next_multiple_of(RECORD_ALIGNMENT)))
    }

    /// Appends the record and its padding to `body`.
    pub fn encode(&self, salt: Salt, body: &mut Vec<u8>) {
        let (stored, flags, plain_length) = match self.payload {
            Stored::Plain(bytes) => (bytes, 0, length_of(bytes)),
            Stored::Compressed(bytes, plain_length) => (bytes, COMPRESSED, plain_length),
        };
        let mut header = [0; RECORD_HEADER_BYTES];
        put::u32(&mut header, 0, length_of(stored));
        header[8] = self.kind as u8;
        header[9] = flags;
        put::u32(&mut header, 12, plain_length);
        put::u64(&mut header, 16, self.position.get());
        let checksum = salt.checksum(&[&header[..4], &header[8..], stored]);
        put::u32(&mut header, 4, checksum);
        body.extend_from_slice(&header);
        body.extend_from_slice(stored);
        body.resize(body.len().next_multiple_of(RECORD_ALIGNMENT), 0);
    }
}

/// Bytes that a record with a stored payload of this length takes in a body.
pub const fn record_bytes(stored: usize) -> usize {
    (RECORD_HEADER_BYTES + stored).next_multiple_of(RECORD_ALIGNMENT)
}

fn length_of(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("payloads are checked against MAX_RECORD_BYTES before they are encoded")
}

/// The payload as it was appended; `None` when it does not decompress to what its header says.
pub fn unpack(compressed: &[u8], plain_length: u32) -> Option<Vec<u8>> {
    let plain = zstd::bulk::decompress(compressed, plain_length as usize).ok()?;
    (plain.len() == plain_length as usize).then_some(plain)
}

/// The records of a body, in order. Ends after the first thing that is not a record.
pub fn records(
    salt: Salt,
    body: &[u8],
) -> impl Iterator<Item = Result<(usize, RawRecord<'_>, usize), NotARecord>> {
    let mut at = 0;
    let mut failed = false;
    std::iter::from_fn(move || {
        if failed || at >= body.len() {
            return None;
        }
        match RawRecord::decode(salt, &body[at..]) {
            Ok((record, taken)) => {
                let start = at;
                at += taken;
                Some(Ok((start, record, taken)))
            }
            Err(reason) => {
                failed = true;
                Some(Err(reason))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::LogId;
    use super::*;

    fn salt() -> Salt {
        LogId::from_bytes([3; 16]).salt()
    }

    fn encoded(record: &RawRecord<'_>) -> Vec<u8> {
        let mut body = Vec::new();
        record.encode(salt(), &mut body);
        body
    }

    #[test]
    fn a_record_comes_back_as_it_was_and_no_flipped_bit_outside_the_padding_passes() {
        let record = RawRecord {
            kind: RecordType::Data,
            position: Position::new(77),
            payload: Stored::Plain(b"invoice 12"),
        };
        let bytes = encoded(&record);
        assert_eq!(bytes.len(), record_bytes(10));
        assert_eq!(RawRecord::decode(salt(), &bytes), Ok((record, 40)));
        for bit in 0..(RECORD_HEADER_BYTES + 10) * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(RawRecord::decode(salt(), &flipped).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn an_empty_record_is_a_record() {
        let record =
            RawRecord { kind: RecordType::Data, position: Position::new(1), payload: Stored::Plain(b"") };
        assert_eq!(RawRecord::decode(salt(), &encoded(&record)), Ok((record, RECORD_HEADER_BYTES)));
    }

    #[test]
    fn an_unknown_type_is_not_mistaken_for_damage() {
        let record =
            RawRecord { kind: RecordType::Data, position: Position::new(1), payload: Stored::Plain(b"x") };
        let mut bytes = encoded(&record);
        bytes[8] = 99;
        assert_eq!(RawRecord::decode(salt(), &bytes), Err(NotARecord::Damaged));
        let checksum = salt().checksum(&[&bytes[..4], &bytes[8..25]]);
        put::u32(&mut bytes, 4, checksum);
        assert_eq!(RawRecord::decode(salt(), &bytes), Err(NotARecord::UnknownType(99)));
    }

    #[test]
    fn unpacking_never_yields_more_than_the_header_promised() {
        let packed = zstd::bulk::compress(&[5; 100_000], 1).unwrap();
        assert_eq!(unpack(&packed, 100_000), Some(vec![5; 100_000]));
        assert_eq!(unpack(&packed, 99_999), None);
        assert_eq!(unpack(&packed, 100_001), None);
        assert_eq!(unpack(b"no zstd frame", 5), None);
    }
}
