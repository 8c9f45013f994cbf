//! Room for calls and for what is read of them, shared out: nobody can have so much at one time that there is none left for others.
//!
//! - There is a limit on all calls together, and one on the bytes of all requests that are being read.
//! - One client has at most as many calls as are left for others: half of all if he is alone, a third if there are two such, and so on.
//!   So a newcomer finds room, however long others stay.
//! - One client has at most half of the bytes.
//! - The same holds for what is read for answers and not sent yet, as long as some of it is here, whether its call has ended or not.
//!
//! Must not know: what calls do.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gapless_api::{Problem, ProblemKind, Unsent, UnsentLimit};

use super::Caller;
use crate::accept::network;

/// When to come back.
pub(super) const SOON: Duration = Duration::from_millis(100);

/// Clients are looked through for those of whom nothing is left when there are so many, and whenever there are twice as many as then.
const LEAST_SWEPT: usize = 256;

/// Calls that run, by whose they are. There are as many entries as clients with calls, and some of whom nothing is left.
#[derive(Debug)]
pub(crate) struct Room {
    limit: usize,
    taken: Mutex<Taken>,
    bytes: Arc<Pool>,
    unsent: UnsentLimit,
}

/// Bytes of requests that are being read.
#[derive(Debug)]
struct Pool {
    limit: usize,
    used: AtomicUsize,
}

impl Pool {
    fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicUsize::new(0) })
    }
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_client: HashMap<Arc<str>, Has>,
    /// With so many clients, those of whom nothing is left are forgotten.
    sweep_at: usize,
}

/// What one client has: calls, bytes of them that are being read, and bytes of answers that are not sent yet.
#[derive(Debug)]
struct Has {
    calls: usize,
    bytes: Arc<AtomicUsize>,
    unsent: Unsent,
}

impl Taken {
    /// What a client has.
    fn of(&mut self, client: &Arc<str>, limit: &UnsentLimit) -> &mut Has {
        if self.by_client.len() >= self.sweep_at.max(LEAST_SWEPT) {
            self.by_client.retain(|_, has| has.calls > 0 || !has.unsent.is_nothing());
            self.sweep_at = self.by_client.len() * 2;
        }
        let nothing = || Has { calls: 0, bytes: Arc::default(), unsent: limit.client() };
        self.by_client.entry(client.clone()).or_insert_with(nothing)
    }
}

/// The place of a call. Dropped, it is free.
#[derive(Debug)]
pub(crate) struct Place {
    room: Arc<Room>,
    client: Arc<str>,
    bytes: Arc<AtomicUsize>,
    unsent: Unsent,
}

impl Room {
    /// Room for so many calls, so many bytes of them that are being read, and answers that are not sent yet.
    pub(crate) fn new(limit: usize, bytes_limit: usize, unsent: UnsentLimit) -> Self {
        Self { limit, taken: Mutex::default(), bytes: Pool::new(bytes_limit), unsent }
    }

    /// Takes a place.
    ///
    /// # Errors
    /// If there is none for this client now.
    pub(crate) fn enter(self: &Arc<Self>, client: Arc<str>) -> Result<Place, Problem> {
        let mut taken = self.taken();
        let has = taken.by_client.get(&client).map_or(0, |has| has.calls);
        let left = self.limit.saturating_sub(taken.all);
        if has >= left {
            let message =
                format!("{has} calls of one client at one time, of {} in all; come back later", taken.all);
            let problem = Problem::new(ProblemKind::Exhausted, "TOO_MANY_CALLS", message);
            return Err(problem.with("limit", "calls").with("maximum", has.max(left)).after(SOON));
        }
        taken.all += 1;
        let has = taken.of(&client, &self.unsent);
        has.calls += 1;
        let (bytes, unsent) = (has.bytes.clone(), has.unsent.clone());
        drop(taken);
        Ok(Place { room: self.clone(), client, bytes, unsent })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Whose it is.
    pub(crate) fn client(&self) -> Arc<str> {
        self.client.clone()
    }

    /// What the request of this call may take while it is read.
    pub(crate) fn allowance(&self) -> Allowance {
        Allowance { all: self.room.bytes.clone(), of_client: self.bytes.clone(), held: 0 }
    }

    /// What is read for this client and not sent yet.
    pub(crate) fn unsent(&self) -> Unsent {
        self.unsent.clone()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.room.taken();
        taken.all -= 1;
        if let Some(has) = taken.by_client.get_mut(&self.client) {
            has.calls -= 1;
            // What was handed over to be sent and is not read by anybody outlives its call.
            if has.calls == 0 && has.unsent.is_nothing() {
                taken.by_client.remove(&self.client);
            }
        }
    }
}

/// Bytes of one request that are being read. Dropped, they are given back.
#[derive(Debug)]
pub(crate) struct Allowance {
    all: Arc<Pool>,
    of_client: Arc<AtomicUsize>,
    held: usize,
}

impl Allowance {
    /// For one request that takes so many bytes at most, and nothing from others.
    pub(crate) fn alone(bytes: usize) -> Self {
        Self { all: Pool::new(bytes.saturating_mul(2)), of_client: Arc::default(), held: 0 }
    }

    /// So many bytes are held from now on.
    ///
    /// # Errors
    /// If that is more than there is room for, in all or for one client.
    pub(crate) fn hold(&mut self, bytes: usize) -> Result<(), Problem> {
        let before = std::mem::replace(&mut self.held, bytes);
        let Some(more) = bytes.checked_sub(before) else {
            self.give_back(before - bytes);
            return Ok(());
        };
        let all = self.all.used.fetch_add(more, Relaxed) + more;
        let of_client = self.of_client.fetch_add(more, Relaxed) + more;
        let most = self.all.limit;
        if all <= most && of_client <= most.div_ceil(2) {
            return Ok(());
        }
        let message = format!(
            "requests of {of_client} bytes of one client are being read, of {all} in all; come back later"
        );
        let problem = Problem::new(ProblemKind::Exhausted, "TOO_MANY_BYTES", message);
        Err(problem.with("limit", "request_bytes").with("maximum", most).after(SOON))
    }

