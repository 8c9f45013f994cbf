//! The place of one domain in a node: what waits to be applied, how far it is, what it still needs of the replicated log.
//!
//! It begins detached: what is there already is read from the replicated log, and then the queue has everything, until it is full.
//!
//! Invariants
//! - Inputs are taken in the order of the log, none left out, none twice.
//! - TRUNC-1: what is neither in a checkpoint nor passed over is needed.
//! - ISO-1: nothing here waits for the domain while somebody else waits for the lock.
//!
//! Must not know: what commands mean, how an order is agreed on.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gapless_projection::{Counters, Image, Plan, Progress, Sight, Status};
use gapless_types::{LogIndex, PartitionId};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot, watch};

use super::feed::Feed;
use super::working::Working;
use crate::retention::Domain;
use crate::slot::QueueLimits;

/// How a domain does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DomainState {
    /// It is being opened, or opens slots for what happened before there was the projection.
    Opening,
    /// It applies what it gets.
    Serving,
    /// It reads from the replicated log what it misses.
    CatchingUp,
    /// Its disk failed, or its partition did; it is opened again after a while.
    Failed(Arc<str>),
    /// It holds something it should not: somebody has to repair it.
    Quarantined(Arc<str>),
    /// It is gone, or the node is closing.
    Closed,
}

/// Somebody wants everything a domain has, once it has passed an entry.
#[derive(Debug)]
pub(crate) struct ImageRequest {
    pub(crate) at: LogIndex,
    pub(crate) reply: oneshot::Sender<Image>,
}

/// What the driver of a domain does next.
#[derive(Debug)]
pub(crate) enum Step {
    Apply(Vec<Feed>),
    CatchUp(LogIndex),
    Checkpoint,
    Image(ImageRequest),
    Idle,
}

/// Inputs that are applied at once.
const SLICE_INPUTS: usize = 1024;
/// Bytes of commands that are applied at once.
const SLICE_BYTES: u64 = 8 << 20;

/// One domain of a node.
#[derive(Debug)]
pub(crate) struct DomainSlot {
    pub(crate) id: Domain,
    /// The partitions whose outcomes it consumes.
    pub(crate) partitions: Vec<PartitionId>,
    pub(crate) since: LogIndex,
    pub(crate) plan: Arc<Plan>,
    pub(crate) dir: PathBuf,
    /// What the catalog on disk says that it needs, whatever its own checkpoint says.
    pub(crate) floor: LogIndex,
    limits: QueueLimits,
    queue: Mutex<Queue>,
    pub(crate) wake: Notify,
    domain: Mutex<Option<gapless_projection::Domain>>,
    pub(crate) state: watch::Sender<DomainState>,
    pub(crate) sight: watch::Sender<Option<Sight>>,
    /// How it stood when that was told last.
    seen: Mutex<Seen>,
    pub(crate) progress: Progress,
    pub(crate) closing: watch::Sender<bool>,
    pub(crate) working: Working,
    /// Tells whoever waits for work of the projection, in any of its domains.
    pub(crate) work: Arc<watch::Sender<()>>,
    /// Times that it was opened again after a failure.
    pub(crate) reopenings: AtomicU64,
    readers: Arc<Semaphore>,
}

/// What is told of a domain.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// None before it was opened.
    pub(crate) status: Option<Status>,
    pub(crate) counters: Counters,
}

#[derive(Debug, Default)]
struct Queue {
    feeds: VecDeque<Feed>,
    bytes: u64,
    /// The first entry that is not in the queue.
    detached: Option<LogIndex>,
    images: VecDeque<ImageRequest>,
    wants_checkpoint: bool,
    /// A checkpoint has everything before this entry that is for the domain.
    checkpointed: Option<LogIndex>,
    /// Something was taken out and may not be in the checkpoint.
    is_dirty: bool,
    /// Something was taken out and is not applied yet.
    is_busy: bool,
    is_abandoned: bool,
    is_removed: bool,
}

