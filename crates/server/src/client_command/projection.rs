//! `gapless projection`.

use std::io::Write;

use anyhow::Result;
use gapless_api::json::to_json;
use gapless_client::{Client, Projections, v1};

use super::{answer, ask};
use crate::cli::{Connection, DumpForm, ProjectionCommand, ProjectionName};
use crate::output::{Side, counted, heading, table, write_json_line, write_table};
use crate::refusal::Refusal;

/// Runs the command.
pub(crate) fn run(command: &ProjectionCommand, out: &mut dyn Write) -> Result<()> {
    match command {
        ProjectionCommand::List { namespace, connection } => {
            ask(connection, async |client| list(&client, namespace, connection, out).await)
        }
        ProjectionCommand::Describe { projection, connection } => {
            ask(connection, async |client| describe(&client, projection, connection, out).await)
        }
        ProjectionCommand::Rows { projection, table, workspace, id, prefix, connection } => {
            let request = v1::QueryRequest {
                namespace: projection.namespace.clone(),
                projection: projection.name.clone(),
                table: table.clone(),
                workspace: *workspace,
                id: id.clone(),
                prefix: prefix.clone(),
                page_size: 1000,
                ..Default::default()
            };
            ask(connection, async |client| rows(&client, request, connection, out).await)
        }
        ProjectionCommand::DeadLetters { projection, connection } => {
            ask(connection, async |client| dead_letters(&client, projection, connection, out).await)
        }
        ProjectionCommand::Skip { projection, partition, slot, connection } => {
            let request = v1::SkipRequest {
                namespace: projection.namespace.clone(),
                projection: projection.name.clone(),
                partition: *partition,
                slot: *slot,
            };
            let skipped = ask(connection, async |client| answer(client.skip(request), connection).await)?;
            skip(&skipped, *slot, connection.output, out)
        }
    }
}

