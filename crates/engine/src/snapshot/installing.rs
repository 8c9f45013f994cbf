//! Taking in a snapshot of another node.
//!
//! ```text
//!  outcomes behind those that are here ──▶ appended to the own log, whose state stays ──┐
//!  whole partitions, states of domains ──▶ directories with the next number ────────────┴──▶ catalog names them: installed
//! ```
//!
//! What the log of a partition has behind the snapshot stays: it is of committed entries, which come again and are compared.
//!
//! Invariants
//! - The catalog on disk decides: before it is replaced, a restart goes on from the entry that it called covered, with logs that may have
//!   more, as after any other restart; afterwards from the entry of the snapshot.
//! - WM-1: no mark of a partition that is rolled forward falls.
//! - LOG-1: nothing in a log is overwritten. Outcomes that are here and in the snapshot are the same (NUM-3), or nothing is installed.
//!
//! Must not know: how the bytes travel, how an order is agreed on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{Buf, Bytes, BytesMut};
use futures_util::future::BoxFuture;
use gapless_consensus::{MachineFault, SnapshotBody};
use gapless_log::{Log, Options};
use gapless_types::limits::MAX_READ_BYTES;
use gapless_types::{LogIndex, NamespaceId, PartitionId, PartitionIndex, PartitionOffset, Position};

use super::domains::receive_domain;
use super::{DOMAIN, PAGE, PARTITION, VERSION};
use crate::catalog::{Places, StoredCatalog, decode_catalog};
use crate::dispatcher::{close_partitions, reset_partitions, start_workers};
use crate::keeper::write_catalog;
use crate::machine_version::UnknownMachineVersion;
use crate::node::{Durable, Node};
use crate::projections;
use crate::removal;
use crate::retention::Domain;

/// Takes in a snapshot.
pub(crate) fn install(
    node: Arc<Node>,
    at: LogIndex,
    body: Box<dyn SnapshotBody>,
) -> BoxFuture<'static, Result<(), MachineFault>> {
    Box::pin(async move {
        // A snapshot that is being taken needs the partitions as they are.
        let _taking = node.taking.write().await;
        // Until everything is as the snapshot says, nobody else decides what the catalog on disk says.
        let _turn = node.catalog_turn.lock().await;
        // The partitions let go of their files before anything is appended.
        projections::close_domains(&node).await;
        close_partitions(&node).await;
        let mut reader = Reader { body, buffer: BytesMut::new(), ended: false };
        let taken = take_in(&node, &mut reader).await?;
        let rolled = taken.rolled.clone();
        let durable = taken.durable(&node.durable.borrow(), at);
        let catalog = durable.catalog.clone();
        if !write_catalog(&node, durable).await {
            return Err(MachineFault::new("the catalog cannot be written"));
        }
        {
            // Whoever forgets what he has removed does so under this lock.
            let _core = node.core();
            node.catalog.send_replace(catalog);
        }
        node.has_earlier.store(true, Ordering::Release);
        node.announce(at);
        reset_partitions(&node, &rolled).await;
        start_workers(&node);
        projections::reset_domains(&node);
        projections::start_domains(&node);
        node.keeper.notify_one();
        Ok(())
    })
}

/// What was taken in of a snapshot.
struct Taken {
    stored: StoredCatalog,
    /// Partitions that were here, and got what they did not have.
    rolled: BTreeSet<PartitionId>,
    ends: BTreeMap<PartitionId, PartitionOffset>,
    places: Places,
    /// Domains whose state came with it.
    domains: BTreeSet<Domain>,
}

impl Taken {
    /// What the catalog on disk is to say.
    fn durable(self, earlier: &Durable, at: LogIndex) -> Durable {
        let StoredCatalog { mut catalog, time, .. } = self.stored;
        catalog.keep_garbage_of(&earlier.catalog);
        let mut domains = earlier.domains.clone();
        domains.retain(|domain, _| catalog.has_domain(domain) && !self.domains.contains(domain));
        let places = Arc::new(self.places.of(&catalog));
        let (covered, time) = (earlier.covered.max(Some(at)), earlier.time.max(time));
        Durable { catalog: Arc::new(catalog), covered, time, domains, ends: self.ends, places }
    }
}

/// Writes everything that a snapshot has, where it is to be.
async fn take_in(node: &Arc<Node>, reader: &mut Reader) -> Result<Taken, MachineFault> {
    if reader.take(1).await?[0] != VERSION {
        return Err(MachineFault::new("the snapshot is of another version"));
    }
    let length = reader.take(4).await?.get_u32_le() as usize;
    let stored = decode_catalog(&reader.take(length).await?).map_err(MachineFault::new)?;
    if stored.cluster != Some(node.cluster) {
        return Err(MachineFault::new("the snapshot is of another cluster"));
    }
    // Before anything of it is taken in.
    let needed = stored.catalog.machine_version();
    if let Err(error) = UnknownMachineVersion::check(needed, node.known_version) {
        let what = format!("the snapshot cannot be installed: {error}");
        node.alarm(what.clone());
        return Err(MachineFault::new(what));
    }
    let mut places = (*node.durable.borrow().places).clone();
    clear(node, places.installs).await?;
    places.installs += 1;
    let (rolled, ends, domains) = (BTreeSet::new(), BTreeMap::new(), BTreeSet::new());
    let mut taken = Taken { stored, rolled, ends, places, domains };
    while let Some(kind) = reader.take_or_end(1).await? {
        match kind[0] {
            PARTITION => take_partition(node, reader, &mut taken).await?,
            DOMAIN => {
                let domain = receive_domain(node, reader, &mut taken.places).await?;
                taken.domains.insert(domain);
            }
            _ => return Err(MachineFault::new("the snapshot has a part that nobody knows")),
        }
    }
    Ok(taken)
}

