//! The catalog on disk: one small file that is replaced whole.
//!
//! ```text
//!  0  8  magic "GAPLCAT6"              20  8  everything up to this entry is in checkpoints; 2^64 - 1 for nothing
//!  8  4  CRC-32C of all behind it      28  8  log time: not earlier than that of any entry up to there
//! 12  8  snapshots installed           36 16  id of the cluster; 0 for none
//!                                      52 ..  catalog: next namespace (4), entry (8), namespaces, garbage;
//!                                              what domains need; ends of partition logs;
//!                                              places of partitions; places of domains;
//!                                              entries that raised the machine version
//! ```
//!
//! One whose log has never raised the machine version is written in the form before, "GAPLCAT5": the same without the last part. So a
//! node can go back to the program before until then.
//!
//! Invariants
//! - After a crash there is the old one or the new one.
//! - The entry that it says everything is in checkpoints up to never falls (WM-1), but for a repair at rest that had to cut a
//!   partition back to what the replicated log can bring again.
//! - Log time never goes back over a restart: entries that are read again have their times, all others are not later than this one.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Buf, TryGetError};
use gapless_consensus::ClusterId;
use gapless_log::io::{Io, OpenMode, read_exact_at, write_all_at};
use gapless_partition::Schema;
use gapless_projection::Plan;
use gapless_types::{
    LogIndex, MachineVersion, Name, NamespaceId, PartitionId, PartitionIndex, PartitionOffset,
};
use thiserror::Error;

use super::{Catalog, Namespace, Places, Projection};
use crate::log_time::LogTime;
use crate::retention::Domain;

const MAGIC: &[u8; 8] = b"GAPLCAT6";
/// The form before: nothing was raised yet.
const MAGIC_UNRAISED: &[u8; 8] = b"GAPLCAT5";
const NAME: &str = "catalog";
const TEMPORARY: &str = "catalog.new";
const PARTITIONS: &str = "partitions";
const NOTHING: u64 = u64::MAX;

/// Why the catalog could not be read or written.
#[derive(Clone, Debug, Error)]
pub enum CatalogFileError {
    /// The disk failed.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// It is not what was written.
    #[error("{path} is damaged: {what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
}

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) catalog: Catalog,
    /// Everything up to here is in checkpoints of partitions.
    pub(crate) covered: Option<LogIndex>,
    /// Log time: at least that of every entry up to there.
    pub(crate) time: LogTime,
    /// The cluster that the node belongs to; none before it was chosen.
    pub(crate) cluster: Option<ClusterId>,
    /// The first entry that each domain needs, where its own checkpoint does not say that it needs less.
    pub(crate) domains: BTreeMap<Domain, LogIndex>,
    /// The last outcome that each partition had on stable storage: one that has less has lost something.
    pub(crate) ends: BTreeMap<PartitionId, PartitionOffset>,
    /// Where partitions and domains are.
    pub(crate) places: Places,
}

/// The catalog in the directory of a node.
#[derive(Clone, Debug)]
pub(crate) struct CatalogFile {
    io: Arc<dyn Io>,
    dir: PathBuf,
}

impl CatalogFile {
    pub(crate) fn new(io: Arc<dyn Io>, dir: impl Into<PathBuf>) -> Self {
        Self { io, dir: dir.into() }
    }

    /// The directory of the node.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where the partitions are.
    pub(crate) fn partitions_dir(&self) -> PathBuf {
        self.dir.join(PARTITIONS)
    }

