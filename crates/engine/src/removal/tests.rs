//! The power goes at every operation of a removal.

use std::path::PathBuf;
use std::sync::Arc;

use gapless_log::io::OpenMode;
use gapless_log::io::faulty::{Crash, FaultyIo};

use super::*;

fn node() -> &'static Path {
    Path::new("node")
}

/// A disk with partitions of three generations, all of it durable.
fn disk_with_partitions(seed: u64) -> (FaultyIo, CatalogFile) {
    let disk = FaultyIo::new(seed);
    let catalog_file = CatalogFile::new(Arc::new(disk.clone()), node());
    for generation in [8, 9, 10] {
        for partition in ["16-0", "16-1", "17-0"] {
            for part in ["log", "store"] {
                let dir = catalog_file.partitions_dir(generation).join(partition).join(part);
                disk.create_dir(&dir).unwrap();
                for name in ["first", "second"] {
                    disk.open(&dir.join(name), OpenMode::Create).unwrap();
                }
                disk.sync_dir(&dir).unwrap();
            }
        }
    }
    disk.create_dir(&node().join("partitions-of-somebody-else")).unwrap();
    disk.reset_operations();
    (disk, catalog_file)
}

fn directories(disk: &FaultyIo, dir: &Path) -> Vec<PathBuf> {
    disk.list_dirs(dir).unwrap().into_iter().map(PathBuf::from).collect()
}

/// Runs a removal with a power cut at each of its operations, and again afterwards; `left` is to be true of the disk then.
fn cut_everywhere(
    remove: impl Fn(&FaultyIo, &CatalogFile) -> io::Result<()>,
    is_gone: impl Fn(&FaultyIo, &CatalogFile) -> bool,
) {
    for style in Crash::ALL {
        for number in 1.. {
            let (disk, catalog_file) = disk_with_partitions(number);
            disk.cut_at(number);
            let ended = remove(&disk, &catalog_file);
            assert_eq!(ended.is_ok(), disk.has_power(), "{style:?} at operation {number}: {ended:?}");
            disk.cancel_faults();
            disk.restart(style);
            if ended.is_err() {
                remove(&disk, &catalog_file).unwrap();
                disk.restart(Crash::LoseAll);
            }
            assert!(is_gone(&disk, &catalog_file), "{style:?} at operation {number}");
            if ended.is_ok() {
                assert!(number > 6, "{number} operations");
                break;
            }
        }
    }
}

#[test]
fn a_partition_is_gone_whenever_the_power_went_while_it_was_removed() {
    let remove = |disk: &FaultyIo, file: &CatalogFile| remove(disk, &file.partitions_dir(10).join("16-1"));
    cut_everywhere(remove, |disk, file| {
        let others = directories(disk, &file.partitions_dir(10)) == ["16-0", "17-0"].map(PathBuf::from);
        let files = disk.list(&file.partitions_dir(10).join("16-0/log")).unwrap();
        others && files == ["first", "second"]
    });
}

#[test]
fn earlier_generations_are_gone_whenever_the_power_went_while_they_were_removed() {
    let remove = |disk: &FaultyIo, file: &CatalogFile| remove_generations_before(disk, file, 10);
    cut_everywhere(remove, |disk, file| {
        let left = ["partitions-10", "partitions-of-somebody-else"].map(PathBuf::from);
        directories(disk, node()) == left && directories(disk, &file.partitions_dir(10)).len() == 3
    });
}

#[test]
fn what_an_interrupted_install_left_is_gone_whenever_the_power_went_while_it_was_removed() {
    let remove = |disk: &FaultyIo, file: &CatalogFile| remove_generations_behind(disk, file, 9);
    cut_everywhere(remove, |disk, _| {
        let found = directories(disk, node());
        !found.contains(&PathBuf::from("partitions-10")) && found.contains(&PathBuf::from("partitions-9"))
    });
}

#[test]
fn what_was_never_there_is_removed_already() {
    let disk = FaultyIo::new(1);
    remove(&disk, &node().join("partitions-0/16-0")).unwrap();
    disk.create_dir(node()).unwrap();
    remove(&disk, &node().join("partitions-0")).unwrap();
    assert_eq!(directories(&disk, node()), Vec::<PathBuf>::new());
}
