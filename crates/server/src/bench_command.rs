//! `gapless bench`: load, put on a server by the client that programs use, and what it showed.
//!
//! ```text
//!  pace ──▶ clients (write, stream, read) ──▶ recorder ──▶ report
//!  what is due     the real client            latencies     throughput, percentiles, histogram, errors
//! ```
//!
//! Must not know: how a server answers.

mod load;
mod pace;
mod projecting;
mod recorder;
mod report;
mod work;

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures_util::stream::{self, StreamExt};
use gapless_client::{Client, Error, Ledger, Options, ProblemKind, v1};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::task::JoinSet;

use self::load::Load;
use self::report::{Report, Setting};
use crate::cli::{BenchCommand, DumpForm, LoadArguments};
use crate::client_command::{answer, ask, credentials, explained};
use crate::output::{Count, time};
use crate::refusal::{Refusal, note};

/// Connections, unless somebody says how many.
const CONNECTIONS: u32 = 16;
/// How often progress is shown.
const TICK: Duration = Duration::from_secs(1);
/// Workspaces that are filled for reading, at most.
const READ_WORKSPACES: u64 = 64;

/// Runs the command.
pub(crate) fn run(command: &BenchCommand, out: &mut dyn Write) -> Result<()> {
    let (arguments, setting) = setting(command);
    let report =
        ask(&arguments.connection, async |client| measured(client, command, arguments, setting).await)?;
    let form = if arguments.json { DumpForm::Json } else { arguments.connection.output };
    report.write(form, out)
}

fn setting(command: &BenchCommand) -> (&LoadArguments, Setting) {
    let (load, what, clients, in_flight, events_per_read) = match command {
        BenchCommand::Write { load, clients } => (load, "write", *clients, None, None),
        BenchCommand::Stream { load, clients, in_flight } => {
            (load, "stream", *clients, Some(*in_flight), None)
        }
        BenchCommand::Read { load, clients, events } => (load, "read", *clients, None, Some(*events)),
        BenchCommand::Projection { load, clients, .. } => (load, "projection", *clients, None, None),
    };
    let workspaces = if what == "read" { load.workspaces.min(READ_WORKSPACES) } else { load.workspaces };
    let setting = Setting {
        what,
        clients,
        connections: load.connections.unwrap_or(CONNECTIONS).min(clients),
        rate: load.rate,
        in_flight,
        events_per_read,
        size: load.size,
        workspaces,
        warm_up_seconds: load.warm_up.as_secs_f64(),
        work_ms: match command {
            BenchCommand::Projection { work, .. } => Some(work.as_secs_f64() * 1e3),
            _ => None,
        },
    };
    (load, setting)
}

async fn measured(
    client: Client,
    command: &BenchCommand,
    arguments: &LoadArguments,
    setting: Setting,
) -> Result<Report> {
    match command {
        BenchCommand::Projection { .. } => make_projection(&client, arguments).await?,
        _ => make_namespace(&client, arguments).await?,
    }
    let there = match command {
        BenchCommand::Read { events, .. } => {
            fill(&client, arguments, setting.workspaces, u64::from(*events)).await?
        }
        _ => Vec::new(),
    };
    let clients = connected(arguments, &client, &setting)?;
    let load = Arc::new(Load::new(arguments));
    let there = Arc::new(there);
    let fed = Arc::new(projecting::Fed::default());
    let mut working = JoinSet::new();
    if matches!(command, BenchCommand::Projection { .. }) {
        working.spawn(projecting::feed(load.clone(), client, fed.clone()));
    }
    for (number, client) in clients.into_iter().enumerate() {
        let load = load.clone();
        match command {
            BenchCommand::Write { .. } => working.spawn(work::write(load, client, number)),
            BenchCommand::Stream { .. } => working.spawn(work::stream(load, client, number)),
            BenchCommand::Projection { work, .. } => {
                working.spawn(projecting::work(load, client, number, *work, fed.clone()))
            }
            BenchCommand::Read { events, .. } => {
                working.spawn(work::read(load, client, number, u64::from(*events), there.clone()))
            }
        };
    }
    let pacing = std::thread::spawn({
        let load = load.clone();
        move || load.pace.drive()
    });
    let interrupted = watch(&load, arguments).await;
    load.end();
    // What is on its way is waited for: a stall at the end counts like any other. A second Ctrl-C does not wait.
    let all = async { while working.join_next().await.is_some() {} };
    tokio::select! {
        () = all => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    // It ends within a nap, and cannot fail but by a panic, which was reported.
    let _ = pacing.join();
    let report = Report::new(
        setting,
        load.recorder.measured(),
        load.measured_for(),
        interrupted,
        load.pace.not_sent(load.window().1),
    );
    Ok(report)
}

/// Waits for the end, and shows how it goes; whether it was interrupted.
async fn watch(load: &Load, arguments: &LoadArguments) -> bool {
    let total = arguments.warm_up + arguments.duration;
    let bar = progress_bar(total);
    let mut ticks = tokio::time::interval(TICK);
    ticks.tick().await;
    let mut seen = 0;
    let end = tokio::time::sleep_until((load.began + total).into());
    tokio::pin!(end);
    loop {
        tokio::select! {
            () = &mut end => break bar.finish_and_clear(),
            _ = tokio::signal::ctrl_c() => {
                bar.finish_and_clear();
                return true;
            }
            _ = ticks.tick() => {
                let now = load.recorder.seen();
                let (elapsed, events) = (load.began.elapsed(), now - seen);
                seen = now;
                let phase = if elapsed < arguments.warm_up { ", warming up" } else { "" };
                let line = format!("{} events/s{phase}", Count(events));
                if bar.is_hidden() {
                    note(format_args!("{:>6}  {line}", time(elapsed)));
                } else {
                    bar.set_position(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX));
                    bar.set_message(line);
                }
            }
        }
    }
    false
}

