//! The crash loop: for every n, the power goes at the n-th operation, or the n-th operation fails. Whatever n is, the log
//! opens again and holds every acknowledged operation, and of the others a prefix.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "the first thing that does not hold ends the test"
)]

mod torture;

use std::sync::Arc;

use bytes::Bytes;
use gapless_log::io::faulty::{Crash, Fault, FaultyIo};
use gapless_log::{AppendError, Drive, Finding, Layout, Log, LogId, Options, StateKey, SyncPolicy, Ticket};
use gapless_types::Position;
use torture::model::{Model, Op};

/// A step of a scenario.
enum Step {
    Do(Op),
    Sync,
    Flush,
    Maintain,
    Certify,
    Close,
}

use Step::{Certify, Close, Do, Flush, Maintain, Sync};

fn append(first: u64, count: u64, bytes: usize) -> Step {
    let payload = |position: u64| Bytes::from([position.to_string().as_bytes(), &vec![b'.'; bytes]].concat());
    Do(Op::Append { first, payloads: (first..first + count).map(payload).collect() })
}

fn set_state(key: u16, value: &str) -> Step {
    Do(Op::SetState { key, value: value.as_bytes().to_vec() })
}

fn options(layout: Layout, sync: SyncPolicy) -> Options {
    Options {
        layout,
        sync,
        drive: Drive::Caller,
        first_segment_bytes: 64 << 10,
        segment_bytes: 64 << 10,
        hot_bytes: 0,
        log_id: Some(LogId::from_bytes([5; 16])),
        ..Options::replicated()
    }
}

fn committed() -> Options {
    options(Layout::Aligned, SyncPolicy::EveryFrame)
}

/// What is known after a scenario ended, at its end or before.
struct Ended {
    acknowledged: Model,
    pending: Vec<Op>,
    /// Every step was done.
    complete: bool,
}

/// Does the steps on a disk until one fails.
fn play(io: &FaultyIo, options: &Options, steps: &[Step]) -> Ended {
    let mut acknowledged = Model::starting_at(1);
    let Ok((log, _)) = Log::open(Arc::new(io.clone()), "log", options.clone()) else {
        return Ended { acknowledged, pending: Vec::new(), complete: false };
    };
    let mut pending: Vec<(Op, Ticket)> = Vec::new();
    let mut complete = true;
    for step in steps {
        let outcome = match step {
            Do(op) => start(&log, op).map(|ticket| pending.push((op.clone(), ticket))),
            Sync => log.sync(),
            Flush => log.flush(),
            Maintain => log.maintain(),
            Certify => log.certify(),
            Close => log.clone().close(),
        };
        if outcome.is_err() {
            complete = false;
            break;
        }
    }
    let settled = pending.iter().take_while(|(_, ticket)| matches!(ticket.settled(), Some(Ok(())))).count();
    for (op, _) in pending.drain(..settled) {
        acknowledged.apply(&op);
    }
    Ended { acknowledged, pending: pending.into_iter().map(|(op, _)| op).collect(), complete }
}

fn start(log: &Log, op: &Op) -> Result<Ticket, AppendError> {
    match op {
        Op::Append { first, payloads } => log.append(Position::new(*first), payloads),
        Op::Truncate { from } => log.truncate_from(Position::new(*from)),
        Op::Release { first } => log.release_to(Position::new(*first)),
        Op::SetState { key, value } => log.set_state(StateKey(*key), value),
    }
}

/// Opens the log again on a disk that works, and compares.
fn check(io: &FaultyIo, options: &Options, ended: &Ended, what: &str) {
    io.cancel_faults();
    let (log, report) = match Log::open(Arc::new(io.clone()), "log", options.clone()) {
        Ok(opened) => opened,
        Err(error) => panic!("{what}: does not open: {error}"),
    };
    let harmless = |finding| matches!(finding, Finding::TornTail | Finding::BadFooter | Finding::BadHeader);
    assert!(report.damage.iter().all(|damage| harmless(damage.finding)), "{what}: {:?}", report.damage);
    let (found, unreadable) = Model::of(&log);
    assert!(unreadable.is_empty(), "{what}: {unreadable:?}");
    let mut state = ended.acknowledged.clone();
    let mut known = state == found;
    for op in &ended.pending {
        state.apply(op);
        known |= state == found;
    }
    assert!(known, "{what}: {}..{} of {}..{}", found.first, found.next, ended.acknowledged.first, state.next);
    // And it goes on.
    log.append_next(&[b"still alive"]).unwrap().wait().unwrap();
}

