//! What is known of workspaces that were written to lately, and of their clients: spares four reads of the store for most events. May
//! forget, and never changes a result.
//!
//! Each is found without following a pointer, a client in one line of the processor's cache: with ten thousand busy workspaces every
//! line that is not needed is a wait for memory. They are apart because a workspace may have thousands of clients, most of which come
//! once, and is the same for all of them.

use gapless_types::{ClientSequence, WorkspaceId, WorkspaceKind};
use twox_hash::XxHash3_64;

/// Workspaces that are known at most, and clients of one: a megabyte, and three and a half, where there are so many.
const MOST_PLACES: usize = 64 << 10;
/// Places there are at first; they double as they fill.
const FIRST_PLACES: usize = 64;
/// Longest client that is remembered, in bytes.
const LONGEST_CLIENT: usize = 32;

/// Who was written to and who wrote lately.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    workspaces: Places<KnownWorkspace>,
    clients: Places<KnownClient>,
}

/// What is known of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lately {
    pub(crate) kind: WorkspaceKind,
    /// The store was seen to have no event of the workspace behind the last one. It stays so: nobody else writes there.
    pub(crate) ends_there: bool,
}

impl Recent {
    /// What is known of a workspace.
    pub(crate) fn workspace(&self, workspace: WorkspaceId) -> Option<Lately> {
        let known = self.workspaces.find(spread(workspace), |known| known.workspace == workspace)?;
        Some(known.lately)
    }

    /// The last sequence of a client in a workspace.
    pub(crate) fn last_sequence(&self, workspace: WorkspaceId, client: &str) -> Option<ClientSequence> {
        if client.len() > LONGEST_CLIENT {
            return None;
        }
        let is_it = |known: &KnownClient| known.workspace == workspace && known.client() == client.as_bytes();
        Some(self.clients.find(spread_client(workspace, client.as_bytes()), is_it)?.last)
    }

    /// Takes note of a committed event.
    pub(crate) fn learn(
        &mut self,
        workspace: WorkspaceId,
        lately: Lately,
        client: &str,
        last: ClientSequence,
    ) {
        self.workspaces.put(KnownWorkspace { workspace, lately });
        let mut bytes = [0; LONGEST_CLIENT];
        let Some(place) = bytes.get_mut(..client.len()) else { return };
        place.copy_from_slice(client.as_bytes());
        let client_bytes = u8::try_from(client.len()).expect("at most 32");
        self.clients.put(KnownClient { workspace, last, client_bytes, client: bytes });
    }
}

#[derive(Clone, Copy, Debug)]
struct KnownWorkspace {
    workspace: WorkspaceId,
    lately: Lately,
}

#[derive(Clone, Copy, Debug)]
struct KnownClient {
    workspace: WorkspaceId,
    last: ClientSequence,
    client_bytes: u8,
    client: [u8; LONGEST_CLIENT],
}

impl KnownClient {
    fn client(&self) -> &[u8] {
        &self.client[..usize::from(self.client_bytes)]
    }
}

/// Something that is known.
trait Known: Copy {
    /// Says where it can be.
    fn spread(&self) -> u64;
    /// Whether both are of one and the same.
    fn is_of(&self, other: &Self) -> bool;
}

impl Known for KnownWorkspace {
    fn spread(&self) -> u64 {
        spread(self.workspace)
    }

    fn is_of(&self, other: &Self) -> bool {
        self.workspace == other.workspace
    }
}

impl Known for KnownClient {
    fn spread(&self) -> u64 {
        spread_client(self.workspace, self.client())
    }

    fn is_of(&self, other: &Self) -> bool {
        self.workspace == other.workspace && self.client() == other.client()
    }
}

fn spread(workspace: WorkspaceId) -> u64 {
    // Ids are often given one after the other.
    workspace.get().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
}

fn spread_client(workspace: WorkspaceId, client: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(workspace.get(), client)
}

/// What is known, each in one of the two places that it can be in, which lie side by side.
#[derive(Debug)]
struct Places<T> {
    /// None, or a power of two of them.
    places: Vec<Option<T>>,
    used: usize,
}

impl<T> Default for Places<T> {
    fn default() -> Self {
        Self { places: Vec::new(), used: 0 }
    }
}

