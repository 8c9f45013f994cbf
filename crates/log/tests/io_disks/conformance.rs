//! What every disk does: one list of behaviours, run over real files, memory, and a faulty disk without faults.

use std::io::ErrorKind;
use std::path::Path;

use gapless_log::io::faulty::FaultyIo;
use gapless_log::io::memory::MemoryIo;
use gapless_log::io::real::RealIo;
use gapless_log::io::{Io, OpenMode, read_exact_at, read_up_to, write_all_at};

use crate::{content, content_of, create};

type Behaviour = fn(&dyn Io, &Path);

const BEHAVIOURS: [Behaviour; 16] = [
    what_is_written_is_read_back,
    what_is_filled_reads_as_zeros_and_its_neighbours_stay,
    a_read_at_the_end_is_short,
    reserved_room_reads_as_zeros,
    creating_empties_what_is_there,
    a_missing_file_or_directory_is_not_found,
    a_file_opened_for_reading_takes_no_writes,
    a_rename_replaces_the_file_of_the_new_name,
    a_removed_file_can_be_read_by_who_has_it_open,
    the_list_has_all_files_and_no_directories,
    directories_are_listed_without_what_is_in_them,
    a_lock_excludes_until_it_is_dropped,
    a_directory_is_removed_once_it_is_empty,
    a_directory_that_somebody_holds_is_not_removed,
    a_removed_directory_is_empty_when_it_is_created_again,
    syncs_succeed_on_every_kind_of_handle,
];

fn run_all(disk: &dyn Io, root: &Path) {
    for (index, behaviour) in BEHAVIOURS.iter().enumerate() {
        let dir = root.join(format!("of/behaviour/{index}"));
        disk.create_dir(&dir).unwrap();
        disk.create_dir(&dir).unwrap();
        behaviour(disk, &dir);
    }
}

#[test]
fn real_files_behave_like_a_disk() {
    let root = tempfile::tempdir().unwrap();
    run_all(&RealIo, root.path());
}

#[test]
fn memory_behaves_like_a_disk() {
    run_all(&MemoryIo::new(), Path::new("/memory"));
}

#[test]
fn a_faulty_disk_without_faults_behaves_like_a_disk() {
    run_all(&FaultyIo::new(1), Path::new("/faulty"));
}

#[test]
fn a_faulty_disk_that_only_works_in_portions_behaves_like_a_disk() {
    let disk = FaultyIo::new(2);
    disk.short_writes(50);
    disk.short_reads(50);
    disk.interrupts(20);
    run_all(&disk, Path::new("/faulty"));
}

fn what_is_written_is_read_back(disk: &dyn Io, dir: &Path) {
    let path = dir.join("file");
    let file = create(disk, &path, b"hello");
    // Far behind the end, across the boundaries of pages, and over what is there.
    write_all_at(&*file, &[7; 10_000], 20_000).unwrap();
    write_all_at(&*file, b"J", 0).unwrap();
    let mut expected = vec![0; 30_000];
    expected[..5].copy_from_slice(b"Jello");
    expected[20_000..].fill(7);
    assert_eq!(content(&*file), expected);
    assert_eq!(content_of(disk, &path), expected);
    let again = disk.open(&path, OpenMode::Write).unwrap();
    write_all_at(&*again, b"C", 0).unwrap();
    assert_eq!(content(&*file)[..5], *b"Cello");
}

fn what_is_filled_reads_as_zeros_and_its_neighbours_stay(disk: &dyn Io, dir: &Path) {
    let length = 1_000_000_usize;
    // Where pages begin and where they do not, shorter than a page, longer than what is written at once, and behind the end.
    for (index, range) in
        [0..4096, 4096..600_064, 1..2, 4095..300_001, 8192..8192, 999_000..1_100_000, 2_000_000..2_004_096]
            .into_iter()
            .enumerate()
    {
        let path = dir.join(index.to_string());
        let file = create(disk, &path, &vec![7; length]);
        file.fill(range.start as u64..range.end as u64).unwrap();
        file.sync().unwrap();
        let mut expected = vec![7; length];
        if !range.is_empty() {
            expected.resize(length.max(range.end), 0);
            expected[range].fill(0);
        }
        assert!(content(&*file) == expected, "range {index}");
        // Whoever writes there afterwards is read.
        write_all_at(&*file, b"over", 5000).unwrap();
        expected[5000..5004].copy_from_slice(b"over");
        assert!(content_of(disk, &path) == expected, "range {index}");
    }
}

