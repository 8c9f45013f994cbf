//! What the memory disk adds for tests: power cuts, forks, planted damage, counters.

use std::io::ErrorKind;
use std::path::Path;

use gapless_log::io::memory::{Counters, MemoryIo, is_power_cut};
use gapless_log::io::{Io, write_all_at};

use crate::{content, create};

#[test]
fn a_power_cut_leaves_in_memory_what_was_synced() {
    let disk = MemoryIo::new();
    let [kept, nameless, renamed] = ["/kept", "/nameless", "/renamed"].map(Path::new);
    let file = create(&disk, kept, b"durable");
    file.sync().unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    write_all_at(&*file, b"volatile", 0).unwrap();
    create(&disk, nameless, b"its name was never synced").sync().unwrap();
    disk.rename(kept, renamed).unwrap();

    let lock = disk.lock(Path::new("/")).unwrap();
    disk.power_cut();

    assert_eq!(disk.list(Path::new("/")).unwrap(), ["kept"]);
    assert_eq!(disk.bytes_of(kept).unwrap(), b"durable");
    assert!(is_power_cut(&file.sync().unwrap_err()));
    assert!(is_power_cut(&file.read_at(&mut [0], 0).unwrap_err()));
    let new_lock = disk.lock(Path::new("/")).unwrap();
    drop(lock);
    assert_eq!(disk.lock(Path::new("/")).unwrap_err().kind(), ErrorKind::WouldBlock);
    drop((new_lock, file));
}

#[test]
fn a_synced_name_of_an_unsynced_file_is_left_empty_by_a_power_cut() {
    let disk = MemoryIo::new();
    create(&disk, Path::new("/file"), b"volatile");
    disk.sync_dir(Path::new("/")).unwrap();
    disk.power_cut();
    assert_eq!(disk.bytes_of(Path::new("/file")).unwrap(), b"");
}

#[test]
fn a_fork_goes_its_own_way() {
    let disk = MemoryIo::new();
    let path = Path::new("/file");
    let file = create(&disk, path, b"both");
    file.sync().unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    write_all_at(&*file, b"B", 0).unwrap();
    let _lock = disk.lock(Path::new("/")).unwrap();

    let fork = disk.fork();
    let _other_lock = fork.lock(Path::new("/")).unwrap();
    write_all_at(&*file, b"original", 0).unwrap();
    assert_eq!(fork.bytes_of(path).unwrap(), b"Both");
    fork.power_cut();
    assert_eq!(fork.bytes_of(path).unwrap(), b"both");
    fork.remove(path).unwrap();
    assert_eq!(disk.bytes_of(path).unwrap(), b"original");
    file.sync().unwrap();
}

#[test]
fn planted_damage_is_seen_at_once_and_survives_a_power_cut() {
    let disk = MemoryIo::new();
    let path = Path::new("/file");
    let file = create(&disk, path, b"content");
    file.sync().unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    disk.overwrite(path, 3, b"\0\0\0").unwrap();
    assert_eq!(content(&*file), b"con\0\0\0t");
    disk.power_cut();
    assert_eq!(disk.bytes_of(path).unwrap(), b"con\0\0\0t");
    disk.set_len(path, 3).unwrap();
    disk.power_cut();
    assert_eq!(disk.bytes_of(path).unwrap(), b"con");
    disk.overwrite(path, 2, b"ma").unwrap();
    assert_eq!(disk.bytes_of(path).unwrap(), b"coma");
}

#[test]
fn counters_tell_what_was_asked() {
    let disk = MemoryIo::new();
    let [old, new] = ["/old", "/new"].map(Path::new);
    let file = create(&disk, old, &[1; 100]);
    file.read_at(&mut [0; 60], 0).unwrap();
    file.read_at(&mut [0; 60], 60).unwrap();
    file.sync().unwrap();
    disk.rename(old, new).unwrap();
    disk.remove(new).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    let expected = Counters {
        reads: 2,
        bytes_read: 100,
        writes: 1,
        bytes_written: 100,
        syncs: 1,
        directory_syncs: 1,
        renames: 1,
        removes: 1,
    };
    assert_eq!(disk.counters(), expected);
    assert_eq!(disk.fork().counters(), Counters::default());
}
