//! What a backup or a restore refuses: other clusters, paths, directories in use, damage. What was there stays as it was.

use std::path::Path;
use std::sync::Arc;

use gapless_consensus::ClusterId;
use gapless_engine::{BackupError, Engine, OpenError, RestoreError, RestorePoint};
use gapless_log::io::faulty::FaultyIo;
use gapless_log::io::{Io, OpenMode, read_exact_at, write_all_at};

use crate::harness::shop;
use crate::{Acknowledged, BACKUPS, back_up, back_up_to, config, open, open_with, try_restore};

async fn with_backup(disk: &FaultyIo) -> Engine {
    let engine = open(disk, "node").await;
    engine.define(shop(2)).await.unwrap();
    let mut acknowledged = Acknowledged::default();
    for number in 0..20 {
        acknowledged.write(&engine, number, number % 2).await;
    }
    back_up(&engine).await.unwrap();
    engine
}

/// All files below a directory, with their content.
pub(crate) fn files(disk: &dyn Io, dir: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for name in disk.list(dir).unwrap() {
        let path = dir.join(name);
        let file = disk.open(&path, OpenMode::Read).unwrap();
        let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
        read_exact_at(&*file, &mut bytes, 0).unwrap();
        found.push((path, bytes));
    }
    for name in disk.list_dirs(dir).unwrap() {
        found.extend(files(disk, &dir.join(name)));
    }
    found.sort();
    found
}

#[tokio::test(start_paused = true)]
async fn a_directory_of_another_cluster_or_of_the_node_is_refused() {
    let disk = FaultyIo::new(8);
    let engine = with_backup(&disk).await;
    let inside = back_up_to(&engine, "node/backups").await;
    assert!(matches!(inside, Err(BackupError::InsideData(_))), "{inside:?}");
    let climbing = back_up_to(&engine, "backups/../node/x").await;
    assert!(matches!(climbing, Err(BackupError::NotAbsolute(_))), "{climbing:?}");
    let held = disk.lock(Path::new(BACKUPS)).unwrap();
    let busy = back_up(&engine).await;
    assert!(matches!(busy, Err(BackupError::Busy(_))), "{busy:?}");
    drop(held);
    disk.create_dir(Path::new("photos/2026")).unwrap();
    let foreign = back_up_to(&engine, "photos").await;
    assert!(matches!(foreign, Err(BackupError::NotOurs(_))), "{foreign:?}");
    engine.close().await;

    let mut other = config(&disk, "other");
    other.cluster = Some(ClusterId::from_bytes([9; 16]));
    let other = open_with(other).await;
    let before = files(&disk, Path::new(BACKUPS));
    let refused = back_up(&other).await;
    assert!(matches!(refused, Err(BackupError::OtherCluster { .. })), "{refused:?}");
    assert_eq!(files(&disk, Path::new(BACKUPS)), before);
    other.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_restore_needs_an_empty_directory_and_a_whole_backup() {
    let disk = FaultyIo::new(9);
    with_backup(&disk).await.close().await;
    let refused = try_restore(&disk, "node", RestorePoint::Latest);
    assert!(matches!(refused, Err(RestoreError::NotEmpty(_))), "{refused:?}");
    let io = Arc::new(disk.clone()) as Arc<dyn Io>;
    let options = crate::options(&disk, RestorePoint::Latest);
    let nothing =
        gapless_engine::restore(&io, Path::new("node"), Path::new("restored"), &options, &mut |_| {});
    assert!(matches!(nothing, Err(RestoreError::NoBackup(_))), "{nothing:?}");

    let all = files(&disk, Path::new(BACKUPS));
    assert!(all.len() >= 3, "{}", all.len());
    for (path, bytes) in &all {
        for at in [0, 9, 13, 17, 25, bytes.len() / 2, bytes.len() - 1] {
            let file = disk.open(path, OpenMode::Write).unwrap();
            write_all_at(&*file, &[bytes[at] ^ 0x10], at as u64).unwrap();
            let refused = try_restore(&disk, "restored", RestorePoint::Latest);
            let Err(RestoreError::Backup(BackupError::Damaged { path: named, .. })) = &refused else {
                panic!("{refused:?}")
            };
            assert!(named == path, "{named:?} instead of {path:?}");
            assert!(disk.list(Path::new("restored")).is_err(), "nothing is touched");
            write_all_at(&*file, &[bytes[at]], at as u64).unwrap();
        }
    }
    disk.remove(&all.last().unwrap().0).unwrap();
    assert!(try_restore(&disk, "restored", RestorePoint::Latest).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_damaged_manifest_stops_the_next_backup_and_nothing_is_removed() {
    let disk = FaultyIo::new(10);
    let engine = with_backup(&disk).await;
    let (path, bytes) = files(&disk, Path::new(BACKUPS))
        .into_iter()
        .find(|(path, _)| path.ends_with("0000000001.manifest"))
        .unwrap();
    let file = disk.open(&path, OpenMode::Write).unwrap();
    write_all_at(&*file, &[bytes[50] ^ 1], 50).unwrap();
    let before = files(&disk, Path::new(BACKUPS));
    let refused = back_up(&engine).await;
    assert!(matches!(refused, Err(BackupError::Damaged { .. })), "{refused:?}");
    assert_eq!(files(&disk, Path::new(BACKUPS)), before);
    engine.close().await;
}

#[tokio::test(start_paused = true)]
async fn an_unfinished_restore_is_not_opened_and_can_be_begun_anew() {
    let disk = FaultyIo::new(11);
    with_backup(&disk).await.close().await;
    disk.create_dir(Path::new("restored/consensus/log")).unwrap();
    disk.open(Path::new("restored/RESTORING"), OpenMode::Create).unwrap();
    disk.open(Path::new("restored/consensus/log/x"), OpenMode::Create).unwrap();
    let refused = Engine::open(config(&disk, "restored")).await;
    assert!(matches!(refused, Err(OpenError::Unfinished(_))), "{refused:?}");
    try_restore(&disk, "restored", RestorePoint::Latest).unwrap();
    open(&disk, "restored").await.close().await;
}
