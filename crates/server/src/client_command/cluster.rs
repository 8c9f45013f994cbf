//! `gapless cluster`.

use std::io::Write;

use anyhow::Result;
use gapless_api::json::to_json;
use gapless_client::v1;

use super::{answer, ask};
use crate::cli::{ClusterCommand, DumpForm};
use crate::output::write_json;

/// Runs the command.
pub(crate) fn run(command: &ClusterCommand, out: &mut dyn Write) -> Result<()> {
    let ClusterCommand::Status { connection } = command;
    let request = v1::ClusterStatusRequest {};
    let status = ask(connection, async |client| answer(client.cluster_status(request), connection).await)?;
    match connection.output {
        DumpForm::Json => write_json(out, &to_json("ClusterStatusResponse", &status)),
        DumpForm::Raw => Ok(writeln!(out, "{}", if status.takes_writes { "ready" } else { "not ready" })?),
        DumpForm::Table => {
            let leader = status
                .leader
                .as_ref()
                .map_or("nobody".to_owned(), |leader| format!("node {}", leader.node_id));
            let index = |index: Option<u64>| index.map_or("-".to_owned(), |index| index.to_string());
            writeln!(out, "asked       node {}, version {}", status.node_id, status.version)?;
            writeln!(out, "leader      {leader}, term {}", status.term)?;
            writeln!(
                out,
                "writes      {}",
                if status.takes_writes { "taken here" } else { "not taken here" }
            )?;
            for node in &status.nodes {
                let votes = if node.voter { "votes" } else { "follows" };
                writeln!(out, "member      node {} at {}, {votes}", node.node_id, node.address)?;
            }
            writeln!(
                out,
                "log         {} to {}",
                index(status.first_kept_index),
                index(status.appended_index)
            )?;
            writeln!(out, "durable     {}", index(status.durable_index))?;
            writeln!(out, "committed   {}", index(status.committed_index))?;
            writeln!(out, "dispatched  {}", index(status.dispatched_index))?;
            writeln!(out, "snapshot    {}", index(status.snapshot_index))?;
            for alarm in &status.alarms {
                writeln!(out, "alarm       {alarm}")?;
            }
            Ok(())
        }
    }
}
