//! ORD-1 over thousands of random schedules; and the classic mistakes, each of which the same schedules find.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed; seeds are printed"
)]

mod schedule;

use gapless_projection::Mistake;
use schedule::world::WORKSPACE;
use schedule::{Purpose, run};

const SCHEDULES: u64 = 3000;
const SCHEDULES_OF_TEN_EVENTS: u64 = 500;

/// What the ten events make of the rows, and of the effect log, in whatever order they were worked on.
const TEN_EVENTS_STATE: &str = "7448112091be9abcb8f1a5e85423ac42d4827abedbc671a76219dcd7e9687808";
const TEN_EVENTS_EFFECTS: &str = "63f018834b0ba8cbfd2704fed79e06871baae22e2b686e0278543ff7c11cab0e";

#[test]
fn every_schedule_gives_the_serial_fold() {
    for seed in 0..SCHEDULES {
        if let Err(wrong) = run(seed, Purpose::Everything, None) {
            panic!("seed {seed}: {wrong}");
        }
    }
}

#[test]
fn the_ten_events_give_their_hashes_on_every_schedule() {
    for seed in 0..SCHEDULES_OF_TEN_EVENTS {
        let world =
            run(seed, Purpose::TenEvents, None).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        let view = world.domain().view();
        assert_eq!(view.state_hash(WORKSPACE).unwrap(), TEN_EVENTS_STATE, "seed {seed}");
        assert_eq!(view.effects_hash().unwrap(), TEN_EVENTS_EFFECTS, "seed {seed}");
    }
}

/// Among so many seeds there is one that finds a mistake, in these words.
fn is_found(mistake: Mistake, seeds: u64, words: &str) {
    let finds = |seed| {
        let wrong = run(seed, Purpose::Everything, Some(mistake)).err()?;
        wrong.contains(words).then_some((seed, wrong))
    };
    let Some((seed, wrong)) = (0..seeds).find_map(finds) else {
        panic!("{seeds} schedules did not find {mistake:?}");
    };
    println!("{mistake:?} is found by seed {seed}: {wrong}");
}

#[test]
fn numbers_in_the_order_of_leases_are_found() {
    is_found(Mistake::LeaseOrder, 20, "events behind slots");
    is_found(Mistake::LeaseOrder, 200, "the state and the serial fold");
}

#[test]
fn a_where_clause_that_is_read_too_early_is_found() {
    is_found(Mistake::ReadTooEarly, 50, "the state and the serial fold");
}

#[test]
fn commits_without_fencing_are_found() {
    is_found(Mistake::NoFencing, 20, "FENCE-1");
}

#[test]
fn a_lease_clock_that_runs_while_a_commit_waits_is_found() {
    is_found(Mistake::ClockWhileWaiting, 20, "was staged and is ready again");
}

#[test]
fn a_commit_in_two_writes_is_found() {
    // A restart shows it, before the state is looked at.
    is_found(Mistake::TwoWrites, 20, "NUM-3");
}
