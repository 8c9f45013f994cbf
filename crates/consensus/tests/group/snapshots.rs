//! Snapshots: published before the log is cut, and installed where the log no longer reaches.

use gapless_consensus::{EntriesError, NodeId, Replicator, SnapshotError, Start};
use gapless_log::io::memory::MemoryIo;
use gapless_types::LogIndex;
use std::sync::Arc;

use crate::harness::{Cluster, address, entry, id, leads, open_alone};
use crate::ledger::{Ledger, Survives};

#[tokio::test(start_paused = true)]
async fn the_log_is_cut_behind_a_snapshot_and_no_further() {
    let (io, survives) = (MemoryIo::new(), Survives::default());
    let ledger = Ledger::new(&survives);
    let node = open_alone(Arc::new(io.clone()), ledger.clone()).await.unwrap();
    leads(&node).await;
    let mut indexes = Vec::new();
    for number in 0..100 {
        indexes.push(node.propose(entry(number)).await.unwrap());
    }
    assert_eq!(node.purge_to(LogIndex::FIRST).await.unwrap(), LogIndex::FIRST);
    assert_eq!(node.progress().borrow().snapshot, None, "nothing to cut, no snapshot");

    let kept = indexes[60];
    assert_eq!(node.purge_to(kept).await.unwrap(), kept);
    assert_eq!(node.progress().borrow().snapshot, Some(indexes[99]));
    let gone = node.entries(indexes[59], LogIndex::MAX, 1000).await;
    assert!(matches!(gone, Err(EntriesError::Purged { first }) if first == kept));
    assert_eq!(node.entries(kept, LogIndex::MAX, 0).await.unwrap()[0].index, kept);

    // Further than was dispatched: up to what was, and the log goes on behind it.
    let begin = node.purge_to(LogIndex::MAX).await.unwrap();
    assert_eq!(Some(begin), indexes[99].next());
    assert_eq!(Some(node.propose(entry(100)).await.unwrap()), indexes[99].next());
    node.close().await.unwrap();

    let ledger = Ledger::new(&survives);
    let node = open_alone(Arc::new(io), ledger.clone()).await.unwrap();
    leads(&node).await;
    assert_eq!(ledger.proposals(), (0..=100).map(entry).collect::<Vec<_>>());
    assert_eq!(node.progress().borrow().first_kept, Some(begin));
    node.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_of_nothing_is_refused_and_one_of_the_same_is_the_same() {
    let mut cluster = Cluster::found(1, 30).await;
    cluster.seat(2, Start::Join);
    cluster.start(id(2)).await;
    assert_eq!(cluster.node(id(2)).snapshot().await, Err(SnapshotError::Nothing));

    let node = cluster.node(cluster.leader().await);
    let index = node.propose(entry(0)).await.unwrap();
    assert_eq!(node.snapshot().await, Ok(index));
    assert_eq!(node.snapshot().await, Ok(index));
    assert_eq!(node.statistics().snapshots_built, 1);
}

/// Three nodes with an entry, one of which, not the leader, is down; and who leads, and who that is.
async fn one_away(seed: u64) -> (Cluster, NodeId, NodeId) {
    let mut cluster = Cluster::found(3, seed).await;
    cluster.write(entry(0)).await;
    cluster.agree().await;
    let leader = cluster.leader().await;
    let follower = cluster.running().find(|&node| node != leader).unwrap();
    cluster.kill(follower).await;
    (cluster, leader, follower)
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_was_away_too_long_catches_up_by_a_snapshot() {
    for seed in 31..36 {
        let (mut cluster, leader, follower) = one_away(seed).await;
        for number in 1..300 {
            cluster.write(entry(number)).await;
        }
        for node in cluster.running().collect::<Vec<_>>() {
            cluster.node(node).purge_to(LogIndex::MAX).await.unwrap();
        }
        cluster.write(entry(300)).await;
        cluster.start(follower).await;
        cluster.agree().await;
        assert_eq!(cluster.ledger(follower).proposals(), (0..=300).map(entry).collect::<Vec<_>>());
        assert_eq!(cluster.node(follower).statistics().snapshots_installed, 1);

        // What was installed survives, and the log goes on behind it.
        cluster.kill(follower).await;
        cluster.write(entry(301)).await;
        cluster.start(follower).await;
        cluster.agree().await;
        assert_eq!(cluster.ledger(follower).proposals().len(), 302);
        assert_eq!(cluster.node(follower).statistics().snapshots_installed, 0);
        assert_eq!(cluster.node(follower).members(), cluster.node(leader).members());
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_member_begins_with_a_snapshot_that_was_made_before_a_restart() {
    let mut cluster = Cluster::found(3, 40).await;
    for number in 0..50 {
        cluster.write(entry(number)).await;
    }
    cluster.agree().await;
    for node in [1, 2, 3].map(id) {
        cluster.node(node).purge_to(LogIndex::MAX).await.unwrap();
    }
    for node in [1, 2, 3].map(id) {
        cluster.kill(node).await;
    }
    for node in [1, 2, 3].map(id) {
        cluster.start(node).await;
    }
    cluster.write(entry(50)).await;
    cluster.seat(4, Start::Join);
    cluster.start(id(4)).await;
    let leader = cluster.node(cluster.leader().await);
    leader.add_learner(id(4), address(id(4))).await.unwrap();
    cluster.agree().await;
    assert_eq!(cluster.ledger(id(4)).proposals(), (0..=50).map(entry).collect::<Vec<_>>());
    assert_eq!(cluster.node(id(4)).statistics().snapshots_installed, 1);
    assert_eq!(cluster.node(id(4)).members(), leader.members());
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_arrives_over_a_link_that_breaks_again_and_again_and_is_sent_once() {
    for (seed, parts) in [(41, 40), (42, 7), (43, 2)] {
        let (mut cluster, _, follower) = one_away(seed).await;
        let large = |number: u8| bytes::Bytes::from(vec![number; 1000]);
        for number in 1..100 {
            cluster.write(large(number)).await;
        }
        for node in cluster.running().collect::<Vec<_>>() {
            cluster.node(node).purge_to(LogIndex::MAX).await.unwrap();
        }
        cluster.board.break_snapshots_after(Some(parts));
        cluster.start(follower).await;
        cluster.agree().await;
        assert_eq!(cluster.ledger(follower).proposals().len(), 100);
        assert_eq!(cluster.node(follower).statistics().snapshots_installed, 1);
        let (sent, size) = (cluster.board.snapshot_bytes(), 99 * 1000);
        assert!(
            (size..2 * size).contains(&sent),
            "{sent} bytes for a snapshot of {size}, {parts} parts at a time"
        );
    }
}
