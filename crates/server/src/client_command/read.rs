//! `gapless read`: events as they come, a line for each.

use std::io::Write;

use anyhow::Result;
use futures_util::StreamExt;
use gapless_api::json::to_json;
use gapless_client::{Client, Error, Ledger, Stream, v1};

use super::{answer, ask, explained, pairs, shown};
use crate::cli::{DumpForm, ReadArguments};
use crate::output::{columns, heading, write_json_line};

/// Runs the command.
pub(crate) fn run(arguments: &ReadArguments, out: &mut dyn Write) -> Result<()> {
    let connection = &arguments.connection;
    ask(connection, async |client| {
        let mut events = if arguments.follow {
            follow(&client, arguments)
        } else {
            answer(client.read_workspace(request(arguments)), connection).await?
        };
        if connection.output == DumpForm::Table {
            writeln!(out, "{}", heading(&row(["offset", "event", "client", "numbers", "payload"])))?;
        }
        let mut left = if arguments.limit == 0 { u64::MAX } else { arguments.limit };
        while left > 0
            && let Some(event) = events.next().await
        {
            show(&event.map_err(|error| explained(error, connection))?, connection.output, out)?;
            // Whoever follows wants to see it now.
            if arguments.follow {
                out.flush()?;
            }
            left -= 1;
        }
        Ok(())
    })
}

fn request(arguments: &ReadArguments) -> v1::ReadWorkspaceRequest {
    let direction = if arguments.backward { v1::Direction::Backward } else { v1::Direction::Forward };
    v1::ReadWorkspaceRequest {
        namespace: arguments.place.namespace.clone(),
        workspace: arguments.place.workspace,
        from: arguments.from,
        limit: arguments.limit,
        direction: direction.into(),
        options: None,
    }
}

fn follow(client: &Client, arguments: &ReadArguments) -> Stream<v1::Event> {
    let request = v1::SubscribeRequest {
        namespace: arguments.place.namespace.clone(),
        what: Some(v1::subscribe_request::What::Workspace(arguments.place.workspace)),
        from: arguments.from,
    };
    let event = |item: Result<v1::SubscribeResponse, Error>| match item?.item {
        Some(v1::subscribe_response::Item::Event(event)) => Ok(event),
        _ => Err(Error::Protocol("a workspace has events alone")),
    };
    client.subscribe(request).map(event).boxed()
}

fn show(event: &v1::Event, form: DumpForm, out: &mut dyn Write) -> Result<()> {
    match form {
        DumpForm::Json => write_json_line(out, &to_json("Event", event)),
        DumpForm::Raw => {
            out.write_all(&event.payload)?;
            Ok(writeln!(out)?)
        }
        DumpForm::Table => {
            let offset = event.workspace_offset.to_string();
            let numbers = pairs(&event.numbers);
            let line = row([
                &offset,
                &shown(event.event_type.as_bytes()),
                &shown(event.client_id.as_bytes()),
                &numbers,
                &shown(event.payload.trim_ascii_end()),
            ]);
            let most = columns();
            let line = if line.chars().count() > most {
                line.chars().take(most - 3).chain("...".chars()).collect()
            } else {
                line
            };
            Ok(writeln!(out, "{}", line.trim_end())?)
        }
    }
}

fn row([offset, event, client, numbers, payload]: [&str; 5]) -> String {
    format!("{offset:>8}  {event:<16}  {client:<10}  {numbers:<14}  {payload}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_named_does_nothing_to_a_terminal() {
        let event = v1::Event {
            event_type: "Sold\u{1b}[2J".to_owned(),
            client_id: "till\u{9b}31m".to_owned(),
            payload: b"\x1b]0;title\x07".to_vec().into(),
            ..Default::default()
        };
        let mut out = Vec::new();
        show(&event, DumpForm::Table, &mut out).unwrap();
        let line = String::from_utf8(out).unwrap();
        assert!(!line.trim_end_matches('\n').contains(char::is_control), "{line:?}");
    }
}
