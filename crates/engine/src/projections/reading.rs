//! Reading projections: rows at a watermark as new as the reader asks for, and how every domain does.
//!
//! Must not know: what rows mean.

use std::sync::Arc;
use std::time::Duration;

use gapless_partition::Direction;
use gapless_projection::{Counters, Plan, Status, View, WaitError, Waiter};
use gapless_types::{LogIndex, Name, PartitionIndex, PartitionOffset};
use tokio::sync::watch;

use super::error::ProjectionError;
use super::slot::{DomainSlot, DomainState, Seen};
use crate::engine::Engine;
use crate::error::ReadError;
use crate::reads::wait_for_offset;
use crate::retention::Domain;

/// How new rows have to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Freshness {
    /// Every command that was answered before the call counts. Only the leader can say.
    #[default]
    Linearizable,
    /// Whatever this node has.
    Stale,
    /// Every event up to this place of the partition log is visible, or is not for the projection.
    AtLeast(PartitionOffset),
    /// Every slot up to this one is visible.
    Slot(u64),
}

/// How a domain does on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainReport {
    /// Which one.
    pub domain: Domain,
    /// How it does.
    pub state: DomainState,
    /// Where it stands; none before it was opened.
    pub status: Option<Status>,
    /// What happened in it so far.
    pub counters: Counters,
    /// Everything up to this entry was given to it.
    pub through: Option<LogIndex>,
    /// Entries that wait for it.
    pub queued: usize,
    /// Times that it was opened again after a failure.
    pub reopenings: u64,
}

/// A projection on this node.
#[derive(Clone, Debug)]
pub struct ProjectionReport {
    /// Its name.
    pub name: Name,
    /// Which one of this name it is.
    pub version: u32,
    /// The entry that made it.
    pub since: LogIndex,
    /// What it is like.
    pub plan: Arc<Plan>,
    /// Its domains, by partition.
    pub domains: Vec<DomainReport>,
}

impl Engine {
    /// All projections of a namespace, by name.
    ///
    /// # Errors
    /// If there is no such namespace.
    pub fn projections(&self, namespace: &str) -> Result<Vec<ProjectionReport>, ProjectionError> {
        let catalog = self.node().catalog();
        let namespace = catalog.by_name(namespace).ok_or(ProjectionError::Unknown)?;
        let report = |(name, projection): (&Name, &crate::catalog::Projection)| {
            let domains = namespace.domains_of(name, projection);
            let slots = domains.filter_map(|domain| self.node().projections.slot(&domain));
            ProjectionReport {
                name: name.clone(),
                version: projection.version,
                since: projection.since,
                plan: projection.plan.clone(),
                domains: slots.map(|slot| self.report_domain(&slot)).collect(),
            }
        };
        Ok(namespace.projections.iter().map(report).collect())
    }

    /// A projection by its name.
    ///
    /// # Errors
    /// If there is no such namespace or projection.
    pub fn projection(&self, namespace: &str, projection: &str) -> Result<ProjectionReport, ProjectionError> {
        let all = self.projections(namespace)?;
        all.into_iter().find(|report| report.name.as_str() == projection).ok_or(ProjectionError::Unknown)
    }

    /// The domain of a projection over a partition; the one over all of them has partition 0.
    ///
    /// # Errors
    /// If there is none.
    pub fn domain(
        &self,
        namespace: &str,
        projection: &str,
        partition: PartitionIndex,
    ) -> Result<Domain, ProjectionError> {
        let slots = self.node().projections.domains_of(self.node(), namespace, projection)?;
        let found = slots.iter().find(|slot| slot.id.partition.index == partition);
        found.map(|slot| slot.id.clone()).ok_or(ProjectionError::Unknown)
    }

    fn report_domain(&self, slot: &Arc<DomainSlot>) -> DomainReport {
        let Seen { status, counters } = slot.seen();
        DomainReport {
            domain: slot.id.clone(),
            state: slot.state.borrow().clone(),
            status,
            counters,
            through: slot.through(*self.node().dispatched.borrow()),
            queued: slot.queued(),
            reopenings: slot.reopenings.load(std::sync::atomic::Ordering::Relaxed),
        }
    }

