//! NUM-3: the same log prefix gives the same numbers, bytes and state on every replica and on every replay.
//!
//! What one node said once at a place of a partition is what every node says there for ever: the bytes of every outcome, and the
//! digest of all rows at every outcome at which somebody looked.
//!
//! Must not know: what outcomes mean.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use gapless_consensus::NodeId;
use gapless_partition::{StoredOutcome, View};
use gapless_types::{PartitionId, PartitionOffset};
use twox_hash::XxHash3_64;

/// What was read at each place.
#[derive(Debug, Default)]
pub(crate) struct Num3 {
    outcomes: BTreeMap<PartitionId, Vec<(StoredOutcome, NodeId)>>,
    digests: BTreeMap<(PartitionId, PartitionOffset), (u64, NodeId)>,
}

/// Whether an outcome was known before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It is the first look at this place, which is the next one.
    New,
    /// It is what was there before.
    Before,
}

impl Num3 {
    /// Somebody read an outcome.
    pub(crate) fn outcome(
        &mut self,
        node: NodeId,
        partition: PartitionId,
        outcome: &StoredOutcome,
    ) -> Result<Seen, String> {
        let offset = outcome.header().partition_offset;
        let known = self.outcomes.entry(partition).or_default();
        let place = usize::try_from(offset.get() - 1).unwrap_or(usize::MAX);
        match known.get(place) {
            Some((first, _)) if first.bytes() == outcome.bytes() => Ok(Seen::Before),
            Some((_, who)) => Err(format!(
                "partition {partition}, outcome {}: node {node} has another one than node {who} had",
                offset.get()
            )),
            None if place == known.len() => {
                known.push((outcome.clone(), node));
                Ok(Seen::New)
            }
            None => {
                Err(format!("partition {partition}: outcome {} is read before those in front", offset.get()))
            }
        }
    }

    /// What stands at a place, if somebody has read it.
    pub(crate) fn at(&self, partition: PartitionId, offset: PartitionOffset) -> Option<StoredOutcome> {
        let place = usize::try_from(offset.get() - 1).ok()?;
        self.outcomes.get(&partition)?.get(place).map(|(outcome, _)| outcome.clone())
    }

    /// How many outcomes of a partition are known.
    pub(crate) fn known(&self, partition: PartitionId) -> u64 {
        self.outcomes.get(&partition).map_or(0, |known| known.len() as u64)
    }

    /// How many outcomes are known.
    pub(crate) fn count(&self) -> usize {
        self.outcomes.values().map(Vec::len).sum()
    }

    /// Compares all rows of a view with those of every other view at the same outcome.
    pub(crate) fn rows(&mut self, node: NodeId, view: &View) -> Result<(), String> {
        let Some(applied) = view.applied() else { return Ok(()) };
        let mut digest = 0;
        for row in view.rows() {
            let (space, key, value) = row.map_err(|error| format!("a row cannot be read: {error}"))?;
            digest = XxHash3_64::oneshot_with_seed(digest, format!("{space:?}").as_bytes());
            digest = XxHash3_64::oneshot_with_seed(digest, &key);
            digest = XxHash3_64::oneshot_with_seed(digest, &value);
        }
        match self.digests.entry((view.partition(), applied)) {
            Entry::Vacant(place) => {
                place.insert((digest, node));
                Ok(())
            }
            Entry::Occupied(known) if known.get().0 == digest => Ok(()),
            Entry::Occupied(known) => Err(format!(
                "partition {} at outcome {}: the rows of node {node} differ from those of node {}",
                view.partition(),
                applied.get(),
                known.get().1
            )),
        }
    }
}
