//! Checkpoints that are written out beside the partition: what is applied meanwhile, who writes them, and what becomes of one that
//! nobody ends.

#![allow(clippy::unwrap_used, reason = "the first thing that does not hold ends the test")]

mod harness;

use std::sync::Arc;

use gapless_log::io::Io;
use gapless_log::io::faulty::{Crash, Fault, FaultyIo};
use gapless_log::io::memory::MemoryIo;
use gapless_partition::{ApplyError, CheckpointFailed, Options, Partition, Syncing};
use gapless_store::Budget;
use harness::commands::commands;
use harness::{DIR, ID, options, record};

const COMMANDS: usize = 120;

fn open(io: &(impl Io + Clone + 'static), options: &Options) -> Partition {
    let io: Arc<dyn Io> = Arc::new(io.clone());
    Partition::open(&io, DIR, ID, options).unwrap().0
}

/// Applies commands up to one, from where the partition is.
fn apply_to(partition: &mut Partition, commands: &[Vec<u8>], end: usize) {
    let next = usize::try_from(partition.next_offset().get()).unwrap() - 1;
    for (at, command) in commands.iter().enumerate().take(end).skip(next) {
        partition.apply(&record(at as u64, 1000 + at as u64, command)).unwrap();
    }
}

fn checkpointed(partition: &Partition) -> u64 {
    partition.checkpointed().map_or(0, |offset| offset.get())
}

#[test]
fn what_is_applied_while_a_checkpoint_is_written_is_not_in_it_and_not_lost() {
    let (io, commands) = (MemoryIo::new(), commands(COMMANDS));
    let mut partition = open(&io, &options());
    apply_to(&mut partition, &commands, 40);
    let checkpointing = partition.begin_checkpoint().unwrap().unwrap();
    assert!(partition.begin_checkpoint().unwrap().is_none(), "one at a time");
    apply_to(&mut partition, &commands, 80);
    let writing = std::thread::spawn(move || checkpointing.write_out());
    apply_to(&mut partition, &commands, COMMANDS);
    writing.join().unwrap();
    assert_eq!((checkpointed(&partition), partition.covered()), (0, None), "it is not published yet");
    assert!(partition.end_checkpoint().unwrap().is_some());
    assert!(partition.end_checkpoint().unwrap().is_none(), "once");
    assert_eq!(checkpointed(&partition), 40);
    assert_eq!(partition.covered().unwrap().0.get(), 40);
    let digest = partition.state_digest().unwrap();
    partition.sync().unwrap();
    drop(partition);
    io.power_cut();
    let mut partition = open(&io, &options());
    assert_eq!(partition.state_digest().unwrap(), digest, "folded from the checkpoint on");
}

#[test]
fn whoever_needs_it_writes_it_if_nobody_has_begun_to() {
    let (io, commands) = (MemoryIo::new(), commands(COMMANDS));
    let mut partition = open(&io, &options());
    apply_to(&mut partition, &commands, 40);
    let late = partition.begin_checkpoint().unwrap().unwrap();
    apply_to(&mut partition, &commands, 60);
    partition.checkpoint().unwrap();
    assert_eq!(checkpointed(&partition), 60, "the one on its way was ended first");
    late.write_out();
    assert!(partition.end_checkpoint().unwrap().is_none());
    assert_eq!(checkpointed(&partition), 60);
}

#[test]
fn a_full_memory_ends_the_checkpoint_that_is_on_its_way() {
    let commands = commands(COMMANDS);
    let mut small = options();
    small.budget = Budget::new(48 << 10, 1 << 20);
    small.store.memtable_bytes = 1 << 30;
    let io = MemoryIo::new();
    let (mut partition, mut begun) = (open(&io, &small), 0);
    for at in 0..COMMANDS {
        apply_to(&mut partition, &commands, at + 1);
        begun += usize::from(partition.begin_checkpoint().unwrap().is_some());
    }
    assert!(begun > 1, "{begun} begun: memory was full in between, and nobody else ended them");
    let digest = partition.state_digest().unwrap();
    let mut roomy = open(&MemoryIo::new(), &options());
    apply_to(&mut roomy, &commands, COMMANDS);
    assert_eq!(roomy.state_digest().unwrap(), digest);
}

#[test]
fn one_that_nobody_ends_leaves_the_partition_as_it_was() {
    let (io, commands) = (MemoryIo::new(), commands(COMMANDS));
    for written in [false, true] {
        let mut partition = open(&io, &options());
        apply_to(&mut partition, &commands, 40);
        let checkpointing = partition.begin_checkpoint().unwrap().unwrap();
        if written {
            checkpointing.write_out();
        }
        drop(partition);
        // Nobody has its files any more, and whoever comes too late writes nothing.
        checkpointing.write_out();
        let mut partition = open(&io, &options());
        apply_to(&mut partition, &commands, 50);
        assert_eq!(checkpointed(&partition), 0);
        checkpointing.write_out();
        partition.checkpoint().unwrap();
        assert_eq!(checkpointed(&partition), 50);
        partition.close().unwrap();
        Partition::rebuild(&(Arc::new(io.clone()) as Arc<dyn Io>), DIR).unwrap();
    }
}

#[test]
fn a_log_that_cannot_be_synced_beside_it_stops_the_partition() {
    let (disk, commands) = (FaultyIo::new(3), commands(COMMANDS));
    let mut partition = open(&disk, &options());
    apply_to(&mut partition, &commands, 40);
    let checkpointing = partition.begin_checkpoint().unwrap().unwrap();
    disk.fail_at(disk.operations() + 2, Fault::Any);
    checkpointing.write_out();
    assert!(matches!(partition.end_checkpoint(), Err(CheckpointFailed::Stopped(_))));
    let refused = partition.apply(&record(40, 2000, &commands[40]));
    assert!(matches!(refused, Err(ApplyError::Stopped(_))), "{refused:?}");
    disk.cancel_faults();
    drop(partition);
    disk.restart(Crash::LoseAll);
    let mut partition = open(&disk, &options());
    assert_eq!(checkpointed(&partition), 0, "LOG-2");
    apply_to(&mut partition, &commands, COMMANDS);
}

/// A log that is not synced all the time because its segments are full.
fn long_segments() -> Options {
    let mut options = options();
    (options.log.first_segment_bytes, options.log.segment_bytes) = (4 << 20, 4 << 20);
    options
}

/// Applies commands until the partition log has a sync due.
fn apply_until_due(partition: &mut Partition, commands: &[Vec<u8>]) -> Syncing {
    loop {
        let at = partition.next_offset().get() - 1;
        let command = &commands[usize::try_from(at).unwrap() % commands.len()];
        partition.apply(&record(at, 1000 + at, command)).unwrap();
        if let Some(syncing) = partition.begin_sync() {
            return syncing;
        }
        assert!(at < 1_000_000, "a log that is never due");
    }
}

#[test]
fn the_log_is_synced_beside_the_partition_a_little_at_a_time() {
    let (io, commands) = (MemoryIo::new(), commands(COMMANDS));
    let mut partition = open(&io, &long_segments());
    for _ in 0..3 {
        let syncing = apply_until_due(&mut partition, &commands);
        assert!(partition.begin_sync().is_none(), "one at a time");
        let before = partition.synced();
        assert!(before < partition.applied(), "nobody waited for it");
        std::thread::spawn(move || syncing.sync()).join().unwrap();
        assert!(partition.synced() > before);
        drop(apply_until_due(&mut partition, &commands));
        assert!(partition.begin_sync().is_some(), "one that was dropped is due again");
    }
}

#[test]
fn a_partition_that_is_gone_is_not_synced_and_a_failed_sync_stops_one_that_is_there() {
    let (disk, commands) = (FaultyIo::new(5), commands(COMMANDS));
    for closed in [false, true] {
        let mut partition = open(&disk, &long_segments());
        let late = apply_until_due(&mut partition, &commands);
        if closed {
            partition.close().unwrap();
        } else {
            drop(partition);
        }
        let operations = disk.operations();
        late.sync();
        assert_eq!(disk.operations(), operations, "its files are not touched any more");
    }
    let mut partition = open(&disk, &long_segments());
    let syncing = apply_until_due(&mut partition, &commands);
    disk.fail_at(disk.operations() + 1, Fault::Any);
    syncing.sync();
    disk.cancel_faults();
    let stopped = (0..1000).any(|_| {
        let at = partition.next_offset().get() - 1;
        partition.apply(&record(at, 1000 + at, &commands[0])).is_err()
    });
    assert!(stopped && partition.fault().is_some(), "nothing is written behind what may be lost");
}