    /// What is stored; the beginning of everything if there is no file.
    pub(crate) fn read(&self) -> Result<Stored, CatalogFileError> {
        let path = self.dir.join(NAME);
        let file = match self.io.open(&path, OpenMode::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Stored::default()),
            Err(error) => return Err(failed("open", &path, error)),
        };
        let length = file.len().map_err(|error| failed("read", &path, error))?;
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(MAX_BYTES + 1);
        let mut bytes = vec![0; length];
        read_exact_at(&*file, &mut bytes, 0).map_err(|error| failed("read", &path, error))?;
        decode(&bytes).map_err(|what| CatalogFileError::Damaged { path, what })
    }

    /// Replaces it.
    pub(crate) fn write(&self, stored: &Stored) -> Result<(), CatalogFileError> {
        let (path, temporary) = (self.dir.join(NAME), self.dir.join(TEMPORARY));
        let bytes = encode(stored);
        let file = self
            .io
            .open(&temporary, OpenMode::Create)
            .map_err(|error| failed("create", &temporary, error))?;
        write_all_at(&*file, &bytes, 0).map_err(|error| failed("write", &temporary, error))?;
        file.sync().map_err(|error| failed("sync", &temporary, error))?;
        self.io.rename(&temporary, &path).map_err(|error| failed("rename", &temporary, error))?;
        self.io.sync_dir(&self.dir).map_err(|error| failed("sync", &self.dir, error))
    }
}

/// Longest file that is read: far more than [`crate::limits::MAX_NAMESPACES`] definitions usually take.
const MAX_BYTES: usize = 1 << 30;

fn failed(action: &'static str, path: &Path, source: io::Error) -> CatalogFileError {
    CatalogFileError::Io { action, path: path.to_path_buf(), source: Arc::new(source) }
}

pub(crate) fn encode(stored: &Stored) -> Vec<u8> {
    let mut content = Vec::new();
    let index = |index: Option<LogIndex>| index.map_or(NOTHING, LogIndex::get).to_le_bytes();
    content.extend_from_slice(&stored.places.installs.to_le_bytes());
    content.extend_from_slice(&index(stored.covered));
    content.extend_from_slice(&stored.time.as_millis().to_le_bytes());
    content.extend_from_slice(&stored.cluster.map_or([0; 16], ClusterId::to_bytes));
    let catalog = &stored.catalog;
    content.extend_from_slice(&catalog.next.to_le_bytes());
    content.extend_from_slice(&index(catalog.at));
    put_count(&mut content, catalog.namespaces.len());
    for namespace in catalog.namespaces.values() {
        content.extend_from_slice(&namespace.id.get().to_le_bytes());
        put_count(&mut content, namespace.frozen.len());
        for frozen in &namespace.frozen {
            content.extend_from_slice(&frozen.get().to_le_bytes());
        }
        let mut schema = Vec::new();
        namespace.schema.encode(&mut schema);
        put_count(&mut content, schema.len());
        content.extend_from_slice(&schema);
        put_count(&mut content, namespace.projections.len());
        for (name, projection) in &namespace.projections {
            put_name(&mut content, name);
            content.extend_from_slice(&projection.version.to_le_bytes());
            content.extend_from_slice(&projection.since.get().to_le_bytes());
        }
        put_count(&mut content, namespace.retired.len());
        for (name, version) in &namespace.retired {
            put_name(&mut content, name);
            content.extend_from_slice(&version.to_le_bytes());
        }
    }
    put_count(&mut content, catalog.garbage.len());
    for (namespace, partitions) in &catalog.garbage {
        content.extend_from_slice(&namespace.get().to_le_bytes());
        content.extend_from_slice(&partitions.to_le_bytes());
    }
    put_count(&mut content, stored.domains.len());
    for (domain, from) in &stored.domains {
        put_domain(&mut content, domain);
        content.extend_from_slice(&from.get().to_le_bytes());
    }
    put_count(&mut content, stored.ends.len());
    for (partition, end) in &stored.ends {
        put_partition(&mut content, *partition);
        content.extend_from_slice(&end.get().to_le_bytes());
    }
    put_count(&mut content, stored.places.partitions.len());
    for (partition, number) in &stored.places.partitions {
        put_partition(&mut content, *partition);
        content.extend_from_slice(&number.to_le_bytes());
    }
    put_count(&mut content, stored.places.domains.len());
    for (domain, number) in &stored.places.domains {
        put_domain(&mut content, domain);
        content.extend_from_slice(&number.to_le_bytes());
    }
    let magic = if catalog.raises.is_empty() { MAGIC_UNRAISED } else { MAGIC };
    if !catalog.raises.is_empty() {
        put_count(&mut content, catalog.raises.len());
        for (index, version) in &catalog.raises {
            content.extend_from_slice(&index.get().to_le_bytes());
            content.extend_from_slice(&version.0.to_le_bytes());
        }
    }
    let mut bytes = magic.to_vec();
    bytes.extend_from_slice(&crc32c::crc32c(&content).to_le_bytes());
    bytes.extend_from_slice(&content);
    bytes
}

