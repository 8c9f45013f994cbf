//! The power goes at every operation of a backup and of a restore.

use gapless_engine::{Engine, OpenError, RestorePoint};
use gapless_log::io::faulty::{Crash, FaultyIo};

use crate::harness::shop;
use crate::{Acknowledged, back_up, config, open, try_restore};

/// A node with a backup, and some writes since.
async fn prepared(disk: &FaultyIo) -> (Engine, Acknowledged, Acknowledged) {
    let engine = open(disk, "node").await;
    engine.define(shop(2)).await.unwrap();
    let mut acknowledged = Acknowledged::default();
    for number in 0..6 {
        acknowledged.write(&engine, number, number % 2).await;
    }
    back_up(&engine).await.unwrap();
    let first = acknowledged.clone();
    for number in 6..12 {
        acknowledged.write(&engine, number, number % 2).await;
    }
    (engine, first, acknowledged)
}

#[tokio::test(start_paused = true)]
async fn a_backup_that_was_cut_off_leaves_the_one_before_and_the_next_one_tidies_up() {
    let mut finished = 0;
    for number in 1..400 {
        let style = Crash::ALL[usize::try_from(number).unwrap() % Crash::ALL.len()];
        let disk = FaultyIo::new(number);
        let (engine, first, mut all) = prepared(&disk).await;
        disk.cut_at(disk.operations() + number);
        let made = back_up(&engine).await;
        let cut = !disk.has_power();
        disk.cut_at(u64::MAX);
        println!("power cut at operation {number} of a backup, {style:?}: {}", made.is_ok());
        engine.kill().await;
        disk.restart(style);
        // Whatever is there can be restored: at least the first backup.
        let restored = try_restore(&disk, "restored", RestorePoint::Latest).unwrap();
        let engine = open(&disk, "restored").await;
        if made.is_ok() {
            assert_eq!(restored.backup, 2, "what was reported is there");
        }
        let mut known = if restored.backup == 2 { all.clone() } else { first.clone() };
        known.check(&engine, 1000).await;
        engine.close().await;
        // And the node goes on making backups.
        let engine = open(&disk, "node").await;
        all.check(&engine, 2000).await;
        back_up(&engine).await.unwrap();
        engine.close().await;
        try_restore(&disk, "again", RestorePoint::Latest).unwrap();
        let engine = open(&disk, "again").await;
        all.check(&engine, 3000).await;
        engine.close().await;
        if !cut {
            finished += 1;
            if finished == 3 {
                return;
            }
        }
    }
    panic!("a backup has fewer operations than that");
}

#[tokio::test(start_paused = true)]
async fn a_restore_that_was_cut_off_is_refused_by_the_engine_and_can_be_begun_anew() {
    let mut finished = 0;
    for number in 1..600 {
        let style = Crash::ALL[usize::try_from(number).unwrap() % Crash::ALL.len()];
        let disk = FaultyIo::new(number);
        let (engine, _, mut all) = prepared(&disk).await;
        back_up(&engine).await.unwrap();
        engine.close().await;
        disk.cut_at(disk.operations() + number);
        let restored = try_restore(&disk, "restored", RestorePoint::Latest);
        let cut = !disk.has_power();
        disk.cut_at(u64::MAX);
        println!("power cut at operation {number} of a restore, {style:?}: {}", restored.is_ok());
        disk.restart(style);
        if restored.is_ok() {
            let engine = open(&disk, "restored").await;
            all.check(&engine, 1000).await;
            engine.close().await;
        } else {
            match try_restore(&disk, "restored", RestorePoint::Latest) {
                Ok(_) => {}
                // Everything was there: only that nobody was told.
                Err(gapless_engine::RestoreError::NotEmpty(_)) => {}
                Err(error) => panic!("{error}"),
            }
            let engine = open(&disk, "restored").await;
            all.check(&engine, 1000).await;
            engine.close().await;
        }
        if !cut {
            finished += 1;
            if finished == 3 {
                return;
            }
        }
    }
    panic!("a restore has fewer operations than that");
}

#[tokio::test(start_paused = true)]
async fn what_a_cut_off_restore_left_is_opened_by_nobody() {
    let operations = {
        let disk = FaultyIo::new(0);
        let (engine, ..) = prepared(&disk).await;
        engine.close().await;
        let before = disk.operations();
        try_restore(&disk, "restored", RestorePoint::Latest).unwrap();
        disk.operations() - before
    };
    let mut refused = 0;
    for number in (1..=operations).step_by(3) {
        let disk = FaultyIo::new(number);
        let (engine, ..) = prepared(&disk).await;
        engine.close().await;
        disk.cut_at(disk.operations() + number);
        let _ = try_restore(&disk, "restored", RestorePoint::Latest);
        disk.restart(Crash::ALL[usize::try_from(number).unwrap() % Crash::ALL.len()]);
        match Engine::open(config(&disk, "restored")).await {
            Err(OpenError::Unfinished(_)) => refused += 1,
            Err(error) => panic!("{error}"),
            // Nothing was begun, or everything was done.
            Ok(engine) => {
                let partitions = engine.partitions().len();
                assert!(partitions == 0 || partitions == 2, "{partitions} partitions");
                engine.close().await;
            }
        }
    }
    assert!(refused > 5, "{refused} of {operations}");
}
