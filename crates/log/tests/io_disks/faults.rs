//! The other faults of the faulty disk: errors, short operations, lies, rot, a full disk; and that it repeats itself.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::Path;

use gapless_log::io::faulty::{Crash, Fault, FaultyIo, InjectedKind, OperationKind, is_power_cut};
use gapless_log::io::{Io, OpenMode, read_exact_at, write_all_at};

use crate::{content_of_faulty as content, disk_with_file, path, root, sectors};

fn assert_input_output_error<T: std::fmt::Debug>(result: io::Result<T>) {
    let error = result.unwrap_err();
    assert_eq!(error.raw_os_error(), Some(5));
    assert!(!is_power_cut(&error));
}

#[test]
fn a_failure_waits_for_an_operation_of_its_kind_and_strikes_once() {
    let (disk, file) = disk_with_file(1, 1);
    let other = Path::new("/other");
    for fault in [
        OperationKind::Reserve,
        OperationKind::Rename,
        OperationKind::Remove,
        OperationKind::RemoveDir,
        OperationKind::SyncDir,
        OperationKind::Create,
        OperationKind::Write,
        OperationKind::Sync,
    ] {
        disk.fail_at(1, fault);
    }
    assert_input_output_error(file.write_at(&[2; 10], 0));
    file.write_at(&[2; 10], 0).unwrap();
    assert_input_output_error(file.sync());
    file.sync().unwrap();
    assert_input_output_error(file.reserve(10_000));
    assert_eq!(file.len().unwrap(), 8192);
    file.reserve(10_000).unwrap();
    assert_input_output_error(disk.rename(path(), other));
    assert_eq!(disk.list(root()).unwrap(), ["file"]);
    disk.rename(path(), other).unwrap();
    assert_input_output_error(disk.sync_dir(root()));
    disk.sync_dir(root()).unwrap();
    assert_input_output_error(disk.remove(other));
    disk.remove(other).unwrap();
    let dir = Path::new("/directory");
    disk.create_dir(dir).unwrap();
    assert_input_output_error(disk.remove_dir(dir));
    assert_eq!(disk.list_dirs(root()).unwrap(), ["directory"]);
    disk.remove_dir(dir).unwrap();
    assert_input_output_error(disk.open(path(), OpenMode::Create));
    assert_eq!(disk.list(root()).unwrap(), [""; 0]);
    disk.open(path(), OpenMode::Create).unwrap();

    disk.fail_at(disk.operations() + 2, Fault::Any);
    disk.sync_dir(root()).unwrap();
    assert_input_output_error(disk.sync_dir(root()));
    disk.fail_at(1, Fault::Any);
    disk.cancel_faults();
    disk.sync_dir(root()).unwrap();
    let failed = disk.injected().iter().filter(|i| matches!(i.kind, InjectedKind::Failure(_))).count();
    assert_eq!(failed, 9);
}

#[test]
fn a_failed_write_may_have_written_any_part() {
    let (disk, file) = disk_with_file(3, 1);
    disk.fail_at(1, OperationKind::Write);
    assert_input_output_error(file.write_at(&[2; 4096], 0));
    let written = content(&disk).iter().filter(|byte| **byte == 2).count();
    assert!(0 < written && written < 4096, "seed 3 tears it, at {written}");
    assert_eq!(disk.injected()[0].length, 4096);
}

#[test]
fn after_a_failed_sync_the_next_one_succeeds_and_carries_nothing_over() {
    let mut lost = 0;
    for seed in 0..20 {
        let (disk, file) = disk_with_file(seed, 1);
        write_all_at(&*file, &[2; 4096], 0).unwrap();
        disk.fail_at(1, OperationKind::Sync);
        assert_input_output_error(file.sync());
        assert_eq!(content(&disk)[..4096], [2; 4096], "reads show what the disk does not have");
        write_all_at(&*file, &[3; 512], 4096).unwrap();
        file.sync().unwrap();
        disk.restart(Crash::KeepAll);
        let kept = sectors(&content(&disk));
        assert_eq!(kept[8], 3, "what came after the failure is durable");
        lost += kept[..8].iter().filter(|byte| **byte == 1).count();
    }
    assert!(0 < lost && lost < 20 * 8);
}

#[test]
fn after_a_failed_sync_of_a_directory_the_next_one_carries_no_name_over() {
    let left = |seed| {
        let (disk, _) = disk_with_file(seed, 1);
        disk.rename(path(), Path::new("/other")).unwrap();
        disk.fail_at(1, OperationKind::SyncDir);
        assert_input_output_error(disk.sync_dir(root()));
        assert_eq!(disk.list(root()).unwrap(), ["other"]);
        disk.sync_dir(root()).unwrap();
        disk.restart(Crash::KeepAll);
        disk.list(root()).unwrap().concat()
    };
    let outcomes: BTreeSet<_> = (0..20).map(left).collect();
    assert_eq!(outcomes, ["file", "other"].map(String::from).into());
}

