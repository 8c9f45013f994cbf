//! A bit is flipped anywhere in the directory of a node: `verify` finds it, or it is one that nobody reads.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gapless_engine::Engine;
use gapless_engine::verify::{Depth, Verified, verify_backup, verify_node};
use gapless_log::io::faulty::FaultyIo;
use gapless_log::io::memory::MemoryIo;
use gapless_log::io::{Io, OpenMode, write_all_at};
use gapless_partition::Scratch;
use gapless_store::{Batch, Budget, Direction, Store, Synced};

use crate::harness::shop;
use crate::points::counting;
use crate::refusals::files;
use crate::{Acknowledged, AllRows, BACKUPS, all_rows, back_up, config, open, open_with};

pub(crate) fn verified(disk: &FaultyIo, dir: &str) -> Verified {
    let io = Arc::new(disk.clone()) as Arc<dyn Io>;
    let scratch = Scratch { io: Arc::new(MemoryIo::new()), dir: PathBuf::from("scratch") };
    verify_node(&io, Path::new(dir), &scratch, Depth::Full, &mut |_| {}).unwrap()
}

/// A node that lived for a while: segments were filled and cut, checkpoints made, two projections kept.
pub(crate) async fn lived(disk: &FaultyIo) -> (Acknowledged, AllRows) {
    let mut config = config(disk, "node");
    config.housekeeping.keep_entries = 50;
    let engine = open_with(config).await;
    engine.define(counting(shop(2))).await.unwrap();
    let mut acknowledged = Acknowledged::default();
    for number in 0..400 {
        acknowledged.write(&engine, number, number % 6).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    for number in 400..500 {
        acknowledged.write(&engine, number, number % 6).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let rows = all_rows(&engine).await;
    back_up(&engine).await.unwrap();
    engine.close().await;
    (acknowledged, rows)
}

/// Positions in every file: its ends, where things begin and end, and some by chance.
pub(crate) fn positions(files: &[(PathBuf, Vec<u8>)], random: &mut fastrand::Rng) -> Vec<(PathBuf, usize)> {
    let mut found = Vec::new();
    for (path, bytes) in files {
        let last = bytes.len() - 1;
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
        let mut at = vec![0, 5, 9, 13, 20, 33, 61, 100, 4096, 4100, 4120, 8192, end, end / 2, last, last - 4];
        at.extend([last - 20, last - 60, last.saturating_sub(200)]);
        at.extend((0..10).map(|_| random.usize(..=end)));
        at.extend((0..4).map(|_| random.usize(..bytes.len())));
        at.retain(|at| *at < bytes.len());
        at.sort_unstable();
        at.dedup();
        found.extend(at.into_iter().map(|at| (path.clone(), at)));
    }
    found
}

pub(crate) fn flip(disk: &FaultyIo, path: &Path, at: usize, byte: u8) {
    let file = disk.open(path, OpenMode::Write).unwrap();
    write_all_at(&*file, &[byte], at as u64).unwrap();
    file.sync().unwrap();
}

/// A disk with these files on it.
pub(crate) fn disk_with(files: &[(PathBuf, Vec<u8>)], seed: u64) -> FaultyIo {
    let disk = FaultyIo::new(seed);
    for (path, bytes) in files {
        disk.create_dir(path.parent().unwrap()).unwrap();
        let file = disk.open(path, OpenMode::Create).unwrap();
        write_all_at(&*file, bytes, 0).unwrap();
        file.sync().unwrap();
        disk.sync_dir(path.parent().unwrap()).unwrap();
    }
    disk
}

/// What a node has in its directory, once it is opened.
pub(crate) async fn opened(disk: &FaultyIo, dir: &str) -> Option<(Engine, AllRows)> {
    let engine = Engine::open(config(disk, dir)).await.ok()?;
    engine.wait_for_leader().await;
    engine.wait_until_actualized().await;
    let rows = all_rows(&engine).await;
    Some((engine, rows))
}

#[tokio::test(start_paused = true)]
async fn a_flipped_bit_anywhere_is_found_or_is_one_that_nobody_reads() {
    let disk = FaultyIo::new(31);
    let (mut acknowledged, rows) = lived(&disk).await;
    let sound = verified(&disk, "node");
    assert_eq!(sound.findings, [], "{sound:?}");
    assert_eq!((sound.partitions, sound.computed, sound.domains), (2, 2, 2));
    assert_eq!((sound.events, sound.outcomes), (500, 502));
    assert!(sound.entries >= 50 && sound.rows > 1000, "{sound:?}");

    let all = files(&disk, Path::new("node"));
    let kinds: BTreeMap<String, usize> = all.iter().fold(BTreeMap::new(), |mut kinds, (path, _)| {
        *kinds.entry(path.parent().unwrap().display().to_string()).or_default() += 1;
        kinds
    });
    println!("{kinds:?}");
    let seed = 31;
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut found, mut unread) = (0, Vec::new());
    for (path, at) in positions(&all, &mut random) {
        let (_, bytes) = all.iter().find(|(known, _)| *known == path).unwrap();
        flip(&disk, &path, at, bytes[at] ^ (1 << random.u8(..8)));
        match verified(&disk, "node").findings.is_empty() {
            true => unread.push((path.clone(), at)),
            false => found += 1,
        }
        flip(&disk, &path, at, bytes[at]);
    }
    println!("{found} found, {} unread", unread.len());
    assert!(found > 300, "{found}");
    for (path, at) in unread {
        let (_, bytes) = all.iter().find(|(known, _)| *known == path).unwrap();
        // An idle spare is removed or made empty before it is used; and behind what was written there are zeros.
        let spare = path.to_string_lossy().ends_with(".spare.tmp");
        let segment = path.extension().is_some_and(|extension| extension == "segment");
        assert!(spare || (segment && bytes[at] == 0), "{} at {at} has a meaning", path.display());
        let copy = disk_with(&all, 1);
        flip(&copy, &path, at, bytes[at] ^ 0x40);
        let (engine, found) = opened(&copy, "node").await.unwrap();
        assert_eq!(found, rows, "{} at {at} has a meaning", path.display());
        engine.close().await;
    }
    let engine = open(&disk, "node").await;
    acknowledged.check(&engine, 10_000).await;
    engine.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_flipped_bit_anywhere_in_a_backup_is_found() {
    let disk = FaultyIo::new(32);
    lived(&disk).await;
    let io = Arc::new(disk.clone()) as Arc<dyn Io>;
    let verify = || verify_backup(&io, Path::new(BACKUPS), &mut |_| {}).unwrap();
    let sound = verify();
    assert_eq!((&sound.findings[..], sound.entries, sound.outcomes), (&[][..], 1, 502));
    let all = files(&disk, Path::new(BACKUPS));
    let mut random = fastrand::Rng::with_seed(32);
    for (path, at) in positions(&all, &mut random) {
        let (_, bytes) = all.iter().find(|(known, _)| *known == path).unwrap();
        flip(&disk, &path, at, bytes[at] ^ (1 << random.u8(..8)));
        let found = verify();
        assert!(!found.is_sound(), "{} at {at}", path.display());
        assert!(found.findings.iter().all(|finding| finding.path == path), "{:?}", found.findings);
        flip(&disk, &path, at, bytes[at]);
    }
    assert!(verify_backup(&io, Path::new("node"), &mut |_| {}).is_none());
}

/// A bug, not a bit: every checksum is right, and the row is not what its effects say.
#[tokio::test(start_paused = true)]
async fn a_row_of_a_projection_that_does_not_follow_from_its_effects_is_found() {
    let disk = FaultyIo::new(35);
    lived(&disk).await;
    let found = verified(&disk, "node");
    assert!(found.is_sound(), "{:?}", found.findings);
    assert_eq!((found.domains, found.computed_domains), (2, 2));
    let io = Arc::new(disk.clone()) as Arc<dyn Io>;
    let dir = Path::new("node/partitions/16-1/projections/sold-1");
    let budget = Budget::new(1 << 20, 1 << 20);
    let (mut store, _) = Store::open(io, dir, gapless_store::Options::default(), &budget).unwrap();
    let (key, value) = store.prefix(b"r", Direction::Forward).next().unwrap().unwrap();
    let mut batch = Batch::new();
    batch.put(&key, &[&value[..], b"!"].concat()).unwrap();
    store.apply(&batch).unwrap();
    let offset = store.checkpoint_offset();
    store.checkpoint(offset, Synced::by_a_sync_up_to(offset)).unwrap();
    drop(store);
    let found = verified(&disk, "node");
    let damage: Vec<_> = found.findings.iter().filter(|finding| finding.is_damage).collect();
    assert_eq!(damage.len(), 1, "{damage:?}");
    assert!(damage[0].path == dir && damage[0].what.contains("row all of table sold"), "{damage:?}");
}
