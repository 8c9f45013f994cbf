//! Golden bytes: one write, one definition, the record of an event and that of a refusal, field by field.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use gapless_partition::{Condition, Entry, NewId, Operation, Outcome, RequestDigest, Value, Write};
use gapless_store::Direction;
use gapless_types::{PartitionOffset, WorkspaceOffset};
use sha2::{Digest, Sha256};

use crate::harness::{Bench, ID, definition, workspace};
use crate::{definition_bytes, write_bytes};

/// Lengths of the fields and what they are, in the order of the bytes.
type Fields = Vec<(usize, &'static str)>;

const STRING: &str = "its length";

fn write() -> Write<'static> {
    Write {
        payload: b"{}",
        metadata: vec![("by", "ann")],
        expected_offset: Some(0),
        operations: vec![
            Operation::CreateRecord {
                id: NewId::Raw(1),
                record_type: "order",
                fields: vec![("n", Value::Integer(-2)), ("self", Value::Record(1))],
                parent: None,
            },
            Operation::UpdateRecord { record: 1, fields: Vec::new(), active: Some(false) },
            Operation::SetEntity {
                key: b"cart",
                value: b"a",
                condition: Condition::MustNotExist,
                expires_at: Some(5000),
            },
            Operation::DeleteEntity { key: b"bag", condition: Condition::None },
            Operation::NextNumber { sequence: "invoice" },
        ],
        ..Write::new(workspace(5), "till", "Sold")
    }
}

fn write_fields() -> Fields {
    let mut fields = vec![
        (1, "version 1"),
        (1, "presence: expected workspace offset"),
        (2, "5 operations"),
        (2, "1 pair of metadata"),
        (2, "zero"),
        (8, "workspace 5"),
        (8, "expected workspace offset 0"),
    ];
    for (length, what) in [(7, "kind \"default\""), (4, "client id \"till\""), (4, "event type \"Sold\"")] {
        fields.extend([(2, STRING), (length, what)]);
    }
    fields.extend([
        (2, STRING),
        (16, "content type \"application/json\""),
        (4, STRING),
        (2, "payload \"{}\""),
    ]);
    fields.extend([(2, STRING), (2, "metadata: key \"by\""), (2, STRING), (3, "value \"ann\"")]);
    fields.extend([(1, "create a record"), (1, "presence: a raw id, no parent"), (8, "raw id 1")]);
    fields.extend([(2, STRING), (5, "type \"order\""), (2, "2 fields")]);
    fields.extend([(2, STRING), (1, "name \"n\""), (1, "an integer"), (8, "-2")]);
    fields.extend([(2, STRING), (4, "name \"self\""), (1, "a record"), (8, "raw id 1")]);
    fields.extend([(1, "update a record"), (1, "presence: active is given, and false"), (8, "raw id 1")]);
    fields.push((2, "no fields"));
    fields.extend([(1, "set an entity"), (1, "must not exist; expires"), (8, "expiry 5000")]);
    fields.extend([(2, STRING), (4, "key \"cart\""), (4, STRING), (1, "value \"a\"")]);
    fields.extend([(1, "delete an entity"), (1, "no condition"), (2, STRING), (3, "key \"bag\"")]);
    fields.extend([(1, "next number"), (1, "zero"), (2, STRING), (7, "sequence \"invoice\"")]);
    fields
}

fn definition_fields() -> Fields {
    let mut fields = vec![
        (1, "version 1"),
        (1, "trust level 0"),
        (1, "at the cap: refuse"),
        (1, "no projections"),
        (2, "1 partition"),
        (8, "window 86 400 000 ms"),
        (8, "at most 100 000 000 keys"),
    ];
    fields.extend([(2, STRING), (4, "name \"shop\""), (4, "2 kinds")]);
    fields.extend([(2, STRING), (7, "kind \"default\""), (4, "2 sequences")]);
    fields.extend([(2, STRING), (6, "sequence \"credit\""), (8, "first number 5000")]);
    fields.extend([(2, STRING), (7, "sequence \"invoice\""), (8, "first number 1")]);
    fields.extend([(2, STRING), (4, "kind \"till\""), (4, "1 sequence")]);
    fields.extend([(2, STRING), (7, "sequence \"receipt\""), (8, "first number 100")]);
    fields.push((4, "2 record types"));
    fields.extend([(2, STRING), (7, "type \"profile\""), (1, "a singleton")]);
    fields.extend([(2, STRING), (8, "type \"settings\""), (1, "a singleton")]);
    fields
}

fn header_fields(event: bool) -> Fields {
    let pick = |is: &'static str, is_not: &'static str| if event { is } else { is_not };
    let mut fields = vec![
        (1, "version 1"),
        (1, pick("kind 1: an event", "kind 2: a refusal")),
        (2, "workspace kind 1"),
        (4, "CRC32C of the header"),
        (4, "length of the header"),
        (4, "length of the body"),
        (8, pick("partition offset 2", "partition offset 3")),
        (8, pick("log index 11", "log index 12")),
        (8, "log time 1000"),
        (8, "workspace 5"),
        (8, pick("workspace offset 1", "no workspace offset")),
        (8, pick("client sequence 1", "no client sequence")),
        (8, pick("highest record id 200 001", "no record id")),
        (16, "idempotency key"),
        (16, "request digest"),
        (2, pick("1 record id", "no record ids")),
        (2, pick("1 number", "no numbers")),
        (2, "length of the client id"),
        (2, "zero"),
        (4, "client id \"till\""),
    ];
    if event {
        fields.extend([(2, "raw id 1 is"), (8, "record 200 001"), (2, "sequence 4 gave"), (8, "number 1")]);
    }
    fields
}

