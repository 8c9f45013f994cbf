//! Who follows on a node that is caught up by a snapshot sees everything, once and in order.

use std::time::Duration;

use gapless_engine::{BarrierError, Follow, Followed, Subscription, Target};
use gapless_types::{ClientId, LogIndex, PartitionOffset, WorkspaceId, WorkspaceOffset};

use crate::harness::{Cluster, committed, sale};

/// Everything up to an entry.
async fn follow_through(mut subscription: Subscription, last: LogIndex) -> Vec<Followed> {
    let mut seen: Vec<Followed> = Vec::new();
    while seen.last().is_none_or(|followed| followed.outcome.header().log_index < last) {
        seen.push(subscription.next().await.unwrap());
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_on_a_node_that_gets_a_snapshot_sees_every_event_once_and_in_order() {
    let mut cluster = Cluster::found_retaining(3, 4, 20, 1).await;
    cluster.define(2).await;
    for number in 0..10 {
        cluster.write(number, &sale(number % 2)).await;
    }
    cluster.agree().await;
    let leader = cluster.leader().await;
    let behind = cluster.running().into_iter().find(|node| *node != leader).unwrap();
    let engine = cluster.engine(behind);
    let partition = engine.partition_of("shop", WorkspaceId::new(1)).unwrap();
    let follow = |what| engine.follow(what).unwrap();
    let mut of_partition = follow(Follow::Partition(partition, PartitionOffset::FIRST));
    let of_workspace = follow(Follow::Workspace(partition, WorkspaceId::new(1), WorkspaceOffset::FIRST));
    let of_namespace = follow(Follow::Namespace(partition.namespace, LogIndex::FIRST));
    // One has read a part already.
    let begun = [of_partition.next().await.unwrap(), of_partition.next().await.unwrap()];
    cluster.board.isolate(behind);
    let mut last = None;
    for number in 10..200 {
        last = Some(committed(&cluster.write_except(&[behind], number, &sale(number % 2)).await).clone());
    }
    let last = last.unwrap();
    assert_eq!(last.partition, partition);
    let leader = cluster.leader_except(&[behind]).await;
    cluster.cut_beyond(leader, 100).await;
    let partition_reader = tokio::spawn(follow_through(of_partition, last.log_index));
    let workspace_reader = tokio::spawn(follow_through(of_workspace, last.log_index));
    let namespace_reader = tokio::spawn(follow_through(of_namespace, last.log_index));
    let barrier = {
        let (engine, target) = (engine.clone(), Target::Offset(last.partition_offset));
        tokio::spawn(async move {
            let client = ClientId::new("till").unwrap();
            engine.wait_barrier(&client, &[(partition, target)], Duration::from_secs(600)).await
        })
    };
    // All of them wait for more.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!partition_reader.is_finished() && !barrier.is_finished());
    cluster.board.heal();
    let mut seen = begun.to_vec();
    seen.extend(partition_reader.await.unwrap());
    assert_eq!(engine.replicator().statistics().snapshots_installed, 1);
    let offsets = seen.iter().map(|followed| followed.outcome.header().partition_offset.get());
    assert!(offsets.eq(1..=last.partition_offset.get()), "every outcome once: {}", seen.len());
    let events = workspace_reader.await.unwrap();
    let offsets = events.iter().map(|followed| followed.outcome.header().workspace_offset.unwrap().get());
    assert!(offsets.eq(1..=100), "every event once");
    let all = namespace_reader.await.unwrap();
    assert_eq!(all.len(), 200);
    assert!(all.is_sorted_by_key(|followed| followed.outcome.header().log_index));
    assert_eq!(barrier.await.unwrap(), Ok::<(), BarrierError>(()));
    cluster.close_all().await;
}
