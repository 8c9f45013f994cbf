//! The task of one domain: it takes what is next and has it applied, one slice at a time.
//!
//! ```text
//!  opening ──▶ filling ──▶ catching up ──▶ serving       failed: opened again after a while, and read on from the replicated log
//!     ▲                         ▲             │          quarantined: stays as it is until somebody repaired it
//!     └──────── failed ─────────┴─────────────┴──▶ quarantined ──▶ closed
//! ```
//!
//! Invariants
//! - One apply is in flight per domain; domains do not wait for each other (ISO-1).
//! - LOG-2: a checkpoint holds nothing that is not on stable storage: everything it follows from was dispatched (WM-1).
//!
//! Must not know: other domains, who waits for answers.

use std::sync::Arc;

use gapless_consensus::{CommittedBody, EntriesError};
use gapless_projection::{CheckpointFailed, Domain};
use gapless_types::LogIndex;

use super::applying::{self, Applying};
use super::feed::Feed;
use super::slot::{DomainSlot, DomainState, ImageRequest, Step};
use super::{filling, rules, ticking};
use crate::entry::{Entry, NotApplied};
use crate::node::Node;
use crate::removal;
use crate::worker::with_causes;

/// Bytes of entries that are read at once.
const CATCH_UP_BYTES: u64 = 4 << 20;

/// Why serving ended.
#[derive(Debug)]
pub(super) enum End {
    Closing,
    Failed(String),
    Quarantined(String),
}

/// Starts the tasks of a domain.
pub(crate) fn start(node: &Arc<Node>, slot: &Arc<DomainSlot>) {
    let runtime = &node.runtime;
    runtime.spawn({
        let (node, slot) = (node.clone(), slot.clone());
        async move { drive(&node, &slot).await }
    });
    runtime.spawn(ticking::run(node.clone(), slot.clone()));
    if slot.plan.has_rules() {
        runtime.spawn(rules::run(node.clone(), slot.clone()));
    }
}

/// Says that a domain is closed when its task ends, also if it panicked: nobody waits for it for ever.
struct Ending<'a>(&'a Node, &'a DomainSlot);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let Self(node, slot) = self;
        if std::thread::panicking() {
            node.alarm(format!("{} broke an invariant and stays closed", slot.id));
        } else {
            slot.drop_images();
        }
        node.projections.answers.give_up(&slot.id);
        slot.state.send_replace(DomainState::Closed);
        // The other tasks of the domain end with it.
        slot.close();
    }
}

async fn drive(node: &Arc<Node>, slot: &Arc<DomainSlot>) {
    let _ending = Ending(node, slot);
    if await_catalog(node, slot).await {
        serve_until_closed(node, slot).await;
        close(node, slot).await;
    }
    if slot.is_removed() {
        remove(node, slot).await;
    }
}

async fn serve_until_closed(node: &Arc<Node>, slot: &Arc<DomainSlot>) {
    loop {
        let end = match serve(node, slot).await {
            Ok(()) => End::Closing,
            Err(end) => end,
        };
        match end {
            End::Closing => return,
            End::Quarantined(reason) => {
                node.alarm(format!("{} is quarantined: {reason}", slot.id));
                slot.state.send_replace(DomainState::Quarantined(reason.into()));
                give_up(node, slot).await;
                return;
            }
            End::Failed(reason) => {
                node.alarm(format!("{} has failed: {reason}", slot.id));
                slot.state.send_replace(DomainState::Failed(reason.into()));
                let mut closing = slot.closing.subscribe();
                let closed = closing.wait_for(|closing| *closing);
                if tokio::time::timeout(node.reopen_delay, closed).await.is_ok() {
                    return;
                }
                slot.count_reopening();
            }
        }
    }
}

/// Nothing is applied here any more until the node is opened again.
async fn give_up(node: &Node, slot: &DomainSlot) {
    let mut closing = slot.closing.subscribe();
    loop {
        slot.detach_from(LogIndex::MAX);
        node.projections.answers.give_up(&slot.id);
        tokio::select! {
            _ = closing.wait_for(|closing| *closing) => return,
            () = slot.wake.notified() => {}
        }
    }
}

/// A domain makes its directory after the catalog that names it is on disk. Whether it is.
async fn await_catalog(node: &Node, slot: &DomainSlot) -> bool {
    let (mut durable, mut closing) = (node.durable.subscribe(), slot.closing.subscribe());
    tokio::select! {
        named = durable.wait_for(|durable| durable.catalog.has_domain(&slot.id)) => named.is_ok(),
        _ = closing.wait_for(|closing| *closing) => false,
    }
}

