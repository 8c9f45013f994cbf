//! An ordered map from bytes that only grows: a B+ tree without deletion, in pieces of memory that are given back at once.
//!
//! ```text
//!  inner     [ first keys of children ]            leaf  [ heads of keys ][ numbers of rows ] <-> next leaf
//!             |        |        |                  row   where its key is, its item
//! ```
//!
//! A search compares the first bytes of keys, kept in the nodes as numbers (their heads), and follows a place to the key
//! itself only where they are equal. The numbers of a node lie side by side and are counted, not halved: waiting once for four lines
//! of memory is faster than four times for one. Keys that grow, the usual case of a log, fill leaves to the last place. Where a key with
//! the same beginning was found last is tried first: the next key often lies there, and what is asked for is often written next.
//!
//! Must not know: what an item is, versions, files.

use std::cmp::Ordering;
use std::ops::{Bound, Range, RangeInclusive};
use std::sync::atomic::{AtomicU64, Ordering as Atomic};

use crate::chunks::{Items, KeyPlace, Keys};

/// Entries of a node.
const WIDTH: usize = 32;
/// Levels of inner nodes: more than 2^32 rows can have.
const MAX_DEPTH: usize = 12;
const NONE: u32 = u32::MAX;
/// Leaves that are remembered at first and at most: one for every other leaf in between.
const HINTS: RangeInclusive<usize> = 16..=65_536;
/// Bits of the second word of a head that tell beginnings apart: with them, thirteen bytes do. A kind of rows, a namespace and a
/// workspace take as many.
const SECOND_WORD_BITS: u32 = 40;

/// The first 24 bytes of a key as numbers, filled up with zeros. Keys whose heads differ are in the order of their heads;
/// where heads are equal, all bytes decide.
type Head = [u64; 3];

/// A map that only grows.
#[derive(Debug)]
pub(crate) struct OrderedMap<T> {
    keys: Keys,
    rows: Items<Row<T>, 512>,
    leaves: Items<Leaf, 64>,
    inners: Items<Inner, 64>,
    /// Of the root: the number of an inner node, or of the only leaf.
    root: u32,
    /// Levels of inner nodes.
    depth: usize,
    hints: Hints,
}

impl<T> Default for OrderedMap<T> {
    fn default() -> Self {
        Self {
            keys: Keys::default(),
            rows: Items::default(),
            leaves: Items::default(),
            inners: Items::default(),
            root: 0,
            depth: 0,
            hints: Hints::new(*HINTS.start()),
        }
    }
}

#[derive(Debug)]
struct Row<T> {
    key: KeyPlace,
    item: T,
}

/// Heads in order: all first words, all second, all third.
#[derive(Debug)]
struct Heads([[u64; WIDTH]; 3]);

#[derive(Debug)]
struct Leaf {
    heads: Heads,
    rows: [u32; WIDTH],
    len: usize,
    previous: u32,
    next: u32,
}

#[derive(Debug)]
struct Inner {
    /// Of the first key in each child when it was split off; the first one is not looked at.
    heads: Heads,
    rows: [u32; WIDTH],
    children: [u32; WIDTH],
    len: usize,
}

/// What a node says of an entry.
#[derive(Clone, Copy)]
struct Separator {
    head: Head,
    row: u32,
}

/// A place between two rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    leaf: u32,
    index: usize,
}

impl<T> OrderedMap<T> {
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() == 0
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&T> {
        if self.is_empty() {
            return None;
        }
        let head = head_of(key);
        let (number, found) = self.search(&head, key);
        Some(&self.rows.get(self.leaves.get(number).rows[found.ok()?]).item)
    }

    /// The item of a key that has one; otherwise the key gets what `new` makes. Whether it was there.
    pub(crate) fn get_or_insert(&mut self, key: &[u8], new: impl FnOnce() -> T) -> (bool, &mut T) {
        if self.is_empty() {
            self.root = self.leaves.push(Leaf::new(NONE, NONE));
        }
        let head = head_of(key);
        let (number, found) = self.search(&head, key);
        match found {
            Ok(index) => {
                let row = self.leaves.get(number).rows[index];
                (true, &mut self.rows.get_mut(row).item)
            }
            Err(index) => {
                let row = self.rows.push(Row { key: self.keys.add(key), item: new() });
                self.insert(number, index, Separator { head, row }, key);
                (false, &mut self.rows.get_mut(row).item)
            }
        }
    }

