//! What is known of workspaces that were written to lately: spares three reads of the store for most events. May forget, and never
//! changes a result.
//!
//! An entry takes one line of the processor's cache, and is found without following a pointer: with ten thousand busy workspaces
//! every line that is not needed is a wait for memory.

use gapless_types::{ClientSequence, WorkspaceId, WorkspaceKind};
use twox_hash::XxHash3_64;

/// Places there are at most.
const MOST_PLACES: usize = 16 << 10;
/// Places there are at first; they double as they fill.
const FIRST_PLACES: usize = 64;
/// Longest client that is remembered, in bytes.
const LONGEST_CLIENT: usize = 32;

/// Clients of workspaces that were written to lately, each in one of the two places that it can be in, which lie side by side.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    places: Vec<Option<Known>>,
    used: usize,
}

/// What is known of a workspace and one of its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lately {
    pub(crate) kind: WorkspaceKind,
    /// The last sequence of the client.
    pub(crate) last: ClientSequence,
    /// The store was seen to have no event of the workspace behind the last one. It stays so: nobody else writes there.
    pub(crate) ends_there: bool,
}

/// What a place has.
#[derive(Clone, Copy, Debug)]
struct Known {
    workspace: WorkspaceId,
    lately: Lately,
    client_bytes: u8,
    client: [u8; LONGEST_CLIENT],
}

impl Recent {
    /// What is known of a client in a workspace.
    pub(crate) fn get(&self, workspace: WorkspaceId, client: &str) -> Option<Lately> {
        let place = self.place_of(workspace, client)?;
        let both = [self.places.get(place)?, self.places.get(place ^ 1)?];
        let known = both.into_iter().flatten().find(|known| known.is(workspace, client))?;
        Some(known.lately)
    }

    /// Takes note of a committed event.
    pub(crate) fn learn(&mut self, workspace: WorkspaceId, client: &str, lately: Lately) {
        if self.used * 2 >= self.places.len() && self.places.len() < MOST_PLACES {
            self.grow();
        }
        let Some(place) = self.place_of(workspace, client) else { return };
        let mut bytes = [0; LONGEST_CLIENT];
        bytes[..client.len()].copy_from_slice(client.as_bytes());
        let client_bytes = u8::try_from(client.len()).expect("at most 32");
        self.put(place, Known { workspace, lately, client_bytes, client: bytes });
    }

    /// Who was in the place moves to the other one, unless the client itself is there.
    fn put(&mut self, place: usize, known: Known) {
        let is_new = match self.places[place].replace(known) {
            None => true,
            Some(before) if before.workspace == known.workspace && before.client() == known.client() => false,
            Some(before) => self.places[place ^ 1].replace(before).is_none(),
        };
        self.used += usize::from(is_new);
    }

    fn grow(&mut self) {
        let count = (self.places.len() * 2).clamp(FIRST_PLACES, MOST_PLACES);
        let before = std::mem::replace(&mut self.places, vec![None; count]);
        self.used = 0;
        for known in before.into_iter().flatten() {
            self.put(place(known.workspace, known.client(), count), known);
        }
    }

    /// Where a client is if it is known; none if it cannot be.
    fn place_of(&self, workspace: WorkspaceId, client: &str) -> Option<usize> {
        let fits = client.len() <= LONGEST_CLIENT && !self.places.is_empty();
        fits.then(|| place(workspace, client.as_bytes(), self.places.len()))
    }
}

impl Known {
    fn client(&self) -> &[u8] {
        &self.client[..usize::from(self.client_bytes)]
    }

    fn is(&self, workspace: WorkspaceId, client: &str) -> bool {
        self.workspace == workspace && self.client() == client.as_bytes()
    }
}

/// The place of a client among a power of two of them.
fn place(workspace: WorkspaceId, client: &[u8], count: usize) -> usize {
    let hash = XxHash3_64::oneshot_with_seed(workspace.get(), client);
    usize::try_from(hash & (count as u64 - 1)).expect("below the count")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lately(number: u64) -> Lately {
        let last = ClientSequence::new(number).unwrap();
        Lately { kind: WorkspaceKind::new(3), last, ends_there: number.is_multiple_of(2) }
    }

    #[test]
    fn what_is_known_is_right_however_many_there_are() {
        let mut recent = Recent::default();
        let clients =
            ["a", "b", "a client with a name of 32 bytes", "one whose name is longer than 32 bytes"];
        let mut found = 0;
        for number in 1..=100_000_u64 {
            let (workspace, client) = (WorkspaceId::new(number % 9001), clients[(number % 4) as usize]);
            recent.learn(workspace, client, lately(number));
            let known = recent.get(workspace, client);
            assert_eq!(known.is_some(), client.len() <= LONGEST_CLIENT);
            if let Some(known) = recent.get(WorkspaceId::new(number / 2 % 9001), "a") {
                assert_eq!(known, lately(known.last.get()));
                assert_eq!(known.last.get() % 4, 0, "another client's");
                found += 1;
            }
        }
        assert!(found > 0);
        assert!(recent.places.len() <= MOST_PLACES);
        assert_eq!(recent.get(WorkspaceId::new(1), "nobody"), None);
    }

    #[test]
    fn an_entry_is_one_line_of_the_cache() {
        assert!(size_of::<Option<Known>>() <= 64);
    }
}
