//! Files that only their owner reads: whole or not at all, and never readable by others in between.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Result;

use crate::refusal::Refusal;

/// Read and written by the owner, and by nobody else.
const OWNER_ONLY: u32 = 0o600;

/// What becomes of a file that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It stays, and nothing is written.
    Refused,
    /// It is replaced as a whole.
    Replaced,
}

/// Writes a file.
pub(crate) fn write(path: &Path, bytes: &[u8], existing: Existing) -> Result<()> {
    let told = |error: io::Error| {
        let next = match error.kind() {
            io::ErrorKind::AlreadyExists => "name a file that does not exist, or move this one away",
            _ => "name a file in a directory that can be written to",
        };
        Refusal::new(format!("{}: {error}", path.display()), next)
    };
    let written = match existing {
        Existing::Refused => create(path, bytes),
        Existing::Replaced => {
            let mut name = path.file_name().unwrap_or_default().to_owned();
            name.push(".tmp");
            let temporary = path.with_file_name(name);
            // One that an interrupted command left is nobody's.
            let _ = fs::remove_file(&temporary);
            create(&temporary, bytes).and_then(|()| fs::rename(&temporary, path))
        }
    };
    Ok(written.map_err(told)?)
}

fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(OWNER_ONLY).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
