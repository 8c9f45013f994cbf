//! Clusters in one process: replication, changes of leader, catching up, snapshots, and clients that retry through all of it.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that fails says where, and with which seed"
)]

mod following;
mod harness;
mod identity;
mod large_leases;
mod lease_storm;
mod membership;
mod peers;
mod projections;
mod snapshots;
mod storm;
mod time;
mod upgrades;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gapless_engine::{Consistency, WriteError, WriteOptions};

use harness::{Cluster, check_history, committed, eventually, key, sale, try_write, view};

#[tokio::test(start_paused = true)]
async fn every_node_has_the_same_and_followers_serve_what_they_were_asked_to_have() {
    let mut cluster = Cluster::found(3, 1).await;
    cluster.define(4).await;
    let mut acknowledged = BTreeMap::new();
    for number in 0..50 {
        let acknowledgement = cluster.write(number, &sale(number % 3)).await;
        acknowledged.insert(number, committed(&acknowledgement).clone());
    }
    cluster.agree().await;
    let leader = cluster.leader().await;
    for workspace in 0..3 {
        let mine = acknowledged.iter().filter(|(number, _)| *number % 3 == workspace);
        let mine = mine.map(|(number, committed)| (*number, committed.clone())).collect();
        check_history(&cluster.engine(leader), workspace, &mine).await;
    }
    for report in cluster.engine(leader).partitions() {
        let masters =
            cluster.running().into_iter().map(|node| cluster.engine(node).master_of(report.partition));
        let masters: std::collections::BTreeSet<_> = masters.collect();
        assert_eq!(masters.len(), 1, "all nodes agree who looks after a partition");
    }
    let follower = cluster.running().into_iter().find(|node| *node != leader).unwrap();
    let last = &acknowledged[&49];
    let read =
        view(&cluster.engine(follower), last.partition, Consistency::AtLeast(last.partition_offset)).await;
    assert!(read.unwrap().applied() >= Some(last.partition_offset));
    let refused =
        view(&cluster.engine(follower), last.partition, Consistency::Linearizable).await.unwrap_err();
    assert!(refused.to_string().contains("does not lead"), "{refused}");
    let refused =
        try_write(&cluster.engine(follower), 99, &sale(0), Duration::from_secs(1)).await.unwrap_err();
    let WriteError::NotLeader(not_leader) = refused else { panic!("{refused}") };
    assert_eq!(not_leader.leader.unwrap().node, leader);
    cluster.close_all().await;
}

