//! What comes in: connections, calls, how long they take and how they end. Counted by index, without a lock and without a name.
//!
//! ```text
//!  request ──▶ Running ──▶ the call is known ──▶ its status is known ──▶ dropped: counted once, however it ended
//! ```
//!
//! Must not know: what a call means.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use axum::http::{HeaderMap, StatusCode};
use prost_reflect::DescriptorPool;

use super::histogram::Histogram;
use crate::http::routes::routes;

/// What every service of ours is named after.
const PACKAGE: &str = "gapless.v1.";
/// Calls that follow what happens.
const SUBSCRIBE: &str = "Subscribe";

/// Statuses of gRPC, by code.
const GRPC: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];
const CANCELLED: usize = 1;
const UNKNOWN: usize = 2;

/// Statuses of HTTP that we answer with; the last one stands for all others.
const HTTP: [&str; 17] = [
    "200",
    "cancelled",
    "400",
    "401",
    "403",
    "404",
    "405",
    "409",
    "412",
    "413",
    "415",
    "422",
    "429",
    "500",
    "503",
    "504",
    "other",
];

/// A protocol, with its statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Grpc,
    Http,
}

impl Protocol {
    fn name(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::Http => "http",
        }
    }

    fn statuses(self) -> &'static [&'static str; 17] {
        match self {
            Self::Grpc => &GRPC,
            Self::Http => &HTTP,
        }
    }
}

/// One of the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallId(usize);

/// A call, and what became of it so far.
#[derive(Debug)]
struct Call {
    protocol: Protocol,
    method: String,
    is_stream: bool,
    running: AtomicU64,
    ended: [Histogram; 17],
}

impl Call {
    fn new(protocol: Protocol, method: &str, is_stream: bool) -> Self {
        let (running, ended) = (AtomicU64::new(0), Default::default());
        Self { protocol, method: method.to_owned(), is_stream, running, ended }
    }
}

/// A call as it is shown.
pub(super) struct Shown<'a> {
    pub(super) protocol: &'static str,
    pub(super) method: &'a str,
    pub(super) is_stream: bool,
    pub(super) follows: bool,
    pub(super) running: u64,
    ended: &'a [Histogram; 17],
    statuses: &'static [&'static str; 17],
}

impl Shown<'_> {
    /// How calls ended, by status; those that never did with one are left out.
    pub(super) fn endings(&self) -> impl Iterator<Item = (&'static str, super::histogram::Distribution)> {
        let read =
            self.statuses.iter().copied().zip(self.ended).map(|(status, ended)| (status, ended.read()));
        read.filter(|(_, ended)| ended.count() > 0)
    }
}

/// Everything that comes in.
#[derive(Debug)]
pub(crate) struct Traffic {
    calls: Vec<Call>,
    /// Paths of gRPC in order, each with its call.
    paths: Vec<(String, usize)>,
    pub(crate) connections: Arc<AtomicU64>,
    pub(crate) accepted: AtomicU64,
    pub(crate) silent: AtomicU64,
    pub(crate) accept_errors: AtomicU64,
    /// Connections that were closed at once: too many of one address.
    pub(crate) crowded: AtomicU64,
    /// Connections of strangers that made room for others.
    pub(crate) displaced: AtomicU64,
    /// Connections that did not get through the handshake of TLS.
    pub(crate) handshakes_failed: AtomicU64,
    /// Connections that were closed because they broke off one call after the other.
    pub(crate) fickle: AtomicU64,
}

/// What stands for every call that is none of ours.
const OTHER: &str = "other";
const OTHER_GRPC: usize = 0;
const OTHER_HTTP: usize = 1;

impl Traffic {
    /// Knows every call of the protocol and every route.
    pub(crate) fn new(connections: Arc<AtomicU64>) -> Self {
        let mut calls =
            vec![Call::new(Protocol::Grpc, OTHER, false), Call::new(Protocol::Http, OTHER, false)];
        let mut paths = Vec::new();
        let pool = DescriptorPool::decode(gapless_api::FILE_DESCRIPTORS).expect("the protocol was compiled");
        for service in pool.services().filter(|service| service.full_name().starts_with(PACKAGE)) {
            for method in service.methods() {
                paths.push((format!("/{}/{}", service.full_name(), method.name()), calls.len()));
                let is_stream = method.is_server_streaming() || method.is_client_streaming();
                calls.push(Call::new(Protocol::Grpc, method.name(), is_stream));
            }
        }
        paths.sort();
        for route in routes() {
            let is_stream = matches!(route.call, "ReadWorkspace" | "ReadPartition" | "ReadAll");
            calls.push(Call::new(Protocol::Http, route.call, is_stream));
        }
        calls.push(Call::new(Protocol::Http, SUBSCRIBE, true));
        let zero = AtomicU64::default;
        Self {
            calls,
            paths,
            connections,
            accepted: zero(),
            silent: zero(),
            accept_errors: zero(),
            crowded: zero(),
            displaced: zero(),
            handshakes_failed: zero(),
            fickle: zero(),
        }
    }

    /// The call of a route, for its answers to carry.
    pub(crate) fn http_call(&self, name: &str) -> CallId {
        let is_it = |call: &Call| call.protocol == Protocol::Http && call.method == name;
        CallId(self.calls.iter().position(is_it).unwrap_or(OTHER_HTTP))
    }

