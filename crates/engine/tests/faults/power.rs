//! The power goes at every operation of the disk of a node: in the life of one that is alone, and while a snapshot is installed.

use std::sync::Arc;
use std::time::Duration;

use gapless_engine::{Config, Engine};
use gapless_log::Drive;
use gapless_log::io::Io;
use gapless_log::io::faulty::{Crash, FaultyIo};

use crate::harness::{Cluster, check_history, committed, eventually, sale, shop, shop_named};
use crate::{Acknowledged, partition};

pub(crate) fn config(disk: &FaultyIo) -> Config {
    let mut config = Config::embedded("node");
    config.io = Arc::new(disk.clone()) as Arc<dyn Io>;
    config.log.drive = Drive::Caller;
    config.log.segment_bytes = 64 << 10;
    config.log.first_segment_bytes = 64 << 10;
    config.partitions.log.segment_bytes = 64 << 10;
    config.partitions.log.first_segment_bytes = 64 << 10;
    config.housekeeping.keep_entries = 4;
    config.housekeeping.checkpoint_interval = Duration::from_millis(200);
    config.on_threads = false;
    config
}

/// Something that comes to its end, whatever the disk does.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let ended = tokio::time::timeout(Duration::from_secs(3600), future).await;
    ended.unwrap_or_else(|_| panic!("it never came to its end: {what}"))
}

/// Defines, writes, makes checkpoints, freezes, drops, cuts and closes, twice; as far as the power lets it.
async fn live(disk: &FaultyIo, acknowledged: &mut Acknowledged, from: u64) {
    let patience = Duration::from_secs(1);
    let Ok(engine) = within("opening", Engine::open(config(disk))).await else { return };
    within("an election", engine.wait_for_leader()).await;
    let _ = engine.define(shop(3)).await;
    for number in from..from + 6 {
        let _ = acknowledged.write_within(&engine, number, number % 4, patience).await;
    }
    // Checkpoints are made, and the log is cut.
    tokio::time::sleep(Duration::from_millis(450)).await;
    if disk.has_power() && engine.namespace("shop").is_some() {
        let frozen = partition(&engine, 2);
        let _ = engine.freeze(frozen).await;
        let _ = engine.define(shop_named("other", 2)).await;
        let _ = engine.drop_namespace("other").await;
        for number in from + 6..from + 12 {
            let _ = acknowledged.write_within(&engine, number, number % 4, patience).await;
        }
        let _ = engine.thaw(frozen).await;
        tokio::time::sleep(Duration::from_millis(450)).await;
        let _ = acknowledged.write_within(&engine, from + 12, 0, patience).await;
    }
    if disk.has_power() {
        within("closing", engine.close()).await;
    }
    within("killing", engine.kill()).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_acknowledged_is_lost_when_the_power_goes_at_any_operation() {
    let operations = {
        let (disk, mut acknowledged) = (FaultyIo::new(0), Acknowledged::default());
        live(&disk, &mut acknowledged, 0).await;
        live(&disk, &mut acknowledged, 100).await;
        assert!(acknowledged.0.values().map(|writes| writes.len()).sum::<usize>() > 20, "{acknowledged:?}");
        disk.operations()
    };
    assert!(operations > 200, "{operations} operations");
    for number in 1..=operations {
        let style = Crash::ALL[usize::try_from(number).unwrap() % Crash::ALL.len()];
        println!("power cut at operation {number} of {operations}, {style:?}");
        let (disk, mut acknowledged) = (FaultyIo::new(number), Acknowledged::default());
        disk.cut_at(number);
        live(&disk, &mut acknowledged, 0).await;
        if disk.has_power() {
            live(&disk, &mut acknowledged, 100).await;
        }
        disk.restart(style);
        let engine = within("opening again", Engine::open(config(&disk))).await.unwrap();
        within("an election", engine.wait_for_leader()).await;
        engine.define(shop(3)).await.unwrap();
        engine.thaw(partition(&engine, 2)).await.unwrap();
        for workspace in 0..4 {
            let writes = acknowledged.0.entry(workspace).or_default().clone();
            check_history(&engine, workspace, &writes).await;
        }
        for write in (0..13).chain(100..113) {
            let workspace = if write % 100 == 12 { 0 } else { write % 4 };
            acknowledged.insist(&engine, write, workspace).await;
        }
        acknowledged.check(&engine).await;
        engine.close().await;
    }
}

/// What a node has of the snapshot that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Has {
    /// No partition at all.
    Nothing,
    /// The beginning of each partition.
    Beginnings,
    /// The same, but the log of one partition is gone.
    OneDamaged,
    /// A namespace that was dropped meanwhile, while another one was made.
    AnotherNamespace,
}

