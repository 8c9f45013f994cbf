//! Words of the stories' language become definitions, writes and operations.
//!
//! Texts are leaked: writes borrow everything, and the process of a test does not live long.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use gapless_partition::{
    AtCap, Condition, Definition, NewId, Operation, RecordRule, TrustLevel, Value, Write,
};
use gapless_types::{Name, WorkspaceId};

pub(crate) type Parsed<T> = Result<T, String>;

/// The words of a line, and those of the form `name=value`.
pub(crate) struct Words {
    pub(crate) plain: Vec<String>,
    pub(crate) named: Vec<(String, String)>,
}

impl Words {
    pub(crate) fn of(line: &str) -> Self {
        let (mut plain, mut named) = (Vec::new(), Vec::new());
        for word in line.split_whitespace() {
            match word.split_once('=') {
                Some((name, value)) => named.push((name.to_owned(), value.to_owned())),
                None => plain.push(word.to_owned()),
            }
        }
        Self { plain, named }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.named.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        let at = self.named.iter().position(|(known, _)| known == name)?;
        Some(self.named.remove(at).1)
    }

    pub(crate) fn number(&self, name: &str) -> Parsed<Option<u64>> {
        self.get(name).map(number).transpose()
    }

    pub(crate) fn at(&self, index: usize) -> Parsed<&str> {
        self.plain.get(index).map(String::as_str).ok_or(format!("word {index} is missing"))
    }
}

/// A number; `max` is the largest there is.
pub(crate) fn number(text: &str) -> Parsed<u64> {
    if text == "max" {
        return Ok(u64::MAX);
    }
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

/// A text: `*N` is that many times x, `%HH` a byte, `~` nothing, everything else itself.
pub(crate) fn bytes(text: &str) -> Parsed<&'static [u8]> {
    let bytes = match text.strip_prefix('*') {
        Some(count) => vec![b'x'; usize::try_from(number(count)?).map_err(|error| error.to_string())?],
        None if text == "~" => Vec::new(),
        None => unescape(text)?,
    };
    Ok(bytes.leak())
}

pub(crate) fn text(text: &str) -> Parsed<&'static str> {
    std::str::from_utf8(bytes(text)?).map_err(|error| error.to_string())
}

fn unescape(text: &str) -> Parsed<Vec<u8>> {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first != b'%' {
            out.push(first);
            rest = tail;
            continue;
        }
        let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        out.push(byte.ok_or(format!("`{text}`: two digits behind %"))?);
        rest = &tail[2..];
    }
    Ok(out)
}

fn name(text: &str) -> Parsed<Name> {
    Name::new(text).map_err(|error| error.to_string())
}

pub(crate) fn definition(lines: &[String]) -> Parsed<Definition> {
    let head = Words::of(&lines[0]);
    let partitions = u16::try_from(head.number("partitions")?.unwrap_or(1)).ok().and_then(NonZeroU16::new);
    let mut definition = Definition::new(name(head.at(1)?)?, partitions.ok_or("no partitions")?);
    definition.trust_level = match head.get("trust") {
        None | Some("0") => TrustLevel::CheckAll,
        Some("1") => TrustLevel::CheckEvents,
        Some(_) => TrustLevel::TrustAll,
    };
    if let Some(window) = head.number("window")? {
        definition.idempotency.window_ms = window;
    }
    if let Some(keys) = head.number("keys")? {
        definition.idempotency.max_keys = keys;
    }
    if head.get("cap") == Some("forget") {
        definition.idempotency.at_cap = AtCap::ForgetOldest;
    }
    for line in &lines[1..] {
        let words = Words::of(line);
        match words.at(0)? {
            "kind" => {
                let mut sequences = BTreeMap::new();
                for (sequence, first) in &words.named {
                    sequences.insert(name(sequence)?, number(first)?);
                }
                definition.kinds.insert(name(words.at(1)?)?, sequences);
            }
            "kinds" => {
                for at in 0..number(words.at(2)?)? {
                    definition.kinds.insert(name(&format!("{}{at:05}", words.at(1)?))?, BTreeMap::new());
                }
            }
            "sequences" => {
                let kind = definition.kinds.entry(name(words.at(1)?)?).or_default();
                for at in 0..number(words.at(2)?)? {
                    kind.insert(name(&format!("s{at:05}"))?, 1);
                }
            }
            "singletons" => {
                for at in 0..number(words.at(1)?)? {
                    let singleton = RecordRule { singleton: true };
                    definition.records.insert(name(&format!("single{at:05}"))?, singleton);
                }
            }
            rule @ ("singleton" | "plain") => {
                definition.records.insert(name(words.at(1)?)?, RecordRule { singleton: rule == "singleton" });
            }
            other => return Err(format!("a definition has no {other}")),
        }
    }
    Ok(definition)
}

