//! Work for workers: leases that are waited for, over all domains of a projection, and everything else a worker asks for.
//!
//! Whoever waits is woken when there is work, and is promised as much of it as nobody else was promised: only then it is asked for.
//!
//! Invariants
//! - What was granted to somebody who is gone, or is more than fits an answer, is given back at once.
//!
//! Must not know: how workers are reached.

use std::sync::Arc;
use std::time::Duration;

use gapless_projection::limits::{MAX_GRANTS, MAX_TTL_CAP_MS, MAX_WORKER_BYTES};
use gapless_projection::{Answer, Command, Done, Grant, Held, OpenEvent, Refusal};
use gapless_types::{PartitionIndex, WorkspaceId};
use tokio::sync::oneshot;

use super::answers::Told;
use super::asking::{ask, not_leading};
use super::error::ProjectionError;
use super::slot::{DomainSlot, DomainState};
use crate::engine::Engine;
use crate::node::Node;
use crate::retention::Domain;

/// How long the answer of a command that nobody can wait for less is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// First byte of what rules match: only the leader's own worker commits that.
const EXPLODED: u8 = 2;

/// What a worker asks for.
#[derive(Clone, Copy, Debug)]
pub struct LeaseRequest<'a> {
    /// Who asks.
    pub worker: &'a str,
    /// How many slots at most.
    pub max: u32,
    /// For how long; without it, as long as such work took lately.
    pub ttl: Option<Duration>,
    /// How long it is waited for that there is something.
    pub wait: Duration,
    /// Only of this partition.
    pub partition: Option<PartitionIndex>,
}

/// A slot that was granted.
#[derive(Clone, Debug)]
pub struct Leased {
    /// Whose slot it is.
    pub domain: Domain,
    /// The right to it.
    pub grant: Grant,
    /// The event it stands for; none if it was allocated.
    pub event: Option<OpenEvent>,
    /// For how long it was asked for, in milliseconds.
    pub ttl_ms: u64,
}

impl Engine {
    /// Waits for work: slots of one domain, at least one of them unless there is none for as long as was waited.
    ///
    /// # Errors
    /// If there is no such projection, its rules do the work, this node does not lead, or something is beyond a limit.
    pub async fn lease(
        &self,
        namespace: &str,
        projection: &str,
        request: LeaseRequest<'_>,
    ) -> Result<Vec<Leased>, ProjectionError> {
        let LeaseRequest { worker, max, ttl, wait, partition } = request;
        check_worker(worker)?;
        if max == 0 || max > MAX_GRANTS {
            return Err(ProjectionError::Invalid(format!(
                "a lease is of 1 to {MAX_GRANTS} slots, not {max}"
            )));
        }
        let node = self.node();
        let slots = node.projections.domains_of(node, namespace, projection)?;
        let slots: Vec<_> = match partition {
            None => slots,
            Some(index) => slots.into_iter().filter(|slot| slot.id.partition.index == index).collect(),
        };
        let Some(first) = slots.first() else { return Err(ProjectionError::Unknown) };
        if first.plan.has_rules() {
            return Err(ProjectionError::ComputedByRules);
        }
        let deadline = tokio::time::sleep(wait);
        tokio::pin!(deadline);
        let (mut work, mut leads, mut closing) =
            (first.work.subscribe(), node.leads.subscribe(), first.closing.subscribe());
        // Each begins elsewhere, so that no partition is always the last.
        let mut turn = node.projections.next_turn();
        loop {
            work.borrow_and_update();
            self.lead_or_fail().await?;
            for _ in 0..slots.len() {
                turn = turn.wrapping_add(1);
                let slot = &slots[usize::try_from(turn % slots.len() as u64).unwrap_or(0)];
                let leased = lease_from(node, slot, worker, max, ttl).await?;
                if !leased.is_empty() {
                    return Ok(leased);
                }
            }
            tokio::select! {
                biased;
                _ = closing.wait_for(|closing| *closing) => return Err(ProjectionError::Closing),
                _ = leads.wait_for(|leads| !*leads) => return Err(not_leading(node)),
                _ = work.changed() => {}
                () = &mut deadline => return Ok(Vec::new()),
            }
        }
    }

    /// Reserves a place behind all others, for work that has no event.
    ///
    /// # Errors
    /// If there is no such domain, this node does not lead, or something is beyond a limit. Refusals are answers.
    pub async fn allocate(
        &self,
        domain: &Domain,
        worker: &str,
        workspace: WorkspaceId,
        ttl: Option<Duration>,
        patience: Duration,
    ) -> Result<Result<Leased, Refusal>, ProjectionError> {
        check_worker(worker)?;
        self.lead_or_fail().await?;
        let node = self.node();
        let slot = node.projections.slot(domain).ok_or(ProjectionError::Unknown)?;
        let ttl_ms = ttl_ms(&slot, ttl);
        let command = Command::Allocate { worker, ttl_ms: signed(ttl_ms), workspace };
        let Told { answer, .. } = ask(node, &slot, &command, patience).await?;
        Ok(match answer.done {
            Done::Granted(grants) => match grants.first() {
                Some(grant) => Ok(Leased { domain: domain.clone(), grant: *grant, event: None, ttl_ms }),
                None => Err(Refusal::WindowFull),
            },
            Done::Refused(refusal) => Err(refusal),
            other => unreachable!("an allocation is granted or refused, not {other:?}"),
        })
    }

