//! A server on loopback is asked by programs of the same machine, not by pages that a browser has from elsewhere.

use std::net::SocketAddr;

use axum::http::{Request, header};
use gapless_api::{Problem, ProblemKind};

/// Whether anybody is asked who he is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Credentials {
    /// Nobody is: whoever reaches the port may do everything, so a name that was made to mean this machine must not reach it.
    None,
    /// Everybody is, and no browser knows by itself what to say.
    Asked,
}

/// Refuses what a page from elsewhere asks, and names that were made to mean this machine.
///
/// # Errors
/// If it is such.
pub(crate) fn check<B>(
    request: &Request<B>,
    peer: SocketAddr,
    credentials: Credentials,
) -> Result<(), Problem> {
    if !is_foreign(request, peer, credentials) {
        return Ok(());
    }
    let message = "a page from elsewhere, or a name that is not this machine's, may not ask this server";
    Err(Problem::new(ProblemKind::Denied, "FOREIGN_ORIGIN", message))
}

fn is_foreign<B>(request: &Request<B>, peer: SocketAddr, credentials: Credentials) -> bool {
    let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    // A request comes from one place and is for one: whoever says more than that wants it taken for another one.
    let says_twice = |name| request.headers().get_all(name).iter().nth(1).is_some();
    if says_twice(header::HOST) || says_twice(header::ORIGIN) {
        return true;
    }
    let is_local = credentials == Credentials::None && peer.ip().to_canonical().is_loopback();
    let host = header(header::HOST).or(request.uri().authority().map(|authority| authority.as_str()));
    // What is there and cannot be read is foreign, too.
    let is_legible = host.is_some() || !request.headers().contains_key(header::HOST);
    let foreign_host = is_local && (!is_legible || host.is_some_and(|host| !is_loopback(host)));
    let foreign_page = request.headers().get(header::ORIGIN).is_some_and(|origin| {
        let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
        origin.is_none_or(|(_, origin)| Some(origin) != host)
    });
    let foreign_site = header(header::HeaderName::from_static("sec-fetch-site")) == Some("cross-site");
    foreign_host || foreign_page || foreign_site
}

fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_says_two_hosts_or_origins_or_one_that_nobody_can_read_is_refused() {
        let near = SocketAddr::from(([127, 0, 0, 1], 5));
        let refused = |credentials, headers: &[(&str, &[u8])]| {
            let mut request = Request::builder().uri("/v1/namespaces");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            check(&request.body(()).unwrap(), near, credentials).is_err()
        };
        let (host, origin) = (("host", &b"localhost"[..]), ("origin", &b"http://localhost"[..]));
        for credentials in [Credentials::None, Credentials::Asked] {
            assert!(!refused(credentials, &[host, origin]));
            assert!(refused(credentials, &[host, ("host", b"evil.example")]));
            assert!(refused(credentials, &[host, origin, ("origin", b"http://evil.example")]));
            assert!(refused(credentials, &[host, ("origin", b"\xFF")]));
        }
        assert!(refused(Credentials::None, &[("host", b"\xFF")]));
    }

    #[test]
    fn pages_from_elsewhere_are_refused_whoever_asks() {
        let near = SocketAddr::from(([127, 0, 0, 1], 5));
        let far = SocketAddr::from(([10, 0, 0, 7], 5));
        let refused = |peer, credentials, headers: &[(&str, &str)]| {
            let mut request = Request::builder().uri("/v1/namespaces");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            check(&request.body(()).unwrap(), peer, credentials).is_err()
        };
        for credentials in [Credentials::None, Credentials::Asked] {
            let rebound = credentials == Credentials::None;
            assert_eq!(refused(near, credentials, &[("host", "evil.example")]), rebound);
            for (peer, headers, expected) in [
                (near, &[("host", "localhost:7400")][..], false),
                (near, &[("host", "localhost:7400"), ("origin", "http://localhost:7400")], false),
                (near, &[("host", "localhost:7400"), ("origin", "http://evil.example")], true),
                (near, &[("host", "localhost:7400"), ("origin", "null")], true),
                (near, &[("host", "localhost:7400"), ("sec-fetch-site", "cross-site")], true),
                (far, &[("host", "db.example")], false),
                (far, &[("host", "db.example"), ("origin", "https://evil.example")], true),
            ] {
                assert_eq!(refused(peer, credentials, headers), expected, "{peer} {headers:?}");
            }
        }
    }

    #[test]
    fn names_of_this_machine_are_told_from_others() {
        for host in ["localhost", "localhost:7400", "127.0.0.1:7400", "[::1]:7400", "[::1]"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["example.com", "localhost.example.com:7400", ""] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