impl DomainSlot {
    pub(crate) fn new(
        id: Domain,
        partitions: Vec<PartitionId>,
        projection: &crate::catalog::Projection,
        dir: PathBuf,
        floor: Option<LogIndex>,
        limits: QueueLimits,
        work: Arc<watch::Sender<()>>,
    ) -> Self {
        // What was before it comes from the partition logs.
        let first = projection.since.next().unwrap_or(LogIndex::MAX);
        let floor = floor.unwrap_or(first).max(first);
        Self {
            id,
            partitions,
            since: projection.since,
            plan: projection.plan.clone(),
            dir,
            floor,
            limits,
            queue: Mutex::new(Queue { detached: Some(floor), checkpointed: Some(floor), ..Queue::default() }),
            wake: Notify::new(),
            domain: Mutex::default(),
            state: watch::Sender::new(DomainState::Opening),
            sight: watch::Sender::new(None),
            seen: Mutex::default(),
            progress: Progress::new(0),
            closing: watch::Sender::new(false),
            working: Working::default(),
            work,
            reopenings: AtomicU64::new(0),
            readers: Arc::new(Semaphore::new(1)),
        }
    }

    /// Takes in what an entry has for the domain.
    pub(crate) fn push(&self, feed: Feed) {
        let mut queue = self.queue();
        if queue.detached.is_some() {
            return;
        }
        let bytes = feed.bytes();
        let is_full =
            queue.feeds.len() >= self.limits.entries || queue.bytes.saturating_add(bytes) > self.limits.bytes;
        if is_full && !queue.feeds.is_empty() {
            queue.detached = Some(feed.index);
        } else {
            queue.bytes += bytes;
            queue.feeds.push_back(feed);
        }
        drop(queue);
        self.wake.notify_one();
    }

    /// What the driver does next: images in front of everything else, then what is queued, then what has to be read.
    pub(crate) fn next_step(&self) -> Step {
        let mut queue = self.queue();
        let next = queue.feeds.front().map(|feed| feed.index).or(queue.detached);
        if queue.images.front().is_some_and(|image| next.is_none_or(|next| image.at < next)) {
            return Step::Image(queue.images.pop_front().expect("there is one"));
        }
        if std::mem::take(&mut queue.wants_checkpoint) && queue.is_dirty {
            return Step::Checkpoint;
        }
        if queue.feeds.is_empty() {
            return queue.detached.map_or(Step::Idle, Step::CatchUp);
        }
        // Not beyond an image: what is in it has to be exactly what is in front of it.
        let end = queue.images.front().map_or(LogIndex::MAX, |image| image.at);
        let (mut slice, mut inputs, mut bytes) = (Vec::new(), 0, 0);
        while inputs < SLICE_INPUTS
            && bytes < SLICE_BYTES
            && let Some(feed) = queue.feeds.pop_front_if(|feed| feed.index <= end)
        {
            inputs += feed.inputs.len();
            bytes += feed.bytes();
            slice.push(feed);
        }
        queue.bytes -= bytes;
        queue.is_dirty = true;
        queue.is_busy = true;
        Step::Apply(slice)
    }

    /// Everything that was taken out is applied.
    pub(crate) fn set_applied(&self) {
        self.queue().is_busy = false;
    }

    /// The last entry that it has passed, where everything up to `dispatched` has reached its queue.
    pub(crate) fn through(&self, dispatched: Option<LogIndex>) -> Option<LogIndex> {
        let applied = self.sight.borrow().and_then(|sight| sight.next_entry.previous());
        let queue = self.queue();
        let is_idle = queue.feeds.is_empty() && queue.detached.is_none() && !queue.is_busy;
        if is_idle { applied.max(dispatched) } else { applied }
    }

    /// Something that came another way than through the queue will be applied.
    pub(crate) fn set_dirty(&self) {
        self.queue().is_dirty = true;
    }

    /// A checkpoint has everything before this entry, and nothing was applied since.
    pub(crate) fn set_checkpointed(&self, from: LogIndex) {
        let mut queue = self.queue();
        queue.checkpointed = queue.checkpointed.max(Some(from));
        queue.is_dirty = false;
    }

