//! The test of the test: known mistakes are switched on one by one, and each is found by few seeds.
//!
//! Here the seeds have the troubles in which a mistake shows, so that a test run has the time. That seeds with any trouble find it, too,
//! shows `cargo xtask sim --mistakes`; README.md says how many it took.

#![allow(clippy::print_stdout, reason = "tests say which seed found something")]

use gapless_sim::{Plan, run};
use gapless_types::mistakes::Mistake;

/// So many seeds find every mistake, from the one on that stands beside it: the rare ones begin near a seed that finds them.
const SEEDS: u64 = 60;

fn is_found(mistake: Mistake, from: u64) {
    for seed in from..from + SEEDS {
        let report = run(Plan::focused_on(mistake, seed), false);
        if let Some(finding) = report.findings.first() {
            println!("{mistake:?}: seed {seed}: {finding}");
            return;
        }
    }
    panic!("{mistake:?} is not found by {SEEDS} seeds from {from} on");
}

macro_rules! mistakes {
    ($($name:ident: $mistake:ident from $from:literal,)*) => {
        $(
            #[test]
            fn $name() {
                is_found(Mistake::$mistake, $from);
            }
        )*

        #[test]
        fn all_mistakes_are_looked_for() {
            assert_eq!([$(Mistake::$mistake),*], Mistake::ALL);
        }
    };
}

mistakes! {
    acknowledging_before_the_sync_is_found: AcknowledgeBeforeSync from 0,
    retrying_a_failed_sync_is_found: RetryFailedSync from 0,
    idempotency_in_the_leaders_cache_alone_is_found: IdempotencyInCacheOnly from 0,
    a_counter_that_goes_with_its_key_is_found: CounterEvictedWithKey from 0,
    rolling_the_log_back_to_a_lagging_partition_is_found: RollBackToLaggingPartition from 0,
    cutting_below_a_slow_partition_is_found: CutBelowSlowPartition from 0,
    reading_without_a_quorum_is_found: ReadWithoutQuorum from 60,
    a_forgotten_vote_is_found: ForgottenVote from 0,
    voting_with_a_lost_tail_is_found: VoteWithLostTail from 60,
    a_clock_of_ones_own_at_apply_is_found: OwnClockAtApply from 0,
    a_checkpoint_before_the_sync_is_found: CheckpointBeforeSync from 0,
    an_expired_token_that_commits_is_found: ExpiredTokenCommits from 140,
}
