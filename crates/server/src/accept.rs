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
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tower::ServiceExt;

use crate::server::Limits;
use crate::silence::Watched;

/// How long nothing is accepted after the system could not: file handles have to come back first.
const AFTER_FAILURE: Duration = Duration::from_millis(50);
/// Longest headers of a request, in bytes.
const MAX_HEADER_BYTES: u32 = 32 << 10;

/// Who asks, as a connection knows him.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// Serves until it is told to close, and until everybody has left or the time for that is over.
pub(crate) async fn run(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    connected: Arc<AtomicU64>,
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
            tokio::time::sleep(AFTER_FAILURE).await;
            continue;
        };
        let connection = serve(stream, peer, router.clone(), builder.clone(), limits, closing.clone());
        let counted = Counted::new(connected.clone());
        tokio::spawn(async move {
            connection.await;
            drop((counted, place));
        });
    }
    drop(listener);
    let all = u32::try_from(limits.connections).unwrap_or(u32::MAX);
    let everybody_left = places.acquire_many(all);
    let _ = tokio::time::timeout(limits.drain, everybody_left).await;
}

/// One connection, counted for as long as it is there, whatever ends it.
struct Counted(Arc<AtomicU64>);

impl Counted {
    fn new(connected: Arc<AtomicU64>) -> Self {
        connected.fetch_add(1, Ordering::Relaxed);
        Self(connected)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
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
    router: Router,
    builder: Arc<Builder<TokioExecutor>>,
    limits: Limits,
    mut closing: watch::Receiver<bool>,
) {
    // Answers are small, and whoever waits for one waits for it alone. A socket that refuses is as good without.
    let _ = stream.set_nodelay(true);
    let (stream, spoke) = Watched::new(stream);
    let service = service_fn(move |request: Request<Incoming>| answer(router.clone(), peer, request));
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
        () = silent => return,
        _ = closing.wait_for(|closing| *closing) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(limits.drain, connection).await;
}

async fn answer(
    router: Router,
    peer: SocketAddr,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    request.extensions_mut().insert(Peer(peer));
    let mut response = router.oneshot(request).await?;
    // A message that is too long is refused by whoever reads it, under a code that the protocol has no use for.
    if let Some(status) = response.headers_mut().get_mut("grpc-status")
        && status == "11"
    {
        *status = HeaderValue::from_static("3");
    }
    Ok(response)
}
