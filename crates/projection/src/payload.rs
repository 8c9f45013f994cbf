//! What a commit carries: a result, the matches of a rule, or rows that a worker computed.
//!
//! ```text
//! result    1 | u32 length, JSON
//! exploded  2 | u64 read watermark | u8 kind | u16 table | u32 count | u16 id ...
//! effects   3 | u32 count | u16 table, u16 id, row ... | u32 count | u16 table, u16 id, u64 version ...
//! ```
//!
//! Invariants
//! - A payload that was decoded is within the limits and can be drained.
//!
//! Must not know: slots, tokens, parts.

use bytes::BufMut;
use gapless_log::input::{Input, Malformed};
use serde_json::Value as Json;

use crate::codec::{Put, Take};
use crate::limits::{MAX_CHANGED_ROWS, MAX_ID_BYTES, MAX_NAME_BYTES, MAX_PART_BYTES, MAX_ROW_BYTES};
use crate::value::{Row, canonical_json, put_row, take_row};

/// What is committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Nothing but a result: JSON in its canonical form.
    Result(Box<str>),
    /// What the rule of the slot's event matches.
    Exploded {
        /// The watermark it was evaluated at.
        read_watermark: u64,
        /// The matches.
        exploded: Exploded,
    },
    /// Rows of a worker.
    Effects {
        /// After-images, in the order they are written.
        effects: Vec<RowWrite>,
        /// What they were computed from.
        reads: Vec<RowRead>,
    },
}

/// What a rule matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exploded {
    /// What will happen to the rows.
    pub kind: RuleKind,
    /// Their table.
    pub table: Box<str>,
    /// Their ids, sorted.
    pub ids: Vec<Box<str>>,
}

/// What a rule does to rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RuleKind {
    /// One row is made or merged.
    Upsert = 1,
    /// Rows get new columns.
    Update = 2,
    /// Rows go.
    Delete = 3,
    /// Nothing matches.
    NoOp = 4,
}

/// A row as it will be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowWrite {
    /// Its table.
    pub table: Box<str>,
    /// Its id.
    pub id: Box<str>,
    /// Its columns; none if it goes.
    pub row: Option<Row>,
}

/// A row as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowRead {
    /// Its table.
    pub table: Box<str>,
    /// Its id.
    pub id: Box<str>,
    /// The slot of its last change; 0 if there was none.
    pub version: u64,
}

impl RuleKind {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Upsert => "upsert",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::NoOp => "noop",
        }
    }

    /// The kind of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::Upsert, Self::Update, Self::Delete, Self::NoOp].into_iter().find(|kind| kind.name() == name)
    }

    pub(crate) fn of_number(number: u8) -> Result<Self, Malformed> {
        match number {
            1 => Ok(Self::Upsert),
            2 => Ok(Self::Update),
            3 => Ok(Self::Delete),
            4 => Ok(Self::NoOp),
            _ => Err(Malformed("no kind of a rule")),
        }
    }
}

impl Payload {
    /// A result of any JSON.
    pub fn result(json: &Json) -> Self {
        Self::Result(canonical_json(json).into())
    }

    /// Appends its bytes.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Result(json) => {
                bytes.put_u8(1);
                bytes.put_long(json.as_bytes());
            }
            Self::Exploded { read_watermark, exploded } => {
                bytes.put_u8(2);
                bytes.put_u64_le(*read_watermark);
                bytes.put_u8(exploded.kind as u8);
                bytes.put_short(exploded.table.as_bytes());
                bytes.put_count(exploded.ids.len());
                for id in &exploded.ids {
                    bytes.put_short(id.as_bytes());
                }
            }
            Self::Effects { effects, reads } => {
                bytes.put_u8(3);
                bytes.put_count(effects.len());
                for write in effects {
                    bytes.put_short(write.table.as_bytes());
                    bytes.put_short(write.id.as_bytes());
                    put_row(bytes, write.row.as_ref());
                }
                bytes.put_count(reads.len());
                for read in reads {
                    bytes.put_short(read.table.as_bytes());
                    bytes.put_short(read.id.as_bytes());
                    bytes.put_u64_le(read.version);
                }
            }
        }
    }

    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        bytes
    }

    /// Takes any bytes.
    ///
    /// # Errors
    /// If they are no payload, or one that is beyond a limit.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Input::new(bytes);
        let payload = match input.u8()? {
            1 => Self::Result(take_result(&mut input)?),
            2 => Self::Exploded {
                read_watermark: input.u64()?,
                exploded: Exploded {
                    kind: RuleKind::of_number(input.u8()?)?,
                    table: take_name(&mut input)?,
                    ids: take_ids(&mut input)?,
                },
            },
            3 => Self::Effects { effects: take_effects(&mut input)?, reads: take_reads(&mut input)? },
            _ => return Err(Malformed("no kind of a payload")),
        };
        input.end()?;
        Ok(payload)
    }
}

/// Parsed only to see that it is JSON; kept as it is if it is canonical already.
fn take_result(input: &mut Input<'_>) -> Result<Box<str>, Malformed> {
    let text = std::str::from_utf8(input.long()?).map_err(|_| Malformed("a result that is not UTF-8"))?;
    if text.len() > MAX_PART_BYTES {
        return Err(Malformed("a result longer than its limit"));
    }
    // The small ones that most workers send are not worth a tree.
    if matches!(text, "null" | "true" | "false") {
        return Ok(text.into());
    }
    let json: Json = serde_json::from_str(text).map_err(|_| Malformed("a result that is no JSON"))?;
    Ok(canonical_json(&json).into())
}

fn take_name(input: &mut Input<'_>) -> Result<Box<str>, Malformed> {
    match input.text(MAX_NAME_BYTES)? {
        "" => Err(Malformed("a table without a name")),
        name => Ok(name.into()),
    }
}

pub(crate) fn take_id(input: &mut Input<'_>) -> Result<Box<str>, Malformed> {
    Ok(input.text(MAX_ID_BYTES)?.into())
}

fn take_ids(input: &mut Input<'_>) -> Result<Vec<Box<str>>, Malformed> {
    let mut ids: Vec<Box<str>> = Vec::new();
    for _ in 0..take_count(input, 2)? {
        let id = take_id(input)?;
        if ids.last().is_some_and(|last| *last >= id) {
            return Err(Malformed("ids that are not in order"));
        }
        ids.push(id);
    }
    Ok(ids)
}

fn take_count(input: &mut Input<'_>, least_bytes: usize) -> Result<usize, Malformed> {
    let count = input.count(least_bytes)?;
    if count > MAX_CHANGED_ROWS { Err(Malformed("more rows than one slot can change")) } else { Ok(count) }
}

fn take_effects(input: &mut Input<'_>) -> Result<Vec<RowWrite>, Malformed> {
    let mut effects = Vec::new();
    for _ in 0..take_count(input, 5)? {
        let (table, id) = (take_name(input)?, take_id(input)?);
        let before = input.rest().len();
        let row = take_row(input)?;
        if before - input.rest().len() > MAX_ROW_BYTES {
            return Err(Malformed("a row longer than its limit"));
        }
        effects.push(RowWrite { table, id, row });
    }
    Ok(effects)
}

fn take_reads(input: &mut Input<'_>) -> Result<Vec<RowRead>, Malformed> {
    let count = take_count(input, 12)?;
    (0..count)
        .map(|_| Ok(RowRead { table: take_name(input)?, id: take_id(input)?, version: input.u64()? }))
        .collect()
}
