//! What the receiver of a snapshot has of it already, so that it need not be sent.
//!
//! A partition log holds outcomes of committed entries alone, and they are the same on every node (NUM-3): what one node has of it is the
//! beginning of what another has. A digest of the last few ties what is said to what is there; where it does not match, everything
//! is sent.
//!
//! ```text
//!  version 1 (1)
//!  count (4), for each partition: namespace (4), index (2), first (8), last (8), SHA-256 of the outcomes from `first` to `last` (32)
//!  count (4), for each domain: length of the name (1), name of the projection, version (4), namespace (4), index (2)
//! ```
//!
//! Invariants
//! - What is said to be held is on stable storage, and of entries that the snapshot has.
//! - Only partitions and domains that are well say anything.
//!
//! Must not know: how the bytes travel.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, TryGetError};
use gapless_consensus::limits::MAX_HELD_BYTES;
use gapless_partition::{Direction, Fault, View};
use gapless_types::{LogIndex, Name, NamespaceId, PartitionId, PartitionIndex, PartitionOffset};
use sha2::{Digest, Sha256};

use crate::node::Node;
use crate::projections::{DomainSlot, DomainState};
use crate::retention::Domain;
use crate::slot::{PartitionState, Slot};

const VERSION: u8 = 1;
/// Outcomes whose digest is told: the last ones.
const TIED: u64 = 16;
/// Bytes of a partition.
const PARTITION_BYTES: usize = 54;
/// How long a partition that is being opened may take to say what it has.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is held of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holding {
    partitions: BTreeMap<PartitionId, Tied>,
    domains: BTreeSet<Domain>,
}

/// Outcomes of a partition from the first on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tied {
    first: PartitionOffset,
    last: PartitionOffset,
    digest: [u8; 32],
}

/// What this node has of a snapshot at an entry.
pub(crate) async fn held(node: Arc<Node>, at: LogIndex) -> Bytes {
    let asked = node.all_slots().into_iter().map(|slot| held_of(&node, slot, at));
    let partitions = futures_util::future::join_all(asked).await;
    let mut partitions: Vec<_> = partitions.into_iter().flatten().collect();
    let has_passed = |slot: &Arc<DomainSlot>| {
        // It was dispatched nothing of what is behind the snapshot, so only an earlier life can have given it that.
        matches!(*slot.state.borrow(), DomainState::Serving | DomainState::CatchingUp)
            && slot.needed_from(None) > at
    };
    let domains = node.projections.all().into_iter().filter(has_passed).map(|slot| slot.id.clone()).collect();
    partitions.truncate(MAX_HELD_BYTES / 2 / PARTITION_BYTES);
    let mut holding = Holding { partitions: partitions.into_iter().collect(), domains };
    while holding.encode().len() > MAX_HELD_BYTES {
        holding.domains.pop_last();
    }
    holding.encode()
}

async fn held_of(node: &Arc<Node>, slot: Arc<Slot>, at: LogIndex) -> Option<(PartitionId, Tied)> {
    let asked = async {
        let mut state = slot.state.subscribe();
        let opened = state.wait_for(|state| *state != PartitionState::Actualizing).await;
        let is_well =
            opened.is_ok_and(|state| matches!(*state, PartitionState::Serving | PartitionState::CatchingUp));
        if !is_well {
            return None;
        }
        let synced = node.core().watermarks.marks(slot.id).and_then(|marks| marks.synced)?;
        let view = node.view_now(&slot).await.ok()?;
        node.workers.run(move || tie(&view, at, synced)).await.ok().flatten()
    };
    let tied = tokio::time::timeout(PATIENCE, asked).await.ok().flatten()?;
    Some((slot.id, tied))
}

