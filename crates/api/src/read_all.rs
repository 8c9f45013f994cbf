//! The events of a whole namespace, merged from its partitions into the order of the replicated log.
//!
//! All partitions are read up to one entry, so that the answer is complete up to there and has nothing behind it.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::stream::{self, Stream};
use gapless_engine::partition::{Direction, OutcomeKind, StoredOutcome, View};
use gapless_engine::types::{LogIndex, PartitionId, PartitionOffset};
use gapless_engine::{Consistency, Engine, ReadOptions, Target};

use crate::event::event;
use crate::paging::{PageLength, Wanted};
use crate::problem::{Problem, ProblemKind};
use crate::reading::{Newness, off_thread, view};
use crate::unknown;
use crate::v1;

/// Outcomes that are read ahead in all partitions together, at most; at least one in each.
const AHEAD: usize = 256;

struct Merge {
    engine: Engine,
    namespace: String,
    lanes: Vec<Lane>,
    direction: Direction,
    wanted: Wanted,
    patience: Duration,
}

/// One partition.
struct Lane {
    partition: PartitionId,
    applied: PartitionOffset,
    next: Option<PartitionOffset>,
    /// The last entry whose outcomes count.
    end: LogIndex,
    read: VecDeque<StoredOutcome>,
    length: PageLength,
    most: usize,
}

/// The events, one by one.
pub(crate) async fn events(
    engine: &Engine,
    request: &v1::ReadAllRequest,
    newness: Newness,
    direction: Direction,
    patience: Duration,
) -> Result<impl Stream<Item = Result<v1::Event, Problem>> + Send + use<>, Problem> {
    let name = request.namespace.clone();
    let namespace = engine.namespace(&name).ok_or_else(|| unknown::namespace(engine, &name))?;
    let partitions: Vec<PartitionId> = namespace.partitions().collect();
    let end = last_entry(engine, &partitions, newness, patience).await?;
    let most = (AHEAD / partitions.len()).max(1);
    let mut lanes = Vec::new();
    for partition in partitions {
        // Whatever this node has is enough: everything up to the last entry that counts is applied by now.
        let options = ReadOptions { consistency: Consistency::Stale, patience };
        let view = engine.view(partition, options).await?;
        let Some(applied) = view.applied() else { continue };
        let from = request.from;
        let next = off_thread(move || start(&view, from, end, direction)).await?;
        let length = PageLength::first();
        lanes.push(Lane { partition, applied, next, end, read: VecDeque::new(), length, most });
    }
    let wanted = Wanted::of(request.limit);
    let merge = Merge { engine: engine.clone(), namespace: name, lanes, direction, wanted, patience };
    Ok(stream::try_unfold(merge, |merge| async move { merge.next().await }))
}

/// An entry up to which all partitions have applied: what was acknowledged before is not behind it, unless stale is enough.
async fn last_entry(
    engine: &Engine,
    partitions: &[PartitionId],
    newness: Newness,
    patience: Duration,
) -> Result<LogIndex, Problem> {
    let end = if newness.is_stale() {
        let dispatched = engine.replicator().progress().borrow().dispatched;
        dispatched.unwrap_or(LogIndex::FIRST)
    } else {
        // Says who leads, if this node does not.
        view(engine, partitions[0], newness, patience).await?;
        let point = tokio::time::timeout(patience, engine.replicator().read_point()).await;
        let unavailable = |message| Problem::new(ProblemKind::Unavailable, "NO_QUORUM", message);
        point
            .map_err(|_| Problem::new(ProblemKind::Deadline, "NO_QUORUM", "no quorum answered in time"))?
            .map_err(|error| unavailable(error.to_string()))?
    };
    let targets: Vec<_> = partitions.iter().map(|partition| (*partition, Target::Index(end))).collect();
    engine.reach_all(&targets, patience).await?;
    Ok(end)
}

/// Where a partition is read first; none if nothing of it counts.
fn start(
    view: &View,
    from: u64,
    end: LogIndex,
    direction: Direction,
) -> Result<Option<PartitionOffset>, Problem> {
    let last = view.applied();
    Ok(match direction {
        Direction::Forward => {
            let first = first_of(view, LogIndex::new(from))?;
            PartitionOffset::new(first).filter(|first| last >= Some(*first))
        }
        Direction::Backward => {
            let index = if from == 0 { end } else { end.min(LogIndex::new(from)) };
            let behind = index.next().map_or(Ok(u64::MAX), |next| first_of(view, next))?;
            PartitionOffset::new(behind - 1).map(|offset| last.map_or(offset, |last| offset.min(last)))
        }
    })
}

/// The first offset whose entry is this or a later one; one behind the last if there is none. Entries ascend with offsets.
fn first_of(view: &View, index: LogIndex) -> Result<u64, Problem> {
    let (mut low, mut high) = (1, view.applied().map_or(1, |last| last.get() + 1));
    while low < high {
        let middle = u64::midpoint(low, high);
        let offset = PartitionOffset::new(middle).unwrap_or(PartitionOffset::FIRST);
        let found = view.outcomes(offset, 1, Direction::Forward)?;
        match found.first() {
            Some(outcome) if outcome.header().log_index < index => low = middle + 1,
            _ => high = middle,
        }
    }
    Ok(low)
}

impl Merge {
    async fn next(mut self) -> Result<Option<(v1::Event, Self)>, Problem> {
        if self.wanted.is_over() {
            return Ok(None);
        }
        for lane in &mut self.lanes {
            lane.fill(&self.engine, self.direction, self.patience).await?;
        }
        let key = |lane: &&mut Lane| (lane.read[0].header().log_index, lane.partition);
        let filled = self.lanes.iter_mut().filter(|lane| !lane.read.is_empty());
        let lane = match self.direction {
            Direction::Forward => filled.min_by_key(key),
            Direction::Backward => filled.max_by_key(key),
        };
        let Some(lane) = lane else { return Ok(None) };
        let Some(stored) = lane.read.pop_front() else { return Ok(None) };
        let event = event(&self.namespace, lane.partition, &stored)?;
        self.wanted = self.wanted.without(1);
        Ok(Some((event, self)))
    }
}

impl Lane {
    /// Reads until there is an event, or nothing is left that counts.
    async fn fill(
        &mut self,
        engine: &Engine,
        direction: Direction,
        patience: Duration,
    ) -> Result<(), Problem> {
        while self.read.is_empty() {
            let Some(from) = self.next else { return Ok(()) };
            let options = ReadOptions { consistency: Consistency::AtLeast(self.applied), patience };
            let view = engine.view(self.partition, options).await?;
            let limit = self.length.get().min(self.most);
            let page = off_thread(move || Ok(view.outcomes(from, limit, direction)?)).await?;
            let bytes = page.iter().map(|stored| stored.bytes().len()).sum();
            self.length = self.length.next(page.len(), bytes);
            let last = page.last().map(|last| (last.header().partition_offset, last.header().log_index));
            self.next =
                last.filter(|(_, index)| *index <= self.end).and_then(|(offset, _)| match direction {
                    Direction::Forward => offset.next().filter(|next| *next <= self.applied),
                    Direction::Backward => offset.previous(),
                });
            let counts = |stored: &StoredOutcome| {
                let header = stored.header();
                header.kind == OutcomeKind::Event && header.log_index <= self.end
            };
            self.read.extend(page.into_iter().filter(counts));
        }
        Ok(())
    }
}
