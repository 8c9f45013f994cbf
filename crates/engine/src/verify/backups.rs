//! Verification of a directory of backups: every manifest, and every file that one of them names.
//!
//! Must not know: where it is restored to.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use gapless_log::io::Io;

use super::{OnStep, Remedy, Step, Verified};
use crate::backup::{BackupError, Directory, FileEntry, What};
use crate::restore::check_file;

const MEANS: &str = "backups that need this file cannot be restored";

/// Whether a directory is one of backups.
pub(crate) fn is_backup(io: &Arc<dyn Io>, dir: &Path) -> bool {
    Directory::new(io.clone(), dir).manifest_files().is_ok_and(|found| !found.is_empty())
}

/// Verifies a directory of backups; none if it is none. Nothing in it changes.
pub fn verify_backup(io: &Arc<dyn Io>, dir: &Path, step: OnStep<'_>) -> Option<Verified> {
    if !is_backup(io, dir) {
        return None;
    }
    let directory = Directory::new(io.clone(), dir);
    let mut verified = Verified::default();
    let mut files: BTreeMap<FileEntry, u64> = BTreeMap::new();
    for path in directory.manifest_files().unwrap_or_default() {
        let manifest = match directory.read_manifest(&path) {
            Ok(manifest) => manifest,
            Err(error) => {
                report(&mut verified, &path, error);
                continue;
            }
        };
        verified.entries += 1;
        if let Err(malformed) = manifest.stored_catalog() {
            let what = format!("its catalog: {}", malformed.0);
            verified.damaged(path, what, MEANS, Remedy::OtherCopy);
        }
        verified.partitions = manifest.partitions.len();
        verified.outcomes = manifest.partitions.iter().map(|(_, outcomes)| outcomes).sum();
        for file in manifest.files {
            files.entry(file).or_insert(manifest.number);
        }
    }
    let of = files.keys().map(|file| file.length).sum();
    let mut done = 0;
    for file in files.keys() {
        let mut rows = 0;
        if let Err(error) = check_file(&directory, file, &mut |_, _| rows += 1) {
            report(&mut verified, &directory.root.join(file.path()), error);
        }
        if let What::Rows(_) = file.what {
            verified.rows += rows;
        }
        done += file.length;
        step(&Step { what: "backup".to_owned(), done, of });
    }
    verified.computed = files.len();
    Some(verified)
}

fn report(verified: &mut Verified, path: &Path, error: BackupError) {
    match error {
        BackupError::Damaged { path, what } => verified.damaged(path, what, MEANS, Remedy::OtherCopy),
        error => verified.damaged(path, error.to_string(), MEANS, Remedy::OtherCopy),
    }
}
