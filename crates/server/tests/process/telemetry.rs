//! What a node tells: lines on stderr, and spans to a collector.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use futures_util::future::{Ready, ready};
use gapless_client::{Client, Ledger, TraceContext, v1};
use gapless_server::telemetry::messages::{EXPORT, ExportRequest, ExportResponse, Span, Value};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tonic::server::{Grpc, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use crate::kill::{SHOP, client, sale};
use crate::support::{Process, program};

/// How long anything may take before a test has failed.
const LONG: Duration = Duration::from_secs(60);

/// A server whose stderr is kept in a file.
fn serve(dir: &Path, arguments: &[&str]) -> Process {
    let lines = File::create(dir.join("stderr")).unwrap();
    let data = dir.join("data");
    let mut command = program();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()]);
    Process::spawn(command.args(arguments).stderr(Stdio::from(lines)))
}

fn lines(dir: &Path) -> Vec<String> {
    std::fs::read_to_string(dir.join("stderr")).unwrap().lines().map(str::to_owned).collect()
}

async fn write_some(process: &Process) {
    let shop = v1::ApplyNamespaceRequest { definition: SHOP.to_owned() };
    client(process).apply_namespace(shop).await.unwrap();
    client(process).write(sale(1)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_reads_what_happens_from_start_to_end() {
    let dir = tempfile::tempdir().unwrap();
    let process = serve(dir.path(), &[]);
    write_some(&process).await;
    assert!(process.terminate().success());
    let lines = lines(dir.path());
    let order = ["starting", "ready after ", "stopping", "stopped"];
    let mut rest = lines.iter();
    for words in order {
        assert!(rest.any(|line| line.contains("INFO") && line.contains(words)), "{words} in {lines:#?}");
    }
    assert!(lines.iter().any(|line| line.contains("this node leads")), "{lines:#?}");
    assert!(lines.iter().all(|line| !line.contains("DEBUG")), "{lines:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_can_be_json_and_never_hold_what_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let process = serve(dir.path(), &["--log-format", "json", "--log", "debug"]);
    write_some(&process).await;
    assert!(process.terminate().success());
    let lines = lines(dir.path());
    let ready = lines.iter().filter(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(line["timestamp"].is_string() && line["level"].is_string(), "{line}");
        line["message"].as_str().is_some_and(|message| message.starts_with("ready after "))
    });
    assert_eq!(ready.count(), 1, "{lines:#?}");
    for secret in ["ItemSold", "sale"] {
        assert!(lines.iter().all(|line| !line.contains(secret)), "{secret} in {lines:#?}");
    }
}

/// Takes spans, and hands them on.
#[derive(Clone)]
struct Collector(mpsc::UnboundedSender<Span>);

impl UnaryService<ExportRequest> for Collector {
    type Response = ExportResponse;
    type Future = Ready<Result<Response<ExportResponse>, Status>>;

    fn call(&mut self, request: Request<ExportRequest>) -> Self::Future {
        for resource in request.into_inner().resource_spans {
            assert!(resource.resource.unwrap().attributes.iter().any(|known| known.key == "service.name"));
            for span in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                // Nobody is there any more when a test has ended.
                let _ = self.0.send(span);
            }
        }
        ready(Ok(Response::new(ExportResponse {})))
    }
}

impl Collector {
    /// Listens on a free port; where, and what comes.
    async fn start() -> (String, mpsc::UnboundedReceiver<Span>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (sender, spans) = mpsc::unbounded_channel();
        let collector = Self(sender);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let collector = collector.clone();
                let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                    let collector = collector.clone();
                    async move {
                        assert_eq!(request.uri().path(), EXPORT);
                        let codec: ProstCodec<ExportResponse, ExportRequest> = ProstCodec::default();
                        Ok::<_, Infallible>(Grpc::new(codec).unary(collector, request).await)
                    }
                });
                let builder = Builder::new(TokioExecutor::new());
                tokio::spawn(async move {
                    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        (address, spans)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_trace_runs_from_a_client_through_the_server_to_the_collector() {
    let dir = tempfile::tempdir().unwrap();
    let (collector, mut spans) = Collector::start().await;
    let mut command = program();
    let data = dir.path().to_str().unwrap();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data", data]).stderr(Stdio::null());
    // What nobody asked for is hardly ever kept.
    command.env("GAPLESS_TELEMETRY__SAMPLE_ONE_IN", "1000000000");
    let process = Process::spawn(command.env("GAPLESS_TELEMETRY__OTLP_ENDPOINT", &collector));
    write_some(&process).await;
    let context: TraceContext = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01".parse().unwrap();
    let traced = Client::new(std::slice::from_ref(&process.address)).unwrap().traced(context);
    let written = traced.write(sale(2)).await.unwrap();

    let mut found: BTreeMap<String, Span> = BTreeMap::new();
    let steps = ["request", "recall", "admission", "propose", "commit_wait", "ack"];
    while !steps.iter().all(|step| found.contains_key(*step)) {
        let span = tokio::time::timeout(LONG, spans.recv()).await.unwrap_or_else(|_| panic!("{found:#?}"));
        let span = span.unwrap();
        if span.trace_id == context.trace.get().to_be_bytes() {
            found.insert(span.name.clone(), span);
        }
    }
    let names: BTreeSet<&str> = found.keys().map(String::as_str).collect();
    assert_eq!(names, BTreeSet::from(steps));
    let request = &found["request"];
    assert_eq!(request.parent_span_id, context.span.get().to_be_bytes());
    for step in &steps[1..] {
        assert_eq!(found[*step].parent_span_id, request.span_id, "{step}");
        assert!(found[*step].start_time_unix_nano >= request.start_time_unix_nano, "{step}");
    }
    let attribute = |step: &str, name: &str| {
        let known = found[step].attributes.iter().find(|known| known.key == name);
        known.and_then(|known| known.value.clone()).and_then(|value| value.value)
    };
    assert_eq!(attribute("request", "method"), Some(Value::Text("Write".to_owned())));
    assert_eq!(attribute("request", "status"), Some(Value::Text("OK".to_owned())));
    assert_eq!(attribute("ack", "log_index"), Some(Value::Integer(written.log_index.cast_signed())));
    let said = format!("{found:?}");
    for secret in ["ItemSold", "till", "sale"] {
        assert!(!said.contains(secret), "{secret} in {said}");
    }
    assert!(process.terminate().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_away_costs_spans_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = program();
    let data = dir.path().to_str().unwrap();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data", data]).stderr(Stdio::null());
    command.env("GAPLESS_TELEMETRY__OTLP_BUFFER", "8");
    let process = Process::spawn(command.env("GAPLESS_TELEMETRY__OTLP_ENDPOINT", "http://127.0.0.1:1"));
    write_some(&process).await;
    for number in 2..100 {
        client(&process).write(sale(number)).await.unwrap();
    }
    let dropped = || {
        let page = process.get("/metrics").1;
        let dropped = page.lines().find_map(|line| line.strip_prefix("gapless_spans_dropped_total "));
        dropped.unwrap().parse::<u64>().unwrap()
    };
    // Eight wait; the others of at least 99 writes have found no room, or nobody who takes them.
    for _ in 0..6000 {
        if dropped() > 400 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(dropped() > 400, "{}", dropped());
    assert!(process.terminate().success());
}
