//! Reading everything that a restore needs, before anything is written.
//!
//! Invariants
//! - Every byte is held against the checksums of items, files and manifest; every number against its place.
//!
//! Must not know: where anything is restored to.

use gapless_partition::Header;
use gapless_types::LogIndex;

use super::RestoreProgress;
use super::point::{Plan, catalog_of, later};
use crate::backup::{BackupError, Directory, FileEntry, PieceReader, RestoreError, What, entry_of, row_of};
use crate::catalog::StoredCatalog;
use crate::log_time::LogTime;

/// Progress is told each time so many bytes were read.
const TELL_BYTES: u64 = 4 << 20;

/// What was found good.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    /// The catalog to begin with.
    pub(crate) catalog: StoredCatalog,
    /// Bytes of all files.
    pub(crate) bytes: u64,
    /// Log time where the restore ends, at least.
    pub(crate) time: LogTime,
    /// The last entry of which there is an outcome.
    pub(crate) last: Option<LogIndex>,
}

/// Reads all files of a plan.
pub(super) fn check(
    directory: &Directory,
    plan: &Plan,
    progress: &mut dyn FnMut(RestoreProgress),
) -> Result<Checked, RestoreError> {
    let catalog = catalog_of(directory, &plan.base)?;
    for domain in catalog.catalog.domains() {
        if !plan.base.rows().any(|(known, _)| *known == domain) {
            let what = format!("backup {} has no state of {domain}", plan.base.number);
            return Err(BackupError::damaged(&directory.root, what).into());
        }
    }
    for partition in catalog.catalog.partitions() {
        if !plan.base.partitions.iter().any(|(known, _)| *known == partition) {
            let what = format!("backup {} does not have partition {partition}", plan.base.number);
            return Err(BackupError::damaged(&directory.root, what).into());
        }
    }
    let files = plan.files();
    let of = files.iter().map(|file| file.length).sum();
    let mut checked = Checked { time: catalog.time, catalog, bytes: 0, last: None };
    // A base behind the end has times that are later than what is restored.
    if plan.covered < plan.base.index {
        checked.time = LogTime::ZERO;
    }
    for file in files {
        let before = checked.bytes;
        check_file(directory, file, &mut |done, item| {
            if done - (checked.bytes - before) >= TELL_BYTES {
                checked.bytes = before + done;
                progress(RestoreProgress::Checking { done: checked.bytes, of });
            }
            if let Some(header) = item.filter(|header| header.log_index <= plan.index) {
                checked.time = later(checked.time, header.time);
                checked.last = checked.last.max(Some(header.log_index));
            }
        })?;
        checked.bytes = before + file.length;
        progress(RestoreProgress::Checking { done: checked.bytes, of });
    }
    Ok(checked)
}

/// Reads a file of a backup to its end; `each` is told how far that is, and the header of every outcome.
pub(crate) fn check_file(
    directory: &Directory,
    file: &FileEntry,
    each: &mut dyn FnMut(u64, Option<&Header<'_>>),
) -> Result<(), BackupError> {
    let mut reader = PieceReader::open(&*directory.io, &directory.root, file)?;
    let mut number = file.first;
    loop {
        let at = reader.position();
        let Some(item) = reader.next()? else { break };
        match &file.what {
            What::Outcomes(_) => {
                let (header, _) =
                    Header::decode(&item).map_err(|_| reader.damaged(at, "an outcome is none"))?;
                if header.partition_offset.get() != number {
                    return Err(reader.damaged(at, "an outcome is in the place of another"));
                }
                each(at, Some(&header));
            }
            What::Entries => {
                entry_of(&item).ok_or_else(|| reader.damaged(at, "an entry is none"))?;
                each(at, None);
            }
            What::Rows(_) => {
                row_of(&item).ok_or_else(|| reader.damaged(at, "a row is none"))?;
                each(at, None);
            }
        }
        number += 1;
    }
    let is_numbered = !matches!(file.what, What::Rows(_));
    match is_numbered && number.checked_sub(1) != Some(file.last) {
        true => Err(reader.damaged(file.length, "it has another count of items than its manifest says")),
        false => Ok(()),
    }
}
