//! The accept loop: who comes in, how long one may be silent, and how everybody leaves at the end.
//!
//! ```text
//!  accept ──▶ a place (bounded, also for each address) ──▶ TLS ──▶ HTTP/1 or HTTP/2, by its first bytes ──▶ the door
//!               │ none: the oldest stranger goes; wait      │ too slow, idle or fickle: closed
//!
//!  request ──▶ the origin of a page ──▶ who asks ──▶ a place among all calls ──▶ the ledger, or the router to everything else
//! ```
//!
//! Must not know: which calls there are, who may make them.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Request, Response, header};
use gapless_api::Problem;
use gapless_api::v1::ledger_server::LedgerServer;
use gapless_client::Together;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tonic::{Code, Status};
use tower::{Service, ServiceExt};
use tracing::Instrument;

use crate::access::authentication::{Authentication, Connection};
use crate::access::fairness::{self, Allowance, Place, Room};
use crate::access::lobby::{Lobby, Seat, Seated, made_room};
use crate::access::reload::Current;
use crate::access::rules::{self, Scope};
use crate::access::{certificates, decide};
use crate::activity::Activity;
use crate::audit::Audit;
use crate::http::origin::{self, Credentials};
use crate::http::{headers, is_grpc, refusal};
use crate::ledger_service::LedgerService;
use crate::metrics::{Measured, Traffic};
use crate::reading::Counted;
use crate::server::Limits;
use crate::slow_body::Timely;
use crate::strangers::{Stranger, Strangers};
use crate::tracing_request::Traced;
use crate::unread::Unread;

/// How long nothing is accepted after the system could not: file handles have to come back first.
const AFTER_FAILURE: Duration = Duration::from_millis(50);
/// Longest headers of a request, in bytes.
const MAX_HEADER_BYTES: u32 = 32 << 10;
/// Most headers of a request.
const MAX_HEADERS: usize = 100;
/// What is read ahead of a connection of HTTP/1, in bytes; headers that are longer are refused.
const READ_AHEAD_BYTES: usize = 64 << 10;
/// What waits to be sent on one stream, in bytes.
const SEND_AHEAD_BYTES: usize = 256 << 10;
/// Streams that the other side may break off before anybody looked at them.
const MAX_RESET_UNSEEN: usize = 20;
/// Streams that may be broken off for mistakes of the other side.
const MAX_RESET_WRONG: usize = 100;
/// What is read of a stranger's request, in bytes: the name of a service is all he has to say.
const LOBBY_CALL_BYTES: usize = 4 << 10;
/// Streams of requests, which may take as long as they like.
const ENDLESS: [&str; 2] = ["/gapless.v1.Ledger/WriteStream", "/gapless.v1.Projections/Work"];

/// What is behind the door, who counts at it, and who is let in.
#[derive(Debug)]
pub(crate) struct Door {
    /// Calls of the ledger are most of all, and a router would cost each of them a tenth of what it takes.
    pub(crate) ledger: LedgerServer<LedgerService>,
    pub(crate) router: Router,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) tls: Option<Arc<Current<Arc<ServerConfig>>>>,
    pub(crate) authentication: Arc<Authentication>,
    pub(crate) audit: Audit,
    pub(crate) room: Arc<Room>,
    /// For what is open to everybody: however many strangers there are, they take nothing from those who are known.
    pub(crate) lobby: Arc<Lobby>,
}

/// What stands before every call of the service Ledger.
const LEDGER: &str = "/gapless.v1.Ledger/";

impl Door {
    /// To whoever answers it.
    async fn lead_on(&self, request: Request<Body>) -> Result<Response<Body>, Infallible> {
        if request.uri().path().starts_with(LEDGER) {
            return Ok(self.ledger.clone().call(request).await?.map(Body::new));
        }
        self.router.clone().oneshot(request).await
    }
}

