//! Domains in a snapshot: all their rows, at the same entry as the partitions.
//!
//! Must not know: what rows mean.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use gapless_consensus::MachineFault;
use gapless_partition::Direction;
use gapless_projection::{Image, Installing};
use gapless_types::{LogIndex, Name, NamespaceId, PartitionId, PartitionIndex};
use tokio::sync::{Mutex, oneshot};

use super::installing::Reader;
use super::{DOMAIN, put_length};
use crate::catalog::Places;
use crate::node::Node;
use crate::projections::{self, ImageRequest};
use crate::retention::Domain;
use crate::workers::Workers;

/// Bytes of rows that are read at once.
const PAGE_BYTES: usize = 1 << 20;

/// What comes next in a domain.
const ROW: u8 = 1;
const NO_MORE_ROWS: u8 = 0;

/// The states of all domains.
pub(super) struct Images(Mutex<Vec<HeldImage>>);

/// The state of a domain, or that it will come.
enum HeldImage {
    Coming(Domain, oneshot::Receiver<Image>),
    There(Domain, Image),
}

/// Where a reader is.
#[derive(Default)]
pub(super) struct NextRow {
    /// Which domain is read.
    domain: usize,
    /// Its last row that was read.
    last: Option<Bytes>,
}

impl Images {
    /// Asks all domains for their states behind an entry, which was dispatched, while the next one was not.
    pub(super) fn request(node: &Node, at: LogIndex) -> Self {
        let request = |slot: Arc<projections::DomainSlot>| {
            let (reply, image) = oneshot::channel();
            slot.request_image(ImageRequest { at, reply });
            HeldImage::Coming(slot.id.clone(), image)
        };
        Self(Mutex::new(node.projections.all().into_iter().map(request).collect()))
    }

    /// The state of the domain at this place; none behind the last.
    async fn image(&self, place: usize) -> Result<Option<(Domain, Image)>, MachineFault> {
        let mut images = self.0.lock().await;
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

    /// The domain at this place; none behind the last.
    async fn domain(&self, place: usize) -> Option<Domain> {
        let images = self.0.lock().await;
        images.get(place).map(|(HeldImage::Coming(domain, _) | HeldImage::There(domain, _))| domain.clone())
    }

    /// The next rows of those that the receiver has not passed; none behind the last domain.
    pub(super) async fn page(
        &self,
        next: &mut NextRow,
        workers: &Workers,
        is_passed: impl Fn(&Domain) -> bool,
    ) -> Result<Option<Bytes>, MachineFault> {
        while self.domain(next.domain).await.is_some_and(|domain| is_passed(&domain)) {
            next.domain += 1;
        }
        let Some((domain, image)) = self.image(next.domain).await? else { return Ok(None) };
        let last = next.last.take();
        let page = workers.run(move || read_rows(&domain, &image, last.as_ref())).await?;
        next.last = page.last;
        if next.last.is_none() {
            next.domain += 1;
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
fn read_rows(domain: &Domain, image: &Image, last: Option<&Bytes>) -> Result<RowPage, MachineFault> {
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
    let from = last.cloned().unwrap_or_default();
    for row in image.rows.range(from.., Direction::Forward) {
        let (key, value) = row.map_err(MachineFault::new)?;
        if Some(&key) == last {
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

/// Writes the state of a domain where it is to be, with the number of this snapshot. Which domain it is.
pub(super) async fn receive_domain(
    node: &Arc<Node>,
    reader: &mut Reader,
    places: &mut Places,
) -> Result<Domain, MachineFault> {
    let mut header = reader.take(11).await?;
    let version = header.get_u32_le();
    let namespace = NamespaceId::new(header.get_u32_le());
    let partition = PartitionId { namespace, index: PartitionIndex::new(header.get_u16_le()) };
    let name = reader.take(usize::from(header.get_u8())).await?;
    let name = std::str::from_utf8(&name).ok().and_then(|name| Name::new(name).ok());
    let projection = name.ok_or_else(|| MachineFault::new("the snapshot has a projection without a name"))?;
    let domain = Domain { projection, version, partition };
    places.domains.insert(domain.clone(), places.installs);
    let dir = places.domain_dir(&node.catalog_file.partitions_dir(), &domain);
    let begin = {
        let (io, options) = (node.io.clone(), node.partition_options.clone());
        move || Installing::begin(io, dir, options.store, &options.budget)
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
    node.workers.run(move || installing.finish()).await.map_err(MachineFault::new)?;
    Ok(domain)
}
