//! The control file on disk: written as a whole beside the old one, then given its name.
//!
//! After a crash it is the old one or the new one. A damaged one is found by its checksum, a missing one by the log, which has
//! content then.
//!
//! Must not know: what is in it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gapless_log::io::{Io, OpenMode, read_exact_at, write_all_at};

use crate::error::OpenError;
use crate::format::control::Control;

const NAME: &str = "CONTROL";
const TEMPORARY: &str = "CONTROL.tmp";
/// No control file is this long, whatever it holds.
const MAX_BYTES: usize = 1 << 20;

/// Where the control file lies, and what was written last.
#[derive(Debug)]
pub(crate) struct ControlFile {
    io: Arc<dyn Io>,
    dir: PathBuf,
    pub(crate) content: Control,
}

impl ControlFile {
    /// The control file of a directory, if it has one.
    pub(crate) fn open(io: Arc<dyn Io>, dir: &Path) -> Result<Option<Self>, OpenError> {
        let path = dir.join(NAME);
        let failed = |source| OpenError::Io { action: "read", path: path.clone(), source };
        let bytes = match read(&*io, &path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let content = Control::decode(&bytes)
            .map_err(|malformed| OpenError::ControlDamaged { path: path.clone(), what: malformed.0 })?;
        Ok(Some(Self { io, dir: dir.to_owned(), content }))
    }

    /// Makes the first one.
    pub(crate) fn create(io: Arc<dyn Io>, dir: &Path, content: Control) -> io::Result<Self> {
        let mut file = Self { io, dir: dir.to_owned(), content: content.clone() };
        file.write(content)?;
        Ok(file)
    }

    /// Replaces the content, durably.
    pub(crate) fn write(&mut self, content: Control) -> io::Result<()> {
        let temporary = self.dir.join(TEMPORARY);
        let file = self.io.open(&temporary, OpenMode::Create)?;
        write_all_at(&*file, &content.encode(), 0)?;
        file.sync()?;
        self.io.rename(&temporary, &self.dir.join(NAME))?;
        self.io.sync_dir(&self.dir)?;
        self.content = content;
        Ok(())
    }

    /// The path that errors name.
    pub(crate) fn path(dir: &Path) -> PathBuf {
        dir.join(NAME)
    }
}

fn read(io: &dyn Io, path: &Path) -> io::Result<Vec<u8>> {
    let file = io.open(path, OpenMode::Read)?;
    let length = usize::try_from(file.len()?).unwrap_or(usize::MAX);
    // Whatever is longer is none of ours; its beginning is enough to find that out.
    let mut bytes = vec![0; length.min(MAX_BYTES)];
    read_exact_at(&*file, &mut bytes, 0)?;
    Ok(bytes)
}
