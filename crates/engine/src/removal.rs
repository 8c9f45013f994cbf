//! Removing from disk what nobody needs any more: a partition that was dropped, the partitions that a snapshot replaced, what an
//! install that was interrupted had written.
//!
//! Invariants
//! - When something is reported as removed, no crash brings any of it back. Begun again after a crash, a removal comes to its end.
//!
//! Must not know: which partitions there are, who has them open.

use std::io;
use std::path::Path;

use gapless_log::io::Io;

use crate::catalog::CatalogFile;

/// Removes a directory with all that is in it, durably. One that does not exist is removed already.
pub(crate) fn remove(io: &dyn Io, dir: &Path) -> io::Result<()> {
    remove_tree(io, dir)?;
    // Once the name of the directory is durably gone, so is all that was in it: nothing below has to be synced. Also if it was not
    // seen any more: whoever removed it may not have come to this.
    match dir.parent().map_or(Ok(()), |above| io.sync_dir(above)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        synced => synced,
    }
}

/// Removes the partitions of all generations before this one.
pub(crate) fn remove_generations_before(
    io: &dyn Io,
    catalog_file: &CatalogFile,
    generation: u64,
) -> io::Result<()> {
    remove_generations(io, catalog_file, |found| found < generation)
}

/// Removes what installs that were interrupted had written: nobody may be at it any more.
pub(crate) fn remove_generations_behind(
    io: &dyn Io,
    catalog_file: &CatalogFile,
    generation: u64,
) -> io::Result<()> {
    remove_generations(io, catalog_file, |found| found > generation)
}

fn remove_generations(io: &dyn Io, catalog_file: &CatalogFile, of: impl Fn(u64) -> bool) -> io::Result<()> {
    let mut found = catalog_file.generations()?;
    found.retain(|found| of(*found));
    found.into_iter().try_for_each(|found| remove(io, &catalog_file.partitions_dir(found)))
}

fn remove_tree(io: &dyn Io, dir: &Path) -> io::Result<()> {
    let directories = match io.list_dirs(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        directories => directories?,
    };
    for name in directories {
        remove_tree(io, &dir.join(name))?;
    }
    for name in io.list(dir)? {
        io.remove(&dir.join(name))?;
    }
    io.remove_dir(dir)
}

#[cfg(test)]
mod tests;
