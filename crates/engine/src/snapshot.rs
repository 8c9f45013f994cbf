//! Snapshots: everything a node has at one entry of the replicated log.
//!
//! A mark goes through every queue, so that all partitions are caught at the same entry. What is copied is the history alone, the
//! partition logs (LOG-1): the receiver folds them into state of its own, in a new directory that replaces the old one at once. Of
//! domains the state is copied, because their commands are in the replicated log alone.
//!
//! ```text
//!  1 catalog, in the form of its file (4 bytes of length in front)
//!  2 for each partition, in order: 1 (1), namespace (4), index (2), count of outcomes (8)
//!     for each outcome: length (4), the record of the partition log
//!  3 for each domain, in order: 2 (1), version (4), namespace (4), index (2), length of the name (1), name of the projection
//!     for each row: 1 (1), length (4), key, length (4), value
//!     0 (1)
//! ```
//!
//! Must not know: how the bytes travel, how an order is agreed on.

mod domains;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{Buf, Bytes, BytesMut};
use futures_util::future::BoxFuture;
use gapless_consensus::{MachineFault, SnapshotBody, SnapshotSource};
use gapless_log::{Log, Options};
use gapless_partition::{Direction, View};
use gapless_types::limits::MAX_READ_BYTES;
use gapless_types::{LogIndex, NamespaceId, PartitionId, PartitionIndex, PartitionOffset, Position};
use tokio::sync::oneshot;

use crate::catalog::{StoredCatalog, decode_catalog, encode_catalog};
use crate::dispatcher::{close_partitions, reset_partitions, start_workers};
use crate::keeper::{self, write_catalog};
use crate::node::{Durable, Node, partition_name};
use crate::projections;
use crate::removal;
use crate::slot::{Mark, Marked};
use crate::workers::Workers;
use domains::{Images, NextRow, receive_domain};

/// Outcomes that are read at once.
const PAGE: usize = 256;

/// What comes next in a snapshot.
const PARTITION: u8 = 1;
const DOMAIN: u8 = 2;

/// A snapshot that is held by views of all partitions.
struct Held {
    catalog: Bytes,
    views: tokio::sync::Mutex<Vec<HeldView>>,
    images: Images,
    workers: Workers,
}

/// The view of a partition, or that it will come.
enum HeldView {
    Coming(PartitionId, oneshot::Receiver<Marked>),
    There(View),
    /// It never will: the partition was closed.
    Gone(PartitionId),
}

impl Held {
    /// The view of the partition at this place; none behind the last.
    async fn view(&self, place: usize) -> Result<Option<View>, MachineFault> {
        let mut views = self.views.lock().await;
        let Some(held) = views.get_mut(place) else { return Ok(None) };
        if let HeldView::Coming(partition, marked) = held {
            let partition = *partition;
            *held = marked.await.map_or(HeldView::Gone(partition), |marked| HeldView::There(marked.view));
        }
        match held {
            HeldView::There(view) => Ok(Some(view.clone())),
            HeldView::Gone(partition) | HeldView::Coming(partition, _) => {
                Err(MachineFault::new(format!("partition {partition} was closed")))
            }
        }
    }
}

