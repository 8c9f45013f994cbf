//! The disk of the replicated log: without it nothing is acknowledged, and nothing that was is lost.

use std::collections::BTreeMap;
use std::time::Duration;

use gapless_engine::{Consistency, Engine, Pipeline, ReadError, WriteError, WriteOptions};
use gapless_partition::Write;
use gapless_types::LogIndex;

use crate::disk::{Disk, Trouble};
use crate::harness::{committed, eventually, key, sale, shop, try_write, view};
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

/// Hands over writes one after the other, and lets everybody else run as long as there is something to do.
async fn submit(pipeline: &mut Pipeline, count: usize) {
    for _ in 0..count {
        let number = pipeline.len() as u64;
        pipeline.submit("shop", key(number), &sale(number)).await.unwrap();
    }
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// One thread runs all tasks, so that what is handed over in a row is there when the next one runs.
#[tokio::test]
async fn while_an_entry_is_synced_the_next_one_gathers_until_it_is_as_large() {
    let disk = Disk::default();
    let engine = found(&disk, 8).await;
    disk.hurt("consensus", Trouble::Stalls);
    let mut pipeline = engine.pipeline(WriteOptions { patience: PATIENT });
    submit(&mut pipeline, 4).await;
    eventually("the first entry waits for its disk", || disk.stalled() > 0).await;
    assert_eq!(engine.in_flight(), 4, "nothing was on its way");
    for (count, proposed) in [(1, 4), (2, 4), (1, 8), (3, 8)] {
        submit(&mut pipeline, count).await;
        assert_eq!(engine.in_flight(), proposed, "{} were handed over", pipeline.len());
    }
    disk.heal("consensus");
    let mut entries = BTreeMap::<LogIndex, Vec<u64>>::new();
    while let Some((number, ended)) = pipeline.next().await {
        entries.entry(committed(&ended.unwrap()).log_index).or_default().push(number);
    }
    let mut entries: Vec<Vec<u64>> = entries.into_values().collect();
    entries.iter_mut().for_each(|numbers| numbers.sort_unstable());
    assert_eq!(entries, [vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![8, 9, 10]]);
    engine.close().await;
}
