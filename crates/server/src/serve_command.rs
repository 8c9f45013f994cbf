//! `gapless serve`: a node, from its directory to its end.
//!
//! Must not know: what is served.

use std::io::Write;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use gapless_engine::{Engine, OpenError, runtime_threads};
use gapless_server::telemetry::Telemetry;
use gapless_server::{Config, Server, StartError};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::{LineArguments, ServeArguments};
use crate::config::{Problem, Reading, Settings};
use crate::refusal::Refusal;

/// Runs the command.
pub(crate) fn run(arguments: &ServeArguments, out: &mut dyn Write) -> Result<()> {
    let settings = settings(arguments)?;
    if arguments.print_config {
        return Ok(out.write_all(settings.print().as_bytes())?);
    }
    node_runtime(&settings)?.block_on(async {
        let stop = Stop::new()?;
        let node = Node::start(&settings).await?;
        writeln!(out, "listening on {}", node.address())?;
        out.flush()?;
        stop.wait().await;
        node.stop().await;
        Ok(())
    })
}

/// File, environment and flags together; every problem at once.
fn settings(arguments: &ServeArguments) -> Result<Settings> {
    let mut reading = Reading::default();
    if let Some(path) = &arguments.config {
        match std::fs::read_to_string(path) {
            Ok(text) => reading.file(path, &text),
            Err(error) => reading.unreadable(path, &error),
        }
    }
    reading.environment(std::env::vars_os());
    reading.data("--data", arguments.data.as_ref());
    reading.flag("--listen", "server.listen", arguments.listen);
    reading.flag("--insecure", "server.insecure", arguments.insecure.then_some(true));
    take_lines(&mut reading, &arguments.lines);
    let (settings, problems) = if arguments.print_config { reading.read() } else { reading.read_to_serve() };
    refuse(&problems)?;
    Ok(settings)
}

/// Takes over what flags say of lines.
pub(crate) fn take_lines(reading: &mut Reading, lines: &LineArguments) {
    reading.flag("--log", "telemetry.log", lines.log.as_ref());
    reading.flag("--log-format", "telemetry.log_format", lines.log_format.as_ref());
}

/// Nobody starts with problems.
pub(crate) fn refuse(problems: &[Problem]) -> Result<()> {
    if problems.is_empty() {
        return Ok(());
    }
    let told: Vec<String> = problems.iter().map(|problem| format!("\n  {problem}")).collect();
    let next = "mend all of it; `gapless serve --print-config` shows all settings, and what they are";
    Err(Refusal::new(format!("this node cannot be configured like that:{}", told.concat()), next).into())
}

/// What commands that talk over a network run on.
pub(crate) fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start threads")
}

/// What a node runs on.
pub(crate) fn node_runtime(settings: &Settings) -> Result<Runtime> {
    let threads = NonZeroUsize::new(settings.threads).unwrap_or_else(runtime_threads);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(threads.get()).enable_all().build().context("cannot start threads")
}

/// An engine and its server.
pub(crate) struct Node {
    pub(crate) engine: Engine,
    server: Server,
    telemetry: Telemetry,
    /// How long it took until it took writes.
    pub(crate) ready_after: Duration,
}

impl Node {
    /// Opens a directory and serves it. Ready when it takes writes.
    pub(crate) async fn start(settings: &Settings) -> Result<Self> {
        let began = Instant::now();
        let telemetry = Telemetry::begin(&settings.telemetry)?;
        let version = env!("CARGO_PKG_VERSION");
        tracing::info!(version, data = %settings.data.display(), "starting");
        let engine =
            Engine::open(settings.engine()).await.map_err(|error| not_opened(&error, &settings.data))?;
        let config = Config { spans: telemetry.spans(), ..settings.server() };
        let server = match Server::start(engine.clone(), config).await {
            Ok(server) => server,
            Err(error) => {
                engine.close().await;
                let next = match &error {
                    StartError::Security(_) => {
                        "mend the file; docs/operations/security.md says what it has to be"
                    }
                    _ => "choose another address: --listen ADDR; port 0 picks a free one",
                };
                let problem = format!("{:#}", anyhow::Error::from(error));
                return Err(Refusal::new(problem, next).into());
            }
        };
        engine.wait_for_leader().await;
        engine.wait_until_actualized().await;
        server.wait_until_ready().await;
        let (address, partitions) = (server.address(), engine.partitions().len());
        let ready_after = began.elapsed();
        tracing::info!(%address, partitions, "ready after {} ms", ready_after.as_millis());
        Ok(Self { engine, server, telemetry, ready_after })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Lets everything it took be answered, and makes everything durable.
    pub(crate) async fn stop(self) {
        tracing::info!("stopping: what was taken is answered");
        self.server.stop().await;
        self.engine.close().await;
        tracing::info!("stopped");
        self.telemetry.end().await;
    }
}

fn not_opened(error: &OpenError, data: &Path) -> Refusal {
    let mut problem = format!("{} cannot be opened as a ledger: {error}", data.display());
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        problem.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    Refusal::new(
        problem,
        "see that the directory can be written to, that no other process serves it, and that it is whole",
    )
}

/// The end, as a service manager or a person asks for it.
pub(crate) struct Stop {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Stop {
    /// Listens from now on: a signal that comes while the node starts is not lost.
    pub(crate) fn new() -> Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    /// Waits for it.
    pub(crate) async fn wait(mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
