//! `gapless sequences`.

use std::io::Write;

use anyhow::Result;
use gapless_api::json::to_json;
use gapless_client::{Ledger, v1};

use super::{answer, ask};
use crate::cli::{DumpForm, SequencesArguments};
use crate::output::{Side, table, write_json_line, write_table};

/// Runs the command.
pub(crate) fn run(arguments: &SequencesArguments, out: &mut dyn Write) -> Result<()> {
    let connection = &arguments.connection;
    let (namespace, workspace) = (arguments.place.namespace.clone(), arguments.place.workspace);
    let request = v1::ListSequencesRequest { namespace, workspace, options: None };
    let found = ask(connection, async |client| answer(client.list_sequences(request), connection).await)?;
    match connection.output {
        DumpForm::Json => found
            .sequences
            .iter()
            .try_for_each(|sequence| write_json_line(out, &to_json("SequenceState", sequence))),
        DumpForm::Raw => Ok(found
            .sequences
            .iter()
            .try_for_each(|sequence| writeln!(out, "{} {}", sequence.sequence, sequence.last_number))?),
        DumpForm::Table => {
            let mut rows = table([
                ("sequence", Side::Left),
                ("first number", Side::Right),
                ("last number", Side::Right),
            ]);
            for sequence in &found.sequences {
                let last = match sequence.last_number {
                    0 => "-".to_owned(),
                    last => last.to_string(),
                };
                rows.add_row([sequence.sequence.clone(), sequence.first_number.to_string(), last]);
            }
            Ok(write_table(out, &rows)?)
        }
    }
}
