//! An engine of its own: it writes, recalls, reads, follows, is closed and opened again.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gapless_engine::admission::{AdmissionError, Limit, Overloaded, Scope, Signal};
use gapless_engine::{
    Acknowledgement, CatalogError, Config, Consistency, Engine, Follow, ReadError, ReadOptions, Target,
    WriteError, WriteOptions,
};
use gapless_log::io::Io;
use gapless_log::io::memory::MemoryIo;
use gapless_partition::{Committed, Definition, Direction, Operation, Outcome, RefusalCode, Write};
use gapless_types::{
    ClientId, IdempotencyKey, Name, PartitionId, PartitionOffset, WorkspaceId, WorkspaceOffset,
};

fn config(io: &Arc<MemoryIo>) -> Config {
    let mut config = Config::embedded("node");
    config.io = Arc::clone(io) as Arc<dyn Io>;
    config.log.segment_bytes = 1 << 20;
    config.partitions.log.segment_bytes = 1 << 20;
    config.housekeeping.checkpoint_interval = Duration::from_millis(50);
    config
}

async fn open(io: &Arc<MemoryIo>) -> Engine {
    let engine = Engine::open(config(io)).await.unwrap();
    engine.wait_for_leader().await;
    engine.wait_until_actualized().await;
    engine
}

fn shop(partitions: u16) -> Definition {
    let mut shop = Definition::new(Name::new("shop").unwrap(), NonZeroU16::new(partitions).unwrap());
    shop.kinds.entry(Name::new("default").unwrap()).or_default().insert(Name::new("invoice").unwrap(), 1);
    shop
}

fn key(number: u64) -> IdempotencyKey {
    let mut key = [7; 16];
    key[..8].copy_from_slice(&number.to_le_bytes());
    IdempotencyKey::new(key).unwrap()
}

fn sale(workspace: u64) -> Write<'static> {
    Write {
        payload: b"{}",
        operations: vec![Operation::NextNumber { sequence: "invoice" }],
        ..Write::new(WorkspaceId::new(workspace), "till", "ItemSold")
    }
}

async fn write(engine: &Engine, number: u64, write: &Write<'_>) -> Result<Acknowledgement, WriteError> {
    engine.write("shop", key(number), write, WriteOptions::default()).await
}

fn committed(acknowledgement: &Acknowledgement) -> &Committed {
    match &*acknowledgement.outcome {
        Outcome::Committed(committed) => committed,
        other => panic!("{other:?}"),
    }
}