#[test]
fn short_and_interrupted_operations_do_what_they_say() {
    let (disk, file) = disk_with_file(1, 1);
    disk.short_writes(100);
    disk.short_reads(100);
    let written = file.write_at(&[2; 1000], 0).unwrap();
    assert!(0 < written && written < 1000);
    assert_eq!(content(&disk).iter().filter(|byte| **byte == 2).count(), written);
    assert_eq!(file.write_at(&[2], 0).unwrap(), 1, "one byte cannot be written in part");
    let mut buffer = [0; 1000];
    let read = file.read_at(&mut buffer, 0).unwrap();
    assert!(0 < read && read < 1000);
    assert!(buffer[read..].iter().all(|byte| *byte == 0));

    disk.interrupts(90);
    let interrupted = (0..20).filter(|_| match file.read_at(&mut buffer, 0) {
        Ok(_) => false,
        Err(error) => error.kind() == ErrorKind::Interrupted,
    });
    assert!(interrupted.count() > 10);
    write_all_at(&*file, &[4; 1000], 0).unwrap();
    read_exact_at(&*file, &mut buffer, 0).unwrap();
    assert_eq!(buffer, [4; 1000]);
}

#[test]
fn a_lost_write_is_reported_as_done_and_is_nowhere() {
    let (disk, file) = disk_with_file(1, 1);
    disk.lose_write_at(1);
    file.sync().unwrap();
    assert_eq!(file.write_at(&[2; 1024], 7680).unwrap(), 1024);
    file.sync().unwrap();
    let mut expected = vec![1; 8704];
    expected[8192..].fill(0);
    assert_eq!(content(&disk), expected, "only the length has grown");
    disk.restart(Crash::KeepAll);
    assert_eq!(content(&disk), expected);
    let [lost] = &disk.injected()[..] else { panic!("one fault") };
    assert_eq!((lost.kind, lost.operation), (InjectedKind::LostWrite, 2));
    assert_eq!((&*lost.path, lost.offset, lost.length), (path(), 7680, 1024));
}

#[test]
fn a_misdirected_write_lands_elsewhere_in_the_same_file_or_in_another() {
    let (mut inside, mut beside) = (0, 0);
    for seed in 0..40 {
        let (disk, file) = disk_with_file(seed, 1);
        let other = Path::new("/other");
        write_all_at(&*disk.open(other, OpenMode::Create).unwrap(), &[1; 8192], 0).unwrap();
        disk.misdirect_write_at(1);
        assert_eq!(file.write_at(&[2; 1024], 4096).unwrap(), 1024);
        let journal = disk.injected();
        let landed = journal[0].landed.clone().unwrap();
        assert_eq!((journal[0].kind, journal[0].offset), (InjectedKind::MisdirectedWrite, 4096));
        assert_eq!(landed.offset % 512, 0);
        let mut expected = vec![1; 8192];
        let start = usize::try_from(landed.offset).unwrap();
        let end = start + usize::try_from(landed.length).unwrap();
        expected[start..end].fill(2);
        assert_eq!(disk.memory().bytes_of(&landed.path).unwrap(), expected);
        if landed.path == path() {
            assert_ne!(landed.offset, 4096);
            inside += 1;
            disk.restart(Crash::LoseAll);
        } else {
            assert_eq!(content(&disk), [1; 8192]);
            beside += 1;
            disk.restart(Crash::KeepAll);
        }
        assert_eq!(disk.memory().bytes_of(&landed.path).unwrap(), expected, "it landed durably");
    }
    assert!(inside > 0 && beside > 0);
}

#[test]
fn a_write_that_has_nowhere_else_to_land_is_lost() {
    let disk = FaultyIo::new(1);
    let file = disk.open(path(), OpenMode::Create).unwrap();
    disk.misdirect_write_at(1);
    assert_eq!(file.write_at(&[2; 100], 0).unwrap(), 100);
    assert_eq!(content(&disk), [0; 100]);
    assert_eq!(disk.injected()[0].landed, None);
}

