//! Nodes that die and come back at random while clients write: nothing acknowledged is lost, nothing is written twice.

use std::collections::BTreeMap;
use std::time::Duration;

use gapless_types::WorkspaceId;

use crate::harness::{Cluster, check_history, committed, id, sale, try_write};

/// One client per workspace, nodes that die and come back at random; nothing acknowledged is lost, nothing is written twice.
async fn storm(nodes: u64, seed: u64, rounds: u64) {
    println!("seed {seed}");
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut cluster = Cluster::found_retaining(nodes, seed, 30, 1).await;
    cluster.define(3).await;
    let mut acknowledged: BTreeMap<u64, BTreeMap<u64, _>> = BTreeMap::new();
    let mut number = 0;
    for _ in 0..rounds {
        let leader = cluster.leader().await;
        let engine = cluster.engine(leader);
        let count = chance.u64(1..20);
        let writes: Vec<_> = (0..count)
            .map(|_| {
                number += 1;
                let (engine, number) = (engine.clone(), number);
                let write = async move {
                    try_write(&engine, number, &sale(number % 3), Duration::from_secs(2)).await
                };
                (number, tokio::spawn(write))
            })
            .collect();
        tokio::time::sleep(Duration::from_micros(chance.u64(0..4000))).await;
        let running = cluster.running();
        let victim = if chance.bool() { leader } else { running[chance.usize(..running.len())] };
        let killed = chance.u8(..3) == 0 && running.len() as u64 > nodes / 2 + 1;
        if killed {
            cluster.kill(victim).await;
        }
        for (number, write) in writes {
            let outcome = write.await.unwrap();
            let outcome = match outcome {
                Ok(acknowledgement) => acknowledgement,
                Err(_) if chance.bool() => cluster.write(number, &sale(number % 3)).await,
                Err(_) => continue,
            };
            acknowledged.entry(number % 3).or_default().insert(number, committed(&outcome).clone());
        }
        if chance.bool() {
            let down: Vec<_> = (1..=nodes).map(id).filter(|node| !cluster.running().contains(node)).collect();
            for node in down {
                cluster.start(node).await;
            }
        }
    }
    for node in (1..=nodes).map(id) {
        if !cluster.running().contains(&node) {
            cluster.start(node).await;
        }
    }
    cluster.agree().await;
    let leader = cluster.leader().await;
    for (workspace, acknowledged) in &acknowledged {
        for (number, first) in acknowledged {
            let again = cluster.write(*number, &sale(*workspace)).await;
            assert_eq!(committed(&again), first, "IDEM-1: seed {seed}, write {number}");
        }
        check_history(&cluster.engine(leader), *workspace, acknowledged).await;
    }
    assert!(cluster.engine(leader).partition_of("shop", WorkspaceId::new(0)).is_some());
    cluster.close_all().await;
}

#[tokio::test(start_paused = true)]
async fn three_nodes_in_a_storm() {
    for seed in 0..12 {
        storm(3, seed, 25).await;
    }
}

#[tokio::test(start_paused = true)]
async fn five_nodes_in_a_storm() {
    for seed in 100..104 {
        storm(5, seed, 25).await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_node_in_a_storm() {
    for seed in 200..212 {
        storm(1, seed, 10).await;
    }
}