#[tokio::test(start_paused = true)]
async fn writes_in_flight_when_the_leader_dies_are_written_once() {
    for seed in 1..=8 {
        let mut cluster = Cluster::found(3, seed).await;
        cluster.define(2).await;
        for number in 0..5 {
            cluster.write(number, &sale(0)).await;
        }
        let leader = cluster.leader().await;
        let engine = cluster.engine(leader);
        let writes: Vec<_> = (100..140)
            .map(|number| {
                let engine = engine.clone();
                tokio::spawn(
                    async move { try_write(&engine, number, &sale(0), Duration::from_secs(3)).await },
                )
            })
            .collect();
        // As far as chance lets them get.
        tokio::time::sleep(Duration::from_micros(300 * seed)).await;
        cluster.kill(leader).await;
        let mut acknowledged = BTreeMap::new();
        for (number, write) in (100..).zip(writes) {
            if let Ok(acknowledgement) = write.await.unwrap() {
                acknowledged.insert(number, committed(&acknowledgement).clone());
            }
        }
        for number in 100..140 {
            let acknowledgement = cluster.write(number, &sale(0)).await;
            let numbers = committed(&acknowledgement).clone();
            let first = acknowledged.entry(number).or_insert_with(|| numbers.clone());
            assert_eq!(*first, numbers, "seed {seed}: a retry gets the first outcome");
        }
        cluster.start(leader).await;
        cluster.agree().await;
        let now = cluster.leader().await;
        check_history(&cluster.engine(now), 0, &acknowledged).await;
        cluster.close_all().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_writes_whose_leader_dies_tells_of_each_and_writes_none_twice() {
    for seed in 11..=16 {
        let mut cluster = Cluster::found(3, seed).await;
        cluster.define(2).await;
        let leader = cluster.leader().await;
        let mut pipeline = cluster.engine(leader).pipeline(WriteOptions { patience: Duration::from_secs(3) });
        for number in 0..60 {
            assert_eq!(pipeline.submit("shop", key(number), &sale(0)).await.unwrap(), number);
        }
        // As far as chance lets them get.
        tokio::time::sleep(Duration::from_micros(300 * (seed - 10))).await;
        cluster.kill(leader).await;
        let (mut told, mut acknowledged) = (BTreeSet::new(), BTreeMap::new());
        while let Some((number, ended)) = pipeline.next().await {
            assert!(told.insert(number), "seed {seed}: {number} is told once");
            if let Ok(acknowledgement) = ended {
                acknowledged.insert(number, committed(&acknowledgement).clone());
            }
        }
        assert_eq!(told.len(), 60, "seed {seed}: nobody is left waiting");
        assert!(pipeline.is_empty());
        for number in 0..60 {
            let numbers = committed(&cluster.write(number, &sale(0)).await).clone();
            let first = acknowledged.entry(number).or_insert_with(|| numbers.clone());
            assert_eq!(*first, numbers, "seed {seed}: a retry gets the first outcome");
        }
        cluster.start(leader).await;
        cluster.agree().await;
        let now = cluster.leader().await;
        check_history(&cluster.engine(now), 0, &acknowledged).await;
        cluster.close_all().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_gives_no_outcome_and_loses_nothing() {
    let mut cluster = Cluster::found(3, 3).await;
    cluster.define(2).await;
    cluster.write(1, &sale(0)).await;
    let old = cluster.leader().await;
    cluster.board.isolate(old);
    let refused = try_write(&cluster.engine(old), 2, &sale(0), Duration::from_secs(5)).await.unwrap_err();
    assert!(matches!(refused, WriteError::NotLeader(_) | WriteError::DeadlineExceeded), "{refused}");
    let acknowledgement = cluster.write_except(&[old], 2, &sale(0)).await;
    assert_eq!(committed(&acknowledgement).numbers[0].1, 2);
    cluster.board.heal();
    let again = cluster.write(2, &sale(0)).await;
    assert_eq!(again.outcome, acknowledgement.outcome);
    cluster.write(3, &sale(0)).await;
    cluster.agree().await;
    cluster.close_all().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_away_too_long_gets_a_snapshot() {
    let mut cluster = Cluster::found_retaining(3, 4, 20, 1).await;
    cluster.define(3).await;
    for number in 0..10 {
        cluster.write(number, &sale(number % 4)).await;
    }
    let leader = cluster.leader().await;
    let away = cluster.running().into_iter().find(|node| *node != leader).unwrap();
    cluster.kill(away).await;
    for number in 10..300 {
        cluster.write(number, &sale(number % 4)).await;
    }
    cluster.cut_beyond(leader, 100).await;
    cluster.start(away).await;
    cluster.agree().await;
    assert_eq!(cluster.engine(away).replicator().statistics().snapshots_installed, 1);
    // It is a full member: it survives a restart, and can lead.
    cluster.kill(away).await;
    cluster.start(away).await;
    let leader = cluster.leader().await;
    if leader != away {
        eventually("it has caught up", || {
            let mine = *cluster.engine(away).replicator().progress().borrow();
            let theirs = *cluster.engine(leader).replicator().progress().borrow();
            mine.appended == theirs.appended
        })
        .await;
        cluster.engine(leader).replicator().transfer_leadership(away).await.unwrap();
    }
    let acknowledgement = cluster.write(300, &sale(1)).await;
    assert_eq!(committed(&acknowledgement).numbers[0].1, 76);
    cluster.agree().await;
    cluster.close_all().await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_clock_is_wrong_gives_up_and_says_so() {
    let mut cluster = Cluster::found(3, 6).await;
    cluster.define(1).await;
    let first = committed(&cluster.write(1, &sale(0)).await).committed_at;
    let leader = cluster.leader().await;
    // Set while it leads: nothing happens, because its term goes by the other clock.
    *cluster.seats[&leader].clock.off.lock().unwrap() = Duration::from_secs(500);
    let second = committed(&cluster.write(2, &sale(0)).await).committed_at;
    assert!(second >= first && second < first + 100_000, "{first} {second}");
    // Elected again with a wrong clock, it is found out.
    let engine = cluster.engine(leader);
    let other = cluster.running().into_iter().find(|node| *node != leader).unwrap();
    engine.replicator().transfer_leadership(other).await.unwrap();
    eventually("the other leads", || cluster.engine(other).replicator().leadership().borrow().is_ready())
        .await;
    eventually("it has caught up", || {
        let mine = *engine.replicator().progress().borrow();
        mine.appended == cluster.engine(other).replicator().progress().borrow().appended
    })
    .await;
    cluster.engine(other).replicator().transfer_leadership(leader).await.unwrap();
    eventually("it gives up", || {
        engine.alarms().iter().any(|alarm| alarm.contains("giving up leadership"))
            && !engine.replicator().leadership().borrow().is_self
    })
    .await;
    let third = committed(&cluster.write(3, &sale(0)).await).committed_at;
    assert!(third >= second);
    cluster.agree().await;
    cluster.close_all().await;
}

#[tokio::test(start_paused = true)]
async fn the_cut_waits_for_a_voter_that_is_behind() {
    cut_with_a_voter_behind(false).await;
}

/// Who the voters are is in an entry that nobody dispatches again.
#[tokio::test(start_paused = true)]
async fn the_cut_waits_for_a_voter_that_is_behind_a_leader_that_was_restarted() {
    cut_with_a_voter_behind(true).await;
}

async fn cut_with_a_voter_behind(restarted: bool) {
    let mut cluster = Cluster::found_keeping(3, 7, 5).await;
    cluster.define(1).await;
    if restarted {
        for number in 1000..1020 {
            cluster.write(number, &sale(0)).await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        cluster.restart_all_with_clocks(Duration::ZERO).await;
    }
    let leader = cluster.leader().await;
    let behind = cluster.running().into_iter().find(|node| *node != leader).unwrap();
    cluster.board.isolate(behind);
    for number in 0..100 {
        cluster.write_except(&[behind], number, &sale(0)).await;
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let leader = cluster.leader_except(&[behind]).await;
    let kept = cluster.engine(leader).replicator().progress().borrow().first_kept.unwrap();
    let has = cluster.engine(behind).replicator().progress().borrow().durable.unwrap();
    assert!(kept <= has.next().unwrap(), "TRUNC-1: kept from {kept} on, but node {behind} has {has}");
    cluster.board.heal();
    eventually("the log is cut once it has caught up", || {
        cluster.engine(leader).replicator().progress().borrow().first_kept.unwrap().get() > 50
    })
    .await;
    assert_eq!(cluster.engine(behind).replicator().statistics().snapshots_installed, 0);
    cluster.agree().await;
    cluster.close_all().await;
}
