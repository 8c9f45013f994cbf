//! The tiles that workspaces which are written to lately are filling, as far as they go: the root of a tile is then there when its
//! last leaf is, and 256 leaves need not be read again at once. May forget, and never changes a result.

use gapless_proof::{Frontier, Hash};
use gapless_types::{WorkspaceId, WorkspaceOffset};

/// Leaves of a tile.
const TILE: u64 = 256;
/// Tiles that are remembered at most: each takes some 300 bytes when it is nearly full.
const PLACES: usize = 2048;

/// Tiles, each in the one place where it can be. Its workspace keeps it as long as it is written to now and then.
#[derive(Debug, Default)]
pub(crate) struct Tiles(Vec<Option<Tile>>);

/// The leaves of a tile so far, from the first on.
#[derive(Debug)]
struct Tile {
    workspace: WorkspaceId,
    /// The event that comes next.
    next: u64,
    leaves: Frontier,
    /// Something came since another workspace wanted the place.
    is_used: bool,
}

impl Tiles {
    /// Takes note of the next leaf of a workspace. The root of the tile that is full with it, if every leaf was seen.
    pub(crate) fn append(
        &mut self,
        workspace: WorkspaceId,
        offset: WorkspaceOffset,
        leaf: Hash,
    ) -> Option<Hash> {
        if self.0.is_empty() {
            self.0.resize_with(PLACES, || None);
        }
        let place = &mut self.0[place_of(workspace)];
        if (offset.get() - 1).is_multiple_of(TILE) {
            if let Some(other) = place.as_mut().filter(|tile| tile.workspace != workspace)
                && std::mem::take(&mut other.is_used)
            {
                return None;
            }
            let leaves = Frontier::default();
            *place = Some(Tile { workspace, next: offset.get(), leaves, is_used: true });
        }
        let tile = place.as_mut().filter(|tile| tile.workspace == workspace && tile.next == offset.get())?;
        tile.is_used = true;
        tile.next += 1;
        // Of a tree that begins with the tile, which is the only subtree of it that is stored.
        let full = tile.leaves.append(leaf).ok()?.pop()?;
        *place = None;
        Some(full.root)
    }
}

fn place_of(workspace: WorkspaceId) -> usize {
    // Ids are often given one after the other.
    let spread = workspace.get().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    usize::try_from(spread).expect("32 bits") % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(workspace: u64, offset: u64) -> Hash {
        Hash::of_leaf(format!("{workspace}/{offset}").as_bytes())
    }

    fn append(tiles: &mut Tiles, workspace: u64, offset: u64) -> Option<Hash> {
        let at = WorkspaceOffset::new(offset).unwrap();
        tiles.append(WorkspaceId::new(workspace), at, leaf(workspace, offset))
    }

    /// The root of the tile that ends with this event, over all its leaves.
    fn root(workspace: u64, last: u64) -> Hash {
        let mut leaves = Frontier::default();
        (last - TILE + 1..last)
            .for_each(|offset| assert!(leaves.append(leaf(workspace, offset)).unwrap().is_empty()));
        leaves.append(leaf(workspace, last)).unwrap().pop().unwrap().root
    }

    #[test]
    fn every_tile_that_was_seen_whole_has_its_root() {
        let mut tiles = Tiles::default();
        for offset in 1..=3 * TILE {
            for workspace in [1, 2, 3] {
                let found = append(&mut tiles, workspace, offset);
                let expected = (offset % TILE == 0).then(|| root(workspace, offset));
                assert_eq!(found, expected, "event {offset} of workspace {workspace}");
            }
        }
    }

    #[test]
    fn a_tile_that_was_not_seen_whole_has_none() {
        let mut tiles = Tiles::default();
        // Begun before anybody looked.
        assert!((200..=TILE).all(|offset| append(&mut tiles, 1, offset).is_none()));
        // One event was not seen, or one came twice.
        for offset in (TILE + 1..=2 * TILE).filter(|offset| *offset != 300) {
            assert_eq!(append(&mut tiles, 1, offset), None, "{offset}");
        }
        for offset in (2 * TILE + 1..=600).chain(600..=3 * TILE) {
            let expected = (offset == 3 * TILE).then(|| root(1, offset));
            assert_eq!(append(&mut tiles, 1, offset), expected, "{offset}");
        }
    }

    #[test]
    fn a_place_is_kept_by_whoever_uses_it() {
        let mut tiles = Tiles::default();
        let other =
            (2..).find(|id| place_of(WorkspaceId::new(*id)) == place_of(WorkspaceId::new(1))).unwrap();
        let mut found = 0;
        for offset in 1..=TILE {
            found += usize::from(append(&mut tiles, 1, offset).is_some());
            assert_eq!(append(&mut tiles, other, offset), None);
        }
        assert_eq!(found, 1);
        // The first one is not written to any more: the second time that another wants the place, it gets it.
        append(&mut tiles, 1, TILE + 1);
        let roots = (TILE + 1..=3 * TILE).filter_map(|offset| append(&mut tiles, other, offset)).count();
        assert_eq!(roots, 1);
    }
}
