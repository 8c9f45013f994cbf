//! The waiting side under a scheduler that tries many interleavings: `cargo test -p gapless-projection --features shuttle`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::future::pending;
use std::panic::catch_unwind;

use gapless_projection::{Progress, WaitError};
use shuttle::sync::Arc;
use shuttle::{future, thread};

const INTERLEAVINGS: usize = 2000;

/// Several waiters for several slots while the watermark grows; a waiter that is not woken makes the scheduler report a deadlock.
fn waiters_and_a_writer(waits: fn(&Progress, u64)) {
    let progress = Arc::new(Progress::new(0));
    let waiters: Vec<_> = [1, 2, 3, 3]
        .into_iter()
        .map(|slot| {
            let progress = Arc::clone(&progress);
            thread::spawn(move || waits(&progress, slot))
        })
        .collect();
    for watermark in 1..=3 {
        progress.advance(watermark);
    }
    for waiter in waiters {
        waiter.join().unwrap();
    }
}

#[test]
fn no_wake_up_is_lost() {
    shuttle::check_random(
        || {
            waiters_and_a_writer(|progress, slot| {
                let mut waiter = progress.waiter();
                let reached = future::block_on(waiter.reached(slot, pending()));
                assert!(reached.unwrap() >= slot);
            });
        },
        INTERLEAVINGS,
    );
}

#[test]
fn a_waiter_that_looks_and_then_subscribes_is_found_out() {
    let found = catch_unwind(|| {
        shuttle::check_random(
            || waiters_and_a_writer(|progress, slot| future::block_on(progress.look_then_subscribe(slot))),
            INTERLEAVINGS,
        );
    });
    assert!(found.is_err(), "{INTERLEAVINGS} interleavings did not lose a wake-up");
}

#[test]
fn whoever_waits_for_a_domain_that_goes_is_told() {
    shuttle::check_random(
        || {
            let progress = Progress::new(0);
            let mut waiter = progress.waiter();
            let waiting = thread::spawn(move || future::block_on(waiter.reached(2, pending())));
            progress.advance(1);
            drop(progress);
            assert_eq!(waiting.join().unwrap(), Err(WaitError::Closed { watermark: 1 }));
        },
        INTERLEAVINGS,
    );
}