fn a_read_at_the_end_is_short(disk: &dyn Io, dir: &Path) {
    let file = create(disk, &dir.join("file"), b"hello");
    let mut buffer = [0; 8];
    assert_eq!(read_up_to(&*file, &mut buffer, 2).unwrap(), 3);
    assert_eq!(buffer[..3], *b"llo");
    assert_eq!(read_up_to(&*file, &mut buffer, 5).unwrap(), 0);
    assert_eq!(read_up_to(&*file, &mut buffer, 5_000).unwrap(), 0);
    assert_eq!(read_exact_at(&*file, &mut buffer, 2).unwrap_err().kind(), ErrorKind::UnexpectedEof);
}

fn reserved_room_reads_as_zeros(disk: &dyn Io, dir: &Path) {
    let file = create(disk, &dir.join("file"), b"hello");
    file.reserve(10_000).unwrap();
    file.reserve(5_000).unwrap();
    let mut expected = vec![0; 10_000];
    expected[..5].copy_from_slice(b"hello");
    assert_eq!(content(&*file), expected);
}

fn creating_empties_what_is_there(disk: &dyn Io, dir: &Path) {
    let path = dir.join("file");
    create(disk, &path, &[1; 5_000]);
    let file = create(disk, &path, b"");
    assert_eq!(file.len().unwrap(), 0);
    write_all_at(&*file, &[2], 4_999).unwrap();
    assert_eq!(content(&*file)[..4_999], [0; 4_999]);
}

fn a_missing_file_or_directory_is_not_found(disk: &dyn Io, dir: &Path) {
    let (missing, below) = (dir.join("missing"), dir.join("missing/file"));
    let results = [
        disk.open(&missing, OpenMode::Read).map(drop),
        disk.open(&missing, OpenMode::Write).map(drop),
        disk.open(&below, OpenMode::Create).map(drop),
        disk.rename(&missing, &dir.join("other")),
        disk.remove(&missing),
        disk.list(&missing).map(drop),
        disk.list_dirs(&missing).map(drop),
        disk.sync_dir(&missing),
        disk.lock(&missing).map(drop),
    ];
    for result in results {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::NotFound);
    }
    assert_eq!(disk.list(dir).unwrap(), [""; 0]);
}

fn a_file_opened_for_reading_takes_no_writes(disk: &dyn Io, dir: &Path) {
    let path = dir.join("file");
    create(disk, &path, b"hello");
    let file = disk.open(&path, OpenMode::Read).unwrap();
    file.write_at(b"J", 0).unwrap_err();
    file.fill(0..4096).unwrap_err();
    file.reserve(100).unwrap_err();
    assert_eq!(content(&*file), b"hello");
}

fn a_rename_replaces_the_file_of_the_new_name(disk: &dyn Io, dir: &Path) {
    let (old, new) = (dir.join("old"), dir.join("new"));
    let moved = create(disk, &old, b"moved");
    let replaced = create(disk, &new, b"replaced");
    disk.rename(&old, &new).unwrap();
    disk.sync_dir(dir).unwrap();
    assert_eq!(disk.list(dir).unwrap(), ["new"]);
    assert_eq!(content_of(disk, &new), b"moved");
    assert_eq!(content(&*replaced), b"replaced");
    write_all_at(&*moved, b"l", 0).unwrap();
    assert_eq!(content_of(disk, &new), b"loved");
}

fn a_removed_file_can_be_read_by_who_has_it_open(disk: &dyn Io, dir: &Path) {
    let path = dir.join("file");
    let file = create(disk, &path, b"hello");
    disk.remove(&path).unwrap();
    disk.sync_dir(dir).unwrap();
    assert_eq!(content(&*file), b"hello");
    assert_eq!(disk.open(&path, OpenMode::Read).unwrap_err().kind(), ErrorKind::NotFound);
    let other = create(disk, &path, b"other");
    assert_eq!(content(&*file), b"hello");
    assert_eq!(content(&*other), b"other");
}

