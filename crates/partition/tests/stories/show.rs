//! Outcomes and everything that can be read, as lines of text.

use gapless_partition::{
    Entity, Header, Outcome, Refusal, Schema, StoredOutcome, StoredRecord, Value, Workspace,
};

/// Longer texts are told by their length.
const LONGEST: usize = 60;

pub(crate) fn text(bytes: &[u8]) -> String {
    match bytes.len() {
        0 => "~".to_owned(),
        1..=LONGEST => bytes.escape_ascii().to_string(),
        length => format!("({length} bytes)"),
    }
}

pub(crate) fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Duplicate { first_offset, first } => {
            format!(
                "duplicate of {first_offset}, which was\n  {}",
                self::outcome(first).replace('\n', "\n  ")
            )
        }
        Outcome::Committed(event) => {
            let mut lines = format!(
                "committed {}: workspace offset {}, client sequence {}, log index {}, time {}",
                event.partition_offset,
                event.workspace_offset,
                event.client_sequence,
                event.log_index,
                event.committed_at
            );
            let [first, .., last] = event.record_ids.as_slice() else {
                for (raw, id) in &event.record_ids {
                    lines += &format!("\n  record {raw} is {id}");
                }
                return lines + &numbers(&event.numbers);
            };
            if event.record_ids.len() > 10 {
                lines += &format!("\n  records {} to {} are {} to {}", first.0, last.0, first.1, last.1);
            } else {
                for (raw, id) in &event.record_ids {
                    lines += &format!("\n  record {raw} is {id}");
                }
            }
            lines + &numbers(&event.numbers)
        }
        Outcome::Refused(refused) => refusal(refused),
        Outcome::Defined => "defined".to_owned(),
        Outcome::DefinitionRefused(reasons) if reasons.len() > 10 => {
            format!("definition refused for {} reasons", reasons.len())
        }
        Outcome::DefinitionRefused(reasons) => {
            reasons.iter().fold("definition refused".to_owned(), |lines, reason| lines + "\n  " + reason)
        }
    }
}

fn numbers<N: std::fmt::Display>(numbers: &[(N, u64)]) -> String {
    match numbers {
        [first, .., last] if numbers.len() > 10 => {
            format!("\n  {} numbers: {} {} to {} {}", numbers.len(), first.0, first.1, last.0, last.1)
        }
        few => few.iter().map(|(name, number)| format!("\n  {name} {number}")).collect(),
    }
}

fn refusal(refusal: &Refusal) -> String {
    let mut line = format!("refused: {:?}", refusal.code);
    if let Some(operation) = refusal.operation {
        line += &format!(" in operation {operation}");
    }
    if !refusal.key.is_empty() {
        line += &format!(", key {}", text(&refusal.key));
    }
    if let Some(version) = refusal.current_version {
        line += &format!(", now at {version}");
    }
    if let Some(value) = &refusal.current_value {
        line += &format!(", now {}", text(value));
    }
    format!("{line}\n  {}", refusal.message)
}

pub(crate) fn header(header: &Header<'_>) -> String {
    let mut line = format!("{} {:?}, workspace {}", header.partition_offset, header.kind, header.workspace);
    if let Some(kind) = header.workspace_kind {
        line += &format!(" of kind {}", kind.get());
    }
    if let (Some(offset), Some(sequence)) = (header.workspace_offset, header.client_sequence) {
        line += &format!(" at {offset}, {} at {sequence}", header.client);
    } else if !header.client.is_empty() {
        line += &format!(", {}", text(header.client.as_bytes()));
    }
    if let Some(highest) = header.highest_record {
        line += &format!(", records to {highest}");
    }
    if header.key.is_none() {
        line += ", no key";
    }
    line + &format!(", log index {}, time {}", header.log_index, header.time)
}

pub(crate) fn event(event: &StoredOutcome) -> Result<String, String> {
    let write = event.write().map_err(|fault| fault.to_string())?.ok_or("an event without its write")?;
    let mut line = header(&event.header());
    line += &format!("\n  {} {} {}", write.event_type, write.content_type, text(write.payload));
    for (key, value) in &write.metadata {
        line += &format!(" {key}={}", text(value.as_bytes()));
    }
    if !write.operations.is_empty() {
        line += &format!(" and {} operations", write.operations.len());
    }
    Ok(line)
}

pub(crate) fn record(record: &StoredRecord) -> Result<String, String> {
    let row = record.row().map_err(|fault| fault.to_string())?;
    let record_type = text(row.record_type.as_bytes());
    let mut line = format!("{} {record_type} created {} changed {}", record.id, row.created, row.changed);
    if !row.active {
        line += " inactive";
    }
    if let Some(parent) = row.parent {
        line += &format!(" below {parent}");
    }
    if row.fields.len() > 10 {
        return Ok(line + &format!(" ({} fields)", row.fields.len()));
    }
    for (name, value) in &row.fields {
        line += &format!(" {name}={}", field(value));
    }
    Ok(line)
}

fn field(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Boolean(value) => value.to_string(),
        Value::Integer(value) => value.to_string(),
        Value::Text(value) => text(value.as_bytes()),
        Value::Blob(value) => format!("blob:{}", text(value)),
        Value::Record(id) => format!("->{id}"),
    }
}

pub(crate) fn entity(entity: &Entity) -> String {
    let mut line = format!("{} = {} version {}", text(&entity.key), text(&entity.value), entity.version);
    if let Some(expires) = entity.expires_at {
        line += &format!(" until {expires}");
    }
    line
}

pub(crate) fn workspace(workspace: &Workspace) -> String {
    let mut line = format!("{} of kind {} at {}", workspace.id, workspace.kind, workspace.last_offset);
    if let Some(record) = workspace.last_record {
        line += &format!(", records to {record}");
    }
    line
}

pub(crate) fn schema(schema: &Schema) -> String {
    let definition = schema.definition();
    let rule = definition.idempotency;
    let mut lines = vec![format!(
        "{} with {} partitions, {:?}, keys for {} ms, at most {}, then {:?}",
        definition.name,
        definition.partitions,
        definition.trust_level,
        rule.window_ms,
        rule.max_keys,
        rule.at_cap
    )];
    for (name, kind) in schema.kinds() {
        let mut line = format!("kind {name} is {}", kind.id.get());
        for (name, sequence) in &kind.sequences {
            line += &format!(", {name} {} from {}", sequence.id.get(), sequence.initial_number);
        }
        lines.push(line);
    }
    for (name, _) in definition.records.iter().filter(|(_, rule)| rule.singleton) {
        let id = schema.singleton(name.as_str()).map_or("nothing".to_owned(), |id| id.to_string());
        lines.push(format!("singleton {name} is {id}"));
    }
    lines.join("\n")
}