    /// The first entry that it needs, where everything up to `dispatched` has reached its queue.
    pub(crate) fn needed_from(&self, dispatched: Option<LogIndex>) -> LogIndex {
        let mut queue = self.queue();
        let is_idle = queue.feeds.is_empty() && queue.detached.is_none() && !queue.is_dirty;
        if is_idle {
            // Kept: what it has said that it does not need, it never needs again.
            queue.checkpointed = queue.checkpointed.max(dispatched.and_then(LogIndex::next));
        }
        queue.checkpointed.unwrap_or(self.floor).max(self.floor)
    }

    /// Forgets what is queued: from this entry on everything is read from the replicated log.
    pub(crate) fn detach_from(&self, index: LogIndex) {
        let mut queue = self.queue();
        queue.feeds.clear();
        queue.bytes = 0;
        queue.detached = Some(index);
    }

    /// Everything up to `read` was read from the replicated log and applied. Attached if nothing was announced behind it.
    pub(crate) fn caught_up(&self, read: LogIndex, announced: Option<LogIndex>) -> bool {
        let mut queue = self.queue();
        if announced <= Some(read) {
            queue.detached = None;
            return true;
        }
        queue.detached = read.next();
        false
    }

    pub(crate) fn request_checkpoint(&self) {
        self.queue().wants_checkpoint = true;
        self.wake.notify_one();
    }

    pub(crate) fn request_image(&self, image: ImageRequest) {
        self.queue().images.push_back(image);
        self.wake.notify_one();
    }

    /// The entry behind which the first image is wanted, if one is.
    pub(crate) fn next_image(&self) -> Option<LogIndex> {
        self.queue().images.front().map(|image| image.at)
    }

    /// One that could not be served now comes first again.
    pub(crate) fn put_back(&self, image: ImageRequest) {
        self.queue().images.push_front(image);
    }

    pub(crate) fn drop_images(&self) {
        self.queue().images.clear();
    }

    pub(crate) fn queued(&self) -> usize {
        self.queue().feeds.len()
    }

    pub(crate) fn close(&self) {
        self.closing.send_replace(true);
        self.wake.notify_one();
    }

    /// Closes without writing anything.
    pub(crate) fn abandon(&self) {
        self.queue().is_abandoned = true;
        self.close();
    }

    /// Its projection is gone: so is everything of it, when it is closed.
    pub(crate) fn remove(&self) {
        self.queue().is_removed = true;
        self.close();
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.queue().is_abandoned
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.queue().is_removed
    }

    pub(crate) fn is_dirty(&self) -> bool {
        self.queue().is_dirty
    }

    pub(crate) fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    pub(crate) fn domain(&self) -> MutexGuard<'_, Option<gapless_projection::Domain>> {
        self.domain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The turn of a reader; it is over when this is dropped.
    pub(crate) async fn reader(&self) -> OwnedSemaphorePermit {
        self.readers.clone().acquire_owned().await.expect("nobody closes it")
    }

