//! Following: what happened from a place on, then what happens, in one stream without a seam.
//!
//! A subscription pulls: it reads what is there from the partition log, and when it has read everything it waits until there is more.
//! Nothing is pushed into a buffer, so a slow reader is slow for himself alone, and never misses anything. Also not when a snapshot is
//! installed: it has what he has not read.
//!
//! ```text
//!  one partition          a page is read, and handed out one by one
//!  a whole namespace      each partition has its part of a page: the first outcome of all of them is the next one. One that is longer
//!                         than such a part is not kept: only where it stands, and it is read again when it is its turn
//! ```
//!
//! Must not know: what events mean, who reads them.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use gapless_partition::{Direction, Fault, OutcomeKind, StoredOutcome, View};
use gapless_types::limits::MAX_RECORD_BYTES;
use gapless_types::{LogIndex, NamespaceId, PartitionId, PartitionOffset, WorkspaceId, WorkspaceOffset};

use crate::engine::Engine;
use crate::error::ReadError;
use crate::slot::{PartitionState, Slot};

/// Outcomes that are read at once.
const PAGE: usize = 256;
/// Bytes of them, about: what all partitions together have that was read and not handed out yet.
const PAGE_BYTES: usize = 256 << 10;
/// The smallest part of that which a partition has, however many there are.
const LEAST_PART: usize = 4 << 10;

/// What is followed, and from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// The events of a workspace, from this one on.
    Workspace(PartitionId, WorkspaceId, WorkspaceOffset),
    /// Every outcome of a partition, from this one on: refusals, duplicates and definitions, too.
    Partition(PartitionId, PartitionOffset),
    /// The events of a whole namespace in the order of the replicated log, from this entry on.
    Namespace(NamespaceId, LogIndex),
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    /// Where.
    pub partition: PartitionId,
    /// What: the outcome as it stands in the partition log.
    pub outcome: StoredOutcome,
}

/// A place in a stream of what happens.
#[derive(Debug)]
pub struct Subscription {
    engine: Engine,
    sources: Vec<Source>,
    /// Whether only events count.
    events_only: bool,
    ordered: bool,
}

#[derive(Debug)]
struct Source {
    slot: Arc<Slot>,
    place: Place,
    read: VecDeque<StoredOutcome>,
    /// The next one if nothing is read: too long for this partition's part.
    long: Option<Long>,
    /// How many bytes of this partition are kept.
    part: Part,
}

/// Where an outcome stands that is read when it is its turn.
#[derive(Clone, Copy, Debug)]
struct Long {
    index: LogIndex,
    offset: PartitionOffset,
}

/// What one partition may have of a page.
#[derive(Clone, Copy, Debug)]
struct Part {
    bytes: usize,
    /// Whether others have parts, too. Alone, a partition keeps what it has read, however long.
    is_shared: bool,
}

impl Part {
    fn of(partitions: usize) -> Self {
        Self { bytes: (PAGE_BYTES / partitions.max(1)).max(LEAST_PART), is_shared: partitions > 1 }
    }
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Workspace(WorkspaceId, WorkspaceOffset),
    Partition(PartitionOffset),
    /// Not read yet: the first outcome of this entry or a later one.
    Entry(LogIndex),
}

impl Engine {
    /// Follows from a place on.
    ///
    /// # Errors
    /// If there is no such partition or namespace.
    pub fn follow(&self, what: Follow) -> Result<Subscription, ReadError> {
        let slot = |partition| self.node().slot(partition).ok_or(ReadError::Unknown);
        let source =
            |slot, place| Source { slot, place, read: VecDeque::new(), long: None, part: Part::of(1) };
        let (mut sources, events_only, ordered) = match what {
            Follow::Workspace(partition, workspace, from) => {
                (vec![source(slot(partition)?, Place::Workspace(workspace, from))], true, false)
            }
            Follow::Partition(partition, from) => {
                (vec![source(slot(partition)?, Place::Partition(from))], false, false)
            }
            Follow::Namespace(namespace, from) => {
                let catalog = self.node().catalog();
                let namespace = catalog.by_id(namespace).ok_or(ReadError::Unknown)?;
                let sources = namespace
                    .partitions()
                    .map(|partition| Ok(source(slot(partition)?, Place::Entry(from))))
                    .collect::<Result<_, ReadError>>()?;
                (sources, true, true)
            }
        };
        let part = Part::of(sources.len());
        sources.iter_mut().for_each(|source: &mut Source| source.part = part);
        Ok(Subscription { engine: self.clone(), sources, events_only, ordered })
    }
}

