//! The power goes at every operation of a removal.

use gapless_log::io::OpenMode;
use gapless_log::io::faulty::{Crash, FaultyIo};

use super::*;

fn partitions() -> &'static Path {
    Path::new("node/partitions")
}

/// A disk with partitions and domains, of which some came with snapshots, all of it durable.
fn disk_with_partitions(seed: u64) -> FaultyIo {
    let disk = FaultyIo::new(seed);
    for partition in ["16-0", "16-1", "16-1.3", "17-0.4"] {
        for part in ["log", "store", "projections/sold-1", "projections/sold-1.4"] {
            let dir = partitions().join(partition).join(part);
            disk.create_dir(&dir).unwrap();
            for name in ["first", "second"] {
                disk.open(&dir.join(name), OpenMode::Create).unwrap();
            }
            disk.sync_dir(&dir).unwrap();
        }
    }
    disk.create_dir(&partitions().join("of somebody else")).unwrap();
    disk.reset_operations();
    disk
}

fn directories(disk: &FaultyIo, dir: &Path) -> Vec<String> {
    let mut found = disk.list_dirs(dir).unwrap();
    found.sort_unstable();
    found
}

/// Runs a removal with a power cut at each of its operations, and again afterwards; `is_gone` is to be true of the disk then.
fn cut_everywhere(remove: impl Fn(&FaultyIo) -> io::Result<()>, is_gone: impl Fn(&FaultyIo) -> bool) {
    for style in Crash::ALL {
        for number in 1.. {
            let disk = disk_with_partitions(number);
            disk.cut_at(number);
            let ended = remove(&disk);
            assert_eq!(ended.is_ok(), disk.has_power(), "{style:?} at operation {number}: {ended:?}");
            disk.cancel_faults();
            disk.restart(style);
            if ended.is_err() {
                remove(&disk).unwrap();
                disk.restart(Crash::LoseAll);
            }
            assert!(is_gone(&disk), "{style:?} at operation {number}");
            if ended.is_ok() {
                assert!(number > 6, "{number} operations");
                break;
            }
        }
    }
}

#[test]
fn a_partition_is_gone_whenever_the_power_went_while_it_was_removed() {
    let remove = |disk: &FaultyIo| remove(disk, &partitions().join("16-1"));
    cut_everywhere(remove, |disk| {
        let others = directories(disk, partitions()) == ["16-0", "16-1.3", "17-0.4", "of somebody else"];
        others && disk.list(&partitions().join("16-0/log")).unwrap() == ["first", "second"]
    });
}

#[test]
fn what_a_snapshot_replaced_is_gone_whenever_the_power_went_while_it_was_removed() {
    let remove = |disk: &FaultyIo| remove_below(disk, partitions(), |name| name == "16-1");
    cut_everywhere(remove, |disk| {
        directories(disk, partitions()) == ["16-0", "16-1.3", "17-0.4", "of somebody else"]
    });
}

#[test]
fn what_an_interrupted_install_left_is_gone_whenever_the_power_went_while_it_was_removed() {
    let remove = |disk: &FaultyIo| remove_beyond(disk, partitions(), 3);
    cut_everywhere(remove, |disk| {
        let domains = |partition: &str| directories(disk, &partitions().join(partition).join("projections"));
        directories(disk, partitions()) == ["16-0", "16-1", "16-1.3", "of somebody else"]
            && ["16-0", "16-1", "16-1.3"].iter().all(|partition| domains(partition) == ["sold-1"])
    });
}

#[test]
fn what_was_never_there_is_removed_already() {
    let disk = FaultyIo::new(1);
    remove(&disk, &partitions().join("16-0")).unwrap();
    remove_beyond(&disk, partitions(), 0).unwrap();
    disk.create_dir(Path::new("node")).unwrap();
    remove(&disk, partitions()).unwrap();
    assert_eq!(directories(&disk, Path::new("node")), Vec::<String>::new());
}
