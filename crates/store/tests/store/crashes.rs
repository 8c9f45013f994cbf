//! The power goes, or an operation fails, at every operation that a scenario asks of the disk.

use std::sync::Arc;

use gapless_log::io::Io;
use gapless_log::io::faulty::{Crash, Fault, FaultyIo};
use gapless_store::{Offset, OpenError, Store};

use crate::model::{DIR, Model, open_on};
use crate::scenario::{Played, Step, operations_of, play_until_error, scenarios};

const SEEDS: u64 = 3;

/// Goes on with the whole scenario after trouble; in the end the store is right and durable.
fn live_on(io: &FaultyIo, mut played: Played, steps: &[Step], context: &str) {
    let (mut store, opened) = open_on(io).unwrap_or_else(|error| panic!("{context}: {error}"));
    played.resume(&store, opened.offset, context);
    for step in steps {
        played.step(&mut store, step).unwrap_or_else(|error| panic!("{context}: {error}"));
    }
    played.model.check(&store).unwrap();
    drop(store);
    io.restart(Crash::LoseAll);
    let (store, opened) = open_on(io).unwrap_or_else(|error| panic!("{context}, at the end: {error}"));
    played.resume(&store, opened.offset, context);
}

#[test]
fn power_cut_at_every_operation_leaves_one_of_two_checkpoints() {
    for (name, steps) in scenarios() {
        let operations = operations_of(&steps);
        assert!(operations > 20, "{name} is worth cutting");
        for number in 1..=operations {
            for style in Crash::ALL {
                for seed in 0..SEEDS {
                    let context = format!("{name}, cut at {number}, {style:?}, seed {seed}");
                    let io = FaultyIo::new(seed);
                    let (mut store, _) = open_on(&io).unwrap();
                    io.cut_at(number);
                    let (played, error) = play_until_error(&mut store, &steps);
                    // What is removed behind a published checkpoint may fail without an error.
                    assert!(error.is_some() || !io.has_power(), "{context}: nothing happened");
                    drop(store);
                    io.restart(style);
                    live_on(&io, played, &steps, &context);
                }
            }
        }
    }
}

#[test]
fn power_cut_at_every_operation_of_an_opening_leaves_the_same_checkpoint() {
    let (name, steps) = scenarios().remove(2);
    let operations = operations_of(&steps);
    for first_cut in (1..=operations).step_by(3) {
        let io = FaultyIo::new(first_cut);
        let (mut store, _) = open_on(&io).unwrap();
        io.cut_at(first_cut);
        let (played, _) = play_until_error(&mut store, &steps);
        drop(store);
        io.restart(Crash::KeepAll);
        for second_cut in 1..20 {
            let context = format!("{name}, cut at {first_cut}, then at {second_cut} of the opening");
            let fork = io.fork(second_cut);
            fork.cut_at(second_cut);
            let opened = open_on(&fork);
            if fork.has_power() {
                fork.cancel_faults();
                break;
            }
            drop(opened);
            fork.restart(Crash::Torn);
            live_on(&fork, played.clone(), &steps, &context);
        }
    }
}

#[test]
fn power_cut_at_every_operation_of_a_discard_leaves_everything_or_nothing() {
    let (_, steps) = scenarios().remove(2);
    let io = FaultyIo::new(1);
    let (mut store, _) = open_on(&io).unwrap();
    let (played, _) = play_until_error(&mut store, &steps);
    drop(store);
    let (mut everything, mut nothing) = (0, 0);
    for number in 1..40 {
        for style in Crash::ALL {
            let fork = io.fork(number);
            fork.cut_at(number);
            if Store::discard(Arc::new(fork.clone()), DIR).is_ok() {
                continue;
            }
            fork.restart(style);
            let (store, opened) = open_on(&fork).unwrap();
            if opened.offset == Offset::ZERO {
                Model::default().check(&store).unwrap();
                nothing += 1;
            } else {
                played.model.check(&store).unwrap();
                everything += 1;
            }
        }
    }
    assert!(everything > 0 && nothing > 0, "{everything} {nothing}");
}

#[test]
fn any_operation_that_fails_loses_nothing_and_works_the_next_time() {
    for (name, steps) in scenarios() {
        let operations = operations_of(&steps);
        for number in 1..=operations {
            for seed in 0..SEEDS {
                let context = format!("{name}, failure at {number}, seed {seed}");
                let io = FaultyIo::new(seed);
                let (mut store, _) = open_on(&io).unwrap();
                io.fail_at(number, Fault::Any);
                let mut played = Played::new();
                for step in &steps {
                    if played.step(&mut store, step).is_err() {
                        played.model.check(&store).unwrap();
                        played.step(&mut store, step).unwrap_or_else(|error| panic!("{context}: {error}"));
                    }
                }
                played.model.check(&store).unwrap();
                assert_eq!(io.injected().len(), 1, "{context}");
                drop(store);
                io.restart(Crash::LoseAll);
                live_on(&io, played, &steps, &context);
            }
        }
    }
}