#[test]
fn rot_is_seen_at_once_stays_and_is_journalled() {
    let (disk, file) = disk_with_file(1, 1);
    write_all_at(&*file, &[3; 512], 0).unwrap();
    disk.flip_bit(path(), 0, 7).unwrap();
    disk.zero_range(path(), 8000..10_000).unwrap();
    let flipped = disk.flip_random_bit().unwrap();
    let hit = usize::try_from(flipped.offset).unwrap();
    assert!(hit < 8000, "zeros are left alone");
    let InjectedKind::FlippedBit(bit) = flipped.kind else { panic!("a flipped bit") };
    for style in [Crash::LoseAll, Crash::KeepAll] {
        let crashed = disk.fork(1);
        crashed.restart(style);
        let mut expected = vec![1; 8192];
        if style == Crash::KeepAll {
            expected[..512].fill(3);
        }
        expected[0] ^= 0x80;
        expected[8000..].fill(0);
        expected[hit] ^= 1 << bit;
        assert_eq!(content(&crashed), expected);
    }
    disk.truncate_file(path(), 100).unwrap();
    assert_eq!(file.len().unwrap(), 100);
    disk.delete_file(path()).unwrap();
    assert_eq!(disk.delete_file(path()).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.flip_bit(path(), 0, 0).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(disk.flip_random_bit().is_none());
    assert_eq!(file.len().unwrap(), 100, "who has it open goes on");
    disk.restart(Crash::KeepAll);
    assert_eq!(disk.list(root()).unwrap(), [""; 0]);
    let told: Vec<_> = disk.injected().iter().map(|i| (i.kind, i.offset, i.length)).collect();
    let expected = [
        (InjectedKind::FlippedBit(7), 0, 1),
        (InjectedKind::ZeroedRange, 8000, 192),
        (flipped.kind, flipped.offset, 1),
        (InjectedKind::ChangedLength, 100, 8092),
        (InjectedKind::DeletedFile, 0, 100),
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_full_disk_refuses_growth_changes_nothing_and_heals() {
    let (disk, file) = disk_with_file(1, 1);
    disk.set_capacity(Some(10_000));
    let other = disk.open(Path::new("/other"), OpenMode::Create).unwrap();
    let full = |result: io::Result<()>| assert_eq!(result.unwrap_err().kind(), ErrorKind::StorageFull);
    full(other.reserve(1_809));
    full(other.write_at(&[2; 1], 1_808).map(drop));
    assert_eq!(other.len().unwrap(), 0);
    other.reserve(1_808).unwrap();
    full(file.write_at(&[2; 2], 8_191).map(drop));
    file.write_at(&[2; 8_192], 0).unwrap();
    other.write_at(&[2; 1_808], 0).unwrap();

    disk.set_capacity(Some(10_001));
    file.write_at(&[3; 2], 8_191).unwrap();
    full(other.reserve(1_809));
    disk.remove(path()).unwrap();
    full(other.reserve(1_809));
    drop(file);
    other.reserve(10_001).unwrap();
}

#[test]
fn the_trace_names_each_operation() {
    let disk = FaultyIo::new(1);
    let file = disk.open(path(), OpenMode::Create).unwrap();
    let new = Path::new("/new");
    file.reserve(4096).unwrap();
    disk.rename(path(), new).unwrap();
    file.write_at(&[1; 10], 100).unwrap();
    file.read_at(&mut [0], 0).unwrap();
    file.sync().unwrap();
    disk.sync_dir(root()).unwrap();
    disk.remove(new).unwrap();
    disk.remove_dir(Path::new("/directory")).unwrap();
    let lines: Vec<_> =
        disk.trace().iter().map(|operation| operation.to_string().trim().to_owned()).collect();
    let expected = [
        "1 Create /file",
        "2 Reserve /file 4096",
        "3 Rename /file to /new",
        "4 Write /new 100+10",
        "5 Sync /new",
        "6 SyncDir /",
        "7 Remove /new",
        "8 RemoveDir /directory",
    ];
    assert_eq!(lines, expected);
    assert_eq!(disk.trace()[3].kind, OperationKind::Write);
}

/// Random work with everything that can go wrong switched on; returns how each step ended.
fn random_work(disk: &FaultyIo, seed: u64) -> Vec<Option<ErrorKind>> {
    let mut rng = fastrand::Rng::with_seed(seed);
    disk.short_writes(20);
    disk.short_reads(20);
    disk.interrupts(10);
    disk.set_capacity(Some(100_000));
    disk.cut_at(60);
    disk.fail_at(10, OperationKind::Sync);
    disk.fail_at(20, Fault::Any);
    disk.lose_write_at(30);
    disk.misdirect_write_at(40);
    let mut ends = Vec::new();
    for _ in 0..100 {
        let path = format!("/{}", rng.u8(0..3));
        let path = Path::new(&path);
        let target = format!("/{}", rng.u8(0..3));
        let mut step = || -> io::Result<()> {
            let open = |mode| disk.open(path, mode);
            match rng.u8(0..10) {
                0 => open(OpenMode::Create).map(drop),
                1 => disk.rename(path, Path::new(&target)),
                2 => disk.remove(path),
                3 => disk.sync_dir(root()),
                4 => open(OpenMode::Write)?.sync(),
                5 => open(OpenMode::Write)?.reserve(rng.u64(0..60_000)),
                6 => open(OpenMode::Read)?.read_at(&mut [0; 100], 0).map(drop),
                _ => open(OpenMode::Write)?.write_at(&[rng.u8(1..); 3_000], rng.u64(0..30_000)).map(drop),
            }
        };
        ends.push(step().err().map(|error| error.kind()));
    }
    disk.flip_random_bit();
    disk.restart(Crash::Torn);
    ends
}

#[test]
fn the_same_seed_twice_gives_the_same_trace_errors_and_bytes() {
    for seed in 0..50 {
        let [first, second] = [(); 2].map(|()| FaultyIo::new(seed));
        assert_eq!(random_work(&first, seed), random_work(&second, seed));
        assert_eq!(first.trace(), second.trace());
        assert_eq!(first.injected(), second.injected());
        let names = first.list(root()).unwrap();
        assert_eq!(names, second.list(root()).unwrap());
        for name in names {
            let path = root().join(name);
            assert_eq!(first.memory().bytes_of(&path).unwrap(), second.memory().bytes_of(&path).unwrap());
        }
    }
}
