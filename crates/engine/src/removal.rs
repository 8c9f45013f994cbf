//! Removing from disk what nobody needs any more: a partition that was dropped, what a snapshot replaced, what an install that was
//! interrupted had written.
//!
//! Invariants
//! - When something is reported as removed, no crash brings any of it back. Begun again after a crash, a removal comes to its end.
//!
//! Must not know: which partitions there are, who has them open.

use std::io;
use std::path::Path;

use gapless_log::io::Io;

use crate::catalog::{DOMAINS, number_in};

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

/// Removes those directories in a directory that are to go. They are judged once all are listed: what is made meanwhile is not seen.
pub(crate) fn remove_below(io: &dyn Io, dir: &Path, goes: impl Fn(&str) -> bool) -> io::Result<()> {
    let mut found = directories(io, dir)?;
    found.retain(|name| goes(name));
    found.into_iter().try_for_each(|name| remove(io, &dir.join(name)))
}

/// Removes what installs that were interrupted had written, partitions and domains with higher numbers than this one: nobody may be at
/// it any more.
pub(crate) fn remove_beyond(io: &dyn Io, partitions: &Path, installs: u64) -> io::Result<()> {
    let is_beyond = |name: &str| number_in(name).1 > installs;
    remove_below(io, partitions, is_beyond)?;
    for name in directories(io, partitions)? {
        remove_below(io, &partitions.join(name).join(DOMAINS), is_beyond)?;
    }
    Ok(())
}

/// The directories in one; none if it does not exist.
fn directories(io: &dyn Io, dir: &Path) -> io::Result<Vec<String>> {
    match io.list_dirs(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        found => found,
    }
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
