//! `gapless namespace`.

use std::io::{Read, Write};
use std::path::Path;

use anyhow::Result;
use gapless_api::json::to_json;
use gapless_client::{Ledger, v1};

use super::{answer, ask};
use crate::cli::{Connection, DumpForm, NamespaceCommand};
use crate::output::{Side, table, write_json_line, write_table};
use crate::refusal::Refusal;

/// Runs the command.
pub(crate) fn run(command: &NamespaceCommand, out: &mut dyn Write) -> Result<()> {
    match command {
        NamespaceCommand::Apply { file, connection } => {
            let request = v1::ApplyNamespaceRequest { definition: read(file)? };
            let applied =
                ask(connection, async |client| answer(client.apply_namespace(request), connection).await)?;
            show(applied.namespace.as_slice(), connection.output, out)
        }
        NamespaceCommand::List { connection } => ask(connection, async |client| {
            let mut request = v1::ListNamespacesRequest { page_size: 1000, ..Default::default() };
            let mut found = Vec::new();
            loop {
                let page = answer(client.list_namespaces(request.clone()), connection).await?;
                found.extend(page.namespaces);
                request.page_token = page.next_page_token;
                if request.page_token.is_empty() {
                    return show(&found, connection.output, out);
                }
            }
        }),
        NamespaceCommand::Show { name, connection } => {
            let found = get(name, connection)?;
            match connection.output {
                DumpForm::Json => write_json_line(out, &to_json("Namespace", &found)),
                DumpForm::Table | DumpForm::Raw => Ok(write!(out, "{}", found.definition)?),
            }
        }
        NamespaceCommand::Drop { name, yes, connection } => {
            if !yes {
                let found = get(name, connection)?;
                let problem = format!(
                    "namespace `{name}` and its {} partitions would be gone for good",
                    found.partitions
                );
                return Err(Refusal::new(
                    problem,
                    format!("if that is what you want: gapless namespace drop {name} --yes"),
                )
                .into());
            }
            let request = v1::DropNamespaceRequest { namespace: name.clone() };
            ask(connection, async |client| answer(client.drop_namespace(request), connection).await)?;
            match connection.output {
                DumpForm::Table => Ok(writeln!(out, "dropped {name}")?),
                DumpForm::Json => write_json_line(out, &serde_json::json!({ "namespace": name })),
                DumpForm::Raw => Ok(writeln!(out, "{name}")?),
            }
        }
    }
}

fn get(name: &str, connection: &Connection) -> Result<v1::Namespace> {
    let request = v1::GetNamespaceRequest { namespace: name.to_owned() };
    let found = ask(connection, async |client| answer(client.get_namespace(request), connection).await)?;
    Ok(found.namespace.unwrap_or_default())
}

fn read(file: &Path) -> Result<String> {
    let mut text = String::new();
    let read = if file == Path::new("-") {
        std::io::stdin().read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|mut file| file.read_to_string(&mut text))
    };
    read.map_err(|error| {
        Refusal::new(
            format!("cannot read {}: {error}", file.display()),
            "give a file with a definition in TOML, or - for stdin",
        )
    })?;
    Ok(text)
}

fn show(namespaces: &[v1::Namespace], form: DumpForm, out: &mut dyn Write) -> Result<()> {
    match form {
        DumpForm::Json => {
            namespaces.iter().try_for_each(|found| write_json_line(out, &to_json("Namespace", found)))
        }
        DumpForm::Raw => Ok(namespaces.iter().try_for_each(|found| writeln!(out, "{}", found.name))?),
        DumpForm::Table => {
            let mut rows = table([
                ("namespace", Side::Left),
                ("id", Side::Right),
                ("partitions", Side::Right),
                ("frozen", Side::Right),
            ]);
            for found in namespaces {
                rows.add_row([
                    found.name.clone(),
                    found.id.to_string(),
                    found.partitions.to_string(),
                    found.frozen.len().to_string(),
                ]);
            }
            Ok(write_table(out, &rows)?)
        }
    }
}
