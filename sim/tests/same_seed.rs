//! The same seed gives the same trace, whatever runs beside it: a clock, a random number or an order of somebody else's would show.

use gapless_sim::{Plan, run};

/// Seeds that are run two times. More of them: `cargo xtask sim --twice`.
const SEEDS: u64 = 6;

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..SEEDS {
        let [one, other] = [(); 2].map(|()| run(Plan::new(seed, None), false));
        assert_eq!(one.fingerprint, other.fingerprint, "again: {}", one.plan.command());
        assert_eq!(one.counts, other.counts);
        assert_eq!(one.simulated, other.simulated);
        assert!(one.fingerprint.events > 500, "{:?}", one.fingerprint);
    }
}

#[test]
fn other_seeds_and_other_clusters_give_other_traces() {
    let of = |seed, nodes| run(Plan::new(seed, Some(nodes)), false).fingerprint;
    let all = [of(1, 1), of(1, 3), of(2, 1)];
    assert!(all[0] != all[1] && all[0] != all[2] && all[1] != all[2], "{all:?}");
}
