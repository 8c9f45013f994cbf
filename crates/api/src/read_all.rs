//! The events of a whole namespace, merged from its partitions into the order of the replicated log.
//!
//! All partitions are read up to one entry, so that the answer is complete up to there and has nothing behind it.
//!
//! Each partition has its part of what is read ahead. An event that is longer than such a part is not kept until it is its turn, but read
//! again then: a reader who is slow costs no more for many partitions than for one.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::stream::{self, Stream};
use gapless_engine::partition::{Direction, OutcomeKind, StoredOutcome, View};
use gapless_engine::types::{LogIndex, PartitionId, PartitionOffset};
use gapless_engine::{Consistency, Engine, ReadOptions, Target};

use crate::event::event;
use crate::ledger::LedgerCalls;
use crate::paging::{AHEAD_BYTES, PAGE_BYTES, PageLength, Wanted};
use crate::problem::{Problem, ProblemKind};
use crate::reading::{Newness, off_thread, view};
use crate::unknown;
use crate::unsent::{Held, Unsent};
use crate::v1;

/// Outcomes that are read ahead in all partitions together, at most; at least one in each.
const AHEAD: usize = 256;
/// The smallest part of the bytes that are read ahead which a partition has, however many there are.
const LEAST_PART: usize = 4 << 10;

struct Merge {
    engine: Engine,
    namespace: String,
    lanes: Vec<Lane>,
    direction: Direction,
    wanted: Wanted,
    patience: Duration,
    unsent: Unsent,
    /// Room for what all partitions have read ahead.
    held: Option<Held>,
}

/// One partition.
struct Lane {
    partition: PartitionId,
    applied: PartitionOffset,
    next: Option<PartitionOffset>,
    /// The last entry whose outcomes count.
    end: LogIndex,
    read: VecDeque<StoredOutcome>,
    /// The next one if nothing is read: it is too long for this partition's part.
    long: Option<Long>,
    length: PageLength,
    most: usize,
    /// Bytes that are read ahead here.
    part: usize,
}

/// Where an event stands that is read when it is its turn.
#[derive(Clone, Copy)]
struct Long {
    index: LogIndex,
    offset: PartitionOffset,
}

/// The events, one by one.
pub(crate) async fn events(
    calls: &LedgerCalls,
    request: &v1::ReadAllRequest,
    newness: Newness,
    direction: Direction,
    patience: Duration,
) -> Result<impl Stream<Item = Result<v1::Event, Problem>> + Send + use<>, Problem> {
    let (engine, name) = (&calls.engine, request.namespace.clone());
    let namespace = engine.namespace(&name).ok_or_else(|| unknown::namespace(engine, &name))?;
    let partitions: Vec<PartitionId> = namespace.partitions().collect();
    let end = last_entry(engine, &partitions, newness, patience).await?;
    let most = (AHEAD / partitions.len()).max(1);
    let part = (AHEAD_BYTES / partitions.len()).max(LEAST_PART);
    let mut lanes = Vec::new();
    for partition in partitions {
        // Whatever this node has is enough: everything up to the last entry that counts is applied by now.
        let options = ReadOptions { consistency: Consistency::Stale, patience };
        let view = engine.view(partition, options).await?;
        let Some(applied) = view.applied() else { continue };
        let from = request.from;
        let next = off_thread(move || start(&view, from, end, direction)).await?;
        let length = PageLength::first();
        let read = VecDeque::new();
        lanes.push(Lane { partition, applied, next, end, read, long: None, length, most, part });
    }
    let (wanted, unsent, engine) = (Wanted::of(request.limit), calls.unsent.clone(), engine.clone());
    let merge = Merge { engine, namespace: name, lanes, direction, wanted, patience, unsent, held: None };
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
        let one_more = self.room().await;
        for lane in &mut self.lanes {
            lane.fill(&self.engine, self.direction, self.patience).await?;
        }
        if let (None, Some(held)) = (&one_more, &mut self.held) {
            // Each is filled again before the others are empty.
            held.keep(self.lanes.iter().map(|lane| lane.part).sum());
        }
        let filled =
            self.lanes.iter_mut().filter_map(|lane| Some(((lane.next_index()?, lane.partition), lane)));
        let next = match self.direction {
            Direction::Forward => filled.min_by_key(|(key, _)| *key),
            Direction::Backward => filled.max_by_key(|(key, _)| *key),
        };
        let Some((_, lane)) = next else { return Ok(None) };
        let Some(stored) = lane.take(&self.engine, self.direction, self.patience).await? else {
            return Ok(None);
        };
        let event = event(&self.namespace, lane.partition, &stored)?;
        self.wanted = self.wanted.without(1);
        Ok(Some((event, self)))
    }

    /// Room for one more event; or for everything, if nothing is read ahead yet, or not any more: whoever waits has nothing.
    async fn room(&mut self) -> Option<Held> {
        if self.held.is_some() {
            let one_more = self.unsent.room_now(PAGE_BYTES);
            if one_more.is_some() {
                return one_more;
            }
            self.lanes.iter_mut().for_each(Lane::put_back);
            self.held = None;
        }
        let parts: usize = self.lanes.iter().map(|lane| lane.part).sum();
        self.held = Some(self.unsent.room(parts + PAGE_BYTES).await);
        None
    }
}

