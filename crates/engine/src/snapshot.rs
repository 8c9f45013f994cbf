//! Snapshots: everything a node has at one entry of the replicated log.
//!
//! A mark goes through every queue, so that all partitions are caught at the same entry. What is copied is the history alone, the
//! partition logs (LOG-1), and of it what the receiver does not hold: it appends that, and folds it into the state that it has. Of
//! domains the state is copied, because their commands are in the replicated log alone.
//!
//! ```text
//!  1 version 2 (1); catalog, in the form of its file (4 bytes of length in front)
//!  2 for each partition, in order: 1 (1), namespace (4), index (2), first outcome that follows (8), last one, 0 for none (8)
//!     for each outcome in between: length (4), the record of the partition log
//!  3 for each domain that the receiver has not passed, in order: 2 (1), version (4), namespace (4), index (2), length of the name (1),
//!     name of the projection
//!     for each row: 1 (1), length (4), key, length (4), value
//!     0 (1)
//! ```
//!
//! Invariants
//! - No outcome behind the entry is in it, whatever a partition has.
//! - For whoever holds the same it has the same bytes, however often it is read.
//!
//! Must not know: how the bytes travel, how an order is agreed on.

mod domains;
mod holding;
mod installing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use gapless_consensus::{MachineFault, SnapshotBody, SnapshotSource};
use gapless_partition::{Direction, Fault, View};
use gapless_types::{LogIndex, PartitionId, PartitionOffset};
use tokio::sync::oneshot;

use crate::catalog::encode_catalog;
use crate::keeper::{self, write_catalog};
use crate::node::{Durable, Node};
use crate::retention::{Domain, Pin, PinKind, Retention};
use crate::slot::{Mark, Marked};
use crate::workers::Workers;
use domains::{Images, NextRow};
pub(crate) use holding::held;
use holding::{Holding, last_through};
pub(crate) use installing::install;

/// Outcomes that are read at once.
const PAGE: usize = 256;

/// The version of the body.
const VERSION: u8 = 2;

/// What comes next in a snapshot.
const PARTITION: u8 = 1;
const DOMAIN: u8 = 2;

/// A snapshot that is held by views of all partitions.
struct Held {
    at: LogIndex,
    catalog: Bytes,
    views: tokio::sync::Mutex<Vec<HeldView>>,
    images: Images,
    workers: Workers,
    /// The log behind it is kept while it is copied; nothing while the node is being opened.
    retention: Option<Arc<Retention>>,
}

/// The view of a partition, or that it will come.
enum HeldView {
    Coming(PartitionId, oneshot::Receiver<Marked>),
    There(View),
    /// It never will: the partition was closed.
    Gone(PartitionId),
}

impl Held {
    fn new(node: &Node, at: LogIndex, catalog: Bytes, views: Vec<HeldView>, images: Images) -> Self {
        let (workers, retention) = (node.workers.clone(), node.retention().cloned());
        Self { at, catalog, views: views.into(), images, workers, retention }
    }