    /// A call that follows, over HTTP.
    pub(crate) fn http_subscribe(&self) -> CallId {
        self.http_call(SUBSCRIBE)
    }

    /// A request begins. Its call is known from the path if it is gRPC, and later otherwise.
    pub(crate) fn begin(self: &Arc<Self>, path: &str) -> Running {
        let grpc = match self.paths.binary_search_by(|(known, _)| known.as_str().cmp(path)) {
            Ok(at) => Some(self.paths[at].1),
            Err(_) => path.starts_with("/grpc.").then_some(OTHER_GRPC),
        };
        if let Some(call) = grpc {
            self.calls[call].running.fetch_add(1, Relaxed);
        }
        Running { traffic: self.clone(), call: grpc, status: CANCELLED, began: Instant::now() }
    }

    pub(super) fn shown(&self) -> impl Iterator<Item = Shown<'_>> {
        self.calls.iter().map(|call| Shown {
            protocol: call.protocol.name(),
            method: &call.method,
            is_stream: call.is_stream,
            follows: call.method.starts_with(SUBSCRIBE),
            running: call.running.load(Relaxed),
            ended: &call.ended,
            statuses: call.protocol.statuses(),
        })
    }
}

/// A call that has not ended. Dropped, it has.
#[derive(Debug)]
pub(crate) struct Running {
    traffic: Arc<Traffic>,
    call: Option<usize>,
    status: usize,
    began: Instant,
}

impl Running {
    /// The name of the call, once it is known.
    pub(crate) fn method(&self) -> Option<&str> {
        self.call.map(|call| self.traffic.calls[call].method.as_str())
    }

    /// The answer begins: who answers, and how that ends unless trailers say something else.
    pub(crate) fn answered(&mut self, call: Option<CallId>, status: StatusCode, headers: &HeaderMap) {
        match self.call {
            // An answer that says nothing yet has its status at its end; one that breaks off before was cancelled.
            Some(_) => self.trailers(headers),
            None => {
                let call = call.map_or(OTHER_HTTP, |call| call.0);
                self.call = Some(call);
                self.traffic.calls[call].running.fetch_add(1, Relaxed);
                let told = HTTP.iter().position(|known| *known == status.as_str());
                self.status = told.unwrap_or(HTTP.len() - 1);
            }
        }
    }

    /// The end of an answer, which says how it ended if it is gRPC.
    pub(crate) fn trailers(&mut self, trailers: &HeaderMap) {
        if let Some(code) = trailers.get("grpc-status") {
            let code = code.to_str().ok().and_then(|code| code.parse().ok());
            self.status = code.filter(|code| *code < GRPC.len()).unwrap_or(UNKNOWN);
        }
    }

    /// The status as it is shown.
    pub(crate) fn status(&self) -> &'static str {
        let protocol = self.call.map_or(Protocol::Http, |call| self.traffic.calls[call].protocol);
        protocol.statuses()[self.status]
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Whoever left before anybody answered asked for something of HTTP.
        let call = &self.traffic.calls[self.call.unwrap_or(OTHER_HTTP)];
        if self.call.is_some() {
            call.running.fetch_sub(1, Relaxed);
        }
        call.ended[self.status].record(self.began.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn endings(traffic: &Traffic) -> Vec<(String, String, &'static str, u64)> {
        let mut all = Vec::new();
        for shown in traffic.shown() {
            for (status, ended) in shown.endings() {
                all.push((shown.protocol.to_owned(), shown.method.to_owned(), status, ended.count()));
            }
        }
        all
    }

    fn running(traffic: &Traffic) -> u64 {
        traffic.shown().map(|shown| shown.running).sum()
    }

    #[test]
    fn a_call_is_counted_once_with_the_status_it_ended_with() {
        let traffic = Arc::new(Traffic::new(Arc::default()));
        let mut status = HeaderMap::new();
        status.insert("grpc-status", HeaderValue::from_static("8"));
        let mut call = traffic.begin("/gapless.v1.Ledger/Write");
        assert_eq!((call.method(), running(&traffic)), (Some("Write"), 1));
        call.answered(None, StatusCode::OK, &HeaderMap::new());
        call.trailers(&status);
        drop(call);
        drop(traffic.begin("/gapless.v1.Ledger/Subscribe"));
        let mut call = traffic.begin("/v1/namespaces");
        call.answered(
            Some(traffic.http_call("ListNamespaces")),
            StatusCode::TOO_MANY_REQUESTS,
            &HeaderMap::new(),
        );
        assert_eq!(running(&traffic), 1);
        drop(call);
        let mut call = traffic.begin("/nowhere");
        call.answered(None, StatusCode::IM_A_TEAPOT, &HeaderMap::new());
        drop(call);
        let row = |protocol: &str, method: &str, status| (protocol.to_owned(), method.to_owned(), status, 1);
        let mut expected = vec![
            row("grpc", "Write", "RESOURCE_EXHAUSTED"),
            row("grpc", "Subscribe", "CANCELLED"),
            row("http", "ListNamespaces", "429"),
            row("http", "other", "other"),
        ];
        let mut seen = endings(&traffic);
        expected.sort();
        seen.sort();
        assert_eq!((seen, running(&traffic)), (expected, 0));
    }
}