    /// The leaf of a key, and where it is in there or where it would be.
    fn search(&self, head: &Head, key: &[u8]) -> (u32, Result<usize, usize>) {
        let hint = self.hints.of(head);
        if let Some(tried) = hint.leaf()
            && let Some(found) = self.find_if_within(tried, head, key)
        {
            return (tried, found);
        }
        let number = self.leaf_of(head, key);
        hint.point_to(number);
        let leaf = self.leaves.get(number);
        (number, self.find(&leaf.heads, &leaf.rows, 0..leaf.len, head, key))
    }

    /// Where a key is or would be in a leaf, if it is a key of that leaf.
    fn find_if_within(&self, number: u32, head: &Head, key: &[u8]) -> Option<Result<usize, usize>> {
        let leaf = self.leaves.get(number);
        let last = leaf.len.checked_sub(1)?;
        match self.compare_entry(leaf, last, head, key) {
            Ordering::Equal => return Some(Ok(last)),
            // A leaf begins with the key that it was split off with: what is less is not in there.
            Ordering::Less if leaf.next == NONE => return Some(Err(leaf.len)),
            Ordering::Less => {
                let order = self.compare_entry(self.leaves.get(leaf.next), 0, head, key);
                return (order == Ordering::Greater).then_some(Err(leaf.len));
            }
            Ordering::Greater => {}
        }
        match self.compare_entry(leaf, 0, head, key) {
            Ordering::Greater => None,
            _ => Some(self.find(&leaf.heads, &leaf.rows, 0..leaf.len, head, key)),
        }
    }

    fn compare_entry(&self, leaf: &Leaf, index: usize, head: &Head, key: &[u8]) -> Ordering {
        compare(&leaf.heads.get(index), head).then_with(|| self.compare_whole(leaf.rows[index], key))
    }

    /// Puts an entry where a search said that it would be.
    fn insert(&mut self, number: u32, index: usize, entry: Separator, key: &[u8]) {
        if self.leaves.get(number).len < WIDTH {
            self.leaves.get_mut(number).insert(index, entry);
            return;
        }
        let mut path = [(0, 0); MAX_DEPTH];
        let mut node = self.root;
        for step in &mut path[..self.depth] {
            let inner = self.inners.get(node);
            let index = self.child_of(inner, &entry.head, key);
            *step = (node, index);
            node = inner.children[index];
        }
        let (separator, right) = self.split_leaf(number, index, entry);
        self.hints.grow(self.leaves.len() / 2);
        let is_right = index >= self.leaves.get(number).len;
        self.hints.of(&entry.head).point_to(if is_right { right } else { number });
        self.grow(&path, separator, right);
    }

