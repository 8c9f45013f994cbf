//! Following: what happened from a place on, then what happens, in one stream without a seam.
//!
//! A subscription pulls: it reads what is there from the partition log, and when it has read everything it waits until there is more.
//! Nothing is pushed into a buffer, so a slow reader is slow for himself alone, and never misses anything. Also not when a snapshot is
//! installed: it has what he has not read.
//!
//! Must not know: what events mean, who reads them.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use gapless_partition::{Direction, Fault, OutcomeKind, StoredOutcome, View};
use gapless_types::{LogIndex, NamespaceId, PartitionId, PartitionOffset, WorkspaceId, WorkspaceOffset};

use crate::engine::Engine;
use crate::error::ReadError;
use crate::slot::{PartitionState, Slot};

/// Outcomes that are read at once.
const PAGE: usize = 256;

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
        let source = |slot, place| Source { slot, place, read: VecDeque::new() };
        let (sources, events_only, ordered) = match what {
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
        let first = self
            .sources
            .iter_mut()
            .filter(|source| !source.read.is_empty())
            .min_by_key(|source| (source.read[0].header().log_index, source.slot.id));
        let Some(source) = first else { return Ok(None) };
        if let Some(bound) = bound
            && Some(source.read[0].header().log_index) > bound
        {
            return Ok(None);
        }
        let outcome = source.read.pop_front().expect("it is not empty");
        Ok(Some(Followed { partition: source.slot.id, outcome }))
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
    fn watch(&self) -> impl Future<Output = ()> + use<> {
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
    /// A partition that a snapshot replaced is found again: what was read of it stays read, and the next outcome has the same offset
    /// there.
    async fn find(&mut self, engine: &Engine) -> Result<(), ReadError> {
        if *self.slot.state.borrow() == PartitionState::Closed {
            self.slot = engine.moved(&self.slot).await.ok_or(ReadError::Closing)?;
        }
        Ok(())
    }

    async fn fill(&mut self, engine: &Engine, events_only: bool) -> Result<(), ReadError> {
        while self.read.is_empty() {
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
            let place = self.place;
            let job = move || read(&view, place, events_only);
            let (found, next) = engine.node().workers.run(job).await?;
            let moved = next.is_some();
            if let Some(next) = next {
                self.place = next;
            }
            self.read.extend(found);
            if !moved {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// What there is from a place on, and the place behind it; none if there was nothing.
fn read(view: &View, place: Place, events_only: bool) -> Result<(Vec<StoredOutcome>, Option<Place>), Fault> {
    match place {
        Place::Workspace(workspace, from) => {
            let found = view.events(workspace, from, PAGE, Direction::Forward)?;
            let last = found.last().and_then(|last| last.header().workspace_offset);
            let next = last.and_then(WorkspaceOffset::next).map(|next| Place::Workspace(workspace, next));
            Ok((found, next))
        }
        Place::Partition(from) => {
            let mut found = view.outcomes(from, PAGE, Direction::Forward)?;
            let last = found.last().map(|last| last.header().partition_offset);
            if events_only {
                found.retain(|outcome| outcome.header().kind == OutcomeKind::Event);
            }
            Ok((found, last.and_then(PartitionOffset::next).map(Place::Partition)))
        }
        Place::Entry(index) => Ok((Vec::new(), Some(Place::Partition(first_of(view, index)?)))),
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
