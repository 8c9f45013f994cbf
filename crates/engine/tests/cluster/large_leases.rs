//! Leases of events so long that few of them fit one answer.

use gapless_engine::limits::MAX_GRANTED_BYTES;
use gapless_partition::Write;
use gapless_types::WorkspaceId;
use serde_json::json;

use crate::harness::{Cluster, committed, id, shop};
use crate::projections::{define, lease, with, workers};

/// So that two of them fit, and three do not.
const NOTE_BYTES: usize = MAX_GRANTED_BYTES * 2 / 5;

#[tokio::test(start_paused = true)]
async fn a_lease_has_as_many_events_as_fit_and_what_does_not_is_free_at_once() {
    let mut cluster = Cluster::found(1, 4).await;
    define(&cluster, with(shop(1), "work", workers(&json!({})))).await;
    let payload = format!(r#"{{"day":"d0","amount":1,"note":"{}"}}"#, "x".repeat(NOTE_BYTES));
    for number in 0..7 {
        let write = Write { payload: payload.as_bytes(), ..Write::new(WorkspaceId::new(5), "till", "Sold") };
        committed(&cluster.write(number, &write).await);
    }
    let engine = cluster.engine(id(1));
    let mut granted = Vec::new();
    while granted.len() < 7 {
        let leased = lease(&engine, "greedy", 100).await;
        assert!((1..=2).contains(&leased.len()), "{} behind {granted:?}", leased.len());
        assert!(leased.iter().all(|one| one.event.is_some() && one.grant.attempt == 1));
        granted.extend(leased.iter().map(|one| one.grant.slot));
    }
    granted.sort_unstable();
    assert_eq!(granted, (1..=7).collect::<Vec<_>>());
    drop(engine);
    cluster.close_all().await;
}