impl<T: Known> Places<T> {
    fn find(&self, spread: u64, is_it: impl Fn(&T) -> bool) -> Option<&T> {
        if self.places.is_empty() {
            return None;
        }
        let place = self.place(spread);
        [place, place ^ 1]
            .into_iter()
            .filter_map(|place| self.places[place].as_ref())
            .find(|known| is_it(known))
    }

    fn put(&mut self, known: T) {
        if self.used * 2 >= self.places.len() && self.places.len() < MOST_PLACES {
            self.grow();
        }
        self.replace(known);
    }

    /// Who was in the place moves to the other one, unless it is the same that is put.
    fn replace(&mut self, known: T) {
        let place = self.place(known.spread());
        let is_new = match self.places[place].replace(known) {
            None => true,
            Some(before) if before.is_of(&known) => false,
            Some(before) => self.places[place ^ 1].replace(before).is_none(),
        };
        self.used += usize::from(is_new);
    }

    fn grow(&mut self) {
        let count = (self.places.len() * 2).clamp(FIRST_PLACES, MOST_PLACES);
        let before = std::mem::replace(&mut self.places, vec![None; count]);
        self.used = 0;
        for known in before.into_iter().flatten() {
            self.replace(known);
        }
    }

    fn place(&self, spread: u64) -> usize {
        usize::try_from(spread & (self.places.len() as u64 - 1)).expect("below the count")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lately(number: u64) -> Lately {
        let kind = WorkspaceKind::new(u16::try_from(number % 1000).unwrap());
        Lately { kind, ends_there: number.is_multiple_of(2) }
    }

    #[test]
    fn what_is_known_is_right_however_many_there_are() {
        let mut recent = Recent::default();
        let clients =
            ["a", "b", "a client with a name of 32 bytes", "one whose name is longer than 32 bytes"];
        let (mut found, mut of_workspaces) = (0, 0);
        let mut last_of = std::collections::HashMap::new();
        for number in 1..=100_000_u64 {
            let (workspace, client) = (WorkspaceId::new(number % 9001), clients[(number % 4) as usize]);
            let last = ClientSequence::new(number).unwrap();
            recent.learn(workspace, lately(number), client, last);
            last_of.insert(workspace, number);
            assert_eq!(recent.workspace(workspace), Some(lately(number)));
            let fits = client.len() <= LONGEST_CLIENT;
            assert_eq!(recent.last_sequence(workspace, client), fits.then_some(last));
            let another = WorkspaceId::new(number / 2 % 9001);
            if let Some(known) = recent.workspace(another) {
                assert_eq!(known, lately(last_of[&another]));
                of_workspaces += 1;
            }
            if let Some(known) = recent.last_sequence(another, "a") {
                assert_eq!(known.get() % 9001, another.get(), "another workspace's");
                assert_eq!(known.get() % 4, 0, "another client's");
                found += 1;
            }
        }
        assert!(found > 0 && of_workspaces > 0);
        assert!(recent.clients.places.len() <= MOST_PLACES && recent.workspaces.places.len() <= MOST_PLACES);
        assert_eq!(recent.last_sequence(WorkspaceId::new(1), "nobody"), None);
        assert_eq!(recent.workspace(WorkspaceId::new(10_000)), None);
    }

    #[test]
    fn a_workspace_is_known_whatever_becomes_of_its_clients() {
        let mut recent = Recent::default();
        for number in 1..=200_000_u64 {
            let workspace = WorkspaceId::new(number % 4);
            let last = ClientSequence::new(number).unwrap();
            recent.learn(workspace, lately(number), &format!("client {number}"), last);
        }
        assert!((0..4).all(|workspace| recent.workspace(WorkspaceId::new(workspace)).is_some()));
        assert!((1..=100).any(|number| {
            recent.last_sequence(WorkspaceId::new(number % 4), &format!("client {number}")).is_none()
        }));
    }

    #[test]
    fn an_entry_is_one_line_of_the_cache() {
        assert!(size_of::<Option<KnownClient>>() <= 64);
        assert!(size_of::<Option<KnownWorkspace>>() <= 16);
    }
}
