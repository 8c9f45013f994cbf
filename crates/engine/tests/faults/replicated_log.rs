//! The disk of the replicated log: without it nothing is acknowledged, and nothing that was is lost.

use std::time::Duration;

use gapless_engine::{Consistency, Engine, ReadError, WriteError};
use gapless_partition::Write;

use crate::disk::{Disk, Trouble};
use crate::harness::{committed, eventually, sale, shop, try_write, view};
use crate::{Acknowledged, PATIENT, config, found, open, partition};

/// Large enough that a few of them fill a segment.
static LARGE: [u8; 50_000] = [7; 50_000];

async fn open_with_patience(disk: &Disk, full_disk_patience: Duration) -> Engine {
    let mut config = config(disk);
    config.consensus.full_disk_patience = full_disk_patience;
    let engine = Engine::open(config).await.unwrap();
    engine.wait_for_leader().await;
    engine.define(shop(2)).await.unwrap();
    engine
}

fn write_many(
    engine: &Engine,
    numbers: std::ops::Range<u64>,
) -> Vec<(u64, tokio::task::JoinHandle<Result<gapless_engine::Acknowledgement, WriteError>>)> {
    let write = |number| {
        let engine = engine.clone();
        let write = Write { payload: &LARGE, ..sale(0) };
        (number, tokio::spawn(async move { try_write(&engine, number, &write, PATIENT).await }))
    };
    numbers.map(write).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_waited_for() {
    let disk = Disk::default();
    let engine = open_with_patience(&disk, PATIENT).await;
    disk.hurt("consensus", Trouble::IsFull);
    let writes = write_many(&engine, 0..24);
    eventually("some wait for room", || engine.in_flight() > 0 && disk.refused() > 0).await;
    disk.heal("consensus");
    let mut offsets = Vec::new();
    for (_, write) in writes {
        offsets.push(committed(&write.await.unwrap().unwrap()).workspace_offset.get());
    }
    offsets.sort_unstable();
    assert!(offsets.into_iter().eq(1..=24), "NUM-1");
    assert_eq!(engine.in_flight(), 0);
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_stays_full_stops_the_node_and_nothing_acknowledged_is_lost() {
    let disk = Disk::default();
    let engine = open_with_patience(&disk, Duration::from_millis(50)).await;
    disk.hurt("consensus", Trouble::IsFull);
    let mut kept = Vec::new();
    for (number, write) in write_many(&engine, 0..24) {
        match write.await.unwrap() {
            Ok(acknowledgement) => kept.push((number, acknowledgement)),
            Err(refused) => assert!(matches!(refused, WriteError::Stopped { .. }), "{refused}"),
        }
    }
    assert!(kept.len() < 24);
    engine.close().await;
    disk.memory.power_cut();
    disk.heal("consensus");
    let engine = open(&disk).await;
    for (number, first) in kept {
        let write = Write { payload: &LARGE, ..sale(0) };
        let again = try_write(&engine, number, &write, PATIENT).await.unwrap();
        assert_eq!(again.outcome, first.outcome, "ACK-1");
    }
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_sync_stops_the_node_which_says_so_and_nothing_acknowledged_is_lost() {
    let disk = Disk::default();
    let engine = found(&disk, 2).await;
    let mut acknowledged = Acknowledged::default();
    acknowledged.write_all(&engine, 0..30, &[0, 1]).await;
    disk.hurt("consensus", Trouble::FailsToSync);
    let refused = acknowledged.write(&engine, 100, 0).await.unwrap_err();
    assert!(matches!(&refused, WriteError::Stopped { .. }), "{refused}");
    assert!(engine.replicator().leadership().borrow().stopped.is_some());
    // From now on it is told without waiting for anything.
    let refused = try_write(&engine, 101, &sale(0), Duration::ZERO).await.unwrap_err();
    assert!(matches!(&refused, WriteError::Stopped { .. }), "{refused}");
    let read = view(&engine, partition(&engine, 0), Consistency::Linearizable).await.unwrap_err();
    assert!(matches!(&read, ReadError::Stopped { .. }), "{read}");
    view(&engine, partition(&engine, 0), Consistency::Stale).await.unwrap();
    assert_eq!(engine.in_flight(), 0, "whoever was told left nothing behind");
    tokio::time::timeout(PATIENT, engine.close()).await.expect("closing comes to an end");
    disk.memory.power_cut();
    disk.heal("consensus");
    let engine = open(&disk).await;
    acknowledged.check(&engine).await;
    acknowledged.insist(&engine, 100, 0).await;
    acknowledged.check(&engine).await;
    engine.close().await;
}
