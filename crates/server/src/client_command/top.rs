//! `gapless top`: how a node does, once a second, from what any client can ask.
//!
//! ```text
//!  sample ──▶ compared with the one before ──▶ frame: rates, marks, the busiest partitions first
//! ```
//!
//! Must not know: how a node knows.

use std::cmp::Reverse;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use anyhow::Result;
use gapless_client::{Client, v1};
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};

use super::partitions::{all_partitions, state};
use super::{answer, ask};
use crate::cli::{DumpForm, TopArguments};
use crate::output::{Bytes, CLEAR, Count, Side, heading, table, write_json, write_json_line, write_table};

/// What was asked at one time.
struct Sample {
    at: Instant,
    status: v1::ClusterStatusResponse,
    partitions: Vec<v1::Partition>,
}

/// What is shown at one time.
#[derive(Debug, Serialize)]
struct Frame {
    node_id: u64,
    version: String,
    leader: Option<u64>,
    is_leader: bool,
    takes_writes: bool,
    term: u64,
    members: usize,
    /// Outcomes a second since the sample before.
    outcomes_per_second: f64,
    durable_index: u64,
    committed_index: u64,
    dispatched_index: u64,
    writes_in_flight: u64,
    connections: u64,
    admitted_bytes: u64,
    memtable_bytes: u64,
    cached_bytes: u64,
    /// Those with the most to do first.
    partitions: Vec<Line>,
    /// How many there are.
    partition_count: usize,
    alarms: Vec<String>,
}

/// One partition.
#[derive(Debug, Serialize)]
struct Line {
    partition: String,
    state: String,
    outcomes_per_second: f64,
    backlog_entries: u64,
    backlog_bytes: u64,
    backlog_age_ms: u64,
    applied_offset: u64,
    synced_offset: u64,
    checkpoint_offset: u64,
}

/// Runs the command.
pub(crate) fn run(arguments: &TopArguments, out: &mut dyn Write) -> Result<()> {
    let live = !arguments.once && std::io::stdout().is_terminal();
    ask(&arguments.connection, async |client| {
        // From now on: what comes while an answer is waited for is not lost.
        let mut interrupted = signal(SignalKind::interrupt())?;
        let mut before = sample(&client, arguments).await?;
        loop {
            tokio::select! {
                () = tokio::time::sleep(arguments.interval) => {}
                _ = interrupted.recv() => return Ok(()),
            }
            let now = sample(&client, arguments).await?;
            if live {
                write!(out, "{CLEAR}")?;
            }
            show(&frame(&before, &now, arguments.lines), arguments, out)?;
            out.flush()?;
            if arguments.once {
                return Ok(());
            }
            before = now;
        }
    })
}

async fn sample(client: &Client, arguments: &TopArguments) -> Result<Sample> {
    let connection = &arguments.connection;
    let status = answer(client.cluster_status(v1::ClusterStatusRequest {}), connection).await?;
    let partitions = all_partitions(client, String::new(), connection).await?;
    Ok(Sample { at: Instant::now(), status, partitions })
}

fn frame(before: &Sample, now: &Sample, lines: usize) -> Frame {
    let elapsed = now.at.duration_since(before.at);
    let line = |partition: &v1::Partition| {
        let place = (&partition.namespace, partition.partition);
        let earlier = before.partitions.iter().find(|found| (&found.namespace, found.partition) == place);
        let applied = earlier.map_or(partition.applied_offset, |earlier| earlier.applied_offset);
        Line {
            partition: format!("{}/{}", partition.namespace, partition.partition),
            state: state(partition),
            outcomes_per_second: per_second(partition.applied_offset.saturating_sub(applied), elapsed),
            backlog_entries: partition.backlog_entries,
            backlog_bytes: partition.backlog_bytes,
            backlog_age_ms: partition.backlog_age_ms,
            applied_offset: partition.applied_offset,
            synced_offset: partition.synced_offset,
            checkpoint_offset: partition.checkpoint_offset,
        }
    };
    let mut shown: Vec<Line> = now.partitions.iter().map(line).collect();
    let total = shown.iter().map(|line| line.outcomes_per_second).sum();
    // What is not well comes first, then who is behind, then who is busy.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate to sort by, never negative"
    )]
    shown.sort_by_key(|line| {
        let rate = line.outcomes_per_second as u64;
        (line.state == "serving", Reverse((line.backlog_age_ms, line.backlog_entries, rate)))
    });
    let partition_count = shown.len();
    shown.truncate(lines);
    let status = &now.status;
    let resources = status.resources.unwrap_or_default();
    Frame {
        node_id: status.node_id,
        version: status.version.clone(),
        leader: status.leader.as_ref().map(|leader| leader.node_id),
        is_leader: status.is_leader,
        takes_writes: status.takes_writes,
        term: status.term,
        members: status.nodes.len(),
        outcomes_per_second: total,
        durable_index: status.durable_index.unwrap_or(0),
        committed_index: status.committed_index.unwrap_or(0),
        dispatched_index: status.dispatched_index.unwrap_or(0),
        writes_in_flight: resources.writes_in_flight,
        connections: resources.connections,
        admitted_bytes: resources.admitted_bytes,
        memtable_bytes: resources.memtable_bytes,
        cached_bytes: resources.cached_bytes,
        partitions: shown,
        partition_count,
        alarms: status.alarms.clone(),
    }
}

