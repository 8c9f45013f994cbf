//! The floor that the log is measured against: one thread that writes one aligned block and syncs it, in a loop, on a
//! file filled with zeros. No checksum, no other thread, no format.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result};

use crate::workload::{Run, Shape};

const BLOCK_BYTES: usize = 4096;
const FILE_BYTES: u64 = 64 << 20;
/// Zeros are written in pieces of the length that the log uses for its segments, so that the kernel caches both files
/// in the same way.
const FILL_BYTES: usize = 256 << 10;

/// Writes and syncs `appends` blocks, one after the other.
pub(crate) fn measure(parent: &Path, appends: usize) -> Result<Run> {
    let home = tempfile::Builder::new().prefix("raw-").tempdir_in(parent)?;
    let file = zero_filled(&home.path().join("blocks"))?;
    Shape { writers: 1, appends }.run(|| {
        let mut block = [0; BLOCK_BYTES];
        let mut offset = 0;
        let file = &file;
        move |payload: &[u8]| {
            block[..payload.len()].copy_from_slice(payload);
            file.write_all_at(&block, offset)?;
            file.sync_data()?;
            offset = (offset + BLOCK_BYTES as u64) % FILE_BYTES;
            Ok(())
        }
    })
}

/// A durable file of zeros. They are written, not only reserved: else each sync would change metadata.
fn zero_filled(path: &Path) -> Result<File> {
    let failed = || format!("cannot create {}", path.display());
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).with_context(failed)?;
    let zeros = vec![0; FILL_BYTES];
    for offset in (0..FILE_BYTES).step_by(FILL_BYTES) {
        file.write_all_at(&zeros, offset).with_context(failed)?;
    }
    file.sync_all().with_context(failed)?;
    Ok(file)
}
