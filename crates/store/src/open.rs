//! Opening and discarding: which checkpoint is there, and what a crash left behind.
//!
//! Invariants
//! - Nothing is removed before it is certain that the durable checkpoint does not name it.
//!
//! Must not know: rows.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use gapless_log::io::{DirectoryLock, Io, OpenMode, read_exact_at};

use crate::budget::Budget;
use crate::checkpoint::Workshop;
use crate::disk::{Disk, Name, failed};
use crate::error::{Damage, OpenError};
use crate::format::Malformed;
use crate::format::checkpoint::{Checkpoint, Decoded, RunEntry};
use crate::limits::MAX_CHECKPOINT_BYTES;
use crate::options::Options;
use crate::position::Offset;
use crate::run::{Run, RunFile};
use crate::store::Store;
use crate::version::Version;

/// What was found when a store was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The owner folds its log from behind this place.
    pub offset: Offset,
    /// Files that a crash had left behind; they are gone.
    pub removed_files: usize,
}

impl Store {
    /// Opens the store in a directory, which is created if need be. Without a checkpoint it is empty, at offset 0.
    ///
    /// On [`OpenError::Damaged`] the owner calls [`Store::discard`], opens again and folds its whole log. Files that
    /// are not the store's are left alone.
    pub fn open(
        io: Arc<dyn Io>,
        dir: impl Into<PathBuf>,
        options: Options,
        budget: &Budget,
    ) -> Result<(Self, Opened), OpenError> {
        let disk = Disk { io, dir: dir.into() };
        disk.io.create_dir(&disk.dir).map_err(failed("create", &disk.dir))?;
        let lock = lock(&disk)?;
        let checkpoint = read_checkpoint(&disk)?;
        let mut version = Version::new(checkpoint.offset, checkpoint.number, checkpoint.buckets);
        for entry in &checkpoint.runs {
            let mut runs = version.runs(entry.space).to_vec();
            runs.push(Arc::new(open_run(&disk, entry, budget)?));
            version.set_runs(entry.space, runs);
        }
        let is_named = |number| checkpoint.runs.iter().any(|entry| entry.file == number);
        let mut strays = Vec::new();
        let mut next_file = checkpoint.next_file;
        for name in disk.names()? {
            match Name::parse(&name) {
                Name::Run(number) => {
                    next_file = next_file.max(number.saturating_add(1));
                    if !is_named(number) {
                        strays.push(disk.dir.join(name));
                    }
                }
                Name::Temporary => strays.push(disk.dir.join(name)),
                Name::Checkpoint | Name::Foreign => {}
            }
        }
        let opened = Opened { offset: version.offset, removed_files: strays.len() };
        let workshop = Workshop {
            disk,
            budget: budget.clone(),
            next_file: Arc::new(AtomicU64::new(next_file)),
            counters: Arc::default(),
            _lock: lock,
        };
        let mut store = Self::new(workshop, options, version);
        if !strays.is_empty() {
            // A checkpoint that we see may have lost its name in a sync that failed; then the one before it is what
            // a crash would bring back, with the files that are strays to us.
            store.republish_and_remove(strays)?;
        }
        Ok((store, opened))
    }

    /// Removes everything of the store in a directory, whatever state it is in. The next opening finds it empty.
    pub fn discard(io: Arc<dyn Io>, dir: impl Into<PathBuf>) -> Result<(), OpenError> {
        let disk = Disk { io, dir: dir.into() };
        disk.io.create_dir(&disk.dir).map_err(failed("create", &disk.dir))?;
        let _lock = lock(&disk)?;
        // The checkpoint goes first, and durably: without its runs it would be damaged.
        disk.remove(&disk.checkpoint_path())?;
        disk.sync_names()?;
        for name in disk.names()? {
            if let Name::Run(_) | Name::Temporary = Name::parse(&name) {
                disk.remove(&disk.dir.join(name))?;
            }
        }
        Ok(disk.sync_names()?)
    }
}

fn lock(disk: &Disk) -> Result<Arc<dyn DirectoryLock>, OpenError> {
    disk.io.lock(&disk.dir).map(Arc::from).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => OpenError::InUse(disk.dir.clone()),
        _ => failed("lock", &disk.dir)(error).into(),
    })
}

/// An empty one if there is none.
fn read_checkpoint(disk: &Disk) -> Result<Checkpoint, OpenError> {
    let path = disk.checkpoint_path();
    let file = match disk.io.open(&path, OpenMode::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Checkpoint { next_file: 1, ..Checkpoint::default() });
        }
        Err(error) => return Err(failed("open", &path)(error).into()),
    };
    let length = file.len().map_err(failed("read the length of", &path))?;
    if length > MAX_CHECKPOINT_BYTES {
        return Err(damage(&path, length, "it is longer than a checkpoint can be"));
    }
    let mut bytes = vec![0; usize::try_from(length).expect("it is below the limit")];
    read_exact_at(&*file, &mut bytes, 0).map_err(failed("read", &path))?;
    match Checkpoint::decode(&bytes) {
        Ok(Decoded::Known(checkpoint)) => Ok(checkpoint),
        Ok(Decoded::Unknown(version)) => Err(OpenError::UnknownVersion { path, version }),
        Err(Malformed(what)) => Err(damage(&path, length, what)),
    }
}

fn open_run(disk: &Disk, entry: &RunEntry, budget: &Budget) -> Result<Run, OpenError> {
    let path = disk.run_path(entry.file);
    let file = match disk.io.open(&path, OpenMode::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(damage(&path, entry.length, "the checkpoint names it, and it is not there"));
        }
        Err(error) => return Err(failed("open", &path)(error).into()),
    };
    let expected = RunFile {
        number: entry.file,
        length: entry.length,
        trailer_checksum: entry.trailer_checksum,
        born: entry.born,
    };
    Run::open(&path, file, expected, budget.clone())
}

fn damage(path: &Path, length: u64, what: &'static str) -> OpenError {
    Damage { path: path.to_owned(), offset: 0, length, what }.into()
}
