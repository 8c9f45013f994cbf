//! The control file: whose directory it is, which log belongs to it, and who the members are.
//!
//! ```text
//! | "GAPLESSN" | CRC: u32 | version: u8 | flags: u8 | changes: u16 | cluster: 16 | group: u32 | reserved: 4 | node: u64 | log: 16 |
//! | index of a change of members: u64 ... | snapshot: standing | if flags bit 0, installing: standing |
//!
//! standing: | has last: u8 | has members: u8 | reserved: 6 | last: term u64, index u64 | members at: term u64, index u64 |
//!           | highest node: u64 | members, as in `members.rs` |
//! ```
//!
//! The checksum covers the magic and everything behind it. What a standing does not have is zero.

use gapless_log::LogId;
use gapless_types::{GroupId, LogIndex};

use super::{
    FORMAT_VERSION, Input, Malformed, count16, get_entry_id, get_version, members, put_entry_id, seal, unseal,
};
use crate::identity::{ClusterId, Identity, NodeId, Term};
use crate::members::Members;
use crate::message::EntryId;

const MAGIC: &[u8; 8] = b"GAPLESSN";
const INSTALLING: u8 = 1;
const NO_ENTRY: EntryId = EntryId { term: Term::new(0), index: LogIndex::new(0) };

/// Where a group stands at one entry, independent of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// The last entry that is contained.
    pub(crate) last: Option<EntryId>,
    /// The entry that made the members what they are.
    pub(crate) members_at: Option<EntryId>,
    /// The members in force there.
    pub(crate) members: Members,
    /// The highest id that a member ever had: one is never used again.
    pub(crate) highest_node: NodeId,
}

/// The content of the control file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Control {
    pub(crate) identity: Identity,
    /// The log this node votes and acknowledges with.
    pub(crate) log: LogId,
    /// Where the entries lie that changed the members since the snapshot and were dispatched, ascending.
    pub(crate) changes: Vec<LogIndex>,
    /// As of the snapshot that was published or installed last.
    pub(crate) snapshot: Standing,
    /// A snapshot that the machine was told to install, as long as it is not known to have done so.
    pub(crate) installing: Option<Standing>,
}

impl Control {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let flags = if self.installing.is_some() { INSTALLING } else { 0 };
        let mut bytes = vec![FORMAT_VERSION, flags];
        bytes.extend_from_slice(&count16(self.changes.len()));
        put_origin(&mut bytes, self.identity.cluster, self.identity.group);
        bytes.extend_from_slice(&self.identity.node.get().to_le_bytes());
        bytes.extend_from_slice(self.log.as_bytes());
        for change in &self.changes {
            bytes.extend_from_slice(&change.get().to_le_bytes());
        }
        self.snapshot.put(&mut bytes);
        if let Some(installing) = &self.installing {
            installing.put(&mut bytes);
        }
        seal(MAGIC, &bytes)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Input::new(unseal(MAGIC, bytes)?);
        get_version(&mut input)?;
        let flags = input.u8()?;
        if flags & !INSTALLING != 0 {
            return Err(Malformed("it has unknown flags"));
        }
        let count = input.u16()?;
        let (cluster, group) = get_origin(&mut input)?;
        let identity = Identity { cluster, group, node: NodeId::new(input.u64()?) };
        let log = LogId::from_bytes(input.array()?);
        let mut changes = Vec::new();
        for _ in 0..count {
            let change = LogIndex::new(input.u64()?);
            if changes.last().is_some_and(|&last| last >= change) {
                return Err(Malformed("changes of members do not ascend"));
            }
            changes.push(change);
        }
        let snapshot = Standing::get(&mut input)?;
        let installing = (flags & INSTALLING != 0).then(|| Standing::get(&mut input)).transpose()?;
        input.end()?;
        Ok(Self { identity, log, changes, snapshot, installing })
    }
}

/// Cluster and group, as control files and snapshots begin.
pub(super) fn put_origin(bytes: &mut Vec<u8>, cluster: ClusterId, group: GroupId) {
    bytes.extend_from_slice(&cluster.to_bytes());
    bytes.extend_from_slice(&group.get().to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
}

pub(super) fn get_origin(input: &mut Input<'_>) -> Result<(ClusterId, GroupId), Malformed> {
    let cluster = ClusterId::from_bytes(input.array()?);
    let group = GroupId::new(input.u32()?);
    input.reserved(4)?;
    Ok((cluster, group))
}

impl Standing {
    pub(super) fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&[u8::from(self.last.is_some()), u8::from(self.members_at.is_some())]);
        bytes.extend_from_slice(&[0; 6]);
        put_entry_id(bytes, self.last.unwrap_or(NO_ENTRY));
        put_entry_id(bytes, self.members_at.unwrap_or(NO_ENTRY));
        bytes.extend_from_slice(&self.highest_node.get().to_le_bytes());
        members::put(bytes, &self.members);
    }

    pub(super) fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let (has_last, has_members) = (flag(input)?, flag(input)?);
        input.reserved(6)?;
        let last = optional(has_last, get_entry_id(input)?)?;
        let members_at = optional(has_members, get_entry_id(input)?)?;
        let highest_node = NodeId::new(input.u64()?);
        let members = members::get(input)?;
        Ok(Self { last, members_at, members, highest_node })
    }
}

fn flag(input: &mut Input<'_>) -> Result<bool, Malformed> {
    match input.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed("something is neither there nor missing")),
    }
}

fn optional(there: bool, id: EntryId) -> Result<Option<EntryId>, Malformed> {
    match (there, id == NO_ENTRY) {
        (true, _) => Ok(Some(id)),
        (false, true) => Ok(None),
        (false, false) => Err(Malformed("something that is not there has a value")),
    }
}
