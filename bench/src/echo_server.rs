//! A server that does nothing: it takes the messages of the protocol, and gives answers of the same size at once. What is left of a
//! server when the ledger is taken out of it: tonic, with the connections that ours has.
//!
//! Must not know: how anything is measured.

use std::convert::Infallible;
use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use gapless_api::v1;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use prost::Message;
use tokio::net::{TcpListener, TcpStream};
use tonic::body::Body;
use tonic::codegen::http::{Request as HttpRequest, Response as HttpResponse};
use tonic::server::{Grpc, ServerStreamingService, StreamingService, UnaryService};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

/// The silence after which a connection is asked whether it is there, as our server has it.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// Serves until the process is ended; says where on stdout.
pub(crate) fn run() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let mut out = std::io::stdout();
        writeln!(out, "listening on {}", listener.local_addr()?)?;
        out.flush()?;
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(serve(stream));
        }
    })
}

/// Settings as in `crates/server/src/accept.rs`.
async fn serve(stream: TcpStream) {
    // A socket that refuses is as good without.
    let _ = stream.set_nodelay(true);
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .max_concurrent_streams(1024)
        .max_header_list_size(16 << 10)
        .adaptive_window(false)
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20);
    let service = service_fn(async |request| Ok::<_, Infallible>(answer(request).await));
    // A connection that breaks concerns whoever broke it.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(request: HttpRequest<Incoming>) -> HttpResponse<Body> {
    match request.uri().path() {
        "/gapless.v1.Ledger/Write" => unary(request, write).await,
        "/gapless.v1.Ledger/WriteStream" => Grpc::new(ProstCodec::default()).streaming(Writes, request).await,
        "/gapless.v1.Ledger/ReadWorkspace" => {
            Grpc::new(ProstCodec::default()).server_streaming(Reads, request).await
        }
        "/gapless.v1.Ledger/GetWorkspace" => {
            unary(request, |_: v1::GetWorkspaceRequest| v1::GetWorkspaceResponse {
                last_offset: 1 << 20,
                ..Default::default()
            })
            .await
        }
        "/gapless.v1.Admin/GetNamespace" => {
            unary(request, |_: v1::GetNamespaceRequest| v1::GetNamespaceResponse::default()).await
        }
        _ => Status::unimplemented("an echo has no such call").into_http(),
    }
}

async fn unary<Q, A>(request: HttpRequest<Incoming>, answer: fn(Q) -> A) -> HttpResponse<Body>
where
    Q: Message + Default + Send + 'static,
    A: Message + Default + Send + 'static,
{
    Grpc::new(ProstCodec::<A, Q>::default()).unary(Unary(answer), request).await
}

struct Unary<Q, A>(fn(Q) -> A);

impl<Q, A> UnaryService<Q> for Unary<Q, A>
where
    Q: Send + 'static,
    A: Message + Default + Send + 'static,
{
    type Response = A;
    type Future = BoxFuture<'static, Result<Response<A>, Status>>;

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let answer = self.0;
        Box::pin(async move { Ok(Response::new(answer(request.into_inner()))) })
    }
}

struct Writes;

impl StreamingService<v1::WriteRequest> for Writes {
    type Response = v1::WriteResponse;
    type ResponseStream = BoxStream<'static, Result<v1::WriteResponse, Status>>;
    type Future = BoxFuture<'static, Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<Streaming<v1::WriteRequest>>) -> Self::Future {
        let answers = request.into_inner().map(|request| request.map(write));
        Box::pin(async move { Ok(Response::new(answers.boxed())) })
    }
}

struct Reads;

impl ServerStreamingService<v1::ReadWorkspaceRequest> for Reads {
    type Response = v1::ReadWorkspaceResponse;
    type ResponseStream = BoxStream<'static, Result<v1::ReadWorkspaceResponse, Status>>;
    type Future = BoxFuture<'static, Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<v1::ReadWorkspaceRequest>) -> Self::Future {
        let v1::ReadWorkspaceRequest { namespace, workspace, from, limit, .. } = request.into_inner();
        let event = move |offset| {
            Ok(v1::ReadWorkspaceResponse { event: Some(event(namespace.clone(), workspace, offset)) })
        };
        let events = stream::iter((from..from + limit).map(event));
        Box::pin(async move { Ok(Response::new(events.boxed())) })
    }
}

/// What a write is answered, with the fields and lengths that a real answer has.
fn write(request: v1::WriteRequest) -> v1::WriteResponse {
    let success = v1::WriteSuccess {
        tx_id: "00112233445566778899aabbccddeeff".to_owned(),
        block_height: 1_000_000,
        assigned_sequence: 1_000_000,
        log_index: 1_000_000,
        partition: 5,
        partition_offset: 1_000_000,
        workspace_offset: 1_000_000,
        committed_at_ms: 1_800_000_000_000,
        ..Default::default()
    };
    v1::WriteResponse {
        result: Some(v1::write_response::Result::Success(success)),
        idempotency_key: request.idempotency_key,
    }
}

/// An event as the load generator writes it.
fn event(namespace: String, workspace: u64, offset: u64) -> v1::Event {
    static PAYLOAD: [u8; 256] = [0x5A; 256];
    v1::Event {
        namespace,
        workspace,
        workspace_offset: offset,
        event_type: "Measured".to_owned(),
        content_type: "application/octet-stream".to_owned(),
        payload: Bytes::from_static(&PAYLOAD),
        client_id: "bench-0".to_owned(),
        assigned_sequence: offset,
        idempotency_key: Bytes::from_static(&[7; 16]),
        tx_id: "00112233445566778899aabbccddeeff".to_owned(),
        log_index: 1_000_000,
        partition: 5,
        partition_offset: offset,
        committed_at_ms: 1_800_000_000_000,
        kind: "default".to_owned(),
        ..Default::default()
    }
}