    /// Rows of a range that is not empty, in order from either end.
    pub(crate) fn range<'a>(&'a self, start: Bound<&[u8]>, end: Bound<&[u8]>) -> Walk<'a, T> {
        if self.is_empty() {
            let nowhere = Place { leaf: NONE, index: 0 };
            return Walk { map: self, front: nowhere, back: nowhere };
        }
        let front = match start {
            Bound::Unbounded => Place { leaf: 0, index: 0 },
            Bound::Included(key) => self.place_of(key, false),
            Bound::Excluded(key) => self.place_of(key, true),
        };
        let back = match end {
            Bound::Unbounded => self.end(),
            Bound::Included(key) => self.place_of(key, true),
            Bound::Excluded(key) => self.place_of(key, false),
        };
        Walk { map: self, front: self.forward(front), back: self.forward(back) }
    }

    /// In front of the first row that is not less than `key`, or greater if it is to be `behind`.
    fn place_of(&self, key: &[u8], behind: bool) -> Place {
        let (leaf, found) = self.search(&head_of(key), key);
        let index = match found {
            Ok(index) => index + usize::from(behind),
            Err(index) => index,
        };
        Place { leaf, index }
    }

    fn end(&self) -> Place {
        let mut node = self.root;
        for _ in 0..self.depth {
            let inner = self.inners.get(node);
            node = inner.children[inner.len - 1];
        }
        Place { leaf: node, index: self.leaves.get(node).len }
    }

    /// The same place, named as the front of a row if there is one behind it.
    fn forward(&self, place: Place) -> Place {
        let leaf = self.leaves.get(place.leaf);
        match place.index == leaf.len && leaf.next != NONE {
            true => Place { leaf: leaf.next, index: 0 },
            false => place,
        }
    }

    fn leaf_of(&self, head: &Head, key: &[u8]) -> u32 {
        let mut node = self.root;
        for _ in 0..self.depth {
            let inner = self.inners.get(node);
            node = inner.children[self.child_of(inner, head, key)];
        }
        node
    }

    fn child_of(&self, inner: &Inner, head: &Head, key: &[u8]) -> usize {
        match self.find(&inner.heads, &inner.rows, 1..inner.len, head, key) {
            Ok(index) => index,
            Err(index) => index - 1,
        }
    }

    /// Where a key is among some entries of a node, or where it would be.
    fn find(
        &self,
        heads: &Heads,
        rows: &[u32; WIDTH],
        entries: Range<usize>,
        head: &Head,
        key: &[u8],
    ) -> Result<usize, usize> {
        let same = heads.same(entries, head);
        let (mut low, mut high) = (same.start, same.end);
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.compare_whole(rows[middle], key) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Ok(middle),
            }
        }
        Err(low)
    }

    /// A key with another one that has the same head.
    fn compare_whole(&self, row: u32, key: &[u8]) -> Ordering {
        let place = self.rows.get(row).key;
        match place.len().max(key.len()) > size_of::<Head>() {
            true => self.keys.get(place).cmp(key),
            // They differ in nothing but zeros at the end.
            false => place.len().cmp(&key.len()),
        }
    }

    /// Puts an entry into a leaf that is full: its upper part becomes a new leaf. The first key of that and its number.
    fn split_leaf(&mut self, number: u32, index: usize, entry: Separator) -> (Separator, u32) {
        let leaf = self.leaves.get_mut(number);
        // Keys that grow never come back to a leaf that they have filled.
        let split = if index == WIDTH { WIDTH } else { WIDTH / 2 };
        let mut right = Leaf::new(number, leaf.next);
        right.len = WIDTH - split;
        right.heads.take_from(&leaf.heads, split);
        right.rows[..right.len].copy_from_slice(&leaf.rows[split..]);
        leaf.len = split;
        if index >= split {
            right.insert(index - split, entry);
        } else {
            leaf.insert(index, entry);
        }
        let separator = Separator { head: right.heads.get(0), row: right.rows[0] };
        let after = leaf.next;
        let right = self.leaves.push(right);
        self.leaves.get_mut(number).next = right;
        if after != NONE {
            self.leaves.get_mut(after).previous = right;
        }
        (separator, right)
    }

    /// Makes a new node known to those above it.
    fn grow(&mut self, path: &[(u32, usize); MAX_DEPTH], separator: Separator, right: u32) {
        let (mut separator, mut right) = (separator, right);
        for (number, index) in path[..self.depth].iter().rev() {
            let inner = self.inners.get_mut(*number);
            if inner.len < WIDTH {
                inner.insert(index + 1, separator, right);
                return;
            }
            let split = if index + 1 == WIDTH { WIDTH - 1 } else { WIDTH / 2 };
            let mut upper = Inner::new();
            upper.len = WIDTH - split;
            upper.heads.take_from(&inner.heads, split);
            upper.rows[..upper.len].copy_from_slice(&inner.rows[split..]);
            upper.children[..upper.len].copy_from_slice(&inner.children[split..]);
            inner.len = split;
            if index + 1 > split {
                upper.insert(index + 1 - split, separator, right);
            } else {
                inner.insert(index + 1, separator, right);
            }
            separator = Separator { head: upper.heads.get(0), row: upper.rows[0] };
            right = self.inners.push(upper);
        }
        let mut root = Inner::new();
        root.children[0] = self.root;
        root.len = 1;
        root.insert(1, separator, right);
        self.root = self.inners.push(root);
        self.depth += 1;
    }
}

/// Where keys were looked for last, by how they begin. Only tried: whether it is the right leaf is seen there.
///
/// Keys with other beginnings share a place: it says whose it is, so that mostly no leaf is looked at in vain.
#[derive(Debug)]
struct Hints(Vec<AtomicU64>);

/// What is remembered of a beginning.
struct Hint<'a> {
    place: &'a AtomicU64,
    /// In the upper half of what is there: whose it is.
    owner: u64,
}

impl Hints {
    fn new(count: usize) -> Self {
        let nowhere = || AtomicU64::new(u64::from(NONE));
        Self(std::iter::repeat_with(nowhere).take(count).collect())
    }

    /// Has at least so many places, unless that is more than there may be. Then nothing is remembered.
    fn grow(&mut self, count: usize) {
        if count > self.0.len() && self.0.len() < *HINTS.end() {
            *self = Self::new(self.0.len() * 2);
        }
    }

