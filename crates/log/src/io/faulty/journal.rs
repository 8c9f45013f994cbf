//! What the faulty disk tells about itself: the operations it was asked for, and the faults it added.
//!
//! Must not know: how a fault is chosen or done.

use std::fmt;
use std::path::{Path, PathBuf};

/// Kinds of operations that change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// Opening a file with [`OpenMode::Create`](crate::io::OpenMode::Create).
    Create,
    /// Writing to a file.
    Write,
    /// Reserving room for a file.
    Reserve,
    /// Syncing a file.
    Sync,
    /// Renaming a file.
    Rename,
    /// Removing a file.
    Remove,
    /// Removing a directory.
    RemoveDir,
    /// Syncing a directory.
    SyncDir,
}

/// One operation as it was asked for, however it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Its number; the first is 1.
    pub number: u64,
    /// What it is.
    pub kind: OperationKind,
    /// The file under the name it has now, or the directory.
    pub path: PathBuf,
    /// The new name in a rename.
    pub target: Option<PathBuf>,
    /// Where a write begins; 0 for everything else.
    pub offset: u64,
    /// Bytes to write or to reserve; 0 for everything else.
    pub length: u64,
}

impl Operation {
    /// An operation whose number is not known yet.
    pub(super) fn on(kind: OperationKind, path: &Path) -> Self {
        Self { number: 0, kind, path: path.to_owned(), target: None, offset: 0, length: 0 }
    }

    pub(super) fn renaming(from: &Path, to: &Path) -> Self {
        Self { target: Some(to.to_owned()), ..Self::on(OperationKind::Rename, from) }
    }

    pub(super) fn over(self, offset: u64, length: u64) -> Self {
        Self { offset, length, ..self }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, kind, path, target, offset, length } = self;
        let path = path.display();
        write!(formatter, "{number:>6} {kind:?} {path}")?;
        match (kind, target) {
            (OperationKind::Write, _) => write!(formatter, " {offset}+{length}"),
            (OperationKind::Reserve, _) => write!(formatter, " {length}"),
            (_, Some(target)) => write!(formatter, " to {}", target.display()),
            _ => Ok(()),
        }
    }
}

/// What was done wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedKind {
    /// The power was cut during the operation.
    PowerCut,
    /// The operation failed with an error.
    Failure(OperationKind),
    /// A write was reported as done and is nowhere.
    LostWrite,
    /// A write was reported as done and is elsewhere.
    MisdirectedWrite,
    /// A bit of the byte at the offset was flipped; the lowest bit has number 0.
    FlippedBit(u8),
    /// A range was filled with zeros.
    ZeroedRange,
    /// The file was cut off at the offset, or lengthened up to it; the length is what it lost.
    ChangedLength,
    /// The file vanished.
    DeletedFile,
}

/// One fault that struck.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injected {
    /// What happened.
    pub kind: InjectedKind,
    /// The operation that was hit; for rot, the last operation before it.
    pub operation: u64,
    /// The file or the directory that was hit.
    pub path: PathBuf,
    /// Where in the file.
    pub offset: u64,
    /// How many bytes.
    pub length: u64,
    /// Where the bytes of a misdirected write are; none if there was no other place for them.
    pub landed: Option<Landing>,
}

impl Injected {
    pub(super) fn during(kind: InjectedKind, operation: &Operation) -> Self {
        let Operation { number, ref path, offset, length, .. } = *operation;
        Self { kind, operation: number, path: path.clone(), offset, length, landed: None }
    }
}

/// Where a misdirected write ended up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Landing {
    /// The file.
    pub path: PathBuf,
    /// Where in the file.
    pub offset: u64,
    /// How many of the bytes had room before the end of the file.
    pub length: u64,
}
