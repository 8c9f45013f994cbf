//! `gapless cluster`.

use std::io::Write;

use anyhow::Result;
use gapless_api::json::to_json;
use gapless_client::v1;

use super::{answer, ask};
use crate::cli::{ClusterCommand, Connection, DumpForm};
use crate::output::write_json;

/// Runs the command.
pub(crate) fn run(command: &ClusterCommand, out: &mut dyn Write) -> Result<()> {
    match command {
        ClusterCommand::Status { connection } => status(connection, out),
        ClusterCommand::Add { node, address, connection } => {
            let request = v1::AddNodeRequest { node_id: *node, address: address.clone() };
            ask(connection, async |client| answer(client.add_node(request), connection).await)?;
            done(connection, *node, "votes", out)
        }
        ClusterCommand::Remove { node, connection } => {
            let request = v1::RemoveNodeRequest { node_id: *node };
            ask(connection, async |client| answer(client.remove_node(request), connection).await)?;
            done(connection, *node, "is no member any more", out)
        }
        ClusterCommand::Transfer { node, connection } => {
            let request = v1::TransferLeaderRequest { node_id: *node };
            ask(connection, async |client| answer(client.transfer_leader(request), connection).await)?;
            done(connection, *node, "was asked to lead, and the one before it does not any more", out)
        }
    }
}

/// What was done; programs have the exit code.
fn done(connection: &Connection, node: u64, what: &str, out: &mut dyn Write) -> Result<()> {
    match connection.output {
        DumpForm::Table => Ok(writeln!(out, "node {node} {what}")?),
        DumpForm::Json => write_json(out, &serde_json::json!({ "node_id": node })),
        DumpForm::Raw => Ok(()),
    }
}

fn status(connection: &Connection, out: &mut dyn Write) -> Result<()> {
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
