//! Bytes: what is encoded comes back as it was, one thing has one encoding, and no bytes at all make anything panic or stop.
//!
//! The golden bytes are those of `docs/format.md`: `golden/*.hex` holds them, the page repeats them, and both are compared
//! with what the program writes. `GAPLESS_WRITE_GOLDEN=1` writes the files anew.

#![allow(clippy::unwrap_used, reason = "the first thing that does not hold ends the test")]

#[path = "encodings/golden.rs"]
mod golden;
mod harness;
#[path = "encodings/strategies.rs"]
mod strategies;

use gapless_partition::{Command, Definition, Header, Outcome, Write};
use gapless_store::Direction;
use gapless_types::PartitionOffset;
use harness::{Bench, define_command, event, idempotency_key, write_command};
use proptest::prelude::*;
use strategies::{definition, header, mutation, write};

const HEADER_CHECKSUM: std::ops::Range<usize> = 4..8;
const HEADER_LENGTH: std::ops::Range<usize> = 8..12;

fn write_bytes(write: &Write<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    write.encode(&mut bytes);
    bytes
}

fn definition_bytes(definition: &Definition) -> Vec<u8> {
    let mut bytes = Vec::new();
    definition.encode(&mut bytes);
    bytes
}

/// Bytes that are a write are the bytes of that write.
fn check_write(bytes: &[u8]) {
    if let Ok(write) = Write::decode(bytes) {
        assert_eq!(write_bytes(&write), bytes, "{write:?}");
    }
}

fn check_definition(bytes: &[u8]) {
    if let Ok(definition) = Definition::decode(bytes) {
        assert_eq!(definition_bytes(&definition), bytes, "{definition:?}");
    }
}

fn check_header(bytes: &[u8]) {
    if let Ok((header, body)) = Header::decode(bytes) {
        let mut again = Vec::new();
        header.encode(body, &mut again);
        assert_eq!(again, bytes, "{header:?}");
    }
}

/// Gives a header that was changed the checksum it would have, if it still says where it ends.
fn repair_checksum(bytes: &mut [u8]) {
    let Some(length) = bytes.get(HEADER_LENGTH) else { return };
    let length = u32::from_le_bytes(length.try_into().unwrap()) as usize;
    if length < 112 || length > bytes.len() {
        return;
    }
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..4]), &bytes[8..length]);
    bytes[HEADER_CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn a_write_comes_back_as_it_was(write in write()) {
        let bytes = write_bytes(&write);
        prop_assert_eq!(Write::decode(&bytes), Ok(write));
    }

    #[test]
    fn a_definition_comes_back_as_it_was(definition in definition()) {
        prop_assert_eq!(Definition::decode(&definition_bytes(&definition)), Ok(definition));
    }

    #[test]
    fn a_header_and_its_body_come_back_as_they_were(header in header(), body in proptest::collection::vec(any::<u8>(), 0..20)) {
        let mut bytes = vec![7];
        header.encode(&body, &mut bytes);
        prop_assert_eq!(Header::decode(&bytes[1..]), Ok((header.clone(), &body[..])));
        // A body that is cut off or too long is noticed, and loses no number.
        bytes.push(0);
        prop_assert!(Header::decode(&bytes[1..]).is_err());
        let headless = bytes.len() - 1 - body.len();
        let (alone, rest, length) = Header::decode_alone(&bytes[1..headless]).unwrap();
        prop_assert_eq!((alone, rest, length), (header, &[][..], body.len()));
    }

    #[test]
    fn one_write_has_one_encoding(write in write(), mutation in mutation()) {
        let mut bytes = write_bytes(&write);
        mutation.apply(&mut bytes);
        check_write(&bytes);
    }

    #[test]
    fn one_definition_has_one_encoding(definition in definition(), mutation in mutation()) {
        let mut bytes = definition_bytes(&definition);
        mutation.apply(&mut bytes);
        check_definition(&bytes);
    }

    #[test]
    fn one_header_has_one_encoding(header in header(), mutation in mutation()) {
        let mut bytes = Vec::new();
        header.encode(b"body", &mut bytes);
        let original = bytes.clone();
        mutation.apply(&mut bytes);
        if let Ok((found, _)) = Header::decode(&bytes) {
            prop_assert_eq!(found, header, "only the body may differ: {:?}", original);
        }
        repair_checksum(&mut bytes);
        check_header(&bytes);
    }

    #[test]
    fn random_bytes_are_taken_apart_or_not_and_never_panic(bytes in proptest::collection::vec(0..8_u8, 0..200)) {
        check_write(&bytes);
        check_definition(&bytes);
        check_header(&bytes);
        let _ = Command::decode(&bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever a command is like, it gets exactly one outcome, which is the same after a restart, and the next write goes on.
    #[test]
    fn every_command_gets_exactly_one_outcome(
        commands in proptest::collection::vec((write(), definition(), 0..5_u8, mutation()), 1..12),
    ) {
        let mut bench = Bench::new();
        let mut outcomes = vec![Outcome::Defined];
        for (write, definition, shape, mutation) in &commands {
            let mut command = match shape {
                0 => define_command(definition),
                _ => write_command(9, write),
            };
            if *shape < 3 {
                mutation.apply(&mut command);
            }
            outcomes.push(bench.apply(command));
            prop_assert_eq!(bench.partition().applied(), PartitionOffset::new(outcomes.len() as u64));
        }
        outcomes.push(Outcome::Committed(bench.commit(&event(77))));
        for _ in 0..2 {
            let view = bench.partition().view().unwrap();
            let stored = view.outcomes(PartitionOffset::FIRST, 100, Direction::Forward).unwrap();
            let stored: Vec<_> = stored.iter().map(|stored| view.outcome(stored).unwrap()).collect();
            prop_assert_eq!(&stored, &outcomes);
            // A view keeps the log open.
            drop(view);
            bench.restart();
        }
    }
}

#[test]
fn a_command_says_whether_it_is_a_write_or_a_definition() {
    let write = event(1);
    assert_eq!(
        Command::decode(&write_command(3, &write)),
        Ok(Command::Write(idempotency_key(3), &write_bytes(&write)))
    );
    let definition = harness::definition();
    assert_eq!(
        Command::decode(&define_command(&definition)),
        Ok(Command::Define(&definition_bytes(&definition)))
    );
}
