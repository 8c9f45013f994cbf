//! What is committed, from the wire to the parts that a domain keeps.
//!
//! ```text
//!  a commit as a whole ──▶ its bytes, cut into parts of 1 MiB
//!  numbered parts      ──▶ each of them a piece of the same bytes: 3, rows in all | rows ... | reads in all | reads ...
//! ```
//!
//! Nothing is kept between two parts: which bytes a part stands for is said by the part alone, so that one can be sent again, to
//! any node and after any restart.
//!
//! Must not know: slots, leases.

use bytes::BufMut;
use gapless_engine::projection::limits::{
    MAX_CHANGED_ROWS, MAX_COLUMNS, MAX_ID_BYTES, MAX_NAME_BYTES, MAX_PART_BYTES, MAX_PARTS,
};
use gapless_engine::projection::{Payload, Row, RowRead, RowWrite, Value, canonical_json};
use serde_json::Value as Json;

use crate::check::Check;
use crate::problem::Problem;
use crate::v1;

/// The number that a payload of rows begins with.
const EFFECTS: u8 = 3;
/// Bytes of that number and of a count.
const HEAD_BYTES: usize = 5;
const COUNT_BYTES: usize = 4;

/// A part of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) number: u32,
    pub(crate) is_last: bool,
    pub(crate) bytes: Vec<u8>,
}

/// The parts of a commit, in order: one, unless it is large and comes as a whole.
///
/// # Errors
/// Everything that is wrong with it.
pub(crate) fn parts(content: Option<&v1::CommitContent>) -> Result<Vec<Part>, Problem> {
    let mut check = Check::default();
    let Some(content) = content else {
        return Err(Problem::violation("content", "is missing; an empty one changes nothing"));
    };
    let rows = rows(&content.rows, &mut check);
    let reads = reads(&content.reads, &mut check);
    let result = content.result.as_deref().map(|text| result(text, content, &mut check));
    let bytes = match (&content.part, result) {
        (None, Some(result)) => Payload::Result(result.into()).to_bytes(),
        (None, None) => Payload::Effects { effects: rows, reads }.to_bytes(),
        (Some(part), _) => {
            check_part(part, content, &mut check);
            piece(part, rows, reads)
        }
    };
    let most = if content.part.is_some() { MAX_PART_BYTES } else { MAX_PART_BYTES * count(MAX_PARTS) };
    if bytes.len() > most {
        check.add("content", format_args!("{} bytes; the most are {most}", bytes.len()));
    } else if content.part.is_none() && bytes.len() > MAX_PART_BYTES {
        // Parts are kept as they come: what cannot be taken in the end is better not begun.
        if let Err(malformed) = Payload::decode(&bytes) {
            check.add("content", malformed.0);
        }
    }
    check.end()?;
    Ok(match &content.part {
        Some(part) => vec![Part { number: part.number, is_last: part.is_last, bytes }],
        None => cut(&bytes),
    })
}