pub(crate) fn take(
    node: Arc<Node>,
    at: LogIndex,
) -> BoxFuture<'static, Result<Arc<dyn SnapshotSource>, MachineFault>> {
    let taking = node.taking.clone().try_read_owned();
    // Marked before this returns: nothing else is dispatched until then.
    let (catalog, time) = (node.catalog(), node.core().time);
    let marks: Vec<_> = node
        .all_slots()
        .into_iter()
        .map(|slot| {
            let (reply, marked) = oneshot::channel();
            slot.mark(Mark { at, reply });
            (slot.id, marked)
        })
        .collect();
    // Those that the catalog names: another one would be made by a later entry.
    let images = Images::request(&node, at);
    let (catalog, cluster) = ((*catalog).clone(), Some(node.cluster));
    // What domains need and where partition logs end is not the same on two nodes.
    let (domains, ends) = (BTreeMap::new(), BTreeMap::new());
    let stored = StoredCatalog { catalog, covered: Some(at), time, cluster, generation: 0, domains, ends };
    Box::pin(async move {
        let _taking = taking.map_err(|_| MachineFault::new("another snapshot is being installed"))?;
        // Right after opening all of it is in checkpoints already, and a partition that cannot be opened keeps nobody (ISO-1).
        if node.durable.borrow().covered >= Some(at) {
            let coming = |(partition, marked)| HeldView::Coming(partition, marked);
            let views = marks.into_iter().map(coming).collect::<Vec<_>>().into();
            let catalog = encode_catalog(&stored).into();
            let held = Held { catalog, views, images, workers: node.workers.clone() };
            return Ok(Arc::new(Shared(Arc::new(held))) as Arc<dyn SnapshotSource>);
        }
        let mut views = Vec::new();
        let mut closing = node.closing.subscribe();
        for (partition, marked) in marks {
            // A partition that failed may never be well again.
            let marked = tokio::select! {
                biased;
                marked = marked => marked,
                _ = closing.wait_for(|closing| *closing) => {
                    return Err(MachineFault::new("the node is closing"));
                }
            };
            match marked {
                Ok(marked) => views.push(HeldView::There(marked.view)),
                Err(_) if node.is_dropped(partition) => {}
                Err(_) => return Err(MachineFault::new(format!("partition {partition} was closed"))),
            }
        }
        let turn = node.catalog_turn.lock().await;
        let covered = Some(at).max(node.durable.borrow().covered);
        let generation = node.generation.load(Ordering::Acquire);
        let durable = {
            let core = node.core();
            // What domains need is as it was: their own states are not made durable by this.
            let Durable { domains, ends, .. } = node.durable.borrow().clone();
            let catalog = node.catalog();
            let ends = keeper::ends(&core, &catalog, &ends);
            Durable { catalog, covered, time: core.time, domains, ends }
        };
        if !write_catalog(&node, durable, generation).await {
            return Err(MachineFault::new("the catalog cannot be written"));
        }
        drop(turn);
        let (views, catalog) = (views.into(), encode_catalog(&stored).into());
        // States of domains come when they are asked for: a domain that stands still keeps nobody.
        let held = Held { catalog, views, images, workers: node.workers.clone() };
        Ok(Arc::new(Shared(Arc::new(held))) as Arc<dyn SnapshotSource>)
    })
}

struct Shared(Arc<Held>);

impl SnapshotSource for Shared {
    fn body(&self) -> Box<dyn SnapshotBody> {
        Box::new(Body { held: self.0.clone(), part: 0, next: None, rows: NextRow::default() })
    }
}

/// Reads a snapshot from its beginning.
struct Body {
    held: Arc<Held>,
    /// 0 is the catalog, then one for each partition.
    part: usize,
    /// The next outcome of the partition that is being read.
    next: Option<PartitionOffset>,
    /// The next row of a domain, once all partitions are read.
    rows: NextRow,
}

impl SnapshotBody for Body {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, MachineFault>> {
        Box::pin(async move {
            if self.part == 0 {
                self.part = 1;
                let mut bytes = Vec::new();
                put_length(&mut bytes, self.held.catalog.len());
                bytes.extend_from_slice(&self.held.catalog);
                return Ok(Some(bytes.into()));
            }
            let Some(view) = self.held.view(self.part - 1).await? else {
                return self.held.images.page(&mut self.rows, &self.held.workers).await;
            };
            let from = self.next;
            let page = self.held.workers.clone().run(move || read_page(&view, from)).await?;
            self.next = page.next;
            if page.next.is_none() {
                self.part += 1;
            }
            Ok(Some(page.bytes))
        })
    }
}

struct Page {
    bytes: Bytes,
    next: Option<PartitionOffset>,
}

/// The next outcomes of a partition, with its header in front of the first.
fn read_page(view: &View, from: Option<PartitionOffset>) -> Result<Page, MachineFault> {
    let mut bytes = Vec::new();
    let last = view.applied();
    if from.is_none() {
        let partition = view.partition();
        bytes.push(PARTITION);
        bytes.extend_from_slice(&partition.namespace.get().to_le_bytes());
        bytes.extend_from_slice(&partition.index.get().to_le_bytes());
        bytes.extend_from_slice(&last.map_or(0, PartitionOffset::get).to_le_bytes());
    }
    let from = from.unwrap_or(PartitionOffset::FIRST);
    let outcomes = view.outcomes(from, PAGE, Direction::Forward).map_err(MachineFault::new)?;
    let mut next = Some(from);
    for outcome in &outcomes {
        put_length(&mut bytes, outcome.bytes().len());
        bytes.extend_from_slice(outcome.bytes());
        next = next.and_then(PartitionOffset::next);
    }
    Ok(Page { bytes: bytes.into(), next: next.filter(|next| last >= Some(*next)) })
}

fn put_length(bytes: &mut Vec<u8>, length: usize) {
    bytes.extend_from_slice(&u32::try_from(length).expect("records are shorter than 4 GiB").to_le_bytes());
}

