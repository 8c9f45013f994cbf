//! An entry of the replicated log: a batch of records for partitions, stamped with the leader's time.
//!
//! An entry is encoded once, by the proposer; the same bytes go to the log and to every follower. Taking it apart copies no
//! payload: records are slices of the entry.
//!
//! Invariants
//! - One entry has one encoding.
//! - Inside an entry the offsets of a partition ascend by one. So whoever starts in the middle of the log can tell what a
//!   partition has already applied from its last offset and log index alone.
//!
//! Must not know: what a payload means, who agreed on the order, clocks.

mod decode;
mod encode;

use bytes::Bytes;
use gapless_types::{GroupId, MachineVersion, PartitionId, PartitionOffset};
use thiserror::Error;

use decode::Head;
pub use encode::EntryEncoder;

use crate::limits::{MAX_ENTRY_BYTES, MAX_ENTRY_RECORDS};
use crate::log_time::LogTime;
use crate::machine_version::UnknownMachineVersion;

/// The format version of an entry.
const VERSION: u8 = 1;
/// Bytes in front of the records.
const HEADER_BYTES: usize = 28;
/// Bytes in front of the payload of a record.
const RECORD_HEADER_BYTES: usize = 20;
/// In place of a length: the payload is that of the record before.
const SAME_PAYLOAD: u32 = u32::MAX;

/// Kinds of records, as stored.
const WRITE: u8 = 1;
const DEFINITION: u8 = 2;
const TERM: u8 = 3;
const DOMAIN_COMMAND: u8 = 4;
const CONTROL: u8 = 5;
const RAISE: u8 = 6;

/// One place in the replicated log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The group whose log it is.
    pub group: GroupId,
    /// What applies it. Never less than that of the entry before.
    pub machine_version: MachineVersion,
    /// The leader's time when it was proposed.
    pub time: LogTime,
    /// What is asked for, in order: one [`EntryRecord::Term`] or [`EntryRecord::Raise`], or one or more of the others.
    pub records: Vec<EntryRecord>,
}

/// One record of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryRecord {
    /// A write.
    Write(PartitionCommand),
    /// A definition of the partition's namespace.
    Definition(PartitionCommand),
    /// The first entry of a leader: everything before it is decided, and its time begins.
    Term,
    /// A command for a domain of a projection. It has no partition offset and never reaches the partition log.
    DomainCommand {
        /// The partition of the domain.
        partition: PartitionId,
        /// What is asked for.
        command: Bytes,
    },
    /// A change of which namespaces and partitions there are. It belongs to no partition.
    Control(Bytes),
    /// The machine version of its entry is in force from here on.
    Raise,
}

impl EntryRecord {
    /// Whether it is the only record of its entry.
    fn stands_alone(&self) -> bool {
        matches!(self, Self::Term | Self::Raise)
    }
}

/// What a partition applies at its next offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionCommand {
    /// Who applies it.
    pub partition: PartitionId,
    /// The place that the proposer expects it to get. If another one is next, it is dropped by every replica alike.
    pub expected: PartitionOffset,
    /// An encoded [`gapless_partition::Command`].
    pub command: Bytes,
}

/// Counts what fits one entry, for a proposer that has to know before it reserves offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryRoom {
    records: usize,
    bytes: usize,
}

impl Default for EntryRoom {
    fn default() -> Self {
        Self { records: MAX_ENTRY_RECORDS, bytes: MAX_ENTRY_BYTES - HEADER_BYTES }
    }
}

impl EntryRoom {
    /// Takes room for one more record with a payload of so many bytes; false, and nothing is taken, if there is none.
    #[must_use]
    pub fn take(&mut self, payload_bytes: usize) -> bool {
        let left =
            self.bytes.checked_sub(RECORD_HEADER_BYTES).and_then(|left| left.checked_sub(payload_bytes));
        match (self.records.checked_sub(1), left) {
            (Some(records), Some(bytes)) => {
                *self = Self { records, bytes };
                true
            }
            _ => false,
        }
    }
}

impl Entry {
    /// Takes an entry of a group's log apart, for whoever applies it and knows the machine versions up to `known`. One rule, wherever it
    /// is read: from the queue of what was committed, or from the log by whoever fell behind (NUM-3).
    ///
    /// # Errors
    /// If it is not applied: by nobody, or not by this program.
    pub(crate) fn of_group(group: GroupId, known: MachineVersion, bytes: &Bytes) -> Result<Self, NotApplied> {
        let head = Head::decode(bytes)?;
        if head.group != group {
            return Err(EntryError::Group { found: head.group }.into());
        }
        // Before its records are looked at: a newer version may have others.
        UnknownMachineVersion::check(head.machine_version, known)?;
        Ok(head.with_records()?)
    }
}

/// Why an entry is not applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum NotApplied {
    /// Every replica passes over it alike.
    #[error(transparent)]
    PassedOver(#[from] EntryError),
    /// Others apply it. Whoever passed over it would not have what they have: he stops.
    #[error(transparent)]
    TooNew(#[from] UnknownMachineVersion),
}

/// Bytes that are no entry, or none that this program understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EntryError {
    /// A version that this program does not know.
    #[error("entry version {found}, this program knows {VERSION}")]
    Version {
        /// The one found.
        found: u8,
    },
    /// The bytes are not those that were encoded.
    #[error("entry checksum {found:08x}, its bytes have {computed:08x}")]
    Checksum {
        /// The one in the entry.
        found: u32,
        /// The one of its bytes.
        computed: u32,
    },
    /// It is of another group.
    #[error("the entry belongs to group {found}")]
    Group {
        /// Which one.
        found: GroupId,
    },
    /// Longer than [`MAX_ENTRY_BYTES`].
    #[error("an entry has at most {MAX_ENTRY_BYTES} bytes, not {bytes}")]
    TooLong {
        /// How long.
        bytes: usize,
    },
    /// Something is not what it should be.
    #[error("malformed entry: {what} at byte {at}")]
    Malformed {
        /// What was expected there.
        what: &'static str,
        /// Where.
        at: usize,
    },
}

/// Why a record does not become part of an entry. The entry is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PushError {
    /// It belongs into the next entry.
    #[error("the entry is full: {records} records, {bytes} bytes")]
    Full {
        /// Records so far, of at most [`MAX_ENTRY_RECORDS`].
        records: usize,
        /// Bytes so far, of at most [`MAX_ENTRY_BYTES`].
        bytes: usize,
    },
    /// It fits no entry.
    #[error("a payload of {bytes} bytes fits no entry")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// Its offset does not follow that of the record before it for the same partition.
    #[error("offset {given} of partition {partition} does not follow {last} in the same entry")]
    NotNext {
        /// The partition.
        partition: PartitionId,
        /// Offset of the record before.
        last: PartitionOffset,
        /// Offset of this one.
        given: PartitionOffset,
    },
    /// A term stands alone, and so does a raise.
    #[error("a term or a raise is the only record of its entry")]
    NotAlone,
}

#[cfg(test)]
mod tests;