impl Lane {
    /// The entry of the next event.
    fn next_index(&self) -> Option<LogIndex> {
        let long = self.long.map(|long| long.index);
        long.or_else(|| self.read.front().map(|stored| stored.header().log_index))
    }

    /// Forgets what was read: it is read again.
    fn put_back(&mut self) {
        let long = self.long.take().map(|long| long.offset);
        self.next = long.or_else(|| self.read.front().map(StoredOutcome::offset)).or(self.next);
        self.read.clear();
    }

    /// The next event.
    async fn take(
        &mut self,
        engine: &Engine,
        direction: Direction,
        patience: Duration,
    ) -> Result<Option<StoredOutcome>, Problem> {
        let Some(long) = self.long.take() else { return Ok(self.read.pop_front()) };
        let view = self.view(engine, patience).await?;
        Ok(off_thread(move || Ok(view.outcomes(long.offset, 1, direction)?)).await?.pop())
    }

    async fn view(&self, engine: &Engine, patience: Duration) -> Result<View, Problem> {
        let options = ReadOptions { consistency: Consistency::AtLeast(self.applied), patience };
        Ok(engine.view(self.partition, options).await?)
    }

    /// Reads until there is an event, or nothing is left that counts.
    async fn fill(
        &mut self,
        engine: &Engine,
        direction: Direction,
        patience: Duration,
    ) -> Result<(), Problem> {
        while self.long.is_none() && self.read.is_empty() {
            let Some(from) = self.next else { return Ok(()) };
            let view = self.view(engine, patience).await?.with_bytes_at_once(self.part);
            let limit = self.length.get().min(self.most);
            let mut page = off_thread(move || Ok(view.outcomes(from, limit, direction)?)).await?;
            let bytes: usize = page.iter().map(|stored| stored.bytes().len()).sum();
            self.length = self.length.next(page.len(), bytes);
            if bytes > self.part && page.len() > 1 {
                // The last one is beyond what fits, and is read again with what follows it.
                page.pop();
            }
            let last = page.last().map(|last| (last.header().partition_offset, last.header().log_index));
            self.next =
                last.filter(|(_, index)| *index <= self.end).and_then(|(offset, _)| match direction {
                    Direction::Forward => offset.next().filter(|next| *next <= self.applied),
                    Direction::Backward => offset.previous(),
                });
            self.keep(&page);
        }
        Ok(())
    }

    /// Keeps of a page what counts, as far as it fits. What was read together with it is not kept for its sake.
    fn keep(&mut self, page: &[StoredOutcome]) {
        let counts = |stored: &&StoredOutcome| {
            let header = stored.header();
            header.kind == OutcomeKind::Event && header.log_index <= self.end
        };
        for stored in page.iter().filter(counts) {
            match stored.bytes().len() > self.part {
                // It was read alone.
                true => {
                    let index = stored.header().log_index;
                    self.long = Some(Long { index, offset: stored.offset() });
                }
                false => self.read.push_back(stored.apart()),
            }
        }
    }
}