/// Serves until it is told to close, and until everybody has left or the time for that is over.
pub(crate) async fn run(
    listener: TcpListener,
    door: Arc<Door>,
    limits: Limits,
    mut closing: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(limits.connections));
    let crowds = Arc::new(Crowds { most: limits.connections_per_address, here: Mutex::default() });
    let builder = Arc::new(builder(limits));
    let strangers = Arc::new(Strangers::new(limits.connections));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = closing.wait_for(|closing| *closing) => break,
        };
        let Ok((stream, peer)) = accepted else {
            door.traffic.accept_errors.fetch_add(1, Relaxed);
            tokio::time::sleep(AFTER_FAILURE).await;
            continue;
        };
        let Some(in_crowd) = crowds.enter(peer.ip()) else {
            door.traffic.crowded.fetch_add(1, Relaxed);
            continue;
        };
        if places.available_permits() == 0 && strangers.make_room() {
            door.traffic.displaced.fetch_add(1, Relaxed);
        }
        let place = tokio::select! {
            place = places.clone().acquire_owned() => place.expect("nobody closes the semaphore"),
            _ = closing.wait_for(|closing| *closing) => break,
        };
        let connected = Connected::new(&door.traffic);
        let stranger = strangers.enter();
        let (door, builder, closing) = (door.clone(), builder.clone(), closing.clone());
        let connection = welcome(stream, peer, door, builder, limits, closing, stranger.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = connection => {}
                () = stranger.goes() => {}
            }
            drop((connected, in_crowd));
            drop(place);
        });
    }
    drop(listener);
    let all = u32::try_from(limits.connections).unwrap_or(u32::MAX);
    let everybody_left = places.acquire_many(all);
    let _ = tokio::time::timeout(limits.drain, everybody_left).await;
}

/// How many connections each address has. There are as many entries as addresses with connections.
#[derive(Debug)]
struct Crowds {
    most: usize,
    here: Mutex<HashMap<IpAddr, usize>>,
}

impl Crowds {
    fn enter(self: &Arc<Self>, address: IpAddr) -> Option<InCrowd> {
        let address = network(address);
        let mut here = self.here.lock().unwrap_or_else(PoisonError::into_inner);
        let count = here.entry(address).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(InCrowd { crowds: self.clone(), address })
    }
}

/// What counts as one address: of IPv6, what one customer of a provider usually has.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        address => address,
    }
}

/// One of the connections of an address. Dropped, it is gone.
#[derive(Debug)]
struct InCrowd {
    crowds: Arc<Crowds>,
    address: IpAddr,
}

impl Drop for InCrowd {
    fn drop(&mut self) {
        let mut here = self.crowds.here.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = here.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                here.remove(&self.address);
            }
        }
    }
}

/// A connection, counted for as long as it is there.
struct Connected(Arc<Traffic>);

impl Connected {
    fn new(traffic: &Arc<Traffic>) -> Self {
        traffic.accepted.fetch_add(1, Relaxed);
        traffic.connections.fetch_add(1, Relaxed);
        Self(traffic.clone())
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Relaxed);
    }
}

fn builder(limits: Limits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_headers(MAX_HEADERS)
        .max_buf_size(READ_AHEAD_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(limits.keep_alive)
        .keep_alive_timeout(limits.keep_alive)
        .max_concurrent_streams(limits.calls_per_connection)
        .max_header_list_size(MAX_HEADER_BYTES)
        .max_pending_accept_reset_streams(MAX_RESET_UNSEEN)
        .max_local_error_reset_streams(MAX_RESET_WRONG)
        .max_send_buf_size(SEND_AHEAD_BYTES)
        .adaptive_window(false)
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20);
    builder
}

