//! Waiting for a watermark, as a user of it sees it. What no order of events may lose is in `interleavings.rs`.

#![cfg(not(feature = "shuttle"))]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::future::{pending, ready};

use gapless_projection::{Progress, WaitError};
use tokio::runtime::Builder;

fn run<T>(test: impl Future<Output = T>) -> T {
    Builder::new_current_thread().build().unwrap().block_on(test)
}

#[test]
fn what_is_reached_is_not_waited_for() {
    let progress = Progress::new(3);
    run(async {
        // Also if the deadline is over.
        assert_eq!(progress.waiter().reached(3, ready(())).await, Ok(3));
        assert_eq!(progress.waiter().reached(0, pending()).await, Ok(3));
        let late = progress.waiter().reached(4, ready(())).await;
        assert_eq!(late, Err(WaitError::Deadline { slot: 4, watermark: 3 }));
    });
}

#[test]
fn any_number_of_waiters_is_woken_each_by_its_slot() {
    let progress = Progress::new(0);
    run(async {
        let waiters: Vec<_> = (0..2000)
            .map(|number| {
                let mut waiter = progress.waiter();
                tokio::spawn(async move { waiter.reached(number % 50 + 1, pending()).await })
            })
            .collect();
        for watermark in 1..=50 {
            progress.advance(watermark);
            tokio::task::yield_now().await;
        }
        for (number, waiter) in (0..).zip(waiters) {
            assert!(waiter.await.unwrap().unwrap() > number % 50);
        }
    });
}

#[test]
fn the_watermark_never_falls_and_a_domain_that_goes_is_told_of() {
    let progress = Progress::new(5);
    progress.advance(2);
    let mut waiter = progress.waiter();
    assert_eq!(waiter.watermark(), 5);
    drop(progress);
    run(async {
        assert_eq!(waiter.reached(5, pending()).await, Ok(5));
        assert_eq!(waiter.reached(6, pending()).await, Err(WaitError::Closed { watermark: 5 }));
    });
}
