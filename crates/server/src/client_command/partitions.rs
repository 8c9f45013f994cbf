//! `gapless partitions`.

use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use gapless_api::json::to_json;
use gapless_client::{Client, v1};

use super::{answer, ask};
use crate::cli::{DumpForm, PartitionsArguments};
use crate::output::{Side, table, write_json_line, write_table};

/// Runs the command.
pub(crate) fn run(arguments: &PartitionsArguments, out: &mut dyn Write) -> Result<()> {
    ask(&arguments.connection, async |client| {
        loop {
            show(&all(&client, arguments).await?, arguments.connection.output, out)?;
            out.flush()?;
            if !arguments.watch {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    })
}

async fn all(client: &Client, arguments: &PartitionsArguments) -> Result<Vec<v1::Partition>> {
    let mut found = Vec::new();
    let namespace = arguments.namespace.clone().unwrap_or_default();
    let mut request = v1::ListPartitionsRequest { namespace, page_size: 1000, page_token: String::new() };
    loop {
        let page = answer(client.list_partitions(request.clone()), &arguments.connection).await?;
        found.extend(page.partitions);
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return Ok(found);
        }
    }
}

fn show(partitions: &[v1::Partition], form: DumpForm, out: &mut dyn Write) -> Result<()> {
    let state = |found: &v1::Partition| {
        let state = found.state().as_str_name().trim_start_matches("PARTITION_STATE_").to_lowercase();
        if found.frozen { format!("{state}, frozen") } else { state }
    };
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
