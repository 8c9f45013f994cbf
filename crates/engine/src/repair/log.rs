//! A partition log made anew out of what can be read of it and of a backup, and put in its place.
//!
//! ```text
//!  log/ (damaged) + backup ──▶ log.repaired/ ──▶ mark "REPAIRING" ──▶ log/ to log.damaged/, log.repaired/ to log/ ──▶ mark gone
//! ```
//!
//! Invariants
//! - The new log is dense from 1 (NUM-1), and every outcome in it was read with its checksums.
//! - Until the mark is there, the old log is untouched; as long as it is, the new one is, and every repair goes on with the swap.
//!
//! Must not know: the replicated log.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use gapless_log::io::{Io, OpenMode, read_up_to, write_all_at};
use gapless_log::{DamagePolicy, Log};
use gapless_partition::{Header, Partition, Untouched};
use gapless_types::{LogIndex, PartitionId, Position};

use super::{RepairError, Source};
use crate::backup::{FileEntry, PieceReader};
use crate::removal;
use crate::restore::Appending;
use crate::verify::{OnStep, Step};
use crate::worker::with_causes;

const MARK: &str = "REPAIRING";
const NEW: &str = "log.repaired";
const OLD: &str = "log.damaged";
/// It is told how far a new log is when so many more outcomes are written.
const TOLD_OUTCOMES: u64 = 1024;
/// Bytes that are copied at once.
const COPY_BYTES: usize = 1 << 20;

/// A log that was made anew, beside the old one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rebuilt {
    /// Outcomes that the old log had.
    pub(crate) own: u64,
    /// Outcomes that only the backup had.
    pub(crate) from_backup: u64,
    /// Outcomes that only another node had.
    pub(crate) from_peer: u64,
    /// Of those, how many the old log had otherwise.
    pub(crate) differed: u64,
    /// The entry of the last one.
    pub(crate) last: Option<LogIndex>,
    /// Outcomes that there were and that nobody has.
    pub(crate) lost: Option<Range<u64>>,
}

/// Whether a swap was begun and not finished.
pub(crate) fn is_swapping(io: &dyn Io, dir: &Path) -> bool {
    io.list(dir).is_ok_and(|names| names.iter().any(|name| name == MARK))
}

/// Makes the log of a partition anew, beside the old one.
pub(crate) fn rebuild_log(
    io: &Arc<dyn Io>,
    dir: &Path,
    partition: PartitionId,
    source: Option<&Source>,
    options: &gapless_partition::Options,
    step: OnStep<'_>,
) -> Result<Rebuilt, RepairError> {
    let failed = |error: &dyn std::error::Error| RepairError::failed(dir.join("log"), &with_causes(error));
    let mut rebuilt = Rebuilt::default();
    if is_swapping(&**io, dir) {
        return Ok(rebuilt);
    }
    let old = open_old(io, dir, options);
    let end = old.as_ref().map_or(Position::FIRST, Log::next);
    let mut backup = source.map(|source| Backed::new(source, partition));
    let backed = source.map_or(0, |source| {
        let found = source.manifest.partitions.iter().find(|(known, _)| *known == partition);
        found.map_or(0, |(_, outcomes)| *outcomes)
    });
    let new = open_new(io, dir, options)?;
    let mut appending = Appending::to(&new);
    let wanted = (end.get() - 1).max(backed);
    for offset in 1..=wanted {
        if offset % TOLD_OUTCOMES == 1 || offset == wanted {
            step(&Step { what: format!("writing partition {partition}"), done: offset, of: wanted });
        }
        let own =
            old.as_ref().and_then(|log| log.read(Position::new(offset)).ok()).map(|record| record.payload);
        let own = own.filter(|bytes| is_outcome(bytes, offset));
        let found = match (own, &mut backup) {
            (Some(own), _) => {
                rebuilt.own += 1;
                Some(own)
            }
            (None, Some(backup)) => {
                let found = backup.outcome(offset)?;
                rebuilt.from_backup += u64::from(found.is_some());
                found
            }
            (None, None) => None,
        };
        let Some(bytes) = found else {
            rebuilt.lost = Some(offset..wanted + 1);
            break;
        };
        rebuilt.last = Header::decode_alone(&bytes).ok().map(|(header, ..)| header.log_index);
        appending.push(bytes).map_err(|error| failed(&*error))?;
    }
    appending.append().map_err(|error| failed(&*error))?;
    new.sync().map_err(|error| failed(&error))?;
    new.close().map_err(|error| failed(&error))?;
    if let Some(old) = old {
        old.abandon();
    }
    Ok(rebuilt)
}

