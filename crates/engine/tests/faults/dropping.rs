//! A namespace that was dropped leaves nothing on disk, whenever the power goes.

use std::path::Path;

use gapless_engine::Engine;
use gapless_log::io::Io;
use gapless_log::io::faulty::{Crash, FaultyIo};
use gapless_types::WorkspaceId;

use crate::harness::{eventually, key, sale, shop, shop_named, try_write};
use crate::power::{config, within};
use crate::{Acknowledged, PATIENT};

async fn open(disk: &FaultyIo) -> Engine {
    let engine = within("opening", Engine::open(config(disk))).await.unwrap();
    within("an election", engine.wait_for_leader()).await;
    engine
}

/// Directories of partitions; none if the disk has no power.
fn partitions(disk: &FaultyIo) -> Option<Vec<String>> {
    disk.list_dirs(Path::new("node/partitions")).ok()
}

/// Only those of the namespace that stays.
fn is_gone(disk: &FaultyIo) -> bool {
    partitions(disk).is_some_and(|found| found == ["16-0", "16-1"])
}

/// Two namespaces with events and checkpoints, on a disk and in an engine.
async fn with_two_namespaces(seed: u64) -> (FaultyIo, Engine, Acknowledged) {
    let (disk, mut acknowledged) = (FaultyIo::new(seed), Acknowledged::default());
    let engine = open(&disk).await;
    engine.define(shop(2)).await.unwrap();
    engine.define(shop_named("other", 3)).await.unwrap();
    for number in 0..6 {
        acknowledged.write(&engine, number, number % 2).await.unwrap();
        let options = gapless_engine::WriteOptions { patience: PATIENT };
        engine.write("other", key(number), &sale(number % 3), options).await.unwrap();
    }
    let checkpoints = ["16-0", "16-1", "17-0", "17-1", "17-2"]
        .map(|partition| Path::new("node/partitions").join(partition).join("store"));
    eventually("all have checkpoints", || {
        checkpoints.iter().all(|store| disk.list(store).is_ok_and(|files| !files.is_empty()))
    })
    .await;
    (disk, engine, acknowledged)
}

#[tokio::test(start_paused = true)]
async fn a_dropped_namespace_is_gone_from_the_disk_whenever_the_power_goes() {
    for number in 1.. {
        let (disk, engine, mut acknowledged) = with_two_namespaces(number).await;
        let style = Crash::ALL[usize::try_from(number).unwrap() % Crash::ALL.len()];
        println!("power cut at operation {number}, {style:?}");
        disk.reset_operations();
        disk.cut_at(number);
        let dropped = engine.drop_namespace("other").await;
        eventually("it is gone, or the power is", || is_gone(&disk) || !disk.has_power()).await;
        // What is told to the catalog on disk is over, too.
        tokio::time::sleep(config(&disk).housekeeping.checkpoint_interval * 3).await;
        within("killing", engine.kill()).await;
        let complete = disk.has_power();
        disk.cancel_faults();
        disk.restart(style);
        assert!(!complete || is_gone(&disk), "what is gone stays gone");
        let engine = open(&disk).await;
        let stands = engine.namespace("other").is_some();
        assert!(dropped.is_err() || !stands, "a drop that was acknowledged is not taken back");
        if stands {
            engine.drop_namespace("other").await.unwrap();
        }
        eventually("nothing of it is left", || is_gone(&disk)).await;
        assert_eq!(engine.partition_of("other", WorkspaceId::new(0)), None);
        // Numbers of the next namespace of this name, and its directories, are new.
        engine.define(shop_named("other", 1)).await.unwrap();
        eventually("it has a directory", || {
            partitions(&disk).is_some_and(|found| found == ["16-0", "16-1", "18-0"])
        })
        .await;
        acknowledged.check(&engine).await;
        try_write(&engine, 1000, &sale(0), PATIENT).await.unwrap();
        engine.close().await;
        if complete {
            assert!(number > 20, "{number} operations");
            return;
        }
    }
}