fn put_count(bytes: &mut Vec<u8>, count: usize) {
    bytes.extend_from_slice(&u32::try_from(count).expect("limits keep it below 2^32").to_le_bytes());
}

fn put_partition(bytes: &mut Vec<u8>, partition: PartitionId) {
    bytes.extend_from_slice(&partition.namespace.get().to_le_bytes());
    bytes.extend_from_slice(&partition.index.get().to_le_bytes());
}

fn put_domain(bytes: &mut Vec<u8>, domain: &Domain) {
    put_name(bytes, &domain.projection);
    bytes.extend_from_slice(&domain.version.to_le_bytes());
    put_partition(bytes, domain.partition);
}

fn put_name(bytes: &mut Vec<u8>, name: &Name) {
    put_count(bytes, name.as_str().len());
    bytes.extend_from_slice(name.as_str().as_bytes());
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Stored, &'static str> {
    let (content, has_raises) = match (bytes.strip_prefix(MAGIC), bytes.strip_prefix(MAGIC_UNRAISED)) {
        (Some(content), _) => (content, true),
        (None, Some(content)) => (content, false),
        (None, None) => return Err("it is no catalog of this format"),
    };
    let (sum, content) = content.split_first_chunk().ok_or(TOO_SHORT)?;
    if u32::from_le_bytes(*sum) != crc32c::crc32c(content) {
        return Err("its checksum does not match");
    }
    decode_content(content, has_raises).map_err(|Malformed(what)| what)
}

const TOO_SHORT: &str = "it ends too early";