/// On a terminal, a bar; elsewhere, hidden.
fn progress_bar(total: Duration) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {elapsed} {msg}");
    let length = u64::try_from(total.as_millis()).unwrap_or(u64::MAX);
    ProgressBar::new(length).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// One for each client; as many connections as were asked for.
fn connected(arguments: &LoadArguments, first: &Client, setting: &Setting) -> Result<Vec<Client>> {
    let options = Options {
        in_flight: usize::try_from(setting.in_flight.unwrap_or(1)).unwrap_or(1),
        ..first.options()
    };
    let addresses = &arguments.connection.server;
    let refused =
        |error: gapless_client::AddressError| Refusal::new(error.to_string(), "give one with --server");
    let credentials = credentials(&arguments.connection)?;
    let connections: Vec<Client> = (0..setting.connections)
        .map(|_| Ok(Client::connecting(addresses, credentials.clone()).map_err(refused)?.with(options)))
        .collect::<Result<_>>()?;
    Ok(connections.iter().cycle().take(usize::try_from(setting.clients).unwrap_or(1)).cloned().collect())
}

async fn make_namespace(client: &Client, arguments: &LoadArguments) -> Result<()> {
    let connection = &arguments.connection;
    let name = &arguments.namespace;
    match client.get_namespace(v1::GetNamespaceRequest { namespace: name.clone() }).await {
        Ok(_) => Ok(()),
        Err(Error::Problem(problem)) if problem.kind == ProblemKind::NotFound => {
            let definition = format!("name = \"{name}\"\npartitions = 8\n");
            answer(client.apply_namespace(v1::ApplyNamespaceRequest { definition }), connection).await?;
            Ok(())
        }
        Err(error) => Err(explained(error, connection)),
    }
}

/// A namespace with a projection that workers compute. One that is there gets it, if it has as many partitions.
async fn make_projection(client: &Client, arguments: &LoadArguments) -> Result<()> {
    let (name, projection) = (&arguments.namespace, projecting::PROJECTION);
    let definition = format!(
        "name = \"{name}\"\npartitions = 8\n[projections.{projection}]\nevents = [\"Measured\"]\nmax_attempts = 1000000\n"
    );
    answer(client.apply_namespace(v1::ApplyNamespaceRequest { definition }), &arguments.connection).await?;
    Ok(())
}

/// Events in each workspace, at least so many: those that are missing are written.
async fn fill(client: &Client, arguments: &LoadArguments, workspaces: u64, wanted: u64) -> Result<Vec<u64>> {
    let connection = &arguments.connection;
    let mut there = Vec::new();
    let mut missing = Vec::new();
    for workspace in 1..=workspaces {
        let request =
            v1::GetWorkspaceRequest { namespace: arguments.namespace.clone(), workspace, options: None };
        let found = answer(client.get_workspace(request), connection).await?.last_offset;
        missing.extend(std::iter::repeat_n(
            workspace,
            usize::try_from(wanted.saturating_sub(found)).unwrap_or(0),
        ));
        there.push(found.max(wanted));
    }
    if !missing.is_empty() {
        note(format_args!("{} events are written first", Count(missing.len() as u64)));
    }
    let load = Load::new(arguments);
    let requests: Vec<_> = (0..)
        .zip(missing)
        .map(move |(number, workspace)| v1::WriteRequest { workspace, ..load.event(0, number) })
        .collect();
    let mut answers = client.write_stream(stream::iter(requests).boxed());
    while let Some(answered) = answers.next().await {
        answered.map_err(|error| explained(error, connection))?;
    }
    Ok(there)
}
