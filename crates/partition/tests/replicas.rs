//! NUM-3: replicas that got the same records are equal, at every offset, whatever happened to each of them: crashes, clean
//! restarts, checkpoints at other times, small caches, stores that were lost or damaged.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "the first thing that does not hold ends the test"
)]

mod harness;

use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;
use gapless_log::io::Io;
use gapless_log::io::memory::MemoryIo;
use gapless_partition::{Checkpointing, Options, Outcome, Partition};
use gapless_sequencer::CacheBudget;
use gapless_store::Budget;
use harness::commands::{commands, with_retries};
use harness::{DIR, ID, options, record};

const COMMANDS: usize = 220;

/// Outcome and state digest after every command.
fn reference(commands: &[Vec<u8>]) -> Vec<(Outcome, [u8; 32])> {
    let io: Arc<dyn Io> = Arc::new(MemoryIo::new());
    let (mut partition, _) = Partition::open(&io, DIR, ID, &options()).unwrap();
    let one = |(at, command): (usize, &Vec<u8>)| {
        let outcome = partition.apply(&record(at as u64, 1000 + at as u64, command)).unwrap();
        (outcome, partition.state_digest().unwrap())
    };
    commands.iter().enumerate().map(one).collect()
}

fn open(io: &MemoryIo, options: &Options) -> Partition {
    let io: Arc<dyn Io> = Arc::new(io.clone());
    Partition::open(&io, DIR, ID, options).unwrap().0
}

fn store_files(io: &MemoryIo) -> Vec<std::path::PathBuf> {
    let dir = Path::new(DIR).join("store");
    let mut names = io.list(&dir).unwrap_or_default();
    names.sort();
    names.into_iter().map(|name| dir.join(name)).collect()
}

/// Lives with accidents; equal to the reference wherever it is asked.
fn live(seed: u64, commands: &[Vec<u8>], reference: &[(Outcome, [u8; 32])]) {
    let mut rng = Rng::with_seed(seed);
    let mut options = options();
    options.numbers = Arc::new(CacheBudget::new(rng.usize(1..8)));
    options.store.memtable_bytes = rng.u64(4 << 10..64 << 10);
    let io = MemoryIo::new();
    let mut partition = open(&io, &options);
    let (mut accidents, mut begun) = ([0; 6], None);
    while partition.next_offset().get() <= commands.len() as u64 {
        let at = usize::try_from(partition.next_offset().get()).unwrap() - 1;
        let outcome = partition.apply(&record(at as u64, 1000 + at as u64, &commands[at])).unwrap();
        assert_eq!(outcome, reference[at].0, "seed {seed}, command {at}");
        let accident = rng.usize(..24);
        match accident {
            0 => drop(partition.flush()),
            1 => {
                // Killed: what was written stays, what was queued is gone.
                partition.flush().unwrap();
                drop(partition);
                partition = open(&io, &options);
            }
            2 => {
                partition.close().unwrap();
                partition = open(&io, &options);
            }
            3 => partition.checkpoint().unwrap(),
            4 => {
                drop(partition);
                io.power_cut();
                partition = open(&io, &options);
            }
            5 => {
                drop(partition);
                for path in store_files(&io) {
                    io.remove(&path).unwrap();
                }
                partition = open(&io, &options);
            }
            6..8 => drop(partition.maintain().unwrap()),
            12..15 => begun = partition.begin_checkpoint().unwrap().or(begun),
            15..17 => begun.iter().for_each(Checkpointing::write_out),
            17..19 => drop(partition.end_checkpoint().unwrap()),
            8..12 => {
                assert_eq!(partition.state_digest().unwrap(), reference[at].1, "seed {seed}, command {at}");
            }
            _ => {}
        }
        if let Some(count) = accidents.get_mut(accident) {
            *count += 1;
        }
    }
    assert_eq!(partition.state_digest().unwrap(), reference.last().unwrap().1, "seed {seed}");
    println!("seed {seed}: flushes, kills, closes, checkpoints, power cuts, lost stores {accidents:?}");
}

#[test]
fn replicas_are_equal_at_every_offset_whatever_happened_to_each() {
    let commands = commands(COMMANDS);
    let reference = reference(&commands);
    for seed in 0..60 {
        live(seed, &commands, &reference);
    }
}

/// Buckets of keys are dropped by checkpoints and merges that each replica makes when it likes; what counts is the same.
#[test]
fn replicas_agree_on_retries_whenever_each_of_them_dropped_its_buckets() {
    let commands = with_retries(COMMANDS / 2);
    let reference = reference(&commands);
    let count =
        |wanted: fn(&Outcome) -> bool| reference.iter().filter(|(outcome, _)| wanted(outcome)).count();
    let duplicates = count(|outcome| matches!(outcome, Outcome::Duplicate { .. }));
    let events = count(|outcome| matches!(outcome, Outcome::Committed(_)));
    assert!(duplicates > 50 && events > COMMANDS / 3, "{duplicates} duplicates, {events} events");
    for seed in 100..140 {
        live(seed, &commands, &reference);
    }
}