struct Malformed(&'static str);

impl From<TryGetError> for Malformed {
    fn from(_: TryGetError) -> Self {
        Self(TOO_SHORT)
    }
}

fn decode_content(mut content: &[u8], has_raises: bool) -> Result<Stored, Malformed> {
    let installs = content.try_get_u64_le()?;
    let covered = index_of(content.try_get_u64_le()?);
    let time =
        LogTime::from_millis(content.try_get_u64_le()?).ok_or(Malformed("its log time is too late"))?;
    let cluster = Some(content.try_get_u128()?).filter(|id| *id != 0);
    let cluster = cluster.map(|id| ClusterId::from_bytes(id.to_be_bytes()));
    let next = content.try_get_u32_le()?;
    let mut catalog = Catalog { next, at: index_of(content.try_get_u64_le()?), ..Catalog::default() };
    for _ in 0..content.try_get_u32_le()? {
        let id = NamespaceId::new(content.try_get_u32_le()?);
        let mut frozen = BTreeSet::new();
        for _ in 0..content.try_get_u32_le()? {
            frozen.insert(PartitionIndex::new(content.try_get_u16_le()?));
        }
        let length = content.try_get_u32_le()? as usize;
        let (schema, rest) = content.split_at_checked(length).ok_or(Malformed(TOO_SHORT))?;
        content = rest;
        let schema = Schema::decode(schema).map_err(|_| Malformed("a definition has another form"))?;
        catalog.names.insert(schema.definition().name.clone(), id);
        let mut namespace = Namespace { frozen, ..Namespace::new(id, Arc::new(schema)) };
        for _ in 0..content.try_get_u32_le()? {
            let name = take_name(&mut content)?;
            let (version, since) = (content.try_get_u32_le()?, LogIndex::new(content.try_get_u64_le()?));
            let text = namespace.schema.definition().projections.get(&name);
            let plan = text.and_then(|text| Plan::from_text(text).ok());
            let plan = Arc::new(plan.ok_or(Malformed("a projection has no plan"))?);
            namespace.projections.insert(name, Projection { version, since, plan });
        }
        for _ in 0..content.try_get_u32_le()? {
            let name = take_name(&mut content)?;
            namespace.retired.insert(name, content.try_get_u32_le()?);
        }
        catalog.namespaces.insert(id, namespace);
    }
    for _ in 0..content.try_get_u32_le()? {
        let namespace = NamespaceId::new(content.try_get_u32_le()?);
        catalog.garbage.insert(namespace, content.try_get_u16_le()?);
    }
    let mut domains = BTreeMap::new();
    for _ in 0..content.try_get_u32_le()? {
        let domain = take_domain(&mut content)?;
        domains.insert(domain, LogIndex::new(content.try_get_u64_le()?));
    }
    let mut ends = BTreeMap::new();
    for _ in 0..content.try_get_u32_le()? {
        let partition = take_partition(&mut content)?;
        let end = PartitionOffset::new(content.try_get_u64_le()?);
        ends.insert(partition, end.ok_or(Malformed("a partition log ends before it begins"))?);
    }
    let mut places = Places { installs, ..Places::default() };
    for _ in 0..content.try_get_u32_le()? {
        let partition = take_partition(&mut content)?;
        places.partitions.insert(partition, content.try_get_u64_le()?);
    }
    for _ in 0..content.try_get_u32_le()? {
        let domain = take_domain(&mut content)?;
        places.domains.insert(domain, content.try_get_u64_le()?);
    }
    if has_raises {
        catalog.raises = take_raises(&mut content)?;
    }
    if content.has_remaining() {
        return Err(Malformed("it goes on behind its end"));
    }
    Ok(Stored { catalog, covered, time, cluster, domains, ends, places })
}

/// At least one, and both entries and versions ascend.
fn take_raises(content: &mut &[u8]) -> Result<BTreeMap<LogIndex, MachineVersion>, Malformed> {
    const MALFORMED: Malformed = Malformed("machine versions do not ascend");
    let mut raises: BTreeMap<LogIndex, MachineVersion> = BTreeMap::new();
    for _ in 0..content.try_get_u32_le()? {
        let (index, version) =
            (LogIndex::new(content.try_get_u64_le()?), MachineVersion(content.try_get_u32_le()?));
        let (last, in_force) = raises
            .last_key_value()
            .map_or((None, MachineVersion::FIRST), |(last, version)| (Some(*last), *version));
        if Some(index) <= last || version <= in_force {
            return Err(MALFORMED);
        }
        raises.insert(index, version);
    }
    if raises.is_empty() { Err(MALFORMED) } else { Ok(raises) }
}

fn take_domain(content: &mut &[u8]) -> Result<Domain, Malformed> {
    let (projection, version) = (take_name(content)?, content.try_get_u32_le()?);
    Ok(Domain { projection, version, partition: take_partition(content)? })
}

fn take_partition(content: &mut &[u8]) -> Result<PartitionId, Malformed> {
    let namespace = NamespaceId::new(content.try_get_u32_le()?);
    Ok(PartitionId { namespace, index: PartitionIndex::new(content.try_get_u16_le()?) })
}

fn take_name(content: &mut &[u8]) -> Result<Name, Malformed> {
    let length = content.try_get_u32_le()? as usize;
    let (name, rest) = content.split_at_checked(length).ok_or(Malformed(TOO_SHORT))?;
    *content = rest;
    let name = std::str::from_utf8(name).ok().and_then(|name| Name::new(name).ok());
    name.ok_or(Malformed("a name is none"))
}

fn index_of(stored: u64) -> Option<LogIndex> {
    Some(stored).filter(|index| *index != NOTHING).map(LogIndex::new)
}
