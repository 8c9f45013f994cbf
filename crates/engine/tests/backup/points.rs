//! Restoring to a moment: behind any entry, by index or by time, all partitions and projections at the same one; or not at all.

use std::collections::BTreeMap;
use std::time::Duration;

use gapless_engine::{Engine, Freshness, RestoreError, RestorePoint};
use gapless_log::io::Io;
use gapless_log::io::faulty::FaultyIo;
use gapless_partition::Definition;
use gapless_types::{LogIndex, Name, PartitionId, PartitionIndex, WorkspaceId};

use crate::harness::{shop, shop_named};
use crate::{Acknowledged, PATIENT, back_up, config, open, open_with, outcomes, try_restore};

type Outcomes = BTreeMap<PartitionId, Vec<(LogIndex, Vec<u8>)>>;

async fn all_outcomes(engine: &Engine) -> Outcomes {
    let mut all = Outcomes::new();
    for report in engine.partitions() {
        all.insert(report.partition, outcomes(engine, report.partition).await);
    }
    all
}

/// Restores behind an entry, and compares with what was there then.
async fn check_at(disk: &FaultyIo, all: &Outcomes, known: &Acknowledged, index: LogIndex) {
    let to = format!("at-{index}");
    let report = try_restore(disk, &to, RestorePoint::Index(index)).unwrap();
    assert_eq!(report.index, index);
    let engine = open(disk, &to).await;
    for (partition, found) in all_outcomes(&engine).await {
        let mut expected = all[&partition].clone();
        expected.retain(|(of, _)| *of <= index);
        assert_eq!(found, expected, "partition {partition} at entry {index}");
    }
    known.up_to(index).check(&engine, 100_000).await;
    engine.close().await;
}

/// A table that counts, by rules.
pub(crate) fn counting(definition: Definition) -> Definition {
    let plan = serde_json::json!({"rules": {
        "ItemSold": {"kind": "upsert", "entity": "sold", "id": "all",
            "set": {"total": {"add": [{"row": "total"}, {"event": "amount"}]}, "last": {"event": "amount"}}},
    }});
    let plan = gapless_engine::projection::Plan::from_json(&plan).unwrap().to_text();
    definition.with_projection(Name::new("sold").unwrap(), plan)
}

/// All rows and effects of the projection over a partition, once it has everything.
async fn projected(engine: &Engine, index: u16, workspace: u64) -> (u64, Vec<String>) {
    let domain = engine.domain("shop", "sold", PartitionIndex::new(index)).unwrap();
    let view = engine.projected(&domain, Freshness::Linearizable, PATIENT).await.unwrap();
    let workspace = WorkspaceId::new(workspace);
    let rows = view.rows("sold", workspace, "", gapless_partition::Direction::Forward);
    (view.watermark(), rows.map(|row| format!("{:?}", row.unwrap())).collect())
}