fn count(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// A commit that comes as a whole, in parts.
fn cut(bytes: &[u8]) -> Vec<Part> {
    let pieces = bytes.chunks(MAX_PART_BYTES);
    let last = u32::try_from(pieces.len()).unwrap_or(u32::MAX);
    (1..)
        .zip(pieces)
        .map(|(number, piece)| Part { number, is_last: number == last, bytes: piece.to_vec() })
        .collect()
}

fn check_part(part: &v1::CommitPart, content: &v1::CommitContent, check: &mut Check) {
    if part.number == 0 || part.number > MAX_PARTS {
        check.add("content.part.number", format_args!("{}; parts are 1 to {MAX_PARTS}", part.number));
    }
    if content.result.is_some() {
        check.add("content.result", "does not come in parts");
    }
    if (part.number == 1) != part.total_rows.is_some() {
        check.add("content.part.total_rows", "is said by the first part, and by no other");
    }
    if !content.reads.is_empty() && part.number == 1 && part.total_reads.is_none() {
        check.add("content.part.total_reads", "is said by the part in which reads begin");
    }
    if part.number == 1 && part.is_last && part.total_reads.is_none() {
        check.add("content.part.total_reads", "is said by the part in which reads begin, or by the last one");
    }
    if !content.rows.is_empty() && !content.reads.is_empty() && part.total_reads.is_none() {
        check.add("content.part.total_reads", "is said where rows end and reads begin");
    }
}

/// The bytes that a part stands for.
fn piece(part: &v1::CommitPart, rows: Vec<RowWrite>, reads: Vec<RowRead>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(total) = part.total_rows {
        bytes.put_u8(EFFECTS);
        bytes.put_u32_le(total);
    }
    let encoded = Payload::Effects { effects: rows, reads: Vec::new() }.to_bytes();
    bytes.extend_from_slice(&encoded[HEAD_BYTES..encoded.len() - COUNT_BYTES]);
    if let Some(total) = part.total_reads {
        bytes.put_u32_le(total);
    }
    let encoded = Payload::Effects { effects: Vec::new(), reads }.to_bytes();
    bytes.extend_from_slice(&encoded[HEAD_BYTES + COUNT_BYTES..]);
    bytes
}

fn rows(rows: &[v1::RowWrite], check: &mut Check) -> Vec<RowWrite> {
    if rows.len() > MAX_CHANGED_ROWS {
        check.add("content.rows", format_args!("{}; the most are {MAX_CHANGED_ROWS}", rows.len()));
        return Vec::new();
    }
    let mut checked = Vec::with_capacity(rows.len());
    for (at, row) in rows.iter().enumerate() {
        let field = |name: &str| format!("content.rows[{at}].{name}");
        let is_named = table_and_id(&row.table, &row.id, field, check);
        if row.delete && !row.columns.is_empty() {
            check.add(field("delete"), "a row that goes has no columns");
        }
        if row.columns.len() > MAX_COLUMNS {
            check.add(field("columns"), format_args!("{}; the most are {MAX_COLUMNS}", row.columns.len()));
            continue;
        }
        let mut columns = Row::new();
        for (name, value) in &row.columns {
            if name.is_empty() || name.len() > MAX_NAME_BYTES {
                check.add(field("columns"), format_args!("a name has 1 to {MAX_NAME_BYTES} bytes"));
            } else if let Some(value) = column(value, || field(&format!("columns[{name}]")), check) {
                columns.insert(name.as_str().into(), value);
            }
        }
        if is_named {
            let row_now = (!row.delete).then_some(columns);
            checked.push(RowWrite {
                table: row.table.as_str().into(),
                id: row.id.as_str().into(),
                row: row_now,
            });
        }
    }
    checked
}

fn reads(reads: &[v1::RowRead], check: &mut Check) -> Vec<RowRead> {
    if reads.len() > MAX_CHANGED_ROWS {
        check.add("content.reads", format_args!("{}; the most are {MAX_CHANGED_ROWS}", reads.len()));
        return Vec::new();
    }
    let mut checked = Vec::with_capacity(reads.len());
    for (at, read) in reads.iter().enumerate() {
        let field = |name: &str| format!("content.reads[{at}].{name}");
        if table_and_id(&read.table, &read.id, field, check) {
            let (table, id) = (read.table.as_str().into(), read.id.as_str().into());
            checked.push(RowRead { table, id, version: read.version });
        }
    }
    checked
}

/// Whether both can be what they shall be.
fn table_and_id(table: &str, id: &str, field: impl Fn(&str) -> String, check: &mut Check) -> bool {
    let is_table = (1..=MAX_NAME_BYTES).contains(&table.len());
    if !is_table {
        check.add(field("table"), format_args!("{} bytes; 1 to {MAX_NAME_BYTES} are needed", table.len()));
    }
    if id.len() > MAX_ID_BYTES {
        check.add(field("id"), format_args!("{} bytes; the most are {MAX_ID_BYTES}", id.len()));
    }
    is_table && id.len() <= MAX_ID_BYTES
}

fn column(value: &v1::ColumnValue, field: impl Fn() -> String, check: &mut Check) -> Option<Value> {
    use v1::column_value::Kind;
    Some(match &value.kind {
        None | Some(Kind::Null(_)) => Value::Null,
        Some(Kind::Boolean(value)) => Value::Bool(*value),
        Some(Kind::Integer(value)) => Value::Integer(*value),
        Some(Kind::Text(text)) => Value::Text(text.as_str().into()),
        Some(Kind::Json(text)) => {
            let read = serde_json::from_str::<Json>(text).ok();
            // What has a form of its own has it, so that the same row has the same bytes.
            let column = read.and_then(|json| {
                let wrapped = Json::Object([("v".to_owned(), json)].into_iter().collect());
                gapless_engine::projection::row_from_json(&wrapped)?.remove("v")
            });
            if column.is_none() {
                check.add(field(), "is no JSON, or has a number that is no 64-bit integer");
            }
            column?
        }
    })
}

/// A result in its canonical form.
fn result(text: &str, content: &v1::CommitContent, check: &mut Check) -> String {
    if !content.rows.is_empty() || !content.reads.is_empty() {
        check.add("content.result", "a commit has a result, or rows and reads");
    }
    match serde_json::from_str::<Json>(text) {
        Ok(json) => canonical_json(&json),
        Err(error) => {
            check.add("content.result", format_args!("is no JSON: {error}"));
            String::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(id: &str, total: i64) -> v1::RowWrite {
        let value = v1::ColumnValue { kind: Some(v1::column_value::Kind::Integer(total)) };
        v1::RowWrite {
            table: "daily".to_owned(),
            id: id.to_owned(),
            columns: [("total".to_owned(), value)].into(),
            delete: false,
        }
    }

    fn read(id: &str, version: u64) -> v1::RowRead {
        v1::RowRead { table: "daily".to_owned(), id: id.to_owned(), version }
    }

    fn part(number: u32, is_last: bool, rows: Option<u32>, reads: Option<u32>) -> Option<v1::CommitPart> {
        Some(v1::CommitPart { number, is_last, total_rows: rows, total_reads: reads })
    }

    #[test]
    fn numbered_parts_are_pieces_of_the_whole() {
        let (rows, reads) = ([write("a", 1), write("b", 2), write("c", 3)], [read("a", 7), read("b", 0)]);
        let whole = v1::CommitContent { rows: rows.to_vec(), reads: reads.to_vec(), ..Default::default() };
        let whole = parts(Some(&whole)).unwrap();
        assert_eq!((whole.len(), whole[0].number, whole[0].is_last), (1, 1, true));
        let pieces = [
            v1::CommitContent {
                rows: rows[..2].to_vec(),
                part: part(1, false, Some(3), None),
                ..Default::default()
            },
            v1::CommitContent {
                rows: rows[2..].to_vec(),
                reads: reads[..1].to_vec(),
                part: part(2, false, None, Some(2)),
                ..Default::default()
            },
            v1::CommitContent {
                reads: reads[1..].to_vec(),
                part: part(3, true, None, None),
                ..Default::default()
            },
        ];
        let bytes = pieces.iter().flat_map(|piece| parts(Some(piece)).unwrap().remove(0).bytes);
        assert_eq!(bytes.collect::<Vec<u8>>(), whole[0].bytes);
    }

    #[test]
    fn a_large_commit_is_cut_and_one_beyond_the_limit_is_refused() {
        let long = |bytes: usize| {
            let text = v1::ColumnValue { kind: Some(v1::column_value::Kind::Text("x".repeat(bytes))) };
            let row = v1::RowWrite { columns: [("text".to_owned(), text)].into(), ..write("a", 0) };
            v1::CommitContent { rows: vec![row; 3], ..Default::default() }
        };
        let large = parts(Some(&long(MAX_PART_BYTES / 2))).unwrap();
        assert_eq!(
            large.iter().map(|part| (part.number, part.is_last)).collect::<Vec<_>>(),
            [(1, false), (2, true)]
        );
        assert_eq!(large[0].bytes.len(), MAX_PART_BYTES);
        let problem = parts(Some(&long(MAX_PART_BYTES * 6))).unwrap_err();
        assert_eq!(problem.violations[0].field, "content");
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        let fraction = v1::ColumnValue { kind: Some(v1::column_value::Kind::Json("[1.5]".to_owned())) };
        let content = v1::CommitContent {
            rows: vec![
                v1::RowWrite { table: String::new(), id: "x".repeat(MAX_ID_BYTES + 1), ..Default::default() },
                v1::RowWrite { delete: true, ..write("a", 1) },
                v1::RowWrite { columns: [("c".to_owned(), fraction)].into(), ..write("a", 1) },
            ],
            reads: vec![v1::RowRead { table: "x".repeat(MAX_NAME_BYTES + 1), ..read("a", 1) }],
            result: Some("{".to_owned()),
            part: None,
        };
        let problem = parts(Some(&content)).unwrap_err();
        let fields: Vec<&str> = problem.violations.iter().map(|violation| violation.field.as_str()).collect();
        let expected = [
            "content.rows[0].table",
            "content.rows[0].id",
            "content.rows[1].delete",
            "content.rows[2].columns[c]",
            "content.reads[0].table",
            "content.result",
            "content.result",
        ];
        assert_eq!(fields, expected);
        assert!(parts(None).is_err());
    }

    #[test]
    fn json_that_is_a_simple_value_is_that_value() {
        let json = |text: &str| v1::ColumnValue { kind: Some(v1::column_value::Kind::Json(text.to_owned())) };
        let read = |text: &str| column(&json(text), String::new, &mut Check::default());
        assert_eq!(read("5"), Some(Value::Integer(5)));
        assert_eq!(read("{\"b\":1, \"a\":[]}"), Some(Value::Opaque("{\"a\":[],\"b\":1}".into())));
        assert_eq!(read("nonsense"), None);
    }
}
