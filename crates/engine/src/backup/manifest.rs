//! The manifest of a backup: what it is of, and every file that it needs. Whoever has a good manifest can tell good files from bad.
//!
//! ```text
//!   0  8  magic "GAPLBKUP"              56  8  index: everything up to this entry is in it
//!   8  4  version, 1                    64  8  term of that entry, or a later one
//!  12  4  group                         72  8  log time there, milliseconds
//!  16 16  id of the cluster             80  8  wall time when it was made, milliseconds
//!  32  8  node that made it             88  8  index of the backup before it; 2^64 - 1 for none
//!  40  8  number of the backup, from 1  96 ..  members: count (2), each node (8), votes (1), length (2), address
//!  48  8  bytes of the files it added          catalog: length (4), in the form of its file
//!                                              partitions: count (4), each namespace (4), index (2), outcomes (8)
//!                                              files: count (4), each as below
//!                                              SHA-256 of all in front of it (32)
//!
//!  file: what (1): 1 outcomes: namespace (4), index (2)
//!                  2 entries
//!                  3 rows: namespace (4), index (2), version (4), length (1), name of the projection
//!        first (8), last (8): of outcomes and entries the numbers; of rows the entry they are at, and which file of them it is
//!        length (8), SHA-256 (32)
//! ```
//!
//! Invariants
//! - One manifest has one encoding. Its files are in the order of their places, and each partition's outcomes are dense from 1.
//!
//! Must not know: disks.

use std::path::PathBuf;

use bytes::Bytes;
use gapless_consensus::{ClusterId, Members, NodeId, Term};
use gapless_log::input::{Input, Malformed};
use gapless_types::{GroupId, LogIndex, Name, NamespaceId, PartitionId, PartitionIndex};
use sha2::{Digest, Sha256};

use crate::catalog::{StoredCatalog, decode_catalog};
use crate::log_time::LogTime;
use crate::node::partition_name;
use crate::retention::Domain;

const MAGIC: &[u8; 8] = b"GAPLBKUP";
const VERSION: u32 = 1;
const NOTHING: u64 = u64::MAX;
const DIGEST_BYTES: usize = 32;

const OUTCOMES: u8 = 1;
const ENTRIES: u8 = 2;
const ROWS: u8 = 3;

/// A backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) cluster: ClusterId,
    pub(crate) group: GroupId,
    /// Who made it.
    pub(crate) node: NodeId,
    /// Its place among the backups of its directory.
    pub(crate) number: u64,
    /// Bytes of files that it added.
    pub(crate) added_bytes: u64,
    /// Everything up to this entry is in it.
    pub(crate) index: LogIndex,
    pub(crate) term: Term,
    /// Log time at the entry.
    pub(crate) time: LogTime,
    /// Wall time in milliseconds.
    pub(crate) made_at: u64,
    /// The backup before it: its entries, if it has any, follow that one's index.
    pub(crate) previous: Option<LogIndex>,
    pub(crate) members: Vec<Member>,
    /// The catalog, encoded.
    pub(crate) catalog: Bytes,
    /// Outcomes of each partition.
    pub(crate) partitions: Vec<(PartitionId, u64)>,
    pub(crate) files: Vec<FileEntry>,
}

/// A member of the cluster that was backed up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) node: NodeId,
    pub(crate) votes: bool,
    pub(crate) address: String,
}

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileEntry {
    pub(crate) what: What,
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) length: u64,
    pub(crate) digest: [u8; DIGEST_BYTES],
}

/// What is in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// Outcomes of a partition.
    Outcomes(PartitionId),
    /// Entries of the replicated log.
    Entries,
    /// Rows of a domain.
    Rows(Domain),
}

impl What {
    pub(super) fn code(&self) -> u8 {
        match self {
            What::Outcomes(_) => OUTCOMES,
            What::Entries => ENTRIES,
            What::Rows(_) => ROWS,
        }
    }

    /// The directory of such files, inside that of the backups.
    pub(super) fn directory(&self) -> PathBuf {
        match self {
            What::Outcomes(partition) => PathBuf::from("partitions").join(partition_name(*partition)),
            What::Entries => PathBuf::from("entries"),
            What::Rows(domain) => {
                let name = format!("{}-{}", domain.projection, domain.version);
                PathBuf::from("domains").join(partition_name(domain.partition)).join(name)
            }
        }
    }
}

impl FileEntry {
    /// Its place, inside the directory of the backups.
    pub(crate) fn path(&self) -> PathBuf {
        path_of(&self.what, self.first, self.last)
    }
}

