//! What is tracked of one partition: where its offsets stand in the replicated log, and who has them.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use gapless_types::{LogIndex, PartitionOffset};

use super::{Offsets, Quorum};
use crate::NodeId;
use crate::ranges::Ranges;

/// Offsets that follow each other and stand at one index, or at indexes that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    last: u64,
    /// Where the first offset stands.
    index: u64,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// All offsets are in one entry; so is a single one.
    Same,
    /// One entry each, and nothing between them.
    One,
}

impl Run {
    fn index_of(&self, first: u64, offset: u64) -> u64 {
        match self.step {
            Step::Same => self.index,
            Step::One => self.index + (offset - first),
        }
    }

    /// The run with one offset more, if that still is a run.
    fn extended(&self, first: u64, index: u64) -> Option<Self> {
        let last = self.last + 1;
        let single = first == self.last;
        match index.checked_sub(self.index_of(first, self.last))? {
            0 if single || self.step == Step::Same => Some(Self { last, step: Step::Same, ..*self }),
            1 if single || self.step == Step::One => Some(Self { last, step: Step::One, ..*self }),
            _ => None,
        }
    }

    /// The last offset, up to `last`, that does not stand above an index; none if the first one does.
    fn last_up_to(&self, first: u64, last: u64, index: u64) -> Option<u64> {
        let above = index.checked_sub(self.index)?;
        Some(match self.step {
            Step::Same => last,
            Step::One => last.min(first.saturating_add(above)),
        })
    }
}

#[derive(Debug)]
pub(super) struct Tracked {
    quorum: Quorum,
    /// Where offsets stand in the log, by the first offset of each run.
    runs: BTreeMap<u64, Run>,
    acknowledged: BTreeMap<NodeId, Ranges>,
    satisfied: Ranges,
    applied: Ranges,
    /// What is tracked and not both satisfied and applied.
    unfinished: Ranges,
}

impl Tracked {
    pub(super) fn new(quorum: Quorum) -> Self {
        Self {
            quorum,
            runs: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            satisfied: Ranges::default(),
            applied: Ranges::default(),
            unfinished: Ranges::default(),
        }
    }

    /// Another quorum counts from now on.
    pub(super) fn set_quorum(&mut self, quorum: Quorum) -> Vec<Offsets> {
        self.acknowledged.retain(|replica, _| quorum.members.contains(replica));
        self.quorum = quorum;
        let spans: Vec<(u64, u64)> = self.runs.iter().map(|(first, run)| (*first, run.last)).collect();
        spans.into_iter().flat_map(|(first, last)| self.satisfy(first..=last)).collect()
    }

    pub(super) fn index_of(&self, offset: PartitionOffset) -> Option<LogIndex> {
        let offset = offset.get();
        let (first, run) = self.runs.range(..=offset).next_back()?;
        (run.last >= offset).then(|| LogIndex::new(run.index_of(*first, offset)))
    }

    pub(super) fn append(&mut self, offset: PartitionOffset, index: LogIndex) {
        if let Some(appended) = self.index_of(offset) {
            if index <= appended {
                return;
            }
            self.forget(offset.get()..=offset.get());
        }
        let (offset, index) = (offset.get(), index.get());
        let before = self.runs.range_mut(..offset).next_back();
        match before.and_then(|(first, run)| {
            let extended = if run.last + 1 == offset { run.extended(*first, index) } else { None };
            extended.map(|extended| (run, extended))
        }) {
            Some((run, extended)) => *run = extended,
            None => {
                self.runs.insert(offset, Run { last: offset, index, step: Step::Same });
            }
        }
        self.unfinished.insert(offset..=offset);
        if self.quorum.needed() == 0 {
            self.satisfy(offset..=offset);
        }
    }

    /// A replica has these offsets, as far as they do not stand above the index. Strangers do not count.
    pub(super) fn acknowledge(&mut self, offsets: Offsets, index: LogIndex, replica: NodeId) -> Vec<Offsets> {
        if !self.quorum.members.contains(&replica) {
            return Vec::new();
        }
        let spans = self.spans(offsets.start().get()..=offsets.end().get());
        let mut newly = Vec::new();
        for (first, last, from, run) in spans {
            let Some(last) = run.last_up_to(first, last, index.get()).filter(|last| *last >= from) else {
                continue;
            };
            self.acknowledged.entry(replica).or_default().insert(from..=last);
            newly.extend(self.satisfy(from..=last));
        }
        newly
    }

    pub(super) fn apply(&mut self, offsets: Offsets) {
        for (_, last, from, _) in self.spans(offsets.start().get()..=offsets.end().get()) {
            self.applied.insert(from..=last);
            self.finish(from..=last);
        }
    }

    /// Members that have an offset, and whether they are or were enough.
    pub(super) fn status(&self, offset: PartitionOffset) -> (usize, bool) {
        let count = self.acknowledged.values().filter(|offsets| offsets.contains(offset.get())).count();
        (count, self.satisfied.contains(offset.get()))
    }

