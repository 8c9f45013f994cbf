//! The checkpoint file: which runs are the state, at which offset of the owner's log, and what the buckets hold.
//!
//! ```text
//! | "GAPLESSC" | version: u32 | CRC: u32 | offset: u64 | number: u64 | next file: u64 | buckets: u32 | runs: u32 |
//! bucket: | id: u64 | rows: u64 |
//! run:    | space: u32, 0 main, 1 bucket | trailer CRC: u32 | bucket: u64 | file: u64 | length: u64 | born: u64 |
//! ```
//!
//! Runs of one space stand together, the newest first.
//!
//! Must not know: files, how runs look inside.

use std::collections::BTreeMap;

use super::{FORMAT_VERSION, Input, Malformed, field};
use crate::position::{BucketId, Offset, Space};

const MAGIC: &[u8; 8] = b"GAPLESSC";
const PREFIX_BYTES: usize = 16;

/// A run as the checkpoint names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunEntry {
    pub(crate) space: Space,
    /// Number of its file.
    pub(crate) file: u64,
    /// Length of its file.
    pub(crate) length: u64,
    /// The last four bytes of its file: a run of another store under the same name does not pass.
    pub(crate) trailer_checksum: u32,
    /// Number of the checkpoint that first named it.
    pub(crate) born: u64,
}

/// A decoded checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub(crate) offset: Offset,
    /// Counts the files of this kind that the store has published.
    pub(crate) number: u64,
    /// All file numbers from here on are unused.
    pub(crate) next_file: u64,
    pub(crate) buckets: BTreeMap<BucketId, u64>,
    pub(crate) runs: Vec<RunEntry>,
}

/// What the bytes of a checkpoint file are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decoded {
    Known(Checkpoint),
    /// Intact, and of a format that we do not know.
    Unknown(u32),
}

impl Checkpoint {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        for number in [self.offset.get(), self.number, self.next_file] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for count in [self.buckets.len(), self.runs.len()] {
            bytes.extend_from_slice(&field(count).to_le_bytes());
        }
        for (bucket, rows) in &self.buckets {
            bytes.extend_from_slice(&bucket.0.to_le_bytes());
            bytes.extend_from_slice(&rows.to_le_bytes());
        }
        for run in &self.runs {
            let (kind, bucket): (u32, u64) = match run.space {
                Space::Main => (0, 0),
                Space::Bucket(bucket) => (1, bucket.0),
            };
            bytes.extend_from_slice(&kind.to_le_bytes());
            bytes.extend_from_slice(&run.trailer_checksum.to_le_bytes());
            for number in [bucket, run.file, run.length, run.born] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
        }
        let sum = checksum_of(&bytes);
        bytes[12..PREFIX_BYTES].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Decoded, Malformed> {
        let mut input = Input::new(bytes);
        let magic = input.take(8)?;
        let (version, sum) = (input.u32()?, input.u32()?);
        if magic != MAGIC || sum != checksum_of(bytes) {
            return Err(Malformed("the checkpoint does not match its checksum"));
        }
        if version != FORMAT_VERSION {
            return Ok(Decoded::Unknown(version));
        }
        let (offset, number, next_file) = (Offset::new(input.u64()?), input.u64()?, input.u64()?);
        let (bucket_count, run_count) = (input.u32()?, input.u32()?);
        let mut buckets = BTreeMap::new();
        for _ in 0..bucket_count {
            buckets.insert(BucketId(input.u64()?), input.u64()?);
        }
        let mut runs = Vec::new();
        for _ in 0..run_count {
            let (kind, trailer_checksum) = (input.u32()?, input.u32()?);
            let bucket = BucketId(input.u64()?);
            let space = match kind {
                0 => Space::Main,
                1 if buckets.contains_key(&bucket) => Space::Bucket(bucket),
                _ => return Err(Malformed("a run of a space that is not there")),
            };
            let (file, length, born) = (input.u64()?, input.u64()?, input.u64()?);
            runs.push(RunEntry { space, file, length, trailer_checksum, born });
        }
        input.end()?;
        Ok(Decoded::Known(Self { offset, number, next_file, buckets, runs }))
    }
}

/// Over everything but the field itself. `bytes` is at least as long as the prefix.
fn checksum_of(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[PREFIX_BYTES..])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample() -> Checkpoint {
        let run = |space, file| RunEntry { space, file, length: 500, trailer_checksum: 77, born: 2 };
        Checkpoint {
            offset: Offset::new(42),
            number: 3,
            next_file: 9,
            buckets: [(BucketId(5), 10), (BucketId(6), 0)].into(),
            runs: vec![run(Space::Main, 8), run(Space::Bucket(BucketId(5)), 7)],
        }
    }

    #[test]
    fn a_checkpoint_survives_the_way_through_bytes() {
        assert_eq!(Checkpoint::decode(&sample().encode()), Ok(Decoded::Known(sample())));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let bytes = sample().encode();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Checkpoint::decode(&damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_newer_version_is_told_from_damage() {
        let mut bytes = sample().encode();
        bytes[8] = 2;
        let sum = checksum_of(&bytes);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(Checkpoint::decode(&bytes), Ok(Decoded::Unknown(2)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_checkpoint_or_an_error(
            mut bytes in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let _ = Checkpoint::decode(&bytes);
            if bytes.len() >= PREFIX_BYTES {
                bytes[..8].copy_from_slice(MAGIC);
                bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
                let sum = checksum_of(&bytes);
                bytes[12..16].copy_from_slice(&sum.to_le_bytes());
                let _ = Checkpoint::decode(&bytes);
            }
        }
    }
}