pub(crate) fn write(lines: &[String]) -> Parsed<Write<'static>> {
    let mut head = Words::of(&lines[0]);
    let mut taken = |name: &str, default: &str| text(&head.take(name).unwrap_or(default.to_owned()));
    let mut write = Write {
        kind: taken("kind", "default")?,
        client: taken("client", "till")?,
        event_type: taken("type", "Sold")?,
        content_type: taken("content", "application/json")?,
        payload: &[],
        workspace: WorkspaceId::NAMESPACE,
        metadata: Vec::new(),
        expected_offset: None,
        operations: Vec::new(),
    };
    write.payload = bytes(&head.take("payload").unwrap_or("{}".to_owned()))?;
    write.workspace = WorkspaceId::new(number(&head.take("ws").unwrap_or("0".to_owned()))?);
    write.expected_offset = head.take("expect").map(|offset| number(&offset)).transpose()?;
    for (key, value) in head.named {
        match key.strip_prefix("meta.") {
            Some(key) => write.metadata.push((text(key)?, text(&value)?)),
            None if key == "pairs" => {
                for at in 0..number(&value)? {
                    write.metadata.push((text(&format!("m{at:03}"))?, "v"));
                }
            }
            None if key == "key" => {}
            None => return Err(format!("a write has no {key}")),
        }
    }
    for line in &lines[1..] {
        let (count, line) = match line.trim().strip_prefix("times ") {
            Some(rest) => rest.split_once(' ').ok_or("times N operation")?,
            None => ("1", line.trim()),
        };
        for at in 1..=number(count)? {
            write.operations.push(operation(&line.replace("{n}", &at.to_string()))?);
        }
    }
    Ok(write)
}

fn operation(line: &str) -> Parsed<Operation<'static>> {
    let mut words = Words::of(line);
    let parent = words.take("parent").map(|parent| number(&parent)).transpose()?;
    let verb = words.at(0)?.to_owned();
    Ok(match verb.as_str() {
        "create" => {
            let id = match (words.take("raw"), words.take("id")) {
                (Some(raw), None) => {
                    NewId::Raw(u16::try_from(number(&raw)?).map_err(|error| error.to_string())?)
                }
                (None, Some(id)) => NewId::Explicit(number(&id)?),
                _ => return Err("a record has raw=N or id=N".to_owned()),
            };
            let record_type = text(words.at(1)?)?;
            Operation::CreateRecord { id, record_type, fields: fields(&words)?, parent }
        }
        "update" | "activate" | "deactivate" => {
            let active = if verb == "update" { None } else { Some(verb == "activate") };
            Operation::UpdateRecord { record: number(words.at(1)?)?, fields: fields(&words)?, active }
        }
        "set" => Operation::SetEntity {
            key: bytes(words.at(1)?)?,
            value: bytes(words.get("value").unwrap_or("v"))?,
            condition: condition(words.get("if"))?,
            expires_at: words.number("expires")?,
        },
        "delete" => {
            Operation::DeleteEntity { key: bytes(words.at(1)?)?, condition: condition(words.get("if"))? }
        }
        "number" => Operation::NextNumber { sequence: text(words.at(1)?)? },
        other => return Err(format!("there is no operation {other}")),
    })
}

fn condition(word: Option<&str>) -> Parsed<Condition<'static>> {
    Ok(match word.map(|word| word.split_once(':').unwrap_or((word, ""))) {
        None => Condition::None,
        Some(("absent", _)) => Condition::MustNotExist,
        Some(("present", _)) => Condition::MustExist,
        Some(("version", version)) => Condition::VersionEquals(number(version)?),
        Some(("value", value)) => Condition::ValueEquals(bytes(value)?),
        Some((other, _)) => return Err(format!("there is no condition {other}")),
    })
}

/// `name=value`; `fields=N` stands for that many fields without value, `more=N` for as many others.
fn fields(words: &Words) -> Parsed<Vec<(&'static str, Value<'static>)>> {
    let mut fields = Vec::new();
    for (name, value) in &words.named {
        match name.as_str() {
            "fields" | "more" => {
                for at in 0..number(value)? {
                    fields.push((text(&format!("{}{at:04}", &name[..1]))?, Value::Null));
                }
            }
            _ => fields.push((text(name)?, field_value(value)?)),
        }
    }
    Ok(fields)
}

fn field_value(word: &str) -> Parsed<Value<'static>> {
    if let Some(id) = word.strip_prefix("->") {
        return number(id).map(Value::Record);
    }
    if let Some(blob) = word.strip_prefix("blob:") {
        return bytes(blob).map(Value::Blob);
    }
    Ok(match word {
        "null" => Value::Null,
        "true" => Value::Boolean(true),
        "false" => Value::Boolean(false),
        _ => match word.parse() {
            Ok(integer) => Value::Integer(integer),
            Err(_) => Value::Text(text(word)?),
        },
    })
}