    /// The lowest index of what is not finished.
    pub(super) fn min_unfinished(&self) -> Option<LogIndex> {
        // Indexes need not ascend with offsets: an offset that was appended again stands above later ones until those were too.
        self.unfinished
            .within(0..=u64::MAX)
            .flat_map(|(first, last)| self.spans(first..=last))
            .map(|(first, _, from, run)| LogIndex::new(run.index_of(first, from)))
            .min()
    }

    pub(super) fn truncate_from(&mut self, index: LogIndex) {
        let cut: Vec<(u64, u64)> = (self.runs.iter())
            .filter_map(|(&first, run)| {
                let kept = match index.get().checked_sub(1) {
                    None => None,
                    Some(last_kept) => run.last_up_to(first, run.last, last_kept),
                };
                let from = kept.map_or(first, |kept| kept + 1);
                (from <= run.last).then_some((from, run.last))
            })
            .collect();
        cut.into_iter().for_each(|(from, last)| self.forget(from..=last));
    }

    /// Forgets everything about offsets that are tracked.
    pub(super) fn forget(&mut self, offsets: RangeInclusive<u64>) {
        for (first, last, from, run) in self.spans(offsets.clone()) {
            self.runs.remove(&first);
            if first < from {
                self.runs.insert(first, Run { last: from - 1, ..run });
            }
            if last < run.last {
                let index = run.index_of(first, last + 1);
                self.runs.insert(last + 1, Run { index, ..run });
            }
        }
        self.acknowledged.values_mut().for_each(|ranges| ranges.remove(offsets.clone()));
        self.satisfied.remove(offsets.clone());
        self.applied.remove(offsets.clone());
        self.unfinished.remove(offsets);
    }

    pub(super) fn release_finished(&mut self) {
        let finished: Vec<(u64, u64)> = (self.runs.iter())
            .flat_map(|(&first, run)| self.applied.within(first..=run.last))
            .flat_map(|(first, last)| self.satisfied.within(first..=last))
            .collect();
        finished.into_iter().for_each(|(first, last)| self.forget(first..=last));
    }

    /// The runs within some offsets: first offset of the run, last and first offset within, the run.
    fn spans(&self, offsets: RangeInclusive<u64>) -> Vec<(u64, u64, u64, Run)> {
        let (from, to) = offsets.into_inner();
        (self.runs.range(..=to).rev())
            .take_while(|(_, run)| run.last >= from)
            .map(|(&first, &run)| (first, run.last.min(to), first.max(from), run))
            .collect()
    }

    /// Marks what enough members have.
    fn satisfy(&mut self, offsets: RangeInclusive<u64>) -> Vec<Offsets> {
        let mut newly = Vec::new();
        for (first, last) in self.held_by_enough(offsets) {
            let mut from = first;
            while let Some(missing) = self.satisfied.first_missing(from..=last) {
                let end = self.satisfied.within(missing..=last).next().map_or(last, |(known, _)| known - 1);
                newly.push((missing, end));
                if end == last {
                    break;
                }
                from = end + 1;
            }
        }
        for (first, last) in &newly {
            self.satisfied.insert(*first..=*last);
            self.finish(*first..=*last);
        }
        let offset = |number| PartitionOffset::new(number).expect("offsets that are tracked start at 1");
        newly.into_iter().map(|(first, last)| offset(first)..=offset(last)).collect()
    }

    /// Those of the offsets that enough members have acknowledged.
    fn held_by_enough(&self, offsets: RangeInclusive<u64>) -> Vec<(u64, u64)> {
        let needed = self.quorum.needed();
        if needed == 0 {
            return vec![offsets.into_inner()];
        }
        // Where a member's ranges begin and end: between two such places the count does not change.
        let mut changes: BTreeMap<u64, isize> = BTreeMap::new();
        for ranges in self.acknowledged.values() {
            for (first, last) in ranges.within(offsets.clone()) {
                *changes.entry(first).or_default() += 1;
                *changes.entry(last + 1).or_default() -= 1;
            }
        }
        let (mut held, mut count, mut since) = (Vec::new(), 0_isize, None);
        for (at, change) in changes {
            count += change;
            let enough = usize::try_from(count).is_ok_and(|count| count >= needed);
            match (enough, since) {
                (true, None) => since = Some(at),
                (false, Some(first)) => {
                    held.push((first, at - 1));
                    since = None;
                }
                _ => {}
            }
        }
        held
    }

    /// Takes what is both satisfied and applied off the list of what is needed.
    fn finish(&mut self, offsets: RangeInclusive<u64>) {
        let finished: Vec<(u64, u64)> = (self.applied.within(offsets))
            .flat_map(|(first, last)| self.satisfied.within(first..=last))
            .collect();
        finished.into_iter().for_each(|(first, last)| self.unfinished.remove(first..=last));
    }

    /// How many runs and ranges there are.
    #[cfg(test)]
    pub(super) fn pieces(&self) -> usize {
        let acknowledged: usize = self.acknowledged.values().map(Ranges::count).sum();
        self.runs.len()
            + acknowledged
            + self.satisfied.count()
            + self.applied.count()
            + self.unfinished.count()
    }
}