    /// Tells everybody how far the domain is.
    pub(crate) fn publish(&self, domain: &gapless_projection::Domain) {
        let sight = domain.sight();
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) =
            Seen { status: Some(domain.status()), counters: *domain.counters() };
        self.sight.send_if_modified(|before| before.replace(sight) != Some(sight));
        self.progress.advance(sight.watermark);
        if sight.grantable > 0 {
            self.work.send_replace(());
        }
    }

    /// How it stood when that was told last: nobody waits for the domain to know it.
    pub(crate) fn seen(&self) -> Seen {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn count_reopening(&self) {
        self.reopenings.fetch_add(1, Ordering::Relaxed);
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use gapless_types::{MachineVersion, Name, NamespaceId, PartitionIndex};

    use super::*;
    use crate::log_time::LogTime;
    use crate::projections::feed::Fed;
    use crate::projections::request::RequestId;

    fn at(index: u64) -> LogIndex {
        LogIndex::new(index)
    }

    fn feed(index: u64) -> Feed {
        let mut feed = Feed::new(at(index), LogTime::ZERO, MachineVersion::FIRST);
        let id = RequestId { term: 1, number: index };
        feed.push(0, Fed::Command { id, command: Bytes::from_static(b"command") });
        feed
    }

    /// A domain of a projection that entry 4 made, attached behind it.
    fn slot(limits: QueueLimits) -> DomainSlot {
        let partition = PartitionId { namespace: NamespaceId::new(16), index: PartitionIndex::new(0) };
        let id = Domain { projection: Name::new("sales").unwrap(), version: 1, partition };
        let plan = Arc::new(Plan::from_text("{}").unwrap());
        let projection = crate::catalog::Projection { version: 1, since: at(4), plan };
        let work = Arc::new(watch::Sender::new(()));
        let slot = DomainSlot::new(id, vec![partition], &projection, "domain".into(), None, limits, work);
        assert!(matches!(slot.next_step(), Step::CatchUp(from) if from == at(5)), "it begins detached");
        assert!(!slot.caught_up(at(4), Some(at(6))), "something was announced meanwhile");
        assert!(slot.caught_up(at(6), Some(at(6))));
        slot
    }

    fn applied(slot: &DomainSlot) -> Vec<u64> {
        match slot.next_step() {
            Step::Apply(slice) => slice.iter().map(|feed| feed.index.get()).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_idle_needs_nothing_and_never_falls_back() {
        let slot = slot(QueueLimits::default());
        assert_eq!(slot.needed_from(Some(at(6))), at(7));
        assert_eq!(slot.needed_from(Some(at(20))), at(21));
        slot.push(feed(22));
        assert_eq!(slot.needed_from(Some(at(22))), at(21), "it is queued");
        assert_eq!(applied(&slot), [22]);
        assert_eq!(slot.needed_from(Some(at(30))), at(21), "it is in no checkpoint");
        slot.set_applied();
        assert_eq!(slot.needed_from(Some(at(30))), at(21));
        slot.set_checkpointed(at(23));
        assert_eq!(slot.needed_from(Some(at(30))), at(31));
        slot.set_checkpointed(at(23));
        assert_eq!(slot.needed_from(None), at(31), "TRUNC-1: what it has said holds");
    }

    #[test]
    fn a_full_queue_is_left_and_read_from_the_log() {
        let slot = slot(QueueLimits { entries: 2, bytes: u64::MAX });
        for index in 7..12 {
            slot.push(feed(index));
        }
        assert_eq!(applied(&slot), [7, 8]);
        assert!(matches!(slot.next_step(), Step::CatchUp(from) if from == at(9)));
        assert_eq!(slot.through(Some(at(11))), None, "nothing is promised while something is missing");
        slot.set_applied();
        assert!(slot.caught_up(at(11), Some(at(11))));
        assert_eq!(slot.through(Some(at(11))), Some(at(11)));
        slot.push(feed(12));
        assert_eq!(applied(&slot), [12]);
    }

    #[test]
    fn nothing_behind_an_image_is_applied_before_it() {
        let slot = slot(QueueLimits::default());
        slot.push(feed(7));
        slot.push(feed(8));
        let (reply, _image) = oneshot::channel();
        slot.request_image(ImageRequest { at: at(8), reply });
        slot.push(feed(9));
        assert_eq!(applied(&slot), [7, 8]);
        let Step::Image(request) = slot.next_step() else { panic!("the image comes first") };
        assert_eq!(request.at, at(8));
        assert_eq!(applied(&slot), [9]);
    }

    #[test]
    fn a_checkpoint_is_made_of_what_is_new() {
        let slot = slot(QueueLimits::default());
        slot.request_checkpoint();
        assert!(matches!(slot.next_step(), Step::Idle), "there is nothing new");
        slot.push(feed(7));
        assert_eq!(applied(&slot), [7]);
        slot.request_checkpoint();
        slot.push(feed(8));
        assert!(matches!(slot.next_step(), Step::Checkpoint), "between two slices");
        assert_eq!(applied(&slot), [8]);
    }
}
