//! ISO-1: a disk that fails, stalls or is full, and a store that cannot be trusted, stop one partition alone.

use std::time::Duration;

use gapless_engine::{Consistency, Engine, ReadOptions, WriteError, WriteOptions};
use gapless_partition::{Entry, Write};
use gapless_store::{Batch, Budget, Offset, Store, Synced};
use gapless_types::WorkspaceId;

use crate::disk::{Disk, Trouble};
use crate::harness::{eventually, key, sale, shop, shop_named, try_write, view};
use crate::{
    Acknowledged, PATIENT, becomes, config, directory, discard_store, found, is_failed, is_serving, open,
    partition, partition_dir, report, state,
};

/// Writes to every workspace but 1, and counts the outcomes.
async fn write_to_others(
    engine: &Engine,
    acknowledged: &mut Acknowledged,
    numbers: std::ops::Range<u64>,
) -> usize {
    let mut outcomes = 0;
    for number in numbers {
        let workspace = [0, 2, 3][usize::try_from(number % 3).unwrap()];
        outcomes += usize::from(acknowledged.write(engine, number, workspace).await.is_ok());
    }
    for workspace in [0, 2, 3] {
        let report = || report(engine, workspace);
        // What is counted is told a moment after the outcome.
        eventually("ISO-1: nothing waits for them", || report().queued_entries == 0).await;
        let report = report();
        let counts = (report.detachments, report.reopenings, report.is_stuck);
        assert_eq!(counts, (0, 0, false), "ISO-1: nothing ever waited for partition {workspace}");
    }
    outcomes
}