fn per_second(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64().max(1e-3)
}

fn show(frame: &Frame, arguments: &TopArguments, out: &mut dyn Write) -> Result<()> {
    match arguments.connection.output {
        DumpForm::Json if arguments.once => write_json(out, frame),
        DumpForm::Json => write_json_line(out, frame),
        DumpForm::Raw => Ok(writeln!(out, "{:.0}", frame.outcomes_per_second)?),
        DumpForm::Table => text(frame, out),
    }
}

fn text(frame: &Frame, out: &mut dyn Write) -> Result<()> {
    let leader = match frame.leader {
        _ if frame.is_leader => "leads".to_owned(),
        Some(leader) => format!("follows node {leader}"),
        None => "knows nobody who leads".to_owned(),
    };
    let writes = if frame.takes_writes { "takes writes" } else { "takes no writes" };
    let title = format!("node {}, {leader}, term {}, {writes}", frame.node_id, frame.term);
    writeln!(out, "{}", heading(&title))?;
    writeln!(
        out,
        "outcomes    {:.0}/s, {} writes in flight",
        frame.outcomes_per_second,
        Count(frame.writes_in_flight)
    )?;
    let Frame { durable_index, committed_index, dispatched_index, .. } = frame;
    writeln!(
        out,
        "log         durable {durable_index}, committed {committed_index}, dispatched {dispatched_index}"
    )?;
    writeln!(
        out,
        "memory      rows {}, cached {}, admitted {}",
        Bytes(frame.memtable_bytes),
        Bytes(frame.cached_bytes),
        Bytes(frame.admitted_bytes)
    )?;
    writeln!(
        out,
        "members     {}, connections {}, version {}",
        frame.members, frame.connections, frame.version
    )?;
    for alarm in &frame.alarms {
        writeln!(out, "alarm       {alarm}")?;
    }
    writeln!(out)?;
    let mut rows = table([
        ("partition", Side::Left),
        ("state", Side::Left),
        ("outcomes/s", Side::Right),
        ("backlog", Side::Right),
        ("bytes", Side::Right),
        ("age ms", Side::Right),
        ("applied", Side::Right),
        ("synced", Side::Right),
        ("checkpoint", Side::Right),
    ]);
    for line in &frame.partitions {
        rows.add_row([
            line.partition.clone(),
            line.state.clone(),
            format!("{:.0}", line.outcomes_per_second),
            line.backlog_entries.to_string(),
            Bytes(line.backlog_bytes).to_string(),
            line.backlog_age_ms.to_string(),
            line.applied_offset.to_string(),
            line.synced_offset.to_string(),
            line.checkpoint_offset.to_string(),
        ]);
    }
    write_table(out, &rows)?;
    match frame.partition_count - frame.partitions.len() {
        0 => Ok(()),
        more => Ok(writeln!(out, "  and {more} more; --lines N shows more of them")?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(index: u32, applied: u64, age: u64, state: v1::PartitionState) -> v1::Partition {
        v1::Partition {
            namespace: "shop".to_owned(),
            partition: index,
            state: state.into(),
            applied_offset: applied,
            backlog_age_ms: age,
            ..Default::default()
        }
    }

    #[test]
    fn what_is_not_well_comes_first_then_who_is_behind_then_who_is_busy() {
        use v1::PartitionState::{Failed, Serving};
        let sample = |at, partitions| Sample { at, status: v1::ClusterStatusResponse::default(), partitions };
        let start = Instant::now();
        let before = (0..4).map(|index| partition(index, 100, 0, Serving)).collect();
        let now = vec![
            partition(0, 100, 0, Serving),
            partition(1, 300, 0, Serving),
            partition(2, 100, 50, Serving),
            partition(3, 100, 0, Failed),
        ];
        let shown = frame(&sample(start, before), &sample(start + Duration::from_secs(2), now), 3);
        let names: Vec<&str> = shown.partitions.iter().map(|line| line.partition.as_str()).collect();
        assert_eq!(names, ["shop/3", "shop/2", "shop/1"]);
        assert_eq!((shown.outcomes_per_second.round(), shown.partition_count), (100.0, 4));
    }
}