impl Subscription {
    /// The next thing that happened; waits until there is one. Can be dropped at any time, and called again: nothing is lost.
    ///
    /// # Errors
    /// If what is followed is gone, or cannot be read.
    pub async fn next(&mut self) -> Result<Followed, ReadError> {
        loop {
            if let Some(found) = self.try_next().await? {
                return Ok(found);
            }
            // Looked once more after watching began, so that nothing falls between the two.
            let watch = self.watch();
            if let Some(found) = self.try_next().await? {
                return Ok(found);
            }
            watch.await;
        }
    }

    /// Whether something was read that was not handed out yet.
    pub fn is_ahead(&self) -> bool {
        self.sources.iter().any(Source::is_ahead)
    }

    /// How many bytes are kept until everything that was read is handed out, at most.
    pub fn bytes_ahead(&self) -> usize {
        match &self.sources[..] {
            [alone] => alone.read.iter().map(|outcome| outcome.bytes().len()).sum(),
            // Each is filled again before the others are empty.
            sources => sources.iter().map(|source| source.part.bytes).sum(),
        }
    }

    /// Whether several partitions are merged: then more of one is read while others are ahead.
    pub fn is_merged(&self) -> bool {
        self.sources.len() > 1
    }

    /// Forgets what was read and not handed out: it is read again.
    pub fn put_back(&mut self) {
        self.sources.iter_mut().for_each(Source::put_back);
    }

    /// The most bytes that there are while something is read.
    pub fn most_bytes(&self) -> usize {
        self.sources.iter().map(|source| source.part.bytes).sum::<usize>() + MAX_RECORD_BYTES as usize
    }

    /// The next thing that happened, if it has.
    ///
    /// # Errors
    /// If what is followed is gone, or cannot be read.
    pub async fn try_next(&mut self) -> Result<Option<Followed>, ReadError> {
        for source in &mut self.sources {
            source.find(&self.engine).await?;
        }
        // What is ordered over several partitions counts up to where all of them are.
        let bound = self.ordered.then(|| self.applied_everywhere());
        for source in &mut self.sources {
            source.fill(&self.engine, self.events_only).await?;
        }
        let first = self.sources.iter_mut().filter_map(|source| Some((source.next_index()?, source)));
        let Some((index, source)) = first.min_by_key(|(index, source)| (*index, source.slot.id)) else {
            return Ok(None);
        };
        if bound.is_some_and(|bound| Some(index) > bound) {
            return Ok(None);
        }
        let partition = source.slot.id;
        Ok(source.take(&self.engine).await?.map(|outcome| Followed { partition, outcome }))
    }

    fn applied_everywhere(&self) -> Option<LogIndex> {
        let core = self.engine.node().core();
        let through = |source: &Source| match *source.slot.state.borrow() {
            PartitionState::Serving => core.watermarks.applied_through(source.slot.id),
            _ => source.slot.applied.borrow().index.and_then(LogIndex::previous),
        };
        self.sources.iter().map(through).min().flatten()
    }

    /// Ready when something may have happened since this call.
    pub fn watch(&self) -> impl Future<Output = ()> + use<> {
        let mut changes: Vec<BoxFuture<'static, ()>> = Vec::new();
        for source in &self.sources {
            let (mut applied, mut state) = (source.slot.applied.subscribe(), source.slot.state.subscribe());
            let is_closed = *state.borrow_and_update() == PartitionState::Closed;
            applied.borrow_and_update();
            changes.push(Box::pin(async move {
                // One that is closed may be in another place.
                if !is_closed {
                    tokio::select! {
                        _ = applied.changed() => {}
                        _ = state.changed() => {}
                    }
                }
            }));
        }
        if self.ordered {
            let mut dispatched = self.engine.node().dispatched.subscribe();
            dispatched.borrow_and_update();
            changes.push(Box::pin(async move {
                let _ = dispatched.changed().await;
            }));
        }
        async move {
            futures_util::future::select_all(changes).await;
        }
    }
}

impl Source {
    fn is_ahead(&self) -> bool {
        self.long.is_some() || !self.read.is_empty()
    }

    /// The entry of the next outcome.
    fn next_index(&self) -> Option<LogIndex> {
        let long = self.long.map(|long| long.index);
        long.or_else(|| self.read.front().map(|outcome| outcome.header().log_index))
    }

    fn put_back(&mut self) {
        let first = match (self.long.take(), self.read.front()) {
            (Some(long), _) => Some((long.offset, None)),
            (None, Some(first)) => Some((first.offset(), first.header().workspace_offset)),
            (None, None) => None,
        };
        self.place = match (self.place, first) {
            (Place::Workspace(workspace, _), Some((_, Some(offset)))) => Place::Workspace(workspace, offset),
            (_, Some((offset, _))) => Place::Partition(offset),
            (place, None) => place,
        };
        self.read.clear();
    }

