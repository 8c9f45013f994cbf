//! Power cuts of the faulty disk: what each style leaves, and what of the operation that was cut.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::Path;

use gapless_log::io::faulty::{Crash, FaultyIo, InjectedKind, is_power_cut};
use gapless_log::io::{Io, OpenMode, write_all_at};
use proptest::prelude::*;

use crate::{SECTOR, content_of_faulty as content, disk_with_file, path, root, sectors};

#[test]
fn synced_data_survives_every_crash_and_unsynced_data_as_the_style_says() {
    for seed in 0..50 {
        let (disk, file) = disk_with_file(seed, 1);
        write_all_at(&*file, &[2; 2048], 0).unwrap();
        write_all_at(&*file, &[3; 2048], 4096).unwrap();
        for style in Crash::ALL {
            let crashed = disk.fork(seed);
            crashed.restart(style);
            let kept = sectors(&content(&crashed));
            let [first, untouched, second, rest] = [0..4, 4..8, 8..12, 12..16].map(|range| &kept[range]);
            assert_eq!([untouched, rest], [[1; 4]; 2]);
            match style {
                Crash::LoseAll => assert_eq!([first, second], [[1; 4]; 2]),
                Crash::KeepAll => assert_eq!([first, second], [[2; 4], [3; 4]]),
                Crash::Torn => {
                    assert!(first.iter().all(|b| *b <= 2) && second.iter().all(|b| [1, 3].contains(b)));
                }
                Crash::Ordered => {
                    assert!(first.is_sorted_by(|a, b| a >= b) && second.is_sorted_by(|a, b| a >= b));
                    assert!(second == [1; 4] || first == [2; 4], "the second write came after the first");
                }
            }
        }
    }
}

#[test]
fn torn_crashes_reorder_and_tear() {
    let (disk, file) = disk_with_file(1, 1);
    write_all_at(&*file, &[2; 2048], 0).unwrap();
    write_all_at(&*file, &[3; 2048], 4096).unwrap();
    let outcomes: Vec<_> = (0..200)
        .map(|seed| {
            let crashed = disk.fork(seed);
            crashed.restart(Crash::Torn);
            let kept = sectors(&content(&crashed));
            (kept[..4].to_vec(), kept[8..12].to_vec())
        })
        .collect();
    assert!(outcomes.iter().any(|(first, second)| *first == [1; 4] && *second == [3; 4]), "reordered");
    assert!(outcomes.iter().any(|(first, _)| *first == [1, 2, 1, 2]), "torn in the middle");
    assert!(outcomes.iter().any(|(first, second)| *first == [2; 4] && *second == [3; 4]), "whole");
}

#[test]
fn ordered_crashes_tear_the_last_write_at_a_sector() {
    let (disk, file) = disk_with_file(1, 1);
    write_all_at(&*file, &[2; 2048], 0).unwrap();
    let kept: BTreeSet<_> = (0..100)
        .map(|seed| {
            let crashed = disk.fork(seed);
            crashed.restart(Crash::Ordered);
            sectors(&content(&crashed)).iter().filter(|byte| **byte == 2).count()
        })
        .collect();
    assert_eq!(kept, (0..=4).collect());
}

#[test]
fn a_file_goes_by_the_name_that_the_crash_left_it() {
    let (disk, _) = disk_with_file(1, 1);
    disk.rename(path(), Path::new("/other")).unwrap();
    disk.restart(Crash::LoseAll);
    let file = disk.open(path(), OpenMode::Write).unwrap();
    file.sync().unwrap();
    assert_eq!(disk.trace().last().unwrap().path, path());
}

#[test]
fn pending_names_are_lost_kept_or_chosen_in_order() {
    let disk = FaultyIo::new(1);
    for name in ["/a", "/b", "/c"] {
        disk.open(Path::new(name), OpenMode::Create).unwrap();
    }
    let names_after = |style, seed| {
        let crashed = disk.fork(seed);
        crashed.restart(style);
        crashed.list(root()).unwrap().concat()
    };
    assert_eq!(names_after(Crash::LoseAll, 1), "");
    assert_eq!(names_after(Crash::KeepAll, 1), "abc");
    let chosen = |style| (0..100).map(|seed| names_after(style, seed)).collect::<BTreeSet<_>>();
    assert_eq!(chosen(Crash::Ordered), ["", "a", "ab", "abc"].map(String::from).into());
    assert_eq!(chosen(Crash::Torn).len(), 8, "every subset");
}

