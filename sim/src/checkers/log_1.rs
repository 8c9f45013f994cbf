//! LOG-1: the partition log is the truth of a partition, and everything else is a fold of it. At the end of a run every partition at
//! rest is computed anew from its log and compared with what its store has.
//!
//! Must not know: how the partition was used.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gapless_log::io::Io;
use gapless_log::io::faulty::FaultyIo;
use gapless_log::io::memory::MemoryIo;
use gapless_partition::{Scratch, verify};

/// Computes every partition below the directory of a node anew; what is wrong. How many there are.
pub(crate) fn check(disk: &FaultyIo, node: &Path) -> Result<usize, String> {
    let io: Arc<dyn Io> = Arc::new(disk.clone());
    let mut count = 0;
    for dir in partitions(&*io, node)? {
        let scratch = Scratch { io: Arc::new(MemoryIo::new()), dir: PathBuf::from("scratch") };
        let shown = dir.display();
        let verified =
            verify(&io, &dir, &scratch, &mut |_| {}).map_err(|error| format!("{shown}: {error}"))?;
        if let Some(difference) = &verified.first_difference {
            return Err(format!("{shown}: {difference}"));
        }
        if let gapless_partition::StoreCheck::Unreadable(reason) = verified.store {
            return Err(format!("{shown}: the store cannot be read: {reason}"));
        }
        count += 1;
    }
    Ok(count)
}

fn partitions(io: &dyn Io, node: &Path) -> Result<Vec<PathBuf>, String> {
    let dir = node.join("partitions");
    let mut names = match io.list_dirs(&dir) {
        // It never had one.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        found => found.map_err(|error| format!("{}: {error}", dir.display()))?,
    };
    names.sort_unstable();
    Ok(names.into_iter().map(|name| dir.join(name)).collect())
}
