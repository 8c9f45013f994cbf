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

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{Buf, Bytes, BytesMut};
use futures_util::future::BoxFuture;
use gapless_consensus::{MachineFault, SnapshotBody, SnapshotSource};
use gapless_log::{Log, Options};
use gapless_partition::{Direction, View};
use gapless_projection::{Image, Installing};
use gapless_types::limits::MAX_READ_BYTES;
use gapless_types::{LogIndex, Name, NamespaceId, PartitionId, PartitionIndex, PartitionOffset, Position};
use tokio::sync::oneshot;

use crate::catalog::{StoredCatalog, decode_catalog, encode_catalog};
use crate::dispatcher::{close_partitions, reset_partitions, start_workers};
use crate::keeper::write_catalog;
use crate::node::{Durable, Node, partition_name};
use crate::projections::{self, ImageRequest};
use crate::removal;
use crate::retention::Domain;
use crate::slot::{Mark, Marked};
use crate::workers::Workers;

/// Outcomes that are read at once.
const PAGE: usize = 256;
/// Bytes of rows that are read at once.
const PAGE_BYTES: usize = 1 << 20;

/// What comes next in a snapshot.
const PARTITION: u8 = 1;
const DOMAIN: u8 = 2;
/// What comes next in a domain.
const ROW: u8 = 1;
const NO_MORE_ROWS: u8 = 0;

/// A snapshot that is held by views of all partitions.
struct Held {
    catalog: Bytes,
    views: tokio::sync::Mutex<Vec<HeldView>>,
    images: tokio::sync::Mutex<Vec<HeldImage>>,
    workers: Workers,
}

/// The state of a domain, or that it will come.
enum HeldImage {
    Coming(Domain, oneshot::Receiver<Image>),
    There(Domain, Image),
}

/// The view of a partition, or that it will come.
enum HeldView {
    Coming(PartitionId, oneshot::Receiver<Marked>),
    There(View),
}

impl Held {
    /// The view of the partition at this place; none behind the last.
    async fn view(&self, place: usize) -> Result<Option<View>, MachineFault> {
        let mut views = self.views.lock().await;
        let Some(held) = views.get_mut(place) else { return Ok(None) };
        let view = match held {
            HeldView::There(view) => view.clone(),
            HeldView::Coming(partition, marked) => match marked.await {
                Ok(marked) => marked.view,
                Err(_) => return Err(MachineFault::new(format!("partition {partition} was closed"))),
            },
        };
        *held = HeldView::There(view.clone());
        Ok(Some(view))
    }