    fn give_back(&self, bytes: usize) {
        self.all.used.fetch_sub(bytes, Relaxed);
        self.of_client.fetch_sub(bytes, Relaxed);
    }
}

impl Drop for Allowance {
    fn drop(&mut self) {
        self.give_back(self.held);
    }
}

/// As whom a caller counts: himself if he said who he is, his network otherwise.
pub(crate) fn client(caller: &Caller, is_known: bool) -> Arc<str> {
    if is_known { caller.principal.name.as_str().into() } else { stranger(caller.peer.ip()) }
}

/// As whom somebody counts of whom nothing but an address is known.
pub(crate) fn stranger(address: IpAddr) -> Arc<str> {
    network(address).to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Principal;

    fn room(calls: usize, bytes: usize) -> Arc<Room> {
        Arc::new(Room::new(calls, bytes, UnsentLimit::new(100)))
    }

    #[test]
    fn what_is_not_sent_counts_for_its_client_after_its_call_has_ended() {
        let room = room(8, 0);
        let place = room.enter("greedy".into()).unwrap();
        let held = place.unsent().hold(7);
        drop(place);
        assert!(!room.enter("greedy".into()).unwrap().unsent().is_nothing());
        assert!(room.enter("other".into()).unwrap().unsent().is_nothing());
        drop(held);
        for client in 0..LEAST_SWEPT * 3 {
            let place = room.enter(client.to_string().into()).unwrap();
            let held = place.unsent().hold(1);
            drop(place);
            drop(held);
        }
        assert!(room.taken().by_client.len() <= LEAST_SWEPT, "who has nothing is forgotten");
        assert_eq!(room.unsent.bytes(), 0);
    }

    #[test]
    fn one_client_leaves_room_for_others_and_gives_its_own_back() {
        let room = room(8, 0);
        let enter = |client: &str| room.enter(client.into());
        let mut greedy: Vec<Place> = (0..4).map(|_| enter("greedy").unwrap()).collect();
        assert_eq!(enter("greedy").unwrap_err().reason, "TOO_MANY_CALLS");
        let _second: Vec<Place> = (0..2).map(|_| enter("second").unwrap()).collect();
        enter("second").unwrap_err();
        // Each has as much as he leaves to others: a newcomer finds room, the greedy one nothing more.
        let third = enter("third").unwrap();
        enter("greedy").unwrap_err();
        greedy.pop();
        drop(third);
        assert_eq!(room.taken().all, 5);
        drop(greedy);
        assert_eq!(room.taken().by_client.len(), 1);
    }

    #[test]
    fn a_newcomer_finds_room_however_many_took_all_they_could_get() {
        let room = room(16_384, 0);
        let mut held = Vec::new();
        for client in ["one", "two", "three", "four", "five", "six", "seven", "eight"] {
            let before = held.len();
            while let Ok(place) = room.enter(client.into()) {
                held.push(place);
            }
            assert!(held.len() >= before + 64, "{client} got {}", held.len() - before);
        }
        let mut alone = Allowance::alone(10);
        alone.hold(10).unwrap();
        assert_eq!(alone.hold(11).unwrap_err().reason, "TOO_MANY_BYTES");
    }

    #[test]
    fn one_client_reads_half_of_what_is_read_and_gives_it_back() {
        let room = room(8, 100);
        let place = |client: &str| room.enter(client.into()).unwrap();
        let (greedy, again, other) = (place("greedy"), place("greedy"), place("other"));
        let [mut first, mut second, mut third] = [&greedy, &again, &other].map(Place::allowance);
        first.hold(30).unwrap();
        second.hold(20).unwrap();
        assert_eq!(second.hold(21).unwrap_err().reason, "TOO_MANY_BYTES");
        third.hold(49).unwrap();
        assert_eq!(third.hold(50).unwrap_err().retry_after, Some(SOON), "there are 101 in all");
        drop(second);
        third.hold(50).unwrap();
        first.hold(10).unwrap();
        assert_eq!(room.bytes.used.load(Relaxed), 60);
        drop((first, third));
        assert_eq!(room.bytes.used.load(Relaxed), 0);
    }

    #[test]
    fn who_has_no_name_counts_as_his_network_and_who_has_one_as_himself() {
        let caller = |address: &str| Caller {
            principal: Arc::new(Principal::anybody()),
            peer: (address.parse::<IpAddr>().unwrap(), 5).into(),
            expires: None,
        };
        for (one, other, is_same) in [
            ("2001:db8::1", "2001:db8::ffff:2", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
            ("10.0.0.1", "::ffff:10.0.0.1", true),
            ("10.0.0.1", "10.0.0.2", false),
        ] {
            let [one, other] = [one, other].map(caller);
            assert_eq!(client(&one, false) == client(&other, false), is_same, "{one:?} {other:?}");
            assert_eq!(stranger(one.peer.ip()) == stranger(other.peer.ip()), is_same, "{one:?} {other:?}");
            assert_eq!(client(&one, true), client(&other, true));
        }
    }

    #[test]
    fn nobody_enters_a_full_room() {
        let room = room(2, 0);
        let _places = [room.enter("a".into()).unwrap(), room.enter("b".into()).unwrap()];
        assert_eq!(room.enter("c".into()).unwrap_err().retry_after, Some(SOON));
    }
}