/// Opens and serves; ends well when the domain is closing.
async fn serve(node: &Arc<Node>, slot: &Arc<DomainSlot>) -> Result<(), End> {
    slot.state.send_replace(DomainState::Opening);
    let job = {
        let (node, slot) = (node.clone(), slot.clone());
        move || open(&node, &slot)
    };
    node.workers.run(job).await?;
    filling::fill(node, slot).await?;
    // In the order of the log a domain comes behind its partitions: that it catches up is told once they are done.
    slot.state.send_replace(DomainState::CatchingUp);
    loop {
        if slot.is_closing() {
            return Ok(());
        }
        match slot.next_step() {
            Step::Idle => slot.wake.notified().await,
            Step::Apply(slice) => apply(node, slot, slice).await?,
            Step::CatchUp(from) => catch_up(node, slot, from).await?,
            Step::Checkpoint => run_checkpoint(node, slot).await?,
            Step::Image(request) => take_image(node, slot, request).await?,
        }
    }
}

fn open(node: &Node, slot: &DomainSlot) -> Result<(), End> {
    // An earlier one lets go of its files first.
    drop(slot.domain().take());
    let options = &node.partition_options;
    let opened = Domain::open(
        node.io.clone(),
        slot.dir.clone(),
        slot.plan.definition(),
        options.store,
        &options.budget,
    );
    let mut domain = opened.map_err(|error| match error.is_damage() {
        true => End::Quarantined(with_causes(&error)),
        false => End::Failed(with_causes(&error)),
    })?;
    // What the catalog on disk says by now, also of one that is opened again: the log may be cut up to there.
    let said = node.durable.borrow().domains.get(&slot.id).copied();
    let floor = said.map_or(slot.floor, |said| said.max(slot.floor));
    let begun = domain.next_entry() > slot.since;
    if begun {
        // What it does not need, it has passed.
        if let Some(last) = floor.previous() {
            domain.passed(last);
        }
    }
    slot.detach_from(domain.next_entry().max(floor));
    slot.set_checkpointed(domain.checkpointed_entry());
    slot.publish(&domain);
    *slot.domain() = Some(domain);
    Ok(())
}

/// Applies what came, when the partitions have decided it.
pub(super) async fn apply(node: &Arc<Node>, slot: &Arc<DomainSlot>, slice: Vec<Feed>) -> Result<(), End> {
    let Some(applying) = Applying::prepare(node, slot, slice).await? else { return Ok(()) };
    let job = {
        let (node, slot) = (node.clone(), slot.clone());
        move || applying::apply(&node, &slot, applying)
    };
    let (told, end) = node.workers.run(job).await;
    node.projections.answers.tell(told);
    end
}

/// Reads what the queue does not have from the replicated log.
async fn catch_up(node: &Arc<Node>, slot: &Arc<DomainSlot>, from: LogIndex) -> Result<(), End> {
    let dispatched = *node.dispatched.borrow();
    if dispatched < Some(from) {
        return attach_or_wait(node, slot, from).await;
    }
    // Nor beyond an image. One that is asked for now is not in front of `dispatched`.
    let last = dispatched.min(slot.next_image().or(dispatched));
    let end = last.and_then(LogIndex::next).unwrap_or(LogIndex::MAX);
    let mut closing = slot.closing.subscribe();
    let replicator = tokio::select! {
        replicator = node.await_replicator() => replicator,
        _ = closing.wait_for(|closing| *closing) => return Ok(()),
    };
    let entries = match replicator.entries(from, end, CATCH_UP_BYTES).await {
        Ok(entries) => entries,
        Err(EntriesError::NotYet(_)) => Vec::new(),
        Err(error) => return Err(End::Failed(with_causes(&error))),
    };
    let Some(last) = entries.last().map(|entry| entry.index) else {
        return attach_or_wait(node, slot, from).await;
    };
    let mut slice = Vec::new();
    for entry in entries {
        let feed = match entry.body {
            CommittedBody::Entry(bytes) => match Entry::of_group(node.group, node.known_version, &bytes) {
                Ok(decoded) => Feed::of(entry.index, &decoded, &slot.id, &slot.partitions),
                // Every replica passes over it alike.
                Err(NotApplied::PassedOver(_)) => continue,
                Err(error @ NotApplied::TooNew(_)) => return Err(End::Failed(error.to_string())),
            },
            CommittedBody::Blank | CommittedBody::Members(_) => continue,
        };
        if !feed.inputs.is_empty() {
            slice.push(feed);
        }
    }
    if !slice.is_empty() {
        slot.set_dirty();
        apply(node, slot, slice).await?;
    }
    pass(node, slot, last).await;
    attach(node, slot, last);
    Ok(())
}

