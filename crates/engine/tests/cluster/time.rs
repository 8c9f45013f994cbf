//! Log time never goes back: not over a restart, not with a snapshot, whatever clocks say.

use std::time::Duration;

use crate::harness::{Cluster, committed, eventually, sale};

const AHEAD: Duration = Duration::from_secs(5000);

async fn time_of_write(cluster: &Cluster, number: u64, workspace: u64) -> u64 {
    committed(&cluster.write(number, &sale(workspace)).await).committed_at
}

/// Writes to workspace 0 with a clock that is ahead, and to others, whose partitions never had a write, when it was set back.
async fn clock_set_back(after_a_while: bool, closed: bool) {
    let mut cluster = Cluster::found_keeping(1, 1, 1).await;
    cluster.define(4).await;
    cluster.restart_all_with_clocks(AHEAD).await;
    let ahead = time_of_write(&cluster, 1, 0).await;
    assert!(ahead > 1_004_000_000, "{ahead}");
    if after_a_while {
        // Everything is in checkpoints, and the log is cut: nothing in it tells of that time.
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    if closed {
        cluster.close_all().await;
    }
    cluster.restart_all_with_clocks(Duration::ZERO).await;
    let back = time_of_write(&cluster, 2, 1).await;
    assert!(back >= ahead, "{ahead} was followed by {back}");
    cluster.restart_all_with_clocks(Duration::ZERO).await;
    let again = time_of_write(&cluster, 3, 2).await;
    assert!(again >= back, "{back} was followed by {again}");
    cluster.close_all().await;
}

#[tokio::test(start_paused = true)]
async fn log_time_does_not_go_back_when_a_node_was_closed_and_its_clock_set_back() {
    clock_set_back(true, true).await;
    clock_set_back(false, true).await;
}

#[tokio::test(start_paused = true)]
async fn log_time_does_not_go_back_when_a_node_was_killed_and_its_clock_set_back() {
    clock_set_back(true, false).await;
    clock_set_back(false, false).await;
}

#[tokio::test(start_paused = true)]
async fn log_time_comes_with_a_snapshot() {
    let mut cluster = Cluster::found_retaining(3, 4, 5, 1).await;
    cluster.define(4).await;
    let leader = cluster.leader().await;
    let away = cluster.running().into_iter().find(|node| *node != leader).unwrap();
    cluster.kill(away).await;
    // Nothing that the third one has tells of this time.
    cluster.restart_all_with_clocks_except(&[away], AHEAD).await;
    let mut ahead = 0;
    for number in 0..40 {
        ahead = time_of_write(&cluster, number, 0).await;
    }
    assert!(ahead > 1_004_000_000, "{ahead}");
    let leader = cluster.leader().await;
    cluster.cut_beyond(leader, 20).await;
    cluster.start(away).await;
    cluster.agree().await;
    assert_eq!(cluster.engine(away).replicator().statistics().snapshots_installed, 1);
    for node in cluster.running() {
        if node != away {
            *cluster.seats[&node].clock.off.lock().unwrap() = Duration::ZERO;
        }
    }
    let leader = cluster.leader().await;
    eventually("it has caught up", || {
        let mine = *cluster.engine(away).replicator().progress().borrow();
        mine.appended == cluster.engine(leader).replicator().progress().borrow().appended
    })
    .await;
    cluster.engine(leader).replicator().transfer_leadership(away).await.unwrap();
    eventually("it leads", || cluster.engine(away).replicator().leadership().borrow().is_ready()).await;
    let back = time_of_write(&cluster, 100, 1).await;
    assert!(back >= ahead, "{ahead} was followed by {back}");
    cluster.close_all().await;
}
