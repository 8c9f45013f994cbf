//! The crash loop: for every n, the power goes at the n-th operation of the disk, or the n-th operation fails. Whatever n is,
//! the partition opens again, has every outcome that was synced, takes the rest from the replicated log, and ends up with the
//! same outcomes and the same state as if nothing had happened: none lost, none twice.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "the first thing that does not hold ends the test"
)]

mod harness;

use std::sync::Arc;

use gapless_log::io::Io;
use gapless_log::io::faulty::{Crash, Fault, FaultyIo};
use gapless_partition::{ApplyError, CheckpointFailed, Checkpointing, Options, Outcome, Partition};
use harness::commands::{commands, with_retries};
use harness::{DIR, ID, options, record};

/// What is done besides applying.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Applies so many of the commands that come next.
    Apply(usize),
    Sync,
    Checkpoint,
    /// The three steps of a checkpoint beside which outcomes are applied.
    Begin,
    WriteOut,
    End,
    Maintain,
    Reopen,
}

use Step::{Apply, Begin, Checkpoint, End, Maintain, Reopen, Sync, WriteOut};

/// What should happen, and what the state is at the end.
struct Expected {
    commands: Vec<Vec<u8>>,
    outcomes: Vec<Outcome>,
    digest: [u8; 32],
}

/// Plays steps until one fails; gives the last offset that is known to be synced.
struct Played {
    synced: u64,
    complete: bool,
}

fn time(at: usize) -> u64 {
    1000 + at as u64
}

fn is_fault(error: &ApplyError) -> bool {
    matches!(error, ApplyError::Stopped(_))
}

fn play(io: &Arc<dyn Io>, options: &Options, steps: &[Step], expected: &Expected) -> Played {
    let mut played = Played { synced: 0, complete: false };
    let Ok((mut partition, _)) = Partition::open(io, DIR, ID, options) else { return played };
    let (mut target, mut begun) = (0, None);
    for step in steps {
        if let Apply(count) = step {
            target = (target + count).min(expected.commands.len());
        }
        if let Reopen = step {
            drop(partition);
            let Ok((opened, _)) = Partition::open(io, DIR, ID, options) else { return played };
            partition = opened;
        }
        // What is not applied yet, a reopened partition applies again.
        let next = usize::try_from(partition.next_offset().get()).unwrap() - 1;
        for at in next..target {
            match partition.apply(&record(at as u64, time(at), &expected.commands[at])) {
                Ok(outcome) => assert_eq!(outcome, expected.outcomes[at], "command {at}"),
                Err(error) => {
                    assert!(is_fault(&error), "{error}");
                    return played;
                }
            }
        }
        let done = match step {
            Sync => partition.sync().is_ok(),
            Checkpoint => match partition.checkpoint() {
                Ok(()) => true,
                Err(CheckpointFailed::Stopped(_)) => return played,
                Err(_) => false,
            },
            Begin => match partition.begin_checkpoint() {
                Ok(checkpointing) => {
                    begun = checkpointing;
                    true
                }
                Err(CheckpointFailed::Stopped(_)) => return played,
                Err(_) => false,
            },
            WriteOut => {
                begun.iter().for_each(Checkpointing::write_out);
                true
            }
            End => match partition.end_checkpoint() {
                Ok(_) => true,
                Err(CheckpointFailed::Stopped(_)) => return played,
                Err(_) => false,
            },
            Maintain => partition.maintain().is_ok(),
            Apply(_) | Reopen => true,
        };
        if !done && partition.fault().is_some() {
            return played;
        }
        played.synced = played.synced.max(partition.synced().map_or(0, |offset| offset.get()));
    }
    played.complete = true;
    played
}

/// Opens again on a disk that works, and compares with what should have happened.
fn check(io: &Arc<dyn Io>, options: &Options, expected: &Expected, played: &Played, what: &str) {
    let (mut partition, opened) =
        Partition::open(io, DIR, ID, options).unwrap_or_else(|error| panic!("{what}: {error:?}"));
    let found = partition.next_offset().get() - 1;
    assert!(found >= played.synced, "{what}: {found} outcomes, {} were synced; {opened:?}", played.synced);
    for (at, command) in expected.commands.iter().enumerate() {
        let outcome = partition.apply(&record(at as u64, time(at), command));
        let outcome = outcome.unwrap_or_else(|error| panic!("{what}: command {at}: {error}"));
        assert_eq!(outcome, expected.outcomes[at], "{what}: command {at}");
    }
    assert_eq!(partition.next_offset().get() - 1, expected.commands.len() as u64, "{what}");
    assert_eq!(partition.state_digest().unwrap(), expected.digest, "{what}");
}