#[tokio::test(start_paused = true)]
async fn any_entry_between_two_backups_can_be_restored_with_catalog_and_projections() {
    let disk = FaultyIo::new(5);
    let engine = open(&disk, "node").await;
    engine.define(counting(shop(2))).await.unwrap();
    let mut acknowledged = Acknowledged::default();
    for number in 0..10 {
        acknowledged.write(&engine, number, number % 4).await;
    }
    let first = back_up(&engine).await.unwrap();
    let mut seen = Vec::new();
    for number in 10..16 {
        acknowledged.write(&engine, number, number % 4).await;
        let states = [projected(&engine, 0, 0).await, projected(&engine, 1, 1).await];
        seen.push((engine.replicator().progress().borrow().dispatched.unwrap(), states));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    engine.define(shop_named("other", 1)).await.unwrap();
    let with_other = engine.replicator().progress().borrow().dispatched.unwrap();
    engine.drop_namespace("other").await.unwrap();
    let all = all_outcomes(&engine).await;
    let second = back_up(&engine).await.unwrap();
    assert!(second.continuous);
    engine.close().await;

    for index in first.index.get()..=second.index.get() {
        let index = LogIndex::new(index);
        let to = format!("at-{index}");
        let report = try_restore(&disk, &to, RestorePoint::Index(index)).unwrap();
        assert_eq!((report.index, report.domains), (index, 2));
        let engine = open(&disk, &to).await;
        assert_eq!(engine.namespace("other").is_some(), index == with_other, "at entry {index}");
        if let Some((_, states)) = seen.iter().find(|(at, _)| *at == index) {
            let found = [projected(&engine, 0, 0).await, projected(&engine, 1, 1).await];
            assert_eq!(found, *states, "at entry {index}");
        }
        for (partition, mut found) in all_outcomes(&engine).await {
            let Some(expected) = all.get(&partition) else { continue };
            found.retain(|(of, _)| *of <= index);
            let expected: Vec<_> = expected.iter().filter(|(of, _)| *of <= index).cloned().collect();
            assert_eq!(found, expected, "partition {partition} at entry {index}");
        }
        acknowledged.up_to(index).check(&engine, 100_000).await;
        engine.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn where_nothing_but_partitions_changed_the_outcomes_are_enough() {
    let disk = FaultyIo::new(6);
    let mut config = config(&disk, "node");
    config.housekeeping.keep_entries = 2;
    config.housekeeping.checkpoint_interval = Duration::from_millis(20);
    let engine = open_with(config).await;
    engine.define(shop(3)).await.unwrap();
    let defined = engine.replicator().progress().borrow().dispatched.unwrap();
    let mut acknowledged = Acknowledged::default();
    for number in 0..30 {
        acknowledged.write(&engine, number, number % 6).await;
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
    let all = all_outcomes(&engine).await;
    let report = back_up(&engine).await.unwrap();
    engine.close().await;
    for index in (defined.get()..=report.index.get()).step_by(5) {
        check_at(&disk, &all, &acknowledged, LogIndex::new(index)).await;
    }
    let refused = try_restore(&disk, "too-early", RestorePoint::Index(LogIndex::new(defined.get() - 1)));
    let Err(RestoreError::NoSuchPoint { nearest, .. }) = refused else { panic!("{refused:?}") };
    assert!(nearest.contains(&format!("entries {defined} to {}", report.index)), "{nearest}");
    assert!(disk.list(std::path::Path::new("too-early")).is_err(), "nothing is touched");
    let refused = try_restore(&disk, "too-late", RestorePoint::Index(LogIndex::new(report.index.get() + 1)));
    assert!(matches!(refused, Err(RestoreError::NoSuchPoint { .. })), "{refused:?}");

    // By time: everything that was acknowledged with a time up to there, and nothing else.
    let times: Vec<(u64, LogIndex)> = all
        .values()
        .flatten()
        .map(|(index, outcome)| (gapless_partition::Header::decode(outcome).unwrap().0.time, *index))
        .collect();
    let middle = times.iter().map(|(time, _)| *time).max().unwrap() - 200;
    let last = times.iter().filter(|(time, _)| *time <= middle).map(|(_, index)| *index).max().unwrap();
    let restored = try_restore(&disk, "by-time", RestorePoint::Time(middle)).unwrap();
    assert_eq!(restored.index, last);
    assert!(last < report.index && last > defined);
    let refused = try_restore(&disk, "never", RestorePoint::Time(u64::MAX / 2));
    assert!(matches!(refused, Err(RestoreError::NoSuchPoint { .. })), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn projections_without_the_entries_are_refused_between_two_backups() {
    let disk = FaultyIo::new(7);
    let mut config = config(&disk, "node");
    config.housekeeping.keep_entries = 2;
    config.housekeeping.checkpoint_interval = Duration::from_millis(20);
    let engine = open_with(config).await;
    engine.define(counting(shop(1))).await.unwrap();
    let mut acknowledged = Acknowledged::default();
    acknowledged.write(&engine, 0, 0).await;
    let first = back_up(&engine).await.unwrap();
    for number in 1..40 {
        acknowledged.write(&engine, number, 0).await;
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
    let second = back_up(&engine).await.unwrap();
    engine.close().await;
    assert!(!second.continuous, "the log was cut between them");
    let between = LogIndex::new(second.index.get() - 3);
    let refused = try_restore(&disk, "between", RestorePoint::Index(between));
    let Err(RestoreError::NoSuchPoint { nearest, .. }) = refused else { panic!("{refused:?}") };
    assert!(nearest.contains(&format!("{}, {}", first.index, second.index)), "{nearest}");
    for report in [first, second] {
        let to = format!("at-{}", report.index);
        try_restore(&disk, &to, RestorePoint::Index(report.index)).unwrap();
        let engine = open(&disk, &to).await;
        acknowledged.up_to(report.index).check(&engine, 100_000).await;
        engine.close().await;
    }
}