pub(super) fn path_of(what: &What, first: u64, last: u64) -> PathBuf {
    let kind = match what {
        What::Outcomes(_) => "outcomes",
        What::Entries => "entries",
        What::Rows(_) => "rows",
    };
    what.directory().join(format!("{first:020}-{last:020}.{kind}"))
}

/// Everybody who is a member, learners included.
pub(crate) fn members_of(members: &Members) -> Vec<Member> {
    let voters = members.all_voters();
    let member = |(node, address): (&NodeId, &String)| Member {
        node: *node,
        votes: voters.contains(node),
        address: address.clone(),
    };
    members.addresses.iter().map(member).collect()
}

impl Manifest {
    /// The catalog at its entry.
    pub(crate) fn stored_catalog(&self) -> Result<StoredCatalog, Malformed> {
        decode_catalog(&self.catalog).map_err(Malformed)
    }

    /// Files with outcomes of a partition, in order.
    pub(crate) fn outcomes_of(&self, partition: PartitionId) -> impl Iterator<Item = &FileEntry> {
        self.files.iter().filter(move |file| file.what == What::Outcomes(partition))
    }

    /// Files with entries, in order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &FileEntry> {
        self.files.iter().filter(|file| file.what == What::Entries)
    }

    /// Whether every entry since the backup before is there.
    pub(crate) fn is_continuous(&self) -> bool {
        self.entries().next().is_some() || self.previous == Some(self.index)
    }

    /// Files with rows of domains.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&Domain, &FileEntry)> {
        self.files.iter().filter_map(|file| match &file.what {
            What::Rows(domain) => Some((domain, file)),
            What::Outcomes(_) | What::Entries => None,
        })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.group.get().to_le_bytes());
        bytes.extend_from_slice(&self.cluster.to_bytes());
        let previous = self.previous.map_or(NOTHING, LogIndex::get);
        for number in [
            self.node.get(),
            self.number,
            self.added_bytes,
            self.index.get(),
            self.term.get(),
            self.time.as_millis(),
            self.made_at,
            previous,
        ] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        put_u16(&mut bytes, self.members.len());
        for member in &self.members {
            bytes.extend_from_slice(&member.node.get().to_le_bytes());
            bytes.push(u8::from(member.votes));
            put_u16(&mut bytes, member.address.len());
            bytes.extend_from_slice(member.address.as_bytes());
        }
        put_u32(&mut bytes, self.catalog.len());
        bytes.extend_from_slice(&self.catalog);
        put_u32(&mut bytes, self.partitions.len());
        for (partition, outcomes) in &self.partitions {
            put_partition(&mut bytes, *partition);
            bytes.extend_from_slice(&outcomes.to_le_bytes());
        }
        put_u32(&mut bytes, self.files.len());
        for file in &self.files {
            put_file(&mut bytes, file);
        }
        let digest: [u8; DIGEST_BYTES] = Sha256::digest(&bytes).into();
        bytes.extend_from_slice(&digest);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let Some((content, digest)) = bytes.split_last_chunk::<DIGEST_BYTES>() else {
            return Err(Malformed("it ends too early"));
        };
        if !content.starts_with(MAGIC) {
            return Err(Malformed("it does not begin as a manifest does"));
        }
        let computed: [u8; DIGEST_BYTES] = Sha256::digest(content).into();
        if computed != *digest {
            return Err(Malformed("it does not match its checksum"));
        }
        let manifest = Self::decode_content(Input::new(&content[MAGIC.len()..]))?;
        manifest.check()?;
        Ok(manifest)
    }

    fn decode_content(mut input: Input<'_>) -> Result<Self, Malformed> {
        if input.u32()? != VERSION {
            return Err(Malformed("its version is unknown"));
        }
        let group = GroupId::new(input.u32()?);
        let cluster = ClusterId::from_bytes(input.array()?);
        let node = NodeId::new(input.u64()?);
        let (number, added_bytes) = (input.u64()?, input.u64()?);
        let (index, term) = (LogIndex::new(input.u64()?), Term::new(input.u64()?));
        let time = LogTime::from_millis(input.u64()?).ok_or(Malformed("its log time is too late"))?;
        let made_at = input.u64()?;
        let previous = Some(input.u64()?).filter(|index| *index != NOTHING).map(LogIndex::new);
        let mut members = Vec::new();
        for _ in 0..input.u16()? {
            let node = NodeId::new(input.u64()?);
            let votes = match input.u8()? {
                0 => false,
                1 => true,
                _ => return Err(Malformed("a member neither votes nor not")),
            };
            let length = usize::from(input.u16()?);
            let address = std::str::from_utf8(input.take(length)?);
            let address = address.map_err(|_| Malformed("an address is no text"))?.to_owned();
            members.push(Member { node, votes, address });
        }
        let length = input.u32()? as usize;
        let catalog = Bytes::copy_from_slice(input.take(length)?);
        let mut partitions = Vec::new();
        for _ in 0..input.u32()? {
            partitions.push((get_partition(&mut input)?, input.u64()?));
        }
        let mut files = Vec::new();
        for _ in 0..input.u32()? {
            files.push(get_file(&mut input)?);
        }
        input.end()?;
        Ok(Self {
            cluster,
            group,
            node,
            number,
            added_bytes,
            index,
            term,
            time,
            made_at,
            previous,
            members,
            catalog,
            partitions,
            files,
        })
    }

    /// Whether its parts belong together.
    fn check(&self) -> Result<(), Malformed> {
        if !self.files.is_sorted_by(|one, other| one < other) {
            return Err(Malformed("its files are not in order"));
        }
        if !self.partitions.is_sorted_by(|(one, _), (other, _)| one < other) {
            return Err(Malformed("its partitions are not in order"));
        }
        for (partition, outcomes) in &self.partitions {
            if !is_dense(self.outcomes_of(*partition), 1, *outcomes) {
                return Err(Malformed("outcomes of a partition are missing"));
            }
        }
        let is_listed = |file: &FileEntry| match file.what {
            What::Outcomes(partition) => {
                self.partitions.binary_search_by_key(&partition, |(id, _)| *id).is_ok()
            }
            What::Entries | What::Rows(_) => true,
        };
        if !self.files.iter().all(is_listed) {
            return Err(Malformed("it has outcomes of a partition that it does not list"));
        }
        if let Some(first) = self.entries().next() {
            let from = self.previous.and_then(LogIndex::next).map(LogIndex::get);
            if from != Some(first.first) || !is_dense(self.entries(), first.first, self.index.get()) {
                return Err(Malformed("entries are missing"));
            }
        }
        Ok(())
    }
}

