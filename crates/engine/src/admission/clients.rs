//! What each client holds in each partition, so that no one of them keeps the others out.
//!
//! A client may hold three quarters of what it holds and what is free, together: alone that is three quarters of the partition; n busy
//! ones come to nearly an nth each, and one more always finds room. Nobody has to be counted for that. Whoever holds nothing is let in
//! wherever there is room.
//!
//! Invariants
//! - There is an entry for a client and partition exactly as long as it holds something there: as many as operations at most.
//! - What was taken is given back in full.
//!
//! Must not know: what clients are called. One is known by a hash with a seed of its own; two that share one share a part.

use std::hash::{BuildHasher, Hash};

use gapless_types::PartitionId;

use super::Limit;
use super::pool::Size;
use crate::keyed::{KeyedHash, KeyedMap};

/// A client in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ClientPlace {
    /// The same in all partitions of its namespace.
    pub(super) client: ClientHash,
    partition: PartitionId,
}

/// A client of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ClientHash(u64);

impl ClientPlace {
    /// Of whoever is told from others by `client`.
    pub(super) fn of(hash: &KeyedHash, partition: PartitionId, client: &impl Hash) -> Self {
        Self { client: ClientHash(hash.hash_one((partition.namespace, client))), partition }
    }
}

/// What a client holds in a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) operations: u64,
    pub(super) bytes: u64,
    /// Bytes of large writes among them.
    pub(super) large: u64,
}

/// What is free for one more operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Free {
    pub(super) operations: u64,
    pub(super) bytes: u64,
    /// Bytes for large writes.
    pub(super) large: u64,
}

/// A partition as a client finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// By all clients together.
    pub(super) in_use: Held,
    /// How many they are.
    pub(super) clients: u64,
    /// Of what the partition may use.
    pub(super) free: Free,
    pub(super) free_on_node: Free,
}

impl Found {
    /// What one more operation of a client that holds this would come to, and what it may, if it is not the turn of the partition, or
    /// not that of the client.
    pub(super) fn refuses(&self, held: Held, size: Size) -> Option<(Limit, u64, u64)> {
        let one = Held { operations: 1, bytes: size.bytes(), large: size.large() };
        let counted = [
            // Held by the client, in use, one more, free in the partition, free on the node.
            (
                held.operations,
                self.in_use.operations,
                one.operations,
                self.free.operations,
                self.free_on_node.operations,
            ),
            (held.bytes, self.in_use.bytes, one.bytes, self.free.bytes, self.free_on_node.bytes),
        ];
        for (held, in_use, more, _, free_on_node) in counted {
            let share = self.share(held, in_use, free_on_node);
            if in_use + more > share {
                return Some((Limit::Share, in_use + more, share));
            }
        }
        if held.operations == 0 {
            return None;
        }
        let part = |held: u64, free: u64| (held + free) * 3 / 4;
        for (held, in_use, more, free, free_on_node) in counted {
            let most = part(held, free.min(self.share(held, in_use, free_on_node) - in_use));
            if held + more > most {
                return Some((Limit::Client, held + more, most));
            }
        }
        let (large, most) =
            (held.large + one.large, part(held.large, self.free.large.min(self.free_on_node.large)));
        (one.large > 0 && large > most).then_some((Limit::Client, large, most))
    }

    /// What the partition may have in use: as much as is free on the node, and for a client that has less of it than one more would
    /// have, twice that. Otherwise somebody who is everywhere would fill every partition up to its share, and a client of one
    /// of them would find it closed.
    fn share(&self, held: u64, in_use: u64, free_on_node: u64) -> u64 {
        let has_little = held.saturating_mul(self.clients + 1) <= in_use;
        if has_little { free_on_node.saturating_mul(2) } else { free_on_node }
    }
}

/// All of them, of all partitions.
#[derive(Debug, Default)]
pub(super) struct Clients(KeyedMap<ClientPlace, Held>);

impl Clients {
    pub(super) fn held(&self, place: ClientPlace) -> Held {
        self.0.get(&place).copied().unwrap_or_default()
    }

    /// Whether it held nothing before.
    pub(super) fn take(&mut self, place: ClientPlace, size: Size) -> bool {
        let held = self.0.entry(place).or_default();
        let is_first = held.operations == 0;
        held.operations += 1;
        held.bytes += size.bytes();
        held.large += size.large();
        is_first
    }

    /// Whether it holds nothing any more.
    pub(super) fn give_back(&mut self, place: ClientPlace, size: Size) -> bool {
        let held = self.0.get_mut(&place).expect("whoever gives something back holds it");
        held.operations -= 1;
        held.bytes -= size.bytes();
        held.large -= size.large();
        let is_last = held.operations == 0;
        if is_last {
            self.0.remove(&place);
        }
        is_last
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
