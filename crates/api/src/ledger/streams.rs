//! Reading rows of events and outcomes, and following them. Whoever reads slowly is waited for; nothing is read far ahead of him.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use gapless_engine::partition::{Direction, StoredOutcome, View};
use gapless_engine::types::{LogIndex, PartitionId, PartitionOffset, WorkspaceId, WorkspaceOffset};
use gapless_engine::{Consistency, Engine, Follow, Followed, ReadError, ReadOptions, Subscription};

use super::LedgerCalls;
use crate::check::Check;
use crate::event::{event, outcome};
use crate::paging::{AHEAD_BYTES, PAGE_BYTES, PageLength, Wanted};
use crate::problem::Problem;
use crate::read_all;
use crate::reading::{Found, Newness, Question, off_thread, partition_at, partition_of, view};
use crate::unknown;
use crate::unsent::{Held, Unsent};
use crate::v1;

/// What a server sends one by one.
pub type Answers<T> = BoxStream<'static, Result<T, Problem>>;

impl LedgerCalls {
    /// The events of a workspace, as they are now.
    ///
    /// # Errors
    /// If they cannot be read.
    pub async fn read_workspace(
        &self,
        request: v1::ReadWorkspaceRequest,
        patience: Duration,
    ) -> Result<Answers<v1::ReadWorkspaceResponse>, Problem> {
        let mut question = Question::about(&request.namespace, request.workspace, request.options.as_ref());
        let direction = direction(request.direction, &mut question.check);
        let (found, view) = question.view(&self.engine, patience).await?;
        let workspace = WorkspaceId::new(request.workspace);
        let (view, last) = off_thread(move || {
            let last = view.workspace(workspace)?.map(|workspace| workspace.last_offset.get());
            Ok((view, last))
        })
        .await?;
        let row =
            Row { partition: found.partition, kind: RowKind::Workspace(workspace), direction, patience };
        let rows = self.rows(row, view.applied(), request.from, last, request.limit);
        let answer = move |stored: StoredOutcome| {
            let event = event(&found.name, found.partition, &stored)?;
            Ok(v1::ReadWorkspaceResponse { event: Some(event) })
        };
        Ok(rows.map(move |stored| stored.and_then(&answer)).boxed())
    }

    /// Every outcome of a partition, as they are now.
    ///
    /// # Errors
    /// If they cannot be read.
    pub async fn read_partition(
        &self,
        request: v1::ReadPartitionRequest,
        patience: Duration,
    ) -> Result<Answers<v1::ReadPartitionResponse>, Problem> {
        let mut check = Check::default();
        check.name("namespace", &request.namespace);
        let newness = Newness::of(request.options.as_ref(), &mut check);
        let direction = direction(request.direction, &mut check);
        let index = check.partition("partition", request.partition);
        check.end()?;
        let found = partition_at(&self.engine, &request.namespace, index)?;
        let view = view(&self.engine, found.partition, newness, patience).await?;
        let last = view.applied();
        let row = Row { partition: found.partition, kind: RowKind::Partition, direction, patience };
        let end = last.map(PartitionOffset::get);
        let rows = self.rows(row, last, request.from, end, request.limit);
        let answer = move |stored: StoredOutcome| {
            let outcome = outcome(&found.name, found.partition, &stored)?;
            Ok(v1::ReadPartitionResponse { outcome: Some(outcome) })
        };
        Ok(rows.map(move |stored| stored.and_then(&answer)).boxed())
    }

    /// The events of a namespace, as they are now, in the order of the replicated log.
    ///
    /// # Errors
    /// If they cannot be read.
    pub async fn read_all(
        &self,
        request: v1::ReadAllRequest,
        patience: Duration,
    ) -> Result<Answers<v1::ReadAllResponse>, Problem> {
        let mut check = Check::default();
        check.name("namespace", &request.namespace);
        let newness = Newness::of(request.options.as_ref(), &mut check);
        if newness.has_least() {
            check.add("options.min_partition_offset", "is a place in one partition, and this reads all");
        }
        let direction = direction(request.direction, &mut check);
        check.end()?;
        let events = read_all::events(self, &request, newness, direction, patience).await?;
        Ok(events.map_ok(|event| v1::ReadAllResponse { event: Some(event) }).boxed())
    }

