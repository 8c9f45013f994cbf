//! Opening a node of which some partitions are slow, or cannot be opened yet.

use gapless_engine::{Engine, PartitionState, WriteError};
use gapless_log::io::{Io, OpenMode, read_exact_at, write_all_at};
use gapless_types::LogIndex;

use crate::disk::{Disk, Trouble};
use crate::harness::{eventually, sale, try_write};
use crate::{
    Acknowledged, PATIENT, becomes, config, directory, discard_store, found, is_failed, is_quarantined,
    is_serving, open, partition_dir, state,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_sixty_four_partitions_those_that_are_up_serve_while_one_rebuilds_its_store() {
    let disk = Disk::default();
    let engine = found(&disk, 64).await;
    let mut acknowledged = Acknowledged::default();
    for number in 0..128 {
        acknowledged.write(&engine, number, number % 64).await.unwrap();
    }
    engine.close().await;
    discard_store(&disk, 9);
    disk.hurt_part(&directory(9), "store", Trouble::Stalls);
    // Nobody waits for that one.
    let engine = Engine::open(config(&disk)).await.unwrap();
    engine.wait_for_leader().await;
    for number in 128..256 {
        if number % 64 != 9 {
            acknowledged.insist(&engine, number, number % 64).await;
        }
    }
    eventually("it waits for its disk", || disk.stalled() > 0).await;
    assert_eq!(state(&engine, 9), PartitionState::Actualizing);
    let refused = try_write(&engine, 1000, &sale(9), PATIENT).await;
    assert!(matches!(refused, Err(WriteError::Actualizing { .. })), "{refused:?}");
    disk.heal(&directory(9));
    acknowledged.insist(&engine, 1000, 9).await;
    acknowledged.check(&engine).await;
    engine.close().await;
}

/// What a partition has is not known while its disk fails. Nothing may be concluded from that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_whose_disk_fails_when_the_node_opens_comes_back_with_everything() {
    let disk = Disk::default();
    let mut acknowledged = Acknowledged::default();
    let keeping_little = || {
        let mut config = config(&disk);
        config.housekeeping.keep_entries = 10;
        config
    };
    let engine = found(&disk, 4).await;
    acknowledged.write_all(&engine, 0..40, &[0, 1, 2, 3]).await;
    engine.kill().await;
    disk.memory.power_cut();
    disk.hurt(&directory(1), Trouble::Fails);
    let engine = Engine::open(keeping_little()).await.unwrap();
    engine.wait_for_leader().await;
    becomes(&engine, 1, "it has failed", is_failed).await;
    for other in [0, 2] {
        becomes(&engine, other, "it serves", is_serving).await;
    }
    acknowledged.write_all(&engine, 100..400, &[0, 2]).await;
    let kept = || engine.replicator().progress().borrow().first_kept.map_or(0, LogIndex::get);
    // A checkpoint before the power went may cover what was written until then, and nothing after it.
    assert!(kept() < 50, "TRUNC-1: the log is kept for it, and begins at {}", kept());
    disk.heal(&directory(1));
    acknowledged.insist(&engine, 1000, 1).await;
    for number in 0..40 {
        acknowledged.insist(&engine, number, number % 4).await;
    }
    eventually("the log is cut once it is well", || kept() > 100).await;
    acknowledged.check_for_good(engine, &disk).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_cannot_be_opened_says_so_and_leaves_nothing_behind() {
    let disk = Disk::default();
    let mut acknowledged = Acknowledged::default();
    let engine = found(&disk, 4).await;
    acknowledged.write_all(&engine, 0..40, &[0, 1, 2, 3]).await;
    engine.kill().await;
    // One partition has to read from the replicated log, which cannot be opened.
    disk.hurt("consensus", Trouble::Fails);
    disk.hurt_once(&directory(1));
    let refused =
        tokio::time::timeout(PATIENT, Engine::open(config(&disk))).await.expect("it gives an answer");
    assert!(refused.is_err());
    disk.heal("consensus");
    let engine = open(&disk).await;
    acknowledged.check(&engine).await;
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_whose_log_is_gone_is_not_taken_for_a_new_one() {
    let disk = Disk::default();
    let mut acknowledged = Acknowledged::default();
    let engine = found(&disk, 4).await;
    acknowledged.write_all(&engine, 0..40, &[0, 1, 2, 3]).await;
    engine.close().await;
    for part in ["log", "store"] {
        let part = partition_dir(1).join(part);
        for name in disk.memory.list(&part).unwrap() {
            disk.memory.remove(&part.join(name)).unwrap();
        }
        disk.memory.sync_dir(&part).unwrap();
    }
    let engine = open(&disk).await;
    becomes(&engine, 1, "it is found", is_quarantined).await;
    let refused = try_write(&engine, 1000, &sale(1), PATIENT).await;
    assert!(matches!(refused, Err(WriteError::Quarantined { .. })), "{refused:?}");
    acknowledged.0.remove(&1);
    acknowledged.check(&engine).await;
    engine.close().await;
}

/// The files of a partition's log.
fn log_files(disk: &Disk, index: u16) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let dir = partition_dir(index).join("log");
    let read = |name: std::path::PathBuf| {
        let file = disk.memory.open(&dir.join(&name), OpenMode::Read).unwrap();
        let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
        read_exact_at(&*file, &mut bytes, 0).unwrap();
        (dir.join(name), bytes)
    };
    disk.memory.list(&dir).unwrap().into_iter().map(|name| read(name.into())).collect()
}

/// A partition gets back the log that it had, and has no store.
fn restore_log(disk: &Disk, index: u16, files: &[(std::path::PathBuf, Vec<u8>)]) {
    for (path, _) in log_files(disk, index) {
        disk.memory.remove(&path).unwrap();
    }
    for (path, bytes) in files {
        let file = disk.memory.open(path, OpenMode::Create).unwrap();
        write_all_at(&*file, bytes, 0).unwrap();
        file.sync().unwrap();
    }
    disk.memory.sync_dir(&partition_dir(index).join("log")).unwrap();
    discard_store(disk, index);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_whose_log_is_an_old_one_gets_the_rest_from_the_replicated_log() {
    let disk = Disk::default();
    let mut acknowledged = Acknowledged::default();
    let engine = found(&disk, 4).await;
    acknowledged.write_all(&engine, 0..40, &[0, 1, 2, 3]).await;
    engine.close().await;
    let old = log_files(&disk, 1);
    let engine = open(&disk).await;
    acknowledged.write_all(&engine, 40..80, &[0, 1, 2, 3]).await;
    engine.close().await;
    restore_log(&disk, 1, &old);
    let engine = open(&disk).await;
    acknowledged.insist(&engine, 1000, 1).await;
    acknowledged.check_for_good(engine, &disk).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_whose_log_is_an_old_one_gives_no_number_out_again() {
    let disk = Disk::default();
    let mut acknowledged = Acknowledged::default();
    let keeping_little = || {
        let mut config = config(&disk);
        config.housekeeping.keep_entries = 1;
        config.log.segment_bytes = 64 << 10;
        config
    };
    let engine = found(&disk, 4).await;
    acknowledged.write_all(&engine, 0..40, &[0, 1, 2, 3]).await;
    engine.close().await;
    let old = log_files(&disk, 1);
    let engine = Engine::open(keeping_little()).await.unwrap();
    engine.wait_for_leader().await;
    acknowledged.insist(&engine, 40, 1).await;
    let mut number = 40;
    // Until what its old log lacks is cut off.
    let lacks = acknowledged.0[&1][&40].log_index;
    let kept = |engine: &Engine| engine.replicator().progress().borrow().first_kept;
    while kept(&engine) <= Some(lacks) {
        number += 1;
        assert!(number < 10_000, "the log is never cut");
        acknowledged.insist(&engine, number, 2).await;
    }
    engine.close().await;
    restore_log(&disk, 1, &old);
    let engine = Engine::open(keeping_little()).await.unwrap();
    engine.wait_for_leader().await;
    becomes(&engine, 1, "it is found", is_quarantined).await;
    let refused = try_write(&engine, 100_000, &sale(1), PATIENT).await;
    assert!(matches!(refused, Err(WriteError::Quarantined { .. })), "{refused:?}");
    acknowledged.0.remove(&1);
    acknowledged.check(&engine).await;
    engine.close().await;
}