impl Has {
    /// The directories of the partitions once everything is installed, and what was replaced is removed.
    fn directories(self) -> &'static [&'static str] {
        match self {
            Self::Nothing => &["16-0.1", "16-1.1"],
            Self::Beginnings => &["16-0", "16-1"],
            Self::OneDamaged => &["16-0", "16-1.1"],
            Self::AnotherNamespace => &["16-0", "16-1", "18-0.1"],
        }
    }
}

fn directories(cluster: &Cluster, node: gapless_engine::NodeId) -> Vec<String> {
    let disk = cluster.seats[&node].io.memory().clone();
    let mut names = disk.list_dirs(std::path::Path::new(&format!("node-{node}/partitions"))).unwrap();
    names.sort_unstable();
    names
}

/// A cluster of which one node needs a snapshot and is not running.
async fn with_one_far_behind(has: Has) -> (Cluster, gapless_engine::NodeId) {
    let mut cluster = Cluster::found_retaining(3, 5, 5, 1).await;
    let leader = cluster.leader().await;
    let away = cluster.running().into_iter().find(|node| *node != leader).unwrap();
    if has == Has::Nothing {
        cluster.kill(away).await;
    }
    cluster.define(2).await;
    for number in 0..4 {
        cluster.write(number, &sale(number % 2)).await;
    }
    if has == Has::AnotherNamespace {
        cluster.engine(leader).define(shop_named("other", 1)).await.unwrap();
    }
    if has != Has::Nothing {
        cluster.agree().await;
        eventually("it has a checkpoint of each partition", || {
            let reports = cluster.engine(away).partitions();
            reports.iter().all(|report| report.marks.checkpoint == report.marks.highest)
        })
        .await;
        cluster.kill(away).await;
    }
    if has == Has::AnotherNamespace {
        cluster.engine(leader).drop_namespace("other").await.unwrap();
        cluster.engine(leader).define(shop_named("third", 1)).await.unwrap();
    }
    if has == Has::OneDamaged {
        let (disk, dir) = (&cluster.seats[&away].io, format!("node-{away}/partitions/16-1/log"));
        let dir = std::path::Path::new(&dir);
        for name in disk.list(dir).unwrap() {
            disk.remove(&dir.join(name)).unwrap();
        }
        disk.sync_dir(dir).unwrap();
    }
    for number in 4..40 {
        cluster.write(number, &sale(number % 2)).await;
    }
    cluster.cut_beyond(leader, 20).await;
    (cluster, away)
}

/// Waits until a node has the partitions that there are, and everybody agrees.
async fn agree(cluster: &Cluster, away: gapless_engine::NodeId) {
    let leader = cluster.engine(cluster.leader().await);
    let partitions =
        |engine: &Engine| engine.partitions().iter().map(|report| report.partition).collect::<Vec<_>>();
    eventually("it has the partitions that there are", || {
        partitions(&cluster.engine(away)) == partitions(&leader)
    })
    .await;
    cluster.agree().await;
}

/// Cuts the power of a node at every operation while it installs a snapshot.
async fn cut_while_installing(has: Has) {
    for number in 1.. {
        let (mut cluster, away) = with_one_far_behind(has).await;
        let disk = cluster.seats[&away].io.clone();
        disk.reset_operations();
        disk.cut_at(number);
        let style = Crash::ALL[usize::try_from(number).unwrap() % Crash::ALL.len()];
        println!("{has:?}: power cut at operation {number}, {style:?}");
        let mut installed = false;
        if cluster.try_start(away).await {
            eventually("it has a snapshot, or no power", || {
                installed = cluster.engine(away).replicator().statistics().snapshots_installed > 0;
                installed || !disk.has_power()
            })
            .await;
            if disk.has_power() {
                agree(&cluster, away).await;
            }
            cluster.kill(away).await;
        }
        let complete = disk.has_power();
        disk.cancel_faults();
        disk.restart(style);
        cluster.start(away).await;
        agree(&cluster, away).await;
        let acknowledgement = cluster.write(100, &sale(1)).await;
        assert_eq!(committed(&acknowledgement).numbers[0].1, 21);
        cluster.agree().await;
        if complete {
            eventually("what the snapshot replaced is removed", || {
                directories(&cluster, away) == has.directories()
            })
            .await;
        }
        cluster.close_all().await;
        if complete {
            assert!(installed && number > 20, "{number} operations");
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_power_goes_while_it_installs_a_snapshot_has_all_of_it_or_none() {
    cut_while_installing(Has::Beginnings).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_with_nothing_whose_power_goes_while_it_installs_a_snapshot_has_all_of_it_or_none() {
    cut_while_installing(Has::Nothing).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_with_a_damaged_log_whose_power_goes_while_it_installs_a_snapshot_is_well_again() {
    cut_while_installing(Has::OneDamaged).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_power_goes_while_a_snapshot_brings_and_takes_namespaces_has_all_of_it_or_none() {
    cut_while_installing(Has::AnotherNamespace).await;
}
