//! What an entry promises: one encoding, golden bytes, decoders that take anything.

use gapless_partition::{Command, Definition, Write};
use gapless_types::{GroupId, IdempotencyKey, Name, NamespaceId, PartitionIndex, WorkspaceId};
use proptest::prelude::*;

use super::*;
use crate::entry::encode::checksum;

fn partition(namespace: u32, index: u16) -> PartitionId {
    PartitionId { namespace: NamespaceId::new(namespace), index: PartitionIndex::new(index) }
}

fn command(partition: PartitionId, expected: u64, command: &'static [u8]) -> PartitionCommand {
    let expected = PartitionOffset::new(expected).unwrap();
    PartitionCommand { partition, expected, command: Bytes::from_static(command) }
}

fn entry(records: Vec<EntryRecord>) -> Entry {
    Entry {
        group: GroupId::new(3),
        machine_version: MachineVersion::FIRST,
        time: LogTime::from_millis(1_700_000_000_000).unwrap(),
        records,
    }
}

/// The example of `docs/format.md`.
fn example() -> Entry {
    entry(vec![
        EntryRecord::Write(command(partition(7, 2), 5, b"abc")),
        EntryRecord::Definition(command(partition(8, 0), 1, b"de")),
        EntryRecord::Definition(command(partition(8, 1), 1, b"de")),
        EntryRecord::DomainCommand { partition: partition(7, 2), command: Bytes::from_static(b"f") },
    ])
}

/// Bytes with their checksum made right, so that what lies behind it is looked at.
fn sealed(mut bytes: Vec<u8>) -> Bytes {
    if bytes.len() >= 8 {
        let sum = checksum(&bytes);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
    }
    Bytes::from(bytes)
}

#[test]
fn golden_bytes() {
    let document = include_str!("../../../../docs/format.md");
    let section = document.split("# The replicated log").nth(1).unwrap();
    let raise = Entry { machine_version: MachineVersion(2), ..entry(vec![EntryRecord::Raise]) };
    let term = entry(vec![EntryRecord::Term]);
    for (title, entry) in [("A batch, with", example()), ("\nA term:\n", term), ("\nA raise:\n", raise)] {
        let drawing = section.split(title).nth(1).unwrap().split("```").nth(1).unwrap();
        let mut bytes = Vec::new();
        for line in drawing.lines().skip(1).filter(|line| !line.trim().is_empty()) {
            let (at, rest) = line.split_once("  ").unwrap();
            assert_eq!(usize::from_str_radix(at, 16).unwrap(), bytes.len(), "{line}");
            let hexadecimal = rest.split("  ").next().unwrap();
            bytes.extend(hexadecimal.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap()));
        }
        let encoded = entry.encode().unwrap();
        assert_eq!(bytes, encoded.to_vec(), "{title}: {encoded:02x?}");
        assert_eq!(Entry::decode(&Bytes::from(bytes)), Ok(entry));
    }
}

#[test]
fn payloads_are_slices_of_the_entry() {
    let bytes = example().encode().unwrap();
    let range = bytes.as_ptr_range();
    for record in Entry::decode(&bytes).unwrap().records {
        let (EntryRecord::Write(PartitionCommand { command, .. })
        | EntryRecord::Definition(PartitionCommand { command, .. })
        | EntryRecord::DomainCommand { command, .. }) = record
        else {
            panic!("the example has no term")
        };
        assert!(range.contains(&command.as_ptr()));
    }
}

#[test]
fn a_payload_is_what_a_partition_takes() {
    let (mut write, mut definition) = (Vec::new(), Vec::new());
    let key = IdempotencyKey::new([7; 16]).unwrap();
    let asked = Write {
        workspace: WorkspaceId::new(1),
        kind: "default",
        client: "till",
        event_type: "Sold",
        content_type: "application/json",
        payload: b"{}",
        metadata: Vec::new(),
        expected_offset: None,
        operations: Vec::new(),
    };
    Command::encode_write(key, &asked, &mut write);
    Command::encode_definition(
        &Definition::new(Name::new("shop").unwrap(), std::num::NonZeroU16::MIN),
        &mut definition,
    );
    let at = |expected, bytes: &[u8]| PartitionCommand {
        partition: partition(1, 0),
        expected: PartitionOffset::new(expected).unwrap(),
        command: Bytes::copy_from_slice(bytes),
    };
    let records = vec![EntryRecord::Definition(at(1, &definition)), EntryRecord::Write(at(2, &write))];
    let decoded = Entry::decode(&entry(records.clone()).encode().unwrap()).unwrap();
    assert_eq!(decoded.records, records);
    let [EntryRecord::Definition(first), EntryRecord::Write(second)] = &decoded.records[..] else { panic!() };
    assert!(matches!(Command::decode(&first.command), Ok(Command::Define(_))));
    assert!(matches!(Command::decode(&second.command), Ok(Command::Write(found, _)) if found == key));
}