/// Plays a scenario with every kind of end at every operation.
fn torment(options: &Options, steps: &[Step]) {
    let undisturbed = FaultyIo::new(0);
    assert!(play(&undisturbed, options, steps).complete, "without a fault every step succeeds");
    let operations = undisturbed.operations();
    println!("{operations} operations");
    for n in 1..=operations {
        let io = FaultyIo::new(n);
        io.cut_at(n);
        let ended = play(&io, options, steps);
        for (seed, crash) in Crash::ALL.into_iter().enumerate() {
            let after = io.fork(n * 10 + seed as u64);
            after.restart(crash);
            check(&after, options, &ended, &format!("power cut at operation {n}, {crash:?}"));
        }

        let io = FaultyIo::new(n);
        io.fail_at(n, Fault::Any);
        let ended = play(&io, options, steps);
        // The process is killed, and memory survives it; or the machine goes down as well.
        check(&io.fork(n), options, &ended, &format!("failure at operation {n}, killed"));
        for (seed, crash) in Crash::ALL.into_iter().enumerate() {
            let after = io.fork(n * 10 + seed as u64);
            after.restart(crash);
            check(&after, options, &ended, &format!("failure at operation {n}, {crash:?}"));
        }
    }
}

#[test]
fn appends_over_several_segments_survive_an_end_at_every_operation() {
    let mut steps = vec![set_state(1, "vote 7")];
    for n in 0..16 {
        steps.push(append(1 + 3 * n, 3, 4000));
        if n % 3 != 1 {
            steps.push(Sync);
        }
        if n % 4 == 3 {
            steps.extend([Maintain, Certify]);
        }
    }
    steps.push(Close);
    torment(&committed(), &steps);
}

#[test]
fn a_truncation_and_what_follows_survive_an_end_at_every_operation() {
    let steps = [
        append(1, 20, 2500),
        Sync,
        append(21, 5, 1000),
        Do(Op::Truncate { from: 15 }),
        append(15, 3, 900),
        Sync,
        Maintain,
        append(18, 12, 3000),
        Sync,
        Do(Op::Truncate { from: 3 }),
        Sync,
        append(3, 1, 10),
        Certify,
        Sync,
        Certify,
    ];
    torment(&committed(), &steps);
}

#[test]
fn a_release_and_a_recycled_segment_survive_an_end_at_every_operation() {
    let mut steps = vec![set_state(2, "committed 9")];
    for n in 0..6 {
        steps.extend([append(1 + 10 * n, 10, 4500), Sync, Maintain]);
        if n % 2 == 1 {
            steps.extend([Do(Op::Release { first: 10 * n }), Sync, Maintain]);
        }
    }
    steps.extend([
        Do(Op::Release { first: 500 }),
        Sync,
        Maintain,
        append(500, 2, 50),
        Sync,
        set_state(2, "x"),
        Sync,
    ]);
    torment(&committed(), &steps);
}

#[test]
fn a_packed_log_that_is_synced_on_request_survives_an_end_at_every_operation() {
    let mut steps = Vec::new();
    for n in 0..14 {
        steps.extend([append(1 + 4 * n, 4, 1700), Flush]);
        if n % 4 == 2 {
            steps.extend([Sync, Maintain]);
        }
        if n == 8 {
            steps.extend([set_state(0, "purged"), Flush]);
        }
    }
    steps.extend([Do(Op::Truncate { from: 50 }), Flush, append(50, 1, 10), Close]);
    torment(&options(Layout::Packed, SyncPolicy::OnRequest), &steps);
}

#[test]
fn creating_a_log_survives_an_end_at_every_operation() {
    torment(&committed(), &[append(1, 1, 1), Sync, Close]);
}