#[test]
fn a_failure_followed_by_a_crash_or_a_restart_of_the_process_leaves_an_allowed_checkpoint() {
    for (name, steps) in scenarios() {
        let operations = operations_of(&steps);
        for number in 1..=operations {
            for style in [None, Some(Crash::LoseAll), Some(Crash::Torn)] {
                let context = format!("{name}, failure at {number}, then {style:?}");
                let io = FaultyIo::new(number);
                let (mut store, _) = open_on(&io).unwrap();
                io.fail_at(number, Fault::Any);
                let (played, _) = play_until_error(&mut store, &steps);
                drop(store);
                if let Some(style) = style {
                    io.restart(style);
                }
                live_on(&io, played, &steps, &context);
            }
        }
    }
}

#[test]
fn an_opening_after_a_failure_removes_nothing_that_a_crash_may_need() {
    for (name, steps) in scenarios() {
        let operations = operations_of(&steps);
        for number in 1..=operations {
            for seed in 0..SEEDS * 3 {
                let context = format!("{name}, failure at {number}, opened, then a crash, seed {seed}");
                let io = FaultyIo::new(seed);
                let (mut store, _) = open_on(&io).unwrap();
                io.fail_at(number, Fault::Any);
                let (mut played, _) = play_until_error(&mut store, &steps);
                drop(store);
                drop(open_on(&io).unwrap_or_else(|error| panic!("{context}: {error}")));
                io.restart(Crash::Torn);
                let (store, opened) = open_on(&io).unwrap_or_else(|error| panic!("{context}: {error}"));
                played.resume(&store, opened.offset, &context);
            }
        }
    }
}

#[test]
fn files_that_a_full_disk_kept_from_being_removed_are_never_taken_for_new_ones() {
    // The one whose checkpoints write several runs each.
    let (name, steps) = scenarios().remove(1);
    for number in 1..=operations_of(&steps) {
        let context = format!("{name}, cut at {number}, then a full disk");
        let io = FaultyIo::new(number);
        let (mut store, _) = open_on(&io).unwrap();
        io.cut_at(number);
        let (mut played, _) = play_until_error(&mut store, &steps);
        drop(store);
        io.restart(Crash::KeepAll);
        io.set_capacity(Some(0));
        let (mut store, opened) = open_on(&io).unwrap_or_else(|error| panic!("{context}: {error}"));
        io.set_capacity(None);
        played.resume(&store, opened.offset, &context);
        for step in &steps {
            played.step(&mut store, step).unwrap_or_else(|error| panic!("{context}: {error}"));
        }
        let names = io.list(DIR.as_ref()).unwrap();
        assert_eq!(names.len() as u64, store.statistics().runs + 1, "{context}: {names:?}");
        drop(store);
        io.restart(Crash::LoseAll);
        live_on(&io, played, &steps, &context);
    }
}

#[test]
fn a_disk_that_lies_is_found_out_or_does_no_harm() {
    let mut found_out = 0;
    for (name, steps) in scenarios() {
        let operations = operations_of(&steps);
        for number in 1..=operations {
            for misdirect in [false, true] {
                let context = format!("{name}, lie at {number}, misdirected: {misdirect}");
                let io = FaultyIo::new(number);
                let (mut store, _) = open_on(&io).unwrap();
                match misdirect {
                    false => io.lose_write_at(number),
                    true => io.misdirect_write_at(number),
                }
                // A merge may notice and refuse.
                let (mut played, _) = play_until_error(&mut store, &steps);
                drop(store);
                io.restart(Crash::LoseAll);
                match open_on(&io) {
                    Err(OpenError::Damaged(damage)) => {
                        assert!(damage.path.starts_with(DIR), "{damage}");
                        found_out += 1;
                    }
                    Err(error) => panic!("{context}: {error}"),
                    Ok((store, opened)) => {
                        let right = played.allowed.iter().rev().find(|(offset, _)| *offset == opened.offset);
                        let (_, model) = right.unwrap_or_else(|| panic!("{context}: at {}", opened.offset));
                        // Wrong rows are a panic of the model, damage is an error.
                        match model.check(&store) {
                            Ok(()) => played.resume(&store, opened.offset, &context),
                            Err(_) => found_out += 1,
                        }
                    }
                }
            }
        }
    }
    assert!(found_out > 20, "lies do harm: {found_out}");
}

#[test]
fn short_and_interrupted_reads_and_writes_change_nothing() {
    for (name, steps) in scenarios() {
        let io = FaultyIo::new(5);
        io.short_writes(50);
        io.short_reads(50);
        io.interrupts(30);
        let (mut store, _) = open_on(&io).unwrap();
        let (played, error) = play_until_error(&mut store, &steps);
        assert_eq!(error, None, "{name}");
        played.model.check(&store).unwrap();
        drop(store);
        io.restart(Crash::LoseAll);
        live_on(&io, played, &steps, name);
    }
}

#[test]
fn the_same_steps_ask_the_same_of_the_disk() {
    for (_, steps) in scenarios() {
        let traces = [1, 2].map(|seed| {
            let io = FaultyIo::new(seed);
            let (mut store, _) = open_on(&io).unwrap();
            play_until_error(&mut store, &steps);
            io.trace()
        });
        assert_eq!(traces[0], traces[1]);
    }
}