#[test]
fn a_definition_for_every_partition_is_one_entry_and_one_payload() {
    let definition = Bytes::from(vec![9; 1 << 14]);
    let records: Vec<_> = (0..u16::MAX)
        .map(|index| {
            let expected = PartitionOffset::new(u64::from(index) + 1).unwrap();
            EntryRecord::Definition(PartitionCommand {
                partition: partition(1, index),
                expected,
                command: definition.clone(),
            })
        })
        .collect();
    let whole = entry(records);
    let bytes = whole.encode().unwrap();
    assert_eq!(bytes.len(), HEADER_BYTES + (1 << 14) + 65_535 * RECORD_HEADER_BYTES);
    assert_eq!(Entry::decode(&bytes), Ok(whole));
}

#[test]
fn what_is_beyond_a_limit_is_refused_and_changes_nothing() {
    let mut encoder = EntryEncoder::new(GroupId::FIRST, MachineVersion::FIRST, LogTime::ZERO);
    let domain = |bytes: usize| EntryRecord::DomainCommand {
        partition: partition(1, 0),
        command: Bytes::from(vec![1; bytes]),
    };
    let longest = MAX_ENTRY_BYTES - HEADER_BYTES - RECORD_HEADER_BYTES;
    assert_eq!(encoder.push(&domain(longest + 1)), Err(PushError::TooLong { bytes: longest + 1 }));
    assert_eq!(encoder.push(&domain(longest)), Ok(()));
    let full = PushError::Full { records: 1, bytes: MAX_ENTRY_BYTES };
    assert_eq!(encoder.push(&domain(0)), Err(full));
    let bytes = encoder.finish();
    assert_eq!(bytes.len(), MAX_ENTRY_BYTES);
    assert!(Entry::decode(&bytes).is_ok());
    let longer = sealed([bytes.as_ref(), &[0]].concat());
    assert_eq!(Entry::decode(&longer), Err(EntryError::TooLong { bytes: MAX_ENTRY_BYTES + 1 }));

    let mut many = EntryEncoder::new(GroupId::FIRST, MachineVersion::FIRST, LogTime::ZERO);
    for _ in 0..MAX_ENTRY_RECORDS {
        assert_eq!(many.push(&domain(0)), Ok(()));
    }
    assert!(matches!(many.push(&domain(0)), Err(PushError::Full { records: MAX_ENTRY_RECORDS, .. })));
    assert_eq!(Entry::decode(&many.finish()).unwrap().records.len(), MAX_ENTRY_RECORDS);
}

#[test]
fn a_definition_spelled_out_twice_is_not_the_one_encoding() {
    let definition = |index, payload| EntryRecord::Definition(command(partition(8, index), 1, payload));
    // The same length, so that changing the payload alone makes the two equal.
    let bytes = entry(vec![definition(0, b"de"), definition(1, b"dx")]).encode().unwrap();
    assert!(Entry::decode(&bytes).is_ok());
    let mut twice = bytes.to_vec();
    *twice.last_mut().unwrap() = b'e';
    assert!(matches!(Entry::decode(&sealed(twice)), Err(EntryError::Malformed { what: "payload", .. })));
}

#[test]
fn what_there_is_room_for_fits() {
    let mut room = EntryRoom::default();
    let longest = MAX_ENTRY_BYTES - HEADER_BYTES - RECORD_HEADER_BYTES;
    assert!(!room.take(longest + 1));
    assert!(room.take(longest));
    assert!(!room.take(0));
    let mut room = EntryRoom::default();
    assert!((0..MAX_ENTRY_RECORDS).all(|_| room.take(0)));
    assert!(!room.take(0));
}

#[test]
fn offsets_of_a_partition_ascend_by_one_and_a_term_or_a_raise_stands_alone() {
    let first = EntryRecord::Write(command(partition(1, 0), 5, b"a"));
    for (given, fits) in [(4, false), (5, false), (6, true), (7, false)] {
        let records = vec![first.clone(), EntryRecord::Write(command(partition(1, 0), given, b"b"))];
        assert_eq!(entry(records).encode().is_ok(), fits, "{given}");
    }
    let term_and = |other: Vec<EntryRecord>| entry(other).encode();
    assert_eq!(term_and(vec![EntryRecord::Term, first.clone()]), Err(PushError::NotAlone));
    assert_eq!(term_and(vec![first, EntryRecord::Term]), Err(PushError::NotAlone));
    assert_eq!(term_and(vec![EntryRecord::Term, EntryRecord::Term]), Err(PushError::NotAlone));
    assert_eq!(term_and(vec![EntryRecord::Raise, EntryRecord::Term]), Err(PushError::NotAlone));
    // Two of them by their bytes.
    let alone = entry(vec![EntryRecord::Raise]).encode().unwrap();
    let mut twice = [&alone[..], &alone[HEADER_BYTES..]].concat();
    twice[HEADER_BYTES - 4] = 2;
    assert!(matches!(Entry::decode(&sealed(twice)), Err(EntryError::Malformed { what: "record", .. })));
}