async fn list(client: &Client, namespace: &str, connection: &Connection, out: &mut dyn Write) -> Result<()> {
    let mut request =
        v1::ListRequest { namespace: namespace.to_owned(), page_size: 1000, ..Default::default() };
    let mut found = Vec::new();
    loop {
        let page = answer(client.list(request.clone()), connection).await?;
        found.extend(page.projections);
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    match connection.output {
        DumpForm::Json => found.iter().try_for_each(|one| write_json_line(out, &to_json("Projection", one))),
        DumpForm::Raw => Ok(found.iter().try_for_each(|one| writeln!(out, "{}", one.name))?),
        DumpForm::Table => {
            let mut rows = table([
                ("projection", Side::Left),
                ("version", Side::Right),
                ("computed by", Side::Left),
                ("domains", Side::Right),
                ("lag", Side::Right),
                ("lag ms", Side::Right),
                ("dead letters", Side::Right),
                ("alerts", Side::Left),
            ]);
            for one in &found {
                rows.add_row([
                    one.name.clone(),
                    one.version.to_string(),
                    computed_by(one).to_owned(),
                    one.domains.to_string(),
                    one.lag.to_string(),
                    one.lag_ms.to_string(),
                    one.dead_letters.to_string(),
                    listed(&one.alerts),
                ]);
            }
            Ok(write_table(out, &rows)?)
        }
    }
}

async fn describe(
    client: &Client,
    projection: &ProjectionName,
    connection: &Connection,
    out: &mut dyn Write,
) -> Result<()> {
    let mut request = v1::DescribeRequest {
        namespace: projection.namespace.clone(),
        projection: projection.name.clone(),
        page_size: 1000,
        ..Default::default()
    };
    let mut found: Option<v1::DescribeResponse> = None;
    loop {
        let page = answer(client.describe(request.clone()), connection).await?;
        request.page_token.clone_from(&page.next_page_token);
        match &mut found {
            None => found = Some(page),
            Some(found) => found.domains.extend(page.domains),
        }
        if request.page_token.is_empty() {
            break;
        }
    }
    let found = found.unwrap_or_default();
    match connection.output {
        DumpForm::Json => {
            let whole = v1::DescribeResponse { next_page_token: String::new(), ..found };
            write_json_line(out, &to_json("DescribeResponse", &whole))
        }
        DumpForm::Raw => Ok(found.domains.iter().try_for_each(|domain| {
            writeln!(out, "{} {} {} {}", domain.partition, state(domain), domain.watermark, domain.tail)
        })?),
        DumpForm::Table => show_description(&found, out),
    }
}

fn show_description(found: &v1::DescribeResponse, out: &mut dyn Write) -> Result<()> {
    let one = found.projection.clone().unwrap_or_default();
    writeln!(out, "{}", heading(&format!("{}, version {}", one.name, one.version)))?;
    writeln!(out, "  computed by {}", computed_by(&one))?;
    writeln!(
        out,
        "  {} not resolved, the oldest for {} ms; {}",
        counted(one.lag, "slot"),
        one.lag_ms,
        counted(one.dead_letters, "dead letter")
    )?;
    if !one.alerts.is_empty() {
        writeln!(out, "  alerts: {}", listed(&one.alerts))?;
    }
    writeln!(out)?;
    let mut rows = table([
        ("partition", Side::Right),
        ("state", Side::Left),
        ("watermark", Side::Right),
        ("tail", Side::Right),
        ("lag ms", Side::Right),
        ("active", Side::Right),
        ("waiting", Side::Right),
        ("committed", Side::Right),
        ("dead letters", Side::Right),
        ("blocked by", Side::Left),
    ]);
    for domain in &found.domains {
        let count = |name: &str| domain.counters.get(name).copied().unwrap_or(0).to_string();
        rows.add_row([
            domain.partition.to_string(),
            state(domain),
            domain.watermark.to_string(),
            domain.tail.to_string(),
            domain.lag_ms.to_string(),
            count("active"),
            count("waiting"),
            count("committed"),
            count("dead_letters"),
            blocked_by(domain),
        ]);
    }
    write_table(out, &rows)?;
    writeln!(out)?;
    for line in one.definition.lines() {
        writeln!(out, "  {line}")?;
    }
    Ok(())
}

async fn rows(
    client: &Client,
    mut request: v1::QueryRequest,
    connection: &Connection,
    out: &mut dyn Write,
) -> Result<()> {
    let mut rows = Vec::new();
    loop {
        let page = answer(client.query(request.clone()), connection).await?;
        if let (Some(id), [row]) = (&request.id, page.rows.as_slice())
            && row.absent
        {
            let problem =
                format!("table `{}` has no row `{id}` in workspace {}", request.table, request.workspace);
            let next =
                "see which there are: gapless projection rows NAMESPACE PROJECTION TABLE --workspace N";
            return Err(Refusal::new(problem, next).into());
        }
        match connection.output {
            // One table, whose columns are as wide as all of it needs.
            DumpForm::Table => rows.extend(page.rows),
            form => show_rows(&page.rows, form, out)?,
        }
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    match connection.output {
        DumpForm::Table => show_rows(&rows, DumpForm::Table, out),
        DumpForm::Json | DumpForm::Raw => Ok(()),
    }
}

fn show_rows(found: &[v1::Row], form: DumpForm, out: &mut dyn Write) -> Result<()> {
    match form {
        DumpForm::Json => found.iter().try_for_each(|row| {
            let columns: serde_json::Map<_, _> =
                row.columns.iter().map(|(name, value)| (name.clone(), json(value))).collect();
            let shown = serde_json::json!({"id": row.id, "version": row.version, "columns": columns});
            write_json_line(out, &shown)
        }),
        DumpForm::Raw => Ok(found.iter().try_for_each(|row| writeln!(out, "{}", columns(row)))?),
        DumpForm::Table => {
            let mut rows = table([("id", Side::Left), ("version", Side::Right), ("columns", Side::Left)]);
            for row in found {
                rows.add_row([row.id.clone(), row.version.to_string(), columns(row)]);
            }
            Ok(write_table(out, &rows)?)
        }
    }
}

/// A value of a column as JSON has it.
fn json(value: &v1::ColumnValue) -> serde_json::Value {
    use v1::column_value::Kind;
    match &value.kind {
        None | Some(Kind::Null(_)) => serde_json::Value::Null,
        Some(Kind::Boolean(value)) => (*value).into(),
        Some(Kind::Integer(value)) => (*value).into(),
        Some(Kind::Text(text)) => text.as_str().into(),
        Some(Kind::Json(text)) => serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into()),
    }
}

/// The columns of a row on one line of JSON, by name.
fn columns(row: &v1::Row) -> String {
    let columns: serde_json::Map<_, _> =
        row.columns.iter().map(|(name, value)| (name.clone(), json(value))).collect();
    serde_json::Value::Object(columns).to_string()
}

async fn dead_letters(
    client: &Client,
    projection: &ProjectionName,
    connection: &Connection,
    out: &mut dyn Write,
) -> Result<()> {
    let mut request = v1::ListDeadLettersRequest {
        namespace: projection.namespace.clone(),
        projection: projection.name.clone(),
        page_size: 1000,
        ..Default::default()
    };
    let mut found = Vec::new();
    loop {
        let page = answer(client.list_dead_letters(request.clone()), connection).await?;
        found.extend(page.dead_letters);
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return show_dead_letters(&found, connection.output, out);
        }
    }
}

