//! How often one address may ask: a bucket for each that fills up again. Memory is bounded; the fullest buckets are forgotten first.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::Extensions;
use gapless_api::{Problem, ProblemKind};
use gapless_types::ClientId;
use tokio::time::Instant;

use crate::accept::{Peer, network};

/// Calls that an address may make at once.
const BURST: u32 = 200;
/// How long it takes until one more is allowed.
const REFILL: Duration = Duration::from_millis(10);
/// Addresses that are remembered.
const ADDRESSES: usize = 10_000;

/// What each address has used.
#[derive(Debug, Default)]
pub(crate) struct Rates(Mutex<HashMap<IpAddr, Bucket>>);

#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: u32,
    since: Instant,
}

impl Rates {
    /// Takes one call of whoever is connected: as whom it counts.
    ///
    /// # Errors
    /// If the address has made too many.
    pub(crate) fn caller(&self, extensions: &Extensions) -> Result<ClientId, Problem> {
        let Some(Peer(peer)) = extensions.get() else {
            return Err(Problem::new(ProblemKind::Internal, "NO_PEER", "a call that came from nowhere"));
        };
        let address = network(peer.ip());
        self.take(address, Instant::now())?;
        Ok(ClientId::new(&address.to_string()).expect("an address is shorter than a client id may be"))
    }

    /// Takes one call.
    ///
    /// # Errors
    /// If the address has made too many.
    fn take(&self, address: IpAddr, now: Instant) -> Result<(), Problem> {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= ADDRESSES && !buckets.contains_key(&address) {
            // Who has not asked for a while has nothing to be remembered for.
            buckets.retain(|_, bucket| bucket.filled(now).left < BURST);
            if buckets.len() >= ADDRESSES {
                return Err(too_many());
            }
        }
        let bucket = buckets.entry(address).or_insert(Bucket { left: BURST, since: now });
        *bucket = bucket.filled(now);
        bucket.left = bucket.left.checked_sub(1).ok_or_else(too_many)?;
        Ok(())
    }
}

impl Bucket {
    fn filled(self, now: Instant) -> Self {
        let steps = now.saturating_duration_since(self.since).as_millis() / REFILL.as_millis();
        let more = u32::try_from(steps).unwrap_or(u32::MAX);
        let left = self.left.saturating_add(more).min(BURST);
        // What is left of a step is not lost.
        let since = if left == BURST { now } else { self.since + REFILL * more };
        Self { left, since }
    }
}

fn too_many() -> Problem {
    let message = format!("more than {BURST} calls at once, or one in {} ms; ask later", REFILL.as_millis());
    Problem::new(ProblemKind::Exhausted, "RATE_LIMITED", message).with("limit", "calls").after(REFILL)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    #[test]
    fn a_bucket_empties_and_fills_up_again() {
        let (rates, now) = (Rates::default(), Instant::now());
        let (one, other) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2]));
        for _ in 0..BURST {
            rates.take(one, now).unwrap();
        }
        assert_eq!(rates.take(one, now).unwrap_err().retry_after, Some(REFILL));
        rates.take(other, now).unwrap();
        rates.take(one, now + REFILL).unwrap();
        rates.take(one, now + REFILL).unwrap_err();
        let later = now + REFILL * 1000;
        for _ in 0..BURST {
            rates.take(one, later).unwrap();
        }
        rates.take(one, later).unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_a_whole_network_asks_no_more_often_than_who_has_one_address() {
        let rates = Rates::default();
        let ask = |address: Ipv6Addr| {
            let mut extensions = Extensions::new();
            extensions.insert(Peer((address, 5).into()));
            rates.caller(&extensions)
        };
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
}
