//! Applying what came to a domain: outcomes are fetched from the partition logs, routed, and given to the domain between its
//! commands, in the order of the log.
//!
//! Invariants
//! - ORD-1: an outcome is given to a domain at its place in the log, whoever decided it when.
//! - What is routed is within the limits of a domain: what cannot be is passed over by every replica alike.
//!
//! Must not know: who waits for answers, how outcomes came about.

use std::collections::BTreeMap;
use std::sync::Arc;

use gapless_partition::{Direction, StoredOutcome, View, Write};
use gapless_projection::{
    Applied, Command, Domain, Done, Event, Fault, Grant, Input, OpenEvent, Place, Plan, Scope, Stamp,
    View as Rows,
};
use gapless_types::{LogIndex, PartitionId, PartitionOffset, WorkspaceId};

use super::answers::Told;
use super::driver::End;
use super::feed::{Fed, Feed, FeedInput};
use super::request::RequestId;
use super::slot::DomainSlot;
use crate::error::ReadError;
use crate::limits::MAX_GRANTED_BYTES;
use crate::node::Node;

/// Outcomes that are read at once.
const PAGE: usize = 128;

/// What is to be applied, with the partitions that have decided it.
pub(super) struct Applying {
    slice: Vec<Feed>,
    outcomes: BTreeMap<PartitionId, Outcomes>,
}

/// Answers for those who asked.
pub(super) type AllTold = Vec<(RequestId, Told)>;

impl Applying {
    /// Waits until the partitions have decided all of it. None if the domain is closing.
    pub(super) async fn prepare(
        node: &Arc<Node>,
        slot: &Arc<DomainSlot>,
        slice: Vec<Feed>,
    ) -> Result<Option<Self>, End> {
        let mut needed: BTreeMap<PartitionId, LogIndex> = BTreeMap::new();
        for feed in &slice {
            for input in &feed.inputs {
                if let Fed::Outcome { partition, .. } = input.what {
                    needed.insert(partition, feed.index);
                }
            }
        }
        let mut outcomes = BTreeMap::new();
        for (partition, index) in needed {
            let Some(view) = view_through(node, slot, partition, index).await? else { return Ok(None) };
            outcomes.insert(partition, Outcomes { view, page: Vec::new() });
        }
        Ok(Some(Self { slice, outcomes }))
    }
}

/// A view of a partition that has decided everything up to an entry. None if the domain is closing.
pub(super) async fn view_through(
    node: &Arc<Node>,
    slot: &DomainSlot,
    partition: PartitionId,
    index: LogIndex,
) -> Result<Option<View>, End> {
    let failed = |error: ReadError| End::Failed(format!("its partition {partition}: {error}"));
    // The partitions are opened before the domains, and close after them.
    let Some(of) = node.slot(partition) else { return Ok(None) };
    let mut closing = slot.closing.subscribe();
    let view = async {
        loop {
            let least = node.applied_through(&of, index).await?;
            let view = node.view_now(&of).await?;
            // One that failed in between and was opened again may have less, until it has caught up.
            if view.applied() >= least {
                return Ok(view);
            }
        }
    };
    tokio::select! {
        biased;
        _ = closing.wait_for(|closing| *closing) => Ok(None),
        view = view => match view {
            Ok(view) => Ok(Some(view)),
            Err(ReadError::Closing) if slot.is_closing() => Ok(None),
            Err(error) => Err(failed(error)),
        },
    }
}

/// Outcomes of one partition, read in pages.
struct Outcomes {
    view: View,
    page: Vec<StoredOutcome>,
}

impl Outcomes {
    /// The outcome at this place, if it is that of a record of this entry.
    fn of_entry(&mut self, offset: PartitionOffset, index: LogIndex) -> Result<Option<&StoredOutcome>, End> {
        let at = |page: &[StoredOutcome]| page.iter().position(|outcome| outcome.offset() == offset);
        let place = match at(&self.page) {
            Some(place) => place,
            None => {
                let read = self.view.outcomes(offset, PAGE, Direction::Forward);
                self.page = read.map_err(|fault| End::Failed(fault.to_string()))?;
                match at(&self.page) {
                    Some(place) => place,
                    // The record was dropped, and nothing has its place yet.
                    None => return Ok(None),
                }
            }
        };
        let outcome = &self.page[place];
        Ok((outcome.header().log_index == index).then_some(outcome))
    }
}

/// Applies a slice. What became of its commands, as far as it was applied.
pub(super) fn apply(node: &Node, slot: &DomainSlot, applying: Applying) -> (AllTold, Result<(), End>) {
    let mut guard = slot.domain();
    let domain = guard.as_mut().expect("a domain that serves is open");
    let Applying { slice, mut outcomes } = applying;
    let mut told = AllTold::new();
    let end = slice.into_iter().try_for_each(|feed| {
        let index = feed.index;
        for input in &feed.inputs {
            apply_input(node, slot, domain, &feed, input, &mut outcomes, &mut told)?;
            relieve(node, domain)?;
        }
        domain.passed(index);
        Ok(())
    });
    slot.working.resolved(domain.watermark());
    slot.set_applied();
    slot.publish(domain);
    (told, end)
}

