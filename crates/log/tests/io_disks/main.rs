//! The three disks: what each of them does, and that the faulty one does its faults and nothing else, since all
//! other tests of the log trust it.

#![expect(clippy::unwrap_used, reason = "the first thing that does not hold ends the test")]

use std::path::Path;
use std::sync::Arc;

use gapless_log::io::faulty::FaultyIo;
use gapless_log::io::{File, Io, OpenMode, read_exact_at, write_all_at};

mod conformance;
mod crashes;
mod faults;
mod memory;

pub(crate) const SECTOR: usize = 512;

pub(crate) fn root() -> &'static Path {
    Path::new("/")
}

pub(crate) fn path() -> &'static Path {
    Path::new("/file")
}

/// A disk with one durable file of 8 KiB that is full of `byte`, and with a count of operations that starts anew.
pub(crate) fn disk_with_file(seed: u64, byte: u8) -> (FaultyIo, Arc<dyn File>) {
    let disk = FaultyIo::new(seed);
    let file = disk.open(path(), OpenMode::Create).unwrap();
    write_all_at(&*file, &[byte; 8192], 0).unwrap();
    file.sync().unwrap();
    disk.sync_dir(root()).unwrap();
    disk.reset_operations();
    (disk, file)
}

pub(crate) fn content_of_faulty(disk: &FaultyIo) -> Vec<u8> {
    disk.memory().bytes_of(path()).unwrap()
}

pub(crate) fn sectors(bytes: &[u8]) -> Vec<u8> {
    bytes
        .chunks(SECTOR)
        .map(|sector| {
            assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector is never torn");
            sector[0]
        })
        .collect()
}

pub(crate) fn create(disk: &dyn Io, path: &Path, bytes: &[u8]) -> Arc<dyn File> {
    let file = disk.open(path, OpenMode::Create).unwrap();
    write_all_at(&*file, bytes, 0).unwrap();
    file
}

pub(crate) fn content(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    read_exact_at(file, &mut bytes, 0).unwrap();
    bytes
}

pub(crate) fn content_of(disk: &dyn Io, path: &Path) -> Vec<u8> {
    content(&*disk.open(path, OpenMode::Read).unwrap())
}