/// Whether files hold everything from the first number to the last, each once.
fn is_dense<'a>(files: impl Iterator<Item = &'a FileEntry>, first: u64, last: u64) -> bool {
    let mut next = Some(first);
    for file in files {
        if next != Some(file.first) || file.last < file.first {
            return false;
        }
        next = file.last.checked_add(1);
    }
    next == last.checked_add(1)
}

fn put_u16(bytes: &mut Vec<u8>, count: usize) {
    bytes.extend_from_slice(&u16::try_from(count).expect("limits keep it below 2^16").to_le_bytes());
}

fn put_u32(bytes: &mut Vec<u8>, count: usize) {
    bytes.extend_from_slice(&u32::try_from(count).expect("limits keep it below 2^32").to_le_bytes());
}

fn put_partition(bytes: &mut Vec<u8>, partition: PartitionId) {
    bytes.extend_from_slice(&partition.namespace.get().to_le_bytes());
    bytes.extend_from_slice(&partition.index.get().to_le_bytes());
}

fn get_partition(input: &mut Input<'_>) -> Result<PartitionId, Malformed> {
    let namespace = NamespaceId::new(input.u32()?);
    Ok(PartitionId { namespace, index: PartitionIndex::new(input.u16()?) })
}

fn put_file(bytes: &mut Vec<u8>, file: &FileEntry) {
    bytes.push(file.what.code());
    match &file.what {
        What::Outcomes(partition) => put_partition(bytes, *partition),
        What::Entries => {}
        What::Rows(domain) => {
            put_partition(bytes, domain.partition);
            bytes.extend_from_slice(&domain.version.to_le_bytes());
            let name = domain.projection.as_str();
            bytes.push(u8::try_from(name.len()).expect("names have at most 63 bytes"));
            bytes.extend_from_slice(name.as_bytes());
        }
    }
    for number in [file.first, file.last, file.length] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(&file.digest);
}

fn get_file(input: &mut Input<'_>) -> Result<FileEntry, Malformed> {
    let what = match input.u8()? {
        OUTCOMES => What::Outcomes(get_partition(input)?),
        ENTRIES => What::Entries,
        ROWS => {
            let (partition, version) = (get_partition(input)?, input.u32()?);
            let length = usize::from(input.u8()?);
            let name = std::str::from_utf8(input.take(length)?).ok().and_then(|name| Name::new(name).ok());
            let projection = name.ok_or(Malformed("a name is none"))?;
            What::Rows(Domain { projection, version, partition })
        }
        _ => return Err(Malformed("it has a file that nobody knows")),
    };
    let (first, last, length) = (input.u64()?, input.u64()?, input.u64()?);
    Ok(FileEntry { what, first, last, length, digest: input.array()? })
}

#[cfg(test)]
mod tests;
