//! The effect log: what each slot changed, with after-images, so that replaying needs neither rules nor code.
//!
//! ```text
//! first piece   u8 version 1 | u8 kind | u64 slot | u64 source or 0 | u64 log time | u64 workspace | u64 token
//!               | 16 bytes digest of the commit | 16 bytes digest of all but its last part | u32 pieces | body
//! upsert 1, update 2, delete 3, no-op 4    u16 table | u32 rows | u16 id, row ...
//! fill 5                                   u8 why | u8 whether the slot was claimed
//! worker effects 6                         u32 rows | u16 table, u16 id, row ...
//! result 7                                 u32 JSON
//! ```
//!
//! Rows that do not fit the first piece follow in others: as many as fit 2 MiB, at most a thousand in each.
//!
//! Invariants
//! - ORD-1: there is one record for each resolved slot, in slot order, without a gap.
//! - Hashes are over canonical JSON: the same for the same effects, however they were stored.

use std::fmt::Write as _;

use bytes::BufMut;
use gapless_log::input::{Input, Malformed};
use gapless_types::{PartitionOffset, WorkspaceId};

use crate::codec::{Put, Take};
use crate::limits::{MAX_CHUNK_ROWS, MAX_NAME_BYTES, PIECE_BYTES};
use crate::payload::{RowWrite, RuleKind, take_id};
use crate::value::{Row, put_row, take_row, write_json_row, write_json_text};

const VERSION: u8 = 1;
const FILL: u8 = 5;
const EFFECTS: u8 = 6;
const RESULT: u8 = 7;
/// Where the number of pieces stands in the first.
const PIECES_AT: usize = 2 + 5 * 8 + 2 * 16;

/// What a slot changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The slot.
    pub slot: u64,
    /// The event it stood for; none if it was allocated.
    pub source: Option<PartitionOffset>,
    /// Log time at which it was applied.
    pub time: u64,
    /// Whose rows it changed.
    pub workspace: WorkspaceId,
    /// The newest token of the slot; 0 if it was never granted.
    pub token: u64,
    /// What was committed, to know it again.
    pub digest: CommitDigest,
    /// What changed.
    pub change: Change,
}

/// Fingerprint of a commit: of all of it, and of all but its last part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitDigest {
    pub(crate) whole: [u8; 16],
    pub(crate) before_last: [u8; 16],
}

/// What changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// What a rule did.
    Rule {
        /// How; a no-op if nothing matched.
        kind: RuleKind,
        /// The table.
        table: Box<str>,
        /// After-images by id, sorted.
        writes: Vec<(Box<str>, Option<Row>)>,
    },
    /// What a worker computed, in the order it gave.
    Effects(Vec<RowWrite>),
    /// A result, as canonical JSON.
    Result(Box<str>),
    /// Nothing: the slot was filled.
    Fill {
        /// Why.
        why: Why,
        /// Whether an event stood behind it: then it is a dead letter.
        claimed: bool,
    },
}

/// Why a slot was filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Why {
    /// Its lease ran out.
    Expired = 1,
    /// Its attempts are used up.
    Exhausted = 2,
    /// It was allocated and given back.
    Released = 3,
    /// It was allocated and its work failed.
    Failed = 4,
    /// An operator skipped it.
    Skipped = 5,
    /// Its key was poisoned by an earlier slot.
    Parked = 6,
}

impl Why {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Exhausted => "exhausted",
            Self::Released => "released",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Parked => "parked",
        }
    }

    pub(crate) fn of_number(number: u8) -> Result<Self, Malformed> {
        let all = [Self::Expired, Self::Exhausted, Self::Released, Self::Failed, Self::Skipped, Self::Parked];
        all.into_iter().find(|why| *why as u8 == number).ok_or(Malformed("no reason of a fill"))
    }
}

impl Effect {
    /// Every row it wrote, in order.
    pub fn writes(&self) -> impl Iterator<Item = (&str, &str, Option<&Row>)> {
        let (rule, effects) = match &self.change {
            Change::Rule { table, writes, .. } => (Some((table, writes)), None),
            Change::Effects(writes) => (None, Some(writes)),
            Change::Result(_) | Change::Fill { .. } => (None, None),
        };
        let of_rule = rule
            .into_iter()
            .flat_map(|(table, writes)| writes.iter().map(move |(id, row)| (&**table, &**id, row.as_ref())));
        let of_worker =
            effects.into_iter().flatten().map(|write| (&*write.table, &*write.id, write.row.as_ref()));
        of_rule.chain(of_worker)
    }