/// Lets somebody in, by TLS if there is.
async fn welcome(
    stream: TcpStream,
    peer: SocketAddr,
    door: Arc<Door>,
    builder: Arc<Builder<TokioExecutor>>,
    limits: Limits,
    closing: watch::Receiver<bool>,
    stranger: Arc<Stranger>,
) {
    // Answers are small, and whoever waits for one waits for it alone. A socket that refuses is as good without.
    let _ = stream.set_nodelay(true);
    let Some(tls) = &door.tls else {
        let connection = Connection::new(peer, Arc::new([]), 0);
        return serve(stream, connection, door, builder, limits, closing, stranger).await;
    };
    let handshake = TlsAcceptor::from((*tls.get()).clone()).accept(stream);
    let stream = match tokio::time::timeout(limits.header_timeout, handshake).await {
        Ok(Ok(stream)) => stream,
        failed => {
            door.traffic.handshakes_failed.fetch_add(1, Relaxed);
            if let Ok(Err(error)) = failed
                && let Some(reason) = certificates::refused(&error)
            {
                door.audit.refused(peer.ip(), reason);
            }
            return;
        }
    };
    let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let names = certificate.map(certificates::names).unwrap_or_default();
    let ends = certificate.map(certificates::ends).unwrap_or_default();
    let connection = Connection::new(peer, names.into(), ends);
    serve(stream, connection, door, builder, limits, closing, stranger).await;
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    connection: Connection,
    door: Arc<Door>,
    builder: Arc<Builder<TokioExecutor>>,
    limits: Limits,
    mut closing: watch::Receiver<bool>,
    stranger: Arc<Stranger>,
) {
    let began = Arc::new(AtomicBool::new(false));
    let (traffic, activity) = (door.traffic.clone(), Arc::new(Activity::new()));
    let (its, connection, begins) = (activity.clone(), Arc::new(connection), began.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        begins.store(true, Relaxed);
        answer(door.clone(), connection.clone(), its.clone(), stranger.clone(), limits, request)
    });
    // As long as a ping and its answer may take: who reads nothing gets no ping, and cannot answer.
    let stream = Together::new(Unread::new(stream, limits.keep_alive * 2));
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    // Whichever protocol it is, and however much came: the headers of the first request are complete by then. Those that follow on a
    // connection of HTTP/1 are waited for by its own timer.
    let silent = async {
        tokio::time::sleep(limits.header_timeout).await;
        if began.load(Relaxed) {
            std::future::pending::<()>().await;
        }
    };
    let mut farewell = limits.drain;
    tokio::select! {
        // A connection that breaks concerns whoever broke it.
        _ = connection.as_mut() => return,
        () = silent => {
            traffic.silent.fetch_add(1, Relaxed);
            // One that only was early is told, and comes again when it has something to ask.
            farewell = farewell.min(limits.header_timeout);
        }
        () = activity.fickle() => {
            traffic.fickle.fetch_add(1, Relaxed);
            return;
        }
        () = activity.idle(limits.idle_timeout) => {}
        _ = closing.wait_for(|closing| *closing) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(farewell, connection).await;
}

async fn answer(
    door: Arc<Door>,
    connection: Arc<Connection>,
    activity: Arc<Activity>,
    stranger: Arc<Stranger>,
    limits: Limits,
    mut request: Request<Incoming>,
) -> Result<Response<Measured>, Infallible> {
    let mut busy = activity.begin();
    let mut running = door.traffic.begin(request.uri().path());
    let traced = Traced::new(request.headers());
    let is_named = running.method().is_some();
    traced.name(running.method());
    let is_tls = door.tls.is_some();
    let (mut response, place) = match admitted(&door, &connection, &mut request) {
        Ok(Admitted::Lobby(seat)) => (in_lobby(&door, seat, limits, request, &traced).await?, None),
        Ok(Admitted::Known(place)) => {
            stranger.believe(|| place.client());
            let is_endless = ENDLESS.contains(&request.uri().path());
            let allowance = place.allowance();
            let request = request.map(|body| match is_endless {
                true => Body::new(Counted::messages(body, allowance)),
                false => Body::new(Counted::whole(Timely::new(body, limits.patience), allowance)),
            });
            (door.lead_on(request).instrument(traced.span.clone()).await?, Some(place))
        }
        Err(problem) => {
            let mut response = refusal(is_grpc(&request), problem);
            if response.status() == axum::http::StatusCode::UNAUTHORIZED {
                let ask = HeaderValue::from_static("Bearer");
                response.headers_mut().insert(header::WWW_AUTHENTICATE, ask);
            }
            (response, None)
        }
    };
    busy.answers();
    blame(response.headers_mut());
    let (mut head, body) = response.into_parts();
    running.answered(head.extensions.get().copied(), head.status, &head.headers);
    if !is_named {
        traced.name(running.method());
    }
    traced.give_back(&mut head.headers);
    headers::secure(&mut head.headers, is_tls);
    Ok(Response::from_parts(head, Measured::new(body, running, traced.span, (place, busy))))
}

/// The answer to a stranger: it ends when his seat is needed.
async fn in_lobby(
    door: &Door,
    seat: Seat,
    limits: Limits,
    request: Request<Incoming>,
    traced: &Traced,
) -> Result<Response<Body>, Infallible> {
    let is_grpc = is_grpc(&request);
    let request = request.map(|body| {
        Body::new(Counted::whole(Timely::new(body, limits.patience), Allowance::alone(LOBBY_CALL_BYTES)))
    });
    let mut goes = Box::pin(seat.goes());
    let response = tokio::select! {
        response = door.lead_on(request).instrument(traced.span.clone()) => response?,
        () = &mut goes => return Ok(refusal(is_grpc, made_room())),
    };
    Ok(response.map(|body| Body::new(Seated::new(body, seat, goes, is_grpc))))
}

