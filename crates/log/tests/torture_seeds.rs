//! A few hundred seeds of the faulty disk; `cargo xtask soak log --seeds N` runs any number.

#![allow(clippy::print_stdout, reason = "a failing seed must be named")]

mod torture;

use torture::{Disk, Run, Sightings};

fn run_seeds(seeds: std::ops::Range<u64>, disk: Disk) -> Sightings {
    let mut total = Sightings::default();
    for seed in seeds {
        let mut run = Run::new(seed, disk);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.live(8)));
        if let Err(panic) = result {
            println!("seed {seed} on a disk that is {disk:?}");
            std::panic::resume_unwind(panic);
        }
        total.add(&run.sightings);
    }
    println!("{total:#?}");
    total
}

#[test]
fn an_honest_disk_that_fails_in_every_way_loses_nothing_acknowledged() {
    let seen = run_seeds(0..300, Disk::Honest);
    assert!(seen.torn_tails > 0 && seen.poisonings > 0 && seen.full_disks > 0 && seen.recycled > 0);
    assert!(seen.truncations > 0 && seen.releases > 0 && seen.unacknowledged_survivors > 0);
}

#[test]
fn a_lying_disk_is_found_out_and_nothing_is_invented() {
    let seen = run_seeds(10_000..10_300, Disk::Lying);
    assert!(seen.lies > 0 && seen.corrupt_frames > 0 && seen.lost_writes > 0 && seen.unreadable > 0);
}