/// Removes what an interrupted install left behind.
async fn clear(node: &Arc<Node>, installs: u64) -> Result<(), MachineFault> {
    let (io, dir) = (node.io.clone(), node.catalog_file.partitions_dir());
    node.workers.run(move || removal::remove_beyond(&*io, &dir, installs)).await.map_err(MachineFault::new)
}

/// Appends what is new of a partition to its log, or writes all of it into a log of its own.
async fn take_partition(
    node: &Arc<Node>,
    reader: &mut Reader,
    taken: &mut Taken,
) -> Result<(), MachineFault> {
    let mut header = reader.take(22).await?;
    let namespace = NamespaceId::new(header.get_u32_le());
    let partition = PartitionId { namespace, index: PartitionIndex::new(header.get_u16_le()) };
    let (first, last) = (header.get_u64_le(), header.get_u64_le());
    if first == 0 || first > last.saturating_add(1) {
        return Err(MachineFault::new(format!("the snapshot has outcomes {first} to {last} of {partition}")));
    }
    if first == 1 {
        taken.places.partitions.insert(partition, taken.places.installs);
    } else {
        taken.rolled.insert(partition);
    }
    let dir = taken.places.partition_dir(&node.catalog_file.partitions_dir(), partition);
    let log = open_log(node, dir.join("log")).await?;
    // One that has lost what it was said to have stays as it is, and is installed anew from another node.
    let is_lost = first > 1 && log.next().get() < first;
    if is_lost {
        let (end, wanted) = (log.next().get() - 1, first - 1);
        node.alarm(format!(
            "partition {partition} cannot be rolled forward: it ends at outcome {end}, not {wanted}"
        ));
    }
    let log = Some(log).filter(|_| !is_lost);
    let mut appending = Appending { node, partition, log, next: first };
    while appending.next <= last {
        let (mut records, mut bytes) = (Vec::new(), 0);
        while records.len() < PAGE
            && bytes < MAX_READ_BYTES
            && appending.next + (records.len() as u64) <= last
        {
            let length = reader.take(4).await?.get_u32_le() as usize;
            bytes += length;
            records.push(reader.take(length).await?);
        }
        appending.append(records).await?;
    }
    let end = appending.finish().await?.max(last);
    taken.ends.extend(PartitionOffset::new(end).map(|end| (partition, end)));
    Ok(())
}

async fn open_log(node: &Arc<Node>, dir: PathBuf) -> Result<Log, MachineFault> {
    let (io, options) = (node.io.clone(), Options::clone(&node.partition_options.log));
    let open = move || {
        io.create_dir(&dir).map_err(MachineFault::new)?;
        Log::open(io, dir, options).map(|(log, _)| log).map_err(MachineFault::new)
    };
    node.workers.run(open).await
}

/// The log of a partition that gets what it does not have.
struct Appending<'a> {
    node: &'a Arc<Node>,
    partition: PartitionId,
    /// None if it cannot be appended to.
    log: Option<Log>,
    /// The next outcome of the snapshot.
    next: u64,
}

impl Appending<'_> {
    async fn append(&mut self, records: Vec<Bytes>) -> Result<(), MachineFault> {
        let first = self.next;
        self.next += records.len() as u64;
        let Some(log) = self.log.clone() else { return Ok(()) };
        let partition = self.partition;
        let append = move || {
            let known = usize::try_from(log.next().get().saturating_sub(first)).unwrap_or(usize::MAX);
            let known = known.min(records.len());
            for (offset, record) in (first..).zip(&records[..known]) {
                let own = log.read(Position::new(offset)).map_err(MachineFault::new)?.payload;
                if own != *record {
                    let what = format!(
                        "NUM-3: partition {partition} has another outcome {offset} than the snapshot"
                    );
                    return Err(MachineFault::new(what));
                }
            }
            if known == records.len() {
                return Ok(());
            }
            let at = Position::new(first + known as u64);
            let _synced_at_the_end = log.append(at, &records[known..]).map_err(MachineFault::new)?;
            log.flush().map_err(MachineFault::new)
        };
        self.node.workers.run(append).await
    }

    /// Makes everything durable. The last outcome that is there.
    async fn finish(self) -> Result<u64, MachineFault> {
        let Some(log) = self.log else { return Ok(0) };
        let finish = move || {
            log.sync().map_err(MachineFault::new)?;
            let last = log.next().get() - 1;
            log.close().map_err(MachineFault::new).map(|()| last)
        };
        self.node.workers.run(finish).await
    }
}

/// Takes bytes from the pieces of a snapshot.
pub(super) struct Reader {
    body: Box<dyn SnapshotBody>,
    buffer: BytesMut,
    ended: bool,
}

impl Reader {
    pub(super) async fn take(&mut self, count: usize) -> Result<Bytes, MachineFault> {
        self.take_or_end(count).await?.ok_or_else(|| MachineFault::new("the snapshot ends too early"))
    }

    /// So many bytes; none if there are none at all.
    async fn take_or_end(&mut self, count: usize) -> Result<Option<Bytes>, MachineFault> {
        while self.buffer.len() < count && !self.ended {
            match self.body.next().await? {
                Some(piece) => self.buffer.extend_from_slice(&piece),
                None => self.ended = true,
            }
        }
        if self.buffer.len() >= count {
            return Ok(Some(self.buffer.split_to(count).freeze()));
        }
        match self.buffer.is_empty() {
            true => Ok(None),
            false => Err(MachineFault::new("the snapshot ends in the middle of a part")),
        }
    }
}
