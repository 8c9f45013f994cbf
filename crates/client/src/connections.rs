//! Which address is asked, and the connections that are kept.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gapless_api::Problem;
use tonic::transport::{Channel, Endpoint};

use crate::client::AddressError;
use crate::credentials::Credentials;

/// Most addresses that are remembered; those of leaders come on top of those that were given.
const MAX_ADDRESSES: usize = 64;

#[derive(Debug)]
pub(crate) struct Connections {
    credentials: Credentials,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    addresses: Vec<String>,
    now: usize,
    channels: BTreeMap<String, Channel>,
}

impl Connections {
    pub(crate) fn new(addresses: &[String], credentials: Credentials) -> Result<Self, AddressError> {
        if addresses.is_empty() {
            return Err(AddressError::None);
        }
        for address in addresses {
            endpoint(address, &credentials)?;
        }
        let known = Known { addresses: addresses.to_vec(), now: 0, channels: BTreeMap::new() };
        Ok(Self { credentials, known: Mutex::new(known) })
    }

    /// The connection to whoever is asked now. It is made when it is used.
    pub(crate) fn channel(&self) -> Channel {
        let mut known = self.known();
        let address = known.addresses[known.now].clone();
        let connect =
            || endpoint(&address, &self.credentials).expect("only good addresses are kept").connect_lazy();
        known.channels.entry(address.clone()).or_insert_with(connect).clone()
    }

    /// After a problem somebody else is asked: who leads, if that was told, or the next one.
    pub(crate) fn turn(&self, problem: &Problem) {
        let mut known = self.known();
        match problem.leader().filter(|leader| endpoint(leader, &self.credentials).is_ok()) {
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
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How an address is reached. Whoever has an authority for servers to prove themselves by talks to no others.
fn endpoint(address: &str, credentials: &Credentials) -> Result<Endpoint, AddressError> {
    let malformed = || AddressError::Malformed { address: without_user(address).to_owned() };
    let unprotected = |why| AddressError::Tls { address: without_user(address).to_owned(), why };
    let uri = match (address.contains("://"), credentials.has_tls()) {
        (true, _) => address.to_owned(),
        (false, true) => format!("https://{address}"),
        (false, false) => format!("http://{address}"),
    };
    let is_tls = uri.starts_with("https://");
    let mut endpoint = Endpoint::from_shared(uri).map_err(|_| malformed())?;
    match (is_tls, credentials.tls()) {
        (true, None) => return Err(unprotected("no authority is known that its certificate could be of")),
        (false, Some(_)) => {
            return Err(unprotected("is not encrypted, although an authority for servers is given"));
        }
        (true, Some(tls)) => {
            let useless = |_| unprotected("authority, certificate or key are of no use");
            endpoint = endpoint.tls_config(tls).map_err(useless)?;
        }
        (false, None) => {}
    }
    Ok(endpoint
        .connect_timeout(Duration::from_secs(5))
        .tcp_nodelay(true)
        .http2_keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(20))
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20))
}

/// An address without a user and his password, which have no business in it.
fn without_user(address: &str) -> &str {
    address.rsplit_once('@').map_or(address, |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use gapless_api::ProblemKind;

    use super::*;

    #[tokio::test]
    async fn who_leads_is_asked_next_and_otherwise_the_next_one() {
        let connections =
            Connections::new(&["a:1".to_owned(), "b:1".to_owned()], Credentials::default()).unwrap();
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
        assert!(matches!(Connections::new(&[], Credentials::default()), Err(AddressError::None)));
        let bad = Connections::new(&["here and there".to_owned()], Credentials::default());
        assert!(matches!(bad, Err(AddressError::Malformed { .. })));
        let bad = Connections::new(&["http://u:planted@a b".to_owned()], Credentials::default()).unwrap_err();
        assert!(!format!("{bad} {bad:?}").contains("planted"));
    }

    #[test]
    fn who_wants_servers_to_prove_themselves_talks_to_no_others() {
        let open = Connections::new(&["https://a:1".to_owned()], Credentials::default());
        assert!(matches!(open, Err(AddressError::Tls { .. })));
        let strict = Credentials::default().with_ca(b"no certificate at all".to_vec());
        let plain = Connections::new(&["http://a:1".to_owned()], strict);
        assert!(matches!(plain, Err(AddressError::Tls { .. })));
    }
}