fn reference(options: &Options, commands: Vec<Vec<u8>>) -> Expected {
    let io: Arc<dyn Io> = Arc::new(FaultyIo::new(1));
    let (mut partition, _) = Partition::open(&io, DIR, ID, options).unwrap();
    let outcomes: Vec<Outcome> = commands
        .iter()
        .enumerate()
        .map(|(at, command)| partition.apply(&record(at as u64, time(at), command)).unwrap())
        .collect();
    let refused = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Refused(_))).count();
    assert!(refused > 0 && refused < outcomes.len() / 2, "{refused} of {} are refused", outcomes.len());
    let digest = partition.state_digest().unwrap();
    Expected { commands, outcomes, digest }
}

fn crash_loop(name: &str, options: &Options, commands: Vec<Vec<u8>>, steps: &[Step]) {
    let expected = reference(options, commands);
    let clean = FaultyIo::new(1);
    let io: Arc<dyn Io> = Arc::new(clean.clone());
    let played = play(&io, options, steps, &expected);
    assert!(played.complete, "{name} is complete on a disk that works");
    check(&io, options, &expected, &played, name);
    let operations = clean.operations();
    let mut runs = 0;
    for number in 1..=operations {
        for crash in Crash::ALL {
            let disk = FaultyIo::new(number);
            disk.cut_at(number);
            let io: Arc<dyn Io> = Arc::new(disk.clone());
            let played = play(&io, options, steps, &expected);
            disk.restart(crash);
            disk.cancel_faults();
            check(&io, options, &expected, &played, &format!("{name}: power cut at {number}, {crash:?}"));
            runs += 1;
        }
        let disk = FaultyIo::new(number);
        disk.fail_at(number, Fault::Any);
        let io: Arc<dyn Io> = Arc::new(disk.clone());
        let played = play(&io, options, steps, &expected);
        disk.cancel_faults();
        check(&io, options, &expected, &played, &format!("{name}: failure at {number}"));
        runs += 1;
    }
    println!("{name}: {runs} runs over {operations} operations");
}

#[test]
fn outcomes_survive_while_events_are_applied_and_synced() {
    crash_loop(
        "apply and sync",
        &options(),
        commands(30),
        &[Apply(10), Sync, Apply(5), Apply(5), Sync, Apply(20)],
    );
}

#[test]
fn outcomes_survive_checkpoints() {
    let steps =
        [Apply(8), Checkpoint, Apply(8), Sync, Checkpoint, Apply(4), Maintain, Checkpoint, Apply(20), Sync];
    crash_loop("checkpoints", &options(), commands(32), &steps);
}

#[test]
fn outcomes_survive_checkpoints_beside_which_others_are_applied() {
    let mut options = options();
    options.log.segment_bytes = 64 << 10;
    let beside = [Begin, Apply(12), WriteOut, Apply(12), End];
    let given_up = [Begin, Apply(5), WriteOut, Reopen, Begin, Apply(5), Reopen, Begin, Apply(5), End];
    let steps: Vec<Step> = [Apply(20)]
        .into_iter()
        .chain(beside)
        .chain([Begin, Apply(4), Checkpoint, End])
        .chain(beside)
        .chain(given_up)
        .chain(beside)
        .chain([Sync])
        .collect();
    crash_loop("checkpoints beside applies", &options, commands(130), &steps);
}

#[test]
fn outcomes_survive_reopening_again_and_again() {
    let steps =
        [Apply(6), Reopen, Apply(6), Sync, Reopen, Checkpoint, Apply(6), Reopen, Maintain, Apply(20), Sync];
    crash_loop("reopening", &options(), commands(30), &steps);
}

/// IDEM-1: every write comes twice, the second time within its window or behind it, from whoever leads by then. Whatever n is,
/// each retry gets the outcome that its write got when nothing happened.
#[test]
fn retries_get_the_first_outcome_whatever_was_cut() {
    let commands = with_retries(60);
    let steps = [
        Apply(20),
        Sync,
        Apply(20),
        Checkpoint,
        Apply(10),
        Reopen,
        Apply(20),
        Checkpoint,
        Maintain,
        Apply(60),
        Sync,
    ];
    crash_loop("retries", &options(), commands, &steps);
}

#[test]
fn outcomes_survive_rotation_and_merging() {
    let mut options = options();
    options.log.segment_bytes = 64 << 10;
    let steps: Vec<Step> = (0..8).flat_map(|_| [Apply(40), Checkpoint, Maintain]).chain([Sync]).collect();
    crash_loop("rotation and merging", &options, commands(320), &steps);
}