/// What a partition has on stable storage of entries up to `at`.
fn tie(view: &View, at: LogIndex, synced: PartitionOffset) -> Result<Option<Tied>, Fault> {
    let Some(last) = last_through(view, at)?.map(|last| last.min(synced)) else { return Ok(None) };
    let first = PartitionOffset::new(last.get().saturating_sub(TIED - 1)).unwrap_or(PartitionOffset::FIRST);
    Ok(digest(view, first, last)?.map(|digest| Tied { first, last, digest }))
}

/// The last outcome of an entry up to `at`. Entries ascend along a partition log.
pub(super) fn last_through(view: &View, at: LogIndex) -> Result<Option<PartitionOffset>, Fault> {
    let is_in = |offset: u64| -> Result<bool, Fault> {
        let Some(offset) = PartitionOffset::new(offset) else { return Ok(true) };
        let found = view.outcomes(offset, 1, Direction::Forward)?;
        Ok(found.first().is_some_and(|outcome| outcome.header().log_index <= at))
    };
    let end = view.applied().map_or(0, PartitionOffset::get);
    if is_in(end)? {
        return Ok(view.applied());
    }
    // The one at `inside` is of such an entry, or there is none; the one at `outside` is not.
    let (mut inside, mut outside) = (0, end);
    while outside - inside > 1 {
        let middle = inside + (outside - inside) / 2;
        if is_in(middle)? {
            inside = middle;
        } else {
            outside = middle;
        }
    }
    Ok(PartitionOffset::new(inside))
}

/// The digest of outcomes that follow each other; none if not all of them are there.
fn digest(view: &View, first: PartitionOffset, last: PartitionOffset) -> Result<Option<[u8; 32]>, Fault> {
    let (mut digest, mut next) = (Sha256::new(), Some(first));
    while let Some(from) = next.filter(|next| *next <= last) {
        let wanted = usize::try_from(last.get() - from.get() + 1).unwrap_or(usize::MAX);
        let outcomes = view.outcomes(from, wanted, Direction::Forward)?;
        if outcomes.is_empty() {
            return Ok(None);
        }
        for outcome in outcomes {
            digest.update((outcome.bytes().len() as u64).to_le_bytes());
            digest.update(outcome.bytes());
            next = outcome.offset().next();
        }
    }
    Ok(Some(digest.finalize().into()))
}

impl Holding {
    /// The first outcome up to `last` that the receiver does not have.
    pub(super) fn first_missing(
        &self,
        view: &View,
        last: Option<PartitionOffset>,
    ) -> Result<PartitionOffset, Fault> {
        let held = self.partitions.get(&view.partition()).filter(|held| Some(held.last) <= last);
        let Some(held) = held else { return Ok(PartitionOffset::FIRST) };
        let is_same = digest(view, held.first, held.last)? == Some(held.digest);
        Ok(held.last.next().filter(|_| is_same).unwrap_or(PartitionOffset::FIRST))
    }

    /// Whether the receiver has passed the snapshot with a domain.
    pub(super) fn has_passed(&self, domain: &Domain) -> bool {
        self.domains.contains(domain)
    }

    fn encode(&self) -> Bytes {
        let mut bytes = vec![VERSION];
        bytes.put_u32_le(count(self.partitions.len()));
        for (partition, Tied { first, last, digest }) in &self.partitions {
            put_partition(&mut bytes, *partition);
            bytes.put_u64_le(first.get());
            bytes.put_u64_le(last.get());
            bytes.put_slice(digest);
        }
        bytes.put_u32_le(count(self.domains.len()));
        for Domain { projection, version, partition } in &self.domains {
            bytes.put_u8(u8::try_from(projection.as_str().len()).expect("names have at most 63 bytes"));
            bytes.put_slice(projection.as_str().as_bytes());
            bytes.put_u32_le(*version);
            put_partition(&mut bytes, *partition);
        }
        bytes.into()
    }

    /// What somebody said; none if it is not of a known form.
    pub(crate) fn decode(bytes: &Bytes) -> Option<Self> {
        Self::take(&mut bytes.clone()).ok().flatten().filter(|holding| holding.encode() == bytes)
    }

