//! The last numbers of the workspaces that were used last.
//!
//! Invariants
//! - The list holds every node once, from the most to the least recently used; the table finds every node by its key.
//! - No more nodes than the grant allows.
//! - What is in here is never the only copy: forgetting an entry never changes a result.
//!
//! ```text
//!  table: hash of (workspace, sequence) -> slot         5 to 10 bytes per entry
//!  nodes: [ workspace | number | newer | older | sequence ] 32 bytes per entry
//! ```
//!
//! Only the caller's thread touches it, so that there is no lock.

use std::sync::Arc;

use gapless_types::{SequenceId, WorkspaceId};
use hashbrown::HashTable;

use crate::budget::{CacheBudget, Grant};
use crate::hash::HashSeed;

/// A place in the cache. It may be somebody else's by the time it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(u32);

impl Slot {
    /// No place.
    pub(crate) const NONE: Self = Self(u32::MAX);

    fn of(index: usize) -> Self {
        Self(u32::try_from(index).expect("a budget has fewer entries than 32 bits can count"))
    }

    #[inline]
    fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Copy, Debug)]
struct Node {
    workspace: WorkspaceId,
    /// 0: known that there is none.
    number: u64,
    newer: Slot,
    older: Slot,
    sequence: SequenceId,
}

impl Node {
    #[inline]
    fn is_for(&self, workspace: WorkspaceId, sequence: SequenceId) -> bool {
        self.workspace == workspace && self.sequence == sequence
    }
}

#[derive(Debug)]
pub(crate) struct Cache {
    seed: HashSeed,
    grant: Grant,
    table: HashTable<Slot>,
    nodes: Vec<Node>,
    newest: Slot,
    oldest: Slot,
}

