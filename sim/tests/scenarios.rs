//! Seeds that once found something run for ever after, and some others beside them.

#![allow(clippy::print_stdout, reason = "tests say which seed found something")]

use gapless_sim::plan::Trouble;
use gapless_sim::sometimes::{Occurrences, Situation};
use gapless_sim::{Plan, run};

/// Seed, nodes, and what it found when it did.
const FOUND: &[(u64, u64, &str)] = &[
    (2, 3, "marks of a partition fell when a snapshot was installed"),
    (
        3,
        3,
        "a write that a leader without a quorum refused came again at once, and nothing else was heard any more",
    ),
    (4, 5, "writers that lost their leader were told in an order of chance"),
    (12, 3, "a follower got what was behind the cut of a log as if it followed"),
    (
        15,
        5,
        "a snapshot was lost with a repair, and a projection whose partition was repaired needed what was cut",
    ),
    (17, 3, "what an interrupted install had written stayed on disk"),
    (18, 3, "a projection that failed for a moment dropped out of a log that was too long, for good"),
    (45, 3, "a partition that never had anything was taken for one that lost its log"),
    (56, 3, "the same"),
    (61, 5, "a partition whose disk failed while a snapshot was installed was quarantined"),
    (71, 3, "leadership that nobody took was never taken back"),
    (172, 5, "a snapshot took a partition back behind what it had applied"),
    (289, 3, "a leader with a damaged partition kept leading, and nobody could take its place"),
    (321, 3, "a log that failed ended what was to be dispatched"),
    (393, 5, "the same, after a sync that failed"),
    (399, 3, "a projection ahead of what its node had dispatched again made a checkpoint"),
    (421, 5, "a partition that had lost outcomes was closed as if it had not"),
    (434, 1, "what a log that failed no longer vouches for was called a fault of the storage"),
    (435, 3, "a partition lost the end of its log and its checkpoint, and gave numbers out again"),
];

/// Seeds that nothing is known of. More of them: `cargo xtask sim`.
const SEEDS: std::ops::Range<u64> = 100..112;

fn check(seed: u64, nodes: Option<u64>) -> Occurrences {
    let report = run(Plan::new(seed, nodes), false);
    let found: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{}\nagain: {}", found.join("\n"), report.plan.command());
    assert!(report.counts.committed > 0, "nothing was written; again: {}", report.plan.command());
    report.occurrences
}

/// These troubles and no others; what occurred.
fn check_troubles(seed: u64, troubles: &[Trouble]) -> Occurrences {
    let plan = Plan { troubles: troubles.to_vec(), ..Plan::new(seed, Some(3)) };
    println!("seed {seed}: {troubles:?}");
    let report = run(plan, false);
    let found: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{troubles:?} with seed {seed}:\n{}", found.join("\n"));
    assert!(report.counts.committed > 0, "nothing was written with {troubles:?} and seed {seed}");
    report.occurrences
}

/// What is seen of a trouble that was really made, and of what it leads to where that is certain.
fn signs(trouble: Trouble) -> &'static [Situation] {
    match trouble {
        Trouble::Crash => &[Situation::Crash],
        Trouble::CrashAll => &[Situation::AllCrashed],
        Trouble::RestartLoop => &[Situation::CrashDuringDiskOperation],
        Trouble::Partition => &[Situation::AsymmetricPartition],
        Trouble::Pause => &[Situation::Paused],
        Trouble::FullDisk => &[Situation::DiskFull],
        Trouble::BrokenPartition => &[Situation::PartitionBroken],
        Trouble::Members => &[Situation::MembersChanged],
        Trouble::LostDisk => &[Situation::NodeReplaced],
        Trouble::Transfer => &[Situation::LeadershipTransferred],
        Trouble::Catalog => &[Situation::NamespaceDropped],
        Trouble::SlowApply => &[Situation::SlowApply],
        Trouble::Repair => &[Situation::RepairedFromOwnLog],
        Trouble::Clock => &[Situation::ClockWrong],
        Trouble::SlowDisk => &[Situation::SlowDisk],
        Trouble::SlowLink => &[Situation::SlowLink],
        Trouble::FailingDisk => &[Situation::SyncFailed],
        Trouble::Damage => &[Situation::Damaged],
        Trouble::Snapshot => &[Situation::SnapshotTaken],
    }
}

#[test]
fn what_was_found_once_is_not_found_again() {
    for (seed, nodes, what) in FOUND {
        println!("seed {seed}: {what}");
        check(*seed, Some(*nodes));
    }
}

/// Runs seeds until all of these have occurred, and at least one; panics if that takes too many.
fn until_all_occurred(seeds: std::ops::Range<u64>, troubles: &[Trouble], signs: &[Situation]) {
    let mut occurred = Occurrences::new();
    for seed in seeds.clone() {
        occurred.extend(check_troubles(seed, troubles));
        if signs.iter().all(|sign| occurred.contains_key(sign)) {
            return;
        }
    }
    panic!("{troubles:?} with seeds {seeds:?} did not make all of {signs:?}: {occurred:?}");
}

/// Each with seeds of its own, and three nodes that write all the while.
#[test]
fn every_trouble_by_itself_finds_nothing() {
    for (number, trouble) in (0..).zip(Trouble::ALL) {
        let first = 2000 + 10 * number;
        until_all_occurred(first..first + 10, &[trouble], signs(trouble));
    }
}

#[test]
fn members_change_and_snapshots_are_installed_while_clients_write() {
    let troubles = [Trouble::Members, Trouble::LostDisk, Trouble::Snapshot];
    for first in [300, 310, 320, 330] {
        until_all_occurred(
            first..first + 10,
            &troubles,
            &[Situation::MembersChanged, Situation::SnapshotInstalled],
        );
    }
}

#[test]
fn some_seeds_find_nothing() {
    let mut occurred = Occurrences::new();
    for seed in SEEDS {
        occurred.extend(check(seed, None));
    }
    for sign in [Situation::DoubledRequest, Situation::DoubledEntries] {
        assert!(occurred.contains_key(&sign), "no {sign:?}: {occurred:?}");
    }
}

#[test]
fn one_three_and_five_nodes_find_nothing() {
    for nodes in [1, 3, 5] {
        check(7, Some(nodes));
    }
}
