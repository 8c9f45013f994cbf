//! Whatever is damaged in the directory of a node is repaired, or refused with what is lost; and nothing is made up.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;

use gapless_engine::{
    Engine, PartitionState, RepairError, RepairOptions, RepairReport, RepairSource, repair_node,
};
use gapless_log::io::Io;
use gapless_log::io::faulty::FaultyIo;
use gapless_types::WorkspaceId;

use crate::flips::{disk_with, flip, lived, opened, positions, verified};
use crate::harness::{eventually, shop};
use crate::refusals::files;
use crate::{Acknowledged, AllRows, BACKUPS, all_rows, back_up_to, config, open};

fn repair(disk: &FaultyIo, from: Option<&str>) -> Result<RepairReport, RepairError> {
    let io = Arc::new(disk.clone()) as Arc<dyn Io>;
    let mut options = RepairOptions { from: from.map(PathBuf::from), ..RepairOptions::default() };
    options.partitions.log.segment_bytes = 64 << 10;
    options.partitions.log.first_segment_bytes = 64 << 10;
    let mut told = Vec::new();
    let repaired = repair_node(&io, Path::new("node"), &options, &mut |step| told.push(step.clone()));
    assert!(told.iter().all(|step| step.done <= step.of), "{told:?}");
    repaired
}

/// Everything is there again.
async fn is_whole(disk: &FaultyIo, rows: &AllRows, acknowledged: &Acknowledged, what: &str) {
    let (engine, found) = opened(disk, "node").await.unwrap_or_else(|| panic!("{what}: it opens"));
    assert!(found == *rows, "{what}: rows are as they were");
    acknowledged.clone().check(&engine, 10_000).await;
    engine.close().await;
    let found = verified(disk, "node");
    assert!(found.is_sound(), "{what}: {:?}", found.findings);
}

#[tokio::test(start_paused = true)]
async fn a_flipped_bit_is_repaired_or_honestly_refused() {
    let disk = FaultyIo::new(41);
    let (acknowledged, rows) = lived(&disk).await;
    let mut all = files(&disk, Path::new("node"));
    let in_node = all.clone();
    all.extend(files(&disk, Path::new(BACKUPS)));
    let seed = 41;
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut chosen = positions(&in_node, &mut random);
    random.shuffle(&mut chosen);
    let (mut repaired, mut refused) = (0, 0);
    for (path, at) in chosen.into_iter().take(150) {
        let what = format!("{} at {at}", path.display());
        let (_, bytes) = all.iter().find(|(known, _)| *known == path).unwrap();
        let copy = disk_with(&all, 1);
        flip(&copy, &path, at, bytes[at] ^ (1 << random.u8(..8)));
        if verified(&copy, "node").is_sound() {
            continue;
        }
        match repair(&copy, Some(BACKUPS)) {
            Ok(report) => {
                assert!(!report.repaired.is_empty(), "{what}");
                repaired += 1;
                is_whole(&copy, &rows, &acknowledged, &what).await;
            }
            // Consensus is not repaired from a backup: what a node voted for is known to nobody else.
            Err(RepairError::Lost { path: lost, .. }) => {
                assert!(path.starts_with("node/consensus") && lost.starts_with("node/consensus"), "{what}");
                refused += 1;
            }
            Err(error) => panic!("{what}: {error}"),
        }
    }
    println!("{repaired} repaired, {refused} refused");
    assert!(repaired > 60 && refused > 0, "{repaired} repaired, {refused} refused");
}

