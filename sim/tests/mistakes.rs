//! The test of the test: known mistakes are switched on one by one, and each is found by few seeds.
//!
//! Here the seeds have the troubles in which a mistake shows, so that a test run has the time, and find nothing without it. That seeds
//! with any trouble find it, too, shows `cargo xtask sim --mistakes`; README.md says how many it took.

#![allow(clippy::print_stdout, reason = "tests say which seed found something")]

use gapless_sim::{Plan, run};
use gapless_types::mistakes::Mistake;

/// So many seeds find every mistake.
const SEEDS: u64 = 20;
/// So many seeds find nothing when the mistake is not made.
const WITHOUT: u64 = 3;

fn is_found(mistake: Mistake) {
    for seed in 0..WITHOUT {
        let report = run(Plan { mistake: None, ..Plan::focused_on(mistake, seed) }, false);
        assert!(report.findings.is_empty(), "seed {seed}, without {mistake:?}: {:?}", report.findings);
    }
    for seed in 0..SEEDS {
        let report = run(Plan::focused_on(mistake, seed), false);
        if let Some(finding) = report.findings.first() {
            println!("{mistake:?}: seed {seed}: {finding}");
            return;
        }
    }
    panic!("{mistake:?} is not found by {SEEDS} seeds");
}

macro_rules! mistakes {
    ($($name:ident: $mistake:ident,)*) => {
        $(
            #[test]
            fn $name() {
                is_found(Mistake::$mistake);
            }
        )*

        #[test]
        fn all_mistakes_are_looked_for() {
            assert_eq!([$(Mistake::$mistake),*], Mistake::ALL);
        }
    };
}

mistakes! {
    acknowledging_before_the_sync_is_found: AcknowledgeBeforeSync,
    retrying_a_failed_sync_is_found: RetryFailedSync,
    idempotency_in_the_leaders_cache_alone_is_found: IdempotencyInCacheOnly,
    a_counter_that_goes_with_its_key_is_found: CounterEvictedWithKey,
    rolling_the_log_back_to_a_lagging_partition_is_found: RollBackToLaggingPartition,
    cutting_below_a_slow_partition_is_found: CutBelowSlowPartition,
    reading_without_a_quorum_is_found: ReadWithoutQuorum,
    a_forgotten_vote_is_found: ForgottenVote,
    voting_with_a_lost_tail_is_found: VoteWithLostTail,
    a_clock_of_ones_own_at_apply_is_found: OwnClockAtApply,
    a_checkpoint_before_the_sync_is_found: CheckpointBeforeSync,
    an_expired_token_that_commits_is_found: ExpiredTokenCommits,
}
