//! Sends spans to a collector, many at once, and never holds anybody up: what it cannot send it drops, and counts.
//!
//! Must not know: what a span is made of.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::SpanCounters;
use super::messages::{
    EXPORT, ExportRequest, ExportResponse, KeyValue, Resource, ResourceSpans, Scope, ScopeSpans, Span, Value,
};

/// Most spans of one request.
const BATCH: usize = 512;
/// How long a span waits for others.
const DELAY: Duration = Duration::from_millis(200);
/// How long a collector may take for a request, and what is left may take at the end.
const PATIENCE: Duration = Duration::from_secs(5);

/// Sends until it is stopped.
#[derive(Debug)]
pub(super) struct Exporter {
    task: JoinHandle<()>,
    stop: oneshot::Sender<()>,
}

impl Exporter {
    /// Starts, and says where spans are to be put.
    pub(super) fn start(
        endpoint: &Endpoint,
        buffer: usize,
        counters: Arc<SpanCounters>,
    ) -> (Self, mpsc::Sender<Span>) {
        let (sender, spans) = mpsc::channel(buffer);
        let (stop, stopped) = oneshot::channel();
        let channel = endpoint.clone().connect_timeout(PATIENCE).timeout(PATIENCE).connect_lazy();
        let sending = Sending { grpc: Grpc::new(channel), spans, counters, failing: false };
        (Self { task: tokio::spawn(sending.run(stopped)), stop }, sender)
    }

    /// Sends what waits, and ends.
    pub(super) async fn stop(self) {
        let _ = self.stop.send(());
        let _ = tokio::time::timeout(PATIENCE, self.task).await;
    }
}

struct Sending {
    grpc: Grpc<Channel>,
    spans: mpsc::Receiver<Span>,
    counters: Arc<SpanCounters>,
    /// Whether the last request came to nothing: that is said once.
    failing: bool,
}

impl Sending {
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        loop {
            let mut batch = Vec::with_capacity(BATCH);
            tokio::select! {
                count = self.spans.recv_many(&mut batch, BATCH) => {
                    if count == 0 {
                        return;
                    }
                }
                _ = &mut stopped => break,
            }
            let fill =
                async { while batch.len() < BATCH && self.spans.recv_many(&mut batch, BATCH).await > 0 {} };
            // Whoever wants to stop does not wait for others either.
            let ends = tokio::select! {
                _ = tokio::time::timeout(DELAY, fill) => false,
                _ = &mut stopped => true,
            };
            self.send(batch).await;
            if ends {
                break;
            }
        }
        self.spans.close();
        let mut rest = Vec::new();
        while self.spans.recv_many(&mut rest, BATCH).await > 0 {
            self.send(std::mem::take(&mut rest)).await;
        }
    }

    async fn send(&mut self, batch: Vec<Span>) {
        let count = batch.len() as u64;
        match self.export(batch).await {
            Ok(()) => {
                self.counters.exported.fetch_add(count, Relaxed);
                self.failing = false;
            }
            Err(status) => {
                self.counters.dropped.fetch_add(count, Relaxed);
                if !std::mem::replace(&mut self.failing, true) {
                    let (code, message) = (status.code(), status.message());
                    tracing::warn!(
                        "spans are dropped, because their collector does not take them: {code:?} {message}"
                    );
                }
            }
        }
    }

    async fn export(&mut self, spans: Vec<Span>) -> Result<(), Status> {
        let unavailable = |error: tonic::transport::Error| Status::unavailable(error.to_string());
        self.grpc.ready().await.map_err(unavailable)?;
        let path = PathAndQuery::from_static(EXPORT);
        let codec: ProstCodec<ExportRequest, ExportResponse> = ProstCodec::default();
        self.grpc.unary(Request::new(request(spans)), path, codec).await?;
        Ok(())
    }
}

fn request(spans: Vec<Span>) -> ExportRequest {
    let text = |text: &str| Value::Text(text.to_owned());
    let version = env!("CARGO_PKG_VERSION");
    let attributes = vec![
        KeyValue::new("service.name", text("gapless")),
        KeyValue::new("service.version", text(version)),
        KeyValue::new("process.pid", Value::Integer(i64::from(std::process::id()))),
    ];
    let scope = Some(Scope { name: "gapless".to_owned(), version: version.to_owned() });
    let scope_spans = vec![ScopeSpans { scope, spans }];
    let resource = Some(Resource { attributes });
    ExportRequest { resource_spans: vec![ResourceSpans { resource, scope_spans }] }
}