/// What there is of the log of a partition, whatever became of it; it is not written to. None if nothing of it can be read.
pub(super) fn open_old(io: &Arc<dyn Io>, dir: &Path, options: &gapless_partition::Options) -> Option<Log> {
    let untouched: Arc<dyn Io> = Arc::new(Untouched::over(io.clone()));
    let lenient = gapless_log::Options {
        accept_loss: true,
        damage: DamagePolicy::KeepAppending,
        ..options.log.clone()
    };
    Log::open(untouched, dir.join("log"), lenient).ok().map(|(log, _)| log)
}

/// An empty log beside it.
pub(super) fn open_new(
    io: &Arc<dyn Io>,
    dir: &Path,
    options: &gapless_partition::Options,
) -> Result<Log, RepairError> {
    let new_dir = dir.join(NEW);
    let failed = |error: &dyn std::error::Error| RepairError::failed(&new_dir, &with_causes(error));
    removal::remove(&**io, &new_dir).map_err(|error| failed(&error))?;
    io.create_dir(&new_dir).map_err(|error| failed(&error))?;
    let (new, _) = Log::open(io.clone(), &new_dir, options.log.clone()).map_err(|error| failed(&error))?;
    Ok(new)
}

pub(super) fn is_outcome(bytes: &[u8], offset: u64) -> bool {
    Header::decode(bytes).is_ok_and(|(header, _)| header.partition_offset.get() == offset)
}

/// Outcomes of a backup, asked for in ascending order.
struct Backed<'a> {
    source: &'a Source,
    files: Vec<&'a FileEntry>,
    reading: Option<(PieceReader, u64)>,
}

impl<'a> Backed<'a> {
    fn new(source: &'a Source, partition: PartitionId) -> Self {
        let mut files: Vec<_> = source.manifest.outcomes_of(partition).collect();
        files.reverse();
        Self { source, files, reading: None }
    }

    fn outcome(&mut self, offset: u64) -> Result<Option<Bytes>, RepairError> {
        loop {
            if let Some((reader, next)) = &mut self.reading {
                match reader.next()? {
                    Some(item) => {
                        *next += 1;
                        if *next - 1 == offset {
                            return Ok(Some(item));
                        }
                        continue;
                    }
                    None => self.reading = None,
                }
            }
            let Some(file) = self.files.pop() else { return Ok(None) };
            if file.last < offset {
                continue;
            }
            let directory = &self.source.directory;
            let reader = PieceReader::open(&*directory.io, &directory.root, file)?;
            self.reading = Some((reader, file.first));
        }
    }
}

/// Goes on with a swap that was begun; the state is folded from the new log.
pub(crate) fn finish_swap(io: &Arc<dyn Io>, dir: &Path) -> Result<(), RepairError> {
    swap(io, dir)?;
    Partition::rebuild(io, dir).map_err(|error| RepairError::failed(dir, &with_causes(&error)))
}

/// Puts the new log in the place of the old one, or goes on with that.
pub(crate) fn swap(io: &Arc<dyn Io>, dir: &Path) -> Result<(), RepairError> {
    let (log, new, old, mark) = (dir.join("log"), dir.join(NEW), dir.join(OLD), dir.join(MARK));
    let swapped = || -> std::io::Result<()> {
        if !is_swapping(&**io, dir) {
            removal::remove(&**io, &old)?;
            io.create_dir(&old)?;
            io.create_dir(&log)?;
            io.sync_dir(dir)?;
            let file = io.open(&mark, OpenMode::Create)?;
            file.sync()?;
            io.sync_dir(dir)?;
        }
        // Copied, not moved: not every disk moves files between directories.
        if !io.list(&old)?.iter().any(|name| name == MARK) {
            copy_files(io, &log, &old)?;
            io.open(&old.join(MARK), OpenMode::Create)?.sync()?;
            io.sync_dir(&old)?;
        }
        for name in io.list(&log)? {
            io.remove(&log.join(name))?;
        }
        copy_files(io, &new, &log)?;
        // The mark goes first: with it and without some of the new files, the next repair would copy what is left of them.
        io.remove(&mark)?;
        io.sync_dir(dir)?;
        removal::remove(&**io, &new)
    };
    swapped().map_err(|error| RepairError::failed(dir, &error))
}

fn copy_files(io: &Arc<dyn Io>, from: &Path, to: &Path) -> std::io::Result<()> {
    for name in io.list(from)? {
        let source = io.open(&from.join(&name), OpenMode::Read)?;
        let target = io.open(&to.join(&name), OpenMode::Create)?;
        let length = source.len()?;
        target.reserve(length)?;
        let (mut at, mut buffer) = (0, vec![0; COPY_BYTES]);
        while at < length {
            let read = read_up_to(&*source, &mut buffer, at)?;
            write_all_at(&*target, &buffer[..read], at)?;
            at += read as u64;
            if read == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
        target.sync()?;
    }
    io.sync_dir(to)
}