    /// What happened from a place on, then what happens.
    ///
    /// # Errors
    /// If what is to be followed does not exist.
    pub fn subscribe(
        &self,
        request: &v1::SubscribeRequest,
    ) -> Result<Answers<v1::SubscribeResponse>, Problem> {
        use v1::subscribe_request::What;
        use v1::subscribe_response::Item;
        let mut check = Check::default();
        check.name("namespace", &request.namespace);
        let index = match request.what {
            Some(What::Partition(index)) => check.partition("partition", index),
            None | Some(What::All(false)) => {
                check.add("what", "set one of workspace, partition and all");
                check.partition("partition", 0)
            }
            _ => check.partition("partition", 0),
        };
        check.end()?;
        let (engine, name) = (&self.engine, request.namespace.as_str());
        let from = request.from.max(1);
        let (follow, found, outcomes) = match request.what {
            Some(What::Workspace(workspace)) => {
                let found = partition_of(engine, name, workspace)?;
                let from = WorkspaceOffset::new(from).unwrap_or(WorkspaceOffset::FIRST);
                (Follow::Workspace(found.partition, WorkspaceId::new(workspace), from), found, false)
            }
            Some(What::Partition(_)) => {
                let found = partition_at(engine, name, index)?;
                let from = PartitionOffset::new(from).unwrap_or(PartitionOffset::FIRST);
                (Follow::Partition(found.partition, from), found, true)
            }
            _ => {
                let found = partition_at(engine, name, index)?;
                (Follow::Namespace(found.partition.namespace, LogIndex::new(request.from)), found, false)
            }
        };
        let subscription = engine.follow(follow)?;
        let Found { name, partition } = found;
        let following = Following { subscription, unsent: self.unsent.clone(), held: None };
        let following = (following, engine.clone(), name.clone());
        let items = stream::try_unfold(following, move |(mut following, engine, name)| async move {
            let followed = following.next().await;
            let followed = followed.map_err(|error| ended(&engine, &name, partition, error))?;
            Ok(Some((followed, (following, engine, name))))
        });
        let answer = move |followed: Followed| {
            let (partition, stored) = (followed.partition, &followed.outcome);
            let item = if outcomes {
                Item::Outcome(outcome(&name, partition, stored)?)
            } else {
                Item::Event(event(&name, partition, stored)?)
            };
            Ok(v1::SubscribeResponse { item: Some(item) })
        };
        Ok(items.map(move |followed| followed.and_then(&answer)).boxed())
    }

    /// A row, page by page. Between pages nothing is held that a checkpoint would have to keep; no page ends behind `last`, which
    /// was the last one when the reading began.
    fn rows(
        &self,
        row: Row,
        applied: Option<PartitionOffset>,
        from: u64,
        last: Option<u64>,
        limit: u64,
    ) -> BoxStream<'static, Result<StoredOutcome, Problem>> {
        let (Some(applied), Some(last)) = (applied, last) else { return stream::empty().boxed() };
        let next = match (row.direction, from) {
            (Direction::Forward, from) => Some(from.max(1)).filter(|from| *from <= last),
            (Direction::Backward, 0) => Some(last),
            (Direction::Backward, from) => Some(from.min(last)),
        };
        let (wanted, length) = (Wanted::of(limit), PageLength::first());
        let (engine, unsent) = (self.engine.clone(), self.unsent.clone());
        let read = VecDeque::new();
        let reading = Reading { engine, unsent, row, applied, next, last, wanted, length, read, held: None };
        stream::try_unfold(reading, |reading| async move { reading.next().await }).boxed()
    }
}

/// Somebody who follows.
struct Following {
    subscription: Subscription,
    unsent: Unsent,
    /// Room for what the subscription has read.
    held: Option<Held>,
}

impl Following {
    /// The next thing that happened. Whoever waits until something happens takes no room.
    async fn next(&mut self) -> Result<Followed, ReadError> {
        let mut watch = None;
        loop {
            let mut was_ahead = self.subscription.is_ahead();
            let mut one_more = None;
            if was_ahead && self.subscription.is_merged() {
                one_more = self.unsent.room_now(PAGE_BYTES);
                if one_more.is_none() {
                    // Whoever waits has nothing.
                    self.subscription.put_back();
                    self.held = None;
                    was_ahead = false;
                }
            }
            if self.held.is_none() {
                self.held = Some(self.unsent.room(self.subscription.most_bytes()).await);
            }
            let found = self.subscription.try_next().await?;
            self.keep(was_ahead);
            drop(one_more);
            match (found, watch.take()) {
                (Some(found), _) => return Ok(found),
                // Looked once more after watching began, so that nothing falls between the two.
                (None, None) => watch = Some(self.subscription.watch()),
                (None, Some(changed)) => changed.await,
            }
        }
    }