/// A message that is too long, or none, is refused by whoever reads it, under codes that say nothing about whose fault it was, and without
/// a reason. What we refuse ourselves has one.
fn blame(headers: &mut HeaderMap) {
    if !headers.contains_key("grpc-status") || headers.contains_key("grpc-status-details-bin") {
        return;
    }
    let Some(status) = Status::from_header_map(headers).filter(|status| status.code() != Code::Ok) else {
        return;
    };
    let code = match status.code() {
        Code::OutOfRange | Code::Internal => Code::InvalidArgument,
        code => code,
    };
    let problem = Problem::from(&Status::new(code, status.message()));
    // Nothing of it can be what a header is not: it was in one.
    let _ = Status::from(problem).add_header(headers);
}

/// Where a request goes on.
enum Admitted {
    /// To whatever it asks for: somebody known asks.
    Known(Place),
    /// To what is open to everybody.
    Lobby(Seat),
}

/// Whether a request may go on: it is of no foreign page, somebody known asks, and there is room.
fn admitted(
    door: &Door,
    connection: &Connection,
    request: &mut Request<Incoming>,
) -> Result<Admitted, Problem> {
    let path = request.uri().path();
    if rules::is_open(path) {
        return Ok(Admitted::Lobby(door.lobby.enter(connection.peer.ip())));
    }
    let is_on = door.authentication.is_on();
    let credentials = if is_on { Credentials::Asked } else { Credentials::None };
    origin::check(request, connection.peer, credentials)?;
    let caller = door.authentication.caller(request.headers(), connection).inspect_err(|refused| {
        door.audit.refused(connection.peer.ip(), refused.audited());
    })?;
    if let Some(rule) = rules::page(path) {
        decide(&caller.principal, rule, &Scope::Everything)
            .inspect_err(|_| door.audit.denied(&caller, rule))?;
    }
    if let Some(rule) = rules::method(path)? {
        // Whoever has this right nowhere is not read from.
        decide(&caller.principal, rule, &Scope::Something)
            .inspect_err(|_| door.audit.denied(&caller, rule))?;
    }
    let client = if is_on { fairness::client(&caller, is_on) } else { connection.stranger.clone() };
    let place = door.room.enter(client)?;
    // What was believed is nobody else's business from here on.
    request.headers_mut().remove(header::AUTHORIZATION);
    request.extensions_mut().insert(caller);
    request.extensions_mut().insert(place.unsent());
    Ok(Admitted::Known(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_refuse_without_a_reason_gets_one() {
        let told = |status: Status| {
            let mut headers = HeaderMap::new();
            status.add_header(&mut headers).unwrap();
            blame(&mut headers);
            let told = Status::from_header_map(&headers).unwrap();
            let reason = tonic_types::StatusExt::get_details_error_info(&told).map(|info| info.reason);
            (told.code(), reason)
        };
        let invalid = (Code::InvalidArgument, Some("INVALID_REQUEST".to_owned()));
        assert_eq!(told(Status::internal("failed to decode")), invalid);
        assert_eq!(told(Status::out_of_range("too long")), invalid);
        let unimplemented = (Code::Unimplemented, Some("UNIMPLEMENTED".to_owned()));
        assert_eq!(told(Status::unimplemented("gzip")), unimplemented);
        let own = Problem::new(gapless_api::ProblemKind::Internal, "STORAGE_FAULT", "the disk");
        assert_eq!(told(own.into()), (Code::Internal, Some("STORAGE_FAULT".to_owned())));
        assert_eq!(told(Status::ok("")), (Code::Ok, None));
    }

    #[test]
    fn an_address_has_so_many_connections_and_no_more() {
        let crowds = Arc::new(Crowds { most: 2, here: Mutex::default() });
        let enter = |address: &str| crowds.enter(address.parse().unwrap());
        let first = enter("10.0.0.1").unwrap();
        let _second = enter("::ffff:10.0.0.1").unwrap();
        assert!(enter("10.0.0.1").is_none());
        assert!(enter("10.0.0.2").is_some());
        drop(first);
        assert!(enter("10.0.0.1").is_some());
        let _one = (enter("2001:db8::1").unwrap(), enter("2001:db8::2").unwrap());
        assert!(enter("2001:db8::3").is_none(), "one network counts as one address");
        assert!(enter("2001:db8:0:1::1").is_some());
    }
}
