//! Taking numbers of cached workspaces allocates nothing.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::time::Duration;

use gapless_sequencer::memory::MemoryStorage;
use gapless_sequencer::{Drive, Params, Sequencer};
use support::{KIND, Stepped, params, sequence, workspace};

const WORKSPACES: u64 = 100;

/// Every workspace once: start, two numbers, flush.
fn round<S: gapless_sequencer::Storage>(sequencer: &mut Sequencer<S>) {
    for id in 0..WORKSPACES {
        let mut transaction = sequencer.start(KIND, workspace(id)).unwrap();
        transaction.next(sequence(1)).unwrap();
        transaction.next(sequence(2)).unwrap();
        transaction.flush();
    }
}

#[test]
fn a_transaction_on_cached_numbers_allocates_nothing() {
    let mut stepped = Stepped::ready(&MemoryStorage::new(), params());
    // Twice with writes in between, so that both unflushed sets have their size.
    for _ in 0..3 {
        round(&mut stepped.sequencer);
        stepped.settle();
    }
    let allocated = allocation_counter::measure(|| {
        for _ in 0..10 {
            round(&mut stepped.sequencer);
        }
    });
    assert_eq!(allocated.count_total, 0);
}

#[test]
fn nor_does_one_beside_a_thread() {
    let params = Params { max_unflushed: 1000, ..params() };
    let mut sequencer = Sequencer::new(params, MemoryStorage::new(), Drive::OS_THREAD).unwrap();
    sequencer.wait_ready(Duration::from_secs(60)).unwrap();
    // How far the sets have grown when a write takes one of them away is up to the thread: they stop growing.
    support::until("nothing is allocated", || {
        sequencer.wait_ready(Duration::from_secs(60)).unwrap();
        let allocated = allocation_counter::measure(|| (0..10).for_each(|_| round(&mut sequencer)));
        allocated.count_total == 0
    });
}