    /// Rows and effects of a domain, at a watermark.
    ///
    /// # Errors
    /// If there is no such domain, or a view as new as asked for cannot be had.
    pub async fn projected(
        &self,
        domain: &Domain,
        freshness: Freshness,
        patience: Duration,
    ) -> Result<View, ProjectionError> {
        let mut slot = self.node().projections.slot(domain).ok_or(ProjectionError::Unknown)?;
        let view = async {
            loop {
                match self.view_of_domain(&slot, freshness).await {
                    Err(ProjectionError::Closing) => {
                        slot = self.moved_domain(&slot).await.ok_or(ProjectionError::Closing)?;
                    }
                    other => return other,
                }
            }
        };
        tokio::time::timeout(patience, view).await.unwrap_or(Err(ProjectionError::DeadlineExceeded))
    }

    /// The place that a domain has now, if it is another one: a snapshot was installed. One that is being installed is waited for.
    async fn moved_domain(&self, slot: &Arc<DomainSlot>) -> Option<Arc<DomainSlot>> {
        drop(self.node().taking.read().await);
        self.node().projections.slot(&slot.id).filter(|now| !Arc::ptr_eq(now, slot))
    }

    /// The watermark of a domain, for whoever wants to wait for it.
    ///
    /// # Errors
    /// If there is no such domain.
    pub fn watermark(&self, domain: &Domain) -> Result<Waiter, ProjectionError> {
        let slot = self.node().projections.slot(domain).ok_or(ProjectionError::Unknown)?;
        Ok(slot.progress.waiter())
    }

    /// Waits until a slot is resolved and visible. Which watermark it is then.
    ///
    /// # Errors
    /// If there is no such domain, or it was not reached in time.
    pub async fn wait_for_slot(
        &self,
        domain: &Domain,
        slot: u64,
        patience: Duration,
    ) -> Result<u64, ProjectionError> {
        let mut place = self.node().projections.slot(domain).ok_or(ProjectionError::Unknown)?;
        let deadline = tokio::time::Instant::now() + patience;
        loop {
            let mut waiter = place.progress.waiter();
            let closing = place.state.subscribe();
            let reached = waiter.reached(slot, until_closed(deadline, closing)).await;
            match reached {
                Ok(watermark) => return Ok(watermark),
                Err(WaitError::Deadline { .. }) if *place.state.borrow() != DomainState::Closed => {
                    return Err(ProjectionError::DeadlineExceeded);
                }
                Err(WaitError::Deadline { .. } | WaitError::Closed { .. }) => {
                    place = self.moved_domain(&place).await.ok_or(ProjectionError::Closing)?;
                }
            }
        }
    }

    async fn view_of_domain(
        &self,
        slot: &Arc<DomainSlot>,
        freshness: Freshness,
    ) -> Result<View, ProjectionError> {
        let mut least = match freshness {
            Freshness::Slot(least) => least,
            _ => 0,
        };
        match freshness {
            Freshness::Stale => {}
            Freshness::Linearizable => {
                let index = self.read_point().await.map_err(|error| read_error(slot, error))?;
                self.await_domain(slot, index, None).await?;
            }
            Freshness::AtLeast(offset) => {
                let index = self.index_of(slot, offset).await.map_err(|error| read_error(slot, error))?;
                least = self.await_domain(slot, index, Some(offset)).await?;
            }
            Freshness::Slot(_) => {
                let mut state = slot.state.subscribe();
                let closed = async {
                    let _ = state.wait_for(|state| *state == DomainState::Closed).await;
                };
                let reached = slot.progress.waiter().reached(least, closed).await;
                reached.map_err(|_| ProjectionError::Closing)?;
            }
        }
        loop {
            let view = self.view_of_slot(slot).await?;
            // One that failed in between and was opened again may have less, until it has caught up.
            if view.watermark() >= least {
                return Ok(view);
            }
            let (mut sight, mut state) = (slot.sight.subscribe(), slot.state.subscribe());
            tokio::select! {
                _ = sight.wait_for(|sight| sight.is_some_and(|sight| sight.watermark >= least)) => {}
                _ = state.wait_for(|state| *state == DomainState::Closed) => return Err(ProjectionError::Closing),
            }
        }
    }