    /// Renews, commits, releases, fails or skips: through the log. Refusals are answers.
    ///
    /// # Errors
    /// If there is no such domain, this node does not lead, something is beyond a limit, or nothing is known of what became of it.
    pub async fn command(
        &self,
        domain: &Domain,
        command: &Command<'_>,
        patience: Duration,
    ) -> Result<Answer, ProjectionError> {
        let invalid = |what: &str| Err(ProjectionError::Invalid(what.to_owned()));
        match command {
            Command::Lease { .. } | Command::Allocate { .. } => {
                return invalid("leases are waited for another way");
            }
            Command::Tick | Command::LeaderChange => return invalid("only the leader lets time pass"),
            Command::Commit { part: 1, bytes: [EXPLODED, ..], .. } => {
                return invalid("only the leader's own worker commits what rules match");
            }
            Command::Renew { .. }
            | Command::Commit { .. }
            | Command::Release { .. }
            | Command::Fail { .. }
            | Command::Skip { .. } => {}
        }
        if let Err(malformed) = Command::decode(&command.to_bytes()) {
            return Err(ProjectionError::Invalid(malformed.0.to_owned()));
        }
        self.lead_or_fail().await?;
        let node = self.node();
        let slot = node.projections.slot(domain).ok_or(ProjectionError::Unknown)?;
        ask(node, &slot, command, patience).await.map(|told| told.answer)
    }

    /// A node that was elected answers as soon as it knows all that was decided before.
    async fn lead_or_fail(&self) -> Result<(), ProjectionError> {
        self.await_leading().await;
        if *self.node().leads.borrow() { Ok(()) } else { Err(not_leading(self.node())) }
    }
}

fn check_worker(worker: &str) -> Result<(), ProjectionError> {
    match worker.len() {
        1..=MAX_WORKER_BYTES => Ok(()),
        bytes => Err(ProjectionError::Invalid(format!(
            "the name of a worker has 1 to {MAX_WORKER_BYTES} bytes, not {bytes}"
        ))),
    }
}

fn ttl_ms(slot: &DomainSlot, ttl: Option<Duration>) -> u64 {
    let asked = ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
    asked.unwrap_or_else(|| slot.working.lease_ms()).min(MAX_TTL_CAP_MS)
}

fn signed(ttl_ms: u64) -> i64 {
    i64::try_from(ttl_ms).unwrap_or(i64::MAX)
}

/// Slots that nobody else was promised, as many as there are.
async fn lease_from(
    node: &Arc<Node>,
    slot: &Arc<DomainSlot>,
    worker: &str,
    max: u32,
    ttl: Option<Duration>,
) -> Result<Vec<Leased>, ProjectionError> {
    if *slot.state.borrow() != DomainState::Serving {
        return Ok(Vec::new());
    }
    let Some(promise) = Promise::of(slot, u64::from(max)) else { return Ok(Vec::new()) };
    let (ttl_ms, worker) = (ttl_ms(slot, ttl), worker.to_owned());
    let (reply, answer) = oneshot::channel();
    // On its own: if whoever asked goes away in between, somebody has to give back what was granted.
    let asking = {
        let (node, slot) = (node.clone(), slot.clone());
        async move {
            let max = u32::try_from(promise.slots).unwrap_or(u32::MAX);
            let command = Command::Lease { worker: &worker, ttl_ms: signed(ttl_ms), max };
            let told = ask(&node, &slot, &command, PATIENCE).await;
            drop(promise);
            if let Err(Ok(unclaimed)) = reply.send(told)
                && let Done::Granted(grants) = unclaimed.answer.done
            {
                give_back(&node, &slot, grants).await;
            }
        }
    };
    node.runtime.spawn(asking);
    let told = answer.await.map_err(|_| ProjectionError::Closing)??;
    let Done::Granted(mut grants) = told.answer.done else { return Ok(Vec::new()) };
    let too_many = grants.split_off(told.events.len());
    if !too_many.is_empty() {
        let (node, slot) = (node.clone(), slot.clone());
        node.runtime.clone().spawn(async move { give_back(&node, &slot, too_many).await });
    }
    let leased = grants.into_iter().zip(told.events).map(|(grant, event)| Leased {
        domain: slot.id.clone(),
        grant,
        event,
        ttl_ms,
    });
    Ok(leased.collect())
}

async fn give_back(node: &Arc<Node>, slot: &Arc<DomainSlot>, grants: Vec<Grant>) {
    for grant in grants {
        let held = Held { slot: grant.slot, token: grant.token };
        // If it cannot be, it expires.
        let _ = ask(node, slot, &Command::Release { held }, PATIENCE).await;
    }
}

/// Slots that will be asked for, and are promised to nobody else until this is dropped.
struct Promise {
    slot: Arc<DomainSlot>,
    slots: u64,
}

impl Promise {
    fn of(slot: &Arc<DomainSlot>, most: u64) -> Option<Self> {
        let grantable = slot.sight.borrow().map_or(0, |sight| sight.grantable);
        let slots = slot.working.promise(grantable, most);
        (slots > 0).then(|| Self { slot: slot.clone(), slots })
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.slot.working.end_promise(self.slots);
        // If not all were granted, somebody else can have them.
        if self.slot.sight.borrow().is_some_and(|sight| sight.grantable > 0) {
            self.slot.work.send_replace(());
        }
    }
}
