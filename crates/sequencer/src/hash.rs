//! Hashing a workspace and a sequence, for the tables of this crate.
//!
//! Ids are chosen by users, so that the hash is keyed: whoever does not know the seed cannot choose ids that collide.

use gapless_types::{SequenceId, WorkspaceId};

/// An odd number without a pattern in its bits: those of the golden ratio.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The key of a hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HashSeed(u64);

impl HashSeed {
    pub(crate) fn new(seed: u64) -> Self {
        Self(mixed(seed, GOLDEN))
    }

    /// Every bit of the result depends on every bit of both ids.
    #[inline]
    pub(crate) fn hash(self, workspace: WorkspaceId, sequence: SequenceId) -> u64 {
        let key = workspace.get() ^ self.0;
        mixed(key, GOLDEN ^ u64::from(sequence.get()).wrapping_mul(0xD6E8_FEB8_6659_FD93))
    }
}

/// The two halves of a full product, folded: the cheapest mixing a 64-bit machine has.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "both halves are taken")]
fn mixed(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    let folded = (product as u64) ^ ((product >> 64) as u64);
    folded ^ folded.rotate_left(32)
}

/// Pseudo-random numbers from a seed, for jitter. Every seed, also 0, gives a good sequence.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        value ^ (value >> 31)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn neighbours_do_not_collide() {
        let seed = HashSeed::new(7);
        let hashes: HashSet<u64> = (0..1000)
            .flat_map(|workspace| (0..10).map(move |sequence| (workspace, sequence)))
            .map(|(workspace, sequence)| seed.hash(WorkspaceId::new(workspace), SequenceId::new(sequence)))
            .collect();
        assert_eq!(hashes.len(), 10_000);
    }

    /// Tables choose a bucket by the lowest bits and compare the highest seven.
    #[test]
    fn low_and_high_bits_are_spread_evenly() {
        let seed = HashSeed::new(0);
        let (mut low, mut high) = ([0_u32; 128], [0_u32; 128]);
        for workspace in 0..128_000 {
            let hash = seed.hash(WorkspaceId::new(workspace), SequenceId::new(1));
            low[usize::try_from(hash & 127).unwrap()] += 1;
            high[usize::try_from(hash >> 57).unwrap()] += 1;
        }
        for count in low.into_iter().chain(high) {
            assert!((800..1200).contains(&count), "{count} of 1000 expected");
        }
    }
}
