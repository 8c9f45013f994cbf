//! ACK-1, seen by clients: an acknowledged write stands where its acknowledgement says, for ever, and every retry is told the same.
//!
//! A write whose outcome nobody knows stays open until somebody is told. What was acknowledged before something else was asked for
//! stands in front of it: numbers are dense, so this takes one sort of all writes, n log n.
//!
//! Must not know: how a write got where it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use gapless_partition::{Committed, Header, Outcome};
use gapless_types::{IdempotencyKey, PartitionId, PartitionOffset};

/// Numbers an intended write.
pub(crate) type IntentId = u64;

/// What is known of all intended writes.
#[derive(Debug, Default)]
pub(crate) struct Ack1 {
    intents: BTreeMap<IntentId, Intended>,
    /// Acknowledged writes by their places.
    places: BTreeMap<(PartitionId, PartitionOffset), IntentId>,
    /// The last place of a partition that was acknowledged.
    acknowledged: BTreeMap<PartitionId, PartitionOffset>,
    /// Counts questions and answers, in the order in which they happened.
    moments: u64,
}

#[derive(Debug)]
struct Intended {
    key: IdempotencyKey,
    asked: u64,
    answered: Option<u64>,
    outcome: Option<Arc<Outcome>>,
    found: bool,
}

impl Ack1 {
    /// Somebody is about to ask for a write the first time.
    pub(crate) fn ask(&mut self, intent: IntentId, key: IdempotencyKey) {
        self.moments += 1;
        let asked = self.moments;
        self.intents.insert(intent, Intended { key, asked, answered: None, outcome: None, found: false });
    }

    /// Somebody was told an outcome. Whether he is the first.
    pub(crate) fn answer(&mut self, intent: IntentId, outcome: &Arc<Outcome>) -> Result<bool, String> {
        self.moments += 1;
        let moment = self.moments;
        let Some(intended) = self.intents.get_mut(&intent) else {
            return Err(format!("write {intent} was never asked for"));
        };
        if let Some(first) = &intended.outcome {
            return match first == outcome {
                true => Ok(false),
                false => Err(format!("write {intent} was told {first:?} and then {outcome:?}")),
            };
        }
        intended.outcome = Some(outcome.clone());
        intended.answered = Some(moment);
        let Outcome::Committed(committed) = &**outcome else { return Ok(true) };
        let place = (committed.partition, committed.partition_offset);
        if let Some(other) = self.places.insert(place, intent) {
            return Err(format!("writes {other} and {intent} were both told the place {place:?}"));
        }
        let last = self.acknowledged.entry(committed.partition).or_insert(committed.partition_offset);
        *last = committed.partition_offset.max(*last);
        Ok(true)
    }

    /// The last place of a partition that anybody was told of so far.
    pub(crate) fn acknowledged(&self, partition: PartitionId) -> Option<PartitionOffset> {
        self.acknowledged.get(&partition).copied()
    }

    /// Some place that somebody was told of.
    pub(crate) fn some_place(&self, number: u64) -> Option<(PartitionId, PartitionOffset)> {
        let count = self.places.len() as u64;
        let number = usize::try_from(number.checked_rem(count)?).ok()?;
        self.places.keys().nth(number).copied()
    }

    /// Takes in an outcome that stands in a partition.
    pub(crate) fn fold(&mut self, partition: PartitionId, header: &Header<'_>) -> Result<(), String> {
        match self.places.get(&(partition, header.partition_offset)) {
            Some(&intent) => self.compare(intent, header),
            None => Ok(()),
        }
    }

    /// Holds an acknowledgement against what stands at its place.
    pub(crate) fn compare(&mut self, intent: IntentId, header: &Header<'_>) -> Result<(), String> {
        let Some(intended) = self.intents.get_mut(&intent) else { return Ok(()) };
        let Some(Outcome::Committed(committed)) = intended.outcome.as_deref() else { return Ok(()) };
        intended.found = true;
        if header.key == Some(intended.key) && stands(committed, header) {
            return Ok(());
        }
        Err(format!("write {intent} was told {committed:?}, but there stands {header:?}"))
    }

    /// Places that were told, and nobody has read an outcome there.
    pub(crate) fn not_found(&self) -> Vec<(PartitionId, PartitionOffset, IntentId)> {
        let missing = |intent: &IntentId| self.intents.get(intent).is_some_and(|intended| !intended.found);
        let places = self.places.iter().filter(|(_, intent)| missing(intent));
        places.map(|((partition, offset), intent)| (*partition, *offset, *intent)).collect()
    }

    /// Writes of which nobody knows the outcome.
    pub(crate) fn open(&self) -> usize {
        self.intents.values().filter(|intended| intended.outcome.is_none()).count()
    }

    /// How many were asked for, and how many were acknowledged as committed.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.intents.len(), self.places.len())
    }

    /// What was acknowledged before another was asked for stands in front of it.
    pub(crate) fn check_order(&self) -> Result<(), String> {
        let mut moments: Vec<(u64, bool, PartitionId, u64, IntentId)> = Vec::new();
        for ((partition, offset), intent) in &self.places {
            let Some(intended) = self.intents.get(intent) else { continue };
            moments.push((intended.asked, false, *partition, offset.get(), *intent));
            moments.extend(intended.answered.map(|at| (at, true, *partition, offset.get(), *intent)));
        }
        moments.sort_unstable();
        let mut behind: BTreeMap<PartitionId, (u64, IntentId)> = BTreeMap::new();
        for (_, answered, partition, offset, intent) in moments {
            let last = behind.entry(partition).or_default();
            if answered {
                *last = (offset, intent).max(*last);
            } else if offset < last.0 {
                return Err(format!(
                    "write {intent} stands at {offset} of partition {partition}, in front of write {} at {}, which was \
                     acknowledged before it was asked for",
                    last.1, last.0
                ));
            }
        }
        Ok(())
    }
}

fn stands(committed: &Committed, header: &Header<'_>) -> bool {
    committed.log_index == header.log_index
        && Some(committed.workspace_offset) == header.workspace_offset
        && Some(committed.client_sequence) == header.client_sequence
        && committed.record_ids == header.record_ids
        && committed.committed_at == header.time
        && committed
            .numbers
            .iter()
            .map(|(_, number)| *number)
            .eq(header.numbers.iter().map(|(_, number)| *number))
}