    fn of(&self, head: &Head) -> Hint<'_> {
        let second = head[1] >> (u64::BITS - SECOND_WORD_BITS);
        let first = head[0].wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mixed = (first ^ (first >> 32) ^ second).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        let place = usize::try_from(mixed >> 32).expect("32 bits") & (self.0.len() - 1);
        Hint { place: &self.0[place], owner: mixed << 32 }
    }
}

impl Hint<'_> {
    fn leaf(&self) -> Option<u32> {
        let there = self.place.load(Atomic::Relaxed);
        let leaf = u32::try_from(there & u64::from(u32::MAX)).expect("32 bits");
        (there & !u64::from(u32::MAX) == self.owner && leaf != NONE).then_some(leaf)
    }

    fn point_to(&self, leaf: u32) {
        self.place.store(self.owner | u64::from(leaf), Atomic::Relaxed);
    }
}

impl Heads {
    fn get(&self, index: usize) -> Head {
        let [first, second, third] = &self.0;
        [first[index], second[index], third[index]]
    }

    /// The entries among some that are in order whose head is this one; if there are none, the empty range where they would be.
    fn same(&self, entries: Range<usize>, head: &Head) -> Range<usize> {
        let mut same = entries;
        for (words, word) in self.0.iter().zip(head) {
            let among = &words[same.clone()];
            // Most nodes have the first word in common, many the second.
            let (Some(first), Some(last)) = (among.first(), among.last()) else { break };
            if first == word && last == word {
                continue;
            }
            let (mut less, mut greater) = (0, 0);
            for other in among {
                less += usize::from(other < word);
                greater += usize::from(other > word);
            }
            same = same.start + less..same.end - greater;
        }
        same
    }

    /// Puts a head in front of others, of which there are `count` and room for one more.
    fn insert(&mut self, count: usize, index: usize, head: &Head) {
        for (words, word) in self.0.iter_mut().zip(head) {
            insert(&mut words[..=count], index, *word);
        }
    }

    /// Begins with what another one has from `first` on.
    fn take_from(&mut self, other: &Self, first: usize) {
        for (words, others) in self.0.iter_mut().zip(&other.0) {
            words[..WIDTH - first].copy_from_slice(&others[first..]);
        }
    }
}

impl Leaf {
    fn new(previous: u32, next: u32) -> Self {
        Self { heads: Heads([[0; WIDTH]; 3]), rows: [0; WIDTH], len: 0, previous, next }
    }

    fn insert(&mut self, index: usize, entry: Separator) {
        self.heads.insert(self.len, index, &entry.head);
        insert(&mut self.rows[..=self.len], index, entry.row);
        self.len += 1;
    }
}

impl Inner {
    fn new() -> Self {
        Self { heads: Heads([[0; WIDTH]; 3]), rows: [0; WIDTH], children: [0; WIDTH], len: 0 }
    }

    fn insert(&mut self, index: usize, separator: Separator, child: u32) {
        self.heads.insert(self.len, index, &separator.head);
        insert(&mut self.rows[..=self.len], index, separator.row);
        insert(&mut self.children[..=self.len], index, child);
        self.len += 1;
    }
}

/// Shifts everything from `index` on by one, over the last item.
fn insert<T: Copy>(items: &mut [T], index: usize, item: T) {
    let last = items.len() - 1;
    items.copy_within(index..last, index + 1);
    items[index] = item;
}

fn compare(left: &Head, right: &Head) -> Ordering {
    // Spelled out: most heads of a node have their first word in common, and a loop costs more than the rest.
    left[0].cmp(&right[0]).then(left[1].cmp(&right[1])).then(left[2].cmp(&right[2]))
}

fn head_of(key: &[u8]) -> Head {
    let mut bytes = [0; size_of::<Head>()];
    let taken = key.len().min(bytes.len());
    bytes[..taken].copy_from_slice(&key[..taken]);
    let word = |index: usize| {
        let word = bytes[index * 8..].first_chunk().expect("three words");
        u64::from_be_bytes(*word)
    };
    [word(0), word(1), word(2)]
}

/// Rows in order, from either end.
pub(crate) struct Walk<'a, T> {
    map: &'a OrderedMap<T>,
    front: Place,
    back: Place,
}

impl<'a, T> Walk<'a, T> {
    fn row(&self, place: Place) -> (&'a [u8], &'a T) {
        let row = self.map.rows.get(self.map.leaves.get(place.leaf).rows[place.index]);
        (self.map.keys.get(row.key), &row.item)
    }
}

impl<'a, T> Iterator for Walk<'a, T> {
    type Item = (&'a [u8], &'a T);

