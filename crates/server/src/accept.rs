//! The accept loop: who comes in, how long one may be silent, and how everybody leaves at the end.
//!
//! ```text
//!  accept ──▶ a place (bounded) ──▶ HTTP/1 or HTTP/2, by its first bytes ──▶ the router
//!               │ none: wait                      │ too slow: closed
//! ```
//!
//! Must not know: which calls there are.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderValue, Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tower::ServiceExt;
use tracing::Instrument;

use crate::metrics::{Measured, Traffic};
use crate::server::Limits;
use crate::silence::Watched;
use crate::tracing_request::Traced;

/// How long nothing is accepted after the system could not: file handles have to come back first.
const AFTER_FAILURE: Duration = Duration::from_millis(50);
/// Longest headers of a request, in bytes.
const MAX_HEADER_BYTES: u32 = 32 << 10;

/// Who asks, as a connection knows him.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// What is behind the door, and who counts at it.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    pub(crate) router: Router,
    pub(crate) traffic: Arc<Traffic>,
}

/// Serves until it is told to close, and until everybody has left or the time for that is over.
pub(crate) async fn run(
    listener: TcpListener,
    door: Door,
    limits: Limits,
    mut closing: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(limits.connections));
    let builder = Arc::new(builder(limits));
    loop {
        let place = tokio::select! {
            place = places.clone().acquire_owned() => place.expect("nobody closes the semaphore"),
            _ = closing.wait_for(|closing| *closing) => break,
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = closing.wait_for(|closing| *closing) => break,
        };
        let Ok((stream, peer)) = accepted else {
            door.traffic.accept_errors.fetch_add(1, Relaxed);
            tokio::time::sleep(AFTER_FAILURE).await;
            continue;
        };
        let connected = Connected::new(&door.traffic);
        let connection = serve(stream, peer, door.clone(), builder.clone(), limits, closing.clone());
        tokio::spawn(async move {
            connection.await;
            drop(connected);
            drop(place);
        });
    }
    drop(listener);
    let all = u32::try_from(limits.connections).unwrap_or(u32::MAX);
    let everybody_left = places.acquire_many(all);
    let _ = tokio::time::timeout(limits.drain, everybody_left).await;
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
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.header_timeout);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(limits.keep_alive)
        .keep_alive_timeout(limits.keep_alive)
        .max_concurrent_streams(limits.calls_per_connection)
        .max_header_list_size(MAX_HEADER_BYTES)
        .adaptive_window(false)
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20);
    builder
}

async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    door: Door,
    builder: Arc<Builder<TokioExecutor>>,
    limits: Limits,
    mut closing: watch::Receiver<bool>,
) {
    // Answers are small, and whoever waits for one waits for it alone. A socket that refuses is as good without.
    let _ = stream.set_nodelay(true);
    let (stream, spoke) = Watched::new(stream);
    let traffic = door.traffic.clone();
    let service = service_fn(move |request: Request<Incoming>| answer(door.clone(), peer, request));
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let silent = async {
        tokio::time::sleep(limits.header_timeout).await;
        if spoke.enough() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        // A connection that breaks concerns whoever broke it.
        _ = connection.as_mut() => return,
        () = silent => {
            traffic.silent.fetch_add(1, Relaxed);
            return;
        }
        _ = closing.wait_for(|closing| *closing) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(limits.drain, connection).await;
}

async fn answer(
    door: Door,
    peer: SocketAddr,
    mut request: Request<Incoming>,
) -> Result<Response<Measured>, Infallible> {
    let mut running = door.traffic.begin(request.uri().path());
    let traced = Traced::new(request.headers());
    let is_named = running.method().is_some();
    traced.name(running.method());
    request.extensions_mut().insert(Peer(peer));
    let mut response = door.router.oneshot(request).instrument(traced.span.clone()).await?;
    // A message that is too long is refused by whoever reads it, under a code that the protocol has no use for.
    if let Some(status) = response.headers_mut().get_mut("grpc-status")
        && status == "11"
    {
        *status = HeaderValue::from_static("3");
    }
    let (mut head, body) = response.into_parts();
    running.answered(head.extensions.get().copied(), head.status, &head.headers);
    if !is_named {
        traced.name(running.method());
    }
    traced.give_back(&mut head.headers);
    Ok(Response::from_parts(head, Measured::new(body, running, traced.span)))
}