#[test]
fn a_damaged_store_is_rebuilt_and_equal() {
    let commands = commands(COMMANDS);
    let options = options();
    let io = MemoryIo::new();
    let mut partition = open(&io, &options);
    for (at, command) in commands.iter().enumerate() {
        partition.apply(&record(at as u64, 1000 + at as u64, command)).unwrap();
        if at == COMMANDS / 2 {
            partition.checkpoint().unwrap();
        }
    }
    let digest = partition.state_digest().unwrap();
    partition.checkpoint().unwrap();
    partition.close().unwrap();
    let mut rebuilt = 0;
    for path in store_files(&io) {
        let bytes = io.bytes_of(&path).unwrap();
        for part in 0..24 {
            let disk = io.fork();
            let place = bytes.len() * part / 24;
            let Some(byte) = bytes.get(place) else { continue };
            disk.overwrite(&path, place as u64, &[byte ^ 0x10]).unwrap();
            let shared: Arc<dyn Io> = Arc::new(disk.clone());
            let (mut partition, opened) = Partition::open(&shared, DIR, ID, &options).unwrap();
            let found = partition.state_digest();
            let (found, rebuilt_now) = match found {
                Ok(found) => (found, opened.rebuilt.is_some()),
                Err(error) => {
                    // Found while reading: it stops, says so, and is rebuilt when it is opened again.
                    let fault = partition.fault().unwrap();
                    assert!(fault.is_store_damage(), "{error}");
                    drop(partition);
                    Partition::rebuild(&shared, DIR).unwrap();
                    let (mut partition, _) = Partition::open(&shared, DIR, ID, &options).unwrap();
                    (partition.state_digest().unwrap(), true)
                }
            };
            assert_eq!(found, digest, "{} at {place}", path.display());
            rebuilt += u32::from(rebuilt_now);
        }
    }
    println!("{rebuilt} times the store was rebuilt");
    assert!(rebuilt > 10);
}

#[test]
fn a_partition_that_stopped_is_opened_again_although_somebody_still_reads() {
    let commands = commands(COMMANDS);
    let options = options();
    let io = MemoryIo::new();
    let mut partition = open(&io, &options);
    for (at, command) in commands.iter().enumerate().take(100) {
        partition.apply(&record(at as u64, 1000 + at as u64, command)).unwrap();
    }
    partition.checkpoint().unwrap();
    let digest = partition.state_digest().unwrap();
    drop(partition);
    // Rot that shows only when rows are read: it stops the partition.
    let mut stopped = 0;
    for path in store_files(&io) {
        let bytes = io.bytes_of(&path).unwrap();
        for place in (0..bytes.len()).step_by(101) {
            let disk = io.fork();
            disk.overwrite(&path, place as u64, &[bytes[place] ^ 1]).unwrap();
            let shared: Arc<dyn Io> = Arc::new(disk.clone());
            let mut partition = open(&disk, &options);
            let view = partition.view().unwrap();
            if partition.state_digest().is_ok() {
                continue;
            }
            stopped += 1;
            let (mut partition, opened) = partition.reopen(&shared, DIR, &options).unwrap();
            assert_eq!(opened.folded, 100, "the store was rebuilt");
            assert_eq!(partition.state_digest().unwrap(), digest);
            let from = gapless_types::PartitionOffset::FIRST;
            let read = view.outcomes(from, 1000, gapless_store::Direction::Forward).unwrap();
            assert_eq!(read.len(), 100);
        }
    }
    assert!(stopped > 10, "{stopped} partitions stopped");
}

#[test]
fn a_full_memory_makes_checkpoints_and_loses_nothing() {
    let commands = commands(COMMANDS);
    let reference = reference(&commands);
    let mut options = options();
    options.budget = Budget::new(16 << 10, 1 << 20);
    options.store.memtable_bytes = 1 << 30;
    let io = MemoryIo::new();
    let mut partition = open(&io, &options);
    for (at, command) in commands.iter().enumerate() {
        let outcome = partition.apply(&record(at as u64, 1000 + at as u64, command)).unwrap();
        assert_eq!(outcome, reference[at].0, "command {at}");
    }
    assert!(partition.checkpointed().is_some(), "memory was full");
    assert_eq!(partition.state_digest().unwrap(), reference.last().unwrap().1);
}