    fn next(&mut self) -> Option<Self::Item> {
        if self.front == self.back {
            return None;
        }
        let row = self.row(self.front);
        self.front = self.map.forward(Place { index: self.front.index + 1, ..self.front });
        Some(row)
    }
}

impl<T> DoubleEndedIterator for Walk<'_, T> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.front == self.back {
            return None;
        }
        if self.back.index == 0 {
            let leaf = self.map.leaves.get(self.back.leaf).previous;
            self.back = Place { leaf, index: self.map.leaves.get(leaf).len };
        }
        self.back.index -= 1;
        Some(self.row(self.back))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

    /// Keys that share much, and few enough of them to come again.
    fn key() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![Just(0), Just(1), Just(255), any::<u8>()];
        prop_oneof![
            prop::collection::vec(byte.clone(), 0..4),
            prop::collection::vec(byte, 0..3).prop_map(|tail| [vec![7; 23], tail].concat()),
            (0..4000_u64).prop_map(|number| number.to_be_bytes().to_vec()),
        ]
    }

    fn bounds() -> impl Strategy<Value = Bounds> {
        let bound = || {
            prop_oneof![
                Just(Bound::Unbounded),
                key().prop_map(Bound::Included),
                key().prop_map(Bound::Excluded)
            ]
        };
        (bound(), bound())
    }

    fn is_empty(bounds: &Bounds) -> bool {
        match bounds {
            (Bound::Included(start), Bound::Included(end)) => start > end,
            (
                Bound::Included(start) | Bound::Excluded(start),
                Bound::Included(end) | Bound::Excluded(end),
            ) => start >= end,
            _ => false,
        }
    }

    fn check(map: &OrderedMap<u64>, model: &BTreeMap<Vec<u8>, u64>, bounds: &Bounds) {
        let slice = |bound: &Bound<Vec<u8>>| bound.clone();
        let (start, end) = (slice(&bounds.0), slice(&bounds.1));
        let range = || map.range(as_slice(&start), as_slice(&end)).map(|(key, item)| (key.to_vec(), *item));
        let expected: Vec<_> =
            model.range((start.clone(), end.clone())).map(|(key, item)| (key.clone(), *item)).collect();
        assert_eq!(range().collect::<Vec<_>>(), expected);
        let backward: Vec<_> = range().rev().collect();
        assert_eq!(backward, expected.iter().rev().cloned().collect::<Vec<_>>());
        let mut both = range();
        let mut rest = expected.iter();
        while let Some(first) = both.next() {
            assert_eq!(Some(&first), rest.next());
            assert_eq!(both.next_back(), rest.next_back().cloned());
        }
    }

    fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
        bound.as_ref().map(Vec::as_slice)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn it_is_an_ordered_map(
            keys in prop::collection::vec(key(), 0..3000),
            asked in prop::collection::vec(key(), 1..50),
            ranges in prop::collection::vec(bounds(), 1..20),
        ) {
            let (mut map, mut model) = (OrderedMap::default(), BTreeMap::new());
            for (number, key) in (0_u64..).zip(&keys) {
                let (was_there, item) = map.get_or_insert(key, || number);
                *item = number;
                prop_assert_eq!(was_there, model.insert(key.clone(), number).is_some());
            }
            prop_assert_eq!(map.len(), model.len());
            for key in keys.iter().chain(&asked) {
                prop_assert_eq!(map.get(key), model.get(key));
            }
            for bounds in ranges.iter().filter(|bounds| !is_empty(bounds)) {
                check(&map, &model, bounds);
            }
        }
    }

    #[test]
    fn keys_that_grow_fill_their_leaves() {
        let mut map = OrderedMap::default();
        let count = 100_000_u64;
        for number in 0..count {
            map.get_or_insert(&number.to_be_bytes(), || number);
        }
        assert_eq!(map.leaves.len() as u64, count.div_ceil(WIDTH as u64));
        let all = map.range(Bound::Unbounded, Bound::Unbounded).map(|(_, item)| *item);
        assert!(all.eq(0..count));
    }

    #[test]
    fn keys_that_fall_are_found() {
        let mut map = OrderedMap::default();
        for number in (0..50_000_u64).rev() {
            map.get_or_insert(&number.to_be_bytes(), || number);
        }
        for number in 0..50_000_u64 {
            assert_eq!(map.get(&number.to_be_bytes()), Some(&number));
        }
        assert_eq!(map.get(&50_000_u64.to_be_bytes()), None);
    }
}