fn the_list_has_all_files_and_no_directories(disk: &dyn Io, dir: &Path) {
    for name in ["b", "a", "c"] {
        create(disk, &dir.join(name), b"");
    }
    disk.create_dir(&dir.join("directory/below")).unwrap();
    let _lock = disk.lock(dir).unwrap();
    let mut names = disk.list(dir).unwrap();
    names.sort();
    assert_eq!(names, ["a", "b", "c"]);
}

fn a_lock_excludes_until_it_is_dropped(disk: &dyn Io, dir: &Path) {
    let other = dir.join("other");
    disk.create_dir(&other).unwrap();
    let lock = disk.lock(dir).unwrap();
    assert_eq!(disk.lock(dir).unwrap_err().kind(), ErrorKind::WouldBlock);
    disk.lock(&other).unwrap();
    drop(lock);
    disk.lock(dir).unwrap();
}

fn directories_are_listed_without_what_is_in_them(disk: &dyn Io, dir: &Path) {
    assert_eq!(disk.list_dirs(dir).unwrap(), [""; 0]);
    for name in ["b/below", "a"] {
        disk.create_dir(&dir.join(name)).unwrap();
    }
    create(disk, &dir.join("file"), b"");
    let mut names = disk.list_dirs(dir).unwrap();
    names.sort();
    assert_eq!(names, ["a", "b"]);
}

fn a_directory_is_removed_once_it_is_empty(disk: &dyn Io, dir: &Path) {
    let (outer, inner) = (dir.join("outer"), dir.join("outer/inner"));
    let file = inner.join("file");
    disk.create_dir(&inner).unwrap();
    create(disk, &file, b"hello");
    for full in [&outer, &inner] {
        assert_eq!(disk.remove_dir(full).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
    }
    assert_eq!(disk.remove_dir(&file).unwrap_err().kind(), ErrorKind::NotADirectory);
    disk.remove(&file).unwrap();
    disk.remove_dir(&inner).unwrap();
    assert_eq!(disk.open(&file, OpenMode::Create).unwrap_err().kind(), ErrorKind::NotFound);
    for gone in [disk.list(&inner).map(drop), disk.list_dirs(&inner).map(drop), disk.sync_dir(&inner)] {
        assert_eq!(gone.unwrap_err().kind(), ErrorKind::NotFound);
    }
    disk.remove_dir(&outer).unwrap();
    disk.sync_dir(dir).unwrap();
    assert_eq!(disk.list_dirs(dir).unwrap(), [""; 0]);
    // What is gone can be removed as often as somebody likes.
    disk.remove_dir(&inner).unwrap();
    disk.remove_dir(&outer).unwrap();
}

fn a_directory_that_somebody_holds_is_not_removed(disk: &dyn Io, dir: &Path) {
    let held = dir.join("held");
    disk.create_dir(&held).unwrap();
    let lock = disk.lock(&held).unwrap();
    assert_eq!(disk.remove_dir(&held).unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(lock);
    disk.remove_dir(&held).unwrap();
    assert_eq!(disk.lock(&held).unwrap_err().kind(), ErrorKind::NotFound);
}

fn a_removed_directory_is_empty_when_it_is_created_again(disk: &dyn Io, dir: &Path) {
    let (outer, inner) = (dir.join("outer"), dir.join("outer/inner"));
    disk.create_dir(&inner).unwrap();
    disk.remove_dir(&inner).unwrap();
    disk.remove_dir(&outer).unwrap();
    disk.create_dir(&outer).unwrap();
    assert_eq!(disk.list_dirs(&outer).unwrap(), [""; 0]);
    create(disk, &outer.join("file"), b"new");
    disk.sync_dir(dir).unwrap();
    assert_eq!(disk.list(&outer).unwrap(), ["file"]);
}

fn syncs_succeed_on_every_kind_of_handle(disk: &dyn Io, dir: &Path) {
    let path = dir.join("file");
    create(disk, &path, b"hello").sync().unwrap();
    disk.open(&path, OpenMode::Write).unwrap().sync().unwrap();
    disk.open(&path, OpenMode::Read).unwrap().sync().unwrap();
    disk.sync_dir(dir).unwrap();
}