    /// The state of the domain at this place; none behind the last.
    async fn image(&self, place: usize) -> Result<Option<(Domain, Image)>, MachineFault> {
        let mut images = self.images.lock().await;
        let Some(held) = images.get_mut(place) else { return Ok(None) };
        let (domain, image) = match held {
            HeldImage::There(domain, image) => (domain.clone(), image.clone()),
            HeldImage::Coming(domain, image) => match image.await {
                Ok(image) => (domain.clone(), image),
                Err(_) => return Err(MachineFault::new(format!("{domain} was closed"))),
            },
        };
        *held = HeldImage::There(domain.clone(), image.clone());
        Ok(Some((domain, image)))
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
    let images: Vec<_> = node.projections.all().into_iter().map(|slot| request_image(&slot, at)).collect();
    let (catalog, cluster) = ((*catalog).clone(), Some(node.cluster));
    let domains = std::collections::BTreeMap::new();
    let stored = StoredCatalog { catalog, covered: Some(at), time, cluster, generation: 0, domains };
    Box::pin(async move {
        let _taking = taking.map_err(|_| MachineFault::new("another snapshot is being installed"))?;
        // Right after opening all of it is in checkpoints already, and a partition that cannot be opened keeps nobody (ISO-1).
        if node.durable.borrow().covered >= Some(at) {
            let coming = |(partition, marked)| HeldView::Coming(partition, marked);
            let views = marks.into_iter().map(coming).collect::<Vec<_>>().into();
            let catalog = encode_catalog(&stored).into();
            let held = Held { catalog, views, images: images.into(), workers: node.workers.clone() };
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
            let domains = node.durable.borrow().domains.clone();
            Durable { catalog: node.catalog(), covered, time: core.time, domains }
        };
        if !write_catalog(&node, durable, generation).await {
            return Err(MachineFault::new("the catalog cannot be written"));
        }
        drop(turn);
        let (views, catalog) = (views.into(), encode_catalog(&stored).into());
        // States of domains come when they are asked for: a domain that stands still keeps nobody.
        let held = Held { catalog, views, images: images.into(), workers: node.workers.clone() };
        Ok(Arc::new(Shared(Arc::new(held))) as Arc<dyn SnapshotSource>)
    })
}

fn request_image(slot: &projections::DomainSlot, at: LogIndex) -> HeldImage {
    let (reply, image) = oneshot::channel();
    slot.request_image(ImageRequest { at, reply });
    HeldImage::Coming(slot.id.clone(), image)
}

struct Shared(Arc<Held>);

impl SnapshotSource for Shared {
    fn body(&self) -> Box<dyn SnapshotBody> {
        Box::new(Body { held: self.0.clone(), part: 0, next: None, domain: 0, last_key: None })
    }
}

/// Reads a snapshot from its beginning.
struct Body {
    held: Arc<Held>,
    /// 0 is the catalog, then one for each partition.
    part: usize,
    /// The next outcome of the partition that is being read.
    next: Option<PartitionOffset>,
    /// Which domain is read.
    domain: usize,
    /// Its last row that was read.
    last_key: Option<Bytes>,
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
            let Some(view) = self.held.view(self.part - 1).await? else { return self.next_of_domain().await };
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

impl Body {
    async fn next_of_domain(&mut self) -> Result<Option<Bytes>, MachineFault> {
        let Some((domain, image)) = self.held.image(self.domain).await? else { return Ok(None) };
        let last = self.last_key.take();
        let page = self.held.workers.clone().run(move || read_rows(&domain, &image, last)).await?;
        self.last_key = page.last;
        if self.last_key.is_none() {
            self.domain += 1;
        }
        Ok(Some(page.bytes))
    }
}

struct RowPage {
    bytes: Bytes,
    /// The last row, if there may be more.
    last: Option<Bytes>,
}

/// The next rows of a domain, with its header in front of the first.
fn read_rows(domain: &Domain, image: &Image, last: Option<Bytes>) -> Result<RowPage, MachineFault> {
    let mut bytes = Vec::new();
    if last.is_none() {
        let Domain { projection, version, partition } = domain;
        bytes.push(DOMAIN);
        bytes.extend_from_slice(&version.to_le_bytes());
        bytes.extend_from_slice(&partition.namespace.get().to_le_bytes());
        bytes.extend_from_slice(&partition.index.get().to_le_bytes());
        bytes.push(u8::try_from(projection.as_str().len()).expect("names have at most 63 bytes"));
        bytes.extend_from_slice(projection.as_str().as_bytes());
    }
    let from = last.clone().unwrap_or_default();
    for row in image.rows.range(from.., Direction::Forward) {
        let (key, value) = row.map_err(MachineFault::new)?;
        if Some(&key) == last.as_ref() {
            continue;
        }
        bytes.push(ROW);
        put_length(&mut bytes, key.len());
        bytes.extend_from_slice(&key);
        put_length(&mut bytes, value.len());
        bytes.extend_from_slice(&value);
        if bytes.len() >= PAGE_BYTES {
            return Ok(RowPage { bytes: bytes.into(), last: Some(key) });
        }
    }
    bytes.push(NO_MORE_ROWS);
    Ok(RowPage { bytes: bytes.into(), last: None })
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
        let StoredCatalog { catalog, time, .. } = receive(&node, &mut reader, generation).await?;
        // A snapshot that is being taken needs the partitions as they are.
        let _taking = node.taking.write().await;
        // Until everything is as the snapshot says, nobody else decides what the catalog on disk says.
        let _turn = node.catalog_turn.lock().await;
        // The old partitions let go of their files before the new ones take over.
        projections::close_domains(&node).await;
        close_partitions(&node).await;
        let catalog = Arc::new(catalog);
        let time = time.max(node.core().time);
        let domains = std::collections::BTreeMap::new();
        let durable = Durable { catalog: catalog.clone(), covered: Some(at), time, domains };
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
    let stored = decode_catalog(&bytes).map_err(MachineFault::new)?;
    if stored.cluster != Some(node.cluster) {
        return Err(MachineFault::new("the snapshot is of another cluster"));
    }
    let dir = node.catalog_file.partitions_dir(generation);
    clear(node, generation).await?;
    while let Some(kind) = reader.take_or_end(1).await? {
        match kind[0] {
            PARTITION => receive_partition(node, reader, &dir).await?,
            DOMAIN => receive_domain(node, reader, &dir).await?,
            _ => return Err(MachineFault::new("the snapshot has a part that nobody knows")),
        }
    }
    Ok(stored)
}

/// Writes the log of a partition.
async fn receive_partition(node: &Arc<Node>, reader: &mut Reader, dir: &Path) -> Result<(), MachineFault> {
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
        .await
}

/// Writes the state of a domain.
async fn receive_domain(node: &Arc<Node>, reader: &mut Reader, dir: &Path) -> Result<(), MachineFault> {
    let mut header = reader.take(11).await?;
    let version = header.get_u32_le();
    let namespace = NamespaceId::new(header.get_u32_le());
    let partition = PartitionId { namespace, index: PartitionIndex::new(header.get_u16_le()) };
    let name = reader.take(usize::from(header.get_u8())).await?;
    let name = std::str::from_utf8(&name).ok().and_then(|name| Name::new(name).ok());
    let projection = name.ok_or_else(|| MachineFault::new("the snapshot has a projection without a name"))?;
    let domain = Domain { projection, version, partition };
    let dir = projections::domain_dir(&dir.join(partition_name(partition)), &domain);
    let begin = {
        let (io, options) = (node.io.clone(), node.partition_options.clone());
        move || Installing::begin(io, dir, options.store.clone(), &options.budget)
    };
    let mut installing = node.workers.run(begin).await.map_err(MachineFault::new)?;
    loop {
        let (mut rows, mut bytes, mut is_last) = (Vec::new(), 0, false);
        while bytes < PAGE_BYTES && !is_last {
            match reader.take(1).await?[0] {
                ROW => {
                    let length = reader.take(4).await?.get_u32_le() as usize;
                    let key = reader.take(length).await?;
                    let length = reader.take(4).await?.get_u32_le() as usize;
                    let value = reader.take(length).await?;
                    bytes += key.len() + value.len();
                    rows.push((key, value));
                }
                NO_MORE_ROWS => is_last = true,
                _ => return Err(MachineFault::new("the snapshot has a row that nobody knows")),
            }
        }
        let put =
            move || rows.iter().try_for_each(|(key, value)| installing.put(key, value)).map(|()| installing);
        installing = node.workers.run(put).await.map_err(MachineFault::new)?;
        if is_last {
            break;
        }
    }
    node.workers.run(move || installing.finish()).await.map_err(MachineFault::new)
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
