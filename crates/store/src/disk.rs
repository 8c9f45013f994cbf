//! The directory of a store: names of its files, and disk operations whose errors say what was tried on what.
//!
//! Must not know: what files hold.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gapless_log::io::{File, Io, OpenMode, write_all_at};

use crate::error::DiskError;

/// Names the last checkpoint.
const CHECKPOINT: &str = "CHECKPOINT";
const RUN_SUFFIX: &str = ".run";
const TEMPORARY_SUFFIX: &str = ".tmp";

/// A directory on a disk.
#[derive(Clone)]
pub(crate) struct Disk {
    pub(crate) io: Arc<dyn Io>,
    pub(crate) dir: PathBuf,
}

impl fmt::Debug for Disk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Disk").field("dir", &self.dir).finish_non_exhaustive()
    }
}

/// What a name in the directory stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Run(u64),
    Checkpoint,
    Temporary,
    /// Nothing of ours.
    Foreign,
}

impl Name {
    pub(crate) fn parse(name: &str) -> Self {
        let number_of = |digits: &str| {
            let all_digits = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
            all_digits.then(|| digits.parse().ok()).flatten()
        };
        if name == CHECKPOINT {
            Self::Checkpoint
        } else if let Some(number) = name.strip_suffix(RUN_SUFFIX).and_then(number_of) {
            Self::Run(number)
        } else if name.strip_suffix(TEMPORARY_SUFFIX).and_then(number_of).is_some() {
            Self::Temporary
        } else {
            Self::Foreign
        }
    }
}

impl Disk {
    pub(crate) fn run_path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{number:020}{RUN_SUFFIX}"))
    }

    pub(crate) fn temporary_path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{number:020}{TEMPORARY_SUFFIX}"))
    }

    pub(crate) fn checkpoint_path(&self) -> PathBuf {
        self.dir.join(CHECKPOINT)
    }

    pub(crate) fn create(&self, path: &Path) -> Result<Arc<dyn File>, DiskError> {
        self.io.open(path, OpenMode::Create).map_err(failed("create", path))
    }

    /// Creates a file with this content and makes the content durable; the name is not yet.
    pub(crate) fn write_file(&self, path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
        let file = self.create(path)?;
        write_all_at(&*file, bytes, 0).map_err(failed("write", path))?;
        file.sync().map_err(failed("sync", path))
    }

    pub(crate) fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        self.io.rename(from, to).map_err(failed("rename", from))
    }

    pub(crate) fn sync_names(&self) -> Result<(), DiskError> {
        self.io.sync_dir(&self.dir).map_err(failed("sync", &self.dir))
    }

    pub(crate) fn remove(&self, path: &Path) -> Result<(), DiskError> {
        match self.io.remove(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.map_err(failed("remove", path)),
        }
    }

    pub(crate) fn names(&self) -> Result<Vec<String>, DiskError> {
        let mut names = self.io.list(&self.dir).map_err(failed("list", &self.dir))?;
        names.sort_unstable();
        Ok(names)
    }
}

/// Turns an error of the system into one that says what was tried.
pub(crate) fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DiskError {
    let path = path.to_owned();
    move |source| DiskError { action, path, source: Arc::new(source) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        assert_eq!(Name::parse("00000000000000000012.run"), Name::Run(12));
        assert_eq!(Name::parse("CHECKPOINT"), Name::Checkpoint);
        assert_eq!(Name::parse("00000000000000000012.tmp"), Name::Temporary);
        for foreign in ["12.run", "LOCK", "notes.tmp", "+0000000000000000012.run", "99999999999999999999.run"]
        {
            assert_eq!(Name::parse(foreign), Name::Foreign, "{foreign}");
        }
    }
}