/// Writes to workspace 1 until its partition says that it failed; gives the number behind the last one.
async fn write_until_failed(engine: &Engine, acknowledged: &mut Acknowledged, first: u64) -> u64 {
    for number in first..first + 3000 {
        if is_failed(&state(engine, 1)) {
            return number;
        }
        let _ = acknowledged.write_within(engine, number, 1, Duration::from_millis(100)).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it never failed");
}

/// Stalls the disk of partition 1, and writes so much to it that it has to wait: a checkpoint that waits for the disk alone does not
/// keep outcomes from being applied. What is written behind this has no outcome until the disk is well.
async fn stall(engine: &Engine, disk: &Disk) {
    disk.hurt(&directory(1), Trouble::Stalls);
    eventually("it waits for its disk", || disk.stalled() > 0).await;
    let payload = vec![7; 1 << 20];
    let mut pipeline = engine.pipeline(WriteOptions { patience: PATIENT });
    for number in 0..8 {
        let large = Write { payload: &payload, ..sale(5) };
        pipeline.submit("shop", key(50_000 + number), &large).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_disk_fails_and_the_others_do_not_notice() {
    for trouble in [Trouble::Fails, Trouble::FailsToSync] {
        let disk = Disk::default();
        let engine = found(&disk, 4).await;
        let mut acknowledged = Acknowledged::default();
        acknowledged.write_all(&engine, 0..50, &[1]).await;
        disk.hurt(&directory(1), trouble);
        let end = write_until_failed(&engine, &mut acknowledged, 50).await;
        assert!(engine.alarms().iter().any(|alarm| alarm.contains("failed")), "{:?}", engine.alarms());
        let outcomes = write_to_others(&engine, &mut acknowledged, 10_000..10_300).await;
        assert_eq!(outcomes, 300, "ISO-1: {trouble:?}");
        let refused = try_write(&engine, 9000, &sale(1), Duration::from_millis(200)).await;
        assert!(refused.is_err(), "{refused:?}");
        assert!(engine.alarms().len() < 20, "what happens again is told once: {:?}", engine.alarms());
        disk.heal(&directory(1));
        becomes(&engine, 1, "it serves again", is_serving).await;
        for number in (0..end).chain([9000]) {
            acknowledged.insist(&engine, number, 1).await;
        }
        acknowledged.check_for_good(engine, &disk).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_without_room_for_one_partition_costs_a_checkpoint_and_nothing_else() {
    let disk = Disk::default();
    let engine = found(&disk, 4).await;
    let mut acknowledged = Acknowledged::default();
    disk.hurt(&directory(1), Trouble::IsFull);
    acknowledged.write(&engine, 1, 1).await.unwrap();
    eventually("it is told", || engine.alarms().iter().any(|alarm| alarm.contains("no checkpoint"))).await;
    assert_eq!(write_to_others(&engine, &mut acknowledged, 100..200).await, 100);
    for number in 2..20 {
        acknowledged.insist(&engine, number, 1).await;
    }
    disk.heal(&directory(1));
    eventually("it has a checkpoint", || {
        let marks = report(&engine, 1).marks;
        marks.checkpoint == marks.applied
    })
    .await;
    acknowledged.check(&engine).await;
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_stream_those_that_wait_for_a_stalled_disk_run_out_of_patience_and_the_others_are_answered() {
    let disk = Disk::default();
    let engine = found(&disk, 4).await;
    let mut acknowledged = Acknowledged::default();
    acknowledged.write_all(&engine, 0..20, &[1]).await;
    stall(&engine, &disk).await;
    let of = |number: u64| if number.is_multiple_of(2) { 1 } else { 2 };
    // On a busy machine it takes more patience to be answered. No patience is enough for the disk.
    let (mut first, mut answered) = (100, 0);
    for patience in [300, 3000, 30_000].map(Duration::from_millis) {
        let mut pipeline = engine.pipeline(WriteOptions { patience });
        for number in first..first + 40 {
            pipeline.submit("shop", key(number), &sale(of(number))).await.unwrap();
        }
        let mut late = 0;
        answered = 0;
        while let Some((number, ended)) = pipeline.next().await {
            match (of(number), ended) {
                (2, Ok(_)) => answered += 1,
                (of, ended) => {
                    assert_eq!(ended.unwrap_err(), WriteError::DeadlineExceeded);
                    late += u64::from(of == 1);
                }
            }
        }
        assert_eq!(late, 20);
        first += 40;
        if answered == 20 {
            break;
        }
    }
    assert_eq!(answered, 20, "ISO-1");
    disk.heal(&directory(1));
    for number in 100..first {
        acknowledged.insist(&engine, number, of(number)).await;
    }
    acknowledged.check(&engine).await;
    assert_eq!(engine.in_flight(), 0);
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_disk_stalls_its_queue_fills_and_it_catches_up_from_the_replicated_log() {
    let disk = Disk::default();
    let mut config = config(&disk);
    config.queue.entries = 8;
    let engine = Engine::open(config).await.unwrap();
    engine.wait_for_leader().await;
    engine.define(shop(4)).await.unwrap();
    let mut acknowledged = Acknowledged::default();
    acknowledged.write_all(&engine, 0..20, &[1]).await;
    stall(&engine, &disk).await;
    // These are in the replicated log and have no outcome: their callers go away, they do not.
    let detached = || report(&engine, 1).detachments;
    let mut end = 100;
    // On a busy machine some of them may be given up before they are on their way.
    while end < 140 || detached() == 0 {
        let gone = acknowledged.write_within(&engine, end, 1, Duration::from_millis(10)).await;
        assert_eq!(gone, Err(WriteError::DeadlineExceeded));
        end += 1;
        assert!(end < 10_000, "its queue is never full");
    }
    // Readers that wait for it hold up nobody else, however many they are.
    let readers: Vec<_> = (0..600)
        .map(|_| {
            let (engine, one) = (engine.clone(), partition(&engine, 1));
            let options =
                ReadOptions { consistency: Consistency::Stale, patience: Duration::from_millis(50) };
            tokio::spawn(async move { engine.view(one, options).await })
        })
        .collect();
    for reader in readers {
        assert!(reader.await.unwrap().is_err());
    }
    assert_eq!(write_to_others(&engine, &mut acknowledged, 10_000..10_300).await, 300, "ISO-1");
    // Neither do housekeeping and changes of the catalog wait for it.
    engine.define(shop_named("other", 2)).await.unwrap();
    disk.heal(&directory(1));
    for number in 100..end {
        acknowledged.insist(&engine, number, 1).await;
    }
    becomes(&engine, 1, "it serves again", is_serving).await;
    acknowledged.check(&engine).await;
    assert_eq!(engine.in_flight(), 0);
    assert_eq!(detached(), 1);
    let caught_up = digest(&engine, 1).await;
    engine.close().await;
    // Applied once more, by a partition that has nothing but the log, it is the same.
    discard_store(&disk, 1);
    let engine = open(&disk).await;
    becomes(&engine, 1, "it serves", is_serving).await;
    assert_eq!(digest(&engine, 1).await, caught_up, "NUM-3");
    engine.close().await;
}

async fn digest(engine: &Engine, workspace: u64) -> Vec<(String, Vec<u8>, Vec<u8>)> {
    let one = partition(engine, workspace);
    crate::harness::rows(&view(engine, one, Consistency::Linearizable).await.unwrap())
}

/// Puts a row where the next event of workspace 1 goes, behind the back of its partition.
fn plant(disk: &Disk, id: gapless_types::PartitionId, events: u64) {
    let io: std::sync::Arc<dyn gapless_log::io::Io> = std::sync::Arc::new(disk.clone());
    let dir = partition_dir(1).join("store");
    let (mut store, _) =
        Store::open(io, dir, gapless_store::Options::default(), &Budget::new(1 << 20, 1 << 20)).unwrap();
    let offset = Offset::new(store.checkpoint_offset().get());
    let mut batch = Batch::new();
    batch.put(&Entry::Event(WorkspaceId::new(1), events + 1).key(id), b"foreign").unwrap();
    store.apply(&batch).unwrap();
    store.checkpoint(offset, Synced::by_a_sync_up_to(offset)).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quarantined_partition_is_read_refuses_writes_and_holds_nobody_up() {
    let disk = Disk::default();
    let engine = found(&disk, 4).await;
    let mut acknowledged = Acknowledged::default();
    acknowledged.write_all(&engine, 0..20, &[1]).await;
    let one = partition(&engine, 1);
    engine.close().await;
    plant(&disk, one, 20);
    let mut config = config(&disk);
    config.housekeeping.keep_entries = 20;
    let engine = Engine::open(config).await.unwrap();
    engine.wait_for_leader().await;
    for partition in 0..4 {
        becomes(&engine, partition, "it serves", is_serving).await;
    }
    let found = try_write(&engine, 100, &sale(1), PATIENT).await;
    assert!(matches!(found, Err(WriteError::Quarantined { partition, .. }) if partition == one), "{found:?}");
    let refused = try_write(&engine, 101, &sale(1), PATIENT).await;
    assert!(matches!(refused, Err(WriteError::Quarantined { .. })), "{refused:?}");
    assert_eq!(engine.in_flight(), 0, "whoever waited was told, and left nothing behind");
    let stale = view(&engine, one, Consistency::Stale).await.unwrap();
    assert_eq!(stale.applied().unwrap().get(), 21, "a definition and 20 events");
    // What was committed and could not be applied keeps a linearizable read from being answered, at once and with the reason.
    let unread = view(&engine, one, Consistency::Linearizable).await.unwrap_err();
    assert!(unread.to_string().contains("quarantined"), "{unread}");
    assert_eq!(write_to_others(&engine, &mut acknowledged, 10_000..10_300).await, 300, "ISO-1");
    engine.define(shop_named("other", 2)).await.unwrap();
    assert!(engine.alarms().iter().any(|alarm| alarm.contains("quarantined")));
    engine.close().await;
}