/// Replaces everything by a snapshot.
pub(crate) fn install(
    node: Arc<Node>,
    at: LogIndex,
    body: Box<dyn SnapshotBody>,
) -> BoxFuture<'static, Result<(), MachineFault>> {
    Box::pin(async move {
        let generation = node.generation.load(Ordering::Acquire) + 1;
        let mut reader = Reader { body, buffer: BytesMut::new(), ended: false };
        let StoredCatalog { catalog, time, ends, .. } = receive(&node, &mut reader, generation).await?;
        // A snapshot that is being taken needs the partitions as they are.
        let _taking = node.taking.write().await;
        // Until everything is as the snapshot says, nobody else decides what the catalog on disk says.
        let _turn = node.catalog_turn.lock().await;
        // The old partitions let go of their files before the new ones take over.
        projections::close_domains(&node).await;
        close_partitions(&node).await;
        let catalog = Arc::new(catalog);
        let time = time.max(node.core().time);
        let domains = BTreeMap::new();
        let durable = Durable { catalog: catalog.clone(), covered: Some(at), time, domains, ends };
        if !write_catalog(&node, durable, generation).await {
            return Err(MachineFault::new("the catalog cannot be written"));
        }
        node.catalog.send_replace(catalog);
        node.has_earlier.store(true, Ordering::Release);
        node.announce(at);
        reset_partitions(&node).await;
        start_workers(&node);
        projections::reset_domains(&node);
        projections::start_domains(&node);
        node.keeper.notify_one();
        Ok(())
    })
}

/// Writes all partition logs of a snapshot into the directory of a new generation.
async fn receive(
    node: &Arc<Node>,
    reader: &mut Reader,
    generation: u64,
) -> Result<StoredCatalog, MachineFault> {
    let length = reader.take(4).await?.get_u32_le() as usize;
    let bytes = reader.take(length).await?;
    let mut stored = decode_catalog(&bytes).map_err(MachineFault::new)?;
    if stored.cluster != Some(node.cluster) {
        return Err(MachineFault::new("the snapshot is of another cluster"));
    }
    let dir = node.catalog_file.partitions_dir(generation);
    clear(node, generation).await?;
    while let Some(kind) = reader.take_or_end(1).await? {
        match kind[0] {
            PARTITION => stored.ends.extend(receive_partition(node, reader, &dir).await?),
            DOMAIN => receive_domain(node, reader, &dir).await?,
            _ => return Err(MachineFault::new("the snapshot has a part that nobody knows")),
        }
    }
    Ok(stored)
}

/// Writes the log of a partition. Where it ends, if it has an outcome.
async fn receive_partition(
    node: &Arc<Node>,
    reader: &mut Reader,
    dir: &Path,
) -> Result<Option<(PartitionId, PartitionOffset)>, MachineFault> {
    let mut header = reader.take(14).await?;
    let namespace = NamespaceId::new(header.get_u32_le());
    let partition = PartitionId { namespace, index: PartitionIndex::new(header.get_u16_le()) };
    let count = header.get_u64_le();
    let log_dir = dir.join(partition_name(partition)).join("log");
    let (io, options) = (node.io.clone(), Options::clone(&node.partition_options.log));
    let open = move || {
        io.create_dir(&log_dir).map_err(MachineFault::new).and_then(|()| {
            Log::open(io.clone(), log_dir, options).map(|(log, _)| log).map_err(MachineFault::new)
        })
    };
    let log = node.workers.run(open).await?;
    let mut next = 1;
    while next <= count {
        let (mut records, mut bytes) = (Vec::new(), 0);
        while records.len() < PAGE && bytes < MAX_READ_BYTES && next + (records.len() as u64) <= count {
            let length = reader.take(4).await?.get_u32_le() as usize;
            bytes += length;
            records.push(reader.take(length).await?);
        }
        let (log, first) = (log.clone(), next);
        next += records.len() as u64;
        let append = move || {
            let records: Vec<&[u8]> = records.iter().map(|record| &record[..]).collect();
            let _synced_at_the_end = log.append(Position::new(first), &records).map_err(MachineFault::new)?;
            log.flush().map_err(MachineFault::new)
        };
        node.workers.run(append).await?;
    }
    node.workers
        .run(move || {
            log.sync().map_err(MachineFault::new).and_then(|()| log.close().map_err(MachineFault::new))
        })
        .await?;
    Ok(PartitionOffset::new(count).map(|end| (partition, end)))
}

/// Removes what an interrupted install left behind.
async fn clear(node: &Arc<Node>, generation: u64) -> Result<(), MachineFault> {
    let (io, dir) = (node.io.clone(), node.catalog_file.partitions_dir(generation));
    node.workers.run(move || removal::remove(&*io, &dir)).await.map_err(MachineFault::new)
}

/// Takes bytes from the pieces of a snapshot.
struct Reader {
    body: Box<dyn SnapshotBody>,
    buffer: BytesMut,
    ended: bool,
}

impl Reader {
    async fn take(&mut self, count: usize) -> Result<Bytes, MachineFault> {
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
