//! `gapless record`.

use std::io::Write;

use anyhow::Result;
use gapless_api::json::to_json;
use gapless_client::{Ledger, v1};

use super::{answer, ask, pairs, shown, value};
use crate::cli::{DumpForm, RecordCommand};
use crate::output::{Side, table, write_json_line, write_table};

/// Runs the command.
pub(crate) fn run(command: &RecordCommand, out: &mut dyn Write) -> Result<()> {
    match command {
        RecordCommand::Get { place, id, connection } => {
            let request = v1::GetRecordRequest {
                namespace: place.namespace.clone(),
                workspace: place.workspace,
                record_id: *id,
                options: None,
            };
            let found = ask(connection, async |client| answer(client.get_record(request), connection).await)?;
            show(found.record.as_slice(), connection.output, out)
        }
        RecordCommand::List { place, record_type, connection } => ask(connection, async |client| {
            let mut request = v1::ListRecordsRequest {
                namespace: place.namespace.clone(),
                workspace: place.workspace,
                record_type: record_type.clone(),
                page_size: 1000,
                ..Default::default()
            };
            let mut rows = Vec::new();
            loop {
                let page = answer(client.list_records(request.clone()), connection).await?;
                match connection.output {
                    // One table, whose columns are as wide as all of it needs.
                    DumpForm::Table => rows.extend(page.records),
                    form => show(&page.records, form, out)?,
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

fn show(records: &[v1::Record], form: DumpForm, out: &mut dyn Write) -> Result<()> {
    match form {
        DumpForm::Json => {
            records.iter().try_for_each(|record| write_json_line(out, &to_json("Record", record)))
        }
        DumpForm::Raw => Ok(records.iter().try_for_each(|record| writeln!(out, "{}", record.record_id))?),
        DumpForm::Table => {
            let mut rows = table([
                ("record", Side::Right),
                ("type", Side::Left),
                ("state", Side::Left),
                ("created", Side::Right),
                ("changed", Side::Right),
                ("fields", Side::Left),
            ]);
            for record in records {
                rows.add_row([
                    record.record_id.to_string(),
                    shown(record.record_type.as_bytes()),
                    if record.active { "active" } else { "inactive" }.to_owned(),
                    record.created_at_offset.to_string(),
                    record.changed_at_offset.to_string(),
                    pairs(record.fields.iter().map(|(name, field)| (shown(name.as_bytes()), value(field)))),
                ]);
            }
            Ok(write_table(out, &rows)?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_named_does_nothing_to_a_terminal() {
        let text = v1::Value { kind: Some(v1::value::Kind::Text("\u{1b}[2J".to_owned())) };
        let record = v1::Record {
            record_type: "Invoice\u{1b}[2J".to_owned(),
            fields: [("amount\u{9b}31m".to_owned(), text)].into(),
            ..Default::default()
        };
        let mut out = Vec::new();
        show(&[record], DumpForm::Table, &mut out).unwrap();
        let lines = String::from_utf8(out).unwrap();
        assert!(!lines.contains('\u{1b}') && !lines.contains('\u{9b}'), "{lines:?}");
    }
}
