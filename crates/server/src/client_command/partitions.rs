//! `gapless partitions`.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use anyhow::Result;
use gapless_api::json::to_json;
use gapless_client::{Client, v1};
use tokio::signal::unix::{SignalKind, signal};

use super::{answer, ask};
use crate::cli::{
    Connection, DumpForm, FromNode, PartitionsArguments, PartitionsCommand, RepairPartitionArguments,
};
use crate::output::{CLEAR, Side, table, write_json_line, write_table};
use crate::refusal::Refusal;

/// Runs the command.
pub(crate) fn run(arguments: &PartitionsArguments, out: &mut dyn Write) -> Result<()> {
    if let Some(PartitionsCommand::Repair(arguments)) = &arguments.command {
        return repair(arguments, out);
    }
    ask(&arguments.connection, async |client| {
        // From now on: what comes while an answer is waited for is not lost.
        let mut interrupted = signal(SignalKind::interrupt())?;
        loop {
            let namespace = arguments.namespace.clone().unwrap_or_default();
            let found = all_partitions(&client, namespace, &arguments.connection).await?;
            if arguments.watch && std::io::stdout().is_terminal() {
                write!(out, "{CLEAR}")?;
            }
            show(&found, arguments.connection.output, out)?;
            out.flush()?;
            if !arguments.watch {
                return Ok(());
            }
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
                _ = interrupted.recv() => return Ok(()),
            }
        }
    })
}

fn repair(arguments: &RepairPartitionArguments, out: &mut dyn Write) -> Result<()> {
    let named =
        arguments.partition.split_once('/').and_then(|(name, index)| Some((name, index.parse().ok()?)));
    let Some((namespace, partition)) = named else {
        let problem = format!("`{}` is no partition", arguments.partition);
        return Err(Refusal::new(problem, "name it like this: gapless partitions repair shop/3").into());
    };
    let source = arguments.from.as_ref().map(|from| from.display().to_string()).unwrap_or_default();
    let (node, any_node) = match arguments.from_node {
        None => (0, false),
        Some(FromNode::Any) => (0, true),
        Some(FromNode::Id(node)) => (node.get(), false),
    };
    let namespace = namespace.to_owned();
    let request = v1::RepairPartitionRequest { namespace, partition, source, node, any_node };
    ask(&arguments.connection, async |client| {
        let done = answer(client.repair_partition(request.clone()), &arguments.connection).await?;
        match arguments.connection.output {
            DumpForm::Json => write_json_line(out, &to_json("RepairPartitionResponse", &done)),
            DumpForm::Table | DumpForm::Raw => {
                done.repaired.iter().try_for_each(|line| writeln!(out, "{line}"))?;
                Ok(writeln!(out, "partition {} serves", arguments.partition)?)
            }
        }
    })
}

/// All partitions, or those of a namespace.
pub(super) async fn all_partitions(
    client: &Client,
    namespace: String,
    connection: &Connection,
) -> Result<Vec<v1::Partition>> {
    let mut found = Vec::new();
    let mut request = v1::ListPartitionsRequest { namespace, page_size: 1000, page_token: String::new() };
    loop {
        let page = answer(client.list_partitions(request.clone()), connection).await?;
        found.extend(page.partitions);
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return Ok(found);
        }
    }
}

/// The state of a partition in a word or two.
pub(super) fn state(found: &v1::Partition) -> String {
    let state = found.state().as_str_name().trim_start_matches("PARTITION_STATE_").to_lowercase();
    if found.frozen { format!("{state}, frozen") } else { state }
}

fn show(partitions: &[v1::Partition], form: DumpForm, out: &mut dyn Write) -> Result<()> {
    match form {
        DumpForm::Json => {
            partitions.iter().try_for_each(|found| write_json_line(out, &to_json("Partition", found)))
        }
        DumpForm::Raw => Ok(partitions.iter().try_for_each(|found| {
            writeln!(out, "{}/{} {}", found.namespace, found.partition, state(found))
        })?),
        DumpForm::Table => {
            let numbers =
                ["highest", "durable", "applied", "synced", "checkpoint", "snapshot", "backlog", "age ms"];
            let mut rows = table([
                ("partition", Side::Left),
                ("state", Side::Left),
                (numbers[0], Side::Right),
                (numbers[1], Side::Right),
                (numbers[2], Side::Right),
                (numbers[3], Side::Right),
                (numbers[4], Side::Right),
                (numbers[5], Side::Right),
                (numbers[6], Side::Right),
                (numbers[7], Side::Right),
            ]);
            for found in partitions {
                let marks = [
                    found.highest_offset,
                    found.durable_offset,
                    found.applied_offset,
                    found.synced_offset,
                    found.checkpoint_offset,
                    found.snapshot_offset,
                    found.backlog_entries,
                    found.backlog_age_ms,
                ];
                let place = format!("{}/{}", found.namespace, found.partition);
                rows.add_row([place, state(found)].into_iter().chain(marks.map(|mark| mark.to_string())));
            }
            Ok(write_table(out, &rows)?)
        }
    }
}