    /// Keeps the log behind it: whoever gets it goes on there. If that is gone already, he gets another snapshot.
    fn pin(&self) -> Option<Pin> {
        self.retention.as_ref()?.pin(PinKind::Snapshot, self.at.next()?).ok()
    }

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
    // What domains need, where partition logs end and where they are is not the same on two nodes.
    let (domains, ends, places) = (BTreeMap::new(), BTreeMap::new(), Arc::default());
    let stored = Durable { catalog, covered: Some(at), time, domains, ends, places }.stored(node.cluster);
    Box::pin(async move {
        let _taking = taking.map_err(|_| MachineFault::new("another snapshot is being installed"))?;
        // Right after opening all of it is in checkpoints already, and a partition that cannot be opened keeps nobody (ISO-1).
        if node.durable.borrow().covered >= Some(at) {
            let coming = |(partition, marked)| HeldView::Coming(partition, marked);
            let views = marks.into_iter().map(coming).collect();
            let catalog = encode_catalog(&stored).into();
            let held = Held::new(&node, at, catalog, views, images);
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
        let durable = {
            let core = node.core();
            // What domains need is as it was: their own states are not made durable by this.
            let Durable { domains, ends, places, .. } = node.durable.borrow().clone();
            let catalog = node.catalog();
            let ends = keeper::ends(&core, &catalog, &ends);
            Durable { catalog, covered, time: core.time, domains, ends, places }
        };
        if !write_catalog(&node, durable).await {
            return Err(MachineFault::new("the catalog cannot be written"));
        }
        drop(turn);
        let catalog = encode_catalog(&stored).into();
        // States of domains come when they are asked for: a domain that stands still keeps nobody.
        let held = Held::new(&node, at, catalog, views, images);
        Ok(Arc::new(Shared(Arc::new(held))) as Arc<dyn SnapshotSource>)
    })
}

struct Shared(Arc<Held>);

impl SnapshotSource for Shared {
    fn body(&self, held: &Bytes) -> Box<dyn SnapshotBody> {
        // Whoever says it in another form gets everything.
        let receiver = Arc::new(Holding::decode(held).unwrap_or_default());
        let (part, next, whole) = (0, None, BTreeSet::new());
        let (held, pin) = (self.0.clone(), self.0.pin());
        Box::new(Body { held, receiver, part, next, whole, rows: NextRow::default(), _pin: pin })
    }
}

/// Reads a snapshot from its beginning.
struct Body {
    held: Arc<Held>,
    /// What whoever it is for has.
    receiver: Arc<Holding>,
    /// 0 is the catalog, then one for each partition.
    part: usize,
    /// What is next of the partition that is being read.
    next: Option<Next>,
    /// Partitions that are sent from their first outcome on.
    whole: BTreeSet<PartitionId>,
    /// The next row of a domain, once all partitions are read.
    rows: NextRow,
    _pin: Option<Pin>,
}

impl SnapshotBody for Body {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, MachineFault>> {
        Box::pin(async move {
            if self.part == 0 {
                self.part = 1;
                let mut bytes = vec![VERSION];
                put_length(&mut bytes, self.held.catalog.len());
                bytes.extend_from_slice(&self.held.catalog);
                return Ok(Some(bytes.into()));
            }
            let Some(view) = self.held.view(self.part - 1).await? else {
                // A domain stays where its partition stays.
                let is_passed = |domain: &Domain| {
                    self.receiver.has_passed(domain) && !self.whole.contains(&domain.partition)
                };
                return self.held.images.page(&mut self.rows, &self.held.workers, is_passed).await;
            };
            let (next, receiver, at) = (self.next, self.receiver.clone(), self.held.at);
            let partition = view.partition();
            let read = move || match next {
                None => begin(&view, &receiver, at).map_err(MachineFault::new),
                Some(next) => read_page(&view, next, Vec::new()).map_err(MachineFault::new),
            };
            let page = self.held.workers.clone().run(read).await?;
            if page.is_whole {
                self.whole.insert(partition);
            }
            self.next = page.next;
            if page.next.is_none() {
                self.part += 1;
            }
            Ok(Some(page.bytes))
        })
    }
}

/// What is next of a partition, and how far it goes.
#[derive(Clone, Copy)]
struct Next {
    first: PartitionOffset,
    last: PartitionOffset,
}

struct Page {
    bytes: Bytes,
    next: Option<Next>,
    is_whole: bool,
}

/// The header of a partition, and its first outcomes that the receiver does not have.
fn begin(view: &View, receiver: &Holding, at: LogIndex) -> Result<Page, Fault> {
    let partition = view.partition();
    // Right after opening, or after it was rolled forward, it may have more.
    let last = last_through(view, at)?;
    let first = receiver.first_missing(view, last)?;
    let mut bytes = vec![PARTITION];
    bytes.extend_from_slice(&partition.namespace.get().to_le_bytes());
    bytes.extend_from_slice(&partition.index.get().to_le_bytes());
    bytes.extend_from_slice(&first.get().to_le_bytes());
    bytes.extend_from_slice(&last.map_or(0, PartitionOffset::get).to_le_bytes());
    let is_whole = first == PartitionOffset::FIRST;
    match last.filter(|last| first <= *last) {
        None => Ok(Page { bytes: bytes.into(), next: None, is_whole }),
        Some(last) => read_page(view, Next { first, last }, bytes).map(|page| Page { is_whole, ..page }),
    }
}

/// The next outcomes of a partition, behind other bytes.
fn read_page(view: &View, Next { first, last }: Next, mut bytes: Vec<u8>) -> Result<Page, Fault> {
    let count = usize::try_from(last.get() - first.get() + 1).unwrap_or(PAGE).min(PAGE);
    let mut next = Some(first);
    for outcome in view.outcomes(first, count, Direction::Forward)? {
        put_length(&mut bytes, outcome.bytes().len());
        bytes.extend_from_slice(outcome.bytes());
        next = next.and_then(PartitionOffset::next);
    }
    let next = next.filter(|next| *next <= last).map(|first| Next { first, last });
    Ok(Page { bytes: bytes.into(), next, is_whole: false })
}

fn put_length(bytes: &mut Vec<u8>, length: usize) {
    bytes.extend_from_slice(&u32::try_from(length).expect("records are shorter than 4 GiB").to_le_bytes());
}

#[cfg(test)]
mod tests;