#[test]
fn an_extension_can_survive_without_its_data() {
    let (disk, file) = disk_with_file(1, 1);
    write_all_at(&*file, &[2; SECTOR], 8192).unwrap();
    let mut ends: Vec<_> = (0..100)
        .map(|seed| {
            let crashed = disk.fork(seed);
            crashed.restart(Crash::Torn);
            sectors(&content(&crashed)).split_off(16)
        })
        .collect();
    ends.sort();
    ends.dedup();
    assert_eq!(ends, [vec![], vec![0], vec![2]]);
}

#[test]
fn a_cut_stops_everything_until_the_restart() {
    let (disk, file) = disk_with_file(1, 1);
    let lock = disk.lock(root()).unwrap();
    disk.cut_at(2);
    file.write_at(&[2; 1024], 0).unwrap();
    let failures = [
        file.write_at(&[3; 1024], 1024).map(drop),
        file.read_at(&mut [0], 0).map(drop),
        file.sync(),
        file.reserve(1),
        file.len().map(drop),
        disk.open(path(), OpenMode::Read).map(drop),
        disk.open(path(), OpenMode::Create).map(drop),
        disk.rename(path(), Path::new("/other")),
        disk.remove(path()),
        disk.list(root()).map(drop),
        disk.create_dir(root()),
        disk.sync_dir(root()),
        disk.lock(root()).map(drop),
    ];
    for failure in failures {
        assert!(is_power_cut(&failure.unwrap_err()));
    }
    assert!(!disk.has_power());
    assert_eq!(disk.operations(), 2, "without power nothing is counted");

    disk.restart(Crash::LoseAll);
    assert_eq!(content(&disk), [1; 8192]);
    assert!(is_power_cut(&file.read_at(&mut [0], 0).unwrap_err()), "the old handle is dead");
    let _new_lock = disk.lock(root()).unwrap();
    drop(lock);
    assert_eq!(disk.lock(root()).unwrap_err().kind(), ErrorKind::WouldBlock, "the old lock is harmless");
    let again = disk.open(path(), OpenMode::Write).unwrap();
    write_all_at(&*again, &[4; 8], 0).unwrap();
    assert_eq!(disk.injected()[0].kind, InjectedKind::PowerCut);
}

#[test]
fn of_a_write_that_was_cut_any_beginning_may_be_kept() {
    let (disk, _) = disk_with_file(1, 1);
    let kept: Vec<_> = (0..50)
        .map(|seed| {
            let trial = disk.fork(seed);
            trial.cut_at(1);
            let file = trial.open(path(), OpenMode::Write).unwrap();
            file.write_at(&[2; 4096], 0).unwrap_err();
            trial.restart(Crash::KeepAll);
            let bytes = content(&trial);
            let count = bytes.iter().take_while(|byte| **byte == 2).count();
            assert!(count <= 4096 && bytes[count..].iter().all(|byte| *byte == 1));
            count
        })
        .collect();
    assert!(kept.iter().any(|count| *count < 1000) && kept.iter().any(|count| *count > 3000));
}

#[test]
fn a_sync_that_was_cut_may_have_carried_over_all_some_or_nothing() {
    let (disk, file) = disk_with_file(1, 1);
    write_all_at(&*file, &[2; 4096], 0).unwrap();
    disk.cut_at(2);
    file.sync().unwrap_err();
    let carried: Vec<_> = (0..50)
        .map(|seed| {
            let trial = disk.fork(seed);
            trial.restart(Crash::LoseAll);
            sectors(&content(&trial)).iter().filter(|byte| **byte == 2).count()
        })
        .collect();
    assert!(carried.contains(&0) && carried.contains(&8));
    assert!(carried.iter().any(|count| (1..8).contains(count)));
}