fn apply_input(
    node: &Node,
    slot: &DomainSlot,
    domain: &mut Domain,
    feed: &Feed,
    input: &FeedInput,
    outcomes: &mut BTreeMap<PartitionId, Outcomes>,
    told: &mut AllTold,
) -> Result<(), End> {
    let place = Place { index: feed.index, position: input.position };
    let stamp = Stamp { time: feed.time.as_millis(), machine_version: feed.machine_version };
    match &input.what {
        Fed::Outcome { partition, offset } => {
            let outcomes = outcomes.get_mut(partition).expect("it was prepared for all of them");
            match outcomes.of_entry(*offset, feed.index)? {
                Some(outcome) => route(node, slot, domain, place, outcome),
                None => Ok(()),
            }
        }
        Fed::Leader => {
            let bytes = Command::LeaderChange.to_bytes();
            domain.apply(place, stamp, Input::Command(&bytes)).map(|_| ()).map_err(|fault| end_of(&fault))
        }
        Fed::Command { id, command } => {
            let applied =
                domain.apply(place, stamp, Input::Command(command)).map_err(|fault| end_of(&fault))?;
            if let Applied::Answered(answer) = applied
                && node.projections.answers.is_awaited(*id)
            {
                told.push((*id, tell(slot, domain, command, answer)?));
            }
            Ok(())
        }
    }
}

/// Prepares an answer, with the events of what was granted.
fn tell(
    slot: &DomainSlot,
    domain: &Domain,
    command: &[u8],
    answer: gapless_projection::Answer,
) -> Result<Told, End> {
    let events = match &answer.done {
        Done::Granted(grants) if !grants.is_empty() => {
            let view = domain.view();
            let events = events_of(&view, grants).map_err(|fault| end_of(&fault))?;
            slot.working.granted(domain.clock(), grants, &events);
            events
        }
        _ => {
            if let Ok(command) = Command::decode(command) {
                slot.working.answered(domain.clock(), &command, &answer);
            }
            Vec::new()
        }
    };
    Ok(Told { answer, events })
}

/// The events of the first grants, as many as one lease may have.
fn events_of(rows: &Rows, grants: &[Grant]) -> Result<Vec<Option<OpenEvent>>, Fault> {
    let (mut events, mut bytes) = (Vec::new(), 0);
    for grant in grants {
        let event = rows.event(grant.slot)?;
        bytes += event.as_ref().map_or(0, OpenEvent::length);
        if bytes > MAX_GRANTED_BYTES && !events.is_empty() {
            break;
        }
        events.push(event);
    }
    Ok(events)
}

/// Gives an outcome to the domain, if it is an event that the projection takes.
pub(super) fn route(
    node: &Node,
    slot: &DomainSlot,
    domain: &mut Domain,
    place: Place,
    outcome: &StoredOutcome,
) -> Result<(), End> {
    let write = outcome.write().map_err(|fault| End::Failed(fault.to_string()))?;
    let Some(write) = write.filter(|write| slot.plan.takes(write.event_type)) else { return Ok(()) };
    let key = slot.plan.key_of(write.workspace.get(), write.payload);
    let event = event_of(&slot.plan, outcome.offset(), &write, key.as_deref());
    if !event.is_within_limits() {
        return Ok(());
    }
    let header = outcome.header();
    // Found out from where its record stands, so that it is the same for one that comes from history (NUM-3).
    let machine_version = node.catalog().machine_version_at(header.log_index);
    let stamp = Stamp { time: header.time, machine_version };
    domain.apply(place, stamp, Input::Outcome(event)).map(|_| ()).map_err(|fault| end_of(&fault))
}

/// An event of a partition, as a projection sees it.
pub(crate) fn event_of<'a>(
    plan: &Plan,
    source: PartitionOffset,
    write: &Write<'a>,
    key: Option<&'a str>,
) -> Event<'a> {
    let workspace = match plan.scope {
        Scope::Workspace => write.workspace,
        Scope::Namespace => WorkspaceId::NAMESPACE,
    };
    Event { source, workspace, event_type: write.event_type, key, payload: write.payload }
}

/// Makes a checkpoint when the store asks for one, so that it never takes no more.
pub(super) fn relieve(node: &Node, domain: &mut Domain) -> Result<(), End> {
    if !domain.wants_checkpoint() {
        return Ok(());
    }
    let Some(dispatched) = *node.dispatched.borrow() else { return Ok(()) };
    let made = domain.checkpoint(dispatched).and_then(|()| domain.maintain().map(|_| ()));
    made.map_err(|error| End::Failed(error.to_string()))
}

/// How a domain ends that has stopped with this.
pub(super) fn end_of(fault: &Fault) -> End {
    match fault.is_damage() {
        true => End::Quarantined(fault.to_string()),
        false => End::Failed(fault.to_string()),
    }
}