fn is_reuse(acknowledgement: &Acknowledgement) -> bool {
    let code = RefusalCode::IdempotencyKeyReused;
    matches!(&*acknowledgement.outcome, Outcome::Refused(refusal) if refusal.code == code)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_are_dense_retries_get_the_first_and_a_restart_changes_nothing() {
    let io = Arc::new(MemoryIo::new());
    let engine = open(&io).await;
    engine.define(shop(4)).await.unwrap();
    let mut first = Vec::new();
    for number in 1..=20 {
        let acknowledgement = write(&engine, number, &sale(5)).await.unwrap();
        assert!(!acknowledgement.duplicate);
        let numbers = committed(&acknowledgement);
        assert_eq!(numbers.workspace_offset.get(), number);
        assert_eq!(numbers.numbers[0].1, number);
        first.push(acknowledgement.outcome.clone());
    }
    let again = write(&engine, 3, &sale(5)).await.unwrap();
    assert!(again.duplicate);
    assert_eq!(again.outcome, first[2]);
    let other = Write { payload: b"other", ..sale(5) };
    assert!(is_reuse(&write(&engine, 3, &other).await.unwrap()));
    engine.close().await;

    let engine = open(&io).await;
    assert!(
        is_reuse(&write(&engine, 4, &other).await.unwrap()),
        "the partition decides, not a memory of this process"
    );
    for (number, outcome) in (1..).zip(&first) {
        let again = write(&engine, number, &sale(5)).await.unwrap();
        assert!(again.duplicate);
        assert_eq!(again.outcome, *outcome, "write {number}");
    }
    assert!(is_reuse(&write(&engine, 4, &other).await.unwrap()));
    let next = write(&engine, 100, &sale(5)).await.unwrap();
    assert_eq!(committed(&next).numbers[0].1, 21);
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retries_at_the_same_time_get_the_first_outcome_in_the_same_shape() {
    let io = Arc::new(MemoryIo::new());
    let engine = open(&io).await;
    engine.define(shop(1)).await.unwrap();
    let first = write(&engine, 1, &sale(5)).await.unwrap();
    engine.close().await;
    // Nothing is recalled any more: one of them is proposed and comes back as a duplicate, the others wait for it.
    let engine = open(&io).await;
    let sale = sale(5);
    for again in futures_util::future::join_all((0..4).map(|_| write(&engine, 1, &sale))).await {
        let again = again.unwrap();
        assert!(again.duplicate);
        assert_eq!(again.outcome, first.outcome);
    }
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_kept_of_a_workspace_proves_its_events_and_nothing_else() {
    let io = Arc::new(MemoryIo::new());
    let engine = open(&io).await;
    engine.define(shop(1)).await.unwrap();
    for number in 1..=5 {
        write(&engine, number, &sale(5)).await.unwrap();
    }
    let (workspace, third) = (WorkspaceId::new(5), WorkspaceOffset::new(3).unwrap());
    let kept = engine.head_of("shop", workspace).await.unwrap();
    write(&engine, 6, &sale(5)).await.unwrap();
    let proof = engine.proof_of("shop", workspace, third, kept.size).await.unwrap();
    assert_eq!(proof.event.header().workspace_offset, Some(third));
    proof.verify(&kept).unwrap();
    let now = engine.head_of("shop", workspace).await.unwrap();
    assert!(proof.verify(&now).is_err(), "it is for the head that was kept");
    let sixth = WorkspaceOffset::new(6).unwrap();
    let refused = engine.proof_of("shop", workspace, sixth, kept.size).await.unwrap_err();
    assert_eq!(refused.to_string(), "event 6 is not in a tree of 5 events");
    let stranger = engine.head_of("warehouse", workspace).await.unwrap_err();
    assert!(matches!(stranger, ReadError::Unknown), "{stranger}");
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_writers_share_syncs_and_no_number_is_missing() {
    let io = Arc::new(MemoryIo::new());
    let engine = open(&io).await;
    engine.define(shop(4)).await.unwrap();
    let writers: Vec<_> = (0..64_u64)
        .map(|writer| {
            let engine = engine.clone();
            tokio::spawn(async move {
                for number in 0..20 {
                    write(&engine, writer * 1000 + number, &sale(writer % 7)).await.unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let mut total = 0;
    for workspace in (0..7).map(WorkspaceId::new) {
        let view = engine.view_of("shop", workspace, ReadOptions::default()).await.unwrap();
        let events = view.events(workspace, WorkspaceOffset::FIRST, 10_000, Direction::Forward).unwrap();
        let invoices: Vec<u64> = events.iter().map(|event| event.header().numbers[0].1).collect();
        assert!(invoices.iter().copied().eq(1..=events.len() as u64));
        total += events.len();
    }
    assert_eq!(total, 64 * 20);
    assert_eq!(engine.in_flight(), 0);
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn following_has_no_seam_between_what_was_and_what_comes() {
    let io = Arc::new(MemoryIo::new());
    let engine = open(&io).await;
    let namespace = engine.define(shop(3)).await.unwrap();
    for number in 1..=300 {
        write(&engine, number, &sale(number % 5)).await.unwrap();
    }
    let workspace = WorkspaceId::new(1);
    let partition = engine.partition_of("shop", workspace).unwrap();
    let mut in_workspace =
        engine.follow(Follow::Workspace(partition, workspace, WorkspaceOffset::FIRST)).unwrap();
    let mut in_partition = engine.follow(Follow::Partition(partition, PartitionOffset::FIRST)).unwrap();
    let mut in_namespace =
        engine.follow(Follow::Namespace(namespace, gapless_types::LogIndex::FIRST)).unwrap();
    let writer = {
        let engine = engine.clone();
        tokio::spawn(async move {
            for number in 301..=600 {
                write(&engine, number, &sale(number % 5)).await.unwrap();
            }
        })
    };
    for offset in 1..=120 {
        let event = in_workspace.next().await.unwrap();
        assert_eq!(event.outcome.header().workspace_offset.unwrap().get(), offset);
    }
    for offset in 1..=200 {
        assert_eq!(in_partition.next().await.unwrap().outcome.header().partition_offset.get(), offset);
    }
    let mut last = None;
    for _ in 0..600 {
        let index = in_namespace.next().await.unwrap().outcome.header().log_index;
        assert!(last <= Some(index));
        last = Some(index);
    }
    writer.await.unwrap();
    assert_eq!(in_namespace.try_next().await.unwrap(), None);
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn following_keeps_little_of_long_events_and_what_is_put_back_comes_again() {
    let io = Arc::new(MemoryIo::new());
    let engine = open(&io).await;
    let namespace = engine.define(shop(3)).await.unwrap();
    let long = vec![b'1'; 300 << 10];
    for number in 1..=60 {
        let payload = if number % 4 == 0 { &long[..] } else { b"{}" };
        write(&engine, number, &Write { payload, ..sale(number % 6) }).await.unwrap();
    }
    let workspace = WorkspaceId::new(0);
    let partition = engine.partition_of("shop", workspace).unwrap();
    let everything = || engine.follow(Follow::Namespace(namespace, gapless_types::LogIndex::FIRST)).unwrap();
    let mut whole = Vec::new();
    let mut following = everything();
    assert!(following.is_merged() && !following.is_ahead());
    for _ in 0..60 {
        whole.push(following.next().await.unwrap());
        assert!(following.bytes_ahead() < 300 << 10, "long events are not kept");
    }
    let places: Vec<_> = whole.iter().map(|event| event.outcome.header().log_index).collect();
    assert!(places.is_sorted());
    assert_eq!(whole.iter().filter(|event| event.outcome.bytes().len() > 300 << 10).count(), 15);

    let of_workspace = Follow::Workspace(partition, workspace, WorkspaceOffset::FIRST);
    let in_workspace = |event: &&gapless_engine::Followed| event.outcome.header().workspace == workspace;
    let expected: Vec<_> = whole.iter().filter(in_workspace).cloned().collect();
    for (mut following, expected) in
        [(everything(), &whole), (engine.follow(of_workspace).unwrap(), &expected)]
    {
        let mut was_ahead = 0;
        for (number, event) in expected.iter().enumerate() {
            assert_eq!(following.next().await.unwrap(), *event);
            was_ahead += u32::from(following.is_ahead());
            if number % 3 == 0 {
                following.put_back();
                assert!(!following.is_ahead());
            }
        }
        assert!(was_ahead > 0, "there was something to put back");
        assert_eq!(following.try_next().await.unwrap(), None);
    }
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespaces_and_partitions_come_go_freeze_and_thaw() {
    let io = Arc::new(MemoryIo::new());
    let engine = open(&io).await;
    assert_eq!(write(&engine, 1, &sale(0)).await, Err(WriteError::UnknownNamespace));
    let first = engine.define(shop(2)).await.unwrap();
    assert_eq!(engine.define(shop(2)).await.unwrap(), first);
    let refused = engine.define(shop(3)).await.unwrap_err();
    assert!(matches!(refused, CatalogError::Refused(_)), "{refused:?}");
    let acknowledgement = write(&engine, 1, &sale(0)).await.unwrap();
    assert_eq!(committed(&acknowledgement).numbers[0].1, 1);
    let partition = engine.partition_of("shop", WorkspaceId::new(0)).unwrap();
    engine.freeze(partition).await.unwrap();
    assert_eq!(write(&engine, 2, &sale(0)).await, Err(WriteError::Frozen { partition }));
    write(&engine, 3, &sale(1)).await.unwrap();
    assert!(write(&engine, 1, &sale(0)).await.unwrap().duplicate, "what was decided is known all the same");
    engine.thaw(partition).await.unwrap();
    write(&engine, 2, &sale(0)).await.unwrap();
    engine.drop_namespace("shop").await.unwrap();
    assert_eq!(write(&engine, 2, &sale(0)).await, Err(WriteError::UnknownNamespace));
    let second = engine.define(shop(3)).await.unwrap();
    assert!(second > first);
    let acknowledgement = write(&engine, 2, &sale(0)).await.unwrap();
    assert!(!acknowledgement.duplicate);
    assert_eq!(committed(&acknowledgement).numbers[0].1, 1, "a new life begins at the beginning");
    engine.close().await;
    let engine = open(&io).await;
    let acknowledgement = write(&engine, 9, &sale(0)).await.unwrap();
    assert_eq!(committed(&acknowledgement).numbers[0].1, 2);
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_namespace_leaves_nothing_in_its_directory() {
    let home = tempfile::tempdir().unwrap();
    let mut config = Config::embedded(home.path());
    config.housekeeping.checkpoint_interval = Duration::from_millis(20);
    let engine = Engine::open(config).await.unwrap();
    engine.wait_for_leader().await;
    engine.define(shop(3)).await.unwrap();
    for number in 0..30 {
        write(&engine, number, &sale(number)).await.unwrap();
    }
    let partitions = home.path().join("partitions");
    let found = || std::fs::read_dir(&partitions).unwrap().count();
    assert_eq!(found(), 3);
    engine.drop_namespace("shop").await.unwrap();
    for _ in 0..3000 {
        if found() == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(found(), 0, "{:?}", engine.alarms());
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_was_told_an_offset_reads_his_write_and_barriers_name_what_blocks() {
    let io = Arc::new(MemoryIo::new());
    let engine = open(&io).await;
    engine.define(shop(2)).await.unwrap();
    let acknowledgement = write(&engine, 1, &sale(0)).await.unwrap();
    let numbers = committed(&acknowledgement).clone();
    let options =
        ReadOptions { consistency: Consistency::AtLeast(numbers.partition_offset), ..ReadOptions::default() };
    let view = engine.view(numbers.partition, options).await.unwrap();
    assert_eq!(view.applied(), Some(numbers.partition_offset));
    let client = ClientId::new("till").unwrap();
    engine
        .wait_barrier(
            &client,
            &[(numbers.partition, Target::Index(numbers.log_index))],
            Duration::from_secs(60),
        )
        .await
        .unwrap();
    let beyond = numbers.partition_offset.next().unwrap();
    let blocked = engine
        .wait_barrier(&client, &[(numbers.partition, Target::Offset(beyond))], Duration::from_millis(20))
        .await;
    assert!(blocked.unwrap_err().to_string().contains("is at entry"));
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_of_writes_does_not_wait_for_each_of_them() {
    let io = Arc::new(MemoryIo::new());
    let engine = open(&io).await;
    engine.define(shop(2)).await.unwrap();
    let before = engine.statistics().consensus.log.syncs;
    let mut pipeline = engine.pipeline(WriteOptions::default());
    for number in 1..=500 {
        let submitted = pipeline.submit("shop", key(number), &sale(1)).await.unwrap();
        assert_eq!(submitted + 1, number);
    }
    let again = pipeline.submit("shop", key(7), &sale(1)).await.unwrap();
    assert_eq!(pipeline.len(), 501);
    let mut ended = BTreeMap::new();
    while let Some((number, written)) = pipeline.next().await {
        assert!(ended.insert(number, written.unwrap()).is_none(), "each is told once");
    }
    assert!(ended.remove(&again).unwrap().duplicate);
    for (number, acknowledgement) in (1..).zip(ended.values()) {
        assert_eq!(committed(acknowledgement).numbers[0].1, number, "in the order of the submissions");
    }
    assert_eq!(ended.len(), 500);
    let statistics = engine.statistics();
    assert!(statistics.consensus.log.syncs - before < 500, "they share syncs");
    assert_eq!((statistics.in_flight, statistics.keys_in_flight, statistics.admitted_operations), (0, 0, 0));
    assert_eq!(statistics.recalled, 500);
    // Dropped on its way, it goes its way, and the retry gets its outcome.
    pipeline.submit("shop", key(501), &sale(1)).await.unwrap();
    drop(pipeline);
    let retried = write(&engine, 501, &sale(1)).await.unwrap();
    assert_eq!(committed(&retried).numbers[0].1, 501);
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_window_refuses_new_keys_and_forgets_none() {
    let io = Arc::new(MemoryIo::new());
    let engine = open(&io).await;
    let mut definition = shop(1);
    definition.idempotency.max_keys = 10;
    engine.define(definition).await.unwrap();
    for number in 1..=10 {
        write(&engine, number, &sale(1)).await.unwrap();
    }
    // What is counted is told a moment after the outcome.
    let mut refused = None;
    for number in 11..=30 {
        refused = refused.or(write(&engine, number, &sale(1)).await.err());
    }
    let refused = refused.expect("new keys are refused");
    assert!(matches!(refused, WriteError::WindowFull { known, limit: 10, .. } if known >= 10), "{refused}");
    for number in 1..=10 {
        assert!(write(&engine, number, &sale(1)).await.unwrap().duplicate, "what is known is answered");
    }
    engine.close().await;
}

/// Says no while it is raised.
#[derive(Debug, Default)]
struct Maintenance(AtomicBool);

impl Signal for Maintenance {
    fn check(&self, _: PartitionId) -> Result<(), Overloaded> {
        let (limit, retry_after) = (Limit::Signal("maintenance"), Duration::from_secs(7));
        match self.0.load(Ordering::SeqCst) {
            true => Err(Overloaded { scope: Scope::Node, limit, current: 1, maximum: 0, retry_after }),
            false => Ok(()),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_embeds_it_can_stop_writes_and_retries_are_free() {
    let (io, maintenance) = (Arc::new(MemoryIo::new()), Arc::new(Maintenance::default()));
    let mut config = config(&io);
    config.signal = Some(maintenance.clone());
    let engine = Engine::open(config).await.unwrap();
    engine.wait_for_leader().await;
    engine.define(shop(1)).await.unwrap();
    write(&engine, 1, &sale(5)).await.unwrap();
    maintenance.0.store(true, Ordering::SeqCst);
    match write(&engine, 2, &sale(5)).await {
        Err(WriteError::Admission(AdmissionError::Overloaded(overloaded))) => {
            assert_eq!(overloaded.limit, Limit::Signal("maintenance"));
            assert_eq!(overloaded.retry_after, Duration::from_secs(7));
        }
        other => panic!("{other:?}"),
    }
    assert!(write(&engine, 1, &sale(5)).await.unwrap().duplicate);
    maintenance.0.store(false, Ordering::SeqCst);
    assert_eq!(committed(&write(&engine, 2, &sale(5)).await.unwrap()).workspace_offset.get(), 2);
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_is_free_also_if_nobody_remembers_it_but_its_partition() {
    let (io, maintenance) = (Arc::new(MemoryIo::new()), Arc::new(Maintenance::default()));
    let engine = open(&io).await;
    engine.define(shop(2)).await.unwrap();
    let first = write(&engine, 1, &sale(5)).await.unwrap();
    let partition = committed(&first).partition;
    engine.close().await;

    let mut config = config(&io);
    config.signal = Some(maintenance.clone());
    let engine = Engine::open(config).await.unwrap();
    engine.wait_for_leader().await;
    engine.wait_until_actualized().await;
    maintenance.0.store(true, Ordering::SeqCst);
    let proposed = || engine.replicator().statistics().proposed;
    let before = proposed();
    let refused = write(&engine, 2, &sale(5)).await.unwrap_err();
    assert!(matches!(refused, WriteError::Admission(AdmissionError::Overloaded(_))), "{refused}");
    let again = write(&engine, 1, &sale(5)).await.unwrap();
    assert_eq!((again.outcome, again.duplicate), (first.outcome.clone(), true));
    let other = write(&engine, 1, &sale(7)).await.unwrap_err();
    assert!(matches!(other, WriteError::Admission(_)), "a key of another workspace is another key: {other}");
    let reused = write(&engine, 1, &Write { payload: b"[]", ..sale(5) }).await.unwrap();
    let Outcome::Refused(refusal) = &*reused.outcome else { panic!("{reused:?}") };
    assert_eq!(refusal.code, RefusalCode::IdempotencyKeyReused);
    assert_eq!((proposed() - before, engine.statistics().writes.recalled), (0, 2), "nothing was proposed");
    maintenance.0.store(false, Ordering::SeqCst);
    engine.freeze(partition).await.unwrap();
    let again = write(&engine, 1, &sale(5)).await.unwrap();
    assert_eq!((again.outcome, again.duplicate), (first.outcome, true));
    let refused = write(&engine, 2, &sale(5)).await.unwrap_err();
    assert!(matches!(refused, WriteError::Frozen { .. }), "{refused}");
    engine.close().await;
}

/// One thread runs all tasks, so that those who are ready to write do so before anything is proposed.
#[tokio::test]
async fn a_lone_writer_pays_one_sync_and_many_share_one() {
    let mut config = config(&Arc::new(MemoryIo::new()));
    // A log that is idle writes a frame of its own, on a slow machine between two writes.
    config.log.certify_after = Duration::from_secs(3600);
    let engine = Engine::open(config).await.unwrap();
    engine.wait_for_leader().await;
    engine.define(shop(4)).await.unwrap();
    let syncs = || engine.replicator().statistics().log.syncs;
    write(&engine, 1000, &sale(5)).await.unwrap();
    let before = syncs();
    for number in 0..20 {
        write(&engine, number, &sale(5)).await.unwrap();
    }
    assert_eq!(syncs() - before, 20, "one for each");
    let before = syncs();
    let writers: Vec<_> = (2000..2256)
        .map(|number| {
            let engine = engine.clone();
            tokio::spawn(async move { write(&engine, number, &sale(number)).await.unwrap() })
        })
        .collect();
    let mut entries = std::collections::BTreeSet::new();
    for writer in writers {
        entries.insert(committed(&writer.await.unwrap()).log_index);
    }
    assert_eq!((entries.len(), syncs() - before), (1, 1), "256 writers share one");
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_told_early_sees_what_he_wrote_in_any_view() {
    const WRITERS: u64 = 300;
    let io = Arc::new(MemoryIo::new());
    let engine = open(&io).await;
    engine.define(shop(1)).await.unwrap();
    let mut offsets = Vec::new();
    for round in 0..4 {
        // More than are told together, so that the first are told while the others are applied.
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let engine = engine.clone();
                tokio::spawn(async move {
                    let told = write(&engine, round * WRITERS + writer, &sale(1)).await.unwrap();
                    let offset = committed(&told).partition_offset;
                    let stale = ReadOptions { consistency: Consistency::Stale, ..ReadOptions::default() };
                    let view = engine.view_of("shop", WorkspaceId::new(1), stale).await.unwrap();
                    assert!(view.applied() >= Some(offset), "{offset} was acknowledged");
                    committed(&told).workspace_offset.get()
                })
            })
            .collect();
        for writer in writers {
            offsets.push(writer.await.unwrap());
        }
    }
    offsets.sort_unstable();
    assert!(offsets.into_iter().eq(1..=4 * WRITERS), "NUM-1");
    assert_eq!(engine.in_flight(), 0);
    engine.close().await;
}