/// One line for each field, at most 16 bytes in a line.
fn listing(bytes: &[u8], fields: &Fields) -> String {
    let mut text = String::new();
    let mut at = 0;
    for (length, what) in fields {
        for (part, chunk) in bytes[at..at + length].chunks(16).enumerate() {
            let hex: Vec<_> = chunk.iter().map(|byte| format!("{byte:02x}")).collect();
            let what = if part == 0 { *what } else { "" };
            let line = format!("{:04x}  {:<48} {what}", at + part * 16, hex.join(" "));
            writeln!(text, "{}", line.trim_end()).unwrap();
        }
        at += length;
    }
    assert_eq!(at, bytes.len(), "every byte is told");
    text
}

fn compare(name: &str, listing: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join(format!("tests/golden/{name}.hex"));
    if std::env::var_os("GAPLESS_WRITE_GOLDEN").is_some_and(|value| value == "1") {
        fs::write(&path, listing).unwrap();
    }
    assert_eq!(listing, fs::read_to_string(&path).unwrap(), "{name}");
    let page = fs::read_to_string(root.join("../../docs/format.md")).unwrap();
    assert!(page.contains(listing), "docs/format.md does not show {name} like this:\n{listing}");
}

#[test]
fn a_write_and_a_definition_have_the_bytes_of_the_page() {
    compare("write", &listing(&write_bytes(&write()), &write_fields()));
    compare("definition", &listing(&definition_bytes(&definition()), &definition_fields()));
    let digest = RequestDigest::of(&write_bytes(&write()));
    assert_eq!(format!("{digest:?}"), "b16f46be2249b83e35778eca31ca1284");
}

#[test]
fn records_of_the_partition_log_have_the_bytes_of_the_page() {
    let mut bench = Bench::new();
    let Outcome::Committed(committed) = bench.write(&write()) else { panic!() };
    assert_eq!(committed.transaction.to_string(), "766575283ac7645bd27f85db60a9a1c1");
    let taken = Write { expected_offset: None, ..write() };
    let refused = bench.write(&taken);
    assert!(matches!(refused, Outcome::Refused(_)), "{refused:?}");
    let view = bench.partition().view().unwrap();
    let outcomes = view.outcomes(PartitionOffset::new(2).unwrap(), 2, Direction::Forward).unwrap();
    let mut event = header_fields(true);
    let body = write_bytes(&write()).len();
    let bytes = outcomes[0].bytes();
    compare("event_header", &listing(&bytes[..bytes.len() - body], &event));
    assert_eq!(bytes[bytes.len() - body..], write_bytes(&write()), "the body is the write");
    event = header_fields(false);
    event.extend([(1, "code 1: the entity exists"), (1, "presence: version, value, operation")]);
    event.extend([(2, "operation 2"), (2, STRING), (4, "key \"cart\""), (2, STRING)]);
    event.extend([(17, "message"), (8, "current version 1"), (4, STRING), (1, "current value \"a\"")]);
    compare("refusal", &listing(outcomes[1].bytes(), &event));
}

#[test]
fn an_event_is_the_leaf_the_rows_and_the_block_of_the_page() {
    let mut bench = Bench::new();
    bench.write(&write());
    let view = bench.partition().view().unwrap();
    let event = view.outcomes(PartitionOffset::new(2).unwrap(), 1, Direction::Forward).unwrap().remove(0);
    let leaf: [u8; 32] = Sha256::new().chain_update([0]).chain_update(event.bytes()).finalize().into();
    let key = Entry::Event(workspace(5), 1).key(ID);
    let place = view.rows().map(Result::unwrap).find(|(_, found, _)| **found == key).unwrap().2;
    assert_eq!(place[8..], leaf);
    let row = [&key[..], &place].concat();
    let key_fields = [(1, "kind 5"), (4, "namespace 7"), (8, "workspace 5"), (8, "workspace offset 1")];
    let value_fields = [(8, "value: partition offset 2"), (32, "leaf hash: SHA-256 of 00 and the record")];
    compare("index_row", &listing(&row, &key_fields.into_iter().chain(value_fields).collect()));
    let header = view.block_header(workspace(5), WorkspaceOffset::FIRST).unwrap();
    let fields = vec![
        (1, "version 1"),
        (8, "height 1"),
        (32, "leaf hash"),
        (32, "root of the tree of one leaf: the leaf"),
        (8, "log time 1000"),
        (8, "log index 11"),
    ];
    compare("block_header", &listing(&header.encode(), &fields));
    assert_eq!(header.root.as_bytes(), &leaf);
}
