//! A backup is taken while everything goes on; everything acknowledged before it is in it. A second one adds what is new.

use std::time::Duration;

use gapless_engine::{Engine, RestorePoint};
use gapless_log::io::faulty::FaultyIo;

use crate::harness::{shop, shop_named};
use crate::{Acknowledged, all_rows, back_up, config, open, open_with, try_restore};

async fn write_for(engine: Engine, workspace: u64, from: u64, count: u64) -> Acknowledged {
    let mut acknowledged = Acknowledged::default();
    for number in from..from + count {
        acknowledged.write(&engine, number, workspace).await;
    }
    acknowledged
}

#[tokio::test(start_paused = true)]
async fn a_backup_under_load_has_every_write_that_was_acknowledged_before_it() {
    let disk = FaultyIo::new(3);
    let mut config = config(&disk, "node");
    config.housekeeping.keep_entries = 4;
    let engine = open_with(config).await;
    engine.define(shop(4)).await.unwrap();
    let mut before = Acknowledged::default();
    for number in 0..40 {
        before.write(&engine, number, number % 8).await;
    }
    let writers: Vec<_> = (0..8)
        .map(|workspace| tokio::spawn(write_for(engine.clone(), workspace, 1000 * (workspace + 1), 60)))
        .collect();
    let changing = tokio::spawn({
        let engine = engine.clone();
        async move {
            for round in 0..6 {
                engine.define(shop_named("other", 2 + round)).await.unwrap();
                tokio::time::sleep(Duration::from_millis(30)).await;
                engine.drop_namespace("other").await.unwrap();
            }
        }
    });
    let mut reports = Vec::new();
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(40)).await;
        reports.push(back_up(&engine).await.unwrap());
    }
    let mut all = before.clone();
    for writer in writers {
        for (workspace, writes) in writer.await.unwrap().0 {
            all.0.entry(workspace).or_default().extend(writes);
        }
    }
    changing.await.unwrap();
    let original = all_rows(&engine).await;
    let last = back_up(&engine).await.unwrap();
    engine.close().await;
    assert!(reports.is_sorted_by(|one, other| one.index <= other.index && one.number < other.number));

    for report in reports {
        let to = format!("restored-{}", report.number);
        let restored = try_restore(&disk, &to, RestorePoint::Index(report.index)).unwrap();
        assert_eq!(restored.index, report.index);
        let engine = open(&disk, &to).await;
        assert_ne!(engine.cluster(), restored.from_cluster);
        let mut known = all.up_to(report.index);
        assert!(before.0.iter().all(|(workspace, writes)| known.0[workspace].len() >= writes.len()));
        known.check(&engine, 100_000).await;
        engine.close().await;
        // And again, now that it has a life of its own.
        let engine = open(&disk, &to).await;
        known.check(&engine, 200_000).await;
        engine.close().await;
    }

    try_restore(&disk, "newest", RestorePoint::Latest).unwrap();
    let engine = open(&disk, "newest").await;
    assert_eq!(all_rows(&engine).await, original, "NUM-3");
    assert_eq!(all.up_to(last.index).0, all.0);
    all.check(&engine, 300_000).await;
    engine.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_second_backup_copies_only_what_is_new() {
    let disk = FaultyIo::new(4);
    let engine = open(&disk, "node").await;
    engine.define(shop(4)).await.unwrap();
    let mut acknowledged = Acknowledged::default();
    for number in 0..200 {
        acknowledged.write(&engine, number, number % 4).await;
    }
    let first = back_up(&engine).await.unwrap();
    assert_eq!((first.number, first.outcomes, first.files), (1, 204, first.added_files));
    assert!(first.added_bytes > 200 * 112, "{first:?}");

    let same = back_up(&engine).await.unwrap();
    assert_eq!((same.number, same.added_files, same.added_bytes), (2, 0, 0));
    assert!(same.continuous);

    acknowledged.write(&engine, 1000, 2).await;
    let one_more = back_up(&engine).await.unwrap();
    // One partition has one outcome more; and there is one entry.
    assert_eq!((one_more.number, one_more.outcomes, one_more.added_files), (3, 205, 2), "{one_more:?}");
    assert!(one_more.added_bytes < 1024, "{one_more:?}");
    assert_eq!(one_more.files, first.files + 2);
    engine.close().await;

    try_restore(&disk, "restored", RestorePoint::Latest).unwrap();
    let engine = open(&disk, "restored").await;
    acknowledged.check(&engine, 10_000).await;
    engine.close().await;
}
