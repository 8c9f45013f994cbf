//! Room for calls, shared out: nobody can have so many at one time that there is none left for others.
//!
//! - There is a limit on all calls together.
//! - One client has at most half of it.
//! - When three quarters are taken, one client has at most an equal share.
//!
//! Must not know: what calls do.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gapless_api::{Problem, ProblemKind};

use super::Caller;
use crate::accept::network;

/// When to come back.
const SOON: Duration = Duration::from_millis(100);

/// Calls that run, by whose they are. There are as many entries as clients with calls.
#[derive(Debug)]
pub(crate) struct Room {
    limit: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_client: HashMap<Arc<str>, usize>,
}

/// The place of a call. Dropped, it is free.
#[derive(Debug)]
pub(crate) struct Place {
    room: Arc<Room>,
    client: Arc<str>,
}

impl Room {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, taken: Mutex::default() }
    }

    /// Takes a place.
    ///
    /// # Errors
    /// If there is none for this client now.
    pub(crate) fn enter(self: &Arc<Self>, client: Arc<str>) -> Result<Place, Problem> {
        let mut taken = self.taken();
        let has = taken.by_client.get(&client).copied().unwrap_or_default();
        let clients = taken.by_client.len() + usize::from(has == 0);
        let most = if taken.all * 4 < self.limit * 3 {
            self.limit.div_ceil(2)
        } else {
            self.limit.div_ceil(clients)
        };
        if taken.all >= self.limit || has >= most {
            let message =
                format!("{has} calls of one client at one time, of {} in all; come back later", taken.all);
            let problem = Problem::new(ProblemKind::Exhausted, "TOO_MANY_CALLS", message);
            return Err(problem.with("limit", "calls").with("maximum", most).after(SOON));
        }
        taken.all += 1;
        *taken.by_client.entry(client.clone()).or_default() += 1;
        Ok(Place { room: self.clone(), client })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.room.taken();
        taken.all -= 1;
        if let Some(has) = taken.by_client.get_mut(&self.client) {
            *has -= 1;
            if *has == 0 {
                taken.by_client.remove(&self.client);
            }
        }
    }
}

/// As whom a caller counts: himself if he said who he is, his network otherwise.
pub(crate) fn client(caller: &Caller, is_known: bool) -> Arc<str> {
    if is_known {
        caller.principal.name.as_str().into()
    } else {
        network(caller.peer.ip()).to_string().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_leaves_room_for_others_and_gives_its_own_back() {
        let room = Arc::new(Room::new(8));
        let enter = |client: &str| room.enter(client.into());
        let mut greedy: Vec<Place> = (0..4).map(|_| enter("greedy").unwrap()).collect();
        assert_eq!(enter("greedy").unwrap_err().reason, "TOO_MANY_CALLS");
        let _second: Vec<Place> = (0..2).map(|_| enter("second").unwrap()).collect();
        // Three quarters are taken: a newcomer has its share, the greedy one nothing more.
        let third = enter("third").unwrap();
        enter("greedy").unwrap_err();
        greedy.pop();
        drop(third);
        assert_eq!(room.taken().all, 5);
        drop(greedy);
        assert_eq!(room.taken().by_client.len(), 1);
    }

    #[test]
    fn nobody_enters_a_full_room() {
        let room = Arc::new(Room::new(2));
        let _places = [room.enter("a".into()).unwrap(), room.enter("b".into()).unwrap()];
        assert_eq!(room.enter("c".into()).unwrap_err().retry_after, Some(SOON));
    }
}