#[test]
fn every_flipped_bit_and_every_cut_is_noticed() {
    let bytes = example().encode().unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(Entry::decode(&Bytes::from(flipped)).is_err(), "bit {bit}");
    }
    for length in 0..bytes.len() {
        assert!(Entry::decode(&bytes.slice(..length)).is_err(), "cut at {length}");
        assert!(Entry::decode(&sealed(bytes[..length].to_vec())).is_err(), "cut at {length}, resealed");
    }
}

/// Any entry with these partitions and payloads; offsets follow each other.
fn any_entry() -> impl Strategy<Value = Entry> {
    let record = (0..3_u8, 0..3_u16, proptest::collection::vec(any::<u8>(), 0..4));
    (any::<u32>(), any::<u32>(), 0..=LogTime::LAST.as_millis(), proptest::collection::vec(record, 1..20))
        .prop_map(|(group, version, time, parts)| {
            let mut next = [1_u64; 3];
            let records = parts.into_iter().map(|(kind, index, payload)| {
                let (partition, command) = (partition(1, index), Bytes::from(payload));
                if kind == 2 {
                    return EntryRecord::DomainCommand { partition, command };
                }
                let expected = PartitionOffset::new(next[usize::from(index)]).unwrap();
                next[usize::from(index)] += 1;
                let command = PartitionCommand { partition, expected, command };
                if kind == 0 { EntryRecord::Write(command) } else { EntryRecord::Definition(command) }
            });
            Entry {
                group: GroupId::new(group),
                machine_version: MachineVersion(version),
                time: LogTime::from_millis(time).unwrap(),
                records: records.collect(),
            }
        })
}

proptest! {
    #[test]
    fn every_entry_comes_back(entry in any_entry()) {
        prop_assert_eq!(Entry::decode(&entry.encode()?), Ok(entry));
    }

    /// What decodes encodes to the same bytes, and nothing makes the decoder panic: entries with some bytes changed, and a right
    /// checksum, so that the parts behind it are reached.
    #[test]
    fn hostile_bytes_are_refused_or_canonical(
        entry in any_entry(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
        keep in any::<bool>(),
    ) {
        let mut bytes = entry.encode()?.to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if !keep {
            bytes.truncate(cut.index(bytes.len()));
        }
        let bytes = sealed(bytes);
        if let Ok(decoded) = Entry::decode(&bytes) {
            prop_assert_eq!(decoded.encode()?, bytes);
        }
    }

    #[test]
    fn any_bytes_get_a_verdict(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = VERSION;
        }
        if let Ok(decoded) = Entry::decode(&sealed(bytes.clone())) {
            prop_assert_eq!(decoded.encode()?, sealed(bytes));
        }
    }
}

/// Takes an entry apart as a program that knows the versions up to this one.
fn taken(known: u32, entry: &Entry) -> Result<Entry, NotApplied> {
    Entry::of_group(GroupId::new(3), MachineVersion(known), &entry.encode().unwrap())
}

#[test]
fn an_entry_of_another_group_is_passed_over_by_everybody() {
    let own = entry(vec![EntryRecord::Term]);
    assert_eq!(taken(1, &own), Ok(own.clone()));
    let group = GroupId::new(4);
    let passed_over = Err(NotApplied::PassedOver(EntryError::Group { found: group }));
    let other = Entry { group, ..own };
    assert_eq!(taken(1, &other), passed_over);
    // Also one that would be too new.
    assert_eq!(taken(1, &Entry { machine_version: MachineVersion(2), ..other }), passed_over);
}

#[test]
fn whoever_is_too_old_for_an_entry_is_told_both_versions() {
    let newer = Entry { machine_version: MachineVersion(3), ..entry(vec![EntryRecord::Raise]) };
    assert_eq!(taken(3, &newer), Ok(newer.clone()));
    let error = taken(2, &newer).unwrap_err();
    assert!(matches!(error, NotApplied::TooNew(_)));
    assert_eq!(error.to_string(), "machine version 3 is needed, and this program knows those up to 2");
}

#[test]
fn an_entry_with_records_that_only_a_newer_machine_has_is_not_passed_over() {
    let newer = Entry { machine_version: MachineVersion(2), ..entry(vec![EntryRecord::Raise]) };
    let mut bytes = newer.encode().unwrap().to_vec();
    bytes[HEADER_BYTES] = 99;
    let bytes = sealed(bytes);
    let of_group = |known| Entry::of_group(newer.group, MachineVersion(known), &bytes);
    assert!(matches!(of_group(1), Err(NotApplied::TooNew(_))));
    assert!(matches!(of_group(2), Err(NotApplied::PassedOver(_))), "nobody has such a record");
}
