//! A server on loopback is asked by programs of the same machine, not by pages that a browser has from elsewhere.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{Response, header};
use axum::middleware::Next;
use gapless_api::{Problem, ProblemKind};

use super::answer::refused;
use crate::accept::Peer;

/// Refuses what a page from elsewhere asks, and names that were made to mean this machine.
pub(super) async fn check(request: Request, next: Next) -> Response<Body> {
    if is_foreign(&request) {
        let message = "a page from elsewhere, or a name that is not this machine's, may not ask this server";
        return refused(&Problem::new(ProblemKind::Denied, "FOREIGN_ORIGIN", message));
    }
    next.run(request).await
}

fn is_foreign(request: &Request) -> bool {
    let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    let is_local = request.extensions().get::<Peer>().is_some_and(|peer| peer.0.ip().is_loopback());
    let host = header(header::HOST).or(request.uri().authority().map(|authority| authority.as_str()));
    let foreign_host = is_local && host.is_some_and(|host| !is_loopback(host));
    let foreign_page = header(header::ORIGIN)
        .is_some_and(|origin| origin.split_once("://").is_none_or(|(_, origin)| Some(origin) != host));
    foreign_host || foreign_page
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
    fn names_of_this_machine_are_told_from_others() {
        for host in ["localhost", "localhost:7400", "127.0.0.1:7400", "[::1]:7400", "[::1]"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["example.com", "localhost.example.com:7400", ""] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