    /// The next outcome.
    async fn take(&mut self, engine: &Engine) -> Result<Option<StoredOutcome>, ReadError> {
        let Some(long) = self.long else { return Ok(self.read.pop_front()) };
        // A partition that a snapshot replaced meanwhile is found at the next look, and has it.
        let view = match engine.node().view_now(&self.slot).await {
            Err(ReadError::Closing) => return Ok(None),
            other => other?,
        };
        let job = move || view.outcomes(long.offset, 1, Direction::Forward);
        let found = engine.node().workers.run(job).await?;
        if !found.is_empty() {
            self.long = None;
        }
        Ok(found.into_iter().next())
    }

    /// A partition that a snapshot replaced is found again: what was read of it stays read, and the next outcome has the same offset
    /// there.
    async fn find(&mut self, engine: &Engine) -> Result<(), ReadError> {
        if *self.slot.state.borrow() == PartitionState::Closed {
            self.slot = engine.moved(&self.slot).await.ok_or(ReadError::Closing)?;
        }
        Ok(())
    }

    async fn fill(&mut self, engine: &Engine, events_only: bool) -> Result<(), ReadError> {
        while !self.is_ahead() {
            if self.slot.applied.borrow().offset.is_none() {
                return Ok(());
            }
            if let Place::Partition(offset) = self.place
                && self.slot.applied.borrow().offset < Some(offset)
            {
                return Ok(());
            }
            let view = match engine.node().view_now(&self.slot).await {
                Err(ReadError::Closing) => {
                    self.slot = engine.moved(&self.slot).await.ok_or(ReadError::Closing)?;
                    continue;
                }
                other => other?,
            };
            let (place, part) = (self.place, self.part);
            let job = move || read(&view.with_bytes_at_once(part.bytes), place, part, events_only);
            let Page { found, long, next } = engine.node().workers.run(job).await?;
            let Some(next) = next else { return Ok(()) };
            self.place = next;
            self.read.extend(found);
            self.long = long;
        }
        Ok(())
    }
}

/// What there is from a place on.
#[derive(Default)]
struct Page {
    found: Vec<StoredOutcome>,
    long: Option<Long>,
    /// The place behind it; none if there was nothing.
    next: Option<Place>,
}

fn read(view: &View, place: Place, part: Part, events_only: bool) -> Result<Page, Fault> {
    let found = match place {
        Place::Workspace(workspace, from) => view.events(workspace, from, PAGE, Direction::Forward)?,
        Place::Partition(from) => view.outcomes(from, PAGE, Direction::Forward)?,
        Place::Entry(index) => {
            let next = Some(Place::Partition(first_of(view, index)?));
            return Ok(Page { next, ..Page::default() });
        }
    };
    Ok(page(found, place, part, events_only))
}

/// As much of what was read as is kept.
fn page(mut found: Vec<StoredOutcome>, place: Place, part: Part, events_only: bool) -> Page {
    let bytes: usize = found.iter().map(|outcome| outcome.bytes().len()).sum();
    if part.is_shared && bytes > part.bytes && found.len() > 1 {
        // The last one is beyond what fits, and is read again with what follows it.
        found.pop();
    }
    let next = found.last().and_then(|last| behind(place, last));
    if events_only {
        found.retain(|outcome| outcome.header().kind == OutcomeKind::Event);
    }
    match &found[..] {
        [alone] if part.is_shared && alone.bytes().len() > part.bytes => {
            let long = Long { index: alone.header().log_index, offset: alone.offset() };
            Page { found: Vec::new(), long: Some(long), next }
        }
        // What was read together with them is not kept for their sake.
        _ => Page { found: found.iter().map(StoredOutcome::apart).collect(), long: None, next },
    }
}

/// The place behind an outcome.
fn behind(place: Place, last: &StoredOutcome) -> Option<Place> {
    match place {
        Place::Workspace(workspace, _) => {
            let next = last.header().workspace_offset.and_then(WorkspaceOffset::next)?;
            Some(Place::Workspace(workspace, next))
        }
        _ => last.offset().next().map(Place::Partition),
    }
}

/// The first outcome of an entry or a later one: log indexes ascend with offsets.
fn first_of(view: &View, index: LogIndex) -> Result<PartitionOffset, Fault> {
    let (mut low, mut high) = (1, view.applied().map_or(1, |last| last.get() + 1));
    while low < high {
        let middle = u64::midpoint(low, high);
        let offset = PartitionOffset::new(middle).expect("above 0");
        let found = view.outcomes(offset, 1, Direction::Forward)?;
        match found.first() {
            Some(outcome) if outcome.header().log_index < index => low = middle + 1,
            _ => high = middle,
        }
    }
    Ok(PartitionOffset::new(low).expect("above 0"))
}
