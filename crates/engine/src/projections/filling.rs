//! What happened before there was a projection: its domains open slots for it from the partition logs, before anything else.
//!
//! Partition logs are the same on every replica, so the slots are, too. Of one partition, outcomes come in its own order; of several,
//! by log index, and those of the same entry partition by partition.
//!
//! Invariants
//! - Every outcome of an entry in front of the one that made the projection is given once, whatever is interrupted when.
//!
//! Must not know: commands, the replicated log.

use std::sync::Arc;

use gapless_partition::{Direction, StoredOutcome, View};
use gapless_projection::Place;
use gapless_types::{LogIndex, PartitionOffset};

use super::applying::{relieve, route, view_through};
use super::driver::End;
use super::slot::DomainSlot;
use crate::node::Node;

/// Outcomes that are read at once.
const PAGE: usize = 256;
/// Outcomes that are given in one turn.
const TURN: usize = 1024;

/// Opens slots for everything that was before the projection, unless that was done.
pub(super) async fn fill(node: &Arc<Node>, slot: &Arc<DomainSlot>) -> Result<(), End> {
    let next = slot.domain().as_ref().expect("it was opened").next_entry();
    if next > slot.since {
        return Ok(());
    }
    slot.set_dirty();
    let mut cursors = Vec::new();
    for partition in &slot.partitions {
        let Some(view) = view_through(node, slot, *partition, slot.since).await? else { return Ok(()) };
        cursors.push(Cursor { view, page: Vec::new().into_iter(), next: None, is_at_end: false });
    }
    let begin = {
        let from = next;
        move |mut cursors: Vec<Cursor>| {
            cursors.iter_mut().try_for_each(|cursor| cursor.begin(from)).map(|()| cursors)
        }
    };
    let cursors = node.workers.run(move || begin(cursors)).await?;
    let mut merge = Merge { cursors, last: None };
    loop {
        if slot.is_closing() {
            return Ok(());
        }
        let job = {
            let (node, slot) = (node.clone(), slot.clone());
            move || turn(&node, &slot, merge)
        };
        match node.workers.run(job).await? {
            Some(rest) => merge = rest,
            None => return Ok(()),
        }
    }
}

/// Gives the next outcomes; none left if all were given.
fn turn(node: &Node, slot: &DomainSlot, mut merge: Merge) -> Result<Option<Merge>, End> {
    let mut guard = slot.domain();
    let domain = guard.as_mut().expect("it was opened");
    for _ in 0..TURN {
        match merge.next(slot.since)? {
            Some((place, outcome)) => {
                route(node, slot, domain, place, &outcome)?;
                relieve(node, domain)?;
            }
            None => {
                domain.passed(slot.since);
                slot.publish(domain);
                return Ok(None);
            }
        }
    }
    slot.publish(domain);
    Ok(Some(merge))
}

/// Outcomes of several partitions in the order of the log.
struct Merge {
    cursors: Vec<Cursor>,
    last: Option<Place>,
}

impl Merge {
    fn next(&mut self, end: LogIndex) -> Result<Option<(Place, StoredOutcome)>, End> {
        let mut lowest: Option<(LogIndex, usize)> = None;
        for (at, cursor) in self.cursors.iter_mut().enumerate() {
            if let Some(index) = cursor.peek(end)?
                && lowest.is_none_or(|(lowest, _)| index < lowest)
            {
                lowest = Some((index, at));
            }
        }
        let Some((index, at)) = lowest else { return Ok(None) };
        let outcome = self.cursors[at].page.next().expect("it was looked at");
        // Records of one entry have places from 0 on, in the order in which they come here.
        let position = match self.last {
            Some(last) if last.index == index => last.position + 1,
            _ => 0,
        };
        let place = Place { index, position };
        self.last = Some(place);
        Ok(Some((place, outcome)))
    }
}

/// A place in a partition log.
struct Cursor {
    view: View,
    page: std::vec::IntoIter<StoredOutcome>,
    /// The first outcome behind the page.
    next: Option<PartitionOffset>,
    is_at_end: bool,
}

impl Cursor {
    /// Goes to the first outcome that is not of an entry before this one.
    fn begin(&mut self, from: LogIndex) -> Result<(), End> {
        let (mut low, mut high) = (1, self.view.applied().map_or(0, PartitionOffset::get));
        while low <= high {
            let middle = low + (high - low) / 2;
            let outcomes = self.read(PartitionOffset::new(middle), 1)?;
            match outcomes.first().map(|outcome| outcome.header().log_index) {
                Some(index) if index < from => low = middle + 1,
                _ => high = middle - 1,
            }
        }
        self.next = PartitionOffset::new(low);
        Ok(())
    }

    /// The entry of the next outcome, if it is in front of `end`.
    fn peek(&mut self, end: LogIndex) -> Result<Option<LogIndex>, End> {
        if self.page.as_slice().is_empty() && !self.is_at_end {
            let outcomes = self.read(self.next, PAGE)?;
            self.is_at_end = outcomes.is_empty();
            self.next = outcomes.last().and_then(|outcome| outcome.offset().next());
            self.page = outcomes.into_iter();
        }
        let index = self.page.as_slice().first().map(|outcome| outcome.header().log_index);
        Ok(index.filter(|index| *index < end))
    }

    fn read(&self, from: Option<PartitionOffset>, limit: usize) -> Result<Vec<StoredOutcome>, End> {
        let Some(from) = from else { return Ok(Vec::new()) };
        self.view.outcomes(from, limit, Direction::Forward).map_err(|fault| End::Failed(fault.to_string()))
    }
}
