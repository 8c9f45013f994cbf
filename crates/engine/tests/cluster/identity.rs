//! Which cluster a node belongs to: chosen once, kept, and nobody else's.

use std::sync::Arc;
use std::time::Duration;

use gapless_consensus::Start;
use gapless_engine::{ClusterId, Config, Engine, OpenError};
use gapless_log::io::Io;
use gapless_log::io::faulty::FaultyIo;

use crate::harness::{Cluster, eventually, id, sale};

fn alone(disk: &FaultyIo, seed: u64) -> Config {
    let mut config = Config::embedded("node");
    config.io = Arc::new(disk.clone()) as Arc<dyn Io>;
    config.log.drive = gapless_log::Drive::Caller;
    config.on_threads = false;
    config.consensus.seed = seed;
    config
}

async fn cluster_of(config: Config) -> Result<ClusterId, OpenError> {
    let engine = Engine::open(config).await?;
    let cluster = engine.cluster();
    engine.close().await;
    Ok(cluster)
}

#[tokio::test(start_paused = true)]
async fn a_cluster_has_an_id_of_its_own_which_it_keeps() {
    let (disk, other) = (FaultyIo::new(1), FaultyIo::new(2));
    let first = cluster_of(alone(&disk, 1)).await.unwrap();
    assert_ne!(first, ClusterId::from_bytes([0; 16]));
    assert_ne!(cluster_of(alone(&other, 2)).await.unwrap(), first, "another one by chance");
    assert_eq!(cluster_of(alone(&disk, 7)).await.unwrap(), first, "chance has no say any more");
    disk.memory().power_cut();
    assert_eq!(cluster_of(alone(&disk, 8)).await.unwrap(), first, "it was on disk before anything else");
    let mut wrong = alone(&disk, 1);
    wrong.cluster = Some(ClusterId::from_bytes([9; 16]));
    let refused = cluster_of(wrong).await.unwrap_err();
    assert!(matches!(refused, OpenError::AnotherCluster { stored, .. } if stored == first), "{refused}");
    let mut given = alone(&FaultyIo::new(3), 1);
    given.cluster = Some(ClusterId::from_bytes([9; 16]));
    assert_eq!(cluster_of(given).await.unwrap(), ClusterId::from_bytes([9; 16]));
}

#[tokio::test(start_paused = true)]
async fn who_joins_has_to_be_told_which_cluster() {
    let mut config = alone(&FaultyIo::new(1), 1);
    config.start = Start::Join;
    assert!(matches!(Engine::open(config).await, Err(OpenError::Configuration(_))));
}

#[tokio::test(start_paused = true)]
async fn a_node_of_another_cluster_at_the_address_of_a_member_gets_nothing() {
    let mut cluster = Cluster::found(3, 9).await;
    cluster.define(1).await;
    let leader = cluster.leader().await;
    let away = cluster.running().into_iter().find(|node| *node != leader).unwrap();
    cluster.kill(away).await;
    cluster.seat(away.get(), Start::Join);
    cluster.seats.get_mut(&away).unwrap().cluster = ClusterId::from_bytes([9; 16]);
    cluster.start(away).await;
    for number in 0..20 {
        cluster.write(number, &sale(0)).await;
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    let progress = *cluster.engine(away).replicator().progress().borrow();
    assert_eq!((progress.appended, progress.snapshot), (None, None), "nothing of another cluster came in");
    eventually("the others go on", || cluster.engine(id(leader.get())).in_flight() == 0).await;
    cluster.close_all().await;
}