    /// Gives back what is not needed until everything that was read is handed out.
    fn keep(&mut self, was_ahead: bool) {
        if !self.subscription.is_ahead() {
            self.held = None;
        } else if let (false, Some(held)) = (was_ahead, &mut self.held) {
            held.keep(self.subscription.bytes_ahead());
        }
    }
}

/// Why following ended. Partitions close when the node stops, and when their namespace is dropped: then nobody should come back.
fn ended(engine: &Engine, name: &str, partition: PartitionId, error: ReadError) -> Problem {
    // Another one of that name is another one.
    let is_there = || engine.namespace(name).is_some_and(|found| found.id == partition.namespace);
    match error {
        ReadError::Closing if !is_there() => unknown::namespace(engine, name),
        error => error.into(),
    }
}

fn direction(direction: i32, check: &mut Check) -> Direction {
    match v1::Direction::try_from(direction) {
        Ok(v1::Direction::Unspecified | v1::Direction::Forward) => Direction::Forward,
        Ok(v1::Direction::Backward) => Direction::Backward,
        Err(_) => {
            check.add("direction", format_args!("{direction} is not known here"));
            Direction::Forward
        }
    }
}

/// Which row is read.
#[derive(Clone, Copy, Debug)]
struct Row {
    partition: PartitionId,
    kind: RowKind,
    direction: Direction,
    patience: Duration,
}

#[derive(Clone, Copy, Debug)]
enum RowKind {
    Workspace(WorkspaceId),
    Partition,
}

struct Reading {
    engine: Engine,
    unsent: Unsent,
    row: Row,
    applied: PartitionOffset,
    next: Option<u64>,
    last: u64,
    wanted: Wanted,
    length: PageLength,
    read: VecDeque<StoredOutcome>,
    /// Room for what was read.
    held: Option<Held>,
}

impl Reading {
    async fn next(mut self) -> Result<Option<(StoredOutcome, Self)>, Problem> {
        if self.read.is_empty() {
            self.page().await?;
        }
        let next = self.read.pop_front();
        if self.read.is_empty() {
            self.held = None;
        }
        Ok(next.map(|next| (next, self)))
    }

    async fn page(&mut self) -> Result<(), Problem> {
        let Some(from) = self.next.filter(|_| !self.wanted.is_over()) else { return Ok(()) };
        let mut held = self.unsent.room(PAGE_BYTES).await;
        let options =
            ReadOptions { consistency: Consistency::AtLeast(self.applied), patience: self.row.patience };
        let view = self.engine.view(self.row.partition, options).await?;
        let wanted = self.wanted.of_page(self.length);
        let most = usize::try_from(self.last - from + 1).unwrap_or(usize::MAX);
        let limit = if self.row.direction == Direction::Forward { wanted.min(most) } else { wanted };
        let row = self.row;
        let page = off_thread(move || read(&view.with_bytes_at_once(AHEAD_BYTES), row, from, limit)).await?;
        let bytes = page.iter().map(|stored| stored.bytes().len()).sum();
        held.keep(bytes);
        self.held = Some(held);
        self.next = match row.direction {
            _ if page.is_empty() => None,
            Direction::Forward => from.checked_add(page.len() as u64).filter(|next| *next <= self.last),
            Direction::Backward => from.checked_sub(page.len() as u64).filter(|next| *next > 0),
        };
        self.wanted = self.wanted.without(page.len());
        self.length = self.length.next(page.len(), bytes);
        self.read = page.into();
        Ok(())
    }
}

fn read(view: &View, row: Row, from: u64, limit: usize) -> Result<Vec<StoredOutcome>, Problem> {
    let found = match row.kind {
        RowKind::Workspace(workspace) => {
            let from = WorkspaceOffset::new(from).unwrap_or(WorkspaceOffset::FIRST);
            view.events(workspace, from, limit, row.direction)?
        }
        RowKind::Partition => {
            let from = PartitionOffset::new(from).unwrap_or(PartitionOffset::FIRST);
            view.outcomes(from, limit, row.direction)?
        }
    };
    // What was read together with them is not kept for their sake.
    Ok(found.iter().map(StoredOutcome::apart).collect())
}