impl Cache {
    pub(crate) fn new(budget: Arc<CacheBudget>, seed: HashSeed) -> Self {
        Self {
            seed,
            grant: Grant::new(budget),
            table: HashTable::new(),
            nodes: Vec::new(),
            newest: Slot::NONE,
            oldest: Slot::NONE,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Bytes held, entries and table together.
    pub(crate) fn bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>() + self.table.allocation_size()
    }

    /// The most entries it may ever hold.
    pub(crate) fn most(&self) -> usize {
        self.grant.most()
    }

    /// The last number and where it lies, which makes it the most recently used.
    #[inline]
    pub(crate) fn get(&mut self, workspace: WorkspaceId, sequence: SequenceId) -> Option<(Slot, u64)> {
        let slot = self.find(workspace, sequence)?;
        if slot != self.newest {
            self.unlink(slot);
            self.link_newest(slot);
        }
        Some((slot, self.nodes[slot.index()].number))
    }

    /// Takes a number in, at the place where it was found before if that is still its place.
    #[inline]
    pub(crate) fn set(&mut self, hint: Slot, workspace: WorkspaceId, sequence: SequenceId, number: u64) {
        match self.nodes.get_mut(hint.index()) {
            Some(node) if node.is_for(workspace, sequence) => node.number = node.number.max(number),
            _ => _ = self.insert(workspace, sequence, number),
        }
    }

    /// Takes a number in as the most recently used, unless a larger one is there. The place, if there is one.
    pub(crate) fn insert(&mut self, workspace: WorkspaceId, sequence: SequenceId, number: u64) -> Slot {
        if let Some((slot, known)) = self.get(workspace, sequence) {
            self.nodes[slot.index()].number = known.max(number);
            return slot;
        }
        self.return_surplus();
        if self.nodes.len() < self.grant.entries() || self.grant.grow() {
            return self.add(workspace, sequence, number);
        }
        if self.oldest == Slot::NONE {
            // Others hold the whole budget for now.
            return Slot::NONE;
        }
        self.replace_oldest(workspace, sequence, number)
    }

    /// Forgets everything, and keeps the room for it.
    pub(crate) fn clear(&mut self) {
        self.table.clear();
        self.nodes.clear();
        self.newest = Slot::NONE;
        self.oldest = Slot::NONE;
    }

    /// Forgets everything, and gives the room back.
    pub(crate) fn release(&mut self) {
        self.clear();
        self.table = HashTable::new();
        self.nodes = Vec::new();
        self.grant.shrink(self.grant.entries());
    }

    #[inline]
    fn find(&self, workspace: WorkspaceId, sequence: SequenceId) -> Option<Slot> {
        let hash = self.seed.hash(workspace, sequence);
        self.table.find(hash, |slot| self.nodes[slot.index()].is_for(workspace, sequence)).copied()
    }

    fn add(&mut self, workspace: WorkspaceId, sequence: SequenceId, number: u64) -> Slot {
        if self.nodes.len() == self.nodes.capacity() {
            // Doubling, but never beyond what the budget could ever allow.
            let room = self.grant.most() - self.nodes.len();
            self.nodes.reserve_exact(self.nodes.len().max(64).min(room));
        }
        let slot = Slot::of(self.nodes.len());
        self.nodes.push(Node { workspace, number, newer: Slot::NONE, older: Slot::NONE, sequence });
        self.enter(slot);
        slot
    }

    fn replace_oldest(&mut self, workspace: WorkspaceId, sequence: SequenceId, number: u64) -> Slot {
        let slot = self.oldest;
        self.leave(slot);
        self.nodes[slot.index()] = Node { workspace, number, newer: Slot::NONE, older: Slot::NONE, sequence };
        self.enter(slot);
        slot
    }

    /// Makes room for members of the budget that have less than their share.
    fn return_surplus(&mut self) {
        let surplus = self.grant.surplus();
        if surplus == 0 {
            return;
        }
        let remaining = self.grant.entries() - surplus;
        while self.nodes.len() > remaining {
            self.remove_oldest();
        }
        self.nodes.shrink_to(self.nodes.len() * 2);
        self.grant.shrink(surplus);
    }

    /// Evicts one entry; the last node moves to its place, so that nodes stay together and memory can be given back.
    fn remove_oldest(&mut self) {
        let slot = self.oldest;
        self.leave(slot);
        let last = Slot::of(self.nodes.len() - 1);
        if slot != last {
            let node = self.nodes[last.index()];
            let hash = self.seed.hash(node.workspace, node.sequence);
            let entry = self.table.find_mut(hash, |known| *known == last);
            *entry.expect("the table finds every node by its key") = slot;
            self.nodes[slot.index()] = node;
            match node.newer {
                Slot::NONE => self.newest = slot,
                newer => self.nodes[newer.index()].older = slot,
            }
            match node.older {
                Slot::NONE => self.oldest = slot,
                older => self.nodes[older.index()].newer = slot,
            }
        }
        self.nodes.pop();
    }

    /// Puts a node into table and list.
    fn enter(&mut self, slot: Slot) {
        let node = self.nodes[slot.index()];
        let (seed, nodes) = (self.seed, &self.nodes);
        let hash_of = |slot: &Slot| {
            let node = &nodes[slot.index()];
            seed.hash(node.workspace, node.sequence)
        };
        self.table.insert_unique(seed.hash(node.workspace, node.sequence), slot, hash_of);
        self.link_newest(slot);
    }

    /// Takes a node out of table and list.
    fn leave(&mut self, slot: Slot) {
        let node = self.nodes[slot.index()];
        let hash = self.seed.hash(node.workspace, node.sequence);
        let entry = self.table.find_entry(hash, |known| *known == slot);
        entry.expect("the table finds every node by its key").remove();
        self.unlink(slot);
    }

    #[inline]
    fn unlink(&mut self, slot: Slot) {
        let Node { newer, older, .. } = self.nodes[slot.index()];
        match newer {
            Slot::NONE => self.newest = older,
            newer => self.nodes[newer.index()].older = older,
        }
        match older {
            Slot::NONE => self.oldest = newer,
            older => self.nodes[older.index()].newer = newer,
        }
    }

    #[inline]
    fn link_newest(&mut self, slot: Slot) {
        let before = self.newest;
        let node = &mut self.nodes[slot.index()];
        (node.newer, node.older) = (Slot::NONE, before);
        match before {
            Slot::NONE => self.oldest = slot,
            before => self.nodes[before.index()].newer = slot,
        }
        self.newest = slot;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, VecDeque};

    use proptest::prelude::*;

    use super::*;

    fn cache(entries: usize) -> Cache {
        Cache::new(Arc::new(CacheBudget::new(entries)), HashSeed::new(1))
    }

    fn key(workspace: u64) -> (WorkspaceId, SequenceId) {
        (WorkspaceId::new(workspace), SequenceId::new(1))
    }

    impl Cache {
        /// Asserts the invariants, and gives the workspaces from the newest to the oldest.
        fn order(&self) -> Vec<u64> {
            assert!(self.nodes.len() <= self.grant.entries());
            assert_eq!(self.table.len(), self.nodes.len());
            let (mut order, mut slot, mut newer) = (Vec::new(), self.newest, Slot::NONE);
            while slot != Slot::NONE {
                let node = &self.nodes[slot.index()];
                assert_eq!(node.newer, newer);
                assert_eq!(self.find(node.workspace, node.sequence), Some(slot));
                order.push(node.workspace.get());
                (newer, slot) = (slot, node.older);
            }
            assert_eq!(newer, self.oldest);
            assert_eq!(order.len(), self.nodes.len());
            order
        }
    }

    #[test]
    fn an_entry_takes_32_bytes() {
        assert_eq!(size_of::<Node>(), 32);
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut cache = cache(3);
        for workspace in [1, 2, 3] {
            let (workspace, sequence) = key(workspace);
            cache.insert(workspace, sequence, 10);
        }
        let (one, sequence) = key(1);
        assert_eq!(cache.get(one, sequence).unwrap().1, 10);
        cache.insert(WorkspaceId::new(4), sequence, 10);
        assert_eq!(cache.order(), [4, 1, 3]);
    }

    #[test]
    fn a_smaller_number_never_replaces_a_larger_one() {
        let mut cache = cache(2);
        let (workspace, sequence) = key(1);
        let slot = cache.insert(workspace, sequence, 10);
        cache.insert(workspace, sequence, 9);
        cache.set(slot, workspace, sequence, 8);
        assert_eq!(cache.get(workspace, sequence).unwrap().1, 10);
    }

    #[test]
    fn a_place_that_went_to_somebody_else_is_not_written_to() {
        let mut cache = cache(1);
        let ((one, sequence), (two, _)) = (key(1), key(2));
        let slot = cache.insert(one, sequence, 10);
        cache.insert(two, sequence, 20);
        cache.set(slot, one, sequence, 11);
        assert_eq!(cache.get(one, sequence).unwrap().1, 11);
        assert_eq!(cache.get(two, sequence), None);
    }

    #[test]
    fn two_caches_share_one_budget_and_its_memory() {
        let budget = Arc::new(CacheBudget::new(1000));
        let mut first = Cache::new(budget.clone(), HashSeed::new(1));
        let mut second = Cache::new(budget.clone(), HashSeed::new(2));
        let (_, sequence) = key(0);
        for workspace in 0..5000 {
            first.insert(WorkspaceId::new(workspace), sequence, 1);
        }
        assert_eq!(first.len(), 1000);
        for workspace in 0..5000 {
            second.insert(WorkspaceId::new(workspace), sequence, 1);
            first.insert(WorkspaceId::new(10_000 + workspace), sequence, 1);
            assert!(first.len() + second.len() <= 1000);
        }
        assert_eq!((first.len(), second.len()), (500, 500));
        first.order();
        second.order();
        assert!(first.nodes.capacity() <= 1000, "room is given back, not only counted");
        first.release();
        assert_eq!((first.bytes(), budget.free()), (0, 500));
    }

    #[derive(Clone, Debug)]
    enum Operation {
        Get(u64),
        Insert(u64, u64),
        Set(u64, u64),
        Clear,
        Release,
        /// Another member of the budget comes or goes.
        Other(bool),
    }

    fn operation() -> impl Strategy<Value = Operation> {
        let workspace = 0..12_u64;
        prop_oneof![
            6 => workspace.clone().prop_map(Operation::Get),
            6 => (workspace.clone(), 0..100_u64).prop_map(|(w, n)| Operation::Insert(w, n)),
            6 => (workspace, 0..100_u64).prop_map(|(w, n)| Operation::Set(w, n)),
            1 => Just(Operation::Clear),
            1 => Just(Operation::Release),
            1 => any::<bool>().prop_map(Operation::Other),
        ]
    }

    proptest! {
        #[test]
        fn it_holds_the_newest_like_a_plain_list(operations in prop::collection::vec(operation(), 1..200)) {
            let budget = Arc::new(CacheBudget::new(5));
            let mut cache = Cache::new(budget.clone(), HashSeed::new(3));
            let mut other = None;
            let mut order: VecDeque<u64> = VecDeque::new();
            let mut numbers: HashMap<u64, u64> = HashMap::new();
            for operation in operations {
                let touched = match operation {
                    Operation::Get(workspace) => {
                        let (id, sequence) = key(workspace);
                        let found = cache.get(id, sequence).map(|(_, number)| number);
                        let expected = order.contains(&workspace).then(|| numbers[&workspace]);
                        prop_assert_eq!(found, expected);
                        found.map(|_| workspace)
                    }
                    Operation::Insert(workspace, number) | Operation::Set(workspace, number) => {
                        let (id, sequence) = key(workspace);
                        if !order.contains(&workspace) {
                            numbers.remove(&workspace);
                        }
                        if let Operation::Set(..) = operation {
                            let hint = cache.get(id, sequence).map_or(Slot::NONE, |(slot, _)| slot);
                            cache.set(hint, id, sequence, number);
                        } else {
                            cache.insert(id, sequence, number);
                        }
                        let known = numbers.entry(workspace).or_default();
                        *known = number.max(*known);
                        Some(workspace)
                    }
                    Operation::Clear => { cache.clear(); order.clear(); None }
                    Operation::Release => { cache.release(); order.clear(); None }
                    Operation::Other(comes) => {
                        other = comes.then(|| Grant::new(budget.clone()));
                        if let Some(other) = &mut other {
                            while other.grow() {}
                        }
                        None
                    }
                };
                if let Some(workspace) = touched {
                    order.retain(|known| *known != workspace);
                    order.push_front(workspace);
                }
                // How many fit is the budget's business; that they are the newest is the cache's.
                let held = cache.order();
                order.truncate(held.len());
                prop_assert_eq!(&held, &order.iter().copied().collect::<Vec<_>>());
                let others = other.as_ref().map_or(0, Grant::entries);
                prop_assert_eq!(cache.grant.entries() + others + budget.free(), 5);
            }
        }
    }
}