#[tokio::test(start_paused = true)]
async fn a_partition_log_without_a_backup_is_repaired_only_as_far_as_the_replicated_log_goes() {
    let disk = FaultyIo::new(42);
    let (acknowledged, rows) = lived(&disk).await;
    let all = files(&disk, Path::new("node"));
    let mut lost = 0;
    for (path, bytes) in all.iter().filter(|(path, _)| path.starts_with("node/partitions/16-1/log")) {
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
        let copy = disk_with(&all, 1);
        flip(&copy, path, end / 3, bytes[end / 3] ^ 4);
        if verified(&copy, "node").is_sound() {
            continue;
        }
        match repair(&copy, None) {
            Ok(_) => is_whole(&copy, &rows, &acknowledged, &path.display().to_string()).await,
            Err(RepairError::Lost { lost: told, .. }) => {
                assert!(told.contains("outcomes") && told.contains("--from BACKUP"), "{told}");
                let before: Vec<_> = files(&copy, Path::new("node/partitions/16-1/log"));
                assert!(before.iter().any(|(known, _)| known == path), "the old log stays");
                lost += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(lost > 0);
}

#[tokio::test(start_paused = true)]
async fn a_missing_segment_a_missing_store_and_a_missing_catalog_come_back() {
    let disk = FaultyIo::new(43);
    let (acknowledged, rows) = lived(&disk).await;
    let mut all = files(&disk, Path::new("node"));
    all.extend(files(&disk, Path::new(BACKUPS)));
    let segment = |path: &PathBuf| path.starts_with("node/partitions/16-0/log");
    let first = all.iter().find(|(path, _)| segment(path)).unwrap().0.clone();
    let run = all.iter().find(|(path, _)| path.starts_with("node/partitions/16-0/store")).unwrap().0.clone();
    for gone in [first, run, PathBuf::from("node/catalog")] {
        let what = format!("without {}", gone.display());
        let kept: Vec<_> = all.iter().filter(|(path, _)| *path != gone).cloned().collect();
        let copy = disk_with(&kept, 1);
        assert!(!verified(&copy, "node").is_sound(), "{what}");
        repair(&copy, Some(BACKUPS)).unwrap_or_else(|error| panic!("{what}: {error}"));
        is_whole(&copy, &rows, &acknowledged, &what).await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_partition_is_repaired_while_the_others_serve() {
    let disk = FaultyIo::new(44);
    let (mut acknowledged, rows) = lived(&disk).await;
    let log = Path::new("node/partitions/16-1/log");
    let (path, _) = files(&disk, log).into_iter().next().unwrap();
    disk.remove(&path).unwrap();
    disk.sync_dir(log).unwrap();
    let engine = Engine::open(config(&disk, "node")).await.unwrap();
    engine.wait_for_leader().await;
    let state = |index: u16| {
        let found = engine.partitions().into_iter().find(|report| report.partition.index.get() == index);
        found.unwrap().state
    };
    eventually("one is not well", || {
        matches!(state(1), PartitionState::Failed(_) | PartitionState::Quarantined(_))
    })
    .await;
    // Workspaces with even numbers are in the other one.
    acknowledged.write(&engine, 20_000, 0).await;
    let partition = engine.partition_of("shop", WorkspaceId::new(1)).unwrap();
    let refused = engine.repair(partition, RepairSource::OwnLog).await;
    assert!(matches!(refused, Err(RepairError::Lost { .. })), "{refused:?}");
    let as_it_was = matches!(state(1), PartitionState::Failed(_) | PartitionState::Quarantined(_));
    assert!(as_it_was, "whoever is told that it failed finds it as it was: {:?}", state(1));
    acknowledged.write(&engine, 20_002, 2).await;
    assert_eq!(state(0), PartitionState::Serving);
    // A snapshot waits for it: it is not lost with the place that the partition had.
    let snapshot = {
        let engine = engine.clone();
        tokio::spawn(async move { engine.replicator().snapshot().await })
    };
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert!(!snapshot.is_finished());
    let report = engine.repair(partition, RepairSource::Backup(BACKUPS.into())).await.unwrap();
    snapshot.await.unwrap().unwrap();
    assert_eq!(report.repaired.len(), 2, "{report:?}");
    assert_eq!(state(1), PartitionState::Serving);
    assert!(all_rows(&engine).await[&partition] == rows[&partition], "NUM-3");
    acknowledged.check(&engine, 30_000).await;
    // Also one that is well, out of its own log.
    engine.repair(partition, RepairSource::OwnLog).await.unwrap();
    acknowledged.check(&engine, 40_000).await;
    engine.close().await;
    let found = verified(&disk, "node");
    assert!(found.is_sound(), "{:?}", found.findings);
}

#[tokio::test(start_paused = true)]
async fn a_partition_is_not_closed_for_a_backup_that_is_of_no_use() {
    let disk = FaultyIo::new(45);
    let early = open(&disk, "early").await;
    back_up_to(&early, "of another cluster").await.unwrap();
    early.close().await;
    let engine = open(&disk, "node").await;
    back_up_to(&engine, "without the partition").await.unwrap();
    engine.define(shop(2)).await.unwrap();
    let mut acknowledged = Acknowledged::default();
    acknowledged.write(&engine, 1, 1).await;
    back_up_to(&engine, "damaged").await.unwrap();
    let (manifest, bytes) = files(&disk, Path::new("damaged/manifests")).remove(0);
    flip(&disk, &manifest, bytes.len() / 2, bytes[bytes.len() / 2] ^ 1);
    let partition = engine.partition_of("shop", WorkspaceId::new(1)).unwrap();
    let serves = || {
        let mut reports = engine.partitions().into_iter();
        reports.any(|report| report.partition == partition && report.state == PartitionState::Serving)
    };
    for source in ["nowhere", "of another cluster", "without the partition", "damaged"] {
        let mut repair = pin!(engine.repair(partition, RepairSource::Backup(source.into())));
        let refused = loop {
            assert!(serves(), "{source}: it serves all the time");
            tokio::select! {
                biased;
                refused = &mut repair => break refused,
                () = tokio::task::yield_now() => {}
            }
        };
        assert!(serves(), "{source}");
        match (source, refused.unwrap_err()) {
            ("nowhere" | "of another cluster", RepairError::NoBackup(_))
            | ("without the partition", RepairError::NotInBackup { .. })
            | ("damaged", RepairError::Backup(_)) => {}
            (_, other) => panic!("{source}: {other}"),
        }
    }
    acknowledged.check(&engine, 10).await;
    engine.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_partition_is_named_by_its_namespace_or_its_id_and_it_is_told_how_far_it_is() {
    let disk = FaultyIo::new(46);
    let (acknowledged, rows) = lived(&disk).await;
    let mut all = files(&disk, Path::new("node"));
    all.extend(files(&disk, Path::new(BACKUPS)));
    let first = all.iter().find(|(path, _)| path.starts_with("node/partitions/16-0/log")).unwrap().0.clone();
    let kept: Vec<_> = all.iter().filter(|(path, _)| *path != first).cloned().collect();
    let named = |disk: &FaultyIo, name: &str| {
        let io = Arc::new(disk.clone()) as Arc<dyn Io>;
        let from = Some(PathBuf::from(BACKUPS));
        let mut options =
            RepairOptions { from, partition: Some(name.parse().unwrap()), ..RepairOptions::default() };
        options.partitions.log.segment_bytes = 64 << 10;
        options.partitions.log.first_segment_bytes = 64 << 10;
        let mut told = Vec::new();
        let repaired = repair_node(&io, Path::new("node"), &options, &mut |step| told.push(step.clone()));
        (repaired, told)
    };
    for name in ["shop/0", "16/0"] {
        let copy = disk_with(&kept, 1);
        // Nothing is done for another one, or for none.
        let (other, _) = named(&copy, "shop/1");
        assert_eq!(other.unwrap(), RepairReport::default());
        for unknown in ["shop/7", "17/0", "shoe/0"] {
            let (refused, _) = named(&copy, unknown);
            let told = refused.unwrap_err();
            assert!(
                matches!(&told, RepairError::UnknownPartition(name) if name.to_string() == unknown),
                "{told}"
            );
        }
        let (repaired, told) = named(&copy, name);
        assert!(!repaired.unwrap().repaired.is_empty(), "{name}");
        let written: Vec<_> = told.iter().filter(|step| step.what == "writing partition 16/0").collect();
        let (begin, end) = (written.first().unwrap(), written.last().unwrap());
        assert!(begin.done == 1 && end.done == end.of && end.of > 1, "{written:?}");
        is_whole(&copy, &rows, &acknowledged, name).await;
    }
    for wrong in ["shop", "shop/x", ""] {
        assert!(wrong.parse::<gapless_engine::PartitionName>().is_err(), "{wrong}");
    }
}