    /// Its canonical JSON, with chunks of so many rows.
    pub fn to_json(&self, chunk: usize) -> String {
        let mut text = String::new();
        self.write_json(chunk, &mut text);
        text
    }

    pub(crate) fn write_json(&self, chunk: usize, text: &mut String) {
        let slot = self.slot;
        text.push('{');
        match &self.change {
            Change::Rule { kind, table, writes } => {
                if writes.len() > chunk {
                    write!(text, "\"chunks\":{},", writes.len().div_ceil(chunk))
                        .expect("a string takes everything");
                }
                text.push_str("\"entity\":");
                write_json_text(table, text);
                text.push_str(",\"ids\":");
                write_json_list(writes, text, |(id, _), text| write_json_text(id, text));
                write!(text, ",\"kind\":\"{}\",\"slot\":{slot},\"writes\":", kind.name())
                    .expect("a string takes everything");
                write_json_list(writes, text, |(id, row), text| {
                    text.push('[');
                    write_json_text(id, text);
                    text.push(',');
                    write_json_row(row.as_ref(), text);
                    text.push(']');
                });
            }
            Change::Effects(writes) => {
                text.push_str("\"effects\":");
                write_json_list(writes, text, |write, text| {
                    text.push('[');
                    write_json_text(&write.table, text);
                    text.push(',');
                    write_json_text(&write.id, text);
                    text.push(',');
                    write_json_row(write.row.as_ref(), text);
                    text.push(']');
                });
                write!(text, ",\"kind\":\"effects\",\"slot\":{slot}").expect("a string takes everything");
            }
            Change::Result(json) => {
                write!(text, "\"kind\":\"result\",\"result\":{json},\"slot\":{slot}")
                    .expect("a string takes everything");
            }
            Change::Fill { why, .. } => {
                write!(text, "\"kind\":\"fill\",\"slot\":{slot},\"why\":\"{}\"", why.name())
                    .expect("a string takes everything");
            }
        }
        text.push('}');
    }