#[test]
fn changes_of_names_that_were_cut_happened_or_did_not() {
    let (disk, _) = disk_with_file(1, 1);
    let other = Path::new("/other");
    let names_after = |change: &dyn Fn(&FaultyIo)| {
        let mut outcomes = BTreeSet::new();
        for seed in 0..30 {
            let trial = disk.fork(seed);
            trial.cut_at(1);
            change(&trial);
            trial.restart(Crash::KeepAll);
            outcomes.insert(trial.list(root()).unwrap().join(" "));
        }
        outcomes.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(names_after(&|trial| trial.rename(path(), other).unwrap_err_cut()), ["file", "other"]);
    assert_eq!(names_after(&|trial| trial.remove(path()).unwrap_err_cut()), ["", "file"]);
    let create = |trial: &FaultyIo| trial.open(other, OpenMode::Create).map(drop).unwrap_err_cut();
    assert_eq!(names_after(&create), ["file", "file other"]);

    disk.rename(path(), other).unwrap();
    let mut synced = BTreeSet::new();
    for seed in 0..30 {
        let trial = disk.fork(seed);
        trial.cut_at(1);
        trial.sync_dir(root()).unwrap_err_cut();
        trial.restart(Crash::LoseAll);
        synced.insert(trial.list(root()).unwrap().concat());
    }
    assert_eq!(synced.into_iter().collect::<Vec<_>>(), ["file", "other"]);
}

/// `/outer` and `/outer/inner` were removed, and with them a file whose name was durable; nothing of that was synced.
fn disk_with_removed_directories() -> FaultyIo {
    let disk = FaultyIo::new(1);
    let (outer, inner) = (Path::new("/outer"), Path::new("/outer/inner"));
    disk.create_dir(inner).unwrap();
    disk.open(&inner.join("file"), OpenMode::Create).unwrap();
    disk.sync_dir(inner).unwrap();
    disk.remove(&inner.join("file")).unwrap();
    disk.remove_dir(inner).unwrap();
    disk.remove_dir(outer).unwrap();
    disk
}

/// Names of the directories below `/outer`, and of the files in the one that was there; none if `/outer` itself is gone.
fn below_outer(disk: &FaultyIo) -> Option<(Vec<String>, Option<Vec<String>>)> {
    let directories = disk.list_dirs(Path::new("/outer")).ok()?;
    Some((directories, disk.list(Path::new("/outer/inner")).ok()))
}

#[test]
fn a_removed_directory_stays_gone_after_the_sync_of_the_one_above_it() {
    let disk = disk_with_removed_directories();
    assert_eq!(below_outer(&disk), None);

    // Not synced: everything comes back, as it was when it was last synced.
    let lost = disk.fork(2);
    lost.restart(Crash::LoseAll);
    assert_eq!(below_outer(&lost), Some((vec!["inner".into()], Some(vec!["file".into()]))));
    // With each seed any part of it may have arrived, and what is in a directory never without it.
    let mut outcomes = BTreeSet::new();
    for seed in 0..60 {
        let torn = disk.fork(seed);
        torn.restart(Crash::Torn);
        outcomes.insert(below_outer(&torn));
    }
    let inner_left = |files: &[&str]| {
        Some((vec!["inner".to_owned()], Some(files.iter().map(|&name| name.to_owned()).collect())))
    };
    let expected = [None, Some((vec![], None)), inner_left(&[]), inner_left(&["file"])];
    assert_eq!(outcomes, BTreeSet::from(expected));
    // Synced: the names below need no sync of their own.
    disk.sync_dir(root()).unwrap();
    for style in Crash::ALL {
        let synced = disk.fork(3);
        synced.restart(style);
        assert_eq!(below_outer(&synced), None, "{style:?}");
    }
}

#[test]
fn a_directory_that_is_created_again_survives_its_removal() {
    let disk = disk_with_removed_directories();
    let inner = Path::new("/outer/inner");
    disk.create_dir(inner).unwrap();
    disk.open(&inner.join("new"), OpenMode::Create).unwrap();
    disk.sync_dir(inner).unwrap();
    disk.sync_dir(root()).unwrap();
    disk.restart(Crash::LoseAll);
    assert_eq!(disk.list(inner).unwrap(), ["new"]);
}

trait UnwrapCut {
    fn unwrap_err_cut(self);
}

impl UnwrapCut for io::Result<()> {
    fn unwrap_err_cut(self) {
        assert!(is_power_cut(&self.unwrap_err()));
    }
}

proptest! {
    #[test]
    fn no_crash_loses_a_synced_byte_or_invents_one(
        seed: u64,
        cut in 1_u64..40,
        steps in prop::collection::vec((0_usize..6_000, 1_usize..3_000, prop::bool::weighted(0.3)), 1..40),
    ) {
        for style in Crash::ALL {
            let (disk, file) = disk_with_file(seed, 0);
            disk.cut_at(cut);
            // For each byte the values it may have: the durable one first, then all that were written since.
            let mut allowed = vec![vec![0_u8]; 9_000];
            for (value, (offset, count, sync)) in (1_u8..).zip(&steps) {
                allowed[*offset..offset + count].iter_mut().for_each(|values| values.push(value));
                if write_all_at(&*file, &vec![value; *count], *offset as u64).is_err() {
                    break;
                }
                if *sync {
                    if file.sync().is_err() {
                        break;
                    }
                    allowed.iter_mut().for_each(|values| drop(values.drain(..values.len() - 1)));
                }
            }
            disk.restart(style);
            let bytes = content(&disk);
            prop_assert!(bytes.len() >= 8192);
            for (byte, values) in bytes.iter().zip(&allowed) {
                // A length may survive without the bytes, which leaves zeros only where nothing durable was.
                prop_assert!(values.contains(byte));
            }
        }
    }
}