/// Everything up to this entry was given.
async fn pass(node: &Arc<Node>, slot: &Arc<DomainSlot>, last: LogIndex) {
    let job = {
        let slot = slot.clone();
        move || {
            if let Some(domain) = slot.domain().as_mut() {
                domain.passed(last);
                slot.publish(domain);
            }
        }
    };
    node.workers.run(job).await;
}

fn attach(node: &Node, slot: &DomainSlot, read: LogIndex) -> bool {
    // While the core is locked, nothing is dispatched: what is announced from now on finds the domain attached.
    let _core = node.core();
    let attached = slot.caught_up(read, node.announced());
    if attached {
        slot.state.send_replace(DomainState::Serving);
        // Whoever waits for work was told of it while nothing could be had.
        slot.work.send_replace(());
    }
    attached
}

async fn attach_or_wait(node: &Arc<Node>, slot: &Arc<DomainSlot>, from: LogIndex) -> Result<(), End> {
    let mut dispatched = node.dispatched.subscribe();
    if from.previous().is_some_and(|read| attach(node, slot, read)) {
        return Ok(());
    }
    let mut closing = slot.closing.subscribe();
    tokio::select! {
        _ = dispatched.wait_for(|dispatched| *dispatched >= Some(from)) => {}
        () = slot.wake.notified() => {}
        _ = closing.wait_for(|closing| *closing) => {}
    }
    Ok(())
}

pub(super) async fn run_checkpoint(node: &Arc<Node>, slot: &Arc<DomainSlot>) -> Result<(), End> {
    let job = {
        let (node, slot) = (node.clone(), slot.clone());
        move || checkpoint(&node, &slot)
    };
    node.workers.run(job).await?;
    node.keeper.notify_one();
    Ok(())
}

fn checkpoint(node: &Node, slot: &DomainSlot) -> Result<(), End> {
    let mut guard = slot.domain();
    let domain = guard.as_mut().expect("a domain that serves is open");
    // It was given nothing that is not dispatched, and what is dispatched is durable. What made it may have been dispatched in an
    // earlier life: then the catalog has it, or the domain's own checkpoint.
    let Some(dispatched) = node.dispatched.borrow().max(node.catalog().at()) else { return Ok(()) };
    let made = domain.checkpoint(dispatched).and_then(|()| domain.maintain().map(|_| ()));
    match made {
        Ok(()) => slot.set_checkpointed(domain.checkpointed_entry()),
        Err(CheckpointFailed::Stopped(fault)) => return Err(applying::end_of(&fault)),
        // The one before is still valid, and the next one takes everything along.
        Err(error) => node.alarm(format!("{}: no checkpoint: {error}", slot.id)),
    }
    Ok(())
}

async fn take_image(node: &Arc<Node>, slot: &Arc<DomainSlot>, request: ImageRequest) -> Result<(), End> {
    let job = {
        let slot = slot.clone();
        move || {
            let mut guard = slot.domain();
            let domain = guard.as_mut().expect("a domain that serves is open");
            domain.passed(request.at);
            match domain.image() {
                Ok(image) => {
                    // Whoever asked may be gone.
                    let _ = request.reply.send(image);
                    Ok(())
                }
                Err(fault) => {
                    slot.put_back(request);
                    Err(applying::end_of(&fault))
                }
            }
        }
    };
    node.workers.run(job).await
}

async fn close(node: &Arc<Node>, slot: &Arc<DomainSlot>) {
    let job = {
        let (node, slot) = (node.clone(), slot.clone());
        move || {
            let is_open = slot.domain().as_ref().is_some_and(|domain| domain.fault().is_none());
            if is_open && !slot.is_abandoned() && !slot.is_removed() && slot.is_dirty() {
                let _ = checkpoint(&node, &slot);
            }
            drop(slot.domain().take());
        }
    };
    node.workers.run(job).await;
}

/// Removes what is on disk of a domain whose projection is gone, once the catalog on disk says so. What is left over when the node
/// ends before is removed when it is opened.
async fn remove(node: &Arc<Node>, slot: &Arc<DomainSlot>) {
    let (mut durable, mut closing) = (node.durable.subscribe(), node.closing.subscribe());
    tokio::select! {
        gone = durable.wait_for(|durable| !durable.catalog.has_domain(&slot.id)) => {
            if gone.is_err() {
                return;
            }
        }
        _ = closing.wait_for(|closing| *closing) => return,
    }
    let (io, dir) = (node.io.clone(), slot.dir.clone());
    if let Err(error) = node.workers.run(move || removal::remove(&*io, &dir)).await {
        node.alarm(format!("{} cannot be removed: {error}", slot.id));
    }
}
