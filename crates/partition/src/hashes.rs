//! The tree over the events of a workspace, as its hashes lie in the store: leaf hashes in the workspace index, roots of full
//! subtrees in rows of their own.
//!
//! Must not know: what a leaf covers, who asks for a proof.

use gapless_proof::{Hash, StoredHashes, Subtree, Tree, TreeError, TreeSize, completed_subtrees};
use gapless_store::{Direction, View as StoreView};
use gapless_types::{NamespaceId, WorkspaceId, WorkspaceOffset};

use crate::error::Fault;
use crate::rows;

/// Hashes of one workspace in the store, and in front of them those that are not there yet.
pub(crate) struct Hashes<'a> {
    pub(crate) rows: &'a StoreView,
    pub(crate) namespace: NamespaceId,
    pub(crate) workspace: WorkspaceId,
    /// One of each level at most, to be written with the event at hand. What the store has in its place does not count.
    pub(crate) newest: &'a [(Subtree, Hash)],
}

impl Hashes<'_> {
    fn newest(&self, level: u8) -> Option<(u64, Hash)> {
        let found = self.newest.iter().find(|(subtree, _)| subtree.level == level);
        found.map(|(subtree, hash)| (subtree.number, *hash))
    }

    /// Hashes of the store in a row from `first` on, as many as `into` has places.
    fn read_stored(&self, first: Subtree, into: &mut [Hash]) -> Result<usize, Fault> {
        let Some(behind) = (into.len() as u64).checked_sub(1) else { return Ok(0) };
        let last = Subtree { number: first.number + behind, ..first };
        let range = self.key(first)..=self.key(last);
        let mut found = 0;
        for (row, place) in self.rows.range(range, Direction::Forward).zip(into) {
            let (key, value) = row?;
            let (number, hash) = decode(first.level, &key, &value)?;
            if number != first.number + found as u64 {
                break;
            }
            *place = hash;
            found += 1;
        }
        Ok(found)
    }

    fn key(&self, subtree: Subtree) -> Vec<u8> {
        match subtree.level {
            // The leaf with index 0 is the event with offset 1.
            0 => rows::index::key(self.namespace, self.workspace, subtree.number + 1).to_vec(),
            _ => rows::subtree::key(self.namespace, self.workspace, subtree).to_vec(),
        }
    }
}

fn decode(level: u8, key: &[u8], value: &[u8]) -> Result<(u64, Hash), Fault> {
    let decoded = match level {
        0 => rows::index::decode_key(key)
            .and_then(|offset| offset.checked_sub(1))
            .zip(rows::index::decode(value).map(|(_, leaf)| leaf)),
        _ => rows::subtree::decode_key(key).zip(rows::subtree::decode(value)),
    };
    decoded.ok_or(Fault::row("a hash that is none"))
}

impl StoredHashes for Hashes<'_> {
    type Error = Fault;

    fn read(&self, first: Subtree, into: &mut [Hash]) -> Result<usize, Fault> {
        let newest = self.newest(first.level).and_then(|(number, hash)| {
            let place = usize::try_from(number.checked_sub(first.number)?).ok()?;
            (place < into.len()).then_some((place, hash))
        });
        let Some((place, hash)) = newest else { return self.read_stored(first, into) };
        let found = self.read_stored(first, &mut into[..place])?;
        if found < place {
            return Ok(found);
        }
        into[place] = hash;
        Ok(place + 1)
    }
}

/// The subtrees that become full with the event at this offset, lowest level first, with their roots. `tile` is the root of the lowest
/// one, if it is known.
pub(crate) fn completed(
    rows: &StoreView,
    namespace: NamespaceId,
    workspace: WorkspaceId,
    offset: WorkspaceOffset,
    leaf: Hash,
    tile: Option<Hash>,
) -> Result<Vec<(Subtree, Hash)>, Fault> {
    let mut roots = Vec::new();
    for subtree in completed_subtrees(TreeSize::new(offset.get())) {
        if roots.is_empty() {
            roots.push((Subtree { level: 0, number: offset.get() - 1 }, leaf));
        }
        let hashes = Hashes { rows, namespace, workspace, newest: &roots };
        let root = match tile.filter(|_| subtree.level == 1) {
            Some(root) => root,
            None => Tree::over(&hashes).subtree_root(subtree).map_err(fault)?,
        };
        roots.push((subtree, root));
    }
    // The leaf itself is in the index.
    roots.drain(..roots.len().min(1));
    Ok(roots)
}

/// A tree of the size that a workspace has lacks nothing, unless the store has lost it.
pub(crate) fn fault(error: TreeError<Fault>) -> Fault {
    match error {
        TreeError::Source(fault) => fault,
        TreeError::Missing(_) => Fault::row("a tree with a hash missing"),
        TreeError::LeafOutOfRange { .. }
        | TreeError::SizesOutOfOrder { .. }
        | TreeError::NoSuchSubtree(_) => Fault::row("a tree of another size"),
    }
}
