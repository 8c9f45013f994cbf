//! A cluster of three is backed up by one of its nodes, restored from that, and grows to three again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use gapless_consensus::Start;
use gapless_engine::{BackupOptions, RestoreOptions, restore};
use gapless_log::io::Io;

use crate::harness::{Cluster, check_history, committed, id, sale};

#[tokio::test(start_paused = true)]
async fn a_cluster_of_three_is_restored_from_one_backup_and_grows_to_three_again() {
    let mut cluster = Cluster::found_keeping(3, 21, 5).await;
    cluster.define(2).await;
    let mut known: BTreeMap<u64, BTreeMap<u64, _>> = BTreeMap::new();
    for number in 0..30 {
        let acknowledgement = cluster.write(number, &sale(number % 4)).await;
        known.entry(number % 4).or_default().insert(number, committed(&acknowledgement).clone());
    }
    cluster.agree().await;
    // Any node can make it: one that follows.
    let leader = cluster.leader().await;
    let follower = cluster.running().into_iter().find(|node| *node != leader).unwrap();
    let options = BackupOptions::default();
    let backups = Path::new("backups");
    cluster.engine(follower).backup(backups, options, Arc::new(|_| {})).await.unwrap();
    let disk = cluster.seats[&follower].io.clone();
    cluster.close_all().await;

    // The same disk, another directory, another node of another cluster.
    let mut restored = cluster;
    restored.seat(4, Start::Join);
    let config = restored.config(id(4));
    let mut options = RestoreOptions::new(id(4), "node-4", 1);
    (options.log, options.partitions) = (config.log, config.partitions);
    let io = Arc::new(disk.clone()) as Arc<dyn Io>;
    let report = restore(&io, backups, Path::new("node-4"), &options, &mut |_| {}).unwrap();
    for node in [4, 5, 6] {
        if node > 4 {
            restored.seat(node, Start::Join);
        }
        restored.seats.get_mut(&id(node)).unwrap().cluster = report.cluster;
    }
    restored.seats.get_mut(&id(4)).unwrap().io = disk;
    restored.start(id(4)).await;
    assert_eq!(restored.leader().await, id(4));
    for node in [5, 6] {
        restored.start(id(node)).await;
        let engine = restored.engine(id(4));
        engine.replicator().add_learner(id(node), format!("node-{node}")).await.unwrap();
    }
    let voters = BTreeSet::from([4, 5, 6].map(id));
    restored.engine(id(4)).replicator().change_voters(voters).await.unwrap();
    for number in 0..40 {
        let acknowledgement = restored.write(number, &sale(number % 4)).await;
        let numbers = committed(&acknowledgement).clone();
        let first = known.entry(number % 4).or_default().entry(number).or_insert_with(|| numbers.clone());
        assert_eq!(*first, numbers, "IDEM-1: also after a restore");
    }
    restored.agree().await;
    restored.kill(id(4)).await;
    for number in 40..44 {
        let acknowledgement = restored.write(number, &sale(number % 4)).await;
        known.entry(number % 4).or_default().insert(number, committed(&acknowledgement).clone());
    }
    let leader = restored.leader().await;
    for (workspace, writes) in &known {
        check_history(&restored.engine(leader), *workspace, writes).await;
    }
    restored.close_all().await;
}