fn show_dead_letters(found: &[v1::DeadLetter], form: DumpForm, out: &mut dyn Write) -> Result<()> {
    match form {
        DumpForm::Json => {
            found.iter().try_for_each(|letter| write_json_line(out, &to_json("DeadLetter", letter)))
        }
        DumpForm::Raw => {
            Ok(found.iter().try_for_each(|letter| writeln!(out, "{} {}", letter.partition, letter.slot))?)
        }
        DumpForm::Table => {
            let mut rows = table([
                ("partition", Side::Right),
                ("slot", Side::Right),
                ("offset", Side::Right),
                ("workspace", Side::Right),
                ("because", Side::Left),
                ("at ms", Side::Right),
            ]);
            for letter in found {
                rows.add_row([
                    letter.partition.to_string(),
                    letter.slot.to_string(),
                    letter.partition_offset.to_string(),
                    letter.workspace.to_string(),
                    letter.filled_because.clone(),
                    letter.filled_at_ms.to_string(),
                ]);
            }
            Ok(write_table(out, &rows)?)
        }
    }
}

fn skip(skipped: &v1::SkipResponse, slot: u64, form: DumpForm, out: &mut dyn Write) -> Result<()> {
    if let Some(v1::skip_response::Result::Refused(refused)) = &skipped.result {
        let code = refused.code().as_str_name().trim_start_matches("REFUSAL_CODE_").to_owned();
        let next = "see which slot blocks: gapless projection describe NAMESPACE PROJECTION";
        return Err(Refusal::new(format!("refused: {code}: {}", refused.message), next).into());
    }
    match form {
        DumpForm::Json => write_json_line(out, &to_json("SkipResponse", skipped)),
        DumpForm::Raw => Ok(writeln!(out, "{}", skipped.watermark)?),
        DumpForm::Table => {
            Ok(writeln!(out, "slot {slot} was skipped; everything up to {} is visible", skipped.watermark)?)
        }
    }
}

fn computed_by(projection: &v1::Projection) -> &'static str {
    if projection.computed_by_rules { "rules" } else { "workers" }
}

/// The state of a domain in a word or two.
fn state(domain: &v1::ProjectionDomain) -> String {
    let state = domain.state().as_str_name().trim_start_matches("DOMAIN_STATE_").to_lowercase();
    if domain.halted { format!("{state}, halted") } else { state }
}

fn blocked_by(domain: &v1::ProjectionDomain) -> String {
    match &domain.blocking {
        None => "-".to_owned(),
        Some(slot) if slot.holder.is_empty() => format!("{} {}", slot.slot, slot.stage),
        Some(slot) if slot.stage == "ready" => format!("{} ready, last held by {}", slot.slot, slot.holder),
        Some(slot) => format!("{} {} by {}, attempt {}", slot.slot, slot.stage, slot.holder, slot.attempt),
    }
}

fn listed(words: &[String]) -> String {
    if words.is_empty() { "-".to_owned() } else { words.join(", ") }
}
