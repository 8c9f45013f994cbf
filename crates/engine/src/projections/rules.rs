//! The leader's own worker: it computes what rules say, on the same path as every other worker.
//!
//! It leases what is ready, looks which rows each rule matches in the read model as it is, and commits that. Which rows really match
//! when a slot's turn comes is corrected by the domain. Its name is the same on every node: a new leader goes on with the leases of the
//! one before, since it computes from the same state.
//!
//! Must not know: how rules are evaluated.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};
use gapless_projection::limits::{MAX_ERROR_BYTES, MAX_PART_BYTES, MAX_PARTS};
use gapless_projection::{Command, Done, ExplodeError, Held, Payload};

use super::ProjectionError;
use super::asking::ask;
use super::slot::{DomainSlot, DomainState};
use crate::node::Node;

/// What this worker is called.
pub(super) const WORKER: &str = "rules";
/// How long its leases last, in milliseconds.
const TTL_MS: i64 = 30_000;
/// Slots that it leases at once.
const SLOTS: u64 = 256;
/// Batches that it has at work at once: while one is committed, the next is computed.
const BATCHES: usize = 4;
/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long it rests after something went wrong.
const REST: Duration = Duration::from_millis(100);

/// Computes until the domain closes.
pub(super) async fn run(node: Arc<Node>, slot: Arc<DomainSlot>) {
    let mut closing = slot.closing.subscribe();
    let working = async {
        loop {
            await_leadership(&node, &slot).await;
            if lead(&node, &slot).await.is_err() {
                tokio::time::sleep(REST).await;
            }
        }
    };
    tokio::select! {
        biased;
        _ = closing.wait_for(|closing| *closing) => {}
        () = working => {}
    }
}

/// Ends when this node leads and the domain has caught up.
async fn await_leadership(node: &Node, slot: &DomainSlot) {
    let (mut leads, mut state) = (node.leads.subscribe(), slot.state.subscribe());
    loop {
        let _ = leads.wait_for(|leads| *leads).await;
        let _ = state.wait_for(|state| *state == DomainState::Serving).await;
        if *leads.borrow() {
            return;
        }
    }
}

/// Works as long as this node leads.
async fn lead(node: &Arc<Node>, slot: &Arc<DomainSlot>) -> Result<(), ProjectionError> {
    let held = {
        let slot = slot.clone();
        node.workers.run(move || slot.domain().as_ref().map(|domain| domain.leases_of(WORKER))).await
    };
    compute(node.clone(), slot.clone(), held.unwrap_or_default()).await?;
    let (mut work, mut leads) = (slot.work.subscribe(), node.leads.subscribe());
    let mut batches = FuturesUnordered::new();
    loop {
        work.borrow_and_update();
        let grantable = slot.sight.borrow().map_or(0, |sight| sight.grantable);
        let promised = if batches.len() < BATCHES { slot.working.promise(grantable, SLOTS) } else { 0 };
        if promised == 0 {
            tokio::select! {
                biased;
                Some(done) = batches.next(), if !batches.is_empty() => done?,
                // Whoever leads in between may have leased something that is to be gone on with.
                _ = leads.wait_for(|leads| !*leads) => return Ok(()),
                _ = work.changed(), if batches.len() < BATCHES => {}
            }
            continue;
        }
        let max = u32::try_from(promised).unwrap_or(u32::MAX);
        let command = Command::Lease { worker: WORKER, ttl_ms: TTL_MS, max };
        let told = ask(node, slot, &command, PATIENCE).await;
        slot.working.end_promise(promised);
        if let Done::Granted(grants) = told?.answer.done {
            let held = grants.iter().map(|grant| Held { slot: grant.slot, token: grant.token }).collect();
            batches.push(compute(node.clone(), slot.clone(), held));
        }
    }
}

/// What is done with a slot.
enum Verdict {
    Commit(Held, Vec<u8>),
    Fail(Held, String),
    /// Somebody else has resolved it.
    Leave,
}

/// Computes slots and commits them.
async fn compute(node: Arc<Node>, slot: Arc<DomainSlot>, held: Vec<Held>) -> Result<(), ProjectionError> {
    if held.is_empty() {
        return Ok(());
    }
    let job = {
        let slot = slot.clone();
        move || {
            let Some(view) = slot.domain().as_ref().map(gapless_projection::Domain::view) else {
                return Vec::new();
            };
            held.into_iter().map(|held| explode(&view, held)).collect::<Vec<_>>()
        }
    };
    let verdicts = node.workers.run(job).await;
    let done = join_all(verdicts.into_iter().map(|verdict| settle(&node, &slot, verdict))).await;
    done.into_iter().collect()
}

fn explode(view: &gapless_projection::View, held: Held) -> Verdict {
    match view.explode(held.slot) {
        Ok(exploded) => {
            let payload = Payload::Exploded { read_watermark: view.watermark(), exploded };
            Verdict::Commit(held, payload.to_bytes())
        }
        Err(ExplodeError::Refused(_)) => Verdict::Leave,
        // The store fails for everybody: the domain is opened again, and so is the lease granted again.
        Err(ExplodeError::Fault(_)) => Verdict::Leave,
        Err(ExplodeError::Evaluation(error)) => Verdict::Fail(held, error.to_string()),
    }
}

async fn settle(node: &Arc<Node>, slot: &Arc<DomainSlot>, verdict: Verdict) -> Result<(), ProjectionError> {
    match verdict {
        Verdict::Leave => Ok(()),
        Verdict::Fail(held, error) => fail(node, slot, held, &error).await,
        Verdict::Commit(held, bytes) => {
            let parts = bytes.len().div_ceil(MAX_PART_BYTES);
            if parts > MAX_PARTS as usize {
                return fail(node, slot, held, "the rule matches more rows than one slot can change").await;
            }
            for (part, bytes) in (1..).zip(bytes.chunks(MAX_PART_BYTES)) {
                let is_last = part as usize == parts;
                let told = ask(node, slot, &Command::Commit { held, part, is_last, bytes }, PATIENCE).await?;
                if matches!(told.answer.done, Done::Refused(_)) {
                    break;
                }
            }
            Ok(())
        }
    }
}

async fn fail(
    node: &Arc<Node>,
    slot: &Arc<DomainSlot>,
    held: Held,
    error: &str,
) -> Result<(), ProjectionError> {
    let error = &error[..error.floor_char_boundary(MAX_ERROR_BYTES)];
    ask(node, slot, &Command::Fail { held, error }, PATIENCE).await.map(|_| ())
}