    /// Where the record of an outcome stands in the replicated log.
    async fn index_of(&self, slot: &DomainSlot, offset: PartitionOffset) -> Result<LogIndex, ReadError> {
        let of = self.node().slot(slot.id.partition).ok_or(ReadError::Unknown)?;
        wait_for_offset(&of, offset).await?;
        let view = self.node().view_now(&of).await?;
        let read = self.node().workers.run(move || view.outcomes(offset, 1, Direction::Forward)).await?;
        let outcome = read.into_iter().next().filter(|outcome| outcome.offset() == offset);
        outcome.map(|outcome| outcome.header().log_index).ok_or(ReadError::Closing)
    }

    /// Waits until a domain has been given everything up to an entry, and shows what follows from an event. Its watermark then.
    async fn await_domain(
        &self,
        slot: &DomainSlot,
        index: LogIndex,
        shown: Option<PartitionOffset>,
    ) -> Result<u64, ProjectionError> {
        let (mut sight, mut state) = (slot.sight.subscribe(), slot.state.subscribe());
        let mut dispatched = self.node().dispatched.subscribe();
        loop {
            let dispatched_now = *dispatched.borrow_and_update();
            let state_now = state.borrow_and_update().clone();
            let seen = *sight.borrow_and_update();
            let shows = |offset| seen.is_some_and(|sight| sight.shows(offset));
            if slot.through(dispatched_now) >= Some(index) && shown.is_none_or(shows) {
                return Ok(seen.map_or(0, |sight| sight.watermark));
            }
            match state_now {
                DomainState::Closed => return Err(ProjectionError::Closing),
                DomainState::Quarantined(reason) => {
                    return Err(ProjectionError::NotOpen { domain: slot.id.clone(), reason });
                }
                _ => {}
            }
            tokio::select! {
                changed = sight.changed() => changed.map_err(|_| ProjectionError::Closing)?,
                changed = state.changed() => changed.map_err(|_| ProjectionError::Closing)?,
                changed = dispatched.changed() => changed.map_err(|_| ProjectionError::Closing)?,
            }
        }
    }

    async fn view_of_slot(&self, slot: &Arc<DomainSlot>) -> Result<View, ProjectionError> {
        let turn = slot.reader().await;
        let job = {
            let slot = slot.clone();
            move || {
                let _turn = turn;
                slot.domain().as_ref().map(gapless_projection::Domain::view)
            }
        };
        self.node().workers.run(job).await.ok_or_else(|| match &*slot.state.borrow() {
            DomainState::Failed(reason) | DomainState::Quarantined(reason) => {
                ProjectionError::NotOpen { domain: slot.id.clone(), reason: reason.clone() }
            }
            DomainState::Closed => ProjectionError::Closing,
            _ => ProjectionError::NotOpen { domain: slot.id.clone(), reason: "it is being opened".into() },
        })
    }
}

/// Ends at a deadline, or when a domain is closed.
async fn until_closed(deadline: tokio::time::Instant, mut state: watch::Receiver<DomainState>) {
    tokio::select! {
        () = tokio::time::sleep_until(deadline) => {}
        _ = state.wait_for(|state| *state == DomainState::Closed) => {}
    }
}

fn read_error(slot: &DomainSlot, error: ReadError) -> ProjectionError {
    match error {
        ReadError::NotLeader(not_leader) => ProjectionError::NotLeader(not_leader),
        ReadError::Closing => ProjectionError::Closing,
        ReadError::Stopped { reason } => ProjectionError::Stopped { reason },
        ReadError::Unknown => ProjectionError::Unknown,
        other => ProjectionError::NotOpen { domain: slot.id.clone(), reason: other.to_string().into() },
    }
}