    /// Hands over the pieces it is stored in, from the first on.
    pub(crate) fn encode<Error>(
        &self,
        bytes: &mut Vec<u8>,
        mut each: impl FnMut(u32, &[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        bytes.clear();
        self.encode_head(bytes);
        match &self.change {
            Change::Rule { table, writes, .. } => {
                bytes.put_short(table.as_bytes());
                bytes.put_count(writes.len());
                encode_rows(writes, bytes, each, |(id, row), bytes| {
                    bytes.put_short(id.as_bytes());
                    put_row(bytes, row.as_ref());
                })
            }
            Change::Effects(writes) => {
                bytes.put_count(writes.len());
                encode_rows(writes, bytes, each, |write, bytes| {
                    bytes.put_short(write.table.as_bytes());
                    bytes.put_short(write.id.as_bytes());
                    put_row(bytes, write.row.as_ref());
                })
            }
            Change::Result(json) => {
                bytes.put_long(json.as_bytes());
                each(0, bytes)
            }
            Change::Fill { why, claimed } => {
                bytes.put_u8(*why as u8);
                bytes.put_u8(u8::from(*claimed));
                each(0, bytes)
            }
        }
    }

    fn encode_head(&self, bytes: &mut Vec<u8>) {
        let kind = match &self.change {
            Change::Rule { kind, .. } => *kind as u8,
            Change::Fill { .. } => FILL,
            Change::Effects(_) => EFFECTS,
            Change::Result(_) => RESULT,
        };
        bytes.put_u8(VERSION);
        bytes.put_u8(kind);
        bytes.put_u64_le(self.slot);
        bytes.put_u64_le(self.source.map_or(0, PartitionOffset::get));
        bytes.put_u64_le(self.time);
        bytes.put_u64_le(self.workspace.get());
        bytes.put_u64_le(self.token);
        bytes.extend_from_slice(&self.digest.whole);
        bytes.extend_from_slice(&self.digest.before_last);
        bytes.put_u32_le(1);
    }

    /// Of its pieces, which `piece` reads by number. Takes any bytes.
    pub(crate) fn decode<Error: From<Malformed>, Bytes: AsRef<[u8]>>(
        first: &[u8],
        piece: impl FnMut(u32) -> Result<Bytes, Error>,
    ) -> Result<Self, Error> {
        let mut input = Input::new(first);
        let (head, kind, pieces) = Self::decode_head(&mut input)?;
        let change = match kind {
            1..=4 => {
                let table = input.text(MAX_NAME_BYTES)?.into();
                let writes =
                    decode_rows(input, pieces, piece, |input| Ok((take_id(input)?, take_row(input)?)))?;
                Change::Rule { kind: RuleKind::of_number(kind)?, table, writes }
            }
            FILL => {
                let (why, claimed) = (Why::of_number(input.u8()?)?, input.flag()?);
                input.end()?;
                Change::Fill { why, claimed }
            }
            EFFECTS => Change::Effects(decode_rows(input, pieces, piece, |input| {
                let table = input.text(MAX_NAME_BYTES)?.into();
                Ok(RowWrite { table, id: take_id(input)?, row: take_row(input)? })
            })?),
            RESULT => {
                let text = std::str::from_utf8(input.long()?)
                    .map_err(|_| Malformed("a result that is not UTF-8"))?;
                input.end()?;
                Change::Result(text.into())
            }
            _ => return Err(Malformed("no kind of an effect").into()),
        };
        Ok(Self { change, ..head })
    }

    /// Everything but the change, which is that of a fill.
    pub(crate) fn decode_head(input: &mut Input<'_>) -> Result<(Self, u8, u32), Malformed> {
        if input.u8()? != VERSION {
            return Err(Malformed("an effect of an unknown version"));
        }
        let kind = input.u8()?;
        let head = Self {
            slot: input.u64()?,
            source: PartitionOffset::new(input.u64()?),
            time: input.u64()?,
            workspace: WorkspaceId::new(input.u64()?),
            token: input.u64()?,
            digest: CommitDigest { whole: input.array()?, before_last: input.array()? },
            change: Change::Fill { why: Why::Expired, claimed: false },
        };
        Ok((head, kind, input.u32()?))
    }

    /// Whether a first piece is that of a fill.
    pub(crate) fn is_fill(kind: u8) -> bool {
        kind == FILL
    }
}

fn write_json_list<T>(items: &[T], text: &mut String, mut write: impl FnMut(&T, &mut String)) {
    text.push('[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        write(item, text);
    }
    text.push(']');
}

/// Rows behind what is in `bytes`, cut into pieces. The first one says how many there are, so it comes last.
fn encode_rows<T, Error>(
    rows: &[T],
    bytes: &mut Vec<u8>,
    mut each: impl FnMut(u32, &[u8]) -> Result<(), Error>,
    encode: impl Fn(&T, &mut Vec<u8>),
) -> Result<(), Error> {
    let mut first = std::mem::take(bytes);
    let (mut pieces, mut count) = (1_u32, 0);
    for row in rows {
        let piece = if pieces == 1 { &mut first } else { &mut *bytes };
        if count >= MAX_CHUNK_ROWS || piece.len() >= PIECE_BYTES {
            if pieces > 1 {
                each(pieces - 1, piece)?;
                piece.clear();
            }
            (pieces, count) = (pieces + 1, 0);
        }
        encode(row, if pieces == 1 { &mut first } else { &mut *bytes });
        count += 1;
    }
    if pieces > 1 {
        each(pieces - 1, bytes)?;
    }
    first[PIECES_AT..PIECES_AT + 4].copy_from_slice(&pieces.to_le_bytes());
    each(0, &first)?;
    *bytes = first;
    Ok(())
}

fn decode_rows<T, Error: From<Malformed>, Bytes: AsRef<[u8]>>(
    mut input: Input<'_>,
    pieces: u32,
    mut piece: impl FnMut(u32) -> Result<Bytes, Error>,
    decode: impl Fn(&mut Input<'_>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Error> {
    let total = usize::try_from(input.u32()?).map_err(|_| Malformed("more rows than memory"))?;
    let mut rows = Vec::new();
    while !input.rest().is_empty() {
        rows.push(decode(&mut input)?);
    }
    for number in 1..pieces {
        let bytes = piece(number)?;
        let mut input = Input::new(bytes.as_ref());
        while !input.rest().is_empty() {
            rows.push(decode(&mut input)?);
        }
    }
    if rows.len() == total { Ok(rows) } else { Err(Malformed("other rows than an effect has").into()) }
}
