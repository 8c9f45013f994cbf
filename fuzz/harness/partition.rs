//! What a partition is asked to do with arbitrary bytes, and what must hold whatever they are.
//!
//! Plain functions, one per fuzz target, so that the fuzzer and the bounded test of `crates/partition` run the same code.

#![allow(dead_code, reason = "each fuzz target uses one of the functions")]

use std::sync::Arc;

use gapless_log::io::Io;
use gapless_log::io::memory::MemoryIo;
use gapless_partition::{
    Command, Definition, Direction, Header, Options, Outcome, Partition, Record, Refusal, Scratch, Write,
    verify,
};
use gapless_types::{LogIndex, MachineVersion, NamespaceId, PartitionId, PartitionIndex, PartitionOffset};

const DIR: &str = "partition";
const ID: PartitionId = PartitionId { namespace: NamespaceId::new(7), index: PartitionIndex::new(0) };
/// More records than this are not applied.
const MOST_RECORDS: usize = 64;

/// A command: what can be taken apart has one encoding.
pub fn command(data: &[u8]) {
    let body = match Command::decode(data) {
        Ok(Command::Write(_, bytes) | Command::Define(bytes)) => bytes,
        Err(_) => data,
    };
    for bytes in [data, body] {
        if let Ok(write) = Write::decode(bytes) {
            let mut again = Vec::new();
            write.encode(&mut again);
            assert_eq!(again, bytes, "{write:?}");
        }
        if let Ok(definition) = Definition::decode(bytes) {
            let mut again = Vec::new();
            definition.encode(&mut again);
            assert_eq!(again, bytes, "{definition:?}");
        }
    }
}

/// A record of the partition log, as it is and with the checksum made right.
pub fn outcome(data: &[u8]) {
    check_outcome(data);
    let mut bytes = data.to_vec();
    if let Some(length) = bytes.get(8..12) {
        let length = u32::from_le_bytes(length.try_into().expect("four bytes")) as usize;
        if let Some(header) = bytes.get(..length).filter(|header| header.len() >= 12) {
            let sum = crc32c::crc32c_append(crc32c::crc32c(&header[..4]), &header[8..]);
            bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        }
    }
    check_outcome(&bytes);
}

fn check_outcome(bytes: &[u8]) {
    if let Ok((header, body)) = Header::decode(bytes) {
        let mut again = Vec::new();
        header.encode(body, &mut again);
        // An all-zero key is none, and a zero number is none; everything else is written as it was read.
        assert_eq!(again, bytes, "{header:?}");
        let _any = Refusal::decode(body);
    }
}

/// A replicated log of arbitrary commands. Each gets exactly one outcome, the same after a restart and after a rebuild; and
/// whoever computes everything anew finds nothing that differs.
pub fn commands(data: &[u8]) {
    let io: Arc<dyn Io> = Arc::new(MemoryIo::new());
    let options = options();
    let open = || Partition::open(&io, DIR, ID, &options).expect("a disk in memory does not fail").0;
    let mut partition = open();
    let mut outcomes = Vec::new();
    let mut time = 1000;
    let mut data = data;
    while let Some((&[kind, length], rest)) = data.split_first_chunk()
        && outcomes.len() < MOST_RECORDS
    {
        let (bytes, rest) = rest.split_at(rest.len().min(usize::from(length) + 256 * usize::from(kind >> 4)));
        data = rest;
        match kind & 0x0f {
            0 => {
                partition.flush().expect("a disk in memory does not fail");
                drop(partition);
                partition = open();
            }
            1 => partition.checkpoint().expect("a disk in memory does not fail"),
            2 => time += u64::from(length) << 12,
            _ => {
                let at = outcomes.len() as u64;
                let offset = PartitionOffset::new(at + 1).expect("offsets start at 1");
                let (log_index, machine_version) = (LogIndex::new(10 + at), MachineVersion::NEWEST);
                let record = Record { offset, log_index, time, machine_version, command: bytes };
                let outcome = partition.apply(&record).expect("every command gets an outcome");
                time += 1;
                outcomes.push(outcome);
            }
        }
    }
    check_history(&mut partition, &outcomes);
    let digest = partition.state_digest().expect("it can be read");
    partition.flush().expect("a disk in memory does not fail");
    drop(partition);
    let scratch = Scratch { io: Arc::new(MemoryIo::new()), dir: "scratch".into() };
    let verified = verify(&io, DIR, &scratch, &mut |_| {}).expect("it can be verified");
    assert!(verified.is_sound() && verified.outcomes == outcomes.len() as u64, "{verified:?}");
    Partition::rebuild(&io, DIR).expect("a disk in memory does not fail");
    let mut partition = open();
    check_history(&mut partition, &outcomes);
    assert_eq!(partition.state_digest().expect("it can be read"), digest);
}

fn check_history(partition: &mut Partition, outcomes: &[Outcome]) {
    let view = partition.view().expect("it runs");
    let stored =
        view.outcomes(PartitionOffset::FIRST, usize::MAX, Direction::Forward).expect("it can be read");
    assert_eq!(stored.len(), outcomes.len());
    for (stored, outcome) in stored.iter().zip(outcomes) {
        assert_eq!(view.outcome(stored).expect("it says what became of it"), *outcome);
    }
}

fn options() -> Options {
    let mut options = Options::new();
    options.log.first_segment_bytes = 64 << 10;
    options.log.segment_bytes = 64 << 10;
    options.log.log_id = Some(gapless_log::LogId::from_bytes(*b"fuzzed partition"));
    options
}
