//! ORD-1: effects are applied in the order of slots, once each; the result is the serial fold of the events.
//!
//! What one node said once of a slot is what every node says of it for ever (NUM-3); each effect has to be the one that the fold of
//! the slots in front of it makes of its event.
//!
//! Must not know: who computed what, and how often.

use std::collections::BTreeMap;

use gapless_consensus::NodeId;
use gapless_engine::projection::{Change, Effect, View};
use gapless_engine::retention::Domain;
use gapless_types::{PartitionOffset, WorkspaceId};

use crate::workload::worker::Tally;
use crate::world::life::Life;

/// What is known of all domains.
#[derive(Debug, Default)]
pub(crate) struct Ord1 {
    domains: BTreeMap<Domain, Folded>,
    /// The last slot that each life of a node showed.
    shown: BTreeMap<(NodeId, Domain), (u64, u64)>,
}

#[derive(Debug, Default)]
struct Folded {
    effects: Vec<(Effect, NodeId)>,
    tallies: BTreeMap<WorkspaceId, Tally>,
}

impl Ord1 {
    /// A node shows a domain. What is wrong, or what could not be read.
    pub(crate) fn look(&mut self, life: &Life, domain: &Domain, view: &View) -> Result<(), Wrong> {
        let node = life.node;
        let folded = self.domains.entry(domain.clone()).or_default();
        let shown = self.shown.entry((node, domain.clone())).or_default();
        let after = if shown.0 == life.number { shown.1 } else { 0 };
        for effect in view.effects(after) {
            let effect = effect.map_err(|fault| Wrong::Unreadable(fault.to_string()))?;
            folded.take_in(node, effect).map_err(|what| Wrong::Order(format!("{domain:?}: {what}")))?;
        }
        *shown = (life.number, view.watermark().max(after));
        Ok(())
    }

    /// Everything up to `last` is shown: every one of these events has its slot, in their order.
    pub(crate) fn finish(
        &self,
        domain: &Domain,
        events: impl Iterator<Item = PartitionOffset>,
    ) -> Result<(), String> {
        let folded = self.domains.get(domain);
        let sources =
            folded.into_iter().flat_map(|folded| folded.effects.iter().map(|(effect, _)| effect.source));
        let (sources, events): (Vec<_>, Vec<_>) = (sources.collect(), events.map(Some).collect());
        match sources.starts_with(&events) {
            true => Ok(()),
            false => Err(format!("{domain:?}: slots stand for {sources:?}, events are {events:?}")),
        }
    }
}

/// What a look found.
#[derive(Debug)]
pub(crate) enum Wrong {
    /// It cannot be read.
    Unreadable(String),
    /// It is not the fold.
    Order(String),
}

impl Folded {
    fn take_in(&mut self, node: NodeId, effect: Effect) -> Result<(), String> {
        let place = usize::try_from(effect.slot - 1).unwrap_or(usize::MAX);
        match self.effects.get(place) {
            Some((first, _)) if *first == effect => return Ok(()),
            Some((first, who)) => {
                return Err(format!("node {node} shows {effect:?}, node {who} showed {first:?}"));
            }
            None if place != self.effects.len() => {
                return Err(format!("slot {} comes too early", effect.slot));
            }
            None => {}
        }
        let last = self.effects.last().and_then(|(last, _)| last.source);
        let Some(source) = effect.source.filter(|source| Some(*source) > last) else {
            return Err(format!("slot {} stands for {:?}, behind {last:?}", effect.slot, effect.source));
        };
        let tally = self.tallies.entry(effect.workspace).or_default();
        *tally = tally.with(source);
        if effect.change != Change::Effects(vec![tally.write()]) {
            return Err(format!("slot {} has {:?}, the fold is {tally:?}", effect.slot, effect.change));
        }
        self.effects.push((effect, node));
        Ok(())
    }
}
