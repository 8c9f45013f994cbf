//! How often one client may ask: a bucket for each that fills up again. Memory is bounded; the fullest buckets are forgotten first.
//!
//! Must not know: what is asked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gapless_api::{Problem, ProblemKind};
use gapless_types::ClientId;
use ring::digest;
use tokio::time::Instant;

use crate::access::Caller;
use crate::access::fairness;

/// How often barriers may be waited for.
const BARRIERS: Pace = Pace { burst: 200, refill: Duration::from_millis(10) };
/// Clients that are remembered.
const CLIENTS: usize = 10_000;

/// So much at once, and how long it takes until one more is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    pub(crate) burst: u32,
    pub(crate) refill: Duration,
}

/// How often callers may ask.
#[derive(Debug)]
pub(crate) struct Rates {
    /// Whether callers have names; if not, they count as their networks.
    is_known: bool,
    buckets: Buckets,
}

impl Rates {
    /// For callers who say who they are, or for strangers.
    pub(crate) fn new(is_known: bool) -> Self {
        Self { is_known, buckets: Buckets::new(BARRIERS) }
    }

    /// Takes one call of a caller: as whom it counts.
    ///
    /// # Errors
    /// If he has made too many.
    pub(crate) fn caller(&self, caller: &Caller) -> Result<ClientId, Problem> {
        let client = fairness::client(caller, self.is_known);
        let id = id(&client);
        if self.buckets.take(client, Instant::now()) { Ok(id) } else { Err(too_many()) }
    }
}

/// What each client has used.
#[derive(Debug)]
pub(crate) struct Buckets {
    pace: Pace,
    of: Mutex<HashMap<Arc<str>, Bucket>>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: u32,
    since: Instant,
}

impl Buckets {
    pub(crate) fn new(pace: Pace) -> Self {
        Self { pace, of: Mutex::default() }
    }

    /// Takes one; whether there was one.
    pub(crate) fn take(&self, client: Arc<str>, now: Instant) -> bool {
        let pace = self.pace;
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        if of.len() >= CLIENTS && !of.contains_key(&client) {
            // Who has not asked for a while has nothing to be remembered for.
            of.retain(|_, bucket| bucket.filled(now, pace).left < pace.burst);
            if of.len() >= CLIENTS {
                return false;
            }
        }
        let bucket = of.entry(client).or_insert(Bucket { left: pace.burst, since: now });
        *bucket = bucket.filled(now, pace);
        let left = bucket.left.checked_sub(1);
        bucket.left = left.unwrap_or_default();
        left.is_some()
    }

    /// Whether there is one left. Of whom nothing is remembered there is.
    pub(crate) fn has_left(&self, client: &str, now: Instant) -> bool {
        let of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        of.get(client).is_none_or(|bucket| bucket.filled(now, self.pace).left > 0)
    }
}

impl Bucket {
    fn filled(self, now: Instant, pace: Pace) -> Self {
        let steps = now.saturating_duration_since(self.since).as_millis() / pace.refill.as_millis();
        let more = u32::try_from(steps).unwrap_or(u32::MAX);
        let left = self.left.saturating_add(more).min(pace.burst);
        // What is left of a step is not lost.
        let since = if left == pace.burst { now } else { self.since + pace.refill * more };
        Self { left, since }
    }
}

/// The client as one who waits. A principal may have a longer name than a client: then a hash of it, which has as many characters as
/// fit, is as good.
fn id(client: &str) -> ClientId {
    ClientId::new(client).unwrap_or_else(|_| {
        let digest = digest::digest(&digest::SHA256, client.as_bytes());
        let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        ClientId::new(&hex).expect("a hash has 64 characters, which a client id may have")
    })
}

fn too_many() -> Problem {
    let Pace { burst, refill } = BARRIERS;
    let message = format!("more than {burst} calls at once, or one in {} ms; ask later", refill.as_millis());
    Problem::new(ProblemKind::Exhausted, "RATE_LIMITED", message).with("limit", "calls").after(refill)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv6Addr};

    use super::*;
    use crate::access::{MAX_PRINCIPAL_BYTES, Principal, Rights};

    fn caller(name: &str, address: impl Into<IpAddr>) -> Caller {
        let principal = Arc::new(Principal { name: name.to_owned(), rights: Rights::all() });
        Caller { principal, peer: (address.into(), 5).into(), expires: None }
    }

    const BURST: u32 = BARRIERS.burst;
    const REFILL: Duration = BARRIERS.refill;

    #[test]
    fn a_bucket_empties_and_fills_up_again() {
        let (buckets, now) = (Buckets::new(BARRIERS), Instant::now());
        let take = |client: &str, now| buckets.take(client.into(), now);
        for _ in 0..BURST {
            assert!(buckets.has_left("one", now) && take("one", now));
        }
        assert!(!take("one", now) && !buckets.has_left("one", now));
        assert!(take("other", now));
        assert!(buckets.has_left("one", now + REFILL) && take("one", now + REFILL));
        assert!(!take("one", now + REFILL));
        let later = now + REFILL * 1000;
        for _ in 0..BURST {
            assert!(take("one", later));
        }
        assert!(!take("one", later));
    }

    #[test]
    fn who_has_not_asked_for_a_while_makes_room_and_nobody_else_does() {
        let (buckets, now) = (Buckets::new(BARRIERS), Instant::now());
        for client in 0..CLIENTS {
            assert!(buckets.take(client.to_string().into(), now));
        }
        assert!(!buckets.take("late".into(), now));
        assert!(buckets.take("0".into(), now));
        assert!(buckets.take("late".into(), now + REFILL));
        assert_eq!(buckets.of.lock().unwrap().len(), 2, "those who asked once have all of it again");
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_a_whole_network_asks_no_more_often_than_who_has_one_address() {
        let rates = Rates::new(false);
        let ask = |address: Ipv6Addr| rates.caller(&caller("anybody", address));
        let network: Ipv6Addr = "2001:db8::".parse().unwrap();
        let neighbour: Ipv6Addr = "2001:db8:0:1::".parse().unwrap();
        for host in 0..u128::from(BURST) {
            let client = ask(Ipv6Addr::from_bits(network.to_bits() + host)).unwrap();
            assert_eq!(client.to_string(), network.to_string(), "all of them wait as one client");
        }
        let next = ask(Ipv6Addr::from_bits(network.to_bits() + u128::from(BURST)));
        assert_eq!(next.unwrap_err().reason, "RATE_LIMITED");
        ask(neighbour).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_a_name_counts_as_himself_wherever_he_asks_from() {
        let rates = Rates::new(true);
        let ask = |name: &str, host: u8| rates.caller(&caller(name, [10, 0, 0, host]));
        for host in 0..BURST {
            assert_eq!(ask("greedy", u8::try_from(host).unwrap()).unwrap().as_str(), "greedy");
        }
        for host in [0, 250] {
            assert_eq!(ask("greedy", host).unwrap_err().reason, "RATE_LIMITED", "10.0.0.{host}");
            assert_eq!(ask("modest", host).unwrap().as_str(), "modest", "behind the same address");
        }
    }

    #[test]
    fn every_name_of_a_principal_is_one_of_a_client_and_no_two_are_the_same() {
        let long = |end: &str| format!("{}{end}", "n".repeat(MAX_PRINCIPAL_BYTES - 1));
        let ids = [&long("a"), &long("b"), "n"].map(id);
        assert!(ids[0] != ids[1] && ids[1] != ids[2], "{ids:?}");
    }
}
