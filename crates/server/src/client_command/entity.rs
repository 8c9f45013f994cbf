//! `gapless entity`.

use std::io::Write;

use anyhow::Result;
use gapless_api::json::to_json;
use gapless_client::{Ledger, v1};

use super::{answer, ask, shown};
use crate::cli::{DumpForm, EntityCommand};
use crate::output::{Side, table, write_json_line, write_table};
use crate::refusal::Refusal;

/// Runs the command.
pub(crate) fn run(command: &EntityCommand, out: &mut dyn Write) -> Result<()> {
    match command {
        EntityCommand::Get { place, key, connection } => {
            let request = v1::GetEntityRequest {
                namespace: place.namespace.clone(),
                workspace: place.workspace,
                key: key.as_bytes().to_vec().into(),
                options: None,
            };
            let found = ask(connection, async |client| answer(client.get_entity(request), connection).await)?;
            let Some(entity) = found.entity else {
                let problem = format!("{}/{} has no entity `{key}`", place.namespace, place.workspace);
                return Err(Refusal::new(
                    problem,
                    "see which there are: gapless entity list NAMESPACE/WORKSPACE",
                )
                .into());
            };
            show(&[entity], connection.output, out)
        }
        EntityCommand::List { place, prefix, connection } => ask(connection, async |client| {
            let mut request = v1::ListEntitiesRequest {
                namespace: place.namespace.clone(),
                workspace: place.workspace,
                prefix: prefix.as_bytes().to_vec().into(),
                page_size: 1000,
                ..Default::default()
            };
            let mut rows = Vec::new();
            loop {
                let page = answer(client.list_entities(request.clone()), connection).await?;
                match connection.output {
                    // One table, whose columns are as wide as all of it needs.
                    DumpForm::Table => rows.extend(page.entities),
                    form => show(&page.entities, form, out)?,
                }
                request.page_token = page.next_page_token;
                if request.page_token.is_empty() {
                    break;
                }
            }
            match connection.output {
                DumpForm::Table => show(&rows, DumpForm::Table, out),
                DumpForm::Json | DumpForm::Raw => Ok(()),
            }
        }),
    }
}

fn show(entities: &[v1::Entity], form: DumpForm, out: &mut dyn Write) -> Result<()> {
    match form {
        DumpForm::Json => {
            entities.iter().try_for_each(|entity| write_json_line(out, &to_json("Entity", entity)))
        }
        DumpForm::Raw => {
            for entity in entities {
                out.write_all(&entity.value)?;
                writeln!(out)?;
            }
            Ok(())
        }
        DumpForm::Table => {
            let mut rows = table([("key", Side::Left), ("version", Side::Right), ("value", Side::Left)]);
            for entity in entities {
                rows.add_row([shown(&entity.key), entity.version.to_string(), shown(&entity.value)]);
            }
            Ok(write_table(out, &rows)?)
        }
    }
}