    fn take(bytes: &mut Bytes) -> Result<Option<Self>, TryGetError> {
        let mut holding = Self::default();
        if bytes.try_get_u8()? != VERSION {
            return Ok(None);
        }
        for _ in 0..bytes.try_get_u32_le()? {
            let partition = take_partition(bytes)?;
            let [first, last] = [bytes.try_get_u64_le()?, bytes.try_get_u64_le()?].map(PartitionOffset::new);
            let mut digest = [0; 32];
            bytes.try_copy_to_slice(&mut digest)?;
            let Some((first, last)) = first.zip(last).filter(|(first, last)| first <= last) else {
                return Ok(None);
            };
            if last.get() - first.get() >= TIED {
                return Ok(None);
            }
            holding.partitions.insert(partition, Tied { first, last, digest });
        }
        for _ in 0..bytes.try_get_u32_le()? {
            let length = usize::from(bytes.try_get_u8()?);
            if bytes.len() < length {
                return Ok(None);
            }
            let name = bytes.split_to(length);
            let name = std::str::from_utf8(&name).ok().and_then(|name| Name::new(name).ok());
            let Some(projection) = name else { return Ok(None) };
            let version = bytes.try_get_u32_le()?;
            holding.domains.insert(Domain { projection, version, partition: take_partition(bytes)? });
        }
        Ok(Some(holding).filter(|_| bytes.is_empty()))
    }
}

fn count(count: usize) -> u32 {
    u32::try_from(count).expect("limits keep it below 2^32")
}

fn put_partition(bytes: &mut Vec<u8>, partition: PartitionId) {
    bytes.put_u32_le(partition.namespace.get());
    bytes.put_u16_le(partition.index.get());
}

fn take_partition(bytes: &mut Bytes) -> Result<PartitionId, TryGetError> {
    let namespace = NamespaceId::new(bytes.try_get_u32_le()?);
    Ok(PartitionId { namespace, index: PartitionIndex::new(bytes.try_get_u16_le()?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holding() -> Holding {
        let partition = PartitionId { namespace: NamespaceId::new(16), index: PartitionIndex::new(3) };
        let [first, last] = [5, 20].map(|offset| PartitionOffset::new(offset).unwrap());
        let domain = Domain { projection: Name::new("sold").unwrap(), version: 2, partition };
        Holding {
            partitions: BTreeMap::from([(partition, Tied { first, last, digest: [7; 32] })]),
            domains: BTreeSet::from([domain]),
        }
    }

    #[test]
    fn what_is_held_has_its_golden_bytes() {
        let expected = [
            &[1, 1, 0, 0, 0, 16, 0, 0, 0, 3, 0, 5, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0][..],
            &[7; 32],
            &[1, 0, 0, 0, 4, b's', b'o', b'l', b'd', 2, 0, 0, 0, 16, 0, 0, 0, 3, 0],
        ];
        assert_eq!(holding().encode(), expected.concat());
        assert_eq!(Holding::decode(&holding().encode()), Some(holding()));
        assert_eq!(Holding::decode(&Holding::default().encode()), Some(Holding::default()));
    }

    #[test]
    fn what_is_not_of_this_form_says_nothing() {
        let whole = holding().encode();
        for length in 0..whole.len() {
            assert_eq!(Holding::decode(&whole.slice(..length)), None, "{length} bytes");
        }
        let changed = |at: usize, to: u8| {
            let mut bytes = whole.to_vec();
            bytes[at] = to;
            Holding::decode(&bytes.into())
        };
        assert_eq!(changed(0, 2), None, "another version");
        assert_eq!(changed(11, 21), None, "it ends before it begins");
        assert_eq!(changed(11, 4), None, "more is to be compared than anybody says");
        assert_eq!(changed(11, 0), None, "outcome 0");
        assert_eq!(Holding::decode(&[&whole[..], b"x"].concat().into()), None, "something behind the end");
    }
}
