//! Which address is asked, and the connections that are kept.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gapless_api::Problem;
use tonic::transport::{Channel, Endpoint};

use crate::client::AddressError;

/// Most addresses that are remembered; those of leaders come on top of those that were given.
const MAX_ADDRESSES: usize = 64;

#[derive(Debug)]
pub(crate) struct Connections(Mutex<Known>);

#[derive(Debug)]
struct Known {
    addresses: Vec<String>,
    now: usize,
    channels: BTreeMap<String, Channel>,
}

impl Connections {
    pub(crate) fn new(addresses: &[String]) -> Result<Self, AddressError> {
        if addresses.is_empty() {
            return Err(AddressError::None);
        }
        for address in addresses {
            endpoint(address)?;
        }
        let known = Known { addresses: addresses.to_vec(), now: 0, channels: BTreeMap::new() };
        Ok(Self(Mutex::new(known)))
    }

    /// The connection to whoever is asked now. It is made when it is used.
    pub(crate) fn channel(&self) -> Channel {
        let mut known = self.known();
        let address = known.addresses[known.now].clone();
        let connect = || endpoint(&address).expect("only good addresses are kept").connect_lazy();
        known.channels.entry(address.clone()).or_insert_with(connect).clone()
    }

    /// After a problem somebody else is asked: who leads, if that was told, or the next one.
    pub(crate) fn turn(&self, problem: &Problem) {
        let mut known = self.known();
        match problem.leader().filter(|leader| endpoint(leader).is_ok()) {
            Some(leader) => match known.addresses.iter().position(|address| address == leader) {
                Some(at) => known.now = at,
                None if known.addresses.len() < MAX_ADDRESSES => {
                    known.addresses.push(leader.to_owned());
                    known.now = known.addresses.len() - 1;
                }
                None => known.now = (known.now + 1) % known.addresses.len(),
            },
            // Who is busy is busy for everybody: there is one leader.
            None if problem.kind == gapless_api::ProblemKind::Exhausted => {}
            None => known.now = (known.now + 1) % known.addresses.len(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn endpoint(address: &str) -> Result<Endpoint, AddressError> {
    let uri = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
    let endpoint =
        Endpoint::from_shared(uri).map_err(|_| AddressError::Malformed { address: address.to_owned() })?;
    Ok(endpoint
        .connect_timeout(Duration::from_secs(5))
        .tcp_nodelay(true)
        .http2_keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(20))
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20))
}

#[cfg(test)]
mod tests {
    use gapless_api::ProblemKind;

    use super::*;

    #[tokio::test]
    async fn who_leads_is_asked_next_and_otherwise_the_next_one() {
        let connections = Connections::new(&["a:1".to_owned(), "b:1".to_owned()]).unwrap();
        let now = || {
            let known = connections.known();
            known.addresses[known.now].clone()
        };
        let away = Problem::new(ProblemKind::Unavailable, "UNAVAILABLE", "away");
        connections.turn(&away);
        assert_eq!(now(), "b:1");
        connections.turn(&away);
        assert_eq!(now(), "a:1");
        connections.turn(&away.clone().with("leader", "c:1"));
        assert_eq!(now(), "c:1");
        connections.turn(&away.clone().with("leader", "b:1"));
        assert_eq!(now(), "b:1");
        connections.turn(&away.with("leader", "not an address"));
        assert_eq!(now(), "c:1");
        connections.turn(&Problem::new(ProblemKind::Exhausted, "OVERLOADED", "busy"));
        assert_eq!(now(), "c:1");
    }

    #[test]
    fn an_address_has_to_be_one() {
        assert!(matches!(Connections::new(&[]), Err(AddressError::None)));
        let bad = Connections::new(&["here and there".to_owned()]);
        assert!(matches!(bad, Err(AddressError::Malformed { .. })));
    }
}
