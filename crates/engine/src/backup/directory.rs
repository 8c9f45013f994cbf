//! A directory of backups: any number of them, made one after the other of one cluster, sharing files.
//!
//! ```text
//!  manifests/0000000001.manifest                      one for each backup, written last
//!  partitions/16-0/FIRST-LAST.outcomes                each written once; later backups add what is new
//!  entries/FIRST-LAST.entries                         the replicated log between two backups
//!  domains/16-0/NAME-VERSION/ENTRY-PART.rows          states of projections
//! ```
//!
//! Invariants
//! - A manifest names only files that are on stable storage. Files that no manifest names are leftovers, and are removed when the next
//!   backup is made; while a manifest cannot be read, nothing is removed.
//! - One backup at a time is made in a directory.
//!
//! Must not know: engines, what is in the files.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gapless_log::io::{DirectoryLock, Io, OpenMode, read_exact_at, write_all_at};

use super::error::BackupError;
use super::manifest::Manifest;

const MANIFESTS: &str = "manifests";
/// Where files are that manifests name.
const PLACES: [&str; 3] = ["partitions", "entries", "domains"];
/// How their names end; nothing else is ever removed.
const ENDINGS: [&str; 4] = [".outcomes", ".entries", ".rows", ".new"];
const MANIFEST: &str = ".manifest";
/// No manifest is this long: it would name millions of files.
const MAX_MANIFEST_BYTES: u64 = 1 << 30;

/// A directory of backups.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    pub(crate) io: Arc<dyn Io>,
    pub(crate) root: PathBuf,
}

impl Directory {
    pub(crate) fn new(io: Arc<dyn Io>, root: impl Into<PathBuf>) -> Self {
        Self { io, root: root.into() }
    }

    /// Takes the directory for one backup, and makes it if it is not there.
    pub(super) fn lock(&self) -> Result<Box<dyn DirectoryLock>, BackupError> {
        let root = &self.root;
        self.io.create_dir(root).map_err(BackupError::io("create", root))?;
        self.io.lock(root).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => BackupError::Busy(root.clone()),
            _ => BackupError::io("lock", root)(error),
        })
    }

    /// All backups, the earliest first.
    pub(crate) fn manifests(&self) -> Result<Vec<Manifest>, BackupError> {
        let manifests = self.manifest_files()?.into_iter().map(|path| self.read_manifest(&path));
        manifests.collect()
    }

    /// The files of all manifests, the earliest first.
    pub(crate) fn manifest_files(&self) -> Result<Vec<PathBuf>, BackupError> {
        let dir = self.root.join(MANIFESTS);
        let mut names = self.names(&dir)?;
        names.retain(|name| name.ends_with(MANIFEST));
        names.sort_unstable();
        Ok(names.into_iter().map(|name| dir.join(name)).collect())
    }

    pub(crate) fn read_manifest(&self, path: &Path) -> Result<Manifest, BackupError> {
        let file = self.io.open(path, OpenMode::Read).map_err(BackupError::io("open", path))?;
        let length = file.len().map_err(BackupError::io("read", path))?;
        let length = usize::try_from(length.min(MAX_MANIFEST_BYTES)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; length];
        read_exact_at(&*file, &mut bytes, 0).map_err(BackupError::io("read", path))?;
        let manifest =
            Manifest::decode(&bytes).map_err(|malformed| BackupError::damaged(path, malformed.0))?;
        match self.path_of(manifest.number) == path {
            true => Ok(manifest),
            false => Err(BackupError::damaged(path, "it has the name of another one")),
        }
    }

    fn path_of(&self, number: u64) -> PathBuf {
        self.root.join(MANIFESTS).join(format!("{number:010}{MANIFEST}"))
    }

    /// Refuses a directory in which somebody else keeps something.
    pub(super) fn check_ours(&self) -> Result<(), BackupError> {
        let known = |name: &String| name == MANIFESTS || PLACES.contains(&name.as_str());
        let others = self.io.list_dirs(&self.root).map_err(BackupError::io("list", &self.root))?;
        let files = self.names(&self.root)?;
        match files.is_empty() && others.iter().all(known) {
            true => Ok(()),
            false => Err(BackupError::NotOurs(self.root.clone())),
        }
    }

    /// Removes what a backup that was broken off has left.
    pub(super) fn remove_leftovers(&self, manifests: &[Manifest]) -> Result<(), BackupError> {
        let kept: BTreeSet<PathBuf> = manifests
            .iter()
            .flat_map(|manifest| manifest.files.iter().map(|file| self.root.join(file.path())))
            .collect();
        for place in PLACES {
            self.remove_below(&self.root.join(place), &kept)?;
        }
        let dir = self.root.join(MANIFESTS);
        let unfinished = self.names(&dir)?.into_iter().filter(|name| name.ends_with(".new"));
        unfinished.map(|name| dir.join(name)).try_for_each(|path| self.remove(&path))
    }

    fn remove_below(&self, dir: &Path, kept: &BTreeSet<PathBuf>) -> Result<(), BackupError> {
        let directories = match self.io.list_dirs(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            found => found.map_err(BackupError::io("list", dir))?,
        };
        for directory in directories {
            self.remove_below(&dir.join(directory), kept)?;
        }
        let ours = |name: &String| ENDINGS.iter().any(|ending| name.ends_with(ending));
        let files = self.names(dir)?.into_iter().filter(ours).map(|name| dir.join(name));
        files.filter(|path| !kept.contains(path)).try_for_each(|path| self.remove(&path))
    }

    fn remove(&self, path: &Path) -> Result<(), BackupError> {
        self.io.remove(path).map_err(BackupError::io("remove", path))
    }

    /// Makes a backup one: from here on its files are kept.
    pub(super) fn publish(&self, manifest: &Manifest) -> Result<(), BackupError> {
        let path = self.path_of(manifest.number);
        let temporary = path.with_extension("new");
        let dir = self.root.join(MANIFESTS);
        self.io.create_dir(&dir).map_err(BackupError::io("create", &dir))?;
        let file =
            self.io.open(&temporary, OpenMode::Create).map_err(BackupError::io("create", &temporary))?;
        write_all_at(&*file, &manifest.encode(), 0).map_err(BackupError::io("write", &temporary))?;
        file.sync().map_err(BackupError::io("sync", &temporary))?;
        self.io.rename(&temporary, &path).map_err(BackupError::io("rename", &temporary))?;
        self.io.sync_dir(&dir).map_err(BackupError::io("sync", &dir))
    }

    /// Names of the files in a directory; none if it is not there.
    fn names(&self, dir: &Path) -> Result<Vec<String>, BackupError> {
        match self.io.list(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            names => names.map_err(BackupError::io("list", dir)),
        }
    }
}
