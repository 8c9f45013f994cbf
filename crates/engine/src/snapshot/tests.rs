//! A snapshot for a node that has more than is in it, and for one that says nothing.

use std::num::NonZeroU16;

use gapless_log::Drive;
use gapless_log::io::memory::MemoryIo;
use gapless_partition::{Definition, Write};
use gapless_types::{IdempotencyKey, Name, WorkspaceId};

use super::*;
use crate::watermarks::Marks;
use crate::{Config, Engine, WriteOptions};

async fn engine() -> Engine {
    let mut config = Config::embedded("node");
    config.io = Arc::new(MemoryIo::new());
    config.log.drive = Drive::Caller;
    config.on_threads = false;
    let engine = Engine::open(config).await.unwrap();
    engine.wait_for_leader().await;
    let mut shop = Definition::new(Name::new("shop").unwrap(), NonZeroU16::new(2).unwrap());
    shop.kinds.entry(Name::new("default").unwrap()).or_default();
    engine.define(shop).await.unwrap();
    engine
}

async fn write(engine: &Engine, numbers: std::ops::Range<u8>) {
    for number in numbers {
        let payload = vec![b'x'; 1000];
        let workspace = WorkspaceId::new(u64::from(number % 2));
        let write = Write { payload: &payload, ..Write::new(workspace, "till", "ItemSold") };
        let key = IdempotencyKey::new([number + 1; 16]).unwrap();
        engine.write("shop", key, &write, WriteOptions::default()).await.unwrap();
    }
}

fn marks(engine: &Engine) -> Vec<Marks> {
    engine.partitions().into_iter().map(|report| report.marks).collect()
}

async fn outcomes(engine: &Engine) -> Vec<Vec<Bytes>> {
    let mut all = Vec::new();
    for slot in engine.node().all_slots() {
        slot.state.subscribe().wait_for(|state| *state == crate::PartitionState::Serving).await.unwrap();
        let view = engine.node().view_now(&slot).await.unwrap();
        let outcomes = view.outcomes(PartitionOffset::FIRST, usize::MAX, Direction::Forward).unwrap();
        all.push(outcomes.iter().map(|outcome| outcome.bytes().clone()).collect());
    }
    all
}

async fn bytes_of(source: &Arc<dyn SnapshotSource>, held: &Bytes) -> usize {
    let (mut body, mut bytes) = (source.body(held), 0);
    while let Some(piece) = body.next().await.unwrap() {
        bytes += piece.len();
    }
    bytes
}

#[tokio::test(start_paused = true)]
async fn what_a_node_has_behind_a_snapshot_stays_and_what_it_has_of_it_is_not_sent() {
    let engine = engine().await;
    let node = engine.node().clone();
    write(&engine, 0..20).await;
    let at = node.dispatched.borrow().unwrap();
    let source = take(node.clone(), at).await.unwrap();
    write(&engine, 20..40).await;
    for slot in node.all_slots() {
        slot.request_checkpoint();
    }
    let mut durable = node.durable.subscribe();
    let dispatched = *node.dispatched.borrow();
    durable.wait_for(|durable| durable.covered >= dispatched).await.unwrap();
    let (had, before) = (outcomes(&engine).await, marks(&engine));
    assert_eq!(had.iter().map(Vec::len).collect::<Vec<_>>(), [21, 21]);

    let held = held(node.clone(), at).await;
    let (little, all) = (bytes_of(&source, &held).await, bytes_of(&source, &Bytes::new()).await);
    assert!(little < 1000 && all > 20_000, "{little} bytes, {all} for who has nothing");
    assert_eq!(bytes_of(&source, &Bytes::from_static(b"something else")).await, all);

    install(node.clone(), at, source.body(&held)).await.unwrap();
    assert_eq!(outcomes(&engine).await, had, "what is behind the snapshot stays");
    for (before, now) in before.iter().zip(marks(&engine)) {
        assert!(now.are_ordered(), "WM-1: {now:?}");
        assert_eq!(
            (before.applied, before.synced, before.checkpoint),
            (now.applied, now.synced, now.checkpoint)
        );
    }
    // Whoever is not well gets all of it, in a place of its own, and begins anew there.
    install(node.clone(), at, source.body(&Bytes::new())).await.unwrap();
    let fewer: Vec<Vec<Bytes>> = had.iter().map(|outcomes| outcomes[..11].to_vec()).collect();
    assert_eq!(outcomes(&engine).await, fewer, "no outcome behind its entry is in a snapshot");
    assert!(engine.partitions().iter().all(|report| report.repairs == 1));
    let places = node.durable.borrow().places.clone();
    assert_eq!((places.installs, places.partitions.values().copied().collect::<Vec<_>>()), (2, vec![2, 2]));
    engine.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_of_another_version_or_that_ends_too_early_is_not_installed() {
    struct Given(Option<Bytes>);
    impl SnapshotBody for Given {
        fn next(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, MachineFault>> {
            Box::pin(std::future::ready(Ok(self.0.take())))
        }
    }
    for (bytes, why) in [(&b"\x01rest"[..], "another version"), (b"\x02", "ends too early")] {
        let engine = engine().await;
        let body = Box::new(Given(Some(Bytes::from_static(bytes))));
        let refused = install(engine.node().clone(), LogIndex::new(100), body).await.unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
        engine.kill().await;
    }
}
