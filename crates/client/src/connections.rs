//! Which address is asked, and the connections that are kept.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gapless_api::{Problem, ProblemKind};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tonic::transport::{Channel, Endpoint};
use tower::ServiceExt;
use tower::util::MapResponse;

use crate::client::AddressError;
use crate::credentials::Credentials;
use crate::together::Together;

/// Most addresses that are remembered; those of leaders come on top of those that were given.
const MAX_ADDRESSES: usize = 64;

/// Makes connections over TCP.
type Connector = MapResponse<HttpConnector, fn(TokioIo<TcpStream>) -> Joined>;
type Joined = TokioIo<Together<TcpStream>>;

/// How long a connection is tried for.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Connections {
    credentials: Credentials,
    /// Whether somebody wrote `http://` before an address: a token goes where everybody can read it, because that is wanted.
    in_the_open: bool,
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
        let in_the_open = addresses.iter().any(|address| address.starts_with("http://"));
        let known = Known { addresses: addresses.to_vec(), now: 0, channels: BTreeMap::new() };
        let connections = Self { credentials, in_the_open, known: Mutex::new(known) };
        for address in addresses {
            connections.endpoint(address)?;
        }
        Ok(connections)
    }

    /// The connection to whoever is asked now. It is made when it is used.
    pub(crate) fn channel(&self) -> Channel {
        let mut known = self.known();
        let address = known.addresses[known.now].clone();
        let connect = || {
            let endpoint = self.endpoint(&address).expect("only good addresses are kept");
            endpoint.connect_with_connector_lazy(connector())
        };
        known.channels.entry(address.clone()).or_insert_with(connect).clone()
    }

    /// After a problem somebody else is asked: who leads, if that was told, or the next one, if this one cannot be reached or cannot
    /// answer now. Whoever has answered is asked again.
    pub(crate) fn turn(&self, problem: &Problem) {
        let mut known = self.known();
        match problem.leader().filter(|leader| self.endpoint(leader).is_ok()) {
            Some(leader) => match known.addresses.iter().position(|address| address == leader) {
                Some(at) => known.now = at,
                None if known.addresses.len() < MAX_ADDRESSES => {
                    known.addresses.push(leader.to_owned());
                    known.now = known.addresses.len() - 1;
                }
                None => known.now = (known.now + 1) % known.addresses.len(),
            },
            None if matches!(problem.kind, ProblemKind::Unavailable | ProblemKind::Deadline) => {
                known.now = (known.now + 1) % known.addresses.len();
            }
            // Who is busy is busy for everybody, for there is one leader; and what is wrong with a request is wrong everywhere.
            None => {}
        }
    }

    /// How an address is reached. A token goes over connections that nobody can read, or stays on this machine, unless it was wanted
    /// otherwise.
    fn endpoint(&self, address: &str) -> Result<Endpoint, AddressError> {
        let endpoint = endpoint(address, &self.credentials)?;
        let is_open = endpoint.uri().scheme_str() != Some("https");
        let is_here = endpoint.uri().host().is_some_and(is_loopback);
        if is_open && !is_here && !self.in_the_open && self.credentials.token().is_some() {
            let why = "is not encrypted: everybody on the way could read the token. If that is wanted, write http:// before it";
            return Err(AddressError::Tls { address: without_user(address).to_owned(), why });
        }
        Ok(endpoint)
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
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(20))
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20))
}

/// TCP connections on which what is asked in one moment is sent in one piece.
fn connector() -> Connector {
    let mut connector = HttpConnector::new();
    // Whoever has TLS puts it on top.
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    connector.map_response(|stream| TokioIo::new(Together::new(stream.into_inner())))
}

/// Whether a host is this machine.
fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

/// An address without a user and his password, which have no business in it.
fn without_user(address: &str) -> &str {
    address.rsplit_once('@').map_or(address, |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
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
        connections.turn(&Problem::new(ProblemKind::Deadline, "OUTCOME_UNKNOWN", "silent"));
        assert_eq!(now(), "a:1");
    }

    #[tokio::test]
    async fn who_has_answered_is_asked_again() {
        let connections =
            Connections::new(&["a:1".to_owned(), "b:1".to_owned()], Credentials::default()).unwrap();
        for kind in [
            ProblemKind::Invalid,
            ProblemKind::NotFound,
            ProblemKind::AlreadyExists,
            ProblemKind::Exhausted,
            ProblemKind::Precondition,
            ProblemKind::Unimplemented,
            ProblemKind::Unauthenticated,
            ProblemKind::Denied,
            ProblemKind::Internal,
        ] {
            connections.turn(&Problem::new(kind, "ANSWERED", "no"));
            assert_eq!(connections.known().now, 0, "{kind:?}");
        }
    }

    #[test]
    fn an_address_has_to_be_one() {
        assert!(matches!(Connections::new(&[], Credentials::default()), Err(AddressError::None)));
        let bad = Connections::new(&["here and there".to_owned()], Credentials::default());
        assert!(matches!(bad, Err(AddressError::Malformed { .. })));
        let bad = Connections::new(&["http://u:planted@a b".to_owned()], Credentials::default()).unwrap_err();
        assert!(!format!("{bad} {bad:?}").contains("planted"));
    }

    #[tokio::test]
    async fn a_token_is_not_sent_where_everybody_can_read_it() {
        let credentials = || Credentials::default().with_token("planted").unwrap();
        let connect = |addresses: &[&str]| {
            Connections::new(&addresses.iter().map(ToString::to_string).collect::<Vec<_>>(), credentials())
        };
        for here in ["127.0.0.1:1", "localhost:1", "[::1]:1", "http://127.0.0.2:1", "http://db.example:1"] {
            connect(&[here]).unwrap();
        }
        for far in ["db.example:1", "10.0.0.7:1", "[2001:db8::1]:1", "localhost.example:1"] {
            let refused = connect(&["127.0.0.1:1", far]).unwrap_err();
            assert!(matches!(refused, AddressError::Tls { .. }), "{far}");
            assert!(!format!("{refused} {refused:?}").contains("planted"));
            Connections::new(&[far.to_owned()], Credentials::default()).unwrap();
        }
        // Nor does it go to whoever is said to lead.
        let leads =
            |leader| Problem::new(ProblemKind::Unavailable, "NOT_LEADER", "away").with("leader", leader);
        for (given, is_followed) in [("127.0.0.1:1", false), ("http://10.0.0.1:1", true)] {
            let connections = connect(&[given]).unwrap();
            connections.turn(&leads("10.0.0.7:1"));
            assert_eq!(connections.known().addresses.len() == 2, is_followed, "{given}");
        }
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
